"""`--tune`: measured in rounds that survive a kill, the winner kept, taken again only when asked for."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from isamap.cli import main
from isamap.driver import tuning
from isamap.driver.api import source_of
from isamap.driver.pipeline import compile_kernel
from isamap.driver.request import Request
from isamap.scheduler.search.points import SearchSpace
from isamap.source import MissingTool
from isamap.tune.measured import MeasuredSchedule
from isamap.tune.tournament import ROUNDS, Tournament
from isamap.tune.winners import Winners

INF = float("inf")
WORDS = "gemm_f32 --hw generic-c -D M=20 N=30 K=10 --profile none"
TUNER = """
import sys
from isamap.tune import tournament
from isamap.tune.winners import Winners
from isamap.cli import main
played = Winners.add_round
def add_round(self, question, number, costs_ns):
    played(self, question, number, costs_ns)
    print(number, flush=True)
Winners.add_round = add_round
tournament.ROUNDS = 9
main(sys.argv[1:])
"""


@pytest.fixture(autouse=True)
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a data folder of one's own."""
    folder = tmp_path / "data"
    folder.mkdir(mode=0o700)
    monkeypatch.setenv("ISAMAP_DATA_DIR", str(folder))
    return folder


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rounds of a few calls."""
    monkeypatch.setattr(MeasuredSchedule, "turn", _turn)


def _turn(self: MeasuredSchedule, _: float) -> float:
    self.run(2, counts=True)
    return 1e9 * min(self.rounds[-1])


def answer(capsys: pytest.CaptureFixture[str], words: str, code: int = 0) -> dict[str, Any]:
    assert main([*words.split(), "--json"]) == code
    return json.loads(capsys.readouterr().out)


def origin(found: dict[str, Any]) -> dict[str, Any]:
    return found["schedule"]["origin"]


def codes(found: dict[str, Any]) -> list[str]:
    return [d["code"] for d in found["diagnostics"]]


# --- the whole way ----------------------------------------------------------------------------------------


@pytest.mark.usefixtures("quick")
def test_a_winner_is_kept_and_taken_only_when_asked_for(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    out = tmp_path / "out"
    before = answer(capsys, f"compile {WORDS} -o {out}")
    assert origin(before) == {"from": "model"}
    found = answer(capsys, f"compile {WORDS} -o {out} --tune 4")
    assert codes(found) == ["chosen-by-tuning"]
    assert origin(found)["from"] == "tuning"
    assert origin(found)["contenders"] == 4
    assert origin(found)["rounds"] == ROUNDS
    kept = (out / "gemm_f32.schedule").read_text()
    assert json.loads((out / "manifest.json").read_text())["schedule"]["origin"] == origin(found)
    again = answer(capsys, f"compile {WORDS} -o {out} --tuned")
    assert origin(again) == origin(found)
    assert (out / "gemm_f32.schedule").read_text() == kept
    assert origin(answer(capsys, f"compile {WORDS} -o {out}")) == {"from": "model"}
    (listed,) = answer(capsys, "tune list")["winners"]
    assert listed["schedule"] == kept
    assert listed["sizes"] == {"M": "20", "N": "30", "K": "10"}
    assert listed["measured_ns"] == origin(found)["measured_ns"]
    log = [e for e in answer(capsys, "tune log")["evaluations"] if e["evaluator"] == "measured"]
    assert len(log) == 4


@pytest.mark.exhaustive(fast=1)
@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("name", ["genetic", "annealing", "policy"])
def test_a_searcher_proposes_what_is_measured(
    name: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tuning, "SEARCH_ROUNDS", 1)
    words = f"compile {WORDS} -o {tmp_path / 'out'}"
    found = answer(capsys, f"{words} --tune 9 --search {name}")
    assert codes(found) == ["chosen-by-tuning"]
    assert origin(found)["contenders"] == 9
    assert 1 <= origin(found)["place"] <= 9
    log = [e for e in answer(capsys, "tune log")["evaluations"] if e["evaluator"] == "measured"]
    assert len({e["schedule"] for e in log}) == 9
    assert origin(answer(capsys, f"{words} --tuned")) == origin(found)
    # Another way to search is another question; the same one is answered.
    assert origin(answer(capsys, f"{words} --tune 9 --search {name}")) == origin(found)
    assert origin(answer(capsys, f"{words} --tune 2"))["contenders"] == 2


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--tune 4 --search genetik", "there is no searcher `genetik`"),
        (
            "--search genetic",
            "`--search genetic` proposes schedules for `--tune`, which is not given",
        ),
    ],
)
def test_a_search_that_cannot_be_is_refused(
    words: str, said: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert main(f"compile {WORDS} -o {tmp_path / 'out'} {words}".split()) == 2
    assert said in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_choice_without_decisions_behind_it_is_not_searched(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SearchSpace, "around", staticmethod(lambda *_: None))
    found = answer(capsys, f"compile {WORDS} -o {tmp_path / 'out'} --tune 3 --search policy", 2)
    assert codes(found) == ["not-searchable"]


@pytest.mark.usefixtures("quick")
def test_what_was_tuned_is_not_measured_again_unless_more_is_asked_for(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    whole = Tournament.evaluate_together

    def counted(self: Tournament, trials: Any) -> Any:
        asked.append(len(trials))
        return whole(self, trials)

    monkeypatch.setattr(Tournament, "evaluate_together", counted)
    words = f"compile {WORDS} -o {tmp_path / 'out'} --tune"
    for count in ("3", "2", "3", "4", "3 --no-cache"):
        answer(capsys, f"{words} {count}")
    assert asked == [3, 4, 3]


@pytest.mark.usefixtures("quick")
def test_run_and_python_tune_as_well(capsys: pytest.CaptureFixture[str]) -> None:
    import numpy as np

    import isamap

    found = answer(capsys, f"run {WORDS} --tune 2")
    assert found["verified"]
    assert codes(found) == ["chosen-by-tuning"]
    sizes = {"M": 20, "N": 30, "K": 10}
    tuned = isamap.compile("gemm_f32", "generic-c", sizes, profile="none", tuned=True)
    a, b, c = np.ones((20, 10), np.float32), np.ones((10, 30), np.float32), np.zeros((20, 30), np.float32)
    tuned(A=a, B=b, C=c)
    assert (c == 10).all()
    isamap.compile("gemm_f32", "generic-c", sizes | {"M": 21}, profile="none", tune=2)
    assert len(Winners.open().all()) == 2


@pytest.mark.usefixtures("quick")
def test_what_is_proven_of_the_models_choice_is_said_of_every_contender(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: list[float | None] = []
    whole = Tournament.evaluate_together

    def noted(self: Tournament, trials: Any) -> Any:
        seen.extend(trial.schedule.lower_bound_ns for trial in trials)
        return whole(self, trials)

    monkeypatch.setattr(Tournament, "evaluate_together", noted)
    request = Request(source_of("gemm_f32"), "generic-c", {"M": 20, "N": 30, "K": 10}, cache=False)
    first = compile_kernel(request, "schedule").schedule
    assert first is not None
    assert first.lower_bound_ns
    compile_kernel(replace(request, tune=4), "schedule")
    assert seen == [first.lower_bound_ns] * 4


def test_without_a_winner_the_model_chooses_and_says_so(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert main([*f"compile {WORDS} -o {tmp_path / 'out'} --tuned".split()]) == 0
    assert capsys.readouterr().err == (
        "warning[not-tuned]: there is no tuned schedule of gemm_f32 on generic-c at these sizes: the cost "
        "model chose one\n"
        "  note: none is stored\n"
        "  help: `--tune` measures and stores one; `isamap explain not-tuned` lists the inputs that it depends on\n"
    )


@pytest.mark.usefixtures("quick")
def test_a_kept_schedule_that_breaks_a_rule_is_not_taken(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    words = f"compile {WORDS} -o {tmp_path / 'out'}"
    answer(capsys, f"{words} --tune 2")
    (winner,) = Winners.open().all()
    for text in ("no schedule at all", winner.schedule.replace("issue;", "hold; issue;")):
        Winners.open().keep(replace(winner, schedule=text), "")
        found = answer(capsys, f"{words} --tuned")
        assert codes(found) == ["not-tuned"]
        assert origin(found) == {"from": "model"}
        assert found["diagnostics"][0]["notes"] == ["the stored schedule breaks a rule of this version"]


@pytest.mark.usefixtures("quick")
def test_other_threads_profiles_or_fixed_decisions_are_other_questions(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    words = f"compile {WORDS} -o {tmp_path / 'out'}"
    answer(capsys, f"{words} --tune 2")
    assert codes(answer(capsys, f"{words} --tuned")) == ["chosen-by-tuning"]
    assert codes(answer(capsys, f"{words} --tuned --threads 2")) == ["not-tuned"]
    assert codes(answer(capsys, f"{words} --tuned --fix unroll.m=1")) == ["not-tuned"]


def test_a_machine_that_is_not_here_cannot_be_tuned(tmp_path: Path) -> None:
    request = Request(source_of("gemm_f32"), "generic-c", {"M": 4, "N": 4, "K": 4}, tune=2)
    made = compile_kernel(replace(request, tune=0))
    assert made.machine is not None
    assert made.canonical is not None
    assert made.problem is not None
    assert made.schedule is not None
    elsewhere = replace(made.machine, target=replace(made.machine.target, run="model"))
    question = tuning.TuningKey(request, made.canonical, elsewhere, made.problem, request.sizes)  # pyright: ignore[reportArgumentType] - numbers
    with pytest.raises(MissingTool):
        tuning.tune(question, made.schedule)


# --- stopped and killed -----------------------------------------------------------------------------------


@pytest.mark.usefixtures("quick")
def test_what_the_limit_stops_goes_on_later(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    words = f"compile {WORDS} -o {tmp_path / 'out'} --tune 2"
    found = answer(capsys, f"{words} --tune-limit 0.1")
    assert codes(found) == ["tuning-stopped", "chosen-by-tuning"]
    message = found["diagnostics"][0]["message"]
    played = origin(found)["rounds"]
    assert message == f"measuring was stopped after 0.1 s and {played} of 9 rounds; no winner is kept"
    assert 1 <= played < ROUNDS
    assert answer(capsys, "tune list")["count"] == 0
    done = answer(capsys, words)
    assert codes(done) == ["chosen-by-tuning"]
    assert origin(done)["rounds"] == ROUNDS
    assert answer(capsys, "tune list")["count"] == 1


def test_a_kill_loses_no_round(capsys: pytest.CaptureFixture[str], tmp_path: Path, data: Path) -> None:
    words = [*f"compile {WORDS} -o {tmp_path / 'out'} --tune 2".split()]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "ISAMAP_DATA_DIR": str(data)}
    child = subprocess.Popen(
        [sys.executable, "-c", TUNER, *words], stdout=subprocess.PIPE, text=True, env=env
    )
    with child:
        assert child.stdout is not None
        said = [child.stdout.readline().strip() for _ in range(3)]
        child.send_signal(signal.SIGKILL)
    assert said == ["0", "1", "2"]
    rounds = _all_rounds(data)
    assert len(rounds) >= 3
    numbers: list[int] = []
    kept = Winners.add_round

    def noted(self: Winners, question: str, number: int, costs_ns: Any) -> None:
        numbers.append(number)
        if number == ROUNDS - 1:  # what was played before the kill is what is there now
            assert _all_rounds(data).items() >= rounds.items()
        kept(self, question, number, costs_ns)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Winners, "add_round", noted)
        found = answer(capsys, " ".join(words))
    assert numbers == list(range(len(rounds), ROUNDS))
    assert origin(found)["rounds"] == ROUNDS
    assert _all_rounds(data) == {}, "a winner's rounds are no longer needed"


def _all_rounds(data: Path) -> dict[int, list[tuple[str, float]]]:
    with sqlite3.connect(data / "tuning.sqlite") as connection:
        rows = connection.execute("select number, schedule, cost_ns from rounds order by 1, 2").fetchall()
    connection.close()
    found: dict[int, list[tuple[str, float]]] = {}
    for number, schedule, cost_ns in rows:
        found.setdefault(number, []).append((schedule, cost_ns))
    return found
