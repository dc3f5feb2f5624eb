"""Schedules measured on this processor: in turn, within limits, and the winner compiled."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from isamap.cli import main
from isamap.driver.api import source_of
from isamap.driver.pipeline import compile_kernel
from isamap.driver.request import Request
from isamap.plan.protocols import Trial
from isamap.run.child import ChildLimits
from isamap.scheduler import AnalyticModel, k_best
from isamap.source import MissingTool
from isamap.tune import measured
from isamap.tune.measured import MeasuredEvaluator


def trials(machine: str, count: int, **sizes: int) -> list[Trial]:
    made = compile_kernel(Request(source_of("gemm_f32"), machine, sizes), "formulate")
    assert made.canonical is not None
    assert made.machine is not None
    assert made.problem is not None
    found = k_best(made.problem, AnalyticModel(), count).schedules
    return [Trial(made.canonical, made.machine, made.problem, s, sizes) for s in found]


def test_all_contenders_are_timed_in_every_round() -> None:
    found = MeasuredEvaluator(rounds=3, seconds=0.002).evaluate_together(
        trials("generic-c", 2, M=20, N=30, K=10)
    )
    assert len(found) == 2
    for evaluation in found:
        facts = dict(evaluation.facts)
        assert facts["rounds"] == 3
        calls, least, middle = facts["calls"], facts["min_ns"], facts["median_ns"]
        assert isinstance(calls, int)
        assert isinstance(least, float)
        assert isinstance(middle, float)
        assert calls >= 6
        assert 0 < least <= evaluation.cost_ns
        assert least <= middle


def test_what_exceeds_a_limit_has_failed_and_the_others_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    both = [*trials("generic-c", 1, M=20, N=30, K=10), *trials("generic-c", 1, M=3000, N=3000, K=2000)]
    measurer = MeasuredEvaluator(rounds=1, seconds=0.001)
    measurer.evaluate_together(both[:1])
    monkeypatch.setattr(measured, "LIMITS", ChildLimits(seconds=2.0))
    slow = replace(both[1])
    small, large = measurer.evaluate_together([both[0], slow])
    assert small.cost_ns < float("inf")
    assert large.cost_ns == float("inf")
    assert "was stopped after 2 s" in str(dict(large.facts)["failed"])


def test_a_machine_that_is_not_here_cannot_be_measured() -> None:
    (trial,) = trials("generic-c", 1, M=16, N=16, K=16)
    elsewhere = replace(trial.machine, target=replace(trial.machine.target, run="model"))
    with pytest.raises(MissingTool) as refused:
        MeasuredEvaluator().evaluate(replace(trial, machine=elsewhere))
    assert refused.value.render() == (
        "error[not-measurable]: schedules for generic-c cannot be measured here: its code is run as a model\n"
        "  help: `--evaluate simulated` needs no such processor"
    )


def test_run_takes_what_was_measured_best(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(measured, "ROUNDS", 2)
    words = "run gemm_f32 --hw generic-c -D M=20 N=30 K=10 --best 3 --evaluate measured --json"
    assert main(words.split()) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["verified"]
    (note,) = [d for d in answer["diagnostics"] if d["code"] == "chosen-by-evaluation"]
    assert note["severity"] == "note"
    assert note["message"].startswith("`measured` chose number ")
    assert main(["tune", "log", "--json"]) == 0
    log = json.loads(capsys.readouterr().out)
    kept = [e for e in log["evaluations"] if e["evaluator"] == "measured" and e["sizes"]["M"] == 20]
    assert len(kept) == 3
    assert len({e["schedule"] for e in kept}) == 3
