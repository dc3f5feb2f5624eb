"""What crosses iterations of loops, decided: when it pays, what it needs, and that texts and prices agree."""

from __future__ import annotations

from dataclasses import replace

import pytest
from performing import ask_here
from plan_problems import gemm, gemv, problem, tiled_gemm

from isamap.machine.timings import LoopTimes
from isamap.plan.check import check_schedule
from isamap.plan.problem import (
    NestOption,
    Problem,
    Staging,
    TensorLayout,
    TileAxis,
    TileCosts,
    TileOperand,
    with_fields,
)
from isamap.plan.schedule import DeferredWriteBack, NestSchedule, Schedule, slots_of
from isamap.plan.text import parse_schedule, print_schedule
from isamap.scheduler import AnalyticModel, schedule
from isamap.scheduler.cpsat import solve_in_steps
from isamap.scheduler.effects.time_parts import where_time_goes
from isamap.scheduler.nests.pricing import price
from isamap.scheduler.process.exchange import Search, SearchLimits
from isamap.scheduler.process.isolate import SolverAnswer
from isamap.scheduler.search.candidates import candidate_of, open_options
from isamap.scheduler.search.greedy import greedy_candidate
from isamap.source import Infeasible, Source

SIZES = [(256, 256, 256), (100, 130, 200), (16, 512, 64), (512, 16, 512)]
RESTING = {"ahead.a": 0, "ahead.b": 0, "spread.c": 0}


def array(m: int, n: int, k: int, spad: int = 65536, acc: int = 32768) -> Problem:
    """Bytes on tiles of 16 x 16 x 16 out of scratchpads, which engines of their own fill and empty."""
    axes = tuple(TileAxis(name, extent, 16, name == "k") for name, extent in (("m", m), ("n", n), ("k", k)))
    a = TileOperand(
        "a",
        "A",
        ("m", "k"),
        False,
        "",
        0,
        256,
        TensorLayout(1),
        TileCosts(None, 0.0),
        Staging(1, 0.0625, homes=("spad",)),
    )
    b = TileOperand(
        "b",
        "B",
        ("k", "n"),
        False,
        "reg",
        1,
        256,
        TensorLayout(1),
        TileCosts(None, 16.0),
        Staging(1, 0.0625, homes=("spad",)),
    )
    c = TileOperand(
        "c",
        "C",
        ("m", "n"),
        True,
        "",
        0,
        256,
        TensorLayout(4),
        TileCosts(None, 0.0),
        Staging(4, 0.25, homes=("acc",)),
    )
    a, b = (with_fields(o, mover="load", moved_ns_per_element=0.0625) for o in (a, b))
    c = with_fields(c, mover="store", moved_ns_per_element=0.25)
    made = problem(NestOption("mm (a = A, b = B, c = C)", (), axes, (a, b, c), 16.0, 48.0))
    memories = (("acc", acc), ("spad", spad))
    return replace(made, caches=(), registers=(("reg", 2),), scratchpads=memories)


def crossed(nest: NestSchedule) -> set[str]:
    return {s.operand for s in nest.stages if s.ahead} | {s.operand for s in nest.spread}


def cost(found: Schedule) -> float:
    assert found.cost_ns is not None
    return found.cost_ns


@pytest.mark.parametrize("sizes", SIZES)
def test_what_engines_move_by_themselves_crosses_turns_where_that_is_cheaper(
    sizes: tuple[int, int, int],
) -> None:
    question = array(*sizes)
    resting, found = schedule(question, fixed=RESTING), schedule(question)
    assert check_schedule(found, question) == ()
    assert found.status == resting.status == "OPTIMAL"
    assert crossed(found.nests[0])
    assert not crossed(resting.nests[0])
    assert cost(found) < cost(resting)


def test_all_three_operands_of_a_large_product_cross_turns() -> None:
    (nest,) = schedule(array(256, 256, 256)).nests
    assert crossed(nest) == {"a", "b", "c"}
    assert [slots_of(nest, stage) for stage in nest.stages] == [2, 2, 2]
    assert nest.spread == (DeferredWriteBack("c", "k"),)


@pytest.mark.parametrize("sizes", SIZES)
def test_the_price_of_such_a_schedule_is_read_off_its_text(sizes: tuple[int, int, int]) -> None:
    question = array(*sizes)
    found = schedule(question)
    again = parse_schedule(Source("s", print_schedule(found)))
    assert price(again, question, AnalyticModel()) == (pytest.approx(cost(found)),)


def test_parts_of_the_time_add_up_to_the_cost() -> None:
    question = array(256, 256, 256)
    (time,) = where_time_goes(schedule(question), question, AnalyticModel())
    assert time is not None
    assert {"by load", "by store"} <= time.sums().keys()
    assert abs(time.rest_ns) <= 1e-6 * time.total_ns


