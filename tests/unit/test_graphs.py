"""Graphs parted into kernels: groups, plans that are checked, and CP-SAT beside trying all."""

from __future__ import annotations

import sys
from dataclasses import replace
from functools import partial

import pytest
from random_graphs import least_ns, random_problem

from isamap.plan.graph_check import check_graph_plan, peak_bytes
from isamap.plan.graphs import GraphCache, GraphNode, GraphPlan, GraphProblem, KernelGroup
from isamap.scheduler.graphs import improving
from isamap.scheduler.graphs.bound import bound_ns
from isamap.scheduler.graphs.grouping import Edges, NodeGroup, cones_of, greedily, show_results
from isamap.scheduler.graphs.improving import WHOLE, ask_apart, choose_start, improve_plan, make_plan
from isamap.scheduler.graphs.window import Window, WindowPlan, decide
from isamap.scheduler.process.isolate import warn_of_failure
from isamap.source import Diagnostic

NONE = frozenset[str]()


def chain() -> Edges:
    """conv -> add -> relu, and the sum of both."""
    nodes = (
        GraphNode("conv", "kernel", ("x",), ("c",)),
        GraphNode("add", "pointwise", ("c",), ("a",), NONE, frozenset({"c"})),
        GraphNode("relu", "pointwise", ("a",), ("r",), frozenset({"a"})),
        GraphNode("sum", "pointwise", ("a", "r"), ("s",), frozenset({"a", "r"})),
    )
    return Edges.of(nodes, frozenset({"s"}))


def test_a_group_takes_what_only_it_reads_and_then_more() -> None:
    found = cones_of(chain(), 3)
    assert found == [NodeGroup(3), NodeGroup(3, frozenset({1, 2})), NodeGroup(3, frozenset({0, 1, 2}))]
    assert chain().reads(found[-1]) == ("x",)


def test_a_value_that_two_read_is_computed_in_one_of_them_again() -> None:
    assert NodeGroup(2, frozenset({1})) in cones_of(chain(), 2)


def test_a_kernel_that_another_reads_as_well_is_not_taken_along() -> None:
    nodes = (*chain().nodes, GraphNode("other", "kernel", ("c",), ("o",)))
    edges = Edges.of(nodes, frozenset({"s", "o"}))
    assert all(0 not in cone.inner for cone in cones_of(edges, 1))


def test_the_greedy_rule_leaves_what_several_read() -> None:
    assert greedily(chain()) == [NodeGroup(1, frozenset({0})), NodeGroup(3, frozenset({2}))]


def test_what_is_in_memory_says_what_a_group_is() -> None:
    assert show_results(chain(), 3, frozenset({1, 3})) == NodeGroup(3, frozenset({2}))


@pytest.mark.parametrize("seed", range(12))
def test_the_best_of_all_plans_is_found_and_the_bound_is_below_it(seed: int) -> None:
    problem, _, greedy = random_problem(seed, 6)
    problem = replace(problem, near=GraphCache(1 << 30, 0.0))
    start = make_plan(problem, greedy)
    found = improve_plan(problem, start, 20.0, start.peak_bytes, decide)
    assert found.cost_ns == pytest.approx(least_ns(problem, start.peak_bytes), abs=0.1)
    assert bound_ns(problem) <= found.cost_ns + 0.1
    assert found.method == "CP-SAT, optimal"


@pytest.mark.parametrize("seed", range(8))
def test_no_plan_is_worse_than_the_one_before_and_all_are_sound(seed: int) -> None:
    problem, none, greedy = random_problem(seed, 14)
    start = make_plan(problem, greedy)
    found = improve_plan(problem, start, 4.0, start.peak_bytes, decide)
    for plan in (make_plan(problem, none), start, found):
        assert check_graph_plan(problem, plan) == ()
    assert found.cost_ns <= start.cost_ns
    assert found.peak_bytes <= start.peak_bytes


def test_large_graphs_are_decided_stretch_by_stretch() -> None:
    problem, _, greedy = random_problem(1, 3 * WHOLE)
    start = make_plan(problem, greedy)
    found = improve_plan(problem, start, 4.0, start.peak_bytes, decide)
    assert check_graph_plan(problem, found, start.peak_bytes) == ()
    assert bound_ns(problem) <= found.cost_ns < start.cost_ns


def test_a_plan_for_less_room_is_found_where_there_is_one() -> None:
    problem, none, _ = random_problem(3, 8)
    start = make_plan(problem, none)
    room = min(
        improve_plan(problem, start, 5.0, start.peak_bytes - step, decide).peak_bytes for step in (64, 256)
    )
    assert room < start.peak_bytes


def test_what_passes_counts_in_whole_lines_beside_what_stays_near() -> None:
    nodes = tuple(
        GraphNode(name, "kernel", reads, (name,))
        for name, reads in (("a", ("x",)), ("b", ("x",)), ("c", ("a",)), ("d", ("b", "c")))
    )
    groups = tuple(
        KernelGroup(n, (), tuple(t for t in node.reads if t != "x"), 10.0, 0, 4)
        for n, node in enumerate(nodes)
    )
    problem = GraphProblem(nodes, dict.fromkeys("abcd", 512), groups, frozenset("d"), GraphCache(1024, 1.0))
    found = improve_plan(problem, make_plan(problem, range(4)), 5.0, 1 << 20, decide)
    assert check_graph_plan(problem, found) == ()


