"""Statements inside ordered loops are performed once an iteration, and cost so much."""

from __future__ import annotations

import pytest
from unit.rewriting import chosen_form, shipped

from isamap.driver.pipeline import compile_kernel
from isamap.driver.request import BEST_FORM, Request
from isamap.kernels import kernel_path
from isamap.plan.problem import Problem
from isamap.plan.schedule import Schedule
from isamap.report.roofline import rooflines
from isamap.scheduler import AnalyticModel
from isamap.scheduler.effects.time_parts import where_time_goes
from isamap.source import Source
from isamap.transform import statements

STEPS = """\
kernel steps(T, N, K) {
  inout U: f32[N, K];
  in x: f32[K];
  inout h: f32[N];
  for n in N { h[n] = 0; }
  seq t in T {
    for n in N, k in K { h[n] += U[n, k] * x[k]; }
    for n in N { h[n] = max(h[n], 0); }
    for n in N { U[n, 0] = h[n]; }
  }
}
"""


def planned(iterations: int, heuristic: str) -> tuple[Problem, Schedule]:
    request = Request(
        Source("steps.ir", STEPS),
        "x86-avx2",
        {"T": iterations, "N": 64, "K": 48},
        heuristic=heuristic,
        cache=False,
    )
    made = compile_kernel(request, "schedule")
    assert made.problem is not None
    assert made.schedule is not None
    return made.problem, made.schedule


@pytest.mark.parametrize("heuristic", ["greedy", "cpsat"])
def test_a_statement_costs_a_turn_for_each_turn_of_the_loops_around_it(heuristic: str) -> None:
    (one, once), (many, often) = planned(1, heuristic), planned(7, heuristic)
    assert [nest.iterations for nest in one.nests] == [1, 1, 1, 1]
    assert [nest.iterations for nest in many.nests] == [1, 7, 7, 7]
    assert [nest.fused for nest in once.nests] == [nest.fused for nest in often.nests]
    model = AnalyticModel()
    times = [where_time_goes(once, one, model), where_time_goes(often, many, model)]
    for number, (first, other) in enumerate(zip(*times, strict=True)):
        assert first is not None
        assert other is not None
        iterations = many.nests[number].iterations
        assert other.total_ns == pytest.approx(iterations * first.total_ns)
        assert other.rest_ns == pytest.approx(iterations * first.rest_ns, abs=1e-6)
    assert often.cost_ns == pytest.approx(sum(t.total_ns for t in times[1] if t is not None))
    rates = [rooflines(s, p, t) for s, p, t in ((once, one, times[0]), (often, many, times[1]))]
    assert [r.reached_per_ns for r in rates[1]] == pytest.approx([r.reached_per_ns for r in rates[0]])


def test_what_does_not_depend_on_the_turn_is_done_before_the_loop() -> None:
    path = kernel_path("gru")
    source = Source(path.name, path.read_text(encoding="utf-8"))
    sizes = {"T": 8, "N": 16, "C": 512, "H": 512}
    request = Request(source, "x86-avx512", sizes, transform=BEST_FORM)
    kernel = shipped("gru")
    chosen = chosen_form(request, kernel)
    assert chosen.steps
    inside = [s for s in statements(chosen.kernel) if s.sequence]
    assert len(inside) < len([s for s in statements(kernel) if s.sequence])