@pytest.mark.exhaustive
def test_a_larger_scratchpad_never_makes_it_worse() -> None:
    # The first three take seconds each: on a crowded machine the usual limit ends them before the proof.
    found = [schedule(array(256, 256, 256, spad, acc), limit_s=120) for spad, acc in GROWING]
    assert {s.status for s in found} == {"OPTIMAL"}
    costs = [cost(s) for s in found]
    assert costs == sorted(costs, reverse=True)
    assert costs[-1] < costs[0]


GROWING = [(4096, 2048), (8192, 2048), (16384, 4096), (32768, 8192), (65536, 32768), (1 << 18, 1 << 16)]


def test_a_first_schedule_that_crosses_turns_is_not_promised_to_the_search_for_those_that_rest() -> None:
    question, jobs = array(256, 256, 256), list[Search]()

    def ask(job: Search) -> SolverAnswer:
        jobs.append(job)
        return ask_here(job)

    options = open_options(question, question.nests[0], AnalyticModel(), {})
    limits, first = SearchLimits(10.0, 2.0), greedy_candidate(options)
    assert first is not None
    best = solve_in_steps(options, first, limits, ask, splits=False).candidate
    assert [job.holds_best for job in jobs] == [True, True]
    assert crossed(best.nest())
    worse = candidate_of(best.option, {**best.assignment, "nest0.unroll.m": 1, "nest0.block.m": 16})
    solved = solve_in_steps(options, worse, limits, ask, splits=False)
    assert [job.holds_best for job in jobs[2:]] == [False, True]
    assert solved.findings == ()
    assert solved.candidate.cost_ns == pytest.approx(best.cost_ns)


def test_two_copies_have_to_fit() -> None:
    question = array(64, 64, 64, spad=4096, acc=2048)
    fixed = {"ahead.a": 1, "ahead.b": 1, "spread.c": 1}
    found = schedule(question, fixed=fixed)
    assert crossed(found.nests[0]) == {"a", "b", "c"}
    assert check_schedule(found, question) == ()
    with pytest.raises(Infeasible, match="4096 bytes of `spad` are needed at least, and there are 4095"):
        schedule(array(64, 64, 64, spad=4095, acc=2048), fixed=fixed)


@pytest.mark.parametrize("question", [gemm(256, 256, 256), tiled_gemm(256, 256, 1024)], ids=["gemm", "tiled"])
def test_what_the_computing_unit_copies_itself_never_crosses_turns_unasked(question: Problem) -> None:
    assert not crossed(schedule(question).nests[0])


def test_what_is_fixed_crosses_turns_and_costs_more() -> None:
    question = tiled_gemm(256, 256, 1024)
    free, early, late = (schedule(question, fixed=f) for f in ({}, {"ahead.b": 1}, {"spread.c": 1}))
    assert crossed(early.nests[0]) == {"b"}
    assert crossed(late.nests[0]) == {"c"}
    for found in (early, late):
        assert check_schedule(found, question) == ()
        assert cost(found) > cost(free)


def test_a_result_of_one_register_block_along_an_axis_crosses_the_turns_of_the_loop_around() -> None:
    question = array(256, 16, 64)
    (nest,) = schedule(question, fixed={"spread.c": 1, "unroll.m": 4}).nests
    stage = next(stage for stage in nest.stages if stage.operand == "c")
    assert nest.loops[stage.depth - 1].axis == "m"


def test_threads_leave_buffers_as_they_are() -> None:
    question = replace(gemm(256, 256, 256), threads=2, thread_start_ns=10.0)
    found = schedule(question, fixed={"ahead.b": 1})
    assert crossed(found.nests[0]) == {"b"}
    assert found.nests[0].parallel == 0


def test_greedy_leaves_crossing_to_the_solver() -> None:
    question = array(256, 256, 256)
    assert not crossed(schedule(question, heuristic="greedy").nests[0])
    assert crossed(schedule(question, heuristic="annealing").nests[0])


# --- prefetches -------------------------------------------------------------------------------------------

HINTS = (("l1", 0.002), ("l2", 0.002))


def hinted(question: Problem) -> Problem:
    """Return the problem on a machine with hints into two caches."""
    (nest,) = question.nests
    (option,) = nest.options
    operands = tuple(o if o.is_accumulator else with_fields(o, hints=HINTS) for o in option.operands)
    options = (replace(option, operands=operands),)
    return replace(question, nests=(replace(nest, options=options),), hinted=("l1", "l2"))


def test_prefetches_are_for_a_person_to_fix_and_cost_their_hints() -> None:
    question = hinted(gemm(256, 256, 256))
    free, found = schedule(question), schedule(question, fixed={"prefetch.a": 2, "prefetch.b": 1})
    assert free.nests[0].prefetches == ()
    assert {(p.operand, p.cache) for p in found.nests[0].prefetches} == {("a", "l2"), ("b", "l1")}
    assert check_schedule(found, question) == ()
    assert found.status == "OPTIMAL"
    assert cost(found) > cost(free)
    again = parse_schedule(Source("s", print_schedule(found)))
    assert price(again, question, AnalyticModel()) == (pytest.approx(cost(found)),)


