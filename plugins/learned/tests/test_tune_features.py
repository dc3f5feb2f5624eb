"""Features of schedules: all there, finite, the same under other names, and different where decisions are."""

from __future__ import annotations

from dataclasses import replace
from math import isfinite

import pytest
from isamap_learned.features import FEATURES, Described, described

from isamap.driver.pipeline import compile_kernel
from isamap.driver.request import Request
from isamap.plan.protocols import Trial
from isamap.scheduler import AnalyticModel
from isamap.source import Source

GEMM = """kernel gemm(M, N, K) {
  in A: f32[M, K]; in B: f32[K, N]; inout C: f32[M, N];
  for m in M, n in N, k in K { C[m, n] += A[m, k] * B[k, n]; }
}
"""
RENAMED = """kernel other(P, Q, R) {
  in left: f32[P, R]; in right: f32[R, Q]; inout sum: f32[P, Q];
  for y in P, x in Q, z in R { sum[y, x] += left[y, z] * right[z, x]; }
}
"""


def features_of(
    text: str, sizes: dict[str, int | str], fixed: dict[str, int | None] | None = None
) -> Described:
    request = Request(Source("k.ir", text), "x86-avx512", sizes, heuristic="greedy", fixed=fixed or {})
    made = compile_kernel(request, "schedule")
    assert made.canonical
    assert made.machine
    assert made.problem
    assert made.schedule
    numbers = {name: int(value) for name, value in sizes.items()}
    trial = Trial(made.canonical, made.machine, made.problem, made.schedule, numbers)
    found = described(trial, AnalyticModel())
    assert (
        described(replace(trial, schedule=replace(made.schedule, nests=())), AnalyticModel()).features == {}
    )
    return found


def test_all_features_are_there_and_finite() -> None:
    found = features_of(GEMM, {"M": 16, "N": 64, "K": 32})
    assert found.features.keys() == set(FEATURES)
    assert len(set(FEATURES)) == len(FEATURES)
    assert all(isfinite(value) for value in found.features.values())
    assert found.total_ns is not None
    assert found.features["issues"] > 0
    assert found.features["operand loads"] > 0
    assert (found.features["columns.tile"], found.features["rows.tile"]) == (4, 0)
    assert found.features["sums.issues"] == 5


def test_names_do_not_count() -> None:
    one = features_of(GEMM, {"M": 48, "N": 96, "K": 64})
    other = features_of(RENAMED, {"P": 48, "Q": 96, "R": 64})
    assert other.features == pytest.approx(dict(one.features))
    assert one.decisions.keys() != other.decisions.keys()


def test_decisions_count() -> None:
    sizes: dict[str, int | str] = {"M": 48, "N": 96, "K": 64}
    plain = features_of(GEMM, sizes).features
    blocked = features_of(GEMM, sizes, {"nest0.block.k": 16, "nest0.stage.b": 1}).features
    assert blocked["sums.blocks"] == 2
    assert blocked["right.stage"] == 1
    assert blocked["packing"] > plain["packing"]
    assert plain["left.stage"] == blocked["left.stage"] == 0
