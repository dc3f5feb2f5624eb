"""ONNX's own tests of its operators: what the page says is right is right, and nothing is wrong."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("onnx", reason="models of ONNX need the package onnx: pip install 'isamap[onnx]'")

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "onnx-operators.md").read_text(encoding="utf-8")
ROWS = {
    found[1]: int(found[2])
    for found in re.finditer(r"^\| ([A-Za-z0-9, ]+?) \| ([0-9]+) \| [0-9]+ \|", PAGE, re.MULTILINE)
    if int(found[2])
}


def runner() -> Any:
    """`benchmarks/onnx_nodes.py`, which is not a part of a package."""
    name = "onnx_nodes"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, ROOT / "benchmarks" / f"{name}.py")
        assert spec is not None
        assert spec.loader is not None
        sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
    return sys.modules[name]


@pytest.mark.exhaustive(fast=3)
@pytest.mark.parametrize("operator", ROWS)
def test_as_many_tests_of_an_operator_are_right_as_the_page_says(operator: str) -> None:
    nodes = runner()
    names = [name for name, case in nodes.cases().items() if ", ".join(nodes.operators_of(case)) == operator]
    results = [nodes.run_case(name) for name in names]
    assert [(r.name, r.why) for r in results if r.outcome in ("wrong", "failed")] == []
    assert sum(r.outcome == "right" for r in results) == ROWS[operator]


@pytest.mark.exhaustive(fast=3)
@pytest.mark.parametrize("layout", ["permuted", "part", "computed"])
@pytest.mark.parametrize("operator", ROWS)
def test_results_are_right_in_every_layout_of_inputs_and_results(operator: str, layout: str) -> None:
    nodes = runner()
    names = [name for name, case in nodes.cases().items() if ", ".join(nodes.operators_of(case)) == operator]
    results = [nodes.run_case(name, layout=layout) for name in names]
    assert [(r.name, r.why) for r in results if r.outcome in ("wrong", "failed")] == []
    assert sum(r.outcome == "right" for r in results) == ROWS[operator], "a layout is no reason to refuse"


def test_a_norm_across_channels_reads_an_image_whose_channels_are_last() -> None:
    result = runner().run_case("test_lrn", layout="permuted")
    assert (result.outcome, result.why) == ("right", "")


def test_the_page_counts_what_its_table_does() -> None:
    total, right = (int(n) for n in re.findall(r"Of ([0-9]+) tests, ([0-9]+) are right", PAGE)[0])
    rows = re.findall(r"^\| [A-Za-z0-9, ]+? \| ([0-9]+) \| ([0-9]+) \|", PAGE, re.MULTILINE)
    assert right == sum(int(good) for good, _ in rows)
    assert total == sum(int(of) for _, of in rows)
    assert right >= 900
