"""What computing costs beside inputs that stream from memory, and what asking for them early saves."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from unit.rewriting import shipped

from isamap.emit.c import emit_c
from isamap.formulate.build import build_problem
from isamap.ir import bind
from isamap.lower.passes import lower
from isamap.machine import load_machine
from isamap.plan.cost import evaluate
from isamap.plan.problem import NestOption, Problem
from isamap.plan.schedule import CountedLoop, UnrolledLoop
from isamap.scheduler import schedule
from isamap.scheduler.deciding.fetching import prefetches_of
from isamap.scheduler.deciding.partitioning import part_of
from isamap.scheduler.deciding.space import Space
from isamap.scheduler.deciding.summing import sum_factors
from isamap.scheduler.deciding.sums import sweeping_axis
from isamap.scheduler.effects.table import AnalyticModel
from isamap.scheduler.search.greedy import first_assignment
from isamap.source import Source
from isamap.syntax import parse_kernel
from isamap.transform import make_guards_explicit

BLOCK = {"m": 4, "n": 4}


def problem_of(name: str = "gemm_f32", rows: int = 4, columns: int = 7680) -> Problem:
    sizes = {"M": rows, "N": columns, "K": 2560}
    return build_problem(
        make_guards_explicit(bind(shipped(name), sizes)), load_machine("x86-avx512-bf16"), sizes
    )


def option_of(problem: Problem, start: str) -> NestOption:
    return next(o for o in problem.nests[0].options if o.mapping.startswith(start))


def cost_ns(problem: Problem, option: NestOption, **decisions: int) -> float:
    nest = replace(problem.nests[0], options=(option,))
    space = Space(0, option, dict(problem.registers), {})
    made = first_assignment(space, BLOCK)
    assert made is not None
    expected = {f"nest0.{name.replace('_', '.')}": value for name, value in decisions.items()}
    return float(evaluate(AnalyticModel().expression(problem, nest, option), {**made, **expected}))


def test_pieces_of_rows_out_of_memory_cost_less_when_they_are_asked_for() -> None:
    problem = problem_of()
    option = option_of(problem, "fma_zmm_f32 { i: n }")
    assert next(o for o in option.operands if o.name == "b").prefetching.is_streamed
    assert cost_ns(problem, option, prefetch_b=2) < cost_ns(problem, option, prefetch_b=0)


def test_what_is_computed_shows_beside_pieces_of_rows_however_long_they_take() -> None:
    problem = problem_of()
    *near, last = problem.caches
    measured = (*near, replace(last, bandwidth_bytes_per_ns=94.0))
    problem = replace(problem, caches=measured, memory_bandwidth_bytes_per_ns=42.0)
    option = option_of(problem, "fma_zmm_f32 { i: n }")
    slower = replace(option, interval_ns=option.interval_ns * 1.5)
    assert cost_ns(problem, slower, prefetch_b=0) > 1.05 * cost_ns(problem, option, prefetch_b=0)


def test_nothing_streams_that_a_cache_holds_or_that_sums_outlast() -> None:
    for problem in (problem_of(columns=1024), problem_of(rows=512)):
        for option in problem.nests[0].options:
            assert not any(operand.prefetching.is_streamed for operand in option.operands)


def test_factors_of_a_product_that_is_computed_on_the_way_lie_where_their_tensors_do() -> None:
    option = option_of(problem_of(), "sum_zmm_f32 { i: n }")
    factors = {o.tensor: o for o in option.operands if o.name.startswith("a.")}
    assert (factors["B"].layout.dense_axis, factors["B"].layout.pitch_bytes) == ("n", 4 * 7680)
    assert factors["B"].prefetching.is_streamed


def test_a_block_that_no_cache_holds_is_charged_for_going_out_and_coming_back() -> None:
    problem = problem_of()
    option = option_of(problem, "fma_zmm_f32 { i: n }")
    whole = cost_ns(problem, option, stage_b=1, prefetch_b=0)
    cut = cost_ns(problem, option, stage_b=1, prefetch_b=0, block_n=64)
    out_and_back_ns = 2 * 4 * 7680 * 2560 / problem.memory_bandwidth_bytes_per_ns
    assert whole > cut
    assert whole > out_and_back_ns


def test_rows_side_by_side_are_read_by_halves_of_registers_and_not_by_masks_of_whole_ones() -> None:
    machine = load_machine("x86-avx512-bf16")
    problem = problem_of("gemm_bf16")
    sizes = {"M": 4, "N": 7680, "K": 2560}
    kernel = make_guards_explicit(bind(shipped("gemm_bf16"), sizes))
    number = next(
        n for n, o in enumerate(problem.nests[0].options) if o.mapping.startswith("dpbf16_zmm { i: n,")
    )
    made = schedule(problem, heuristic="greedy", fixed={"nest0.mapping": number, "nest0.stage.b": 0})
    source = emit_c(lower(kernel, machine, made, sizes), machine).source
    inside = source[source.index("for (int64_t k") :]
    assert "_mm256_loadu_si256" in inside
    assert "_mm512_maskz_loadu_epi16((__mmask32)0xffffu" not in inside
    assert "_mm_prefetch" in inside
    assert "_copy0(" not in inside  # a call between sums would empty all registers


# --- rows that loads follow to their ends -----------------------------------------------------------------


WIDE = {"M": 1, "N": 7680, "K": 2560}


def swept(
    sizes: dict[str, int] = WIDE, name: str = "gemm_f32", near_ahead: int = 2, **figures: float | None
) -> tuple[Problem, NestOption]:
    """Return a product whose weights stream, on a machine where long pieces begin anew."""
    stated: dict[str, Any] = {"long_start_ns": 50.0, "swept_start_ns": 0.0, **figures}
    machine = load_machine("x86-avx512-bf16")
    links = tuple(
        replace(x, streams=replace(x.streams, **stated) if x.streams else None) for x in machine.links
    )
    kernel = make_guards_explicit(bind(shipped(name), sizes))
    model = replace(machine.model, near_ahead_count=near_ahead)
    problem = build_problem(kernel, replace(machine, links=links, starts_cold=True, model=model), sizes)
    return problem, option_of(problem, "fma_zmm_f32 { i: n }" if name == "gemm_f32" else "dpbf16_zmm { i: n,")


SWEEP = {"unroll_m": 1, "unroll_n": 1, "unroll_k": 8, "block_k": 8, "order_n_k": 0, "prefetch_b": 0}


def test_rows_of_which_other_threads_have_a_part_are_not_followed_to_their_ends() -> None:
    problem, option = swept()
    whole = part_of(option, {"k": 2})
    cut = part_of(option, {"n": 2})
    assert whole is not None
    assert cut is not None
    for asked in (0, 2):
        sweep = {**SWEEP, "prefetch_b": asked}
        assert cost_ns(problem, cut, **sweep) > 1.2 * cost_ns(problem, whole, **sweep)


def test_rows_that_loads_follow_are_begun_once_and_computing_hides_behind_them() -> None:
    problem, option = swept()
    followed = cost_ns(problem, option, **SWEEP)
    in_a_loop = cost_ns(problem, option, **{**SWEEP, "unroll_k": 1})
    wide = cost_ns(problem, option, **{**SWEEP, "unroll_n": 4})
    many = cost_ns(problem, option, **{**SWEEP, "unroll_k": 16, "block_k": 16})
    cut = cost_ns(problem, option, **{**SWEEP, "block_n": 768, "order_n_k": 1})
    assert followed < min(cut, in_a_loop, wide, many)
    traffic_ns = 4 * 7680 * 2560 / problem.memory_bandwidth_bytes_per_ns
    assert traffic_ns < followed < 1.5 * traffic_ns


def test_what_is_measured_of_following_counts_where_it_is_more() -> None:
    costs = [
        cost_ns(*swept(swept_start_ns=start, long_start_ns=long), **SWEEP)
        for start, long in ((0.0, 50.0), (40.0, 50.0), (100.0, 50.0), (100.0, None))
    ]
    assert costs[0] == costs[1] < costs[2] == costs[3]


def test_where_it_is_not_measured_rows_are_read_as_before() -> None:
    problem, option = swept(swept_start_ns=None)
    assert not any(o.prefetching.is_swept for o in option.operands)
    space = Space(0, option, dict(problem.registers), {})
    assert max(sum_factors(space, {"n": 1})) == 4
    assert 4 not in space.blocks(next(a for a in option.axes if a.name == "k"), 4)


def test_the_solver_sweeps_where_pieces_begin_anew_and_the_code_has_no_loop_inside() -> None:
    problem, option = swept(hinted_long_start_ns=50.0)
    found = schedule(problem)
    assert found.cost_ns is not None
    assert found.cost_ns <= cost_ns(problem, option, **SWEEP)
    (nest,) = found.nests
    loops = [(type(loop), loop.axis) for loop in nest.loops]
    assert (CountedLoop, "k") in loops[: loops.index((CountedLoop, "n"))]
    assert [kind for kind, axis in loops[nest.hold :] if axis == "k"] == [UnrolledLoop]
    assert nest.loops[loops.index((CountedLoop, "k"))].step == 8


def test_hints_for_whole_rows_that_loads_follow_are_worth_what_beginning_them_takes() -> None:
    hinted, saved_ns = {**SWEEP, "prefetch_b": 2}, list[float]()
    for rows_ns in (500.0, 1000.0):
        problem, option = swept(long_start_ns=rows_ns)
        saved_ns.append(cost_ns(problem, option, **SWEEP) - cost_ns(problem, option, **hinted))
    assert saved_ns[0] > 0
    assert saved_ns[1] - saved_ns[0] == pytest.approx(2560 * 500.0, rel=0.1)


def test_beginning_hinted_rows_takes_what_is_measured_of_it_and_what_pieces_take() -> None:
    hinted = {**SWEEP, "prefetch_b": 2}
    costs = [
        cost_ns(*swept(hinted_start_ns=piece, hinted_swept_start_ns=row), **hinted)
        for piece, row in ((20.0, None), (20.0, 5.0), (20.0, 120.0), (5.0, 20.0))
    ]
    assert costs[0] == costs[1] == costs[3]
    assert costs[2] - costs[0] == pytest.approx(2560 * 100.0, rel=0.1)


@pytest.mark.parametrize(("columns", "turns"), [(7680, 1), (256, 1), (128, 2), (64, 4)])
def test_the_next_rows_are_asked_for_as_far_ahead_as_memory_is(columns: int, turns: int) -> None:
    problem, option = swept({"M": 1, "N": columns, "K": 2560})
    sweep = {"mapping": problem.nests[0].options.index(option), "stage.b": 0}
    sweep |= {"unroll.n": 1, "unroll.k": 8, "block.k": 8, "block.n": columns, "prefetch.b": 2}
    fixed = {f"nest0.{name}": value for name, value in sweep.items()}
    (nest,) = schedule(problem, heuristic="greedy", fixed=fixed).nests
    (prefetch,) = nest.prefetches
    assert (nest.loops[prefetch.depth - 1].axis, prefetch.ahead) == ("k", turns)
    assert prefetch.ahead == -(-8192 // (8 * columns * 4)), "as the description says"


@pytest.mark.parametrize(
    ("kernel", "rows", "unrolled", "near"),
    [
        ("gemm_f32", 1, (1, 2), False),  # no two issues share a vector of b: loads run far enough ahead
        ("gemm_f32", 2, (2, 2), True),
        ("gemm_f32", 4, (4, 1), True),
        ("gemm_f32", 4, (2, 2), False),  # two register blocks an iteration: each waits for the other's hints
        ("gemm_bf16", 4, (4, 2), True),
        ("gemm_bf16", 4, (4, 1), False),  # half a line of each row
    ],
)
def test_rows_that_several_issues_share_are_asked_for_once_more_into_the_nearest_cache(
    kernel: str, rows: int, unrolled: tuple[int, int], near: bool
) -> None:
    problem, option = swept({"M": rows, "N": 7680, "K": 2560}, kernel, near_ahead=3)
    m, n = unrolled
    step = 8 * next(axis.tile for axis in option.axes if axis.name == "k")
    sweep = {"mapping": problem.nests[0].options.index(option), "stage.b": 0, "prefetch.b": 2}
    sweep |= {"unroll.n": n, "unroll.k": 8, "block.k": step}
    sweep |= {"unroll.m": m, "block.m": rows} if rows > 1 else {}
    fixed = {f"nest0.{name}": value for name, value in sweep.items()}
    (nest,) = schedule(problem, heuristic="greedy", fixed=fixed).nests
    found = [(nest.loops[p.depth - 1].axis, p.ahead, p.cache) for p in nest.prefetches]
    assert found == [("k", 1, "l2"), *([("n", 3, "l1")] if near else [])]
    space = Space(0, option, dict(problem.registers), {})
    assert prefetches_of(space, nest)["nest0.prefetch.b"] == 2, "the decision is about the next rows"


def test_whole_rows_in_sequence_are_begun_once() -> None:
    """1 x 128 x 20000: a register block reads whole rows, which follow each other without a gap."""
    sizes = {"M": 1, "N": 128, "K": 20000}
    problem, option = swept(sizes, hinted_long_start_ns=50.0)
    sequence = {"unroll_m": 1, "unroll_n": 8, "prefetch_b": 2, "stage_b": 0}
    whole, cut = (cost_ns(problem, option, **{**sequence, "unroll_n": n}) for n in (8, 4))
    traffic_ns = 4 * 128 * 20000 / problem.memory_bandwidth_bytes_per_ns
    assert traffic_ns < whole < 1.2 * traffic_ns
    assert cut > whole + 20000 * 50.0 / 2
    assert cost_ns(problem, option, **{**sequence, "prefetch_b": 0}) > 1.5 * whole, "without hints"
    shown = [
        cost_ns(*swept(sizes, hinted_row_computing_factor=factor), **sequence)
        for factor in (None, 2.0, 12.0, 14.0, 16.0)
    ]
    assert shown[0] == shown[1] < shown[2], "it shows as beside rows along a sum, where it is more"
    assert shown[3] - shown[2] == pytest.approx(shown[4] - shown[3])


def test_hints_about_a_copy_show_as_where_nothing_is_known_of_rows() -> None:
    copied = {"unroll_m": 1, "unroll_n": 8, "stage_b": 1, "block_k": 256}
    shown: list[float] = []
    for known in (0.0, None):
        problem, option = swept({"M": 1, "N": 128, "K": 20000}, swept_start_ns=known)
        hinted, bare = (cost_ns(problem, option, **copied, prefetch_b=n) for n in (2, 0))
        shown.append(hinted - bare)
    assert 0 < shown[0] == pytest.approx(shown[1])


def test_rows_that_would_not_find_room_are_not_hinted_for_nothing() -> None:
    problem, option = swept()
    hinted = {**SWEEP, "prefetch_b": 2}
    *first, near, last = problem.caches
    small = replace(problem, caches=(*first, replace(near, capacity_bytes=8 * 4 * 7680), last))
    assert cost_ns(small, option, **hinted) > cost_ns(small, option, **SWEEP)


def test_the_next_rows_are_asked_for_by_the_turns_of_the_loop_that_reads_these() -> None:
    problem, option = swept(long_start_ns=500.0)
    expected = {**SWEEP, "mapping": problem.nests[0].options.index(option), "prefetch_b": 2, "stage_b": 0}
    fixed = {f"nest0.{name.replace('_', '.')}": value for name, value in expected.items()}
    found = schedule(problem, fixed=fixed)
    assert [(p.operand, p.depth, p.ahead, p.cache) for p in found.nests[0].prefetches] == [("b", 1, 1, "l2")]
    kernel = make_guards_explicit(bind(shipped("gemm_f32"), {"M": 1, "N": 7680, "K": 2560}))
    machine = load_machine("x86-avx512-bf16")
    code = emit_c(lower(kernel, machine, found, {}), machine).source
    body = code[code.index("for (int64_t n0") :]
    assert "_mm_prefetch" in body, "inside the loop over n"
    assert "_mm_prefetch" not in code[: code.index("for (int64_t n0")].split("for (int64_t k0")[1]


def test_long_pieces_that_are_hinted_take_what_is_measured() -> None:
    hinted = {"prefetch_b": 2, "stage_b": 0, "unroll_m": 1, "unroll_n": 8}
    dear, dearer = (swept(hinted_long_start_ns=ns) for ns in (200.0, 300.0))
    begun_ns = 100.0 * 2560 * 7680 / (8 * 16)
    assert cost_ns(*dearer, **hinted) - cost_ns(*dear, **hinted) == pytest.approx(begun_ns, rel=0.1)
    # A short piece takes a share of what a long one does.
    assert cost_ns(*dear, **{**hinted, "unroll_n": 2}) <= 1.1 * cost_ns(*dear, **hinted)


BATCH = """
kernel batch() {{
  in A: f32[{s}, 1024]; in B: f32[{s}, 1024, 4096]; inout C: f32[{s}, 4096];
  for s in {s}, n in 4096, k in 1024 {{ C[s, n] += A[s, k] * B[s, k, n]; }}
}}
"""


@pytest.mark.parametrize("count", [1, 4])
def test_hints_are_for_the_next_rows_of_the_sum_whatever_loops_stand_inside(count: int) -> None:
    machine = load_machine("x86-avx512-bf16")
    links = tuple(
        replace(x, streams=replace(x.streams, swept_start_ns=0.0, long_start_ns=500.0) if x.streams else None)
        for x in machine.links
    )
    cold = replace(machine, links=links, starts_cold=True)
    kernel = make_guards_explicit(bind(parse_kernel(Source("b.ir", BATCH.format(s=count))), {}))
    problem = build_problem(kernel, cold, {})
    number, option = next((n, o) for n, o in enumerate(problem.nests[0].options) if sweeping_axis(o))
    name = next(o.name for o in option.operands if o.prefetching.is_swept)
    fixed = {"nest0.mapping": number, f"nest0.prefetch.{name}": 2, "nest0.unroll.k": 8, "nest0.block.k": 8}
    found = schedule(problem, fixed={**fixed, f"nest0.stage.{name}": 0})
    (nest,) = found.nests
    (hint,) = nest.prefetches
    assert nest.loops[hint.depth - 1].axis == "k"
    assert "prefetch" in emit_c(lower(kernel, cold, found, {}), cold).source