def test_what_only_sums_follow_is_prefetched_where_they_are_cut() -> None:
    question = hinted(gemv(64, 256))
    (nest,) = schedule(question, fixed={"prefetch.b": 1}).nests
    (prefetch,) = nest.prefetches
    assert nest.loops[prefetch.depth - 1].axis == "k"
    with pytest.raises(Infeasible, match="no loop outside the sum moves on to other elements of it"):
        schedule(question, fixed={"prefetch.b": 1, "block.k": 256})


def test_a_register_block_of_all_rows_leaves_no_loop_that_a_prefetch_could_be_ahead_in() -> None:
    question = hinted(gemm(8, 256, 256))
    (nest,) = schedule(question, fixed={"prefetch.a": 1, "unroll.m": 2}).nests
    (prefetch,) = nest.prefetches
    assert nest.loops[prefetch.depth - 1].axis == "m"
    with pytest.raises(Infeasible, match="no loop outside the sum moves on to other elements of it"):
        schedule(question, fixed={"prefetch.a": 1, "unroll.m": 8, "unroll.n": 1, "block.k": 256})


def test_a_cache_without_hints_is_refused() -> None:
    with pytest.raises(Infeasible, match=r"nest0.prefetch.a is 0 \(none\), 1 \(l1\), 2 \(l2\), not 3"):
        schedule(hinted(gemm(256, 256, 256)), fixed={"prefetch.a": 3})


# --- beside the sum ---------------------------------------------------------------------------------------


def tiles(m: int, n: int, k: int, *, beside: bool = True) -> Problem:
    """Return a product of tiles, of which b has to be copied, by other units than the one that multiplies."""
    axes = tuple(TileAxis(name, extent, 16, name == "k") for name, extent in (("m", m), ("n", n), ("k", k)))
    a = TileOperand(
        "a", "A", ("m", "k"), False, "tile", 1, 256, TensorLayout(2), TileCosts(2.0, 2.0), Staging(2, 0.1)
    )
    b = TileOperand(
        "b",
        "B",
        ("k", "n"),
        False,
        "tile",
        1,
        256,
        TensorLayout(2),
        TileCosts(None, 2.0),
        Staging(2, 0.1, is_concurrent=beside),
    )
    c = TileOperand(
        "c", "C", ("m", "n"), True, "tile", 1, 256, TensorLayout(4), TileCosts(10.0, 10.0), Staging(4, 0.1)
    )
    made = problem(NestOption("mm (a = A, b = B, c = C)", (), axes, (a, b, c), 8.0, 24.0))
    return replace(made, registers=(("tile", 8),))


def test_copies_by_other_units_are_made_beside_the_sum_where_that_hides_them() -> None:
    question = tiles(64, 1024, 1024)
    found, resting = schedule(question), schedule(question, fixed={"ahead.b": 0})
    assert found.status == resting.status == "OPTIMAL"
    (stage,) = (s for s in found.nests[0].stages if s.operand == "b")
    assert (stage.ahead, stage.into) == (1, "k")
    assert check_schedule(found, question) == ()
    assert cost(found) < 0.85 * cost(resting)
    read = parse_schedule(Source("s", print_schedule(found)))
    assert price(read, question, AnalyticModel()) == (pytest.approx(found.cost_ns),)
    (time,) = where_time_goes(found, question, AnalyticModel())
    assert time is not None
    assert time.total_ns == pytest.approx(found.cost_ns)


def test_products_with_many_rows_gain_little_beside_the_sum() -> None:
    few, many = (tiles(*sizes) for sizes in ((64, 1024, 1024), (1024, 1024, 1024)))
    gains = [cost(schedule(q, fixed={"ahead.b": 0})) / cost(schedule(q)) for q in (few, many)]
    assert gains[0] > 1.2 > 1.05 > gains[1] >= 1.0


def test_where_the_unit_that_sums_copies_too_it_costs_each_step_of_the_sum() -> None:
    question = replace(tiles(64, 1024, 1024, beside=False), loops=LoopTimes(turn_ns=0.1))
    assert not crossed(schedule(question).nests[0])
    fixed = {"stage.b": 1, "block.n": 256, "block.m": 64, "unroll.m": 2, "unroll.n": 2}
    late, early = (schedule(question, fixed={**fixed, "ahead.b": value}) for value in (0, 2))
    assert cost(early) >= cost(late) + 3.0 * 2 * 32 * 64 * 0.999


@pytest.mark.parametrize(
    ("fixed", "said"),
    [
        ({"ahead.b": 2, "block.m": 32}, "blocks of m would be between it and the sum"),
        ({"ahead.b": 2, "stage.b": 2}, "(staged as a whole) fills no buffer per iteration"),
        ({"ahead.b": 2, "block.k": 16}, "no loop over the sum is inside the register block"),
    ],
)
def test_what_cannot_be_beside_the_sum_is_refused(fixed: dict[str, int], said: str) -> None:
    with pytest.raises(Infeasible) as caught:
        schedule(tiles(64, 1024, 1024), fixed=fixed)
    assert said in caught.value.diagnostics[0].render()
