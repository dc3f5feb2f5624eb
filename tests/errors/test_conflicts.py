"""What is said where nothing can be scheduled: each cause word for word, with reliefs that hold.

The texts stand in `conflicts/`. `pytest --snapshot-update` writes them anew; review them like code.
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from plan_problems import conv2d, elementwise, gemm, gemm_option, problem, tiled_gemm

from isamap.plan.check import check_schedule
from isamap.plan.problem import NestOption, Problem, with_fields
from isamap.scheduler import AnalyticModel, k_best, schedule
from isamap.scheduler.conflicts.conflicts import explain
from isamap.source import Diagnostic, Infeasible


def renamed(option: NestOption, old: str, new: str) -> NestOption:
    """Return the option with an axis of another name."""
    return replace(
        option,
        mapping=option.mapping.replace("fma16", f"fma16_{new}"),
        axes=tuple(replace(axis, name=new if axis.name == old else axis.name) for axis in option.axes),
        operands=tuple(
            replace(operand, axes=tuple(new if axis == old else axis for axis in operand.axes))
            for operand in option.operands
        ),
    )


FOLDER = Path(__file__).parent / "conflicts"
GEMM = gemm(512, 512, 512)
THREADED = replace(GEMM, threads=4)
TILED = tiled_gemm(256, 256, 4096)
BROADCAST = gemm_option(64, 64, 64)
TWO = problem(BROADCAST, renamed(BROADCAST, "m", "x"))
UNLOADABLE = replace(
    BROADCAST,
    operands=(with_fields(BROADCAST.operands[0], direct_ns=None, staged_ns=None), *BROADCAST.operands[1:]),
)
UNFOLLOWED = problem(
    replace(BROADCAST, operands=(replace(BROADCAST.operands[0], axes=("m",)), *BROADCAST.operands[1:]))
)
PAIRS = problem(gemm_option(64, 64, 64, memory="pair"), registers={"pair": 8})
WIDE = replace(
    PAIRS,
    nests=tuple(
        replace(
            nest,
            options=tuple(
                replace(o, operands=tuple(replace(p, registers=2) for p in o.operands)) for o in nest.options
            ),
        )
        for nest in PAIRS.nests
    ),
)

CASES: dict[str, tuple[Problem, dict[str, int]]] = {
    "registers": (
        GEMM,
        {"unroll.m": 8, "unroll.n": 8, "block.k": 256},
    ),
    "registers of one axis": (
        GEMM,
        {"unroll.m": 33},
    ),
    "operands of several registers": (
        WIDE,
        {"unroll.m": 4},
    ),
    "unrolled beyond the axis": (
        GEMM,
        {"unroll.m": 600},
    ),
    "unrolled too far": (
        GEMM,
        {"unroll.m": 16, "unroll.n": 16},
    ),
    "a whole copy that cannot be early": (
        GEMM,
        {"stage.b": 2, "ahead.b": 1},
    ),
    "copies that lanes cannot share": (
        problem(replace(GEMM.nests[0].options[0], shares_work=False)),
        {"ahead.b": 2},
    ),
    "nothing to be early for": (
        GEMM,
        {"ahead.b": 1, "block.n": 512, "block.k": 512},
    ),
    "a result in parts that cannot be late": (
        GEMM,
        {"spread.c": 1, "block.k": 128},
    ),
    "a sum that is not the innermost one": (
        conv2d(1, 64, 32, 8, 8, 3, 3),
        {"unroll.c": 2},
    ),
    "a sum that an operand does not follow": (
        UNFOLLOWED,
        {"unroll.k": 2},
    ),
    "a sum unrolled too far": (
        GEMM,
        {"unroll.m": 9, "unroll.n": 3, "unroll.k": 4},
    ),
    "an axis of one issue": (
        elementwise(1, 64),
        {"unroll.m": 4},
    ),
    "a block that is not a multiple": (
        GEMM,
        {"block.n": 100, "unroll.m": 4},
    ),
    "a block smaller than what is unrolled": (
        GEMM,
        {"unroll.m": 8, "block.m": 4},
    ),
    "a block of part of an issue": (
        elementwise(8, 16),
        {"block.n": 4},
    ),
    "orders in a circle": (
        GEMM,
        {"order.m.n": 1, "order.n.k": 1, "order.m.k": 0, "block.k": 64},
    ),
    "partial sums that cannot rest": (
        TILED,
        {"block.k": 512, "stage.c": 0},
    ),
    "no move in place": (
        TILED,
        {"stage.b": 0},
    ),
    "no move from a buffer": (
        elementwise(64, 64),
        {"stage.c": 1},
    ),
    "an accumulator staged as a whole": (
        TILED,
        {"stage.c": 2},
    ),
    "a mapping that does not exist": (
        TWO,
        {"mapping": 7},
    ),
    "decisions of two mappings": (
        TWO,
        {"unroll.m": 2, "unroll.x": 2},
    ),
    "the decision of another mapping": (
        TWO,
        {"mapping": 1, "unroll.m": 2},
    ),
    "two conflicts at once": (
        GEMM,
        {"unroll.m": 33, "block.n": 100},
    ),
    "a machine of two registers": (
        replace(gemm(64, 64, 64), registers=(("zmm", 2),)),
        {},
    ),
    "more parts than issues": (
        THREADED,
        {"parallel.n": 33},
    ),
    "parts that issues do not make": (
        THREADED,
        {"parallel.n": 20},
    ),
    "a sum that threads cannot share": (
        THREADED,
        {"parallel.k": 2},
    ),
    "an operand that nothing loads": (
        problem(UNLOADABLE),
        {},
    ),
    "a mapping whose operand nothing loads": (
        problem(BROADCAST, UNLOADABLE),
        {"mapping": 1, "unroll.m": 2},
    ),
}


def named(fixed: dict[str, int]) -> dict[str, int]:
    return {f"nest0.{name}": value for name, value in fixed.items()}


def refusal(question: Problem, fixed: dict[str, int]) -> Diagnostic:
    with pytest.raises(Infeasible) as refused:
        schedule(question, heuristic="greedy", fixed=fixed)
    (found,) = refused.value.diagnostics
    assert refused.value.exit_code == 3
    return found


@pytest.mark.parametrize("name", CASES)
def test_a_conflict_is_named_with_its_numbers(name: str, pytestconfig: pytest.Config) -> None:
    path = FOLDER / f"{name.replace(' ', '-')}.txt"
    question, fixed = CASES[name]
    found = refusal(question, named(fixed)).render() + "\n"
    if pytestconfig.getoption("update_snapshots"):
        path.write_text(found, encoding="utf-8")
    assert found == path.read_text(encoding="utf-8")


def test_every_text_has_its_case() -> None:
    assert {path.stem for path in FOLDER.glob("*.txt")} == {name.replace(" ", "-") for name in CASES}


@pytest.mark.parametrize("heuristic", ["cpsat", "annealing"])
def test_every_heuristic_refuses_in_the_same_words(heuristic: str) -> None:
    question, fixed = CASES["registers"]
    with pytest.raises(Infeasible) as refused:
        schedule(question, heuristic=heuristic, fixed=named(fixed))
    assert refused.value.diagnostics == (refusal(question, named(fixed)),)


def test_a_ranking_refuses_in_the_same_words() -> None:
    question, fixed = CASES["registers"]
    with pytest.raises(Infeasible) as refused:
        k_best(question, AnalyticModel(), 3, fixed=named(fixed))
    assert refused.value.diagnostics == (refusal(question, named(fixed)),)


@pytest.mark.exhaustive(fast=8)
@pytest.mark.parametrize("name", CASES)
def test_each_relief_that_is_named_leads_to_a_schedule(name: str) -> None:
    question, short = CASES[name]
    fixed = named(short)
    found = refusal(question, fixed)
    if any("other conflicts" in note for note in found.notes):
        fixed = {"nest0.unroll.m": 33}  # the one that is named
    changes = [{n: int(value)} for n, value in re.findall(r"(nest0[\w.]+) = (\d+)", found.help or "")]
    left = re.search(r"leaving (.*?) to the solver", found.help or "")
    tried = [{**fixed, **change} for change in changes]
    dropped = left[1].split(" or ") if left else []
    tried += [{n: value for n, value in fixed.items() if n != other} for other in dropped]
    assert tried or found.code in ("fix-mapping", "too-few-registers", "unmoved-operand")
    for changed in tried:
        assert check_schedule(schedule(question, heuristic="greedy", fixed=changed), question) == ()


def test_a_block_that_only_few_unrollings_allow_is_found() -> None:
    """Greedy looks at the register blocks that promise most; none of those has to go with what is fixed."""
    question = conv2d(8, 256, 256, 28, 28, 3, 3)
    fixed = {"nest0.block.k": 16, "nest0.block.q": 1, "nest0.block.p": 1}
    found = schedule(question, heuristic="greedy", fixed=fixed)
    assert check_schedule(found, question) == ()


def test_what_can_be_scheduled_needs_no_explanation() -> None:
    assert explain(GEMM, {"nest0.unroll.m": 4}) == ()


def test_each_statement_without_a_schedule_is_explained() -> None:
    both = replace(GEMM, nests=(*GEMM.nests, replace(elementwise(64, 64).nests[0], statement=1)))
    fixed = {"nest0.unroll.m": 33, "nest1.stage.c": 1}
    assert [found.code for found in explain(both, fixed)] == ["fix-registers", "fix-stage"]
