"""Prefetches of rows that stream through from memory: where they stand, and where there are none."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from unit.rewriting import shipped

from isamap.formulate.build import build_problem
from isamap.ir import bind
from isamap.machine import line_hints, load_machine
from isamap.plan.schedule import NestSchedule
from isamap.plan.text import print_nest
from isamap.scheduler import schedule
from isamap.source import Source
from isamap.syntax import parse_kernel
from isamap.transform import make_guards_explicit

SKINNY = {"M": 4, "N": 7680, "K": 2560}


def found(
    name: str,
    machine: str = "x86-avx512-bf16",
    sizes: Mapping[str, int] = SKINNY,
    heuristic: str = "greedy",
) -> NestSchedule:
    """Return the schedule of the kernel's sum."""
    asked = {**SKINNY, **sizes}
    problem = build_problem(make_guards_explicit(bind(shipped(name), asked)), load_machine(machine), asked)
    return schedule(problem, heuristic=heuristic).nests[-1]


@pytest.mark.parametrize("name", ["gemm_nt_bf16", "gemm_nt_f32"])
def test_rows_of_weights_out_of_memory_are_asked_for_a_turn_early(name: str) -> None:
    nest = found(name)
    (prefetch,) = nest.prefetches
    assert (prefetch.operand, prefetch.depth, prefetch.ahead, prefetch.cache) == ("b", nest.hold, 1, "l1")
    assert nest.loops[nest.hold - 1].axis == "n"
    assert "prefetch b ahead 1 into l1;" in print_nest(nest)


@pytest.mark.parametrize(
    ("name", "sizes"),
    [
        ("gemm_nt_bf16", {"N": 1024, "K": 1024}),  # fits into a cache
        ("gemm_nt_bf16", {"M": 512}),  # takes longer to compute than to read
        ("gemm_nt_f32", {"M": 1, "K": 40960}),  # two iterations read more than fits
    ],
    ids=["in a cache", "much to compute", "too much at once"],
)
def test_what_comes_from_caches_or_hides_behind_sums_is_not_asked_for(
    name: str, sizes: dict[str, int]
) -> None:
    assert found(name, sizes=sizes).prefetches == ()


