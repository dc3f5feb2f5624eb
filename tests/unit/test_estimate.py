"""What a mapping keeps busy, by hand: extents, lanes and issues of small products."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

import isamap
from isamap.driver.matching import match_kernel
from isamap.driver.pipeline import compile_kernel
from isamap.driver.request import Request
from isamap.formulate.estimate import (
    Estimate,
    bound_of_utilisation,
    estimate,
    issue_lengths,
    moves_ns,
    number_extents,
)
from isamap.kernels import kernel_path
from isamap.machine import load_machine
from isamap.match import Movement, pattern_of
from isamap.plan.problem import TileAxis
from isamap.report.mapping_facts import Matched
from isamap.source import Source

MATMUL = load_machine("matmul-16x16x16")


def matched(kernel: str, machine: str = "matmul-16x16x16", **sizes: int) -> Matched:
    source = Source(f"{kernel}.ir", kernel_path(kernel).read_text(encoding="utf-8"))
    return match_kernel(source, load_machine(machine), sizes)


def of_first(found: Matched) -> Estimate:
    mapping = found.mappings[0]
    pattern = pattern_of(found.machine.instructions[mapping.instruction].instruction)
    assert pattern is not None
    made = estimate(found.statements[0], mapping, pattern, found.machine)
    assert made is not None
    return made


def test_full_tiles_keep_all_lanes_busy() -> None:
    made = of_first(matched("gemm_f32", M=64, N=32, K=16))
    assert (made.issues, made.lanes, made.utilisation) == (4 * 2 * 1, 16**3, 1.0)


def test_tails_leave_lanes_idle() -> None:
    made = of_first(matched("gemm_f32", M=17, N=16, K=1))
    assert made.issues == 2
    assert made.utilisation == pytest.approx(17 * 16 * 1 / (2 * 16**3))


def test_an_empty_axis_leaves_all_but_one_of_its_lanes_idle() -> None:
    found = matched("gemv_f32", M=16, K=16)
    assert [m.kind for m in found.mappings] == ["degenerate", "degenerate"]
    assert of_first(found).utilisation == pytest.approx(1 / 16)


def test_while_sizes_are_open_an_empty_axis_bounds_what_is_busy() -> None:
    found = matched("gemv_f32")
    pattern = pattern_of(MATMUL.instructions["matmul"].instruction)
    assert pattern is not None
    assert bound_of_utilisation(found.mappings[0], pattern) == 1 / 16
    assert bound_of_utilisation(matched("gemm_f32").mappings[0], pattern) is None


def test_fused_axes_have_one_tail() -> None:
    found = matched("pointwise", N=1, C=16, K=16, H=5, W=7)
    fused = next(m for m in found.mappings if m.groups[0].kernel_axes == ("h", "w"))
    made = of_first(replace(found, mappings=(fused,)))
    assert made.issues == -(-35 // 16)
    assert made.utilisation == pytest.approx(35 / 48)


def test_a_tile_is_moved_once_however_often_it_is_used() -> None:
    found = matched("gemm_f32", M=64, N=64, K=64)
    mapping, statement = found.mappings[0], found.statements[0]
    made = of_first(found)
    move = Movement("a", "in place", (), cost_ns=3.0)
    assert moves_ns(move, statement, mapping, made, MATMUL) == 3.0 * (4 * 4)


def test_without_numbers_there_is_no_estimate() -> None:
    statement = matched("gemm_f32").statements[0]
    assert number_extents(statement, {"M": 4}) is None
    guessed = number_extents(statement, {"M": 4}, 64)
    assert guessed is not None
    assert [a.extent.value for a in guessed.axes] == [4, 64, 64]


def test_the_cheapest_mapping_comes_first_and_composed_ones_last() -> None:
    found = matched("gemm_f32", "x86-avx512", M=96, N=96, K=96)
    ranked = found.look.ranked(found.mappings, None)
    plain = [f for f in ranked if not f.mapping.composed]
    assert ranked[: len(plain)] == plain
    costs = [f.comparable_ns for f in plain]
    assert costs == sorted(costs)
    assert all(f.cost_ns is None or f.cost_ns == f.comparable_ns for f in plain)


def test_the_best_few_are_those_of_all() -> None:
    found = matched("conv1d", N=2, C=20, K=24, W=34, R=3)
    few = found.look.ranked(found.mappings, 3)
    every = matched("conv1d", N=2, C=20, K=24, W=34, R=3).look.ranked(found.mappings, None)
    assert [f.comparable_ns for f in few[:3]] == [f.comparable_ns for f in every[:3]]
    assert all(f.movements is not None for f in (*few[:3], *every))
    assert sorted(f.mapping.ident for f in few) == sorted(f.mapping.ident for f in every)


def test_tiles_that_go_through_a_scratchpad_cost_what_copies_of_whole_tiles_take() -> None:
    found = matched("gemm_s8s8", "systolic-16", M=64, N=64, K=64)
    facts = found.look.closely(found.look.at(found.mappings[0]))
    tiles = 4 * 4
    a, b = 16 * 1, 16 * 1 + 16  # rows of 16 bytes at 16 bytes per ns; what is preloaded takes 16 ns more
    sums = 2 * 16 * 4  # in and out again, rows of 16 sums of 4 bytes each
    assert facts.moves_ns == pytest.approx(tiles * (a + b + sums))


def test_short_issues_cost_what_they_pass(tmp_path: Path) -> None:
    """Rows of 16 cost the same, whether an instruction moves 16 at most or 32."""
    kernel = """kernel padded() {
      in a: i8[16, 16, 32];
      out p: i8[18, 18, 32];
      for i in 18, j in 18, c in 32 { p[i, j, c] = (a[i - 1, j - 1, c] else 0); }
    }"""
    spec = Path(isamap.__file__).parent / "hw_specs" / "edge-npu.yaml"
    text, costs = spec.read_text(encoding="utf-8"), list[float]()
    for most in (16, 32):
        path = tmp_path / str(most) / "edge-npu.yaml"
        path.parent.mkdir()
        path.write_text(re.sub(r"scalar R: 0\.\.\d+", f"scalar R: 0..{most}", text))
        request = Request(Source("padded.ir", kernel), str(path), {}, heuristic="greedy")
        made = compile_kernel(request, "schedule")
        assert made.problem is not None
        moved = [o for o in made.problem.nests[1].options if "R" in dict(o.choose)]
        costs.append(min(o.interval_ns for o in moved if o.axes[1].extent == 16 or o.axes[0].extent == 16))
    assert costs[0] == costs[1]


def test_issues_at_the_end_of_an_axis_pass_the_remainder() -> None:
    axes = [TileAxis("i", 100, 64, is_reduction=False), TileAxis("j", 7, 8, is_reduction=False)]
    found = issue_lengths([("R", 64), ("C", 8)], axes, {"i": "R", "j": "C"})
    assert found == [({"R": 64, "C": 7}, 0.5), ({"R": 36, "C": 7}, 0.5)]
