"""A plan as a table, as JSON and as a picture."""

from __future__ import annotations

from typing import Any
from xml.etree import ElementTree

import pytest
from random_graphs import random_problem

from isamap.plan.graph_check import live_ranges
from isamap.report.graph_picture import GraphView, graph_json, graph_page, graph_picture, graph_text
from isamap.scheduler.graphs.improving import make_plan

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture
def view() -> GraphView:
    problem, none, _ = random_problem(2, 6)
    plan = make_plan(problem, none)
    places = {t: 64 * n for n, t in enumerate(live_ranges(problem, plan.order)) if t not in problem.results}
    return GraphView("made", problem, plan, places, 4096)


def test_a_row_for_each_kernel_and_a_rectangle_for_each_tensor(view: GraphView) -> None:
    root = ElementTree.fromstring(graph_picture(view).svg())
    tips = [tip.text or "" for tip in root.iter(f"{SVG}title")]
    assert sum("reads" in tip for tip in tips) == len(view.plan.order)
    assert [tip.partition(":")[0] for tip in tips if " bytes at " in tip] == list(view.offsets)


def test_the_table_says_what_each_kernel_reads_and_writes(view: GraphView) -> None:
    lines = graph_text(view).splitlines()
    assert lines[0].startswith("made: 6 nodes in 6 kernels, ")
    assert lines[-1].split()[-1] == view.problem.nodes[-1].writes[0]
    assert graph_text(view) in graph_page(view)


def test_json_has_lives_in_places_of_the_order(view: GraphView) -> None:
    found = graph_json(view)
    tensors: Any = found["tensors"]
    assert len(tensors) == 6
    assert found["peak_bytes"] == view.plan.peak_bytes
    assert all(0 <= one["life"][0] < one["life"][1] <= 6 for one in tensors)