def corrupted(problem: GraphProblem, plan: GraphPlan) -> dict[str, GraphPlan]:
    """Plans with one fault each, by what is said of it."""
    return {
        "before it is written": replace(plan, order=plan.order[::-1]),
        "there already": replace(plan, order=(*plan.order, plan.order[-1])),
        "never written": replace(plan, order=plan.order[:-1]),
        "bytes live at one time": replace(plan, peak_bytes=plan.peak_bytes - 1),
        "it costs": replace(plan, cost_ns=plan.cost_ns * 0.9),
        "its bound": replace(plan, bound_ns=plan.cost_ns * 1.1),
        "to stay in a cache": replace(plan, near=frozenset(problem.sizes)),
    }


def test_each_fault_in_a_plan_is_found() -> None:
    problem, none, _ = random_problem(0, 14)
    for fault, plan in corrupted(problem, make_plan(problem, none)).items():
        found = check_graph_plan(problem, plan)
        assert any(fault in finding.message for finding in found), fault


def test_a_limit_counts_what_kernels_need_themselves() -> None:
    problem, none, _ = random_problem(5, 14)
    assert any(problem.groups[g].workspace_bytes for g in none)
    plan = make_plan(problem, none)
    assert check_graph_plan(problem, plan, peak_bytes(problem, none)) == ()
    assert check_graph_plan(problem, plan, peak_bytes(problem, none) - 1)


@pytest.mark.parametrize("seed", range(20))
def test_whatever_is_inside_of_a_group_may_be_computed_where_it_is_read(seed: int) -> None:
    problem, _, _ = random_problem(seed, 20)
    for group in problem.groups:
        members = {*group.inner, group.root}
        kernels = [n for n in members if problem.nodes[n].kind == "kernel"]
        assert len(kernels) <= 1
        for node in (problem.nodes[n] for n in members):
            for tensor in node.reads:
                maker = problem.makers.get(tensor, -1)
                if maker in members:
                    assert tensor in (node.behind if maker in kernels else node.inlined)


def test_graphs_of_many_kernels_are_improved_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    problem, none, _ = random_problem(4, 3 * WHOLE)
    start = make_plan(problem, none)
    monkeypatch.setattr(improving, "PIECE", 40)
    found = improving.improved_in_pieces(problem, start, 6.0, start.peak_bytes, decide)
    assert check_graph_plan(problem, found, start.peak_bytes) == ()
    assert bound_ns(problem) <= found.cost_ns < start.cost_ns
    assert found.method == "CP-SAT, in pieces"


@pytest.mark.parametrize(
    ("program", "said"),
    [
        ("import os; os.abort()", "it was ended by signal SIGABRT"),
        ("print('ready'); print('hello')", "its answer cannot be read: Expecting value"),
        ("print('ready'); print('[]')", "its answer cannot be read: "),
        (
            "print('ready', flush=True); import time; time.sleep(600)",
            "it did not stop at its limit of 0.5 s, and was ended",
        ),
    ],
)
def test_a_failing_solver_leaves_the_plan_and_is_told_of(
    program: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("isamap.scheduler.graphs.asking.GRACE_S", 3.0)
    problem, none, _ = random_problem(4, WHOLE)
    start = make_plan(problem, none)
    ask = partial(ask_apart, command=(sys.executable, "-c", program))
    found = improving.improved_in_pieces(problem, start, 0.5, start.peak_bytes, ask)
    assert replace(found, warnings=()) == start
    (warning,) = found.warnings
    assert (warning.code, warning.severity) == ("solver-failed", "warning")
    assert warning.message == "the solver failed; the plan is the best that was known by then"
    assert said in warning.notes[0]


def test_a_solver_that_fails_for_one_piece_is_told_of_and_the_others_are_improved(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    problem, none, _ = random_problem(4, 3 * WHOLE)
    start = make_plan(problem, none)
    monkeypatch.setattr(improving, "PIECE", 40)
    asked: list[Window] = []

    def ask(window: Window) -> WindowPlan | Diagnostic | None:
        asked.append(window)
        return warn_of_failure("out of luck", "plan") if len(asked) == 1 else decide(window)

    found = improving.improved_in_pieces(problem, start, 6.0, start.peak_bytes, ask)
    assert [warning.notes for warning in found.warnings] == [("out of luck",)]
    assert found.cost_ns < start.cost_ns


def test_a_search_starts_without_fusion_where_that_is_cheaper_and_has_room() -> None:
    none, greedy = (GraphPlan((0,), NONE, cost, peak) for cost, peak in ((1.0, 64), (2.0, 128)))
    assert choose_start(none, greedy, 128) is none
    assert choose_start(none, greedy, 32) is greedy
    assert choose_start(replace(none, cost_ns=3.0), greedy, 128) is greedy
