"""Heuristics and cost models of strangers: found by name, held to the rules, and named when they break."""

from __future__ import annotations

import importlib
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest
from plan_problems import gemm

from isamap.cli import main
from isamap.plan.plugins import known_names, load_cost_model, load_evaluator, load_heuristic, load_searcher
from isamap.scheduler import AnalyticModel, schedule
from isamap.scheduler.search.points import SearchSpace
from isamap.source import UsageProblem
from isamap.tune.searching import Searcher, search

DOCS = Path(__file__).resolve().parents[2] / "docs"
EXAMPLES = sorted((DOCS / "examples").glob("*.py"))
SHORT = 40


@pytest.fixture
def distribution(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Yield an installed package called stranger 1.5 with the examples and three broken plug-ins."""
    for example in EXAMPLES:
        (tmp_path / f"stranger_{example.name}").write_text(example.read_text())
    (tmp_path / "stranger_broken.py").write_text("raise ValueError('no good')\n")
    (tmp_path / "stranger_empty.py").write_text("class Nothing:\n    name = 'nothing'\n")
    (tmp_path / "stranger_wrong.py").write_text(
        "from dataclasses import replace\n"
        "from isamap.scheduler import Greedy\n"
        "class Wrong:\n"
        "    name = 'wrong'\n"
        "    def schedule(self, problem, model, *, limit_s, fixed):\n"
        "        found = Greedy().schedule(problem, model, limit_s=limit_s, fixed=fixed)\n"
        "        return replace(found, kernel='another')\n"
    )
    info = tmp_path / "stranger-1.5.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: stranger\nVersion: 1.5\n")
    (info / "entry_points.txt").write_text(
        "[isamap.heuristics]\n"
        "random = stranger_random_search:RandomSearch\n"
        "broken = stranger_broken:Broken\n"
        "nothing = stranger_empty:Nothing\n"
        "wrong = stranger_wrong:Wrong\n"
        "[isamap.cost_models]\n"
        "issues = stranger_issue_count:IssueCount\n"
        "[isamap.evaluators]\n"
        "crowded = stranger_crowded_memory:CrowdedMemory\n"
        "unable = stranger_empty:Nothing\n"
        "[isamap.searchers]\n"
        "climb = stranger_hill_climb:HillClimb\n"
        "speechless = stranger_empty:Nothing\n"
    )
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    importlib.invalidate_caches()
    yield tmp_path
    for name in [name for name in sys.modules if name.startswith("stranger_")]:
        del sys.modules[name]


@pytest.mark.parametrize("path", EXAMPLES, ids=[p.stem for p in EXAMPLES])
def test_an_example_is_short_and_stands_in_the_page_as_it_is(path: Path) -> None:
    text = path.read_text()
    assert len(text.splitlines()) < SHORT
    assert f"```python\n{text}```" in (DOCS / "plugins.md").read_text()


@pytest.mark.usefixtures("distribution")
def test_installed_plug_ins_are_found_and_used_like_built_in_ones() -> None:
    assert known_names("heuristic")[:3] == ("cpsat", "greedy", "annealing")
    assert "random" in known_names("heuristic")
    problem = gemm(64, 64, 64)
    ours = schedule(problem, heuristic="cpsat", model="issues", limit_s=5.0)
    theirs = schedule(problem, heuristic="random", model="issues", limit_s=5.0)
    assert theirs.model == ours.model == "issues"
    assert ours.lower_bound_ns is not None
    assert theirs.cost_ns is not None
    assert ours.lower_bound_ns <= theirs.cost_ns * (1 + 1e-6)


@pytest.mark.usefixtures("distribution")
def test_nothing_is_imported_before_it_is_asked_for() -> None:
    known_names("heuristic")
    assert not any(name.startswith("stranger_") for name in sys.modules)
    load_cost_model("issues")
    assert [name for name in sys.modules if name.startswith("stranger_")] == ["stranger_issue_count"]


@pytest.mark.usefixtures("distribution")
@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("broken", "ValueError: no good"),
        ("nothing", "TypeError: it has no method `schedule`"),
    ],
)
def test_a_plug_in_that_does_not_load_is_reported_with_its_package(name: str, said: str) -> None:
    with pytest.raises(UsageProblem, match=r"of stranger 1\.5 does not load") as caught:
        load_heuristic(name)
    assert caught.value.diagnostics[0].notes[0] == said


@pytest.mark.usefixtures("distribution")
def test_a_schedule_that_breaks_a_rule_is_reported_with_its_package() -> None:
    with pytest.raises(UsageProblem, match=re.escape("`wrong` of stranger 1.5 gave a schedule that breaks")):
        schedule(gemm(64, 64, 64), heuristic="wrong")


def test_an_unknown_name_gets_the_nearest_one() -> None:
    with pytest.raises(UsageProblem) as caught:
        schedule(gemm(8, 8, 8), heuristic="aneling")
    assert caught.value.diagnostics[0].help == "did you mean `annealing`?"


@pytest.mark.usefixtures("distribution")
def test_an_installed_evaluator_judges_the_best_schedules(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = "schedule gemv_f32 --hw x86-avx2 -D M=2048 K=8192 --heuristic greedy --json"
    found = {}
    for name in ("crowded", "simulated"):
        assert main([*words.split(), "--evaluate", name]) == 0
        (attempt,) = json.loads(capsys.readouterr().out)["attempts"]
        found[name] = attempt["evaluations"][name]["cost_ns"]
    assert found["crowded"] > 1.5 * found["simulated"]


@pytest.mark.usefixtures("distribution")
def test_an_evaluator_without_its_method_is_named_with_its_package() -> None:
    with pytest.raises(UsageProblem) as refused:
        load_evaluator("unable")
    assert "the evaluator `unable` of stranger 1.5 does not load" in refused.value.render()
    assert "it has no method `evaluate`" in refused.value.render()


@pytest.mark.usefixtures("distribution")
def test_an_installed_searcher_is_asked_for_schedules() -> None:
    asked = gemm(64, 96, 80)
    space = SearchSpace.around(asked, AnalyticModel(), {}, schedule(asked, heuristic="greedy"))
    assert space is not None
    climb = cast("Searcher", load_searcher("climb"))
    told = search(climb, space, 13, lambda points: [p.cost_ns / space.first.cost_ns for p in points])
    assert len(told) == 13
    with pytest.raises(UsageProblem, match=r"the searcher `speechless` of stranger 1\.5 does not load"):
        load_searcher("speechless")
