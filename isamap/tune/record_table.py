"""Records in an SQLite file of the user's data folder: a table whose columns are the fields of a record.

    TABLE = RecordTable("winners", Winner, unusable)
    TABLE.read(path, "where key = ?", (key,))              [Winner(…)], or [] without a file
    with TABLE.change(path) as file: TABLE.put(file, record)     one transaction

Files are private. Several processes may write at once, and each may be killed: the write-ahead log is synced at
every commit, so that committed records are permanent.
"""

from __future__ import annotations

import errno
import json
import os
import sqlite3
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from types import NoneType
from typing import Any, Generic, TypeVar, cast, get_args, get_origin

from isamap.source import Unkept, dataclass, fields
from isamap.source.codec import hints_of
from isamap.tune.store import safe

FORMAT = 1
# How long a writer waits for another one. Units: seconds.
PATIENCE_S = 30.0
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class RecordTable(Generic[R]):
    """A table of records. Mappings are stored as JSON, and every record has a text field `key`.

    A record replaces an older one with its key. With `is_log` all records are stored, and are numbered. `more`
    creates further tables. `refuse` makes the error from the path of the file and the reason.
    """

    name: str
    record: type[R]
    refuse: Callable[[Path, str], Unkept]
    is_log: bool = False
    more: str = ""

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(field.name for field in fields(cast("Any", self.record)))

    def read(self, path: Path, condition: str = "", values: Sequence[object] = ()) -> list[R]:
        """Return the records that meet a condition of SQL, which is text of the caller, never of a user.

        Without a file there are none. Raises: the error that `refuse` makes.
        """
        if not os.path.exists(path):
            return []
        with self._open(path) as file:
            asked = f"select {', '.join(self.columns)} from {self.name} {condition}"
            return [self._parse(row) for row in file.execute(asked, values)]

    @contextmanager
    def change(self, path: Path) -> Generator[sqlite3.Connection]:
        """Open a file for one transaction, and create the file if it does not exist.

        Raises: the error that `refuse` makes.
        """
        with self._open(path) as file, file:
            yield file

    def put(self, file: sqlite3.Connection, record: R) -> None:
        """Store a record."""
        values = [getattr(record, name) for name in self.columns]
        row = [
            json.dumps(dict(cast("Mapping[str, object]", v)), sort_keys=True) if isinstance(v, Mapping) else v
            for v in values
        ]
        marks = ", ".join("?" for _ in row)
        file.execute(f"insert or replace into {self.name} ({', '.join(self.columns)}) values ({marks})", row)

    @contextmanager
    def _open(self, path: Path) -> Generator[sqlite3.Connection]:
        try:
            safe(path.parent)
            # SQLite gives its side files the mode of the file: it has to be private before it is opened.
            if path.exists() and not path.is_file():
                raise OSError(errno.EINVAL, "it is not a regular file")
            os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
            with closing(sqlite3.connect(path, timeout=PATIENCE_S)) as connection:
                (found,) = connection.execute("pragma user_version").fetchone()
                if found > FORMAT:
                    raise self.refuse(path, f"a newer isamap wrote it (format {found})")
                if found == 0:
                    _begin(connection, f"{self._tables()}\npragma user_version = {FORMAT};")
                connection.execute("pragma synchronous = full")
                yield connection
        except (sqlite3.Error, OSError) as error:
            why = error.strerror if isinstance(error, OSError) else None
            raise self.refuse(path, why or str(error)) from None

    def _tables(self) -> str:
        hints = hints_of(self.record)
        columns = ", ".join(f"{name} {_sql_type(hints[name])}" for name in self.columns)
        first, last = ("number integer primary key, ", "") if self.is_log else ("", ", primary key (key)")
        return f"create table if not exists {self.name} ({first}{columns}{last});\n{self.more}"

    def _parse(self, row: Sequence[Any]) -> R:
        hints = hints_of(self.record)
        try:
            pairs = zip(self.columns, row, strict=True)
            return self.record(**{n: json.loads(v) if _is_mapping(hints[n]) else v for n, v in pairs})
        except (ValueError, TypeError) as error:
            raise sqlite3.DatabaseError(f"a record cannot be read: {error}") from None


def _is_mapping(hint: object) -> bool:
    return get_origin(hint) is Mapping


def _sql_type(hint: object) -> str:
    """Return the type of a column in SQL. A field that may be None may be null."""
    kinds = () if _is_mapping(hint) else (hint, *get_args(hint))
    name = "integer" if int in kinds else "real" if float in kinds else "text"
    return name if NoneType in kinds else f"{name} not null"


def _begin(connection: sqlite3.Connection, script: str) -> None:
    """Create the tables, even while another process does so. Changing the journal mode does not wait for locks."""
    stop = time.monotonic() + PATIENCE_S
    while True:
        try:
            connection.execute("pragma journal_mode = wal")
            connection.executescript(script)
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > stop:
                raise
            time.sleep(0.01)
        else:
            return
