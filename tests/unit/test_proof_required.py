"""What exit code 4 means: a proof that `--require proven` asked for, and nothing else."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest

from isamap.cli import main
from isamap.cli.answers import Answer, with_proof
from isamap.cli.option_parser import REQUIRE
from isamap.plan.schedule import Schedule
from isamap.report.compilation import cost_lines
from isamap.source import UsageProblem

FOUND = Schedule("k", "m", (), (), model="analytic", cost_ns=100.0, lower_bound_ns=100.0, status="OPTIMAL")
SMALL = ("gemm_f32", "--hw", "generic-c", "-D", "M=3", "N=4", "K=5")


@pytest.mark.parametrize(
    ("gaps", "code"), [((), 0), ((0.0,), 0), ((1e-8,), 0), ((0.0, 0.01), 4), ((None,), 4)]
)
def test_an_open_gap_is_code_4_only_where_a_proof_is_required(
    gaps: tuple[float | None, ...], code: int
) -> None:
    assert with_proof(Answer(gaps=gaps), "").exit == 0
    found = with_proof(Answer(gaps=gaps), "proven")
    assert found.exit == code
    assert [f.json["code"] for f in found.findings] == ["not-proven"] * (code == 4)


def test_a_wrong_result_stays_one() -> None:
    assert with_proof(Answer(exit=1, gaps=(0.5,)), "proven").exit == 1


def test_another_word_is_refused() -> None:
    with pytest.raises(UsageProblem, match="--require takes one of proven"):
        REQUIRE.read("all")


@pytest.mark.parametrize(
    ("bound_ns", "reproducible"), list(product((100.0, 99.9999999, 99.999, 99.0, 0.0), (True, False)))
)
def test_no_answer_is_optimal_and_cut_short(bound_ns: float, reproducible: bool) -> None:
    found = replace(FOUND, lower_bound_ns=bound_ns, reproducible=reproducible)
    text = "\n".join(cost_lines(found, ""))
    assert ("at most 0.0 %" in text) == found.is_proven
    assert ("clock stopped" in text) == (not reproducible and not found.is_proven)


@pytest.mark.parametrize("command", ["compile", "schedule", "run", "verify"])
def test_a_search_that_the_clock_stops_ends_with_0(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("isamap.scheduler.answer.replace", _cut_short)
    assert main([command, *SMALL, "--limit", "0.1", "--json"]) == 0
    codes = [d["code"] for d in json.loads(capsys.readouterr().out)["diagnostics"]]
    assert "solver-stopped" in codes
    assert main([command, *SMALL, "--limit", "0.1", "--require", "proven", "--json"] + FORCED[command]) == 4
    codes = [d["code"] for d in json.loads(capsys.readouterr().out)["diagnostics"]]
    assert "not-proven" in codes


def test_no_placement_in_time_is_no_proof_and_code_1(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("isamap.scheduler.memory.allocation.PLAIN_ATTEMPTS", 0)
    monkeypatch.setattr("isamap.scheduler.memory.allocation.place_isolated", _find_nothing)
    (tmp_path / "b.csv").write_text("id,lower,upper,size\na,0,2,8\nb,1,3,8\n")
    assert main(["memplan", str(tmp_path / "b.csv"), "--capacity", "16", "--limit", "0.1", "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert (found["status"], found["diagnostics"][0]["code"]) == ("UNKNOWN", "memory-limit")


def _find_nothing(_instance: object, left_s: float, _effort: float) -> str:
    time.sleep(left_s)
    return "unknown"


FORCED = {"compile": ["--force"], "schedule": [], "run": [], "verify": []}


def _cut_short(found: Schedule, **changes: object) -> Schedule:
    """Replace as `dataclasses.replace` does, in a search that the clock stops half way to a proof."""
    return replace(found, **{**changes, "reproducible": False, "lower_bound_ns": (found.cost_ns or 1.0) / 2})
