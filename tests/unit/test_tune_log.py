"""The log of evaluations: private, whole after a kill, open to several writers, and never asked twice."""

from __future__ import annotations

import os
import signal
import sqlite3
import stat
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from isamap.driver.api import source_of
from isamap.driver.pipeline import compile_kernel
from isamap.driver.request import Request
from isamap.machine import Machine
from isamap.plan.protocols import Evaluation, Trial
from isamap.scheduler import AnalyticModel
from isamap.source import UsageProblem
from isamap.tune.evaluating import EvaluatedSchedule, Log, Record, TrialInputs, evaluate_all

RECORD = Record(
    key="k",
    kernel="gemm",
    kernel_sha256="0",
    machine="m",
    machine_sha256="1",
    profile="",
    sizes={"M": 4, "N": "1..8@4"},
    schedule="nest 0 {\n}",
    decisions={"nest0.block.m": 4},
    model="analytic",
    model_cost_ns=12.5,
    features={"total_ns": 12.5},
    evaluator="simulated",
    cost_ns=10.25,
    facts={"issues": 3, "left_out": "much"},
    versions={"isamap": "0"},
    time="2026-11-21T00:00:00+00:00",
)
WRITER = """
import sys
from dataclasses import replace
from pathlib import Path
from tests_of_log import RECORD
from isamap.tune.evaluating import Log
log = Log(Path(sys.argv[1]))
for number in range(int(sys.argv[3])):
    log.add(replace(RECORD, key=f"{sys.argv[2]} {number}"))
    print(number, flush=True)
"""


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return Log(tmp_path / "evaluations.sqlite")


def writer(log: Log, name: str, count: int, tmp_path: Path) -> subprocess.Popen[str]:
    """Return a process that adds records, and says each number once it is kept."""
    (tmp_path / "tests_of_log.py").write_text(
        f"from isamap.tune.evaluating import Record\nRECORD = {RECORD!r}\n"
    )
    path = os.pathsep.join([str(tmp_path), *sys.path])
    words = [sys.executable, "-c", WRITER, str(log.path), name, str(count)]
    return subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": path})


def test_a_record_comes_back_as_it_was(log: Log) -> None:
    log.add(RECORD)
    assert log.find("k") == RECORD
    assert log.find("another") is None
    assert list(log.records()) == [RECORD]


def test_what_did_not_run_comes_back_as_infinite(log: Log) -> None:
    log.add(replace(RECORD, cost_ns=None, model_cost_ns=None))
    found = log.find("k")
    assert found is not None
    assert found.evaluation.cost_ns == float("inf")


def test_the_newest_of_equal_questions_counts(log: Log) -> None:
    log.add(RECORD)
    log.add(replace(RECORD, cost_ns=9.0))
    found = log.find("k")
    assert found is not None
    assert found.cost_ns == 9.0
    assert len(list(log.records())) == 2


def test_others_cannot_read_it(log: Log) -> None:
    mask = os.umask(0)
    try:
        log.add(RECORD)
    finally:
        os.umask(mask)
    assert stat.S_IMODE(log.path.stat().st_mode) == 0o600


def test_reading_makes_no_file(log: Log) -> None:
    assert list(log.records()) == []
    assert log.find("k") is None
    assert not log.path.exists()


def test_two_writers_lose_nothing(log: Log, tmp_path: Path) -> None:
    children = [writer(log, name, 25, tmp_path) for name in ("one", "other")]
    for child in children:
        with child:
            said, _ = child.communicate(timeout=60)
            assert said.split()[-1] == "24"
    assert {r.key for r in log.records()} == {f"{n} {i}" for n in ("one", "other") for i in range(25)}


def test_what_was_acknowledged_survives_a_kill(log: Log, tmp_path: Path) -> None:
    with writer(log, "killed", 100_000, tmp_path) as child:
        assert child.stdout is not None
        said = [child.stdout.readline() for _ in range(20)]
        child.send_signal(signal.SIGKILL)
    kept = {record.key for record in log.records()}
    assert {f"killed {line.strip()}" for line in said} <= kept
    log.add(RECORD)
    assert log.find("k") == RECORD


