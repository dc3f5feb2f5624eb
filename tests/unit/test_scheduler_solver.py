"""CP-SAT: what it proves, that it repeats itself, how people fix decisions, and what stops it."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace

import pytest
from ortools.sat.python import cp_model
from plan_problems import PROBLEMS, conv2d, elementwise, gemm, gemm_option, problem, tiled_gemm

from isamap.plan.check import check_schedule
from isamap.plan.problem import Problem
from isamap.plan.schedule import Schedule
from isamap.plan.text import print_schedule
from isamap.scheduler import schedule
from isamap.scheduler.cpsat import CpSat
from isamap.scheduler.effects.table import AnalyticModel
from isamap.scheduler.translation.linear_terms import imply
from isamap.source import Infeasible, UsageProblem


@pytest.mark.parametrize("problem", PROBLEMS.values(), ids=PROBLEMS)
def test_the_solver_is_never_worse_than_greedy(problem: Problem) -> None:
    found, first = schedule(problem), schedule(problem, heuristic="greedy")
    assert check_schedule(found, problem) == ()
    assert cost(found) <= cost(first)
    assert bound(first) * (1 - 1e-9) <= bound(found) <= cost(found)
    assert found.reproducible


def test_a_schedule_names_the_engines_that_found_it_and_proved_its_bound() -> None:
    asked = gemm(100, 60, 40)
    first = schedule(asked, heuristic="greedy")
    assert (first.found_by, first.proved_by) == ("greedy", "lower bounds")
    alone = CpSat(splits=False).schedule(asked, AnalyticModel(), limit_s=10.0, fixed={})
    assert alone.proved_by == "CP-SAT"
    assert alone.found_by == ("greedy" if alone.nests == first.nests else "CP-SAT")


def test_a_gemm_is_proven_optimal() -> None:
    found = schedule(gemm(1024, 1024, 1024))
    assert found.status == "OPTIMAL"
    assert found.gap is not None
    assert found.gap < 1e-3
    # No more than an eighth above what the multipliers alone take.
    assert cost(found) < 1024**3 / 16 * 0.14 * 1.15


def test_the_faster_of_many_mappings_wins() -> None:
    options = [gemm_option(256, 256, 256, width) for width in (1, 4, 16, 8)]
    found = schedule(problem(options[0], *options[1:]))
    assert found.nests[0].mapping.startswith("fma16")
    assert found.status == "OPTIMAL"


def test_statements_are_scheduled_one_by_one() -> None:
    one, other = gemm(64, 64, 64), elementwise(64, 64)
    both = replace(one, nests=(*one.nests, replace(other.nests[0], statement=1)))
    found = schedule(both)
    assert [nest.statement for nest in found.nests] == [0, 1]
    assert check_schedule(found, both) == ()
    assert cost(found) == pytest.approx(cost(schedule(one)) + cost(schedule(other)))


def test_sums_that_a_tensor_cannot_hold_rest_in_a_buffer() -> None:
    question = tiled_gemm(256, 256, 4096)
    found = schedule(question, fixed={"nest0.block.k": 512})
    assert check_schedule(found, question) == ()
    assert "c" in [stage.operand for stage in found.nests[0].stages]
    with pytest.raises(Infeasible):
        schedule(question, fixed={"nest0.block.k": 512, "nest0.stage.c": 0})


# --- fixed decisions --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fixed", "axis", "step"),
    [
        ({"nest0.block.k": 256}, "k", 256),
        ({"nest0.block.n": 112}, "n", 112),
        ({"nest0.unroll.m": 6, "nest0.unroll.n": 4}, "m", 6),
    ],
)
def test_a_fixed_decision_is_kept(fixed: dict[str, int], axis: str, step: int) -> None:
    question = gemm(512, 512, 512)
    found = schedule(question, fixed=fixed)
    assert step in [loop.step for loop in found.nests[0].loops if loop.axis == axis]
    assert cost(found) >= cost(schedule(question)) * (1 - 1e-6)


def test_fixed_orders_are_kept() -> None:
    fixed = {"nest0.order.m.n": 0, "nest0.block.m": 60, "nest0.block.n": 64, "nest0.block.k": 64}
    loops = schedule(gemm(512, 512, 512), fixed=fixed | {"nest0.order.m.k": 1}).nests[0].loops
    assert [(loop.axis, loop.step) for loop in loops[:3]] == [("n", 64), ("m", 60), ("k", 64)]


def test_fixed_orders_in_a_circle_are_refused() -> None:
    circle = {"nest0.order.m.n": 1, "nest0.order.n.k": 1, "nest0.order.m.k": 0}
    with pytest.raises(Infeasible):
        schedule(gemm(512, 512, 512), fixed=circle)


@pytest.mark.parametrize(
    ("fixed", "said"),
    [
        ({"nest0.block.z": 1}, "there is no decision `nest0.block.z`"),
        ({"nest1.block.n": 64}, "did you mean `nest0.block.n`?"),
        ({"nest0.stage.a": 3}, "`nest0.stage.a` is 0, 1 or 2, not 3"),
    ],
)
def test_an_unknown_decision_or_value_is_refused(fixed: dict[str, int], said: str) -> None:
    with pytest.raises(UsageProblem) as refused:
        schedule(gemm(64, 64, 64), fixed=fixed)
    assert said in refused.value.render()


@pytest.mark.parametrize(
    "fixed",
    [
        {"nest0.unroll.m": 33},
        {"nest0.block.n": 100},
        {"nest0.mapping": 7},
        {"nest0.stage.c": 2},
        {"nest0.unroll.m": 8, "nest0.block.m": 4},
    ],
)
def test_an_impossible_decision_is_refused(fixed: dict[str, int]) -> None:
    with pytest.raises(Infeasible) as refused:
        schedule(gemm(512, 512, 512), fixed=fixed)
    (found,) = refused.value.diagnostics
    assert found.code.startswith("fix-")
    assert found.help is not None


def test_too_few_registers_are_refused() -> None:
    with pytest.raises(Infeasible) as refused:
        schedule(replace(gemm(64, 64, 64), registers=(("zmm", 2),)))
    assert refused.value.diagnostics[0].code == "too-few-registers"


def test_an_unknown_heuristic_is_refused() -> None:
    with pytest.raises(UsageProblem) as refused:
        schedule(gemm(64, 64, 64), heuristic="greedi")
    assert "did you mean `greedy`?" in refused.value.render()


# --- stopping and repeating -------------------------------------------------------------------------------


def test_a_short_limit_still_gives_a_schedule_and_says_so() -> None:
    question = conv2d(8, 256, 256, 28, 28, 3, 3)
    found = schedule(question, limit_s=0.01)
    assert check_schedule(found, question) == ()
    assert found.status == "FEASIBLE"
    assert not found.reproducible


@pytest.mark.parametrize("heuristic", ["greedy", "cpsat", "annealing"])
def test_without_any_time_there_is_a_schedule_of_which_nothing_is_proven(heuristic: str) -> None:
    options = [gemm_option(512, 512, 512, width) for width in (1, 4, 16, 8)]
    question = problem(options[0], *options[1:])
    found = schedule(question, heuristic=heuristic, limit_s=0.0)
    assert check_schedule(found, question) == ()
    assert not found.reproducible
    assert [finding.code for finding in found.findings] == ["solver-stopped"]
    assert bound(found) <= cost(schedule(question))


def test_the_answer_does_not_depend_on_hashes() -> None:
    script = (
        "from plan_problems import gemm, conv2d; from isamap.scheduler import schedule; "
        "from isamap.plan.text import print_schedule; "
        "problems = gemm(127, 251, 64), conv2d(1, 64, 17, 7, 7, 3, 3); "
        "print(*(print_schedule(schedule(problem, limit_s=60)) for problem in problems))"
    )
    texts = {
        subprocess.run(
            [sys.executable, "-c", script],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("0", "1", "4711")
    }
    assert len(texts) == 1
    assert print_schedule(schedule(gemm(127, 251, 64), limit_s=60)).strip() in texts.pop()


def test_large_coefficients_are_kept_out_of_enforced_constraints_for_a_reason() -> None:
    """Fails when OR-Tools is mended: then `ENFORCED_BITS` can go."""
    assert status_of_a_feasible_model(1 << 20) == "OPTIMAL"
    assert status_of_a_feasible_model(1 << 30) == "INFEASIBLE"


def status_of_a_feasible_model(coefficient: int) -> str:
    model = cp_model.CpModel()
    x = model.new_int_var_from_domain(cp_model.Domain.from_values([5, 6, 7, 8, 32]), "x")
    y = model.new_int_var(5 * coefficient, 32 * coefficient, "y")
    literals = [model.new_bool_var("") for _ in range(3)]
    model.add_exactly_one(literals)
    for literal in literals:
        imply(model, literal, y >= coefficient * x)
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.cp_model_presolve = False
    return solver.status_name(solver.solve(model))


def cost(found: Schedule) -> float:
    assert found.cost_ns is not None
    return found.cost_ns


def bound(found: Schedule) -> float:
    assert found.lower_bound_ns is not None
    return found.lower_bound_ns
