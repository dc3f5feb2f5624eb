"""Tournaments and the tuning database: what wins, what plays no more, and what the file holds."""

from __future__ import annotations

import json
import stat
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from isamap.cli import main
from isamap.driver.api import source_of
from isamap.driver.pipeline import compile_kernel
from isamap.driver.request import Request
from isamap.plan.protocols import Trial
from isamap.plan.schedule import Schedule
from isamap.plan.text import print_nest
from isamap.scheduler import AnalyticModel
from isamap.scheduler.search.varied import vary_schedule
from isamap.source import UsageProblem
from isamap.tune import measured
from isamap.tune.tournament import Away, Tournament, find_winner, schedule_digest
from isamap.tune.winners import Winner, Winners

INF = float("inf")
WINNER = Winner(
    key="k",
    state="s",
    kernel="gemm",
    kernel_sha256="0",
    sizes={"M": "4", "N": "1..8@4"},
    machine="m",
    machine_sha256="1",
    profile="",
    threads=1,
    processor="p",
    compiler="c",
    version="0",
    schedule="text",
    place=2,
    asked=8,
    contenders=5,
    rounds=9,
    cost_ns=10.5,
    first_ns=12.0,
    ratio=1.1429,
    time="2026-11-21T00:00:00+00:00",
)


@pytest.fixture(autouse=True)
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a data folder of one's own. The cache is, too: other tests go on with theirs when it is cleared."""
    folder = tmp_path / "data"
    folder.mkdir(mode=0o700)
    monkeypatch.setenv("ISAMAP_DATA_DIR", str(folder))
    monkeypatch.setenv("ISAMAP_CACHE_DIR", str(tmp_path / "cache"))
    return folder


def answer(capsys: pytest.CaptureFixture[str], words: str, code: int = 0) -> dict[str, Any]:
    assert main([*words.split(), "--json"]) == code
    return json.loads(capsys.readouterr().out)


# --- winners ----------------------------------------------------------------------------------------------


def played(**costs_ns: list[float]) -> dict[int, dict[str, float]]:
    rounds = max(map(len, costs_ns.values()))
    return {i: {name: ns[i] for name, ns in costs_ns.items() if i < len(ns)} for i in range(rounds)}


def test_the_best_paired_ratio_wins() -> None:
    busy = [1.0, 2.0, 1.0, 4.0, 1.0, 1.0, 1.0, 1.0, 1.0]
    found = find_winner(
        played(first=[10 * b for b in busy], other=[9 * b for b in busy], best=[8 * b for b in busy]), "first"
    )
    assert found is not None
    assert (found.winner, found.cost_ns, found.first_ns) == ("best", 8.0, 10.0)
    assert found.ratio == 10 / 8


@pytest.mark.parametrize(("won", "winner"), [(7, "first"), (8, "other")])
def test_a_schedule_not_faster_in_8_of_9_rounds_does_not_win(won: int, winner: str) -> None:
    found = find_winner(played(first=[10.0] * 9, other=[5.0] * won + [20.0] * (9 - won)), "first")
    assert found is not None
    assert found.winner == winner


def test_few_rounds_prove_nothing() -> None:
    found = find_winner(played(first=[10.0] * 4, other=[5.0] * 4), "first")
    assert found is not None
    assert found.winner == "first"


def test_where_the_first_fails_another_one_wins() -> None:
    found = find_winner(played(first=[INF] * 9, other=[12.0] * 9, slow=[15.0] * 9), "first")
    assert found is not None
    assert found.winner != "first"
    assert find_winner(played(first=[INF] * 9, other=[INF] * 9), "first") is None


def test_the_hopeless_play_three_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    schedules = _schedules(3)
    trials = [_trial(schedule) for schedule in schedules]
    names = [schedule_digest(trial) for trial in trials]
    costs = dict(zip(names, (10.0, 11.5, 10.9), strict=True))
    turns: list[float] = []

    class Fixed(float):
        def run(self, calls: int) -> None:
            """Nothing: its time is known."""

        def turn(self, seconds: float) -> float:
            turns.append(self)
            return self

    def fixed(trial: Trial) -> Fixed:
        return Fixed(costs[schedule_digest(trial)])

    monkeypatch.setattr(measured, "make_contender", fixed)
    Tournament(Winners.open(), "q").evaluate_together(trials)
    assert [turns.count(ns) for ns in (10.0, 11.5, 10.9)] == [9, 3, 9]


