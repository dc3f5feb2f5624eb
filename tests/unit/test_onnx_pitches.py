"""Rows of tensors between kernels: apart where they would share a few sets of the nearest cache."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("onnx", reason="models of ONNX need the package onnx: pip install 'isamap[onnx]'")

from onnx_models import Described, evaluated, imported, make

from isamap.graph.model_program import KernelCall, ModelProgram, Move, Port, TensorView
from isamap.graph.planning import apart_bytes, find_pitches, room_bytes
from isamap.machine import load_machine
from isamap.onnx import compile_model

X, Y = TensorView("x", "f32", (7, 512)), TensorView("y", "f32", (7, 512))


def of_tensor(*seen: TensorView, moved: bool = False) -> dict[str, int]:
    """Return the pitches where a tensor is written by one kernel, and looked at like this."""
    first = KernelCall("k", {"a0": X}, {"y0": seen[0]})
    others = tuple(KernelCall("k", {"a0": passed}, {"y0": Y}) for passed in seen)
    moves = (Move("gather", (seen[0],), (Y,), ()),) if moved else ()
    program = ModelProgram("p", (Port("x", X),), (Port("y", Y),), {}, {}, (first, *others, *moves))
    return find_pitches(program, load_machine("x86-avx512"))


@pytest.mark.parametrize(("row", "pitch"), [(512, 2112), (1024, 4160), (256, 1088), (1536, 6208)])
def test_rows_that_share_a_few_sets_lie_a_line_further_apart(row: int, pitch: int) -> None:
    assert of_tensor(TensorView("t", "f32", (7, 7, row))) == {"t": pitch}


@pytest.mark.parametrize("row", [500, 96, 320, 128, 1])
def test_other_rows_stay_dense(row: int) -> None:
    assert of_tensor(TensorView("t", "f32", (7, 7, row))) == {}


def test_what_is_moved_or_seen_in_other_rows_stays_dense() -> None:
    own = TensorView("t", "f32", (7, 7, 512))
    assert of_tensor(own, TensorView("t", "f32", (49, 512))) == {"t": 2112}
    assert of_tensor(own, TensorView("t", "f32", (49 * 512,))) == {}
    assert of_tensor(own, TensorView("t", "f32", (49, 16, 32))) == {}
    assert of_tensor(own, moved=True) == {}


def test_distances_and_room_go_by_the_pitch() -> None:
    passed, pitches = TensorView("t", "f32", (1, 7, 7, 512)), {"t": 2112}
    assert [apart_bytes(passed, axis, pitches) for axis in range(3)] == [49 * 2112, 7 * 2112, 2112]
    assert [apart_bytes(passed, axis, {}) for axis in range(3)] == [49 * 2048, 7 * 2048, 2048]
    assert (room_bytes(passed, pitches), room_bytes(passed, {})) == (49 * 2112, 49 * 2048)


def test_results_are_those_of_dense_rows() -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((1, 8, 5, 5), np.float32)
    weights = {
        "first": rng.standard_normal((256, 8, 3, 3), np.float32),
        "second": rng.standard_normal((8, 256, 3, 3), np.float32),
    }
    nodes: Described = [
        ("Conv", ["x", "first"], ["a"], {"pads": [1] * 4}),
        ("Relu", ["a"], ["b"], {}),
        ("Conv", ["b", "second"], ["c"], {"pads": [1] * 4, "strides": [2, 2]}),
        ("Add", ["c", "c"], ["y"], {}),
    ]
    model = make(nodes, {"x": x}, ["y"], weights)
    found = imported(model)
    assert find_pitches(found.whole(), load_machine("x86-avx512")) != {}
    made = compile_model(found, "x86-avx512")
    (expected,) = evaluated(model, {"x": x})
    np.testing.assert_allclose(made({"x": x})["y"], expected, rtol=1e-4, atol=1e-3)
