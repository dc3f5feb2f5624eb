"""Fixed decisions: how people may spell them, and schedules of which parts are kept."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest
from plan_problems import answer, elementwise, gemm

from isamap.plan.check import check_schedule
from isamap.plan.decisions import DOMAINS
from isamap.plan.problem import Problem
from isamap.plan.schedule import NestSchedule, Schedule
from isamap.scheduler import complete, schedule
from isamap.scheduler.deciding.fixing import all_names, resolve
from isamap.source import Infeasible, UsageProblem

GEMM = gemm(512, 512, 512)
TWO = replace(GEMM, nests=(*GEMM.nests, replace(elementwise(64, 64).nests[0], statement=1)))


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ({"nest0.block.k": 256}, {"nest0.block.k": 256}),
        ({"block.k": 256}, {"nest0.block.k": 256}),
        ({"tile.K": 256}, {"nest0.block.k": 256}),
        ({"nest0.tile.k": 256}, {"nest0.block.k": 256}),
        ({"mapping": 0}, {"nest0.mapping": 0}),
        ({"Stage.b": 2}, {"nest0.stage.b": 2}),
        ({"order.n.m": 1}, {"nest0.order.m.n": 0}),
        ({"nest0.sweep.n.m": 0}, {"nest0.sweep.m.n": 1}),
        ({"block.k": 256, "tile.K": 256}, {"nest0.block.k": 256}),
    ],
)
def test_a_decision_has_several_spellings(written: dict[str, int], meant: dict[str, int]) -> None:
    assert resolve(GEMM, written) == meant


def test_a_decision_of_one_statement_needs_no_number() -> None:
    assert resolve(TWO, {"block.k": 256, "nest1.block.m": 8}) == {"nest0.block.k": 256, "nest1.block.m": 8}


AMBIGUOUS = """\
error[fix-ambiguous]: `block.m` is a decision of several statements
  help: write `nest0.block.m` or `nest1.block.m`"""
TWICE = "error[fix-twice]: `nest0.block.k` is fixed twice: to 8, and to 16"
UNKNOWN = """\
error[fix-unknown]: there is no decision `{}`
  note: known: nest0.ahead.a, nest0.ahead.b, nest0.block.k, nest0.block.m, nest0.block.n, nest0.mapping, \
