"""Store, for groups of a model's operations, whether our kernel or a library's calls are faster.

    Choices.open().keep(choice)   replaces the previous choice
    Choices.open().find(key)      the choice of an equal question, or None

The store is an SQLite file in the folder of the tuning database, and private like it.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from statistics import median

from isamap.source.records import dataclass, fields
from isamap.tune.store import data_path, open_database
from isamap.tune.tournament import standing
from isamap.tune.winners import Rounds, unusable

FORMAT = 1
NAME = "portfolio.sqlite"
OURS = "isamap"


@dataclass(frozen=True, slots=True)
class ImplementationChoice:
    """The implementation of a group of operations: `chosen` is "isamap" or the library's name.

    `ratio` is the library's time over ours, the median over rounds. Units: `ours_ns` and `theirs_ns` in
    nanoseconds of one call; `time` in UTC, ISO 8601.
    """

    key: str
    kernel: str
    library: str
    chosen: str
    ratio: float
    ours_ns: float
    theirs_ns: float
    rounds: int
    time: str

    @staticmethod
    def of(rounds: Rounds, *, key: str, kernel: str, library: str, time: str) -> ImplementationChoice:
        """Return the choice of the library if it won significantly many rounds, else of our code."""
        found = standing(rounds, OURS)
        ratio = median(costs[library] / costs[OURS] for costs in rounds.values())
        ours_ns, theirs_ns = (median(costs[name] for costs in rounds.values()) for name in (OURS, library))
        chosen = found.winner if found is not None else OURS
        return ImplementationChoice(
            key, kernel, library, chosen, round(ratio, 4), round(ours_ns), round(theirs_ns), len(rounds), time
        )

    @property
    def is_ours(self) -> bool:
        return self.chosen == OURS

    @property
    def said(self) -> str:
        """The measurements, for reports."""
        return f"{self.library} took {self.ratio:.2f} of the kernel's time, measured {self.time[:10]}"


COLUMNS = tuple(field.name for field in fields(ImplementationChoice))
_TYPES: Mapping[str, str] = {"ratio": "real", "ours_ns": "real", "theirs_ns": "real", "rounds": "integer"}
_TABLES = f"""
create table if not exists choices (
  {", ".join(f"{name} {_TYPES.get(name, 'text')} not null" for name in COLUMNS)},
  primary key (key)
);
"""
_KEEP = f"insert or replace into choices ({', '.join(COLUMNS)}) values ({', '.join('?' for _ in COLUMNS)})"


@dataclass(frozen=True, slots=True)
class ChoiceDatabase:
    """The SQLite file of choices."""

    path: Path

    @staticmethod
    def open() -> ChoiceDatabase:
        """Open the choices in the user's data folder."""
        return ChoiceDatabase(data_path() / NAME)

    def find(self, key: str) -> ImplementationChoice | None:
        """Return the choice of a question. Raises: Unkept if the file cannot be used."""
        if not os.path.exists(self.path):
            return None
        with self._connect() as connection:
            asked = f"select {', '.join(COLUMNS)} from choices where key = ?"
            row = connection.execute(asked, (key,)).fetchone()
            return None if row is None else ImplementationChoice(*row)

    def keep(self, choice: ImplementationChoice) -> None:
        """Store a choice atomically. Raises: Unkept if the file cannot be used."""
        with self._connect() as connection, connection:
            connection.execute(_KEEP, [getattr(choice, name) for name in COLUMNS])

    def count(self) -> int:
        """Return the number of stored choices. Raises: Unkept if the file cannot be used."""
        if not os.path.exists(self.path):
            return 0
        with self._connect() as connection:
            (count,) = connection.execute("select count(*) from choices").fetchone()
            return int(count)

    def clear(self) -> int:
        """Delete all choices, and return their number. Raises: Unkept if the file cannot be used."""
        if not os.path.exists(self.path):
            return 0
        with self._connect() as connection, connection:
            return connection.execute("delete from choices").rowcount

    def _connect(self) -> AbstractContextManager[sqlite3.Connection]:
        return open_database(self.path, _TABLES, FORMAT, unusable)
