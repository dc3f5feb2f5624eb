"""The tuning database: the fastest measured schedule of each question.

    Winners.open().add_round(question, 3, {schedule: ns, …})   one transaction per round of a tournament
    Winners.open().keep(winner)                                 its rounds are no longer needed
    Winners.open().find(key)                                    the winner of an equal question, or None

An SQLite file in the user's data folder that only they can read. One row per kernel with sizes, machine,
profile, threads, processor and version. A process may be killed at any moment: rounds that were acknowledged
are there when the tournament goes on.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from isamap.source import Unkept, dataclass, fields
from isamap.tune.store import data_path, open_database

FORMAT = 1
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


COLUMNS = tuple(field.name for field in fields(Winner))
_TYPES = {
    "threads": "integer",
    "place": "integer",
    "asked": "integer",
    "contenders": "integer",
    "rounds": "integer",
    "cost_ns": "real",
    "first_ns": "real",
    "ratio": "real",
}
_TABLES = f"""
create table if not exists winners (
  {", ".join(f"{name} {_TYPES.get(name, 'text')} not null" for name in COLUMNS)},
  primary key (key)
);
create table if not exists rounds (
  question text not null, number integer not null, schedule text not null, cost_ns real,
  primary key (question, number, schedule)
);
"""
_KEEP = f"insert or replace into winners ({', '.join(COLUMNS)}) values ({', '.join('?' for _ in COLUMNS)})"
_ALL = f"select {', '.join(COLUMNS)} from winners"

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
        if not os.path.exists(self.path):
            return None
        with self._connect() as connection:
            row = connection.execute(f"{_ALL} where key = ?", (key,)).fetchone()
            return None if row is None else _winner(row)

    def all(self) -> tuple[Winner, ...]:
        """Return all winners, by kernel, machine and time. Raises: Unkept if the file cannot be used."""
        if not os.path.exists(self.path):
            return ()
        with self._connect() as connection:
            rows = connection.execute(f"{_ALL} order by kernel, machine, time, key").fetchall()
            return tuple(map(_winner, rows))

    def keep(self, winner: Winner, question: str) -> None:
        """Store a winner in place of the previous one and delete its rounds, in one transaction.

        Raises: Unkept if the file cannot be used.
        """
        values = ((name, getattr(winner, name)) for name in COLUMNS)
        row = [json.dumps(dict(v), sort_keys=True) if name == "sizes" else v for name, v in values]
        with self._connect() as connection, connection:
            connection.execute(_KEEP, row)
            connection.execute("delete from rounds where question = ?", (question,))

    def add_round(self, question: str, number: int, costs_ns: Mapping[str, float]) -> None:
        """Store a round of a tournament permanently. Raises: Unkept if the file cannot be used."""
        rows = [(question, number, name, None if ns == float("inf") else ns) for name, ns in costs_ns.items()]
        with self._connect() as connection, connection:
            connection.executemany("insert or ignore into rounds values (?, ?, ?, ?)", rows)

    def rounds(self, question: str) -> Rounds:
        """Return the stored rounds of a tournament. Raises: Unkept if the file cannot be used."""
        if not os.path.exists(self.path):
            return {}
        found: dict[int, dict[str, float]] = {}
        asked = "select number, schedule, cost_ns from rounds where question = ? order by number, rowid"
        with self._connect() as connection:
            for number, schedule, ns in connection.execute(asked, (question,)):
                found.setdefault(number, {})[schedule] = float("inf") if ns is None else ns
        return found

    def clear(self) -> int:
        """Delete all winners and the rounds of unfinished tournaments, and return the number of winners.

        Raises: Unkept if the file cannot be used.
        """
        if not os.path.exists(self.path):
            return 0
        with self._connect() as connection, connection:
            count = connection.execute("delete from winners").rowcount
            connection.execute("delete from rounds")
        return count

    def size_bytes(self) -> int:
        """Return the size of the database with its log files."""
        paths = [self.path, *(self.path.with_name(f"{NAME}{end}") for end in ("-wal", "-shm"))]
        return sum(path.stat().st_size for path in paths if path.exists())

    def _connect(self) -> AbstractContextManager[sqlite3.Connection]:
        return open_database(self.path, _TABLES, FORMAT, unusable)


def _winner(row: tuple[Any, ...]) -> Winner:
    pairs = zip(COLUMNS, row, strict=True)
    try:
        return Winner(**{name: json.loads(value) if name == "sizes" else value for name, value in pairs})
    except (ValueError, TypeError) as error:
        raise sqlite3.DatabaseError(f"a winner cannot be read: {error}") from None


def unusable(path: Path, why: str) -> Unkept:
    """Return the warning that a file of the tuning database cannot be used, with the reason."""
    return Unkept.of(
        "tuning-unusable",
        f"the tuning database {path} cannot be used: {why}",
        help="move it away: isamap begins a new one; ISAMAP_DATA_DIR names another folder",
    )
