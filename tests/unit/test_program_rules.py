"""The verifier of a model's program: each planted fault is named, in models of tests and of no user."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from isamap.graph.lowering import program_of
from isamap.graph.making import Making
from isamap.graph.model_program import BodyInput, Control, KernelCall, ModelProgram, Move, Port, TensorView
from isamap.graph.program_rules import check_model


def view(tensor: str, *shape: int, **more: Any) -> TensorView:
    return TensorView(tensor, "f32", shape, **more)


PRODUCT = KernelCall("product", {"a": view("x", 2, 3), "b": view("w", 3, 4)}, {"c": view("t0", 2, 4)})
BODY = ModelProgram(
    "body", (Port("h", view("s", 2, 4)),), (Port("g", view("u", 2, 4)),), {}, {},
    (Move("copy", (view("s", 2, 4),), (view("u", 2, 4),), (32,)),),
)  # fmt: skip
LOOP = Control(
    "loop", "loop0", (BODY,), ((BodyInput("state", 0),),), (view("t0", 2, 4),), (view("t1", 2, 4),),
    trips=3, has_condition=False, starts=(0,),
)  # fmt: skip
GOOD = ModelProgram(
    "made", (Port("x", view("x", 2, 3)),), (Port("y", view("t1", 8)),), {"w": np.ones((3, 4), np.float32)},
    {"product": "kernel …"}, (PRODUCT, LOOP),
)  # fmt: skip


def call(**values: Any) -> Callable[[ModelProgram], ModelProgram]:
    return lambda p: replace(p, steps=(replace(PRODUCT, **values), LOOP))


def loop(**values: Any) -> Callable[[ModelProgram], ModelProgram]:
    return lambda p: replace(p, steps=(PRODUCT, replace(LOOP, **values)))


def whole(**values: Any) -> Callable[[ModelProgram], ModelProgram]:
    return lambda p: replace(p, **values)


FAULTS: tuple[tuple[str, Callable[[ModelProgram], ModelProgram]], ...] = (
    ("the input `x` is there twice", whole(inputs=(GOOD.inputs[0], GOOD.inputs[0]))),
    ("the result `y` is there twice", whole(outputs=(GOOD.outputs[0], GOOD.outputs[0]))),
    ("step 0 calls `product`, which is not a kernel", whole(kernels={})),
    ("nothing calls the kernel `other`", whole(kernels={**GOOD.kernels, "other": ""})),
    ("step 0 reads `t0`, which nothing has written", whole(steps=(LOOP, PRODUCT))),
    ("step 0 reads 384 bits of `x`, which has 192", call(reads={**PRODUCT.reads, "a": view("x", 4, 3)})),
    ("step 0 reads 224 bits of `x`", call(reads={**PRODUCT.reads, "a": view("x", 2, 3, offset=1)})),
    ("step 0 reads 288 bits of `x`", call(reads={**PRODUCT.reads, "a": view("x", 2, 3, strides=(6, 1))})),
    ("with 1 strides for 2 axes", call(reads={**PRODUCT.reads, "a": view("x", 2, 3, strides=(3,))})),
    ("step 0 writes `t0` as f32[-2, 4]", call(writes={"c": view("t0", -2, 4)})),
    ("step 0 writes `t0` as f33[2, 4]", call(writes={"c": TensorView("t0", "f33", (2, 4))})),
    ("step 0 writes `w`, which is an input or a constant", call(writes={"c": view("w", 2, 4)})),
    ("the result `y` is `t9`, which nothing has written", whole(outputs=(Port("y", view("t9", 8)),))),
    ("the result `y` is 288 bits of `t1`", whole(outputs=(Port("y", view("t1", 9)),))),
    ("step 1, `loop0`: it has 2 bodies, and the inputs of 1", loop(bodies=(BODY, BODY))),
    ("its body `body` has 1 inputs, and gets 0", loop(given=((),))),
    ("it names number 1 of its 1 states", loop(given=((BodyInput("state", 1),),))),
    ("it names number 2 of its 1 reads", loop(given=((BodyInput("row", 2),),))),
    ("it names number 1 of its 1 reads", loop(starts=(1,))),
    ("it names number 7 of its 1 reads", loop(trips_at=7)),
    ("it names number 1 of its 1 writes", loop(counted=((1, (0,)),))),
    ("in its body `body`, step 0 reads `z`, which nothing", loop(bodies=(
        replace(BODY, steps=(Move("copy", (view("z", 2, 4),), (view("u", 2, 4),), (32,)),)),
    ))),
)  # fmt: skip


def test_a_good_program_keeps_the_rules() -> None:
    assert check_model(GOOD) == ()
    empty = Port("none", view("t8", 2, 0))
    assert check_model(replace(GOOD, outputs=(*GOOD.outputs, empty))) == (), "nothing writes no elements"


@pytest.mark.parametrize(("said", "plant"), FAULTS, ids=[said for said, _ in FAULTS])
def test_a_planted_fault_is_named(said: str, plant: Callable[[ModelProgram], ModelProgram]) -> None:
    found = check_model(plant(GOOD))
    assert any(said in one for one in found), found


def test_only_models_of_tests_check_their_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    lost = Port("y", view("t9", 8))
    with pytest.raises(AssertionError, match="`made` broke its rules: the result `y` is `t9`, which nothing"):
        program_of("made", (), (lost,), Making(), lambda steps, _: ([], {}))
    monkeypatch.delenv("ISAMAP_CHECK_RULES")
    assert program_of("made", (), (lost,), Making(), lambda steps, _: ([], {})).outputs == (lost,)
