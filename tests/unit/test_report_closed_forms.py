"""Formulas of access counts as users read them: text, JSON that SymPy parses, and where there is none."""

from __future__ import annotations

import json
from typing import Any

import pytest
import sympy

from isamap.cli import main

PARSE: Any = sympy.sympify  # of which type checkers do not know what it takes
CONV = "conv2d_nhwc --hw generic-c -D N=1 C=4 K=8 H=9 W=9 R=3 S=3 pad=1"


class Told:
    """What `isamap accesses … --json` says."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self.capsys = capsys

    def __call__(self, words: str) -> list[dict[str, Any]]:
        assert main(["accesses", *words.split(), "--json"]) == 0
        return json.loads(self.capsys.readouterr().out)["accesses"]["statements"]


@pytest.fixture
def told(capsys: pytest.CaptureFixture[str]) -> Told:
    return Told(capsys)


def test_json_has_formulas_that_give_the_counts_beside_them(told: Told) -> None:
    sizes = {"M": 30, "N": 20, "K": 50}
    words = " ".join(f"{name}={size}" for name, size in sizes.items())
    (found,) = told(f"gemm_f32 --hw generic-c -D {words} --heuristic greedy")
    for formulas, counts in zip(found["formulas"]["accesses"], found["accesses"], strict=True):
        for column in ("reads", "fills", "updates", "drains"):
            names = {name: sympy.Symbol(name) for name in sizes}
            assert PARSE(formulas[column], names).subs(sizes) == counts[column]
    home = [a for a in found["accesses"] if a["level"] == "mem"]
    moved = PARSE(found["formulas"]["home_bytes"], {"N": sympy.Symbol("N")}).subs(sizes)
    assert moved == 4 * sum(a["reads"] + a["updates"] for a in home)


def test_an_extent_that_is_an_expression_is_explained(told: Told) -> None:
    formulas = told(f"{CONV} stride=1 --heuristic greedy")[-1]["formulas"]
    assert formulas["extents"] == {"extent_p": "H - R + 2*pad + 1", "extent_q": "-S + W + 2*pad + 1"}


def test_windows_with_gaps_have_no_formula_and_what_is_beside_them_has(told: Told) -> None:
    formulas = told(f"{CONV} stride=2 --heuristic greedy")[-1]["formulas"]
    reads = {a["tensor"]: a["reads"] for a in formulas["accesses"] if a["level"] == "mem"}
    assert reads["X_padded"] is None
    assert reads["F"] is not None
    assert formulas["home_bytes"] is None


@pytest.mark.parametrize("convention", ["timeloop", "zigzag"])
def test_other_conventions_have_none(told: Told, convention: str) -> None:
    found = told(f"gemm_f32 --hw generic-c -D M=8 N=8 K=8 --heuristic greedy --convention {convention}")
    assert "formulas" not in found[0]
