"""Schedules side by side: ranks, and how an evaluator's order agrees with the model's."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace
from math import inf, sqrt
from pathlib import Path

import pytest
from plan_problems import gemm

from isamap.cli import main
from isamap.plan.protocols import Evaluation
from isamap.report.schedules import (
    Attempt,
    Verdicts,
    agreement,
    contest_json,
    contest_lines,
    contest_rows,
    kendall_tau,
    winner,
)
from isamap.scheduler import AnalyticModel, k_best

SCHEDULES = k_best(gemm(17, 33, 9), AnalyticModel(), 3).schedules
ATTEMPTS = [
    Attempt(f"best {number}", replace(schedule, cost_ns=100.0 + number), 0.5)
    for number, schedule in enumerate(SCHEDULES, 1)
]


def verdicts(*costs: float, recalled: int = 0) -> Verdicts:
    pairs = zip(ATTEMPTS, costs, strict=True)
    said = {a.schedule.nests: Evaluation(cost, (("calls", 7),)) for a, cost in pairs}
    return Verdicts("measured", said, frozenset(a.schedule.nests for a in ATTEMPTS[:recalled]))


@pytest.mark.parametrize(
    ("pairs", "tau"),
    [
        ([(1, 1), (2, 2), (3, 3)], 1.0),
        ([(1, 3), (2, 2), (3, 1)], -1.0),
        ([(1, 2), (2, 1), (3, 3)], 1 / 3),
        ([(1, 1), (1, 2), (2, 3)], 2 / sqrt(2 * 3)),
        ([(1, 1), (1, 2)], None),
        ([(1, 1)], None),
    ],
)
def test_tau_counts_pairs_in_order_against_pairs_out_of_it(
    pairs: list[tuple[float, float]], tau: float | None
) -> None:
    assert kendall_tau(pairs) == (None if tau is None else pytest.approx(tau))


def test_the_fastest_wins_whatever_the_model_says() -> None:
    found = verdicts(30.0, 20.0, 25.0)
    assert winner(ATTEMPTS, found).heuristic == "best 2"
    assert [found.rank(a.schedule) for a in ATTEMPTS] == [3, 1, 2]
    agreed = agreement(found, ATTEMPTS)
    assert agreed.first_over_best == 1.5
    assert agreed.tau == pytest.approx(-1 / 3)
    (said,) = contest_lines(ATTEMPTS, [found])
    assert said == (
        "measured: best 2 is the fastest, 20.0 ns; the model's first takes 1.500 times as long; "
        "the two orders agree by tau -0.33"
    )


def test_what_failed_has_no_rank_and_counts_for_nothing() -> None:
    found = verdicts(30.0, inf, 25.0, recalled=2)
    rows = contest_rows(ATTEMPTS, [found])
    assert rows[0][-2:] == ("measured_ns", "rank")
    assert [row[-2:] for row in rows[1:]] == [("30.0", "2"), ("failed", "-"), ("25.0", "1")]
    assert agreement(found, ATTEMPTS).tau == -1
    assert contest_lines(ATTEMPTS, [found])[0].endswith("; 2 of 3 from the cache")


def test_json_says_the_same() -> None:
    first, second, _ = contest_json(ATTEMPTS, [verdicts(30.0, inf, 25.0, recalled=1)])
    assert first["evaluations"] == {
        "measured": {"cost_ns": 30.0, "rank": 2, "recalled": True, "facts": {"calls": 7}}
    }
    assert second["evaluations"] == {
        "measured": {"cost_ns": None, "rank": None, "recalled": False, "facts": {"calls": 7}}
    }


def test_a_contest_on_the_command_line_ranks_and_chooses(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    chosen = tmp_path / "best.schedule"
    words = "schedule gemm_f32 --hw x86-avx512 -D M=17 N=48 K=20 --heuristic cpsat,greedy --best 4"
    words += f" --evaluate simulated -o {chosen} --json"
    assert main(words.split()) == 0
    answer = json.loads(capsys.readouterr().out)
    by_name = {a["heuristic"]: a for a in answer["attempts"]}
    assert {"cpsat", "greedy"} <= by_name.keys()
    assert len(by_name) >= 5
    ranks = {name: a["evaluations"]["simulated"]["rank"] for name, a in by_name.items()}
    assert ranks[answer["best"]] == 1
    assert answer["ranking"] == {**answer["ranking"], "schedules": 4, "proven": 4, "reproducible": True}
    assert chosen.read_text() == answer["schedule"]
    assert answer["agreement"]["simulated"]["first_over_best"] >= 1


def test_compile_takes_what_was_simulated_best(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    words = f"compile gemm_f32 --hw x86-avx512 -D M=17 N=48 K=20 --best 4 --evaluate simulated -o {tmp_path}"
    assert main(words.split()) == 0
    said = capsys.readouterr()
    assert "note[chosen-by-evaluation]: `simulated` chose number " in said.err
    manifest = json.loads((tmp_path / "manifest.json").read_text())
    assert manifest["depends_on"]["options"]["evaluate"] == "simulated"


def test_the_log_is_shown_as_a_table_and_as_csv(capsys: pytest.CaptureFixture[str]) -> None:
    words = "schedule gemm_f32 --hw x86-avx2 -D M=7 N=16 K=5 --heuristic greedy --evaluate simulated"
    assert main(words.split()) == 0
    capsys.readouterr()
    assert main(["tune", "log"]) == 0
    head, *rows = capsys.readouterr().out.splitlines()
    assert head.split() == ["time", "kernel", "machine", "sizes", "evaluator", "cost_ns", "model_ns"]
    assert any("K=5 M=7 N=16" in row and "simulated" in row for row in rows)
    assert main(["tune", "log", "--csv"]) == 0
    listed = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    (row,) = [r for r in listed if json.loads(r["sizes"]) == {"K": 5, "M": 7, "N": 16}]
    parts = json.loads(row["features"])  # of the modelled time; those that overlap count each
    assert max(parts.values()) <= 1
    assert sum(parts.values()) >= 1 - 1e-9
