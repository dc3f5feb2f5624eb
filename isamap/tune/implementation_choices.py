"""Store, for groups of a model's operations, whether our kernel or a library's calls are faster.

    Choices.open().keep(choice)   replaces the previous choice
    Choices.open().find(key)      the choice of an equal question, or None

The store is an SQLite file in the folder of the tuning database, and private like it.
"""

from __future__ import annotations

import os
from pathlib import Path
from statistics import median

from isamap.source.records import dataclass
from isamap.tune.record_table import RecordTable
from isamap.tune.store import data_path
from isamap.tune.tournament import find_winner
from isamap.tune.winners import Rounds, unusable

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
        found = find_winner(rounds, OURS)
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


TABLE = RecordTable("choices", ImplementationChoice, unusable)


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
        return next(iter(TABLE.read(self.path, "where key = ?", (key,))), None)

    def keep(self, choice: ImplementationChoice) -> None:
        """Store a choice atomically. Raises: Unkept if the file cannot be used."""
        with TABLE.change(self.path) as file:
            TABLE.put(file, choice)

    def count(self) -> int:
        """Return the number of stored choices. Raises: Unkept if the file cannot be used."""
        return len(TABLE.read(self.path))

    def clear(self) -> int:
        """Delete all choices, and return their number. Raises: Unkept if the file cannot be used."""
        if not os.path.exists(self.path):
            return 0
        with TABLE.change(self.path) as file:
            return file.execute("delete from choices").rowcount