def test_rounds_that_came_back_out_of_order_are_not_played_again() -> None:
    trials = [_trial(schedule) for schedule in _schedules(2)]
    costs = {schedule_digest(trial): 10.0 for trial in trials}
    sent: list[int] = []

    def backwards(away: Sequence[Away]) -> Iterator[tuple[int, Mapping[str, float]]]:
        sent.append(len(away))
        yield from ((number, costs) for number in reversed(range(len(away))))

    winners = Winners.open()
    for number in (0, 3):  # those of a driver that was killed
        winners.add_round("q", number, costs)
    Tournament(winners, "q", spread=backwards).evaluate_together(trials)
    assert sent == [2, 5]
    assert sorted(winners.rounds("q")) == list(range(9))


def test_no_rounds_are_sent_that_are_played_or_would_begin_after_the_end() -> None:
    trials = [_trial(schedule) for schedule in _schedules(2)]
    costs = {schedule_digest(trial): 10.0 for trial in trials}
    sent: list[int] = []

    def send(away: Sequence[Away]) -> Iterator[tuple[int, Mapping[str, float]]]:
        sent.append(len(away))
        yield from ((number, costs) for number in range(len(away)))

    Tournament(Winners.open(), "over", time.monotonic(), spread=send).evaluate_together(trials)
    assert sent == [3], "the first rounds are begun in any case"
    winners = Winners.open()
    for number in range(9):
        if number != 5:
            winners.add_round("last", number, costs)
    Tournament(winners, "last", spread=send).evaluate_together(trials)
    assert sent == [3, 1]


def _trial(schedule: Schedule) -> Trial:
    made = compile_kernel(
        Request(source_of("gemm_f32"), "generic-c", {"M": 64, "N": 64, "K": 64}), "formulate"
    )
    assert made.canonical is not None
    assert made.machine is not None
    assert made.problem is not None
    return Trial(made.canonical, made.machine, made.problem, schedule, {"M": 64, "N": 64, "K": 64})


def _schedules(count: int) -> tuple[Schedule, ...]:
    made = compile_kernel(
        Request(source_of("gemm_f32"), "generic-c", {"M": 64, "N": 64, "K": 64}), "formulate"
    )
    assert made.problem is not None
    return vary_schedule(made.problem, AnalyticModel(), count)


def test_varied_schedules_have_different_register_blocks_cheapest_first() -> None:
    found = _schedules(5)
    assert len(found) == 5
    costs = [schedule.cost_ns or 0.0 for schedule in found]
    assert costs == sorted(costs)
    assert len({print_nest(schedule.nests[0]) for schedule in found}) == 5


# --- the file ---------------------------------------------------------------------------------------------


def test_a_winner_comes_back_as_it_was_and_replaces_the_one_before() -> None:
    database = Winners.open()
    assert database.all() == ()
    assert not database.path.exists(), "reading makes no file"
    database.add_round("q", 0, {"a": 1.0, "b": INF})
    assert database.rounds("q") == {0: {"a": 1.0, "b": INF}}
    database.keep(WINNER, "q")
    assert database.rounds("q") == {}
    assert database.find("k") == WINNER
    database.keep(replace(WINNER, place=1), "q")
    assert database.all() == (replace(WINNER, place=1),)
    assert stat.S_IMODE(database.path.stat().st_mode) == 0o600


def test_the_cache_lists_and_clears_winners_by_name_only(capsys: pytest.CaptureFixture[str]) -> None:
    Winners.open().keep(WINNER, "q")
    assert answer(capsys, "cache list")["tuning"]["winners"] == 1
    assert main(["cache", "clear"]) == 0
    assert "; not cleared: 1 tuned schedule (`isamap cache clear tuning`)" in capsys.readouterr().out
    assert answer(capsys, "cache clear tuning")["tuning"]["winners"] == 1
    assert Winners.open().all() == ()
    assert main(["tune", "list"]) == 0
    assert capsys.readouterr().out == "no schedule was tuned yet; use `isamap compile --tune`\n"


def test_a_damaged_database_is_refused_by_name(data: Path) -> None:
    (data / "tuning.sqlite").write_bytes(b"this is not a database, whatever it looks like" * 100)
    with pytest.raises(UsageProblem) as refused:
        Winners.open().all()
    assert refused.value.render() == (
        f"error[tuning-unusable]: the tuning database {data}/tuning.sqlite cannot be used: file is not a "
        "database\n"
        "  help: move it away: isamap begins a new one; ISAMAP_DATA_DIR names another folder"
    )
