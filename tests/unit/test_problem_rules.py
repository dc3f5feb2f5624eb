"""The verifier of scheduling problems: each planted fault is named, in compilations of tests and of no user."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from math import inf, nan

import pytest
from plan_problems import gemm
from unit.rewriting import shipped

from isamap.driver import formulation
from isamap.driver.compiling import compile_program
from isamap.driver.request import Request
from isamap.formulate.build import build_problem
from isamap.ir import bind
from isamap.machine import load_machine
from isamap.plan.check.problem_rules import check_problem
from isamap.plan.problem import Flow, Fusion, NestOption, Problem, Start, TileOperand, with_fields
from isamap.plan.text.problem import print_problem
from isamap.source import NoMapping, Source
from isamap.transform import make_guards_explicit

SIZES = {"M": 37, "N": 50, "K": 48, "R": 3, "S": 3, "C": 19, "H": 14, "W": 13}


@pytest.mark.parametrize("machine", ["x86-avx2", "x86-amx", "edge-npu"])
@pytest.mark.parametrize("kernel", ["gemm_f32", "softmax_f32", "gemm_s8s8_requant"])
def test_a_formulated_problem_keeps_the_rules(kernel: str, machine: str) -> None:
    text = shipped(kernel)
    bound = bind(text, {p.name: SIZES.get(p.name, 8) for p in text.params if p.dtype is None})
    try:
        problem = build_problem(make_guards_explicit(bound), load_machine(machine), {}, threads=2)
    except NoMapping as missing:
        pytest.skip(missing.diagnostics[0].message)
    assert check_problem(problem) == ()


def test_problems_made_by_hand_keep_the_rules() -> None:
    assert check_problem(gemm(64, 64, 64)) == ()


def of_option(**values: object) -> Callable[[Problem], Problem]:
    """Return a change of the only option of a problem."""

    def change(problem: Problem) -> Problem:
        (nest,) = problem.nests
        (option,) = nest.options
        changed: NestOption = replace(option, **values)  # type: ignore[arg-type]
        return replace(problem, nests=(replace(nest, options=(changed,)),))

    return change


def of_operand(name: str, **values: object) -> Callable[[Problem], Problem]:
    """Return a change of one operand of the only option."""

    def change(problem: Problem) -> Problem:
        def changed(o: TileOperand) -> TileOperand:
            return with_fields(o, **values) if o.name == name else o

        return of_option(operands=tuple(map(changed, problem.nests[0].options[0].operands)))(problem)

    return change


def of_nest(**values: object) -> Callable[[Problem], Problem]:
    return lambda p: replace(p, nests=(replace(p.nests[0], **values),))  # type: ignore[arg-type]


def of_problem(**values: object) -> Callable[[Problem], Problem]:
    return lambda p: replace(p, **values)  # type: ignore[arg-type]


GOOD = gemm(64, 64, 64)
TEXT = "kernel relu(N) { inout C: f32[N]; for n in N { C[n] = max(C[n], 0); } }"
RELU = Request(Source("relu.ir", TEXT), "generic-c", {"N": 8}, heuristic="greedy", cache=False)
OPTION = GOOD.nests[0].options[0]
FAULTS: tuple[tuple[str, Callable[[Problem], Problem]], ...] = (
    ("registers: `zmm` is there twice", of_problem(registers=(("zmm", 32), ("zmm", 16)))),
    ("registers `zmm` is -1", of_problem(registers=(("zmm", -1),))),
    ("addresses `acc` is 0", of_problem(address_steps=(("acc", 0),))),
    ("caches: `l1` is there twice", of_problem(caches=(GOOD.caches[0], GOOD.caches[0]))),
    ("cache `l1` has no capacity", of_problem(caches=(replace(GOOD.caches[0], capacity_bytes=0),))),
    ("cache `l1` has a negative number", of_problem(caches=(replace(GOOD.caches[0], ways=-1),))),
    ("hinted cache `l9` does not exist", of_problem(hinted=("l9",))),
    ("0 threads", of_problem(threads=0)),
    ("time `threads` is -1", of_problem(thread_start_ns=-1.0)),
    ("the statements [0, 0] are not in order", of_problem(nests=(GOOD.nests[0], GOOD.nests[0]))),
    ("others from nan ns", of_nest(others_ns=nan)),
    ("a start is of option 1 of 1", of_nest(starts=(Start(1, (), ()),))),
    ("axes: `m` is there twice", of_option(axes=(*OPTION.axes, OPTION.axes[0]))),
    ("operands: `a` is there twice", of_option(operands=(*OPTION.operands, OPTION.operands[0]))),
    ("axis `m` has 64 elements by 0", of_option(axes=(replace(OPTION.axes[0], tile=0), *OPTION.axes[1:]))),
    ("no operand is the result", of_option(operands=OPTION.operands[:2])),
    ("issue `interval` is inf", of_option(interval_ns=inf)),
    ("register `ymm` does not exist", of_option(between=(("ymm", 1),))),
    ("scratchpad `acc` does not exist", of_option(passes=(("acc", 64),))),
    ("axis in parts `q` does not exist", of_option(parts=(("q", 2),))),
    ("the fusion of statement 1 needs (2,)", of_option(fusions=(Fusion(1, (2,), 0.0),))),
    ("fusion of statement 1 `time` is -1", of_option(fusions=(Fusion(1, (), -1.0),))),
    ("operand `a`: axis `q` does not exist", of_operand("a", axes=("m", "q"))),
    ("operand `a`: axis `q` does not exist", of_operand("a", subscripts=((("q", 1),),))),
    ("operand `b`: axis of rows `m` does not exist", of_operand("b", dense_axis="m")),
    ("operand `b`: a size is out of range", of_operand("b", tile_elements=0)),
    ("operand `b`: a size is out of range", of_operand("b", staged_bytes=-4)),
    ("operand `c`: register `tmm` does not exist", of_operand("c", over=(("tmm", 1),))),
    ("operand `c`: its buffer has no memory", of_operand("c", homes=())),
    ("operand `c`: backing memory `acc` does not exist", of_operand("c", homes=("acc",))),
    ("operand `a`: it is read neither in place", of_operand("a", direct_ns=None, staged_ns=None)),
    ("operand `c`: the caller packs a result", of_operand("c", is_packed=True)),
    ("operand `a`: cost `in place` is -1", of_operand("a", direct_ns=-1.0)),
    ("operand `a`: cost `copy` is nan", of_operand("a", pack_ns_per_element=nan)),
    ("operand `a`: hinted cache `l9` does not exist", of_operand("a", hints=(("l9", 0.1),))),
    ("operand `a`: unit of a flow `dma` is -1", of_operand("a", flow=Flow((("dma", -1.0),)))),
)


@pytest.mark.parametrize(("said", "plant"), FAULTS, ids=[said for said, _ in FAULTS])
def test_a_planted_fault_is_named(said: str, plant: Callable[[Problem], Problem]) -> None:
    planted = plant(GOOD)
    assert print_problem(planted) != print_problem(GOOD), "the text has every field"
    found = check_problem(planted)
    assert any(said in one for one in found), found


@pytest.mark.parametrize("is_test", [True, False])
def test_only_compilations_of_tests_check_their_problems(
    is_test: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The planted rule refuses each problem, as a wrong rule would: a user's compilation does not end by it."""

    def refuse(_: Problem) -> tuple[str, ...]:
        return ("a planted rule",)

    monkeypatch.setattr(formulation, "check_problem", refuse)
    if not is_test:
        monkeypatch.delenv("ISAMAP_CHECK_RULES")
    ends = pytest.raises(AssertionError, match="`relu` broke its rules: a planted rule")
    with ends if is_test else nullcontext():
        compile_program(RELU)


def test_the_problem_of_a_compilation_is_the_one_that_is_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    def spoil(*_: object) -> Problem:
        return of_problem(threads=0)(GOOD)

    monkeypatch.setattr(formulation, "problem_in", spoil)
    with pytest.raises(AssertionError, match="broke its rules: 0 threads"):
        compile_program(RELU)
