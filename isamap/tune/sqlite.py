"""SQLite files in the user's data folder: private, open to several processes, whole after a kill.

    with opened(path, tables, 1, refuse) as connection, connection: ...   one transaction

What was acknowledged is there for good: the write-ahead log is synced at every commit.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable, Generator
from contextlib import closing, contextmanager
from pathlib import Path

from isamap.source import Unkept
from isamap.tune.store import safe

# How long a writer waits for another one. Units: seconds.
PATIENCE_S = 30.0


@contextmanager
def opened(
    path: Path, tables: str, version: int, refuse: Callable[[Path, str], Unkept]
) -> Generator[sqlite3.Connection]:
    """A connection to the file, which is made with its tables where it is missing.

    `version` is that of the tables; `refuse` makes the error from a path and a reason. Raises: that one;
    UsageProblem when others may write to the folder.
    """
    try:
        safe(path.parent)
        # SQLite gives its side files the mode of the file: it has to be private before it is opened.
        os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
        with closing(sqlite3.connect(path, timeout=PATIENCE_S)) as connection:
            (found,) = connection.execute("pragma user_version").fetchone()
            if found > version:
                raise refuse(path, f"a newer isamap wrote it (format {found})")
            if found == 0:
                _begin(connection, f"{tables}\npragma user_version = {version};")
            connection.execute("pragma synchronous = full")
            yield connection
    except (sqlite3.Error, OSError) as error:
        why = error.strerror if isinstance(error, OSError) else None
        raise refuse(path, why or str(error)) from None


def _begin(connection: sqlite3.Connection, script: str) -> None:
    """Makes the tables, also while another process does so: changing the journal does not wait for locks."""
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
