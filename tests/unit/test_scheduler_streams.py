"""What computing costs beside inputs that stream from memory, and what asking for them early saves."""

from __future__ import annotations

from dataclasses import replace

from unit.rewriting import shipped

from isamap.codegen.c import emit_c
from isamap.ir import bind
from isamap.lower.lower import lower
from isamap.machine import load_machine
from isamap.plan.build import build_problem
from isamap.plan.cost import evaluate
from isamap.plan.problem import NestOption, Problem
from isamap.scheduler import schedule
from isamap.scheduler.analytic import AnalyticModel
from isamap.scheduler.greedy import first_assignment
from isamap.scheduler.space import Space
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
    wanted = {f"nest0.{name.replace('_', '.')}": value for name, value in decisions.items()}
    return float(evaluate(AnalyticModel().expression(problem, nest, option), {**made, **wanted}))


def test_pieces_of_rows_out_of_memory_cost_less_when_they_are_asked_for() -> None:
    problem = problem_of()
    option = option_of(problem, "fma_zmm_f32 { i: n }")
    assert next(o for o in option.operands if o.name == "b").streams
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
            assert not any(operand.streams for operand in option.operands)


def test_factors_of_a_product_that_is_computed_on_the_way_lie_where_their_tensors_do() -> None:
    option = option_of(problem_of(), "sum_zmm_f32 { i: n }")
    factors = {o.tensor: o for o in option.operands if o.name.startswith("a.")}
    assert (factors["B"].dense_axis, factors["B"].pitch_bytes) == ("n", 4 * 7680)
    assert factors["B"].streams


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