@pytest.mark.parametrize("name", ["gemm_bf16", "gemm_f32"])
def test_pieces_of_rows_are_asked_for_where_they_are_summed_as_far_ahead_as_memory_is(name: str) -> None:
    nest = found(name, heuristic="cpsat")
    (prefetch,) = nest.prefetches
    loop = nest.loops[prefetch.depth - 1]
    assert (prefetch.operand, prefetch.cache, loop.axis) == ("b", "l2", "k")
    assert prefetch.depth > nest.hold
    columns = next(loop.step for loop in reversed(nest.loops[: nest.hold]) if loop.axis == "n")
    iteration_bytes = loop.step * columns * (2 if name == "gemm_bf16" else 4)
    assert prefetch.ahead == -(-8192 // iteration_bytes)  # as the description says


def test_a_machine_without_hints_asks_for_nothing(tmp_path: Path) -> None:
    hints = [hint.item.instruction.name for hint in line_hints(load_machine("x86-avx512-bf16")).values()]
    assert hints
    text = f"isamap: 1\nname: m\nsummary: s\nextends: x86-avx512-bf16\nremove: [{', '.join(hints)}]\n"
    (tmp_path / "m.yaml").write_text(text)
    assert found("gemm_nt_bf16", str(tmp_path / "m.yaml")).prefetches == ()


# Rows of `mem` as a machine may state them: pieces that are followed take 8 ns each, or none with hints.
LATE = """
isamap: 1
name: late
summary: pieces of rows out of memory come late
extends: x86-avx512-bf16
remove: [transpose16_f32, transpose8_f32, transpose4_f32]  # with them, lanes along m cost nearly as little
sources: {guess: a guess}
links:
  - {from: mem, to: l3, bandwidth_bytes_per_ns: 20, source: guess, rows: {ROWS, source: guess}}
"""
ROWS = "start_ns: 9, start_bytes: 192, swept_count: 32, computing_factor: 1"
HINTED = "swept_ns: 8, hinted_swept_count: 32"


@pytest.fixture
def late(tmp_path: Path) -> str:
    (tmp_path / "late.yaml").write_text(LATE.replace("ROWS", f"{ROWS}, {HINTED}"))
    return str(tmp_path / "late.yaml")


WIDE = {"M": 32, "N": 8448, "K": 2816}


@pytest.mark.parametrize("heuristic", ["cpsat", "greedy"])
def test_pieces_of_rows_that_come_late_are_asked_for_before(late: str, heuristic: str) -> None:
    nest = found("gemm_f32", late, WIDE, heuristic)
    (prefetch,) = nest.prefetches
    assert (prefetch.operand, prefetch.cache) == ("b", "l2")
    loop = nest.loops[prefetch.depth - 1]
    assert loop.axis == "n", "the next pieces of the same rows"
    assert all(other.axis != "n" for other in nest.loops[prefetch.depth : nest.hold])
    rows = next(other.step for other in nest.loops if other.axis == "k")
    assert any(other.counts for other in nest.loops[prefetch.depth : nest.hold]), "they share hints"
    assert prefetch.ahead == max(2, -(-8192 // (2 * 4 * rows * loop.step))), (
        "half of what is stated of memory"
    )


def test_of_short_pieces_of_few_rows_later_ones_are_asked_for(late: str) -> None:
    asked = make_guards_explicit(bind(shipped("gemm_f32"), WIDE))
    problem = build_problem(asked, load_machine(late), WIDE)
    few = {"prefetch.b": 2, "stage.b": 0, "block.k": 8, "unroll.n": 1, "unroll.k": 1}
    nest = schedule(problem, heuristic="greedy", fixed=few).nests[-1]
    (prefetch,) = nest.prefetches
    columns = nest.loops[prefetch.depth - 1].step
    assert prefetch.ahead == -(-4096 // (8 * columns * 4)) > 1


def test_late_pieces_are_asked_for_only_out_of_where_that_is_stated(late: str, tmp_path: Path) -> None:
    assert found("gemm_f32", late, {"M": 32, "N": 512, "K": 512}).prefetches == (), "in a cache"
    assert found("gemm_nt_f32", late, WIDE).prefetches == (), "its rows lie along the sum"
    text = LATE.replace("ROWS", ROWS).replace("name: late", "name: other")
    (tmp_path / "other.yaml").write_text(text)
    assert found("gemm_f32", str(tmp_path / "other.yaml"), WIDE).prefetches == (), "nothing is stated"


def test_rows_that_are_read_one_element_after_the_other_are_late_too(late: str) -> None:
    asked = make_guards_explicit(bind(shipped("gemm_f32"), WIDE))
    (nest,) = build_problem(asked, load_machine(late), WIDE).nests
    hinted = {
        (operand.prefetching.is_late, next(axis.tile for axis in option.axes if axis.name == "n") > 1)
        for option in nest.options
        for operand in option.operands
        if operand.tensor == "B" and operand.layout.dense_axis == "n" and operand.prefetching.hints
    }
    assert hinted == {(True, True), (True, False)}


def test_what_is_changed_with_a_constant_before_it_is_multiplied_is_asked_for_as_it_lies(late: str) -> None:
    text = """kernel shifted(M, N, K) {
      in A: f32[M, K]; in B: f32[K, N]; inout C: f32[M, N];
      for m in M, n in N, k in K { C[m, n] += A[m, k] * (B[k, n] * 2.0); }
    }"""
    asked = make_guards_explicit(bind(parse_kernel(Source("shifted.ir", text)), WIDE))
    (nest,) = build_problem(asked, load_machine(late), WIDE).nests
    doubled = [o for option in nest.options for o in option.operands if o.tensor == "b"]
    assert doubled
    assert all(operand.layout.in_rows for operand in doubled if operand.layout.dense_axis == "n")


def test_hints_save_what_late_pieces_take(late: str) -> None:
    asked = make_guards_explicit(bind(shipped("gemm_f32"), WIDE))
    problem = build_problem(asked, load_machine(late), WIDE)
    free, none = schedule(problem, limit_s=60), schedule(problem, fixed={"prefetch.b": 0}, limit_s=60)
    assert free.cost_ns is not None
    assert none.cost_ns is not None
    assert free.status == "OPTIMAL"
    assert free.cost_ns < none.cost_ns
