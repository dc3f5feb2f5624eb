"""The tuning database: the fastest measured schedule of each question.

    Winners.open().add_round(question, 3, {schedule: ns, …})   one transaction per round of a tournament
    Winners.open().keep(winner)                                 its rounds are no longer needed
    Winners.open().find(key)                                    the winner of an equal question, or None

There is one row per kernel with sizes, machine, profile, threads, processor and version. If a process is killed,
its tournament continues with the stored rounds.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from isamap.source import Unkept, dataclass
from isamap.tune.record_table import RecordTable
from isamap.tune.store import data_path

NAME = "tuning.sqlite"


@dataclass(frozen=True, slots=True)
class Winner:
    """The fastest schedule of one question, and how it was found.

    `key` is the digest of the question. `state` is the digest of all code that measured it: if that changes,
    it is measured again. `place` is its rank by the model among `contenders`. `asked` is the requested number
    of contenders. `ratio` is how many times longer the first choice took, the median over rounds. Units:
    `cost_ns` and `first_ns` in nanoseconds of one call; `time` in UTC, ISO 8601.
    """

    key: str
    state: str
    kernel: str
    kernel_sha256: str
    sizes: Mapping[str, Any]
    machine: str
    machine_sha256: str
    profile: str
    threads: int
    processor: str
    compiler: str
    version: str
    schedule: str
    place: int
    asked: int
    contenders: int
    rounds: int
    cost_ns: float
    first_ns: float
    ratio: float
    time: str


_ROUNDS = """
create table if not exists rounds (
  question text not null, number integer not null, schedule text not null, cost_ns real,
  primary key (question, number, schedule)
);
"""

Rounds = Mapping[int, Mapping[str, float]]
"""Per round the nanoseconds of each schedule that took part, infinite where it failed."""


@dataclass(frozen=True, slots=True)
class Winners:
    """The SQLite file of tuned schedules."""

    path: Path

    @staticmethod
    def open() -> Winners:
        """Return the database in the user's data folder."""
        return Winners(data_path() / NAME)

    def find(self, key: str) -> Winner | None:
        """Return the winner of a question. Raises: Unkept if the file cannot be used."""
        return next(iter(TABLE.read(self.path, "where key = ?", (key,))), None)

    def all(self) -> tuple[Winner, ...]:
        """Return all winners, by kernel, machine and time. Raises: Unkept if the file cannot be used."""
        return tuple(TABLE.read(self.path, "order by kernel, machine, time, key"))

    def keep(self, winner: Winner, question: str) -> None:
        """Store a winner in place of the previous one and delete its rounds, in one transaction.

        Raises: Unkept if the file cannot be used.
        """
        with TABLE.change(self.path) as file:
            TABLE.put(file, winner)
            file.execute("delete from rounds where question = ?", (question,))

    def add_round(self, question: str, number: int, costs_ns: Mapping[str, float]) -> None:
        """Store a round of a tournament permanently. Raises: Unkept if the file cannot be used."""
        rows = [(question, number, name, None if ns == float("inf") else ns) for name, ns in costs_ns.items()]
        with TABLE.change(self.path) as file:
            file.executemany("insert or ignore into rounds values (?, ?, ?, ?)", rows)

    def rounds(self, question: str) -> Rounds:
        """Return the stored rounds of a tournament. Raises: Unkept if the file cannot be used."""
        if not os.path.exists(self.path):
            return {}
        found: dict[int, dict[str, float]] = {}
        asked = "select number, schedule, cost_ns from rounds where question = ? order by number, rowid"
        with TABLE.change(self.path) as file:
            for number, schedule, ns in file.execute(asked, (question,)):
                found.setdefault(number, {})[schedule] = float("inf") if ns is None else ns
        return found

    def clear(self) -> int:
        """Delete all winners and the rounds of unfinished tournaments, and return the number of winners.

        Raises: Unkept if the file cannot be used.
        """
        if not os.path.exists(self.path):
            return 0
        with TABLE.change(self.path) as file:
            count = file.execute("delete from winners").rowcount
            file.execute("delete from rounds")
        return count

    def size_bytes(self) -> int:
        """Return the size of the database with its log files."""
        paths = [self.path, *(self.path.with_name(f"{NAME}{end}") for end in ("-wal", "-shm"))]
        return sum(path.stat().st_size for path in paths if path.exists())


def unusable(path: Path, why: str) -> Unkept:
    """Return the warning that a file of the tuning database cannot be used, with the reason."""
    return Unkept.of(
        "tuning-unusable",
        f"the tuning database {path} cannot be used: {why}",
        help="move it away: isamap begins a new one; ISAMAP_DATA_DIR names another folder",
    )


TABLE = RecordTable("winners", Winner, unusable, more=_ROUNDS)
