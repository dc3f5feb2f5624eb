"""The table of effects: what is read from it, and that docs list it.

`pytest --snapshot-update` writes the table of docs/effects.md anew.
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from plan_problems import PROBLEMS, gemm

from isamap.driver.explaining import explain
from isamap.driver.pipeline import compile_kernel
from isamap.driver.request import Request
from isamap.kernels import kernel_path
from isamap.machine import load_machine
from isamap.plan.cost import Const, evaluate
from isamap.plan.problem import Problem
from isamap.report.explained import explained_text
from isamap.scheduler import AnalyticModel, schedule
from isamap.scheduler.deciding.space import Space
from isamap.scheduler.effects import table
from isamap.scheduler.effects.effect import Effect, EffectParameter, whole
from isamap.scheduler.effects.table import EFFECTS
from isamap.scheduler.effects.time_parts import Counts, TimePart, total_time, where_time_goes
from isamap.scheduler.search.greedy import first_assignment
from isamap.source import Source

PAGE = Path(__file__).parents[2] / "docs/effects.md"
HEAD = "| effect | in reports | counts | needs |\n|---|---|---|---|\n"
TABLE = re.compile(rf"{re.escape(HEAD)}(?:\|.*\n)*")
MODEL = AnalyticModel()


def row(effect: Effect) -> str:
    needs = ", ".join(figure.words for figure in effect.needs) or "–"
    return f"| {effect.name} | {effect.words} | {effect.counts.value} | {needs} |\n"


def test_docs_list_every_effect(pytestconfig: pytest.Config) -> None:
    table, text = HEAD + "".join(map(row, EFFECTS)), PAGE.read_text(encoding="utf-8")
    if pytestconfig.getoption("update_snapshots"):
        text = TABLE.sub(lambda _: table, text)
        PAGE.write_text(text, encoding="utf-8")
    assert TABLE.findall(text) == [table]


@pytest.mark.parametrize(("block", "ahead", "waits"), [(20, 0, 4), (20, 1, 2), (40, 0, 2)])
def test_lanes_wait_twice_for_each_copy_that_they_share_and_once_if_it_is_ahead(
    block: int, ahead: int, waits: int
) -> None:
    fixed = {"nest0.parallel.m": 2, "nest0.parallel.n": 2, "nest0.block.k": block}
    fixed |= {"nest0.stage.a": 1, "nest0.stage.b": 1, "nest0.ahead.a": ahead, "nest0.ahead.b": ahead}
    path = kernel_path("gemm_f32")
    text = Source(path.name, path.read_text(encoding="utf-8"))
    sizes = {"M": 64, "N": 64, "K": 40}
    made = compile_kernel(Request(text, "opencl-simt", sizes, heuristic="greedy", fixed=fixed), "check")
    assert made.problem is not None
    assert made.schedule is not None
    (time,) = where_time_goes(made.schedule, made.problem, MODEL)
    assert time is not None
    (barriers,) = (share for share in time.shares if share.name == "barriers")
    assert barriers.ns == pytest.approx(waits * 20)


def test_no_two_effects_have_one_name() -> None:
    assert len({effect.name for effect in EFFECTS}) == len(EFFECTS)


@pytest.mark.parametrize("problem", PROBLEMS.values(), ids=PROBLEMS)
def test_what_is_named_within_others_is_never_longer_than_they_are(problem: Problem) -> None:
    for nest in problem.nests:
        for option in nest.options:
            space = Space(nest.statement, option, dict(problem.registers), {}, dict(problem.scratchpads))
            made = first_assignment(space, {axis.name: 1 for axis in space.register_axes})
            assert made is not None
            shares = MODEL.shares(problem, nest, option)
            named: dict[str, list[TimePart]] = {}
            for share in shares:
                if share.counts is Counts.WITHIN:
                    named.setdefault(share.name, []).append(replace(share, counts=Counts.LONGEST))
            hides = [share for share in shares if share.counts is not Counts.ON_TOP]
            longest_ns = float(evaluate(total_time(hides), made))
            assert "latency" in named
            for own in named.values():
                assert float(evaluate(total_time(own), made)) <= longest_ns * (1 + 1e-9)


@pytest.mark.parametrize("is_stated", [True, False])
def test_an_effect_appears_where_all_its_figures_are_stated(
    is_stated: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    needs = (EffectParameter("this", lambda _: True), EffectParameter("that", lambda _: is_stated))
    effect = Effect("waiting", "waiting", Counts.ON_TOP, whole(lambda _: Const(5)), needs)
    monkeypatch.setattr(table, "EFFECTS", (*EFFECTS, effect))
    problem = gemm(64, 64, 64)
    (nest,) = problem.nests
    names = [share.name for share in MODEL.shares(problem, nest, nest.options[0])]
    assert (names[-1] == "waiting") == is_stated


@pytest.mark.parametrize("counts", Counts)
def test_one_line_in_the_table_changes_price_parts_and_report(
    counts: Counts, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem, machine = gemm(64, 64, 64), load_machine("x86-avx512")
    found = schedule(problem, heuristic="greedy")
    assert found.cost_ns is not None
    ns = Const(found.cost_ns * (0.5 if counts is Counts.WITHIN else 2.0))
    effect = Effect("waiting", "what waits for one {instruction}", counts, whole(lambda _: ns))
    monkeypatch.setattr(table, "EFFECTS", (*EFFECTS, effect))

    (time,) = where_time_goes(found, problem, MODEL)
    report = explained_text(explain(found, problem, machine, "analytic"))

    assert time is not None
    assert (time.total_ns > found.cost_ns) == (counts is not Counts.WITHIN)
    assert time.rest_ns == pytest.approx(0, abs=1e-6)
    assert "what waits for one fma16" in report
