"""Kernels whose operands are in no cache when they begin: `--cold`."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from unit.rewriting import shipped

from isamap.cli import main
from isamap.driver.cached_schedules import problem_key
from isamap.driver.request import Request
from isamap.formulate.build import build_problem
from isamap.ir import bind
from isamap.kernels import kernel_path
from isamap.machine import load_machine
from isamap.plan.problem import Problem
from isamap.scheduler import schedule
from isamap.scheduler.effects.table import AnalyticModel
from isamap.scheduler.effects.time_parts import where_time_goes
from isamap.source import Source
from isamap.syntax import parse_kernel
from isamap.transform import make_guards_explicit

MACHINE = "x86-avx512"
SIZES = {"M": 2, "N": 1024, "K": 512}  # 2 MB of weights: a cache holds them
WORDS = ["--hw", MACHINE, "-D", *(f"{name}={value}" for name, value in SIZES.items()), "--profile", "none"]


def problem(cold: bool) -> Problem:
    kernel = make_guards_explicit(bind(shipped("gemm_f32"), SIZES))
    return build_problem(kernel, replace(load_machine(MACHINE), starts_cold=cold), SIZES)


def from_memory_ns(asked: Problem) -> float:
    """Return what comes from beyond all caches, in the best schedule."""
    (time,) = where_time_goes(schedule(asked, heuristic="greedy"), asked, AnalyticModel())
    assert time is not None
    return time.sums().get("from memory", 0.0)


def test_what_a_cache_would_hold_comes_from_memory_once() -> None:
    warm, cold = problem(cold=False), problem(cold=True)
    assert from_memory_ns(warm) == 0.0
    least_ns = 4 * 1024 * 512 / cold.memory_bandwidth_bytes_per_ns
    assert least_ns <= from_memory_ns(cold) < 3 * least_ns


def test_weights_stream_that_a_cache_would_hold() -> None:
    for cold in (False, True):
        operands = [o for option in problem(cold).nests[0].options for o in option.operands]
        assert {o.tensor for o in operands if o.prefetching.is_streamed} == ({"B"} if cold else set())


TWO = """
kernel two() {
  in X: f32[16, 256]; in W: f32[256, 256]; inout Y: f32[16, 256];
  temp S: f32[16, 256];
  for i in 16, j in 256 { S[i, j] = 0; }
  for i in 16, j in 256, k in 256 { S[i, j] += X[i, k] * W[k, j]; }
  for i in 16, j in 256, k in 256 { Y[i, j] += S[i, k] * W[k, j]; }
}
"""


def test_what_a_statement_before_has_written_is_near() -> None:
    kernel = make_guards_explicit(bind(parse_kernel(Source("two.ir", TWO)), {}))
    asked = build_problem(kernel, replace(load_machine(MACHINE), starts_cold=True), {})
    cold = [
        {o.tensor for option in nest.options for o in option.operands if o.prefetching.is_cold}
        for nest in asked.nests
    ]
    assert cold == [set(), {"X", "W"}, {"W", "Y"}]


TURNS = """
kernel turns() {
  in X: f32[16, 256]; in W: f32[256, 256]; inout Y: f32[16, 256];
  seq t in 4 { for i in 16, j in 256, k in 256 { Y[i, j] += X[i, k] * W[k, j]; } }
}
"""


def test_what_an_ordered_loop_comes_back_to_is_near() -> None:
    kernel = make_guards_explicit(bind(parse_kernel(Source("turns.ir", TURNS)), {}))
    asked = build_problem(kernel, replace(load_machine(MACHINE), starts_cold=True), {})
    assert [nest.iterations for nest in asked.nests] == [4]
    assert not any(o.prefetching.is_cold for option in asked.nests[0].options for o in option.operands)


def test_a_cold_question_is_another_one_and_a_warm_one_is_as_before() -> None:
    path = kernel_path("gemm_f32")
    warm = Request(Source(path.name, path.read_text()), MACHINE, dict[str, int | str](SIZES))
    cold, kernel = replace(warm, cold=True), bind(shipped("gemm_f32"), SIZES)
    assert problem_key(warm, kernel, "whole") != problem_key(cold, kernel, "whole")
    assert "cold" not in warm.options()
    assert cold.options() == {**warm.options(), "cold": True}


def answer(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    assert main([*words, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_a_schedule_for_cold_operands_takes_longer(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["schedule", "gemm_f32", *WORDS, "--heuristic", "greedy"]
    warm, cold = (answer(capsys, *words, *more)["attempts"][0]["cost_ns"] for more in ((), ("--cold",)))
    assert cold > 1.1 * warm


def test_the_manifest_says_what_the_code_is_for(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    folder = tmp_path / "out"
    answer(capsys, "compile", "gemm_f32", *WORDS, "--cold", "-o", str(folder))
    assert json.loads((folder / "manifest.json").read_text())["depends_on"]["options"]["cold"] is True


@pytest.mark.parametrize(
    ("command", "option"),
    [
        ("compile", ["--tune"]),
        ("compile", ["--tuned"]),
        ("compile", ["--evaluate", "measured"]),
        ("schedule", ["--evaluate", "measured"]),
    ],
)
def test_what_is_measured_is_warm_and_said_to_be(
    capsys: pytest.CaptureFixture[str], command: str, option: list[str]
) -> None:
    assert main([command, "gemm_f32", *WORDS, "--cold", *option]) == 2
    said = capsys.readouterr().err
    assert f"operands are in no cache, and what `{option[0]}` measures finds them in caches" in said
    assert "isamap bench deepbench --cache rotate" in said