def test_a_damaged_file_is_refused_by_name(log: Log) -> None:
    log.path.write_bytes(b"this is not a database, whatever it looks like" * 100)
    with pytest.raises(UsageProblem) as refused:
        log.add(RECORD)
    assert f"the log of evaluations {log.path} cannot be used: file is not a database" in str(refused.value)


def test_a_newer_format_is_refused(log: Log) -> None:
    log.add(RECORD)
    with sqlite3.connect(log.path) as connection:
        connection.execute("pragma user_version = 2")
    connection.close()
    with pytest.raises(UsageProblem) as refused:
        log.find("k")
    assert "a newer isamap wrote it (format 2)" in str(refused.value)


# --- asking once ------------------------------------------------------------------------------------------


class Counting:
    """Says 1, 2, 3, …"""

    name = "counting"

    def __init__(self, processor: str = "here") -> None:
        self.asked = 0
        self.processor = processor

    def evaluate(self, trial: Trial) -> float:
        del trial
        self.asked += 1
        return float(self.asked)

    def depends_on(self, machine: Machine) -> dict[str, str]:
        return {"processor": self.processor, "for": machine.name}


class Together(Counting):
    """Looks at all at once."""

    def evaluate_together(self, trials: Sequence[Trial]) -> list[Evaluation]:
        return [Evaluation(self.evaluate(trial), (("of", len(trials)),)) for trial in trials]


def trials(*sizes: int) -> list[Trial]:
    found: list[Trial] = []
    for size in sizes:
        request = Request(source_of("gemm_f32"), "generic-c", {"M": size, "N": 4, "K": 4}, heuristic="greedy")
        made = compile_kernel(request, "schedule")
        assert made.canonical is not None
        assert made.machine is not None
        assert made.problem is not None
        assert made.schedule is not None
        found.append(
            Trial(made.canonical, made.machine, made.problem, made.schedule, {"M": size, "N": 4, "K": 4})
        )
    return found


def ask(
    evaluator: Counting, log: Log, *sizes: int, version: str = "1", again: bool = False
) -> tuple[EvaluatedSchedule, ...]:
    setting = TrialInputs("digest of the kernel", {"isamap": version})
    return evaluate_all(trials(*sizes), evaluator, AnalyticModel(), setting, log, again=again)


def costs(found: tuple[EvaluatedSchedule, ...]) -> list[float]:
    return [e.evaluation.cost_ns for e in found]


@pytest.mark.parametrize("kind", [Counting, Together])
def test_what_is_known_is_not_asked_again(kind: type[Counting], log: Log) -> None:
    evaluator = kind()
    assert costs(ask(evaluator, log, 4, 5)) == [1, 2]
    found = ask(evaluator, log, 5, 6, 4)
    assert costs(found) == [2, 3, 1]
    assert [e.is_recalled for e in found] == [True, False, True]
    assert costs(ask(evaluator, log, 4, again=True)) == [4]
    assert costs(ask(evaluator, log, 4)) == [4]


def test_another_version_or_processor_is_another_question(log: Log) -> None:
    evaluator = Counting()
    assert costs(ask(evaluator, log, 4)) == [1]
    assert costs(ask(evaluator, log, 4, version="2")) == [2]
    assert costs(ask(Counting("elsewhere"), log, 4)) == [1]
    assert evaluator.asked == 2


def test_what_was_evaluated_before_a_failure_is_kept(log: Log) -> None:
    class Failing(Counting):
        def evaluate(self, trial: Trial) -> float:
            if self.asked == 2:
                raise KeyboardInterrupt
            return super().evaluate(trial)

    with pytest.raises(KeyboardInterrupt):
        ask(Failing(), log, 4, 5, 6)
    assert costs(ask(Counting(), log, 4, 5, 6)) == [1, 2, 1]


def test_parts_of_the_price_are_kept_with_it(log: Log) -> None:
    ask(Counting(), log, 16)
    (record,) = log.records()
    assert record.model_cost_ns is not None
    assert 0 < record.features["issues"] <= 1
    assert sum(record.features.values()) >= 1  # some are overlapped
    assert record.decisions["nest0.block.m"] == 16
    assert record.sizes == {"K": 4, "M": 16, "N": 4}
    before = time.strftime("%Y-", time.gmtime())
    assert record.time.startswith(before)
