"""A cost is a number of at least 0 at every instance of its parameters, or the description is refused."""

from __future__ import annotations

import random
from itertools import product
from math import isfinite
from pathlib import Path

import numpy as np
import pytest

from isamap.cli import main
from isamap.ir import F64, Comparison, Constraint, Expr, Index
from isamap.machine import cost_value, load_machine
from isamap.machine.costs import Ranges, find_flaw
from isamap.source import Source
from isamap.syntax import parse_expression

NAMES = ("L", "N")
LARGEST = 2**32 - 1


def parsed(text: str) -> Expr:
    return parse_expression(Source("cost", text), dict.fromkeys(NAMES, F64))


def is_cost(expr: Expr, values: dict[str, int]) -> bool:
    try:
        with np.errstate(all="ignore"):
            value = cost_value(expr, values)
    except ZeroDivisionError:
        return False
    return isfinite(value) and value >= 0


def drawn(chance: random.Random, depth: int = 3) -> str:
    """Return an expression over L and N, at random."""
    if depth == 0 or chance.random() < 0.2:
        return chance.choice(["L", "N", str(chance.randint(0, 9)), "0.5"])
    inner = [drawn(chance, depth - 1) for _ in range(2)]
    form = chance.choice(
        ["({} + {})", "({} - {})", "({} * {})", "({} / {})", "min({}, {})", "max({}, {})", "abs({})", "-{}",
         "sqrt({})", "log({})", "exp({})", "tanh({})", "sin({})", "round({}, up)"]
    )  # fmt: skip
    return form.format(*inner)


def test_what_is_found_is_what_trying_every_instance_finds() -> None:
    chance = random.Random(5)
    ranges: Ranges = (("L", 0, 6), ("N", 2, 9))
    instances = [{"L": left, "N": n} for left, n in product(range(7), range(2, 10))]
    told = {True: 0, False: 0}
    for _ in range(1500):
        text = drawn(chance)
        expr = parsed(text)
        fine = all(is_cost(expr, values) for values in instances)
        flaw = find_flaw(expr, ranges, ())
        assert (flaw is None) == fine, text
        told[fine] += 1
        if flaw is not None:
            assert not is_cost(expr, {"L": 0, "N": 2, **flaw.values}), text
    assert min(told.values()) > 200


@pytest.mark.parametrize(
    ("text", "high", "said"),
    [
        ("8 / (N - 4)", 8, "it divides by 0 at 4"),
        ("8 / abs(N - 3000000000)", LARGEST, "it divides by 0 at 3000000000"),
        ("3 - N", 8, "it is -1 at 4"),
        ("max(0, 3 - N)", LARGEST, None),
        ("N - min(N, 8)", LARGEST, None),
        ("8 / max(1, N - 4)", LARGEST, None),
        ("min(5, max(0, 1 / (N - 6)))", 8, "it divides by 0 at 6"),
        ("N * 1e308", 8, "it is infinite at 4"),
    ],
)
def test_the_instance_is_named_however_wide_the_range(text: str, high: int, said: str | None) -> None:
    flaw = find_flaw(parsed(text), (("N", 4, high),), ())
    assert (f"{flaw.said} at {flaw.values['N']}" if flaw is not None else None) == said


def test_what_stays_open_is_refused() -> None:
    flaw = find_flaw(parsed("abs(sin(N)) + sin(N)"), (("N", 1, LARGEST),), ())
    assert flaw is not None
    assert flaw.said == "it is not proved to be at least 0"


@pytest.mark.parametrize(("comparison", "is_flawed"), [("!=", False), ("<=", True)])
def test_an_instance_that_a_precondition_rules_out_does_not_count(
    comparison: Comparison, is_flawed: bool
) -> None:
    where = (Constraint(Index.of("N"), comparison, Index.of(5)),)
    flaw = find_flaw(parsed("1 / abs(N - 5)"), (("N", 1, 8),), where)
    assert (flaw is not None) == is_flawed


CONSTANT = """\
isamap: 1
name: wide
summary: registers whose length only the processor knows, and costs that follow it
extends: generic-c
sources: {here: this test}
target: {run: model}
language: |
  machine Q: 1..16 = 4;
  memory v: registers(count = 16, bytes = 32, named = compiler);
instructions:
  - for: [{NAME: load_v, FROM: mem, INTO: v}, {NAME: store_v, FROM: v, INTO: mem}]
    semantics: |
      instruction $NAME() {
        in a: f32[8] @ $FROM;
        out z: f32[8] @ $INTO;
        for i in 8 { z[i] = a[i]; }
      }
    emit: semantics
    cost: {unit: scalar, interval_ns: "Q / 10", latency_ns: "Q"}
    source: here
  - semantics: |
      instruction mac_v() {
        inout c: f32[8] @ v;
        in a: f32 @ reg;
        in b: f32[8] @ v;
        for i in 8 { c[i] += a * b[i]; }
      }
    emit: semantics
    cost: {unit: scalar, interval_ns: "Q / 10", latency_ns: "8 / (5 - Q)"}
    source: here
"""


def test_a_cost_may_name_a_constant_of_the_machine(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "wide.yaml"
    path.write_text(CONSTANT.replace("8 / (5 - Q)", "8 / (17 - Q)"), encoding="utf-8")
    assert cost_value(load_machine(str(path)).instructions["mac_v"].cost.latency_ns, {"Q": 9}) == 1
    sizes = ("-D", "M=16", "N=16", "K=16")
    assert main(["schedule", "gemm_f32", "--hw", str(path), *sizes]) == 0
    assert "mac_v" in capsys.readouterr().out


def test_a_constant_has_all_its_values(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "wide.yaml").write_text(CONSTANT, encoding="utf-8")
    assert main(["hw", "check", str(tmp_path / "wide.yaml")]) == 2
    assert "it divides by 0 at Q = 5" in capsys.readouterr().err
