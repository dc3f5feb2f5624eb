"""Every schedule that was ever evaluated, with its features: what learned cost models are made from.

    Log.open().add(record)       one transaction: it is there for good, or not at all
    Log.open().find(key)         the newest evaluation of an equal question

An SQLite file in the user's data folder that only they can read. Several processes may write at once, and any
may be killed: the write-ahead log keeps what was acknowledged. Nothing in it is code.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from isamap.plan.trial import Evaluation, Fact
from isamap.source import Diagnostic, Unkept
from isamap.tune.sqlite import opened
from isamap.tune.store import data_path

FORMAT = 1
NAME = "evaluations.sqlite"
# Columns that hold JSON.
_OBJECTS = ("sizes", "decisions", "features", "facts", "versions")


@dataclass(frozen=True, slots=True)
class Record:
    """One evaluation, as it is kept.

    `key` is the digest of all that the result depends on. Units: `model_cost_ns` and `cost_ns` in
    nanoseconds (None for what did not run); `time` in UTC, ISO 8601.
    """

    key: str
    kernel: str
    kernel_sha256: str
    machine: str
    machine_sha256: str
    profile: str
    sizes: Mapping[str, Any]
    schedule: str
    decisions: Mapping[str, int]
    model: str
    model_cost_ns: float | None
    features: Mapping[str, float]
    evaluator: str
    cost_ns: float | None
    facts: Mapping[str, Fact]
    versions: Mapping[str, str]
    time: str

    @property
    def evaluation(self) -> Evaluation:
        """What the evaluator said."""
        return Evaluation(float("inf") if self.cost_ns is None else self.cost_ns, tuple(self.facts.items()))


COLUMNS = tuple(field.name for field in fields(Record))
_CREATE = f"""
create table if not exists evaluations (
  number integer primary key,
  {", ".join(f"{name} {'real' if name.endswith('cost_ns') else 'text not null'}" for name in COLUMNS)}
);
create index if not exists evaluations_by_key on evaluations (key);
"""
_ADD = f"insert into evaluations ({', '.join(COLUMNS)}) values ({', '.join('?' for _ in COLUMNS)})"
_ALL = f"select {', '.join(COLUMNS)} from evaluations"


@dataclass(frozen=True, slots=True)
class Log:
    """The file."""

    path: Path

    @staticmethod
    def open() -> Log:
        """The log in the user's data folder."""
        return Log(data_path() / NAME)

    def add(self, record: Record) -> None:
        """Keeps a record for good. Raises: Unkept when the file cannot be used."""
        with self._connected() as connection, connection:
            connection.execute(_ADD, _row(record))

    def find(self, key: str) -> Record | None:
        """The newest record of a key. Raises: Unkept when the file cannot be used."""
        if not os.path.exists(self.path):
            return None
        with self._connected() as connection:
            row = connection.execute(f"{_ALL} where key = ? order by number desc limit 1", (key,)).fetchone()
            return None if row is None else _record(row)

    def records(self) -> Iterator[Record]:
        """All records, oldest first. Raises: Unkept when the file cannot be used."""
        if os.path.exists(self.path):
            with self._connected() as connection:
                found = list(map(_record, connection.execute(f"{_ALL} order by number")))
            yield from found

    def _connected(self) -> AbstractContextManager[sqlite3.Connection]:
        return opened(self.path, _CREATE, FORMAT, _unusable)


def _row(record: Record) -> tuple[object, ...]:
    values = ((name, getattr(record, name)) for name in COLUMNS)
    return tuple(json.dumps(dict(v), sort_keys=True) if name in _OBJECTS else v for name, v in values)


def _record(row: tuple[Any, ...]) -> Record:
    pairs = zip(COLUMNS, row, strict=True)
    try:
        return Record(**{name: json.loads(value) if name in _OBJECTS else value for name, value in pairs})
    except (ValueError, TypeError) as error:
        raise sqlite3.DatabaseError(f"a record cannot be read: {error}") from None


def _unusable(path: Path, why: str) -> Unkept:
    return Unkept(
        Diagnostic(
            "log-unusable",
            f"the log of evaluations {path} cannot be used: {why}",
            help="move it away: isamap begins a new one; ISAMAP_DATA_DIR names another folder",
        )
    )