nest0.order.m.k, nest0.order.m.n, nest0.order.n.k, nest0.rows.a, nest0.rows.b, nest0.spread.c and others
  help: did you mean `nest0.{}`?"""


@pytest.mark.parametrize(
    ("question", "written", "said"),
    [
        (TWO, {"block.m": 8}, AMBIGUOUS),
        (GEMM, {"block.k": 8, "tile.k": 16}, TWICE),
        (GEMM, {"tile.q": 8}, UNKNOWN.format("tile.q", "block.n")),
        (GEMM, {"unrol.n": 4}, UNKNOWN.format("unrol.n", "unroll.n")),
    ],
)
def test_a_name_that_says_no_one_decision_is_refused(
    question: Problem, written: dict[str, int], said: str
) -> None:
    with pytest.raises(UsageProblem) as refused:
        resolve(question, written)
    assert refused.value.render() == said


def test_parts_for_threads_need_threads() -> None:
    with pytest.raises(UsageProblem) as refused:
        resolve(GEMM, {"parallel.m": 2})
    assert refused.value.render().endswith(
        "axes are partitioned for several threads only: `--threads 2`, from Python `threads=2`"
    )
    assert resolve(replace(GEMM, threads=2), {"parallel.m": 2}) == {"nest0.parallel.m": 2}


AT_LEAST_1 = "a whole number of at least 1"


@pytest.mark.parametrize(
    ("written", "name", "domain", "given"),
    [
        ({"block.k": -3}, "block.k", AT_LEAST_1, "-3"),
        ({"tile.K": 0}, "block.k", AT_LEAST_1, "0"),
        ({"unroll.m": 0}, "unroll.m", AT_LEAST_1, "0"),
        ({"order.m.n": 2}, "order.m.n", "0 or 1", "2"),
        ({"order.n.m": 2}, "order.m.n", "0 or 1", "2"),
        ({"sweep.m.n": -1}, "sweep.m.n", "0 or 1", "-1"),
        ({"spread.c": 2}, "spread.c", "0 or 1", "2"),
        ({"ahead.b": -1}, "ahead.b", "0, 1, 2, 3 or 4", "-1"),
        ({"stage.a": 3}, "stage.a", "0, 1 or 2", "3"),
    ],
)
def test_a_value_that_no_mapping_takes_is_refused(
    written: dict[str, int], name: str, domain: str, given: str
) -> None:
    with pytest.raises(UsageProblem) as refused:
        resolve(GEMM, written)
    first, help_ = refused.value.render().splitlines()
    assert first == f"error[fix-value]: `nest0.{name}` is {domain}, not {given}"
    assert help_.startswith("  help: ")


def test_a_block_is_refused_where_an_axis_has_no_loop_for_it_to_cut() -> None:
    short = elementwise(8, 16)  # one issue along n
    for size in (-3, 0):
        with pytest.raises(UsageProblem, match=f"is {AT_LEAST_1}, not {size}"):
            schedule(short, heuristic="greedy", fixed={"block.n": size})
    with pytest.raises(Infeasible, match=r"nest0\.block\.n = 4 is not a multiple of 16"):
        schedule(short, heuristic="greedy", fixed={"block.n": 4})
    assert schedule(short, heuristic="greedy", fixed={"block.n": 16}).fixed == (("nest0.block.n", 16),)


def test_every_kind_of_decision_has_its_values() -> None:
    kinds = {name.split(".")[1] for name in all_names(replace(GEMM, threads=4))}
    assert kinds <= {"mapping", *DOMAINS}


# --- parts of a schedule ----------------------------------------------------------------------------------

BASE = answer(GEMM, "k:128 m:3 n:32 | k:1 um:1 un:16")


def solve(problem: Problem, fixed: Mapping[str, int]) -> Schedule:
    return schedule(problem, heuristic="greedy", fixed=fixed)


def steps(nest: NestSchedule, axis: str) -> list[int]:
    return [loop.step for loop in nest.loops if loop.axis == axis]


def test_what_is_named_is_kept_and_the_rest_is_solved() -> None:
    found = complete(GEMM, BASE, {"nest0.unroll": None}, solve)
    assert (steps(found.nests[0], "m")[-2:], steps(found.nests[0], "n")[-2:]) == ([3, 1], [32, 16])
    assert found.nests[0] != BASE.nests[0]
    assert found.cost_ns is not None
    assert found.cost_ns == solve(GEMM, {"unroll.m": 3, "unroll.n": 2, "unroll.k": 1}).cost_ns


def test_values_may_be_given_beside_what_is_kept() -> None:
    found = complete(GEMM, BASE, {"block": None, "tile.K": 256}, solve)
    assert steps(found.nests[0], "k") == [256, 1]


def test_everything_kept_is_the_schedule_itself() -> None:
    assert complete(GEMM, BASE, {"nest0": None}, solve).nests == BASE.nests


def test_statements_of_which_nothing_is_named_stay_as_they_are() -> None:
    both = replace(solve(TWO, {}), nests=(BASE.nests[0], solve(TWO, {}).nests[1]))
    found = complete(TWO, both, {"nest1.unroll.m": 2}, solve)
    assert found.nests[0] == BASE.nests[0]
    assert steps(found.nests[1], "m") == [2, 1]
    assert check_schedule(found, TWO) == ()
    assert (found.status, found.cost_ns, found.lower_bound_ns) == ("MANUAL", None, None)


def test_statements_that_the_schedule_lacks_are_solved() -> None:
    found = complete(TWO, BASE, {"nest0": None}, solve)
    assert [nest.statement for nest in found.nests] == [0, 1]
    assert check_schedule(found, TWO) == ()


def test_parts_of_a_schedule_that_no_decisions_lead_to_are_not_kept() -> None:
    odd = answer(GEMM, "k:128 k:64 m:3 n:32 | k:1 um:1 un:16")
    with pytest.raises(UsageProblem) as refused:
        complete(GEMM, odd, {"unroll": None}, solve)
    assert refused.value.render() == (
        "error[fix-unreadable]: parts of nest 0 cannot be fixed: no decisions lead to its loops\n"
        "  note: it has more loops over an axis, or stages elsewhere, than the solver would\n"
        "  help: replay it unchanged, without --fix, or give the values: --fix NAME=NUMBER"
    )


def test_a_part_that_is_none_is_refused() -> None:
    with pytest.raises(UsageProblem) as refused:
        complete(GEMM, BASE, {"unrolling": None}, solve)
    assert refused.value.diagnostics[0].code == "fix-unknown"
