"""Rows of a benchmark on disk, stored one by one, so that a stopped run can be resumed.

rows.jsonl          a line of JSON per row, written when the row is done
environment.json    where it ran
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import is_dataclass
from math import inf, sqrt
from pathlib import Path
from statistics import median
from typing import Any, Protocol, TypeVar

from isamap.source import UsageProblem, cannot_write, read_json, read_limited, replace_file
from isamap.source.codec import has_type, hints_of
from isamap.source.progress import Watch
from isamap.source.records import asdict, dataclass, field, fields

GOLDEN = (sqrt(5) - 1) / 2
ROWS_FILE, ENVIRONMENT_FILE = "rows.jsonl", "environment.json"
MOST_BYTES = 64 << 20


class StoredRow(Protocol):
    """A row: its key, and its content as JSON."""

    @property
    def key(self) -> str: ...

    def as_json(self) -> dict[str, Any]: ...


class NamedRow(StoredRow, Protocol):
    """A row of a suite with its name for users."""

    @property
    def label(self) -> str: ...
    @property
    def form(self) -> str: ...


R = TypeVar("R", bound=StoredRow)
M = TypeVar("M", bound=NamedRow)


def cores_for(threads: int) -> frozenset[int]:
    """Return as many cores as threads. Raises: UsageProblem if there are too few."""
    cores = frozenset(sorted(os.sched_getaffinity(0))[:threads])
    if len(cores) < threads:
        said = f"{threads} threads are asked for; {len(cores)} cores may be used"
        raise UsageProblem.of("bench-threads", said)
    return cores


def open_rows(folder: Path | None, resume: bool, parse: Callable[[dict[str, Any]], R]) -> dict[str, R]:
    """Return the rows of a resumed run. Without `resume`, the folder must be new."""
    if folder is None:
        return {}
    path = folder / ROWS_FILE
    if path.exists() and not resume:
        raise UsageProblem.of(
            "output-exists",
            f"{path} exists already",
            help="go on with it by --resume, or name another folder with -o",
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise cannot_write(folder, error) from None
    if not path.exists():
        return {}
    known: dict[str, R] = {}
    for number, line in enumerate(_lines(path), 1):
        try:
            row = parse(read_json(line, finite=False))
            if not _is_of(row) or not row.key:
                raise ValueError("it has a value of another type")
            known[row.key] = row
        except KeyError as error:
            raise _report_damage(path, number, f"it lacks `{error.args[0]}`") from None
        except (ValueError, TypeError, AttributeError) as error:
            raise _report_damage(path, number, str(error)[:80]) from None
    replace_file(path, "".join(_line(row) for row in known.values()).encode(), durable=True)
    return known


def _lines(path: Path) -> list[bytes]:
    """Return the complete lines of a file. A kill may have truncated the last one."""
    try:
        data = read_limited(path, MOST_BYTES)
    except OSError as error:
        said = f"{path} cannot be read: {error.strerror}"
        raise UsageProblem.of("file-unreadable", said) from None
    if len(data) > MOST_BYTES:
        raise UsageProblem.of("file-too-large", f"{path} is larger than {MOST_BYTES >> 20} MB")
    return data.split(b"\n")[:-1]


def _is_of(row: object) -> bool:
    """Return whether all fields of a row have the types of its class."""
    hints = hints_of(type(row))
    values = [(getattr(row, name), hint) for name, hint in hints.items()]
    return all(has_type(value, hint) and (not is_dataclass(value) or _is_of(value)) for value, hint in values)


def _report_damage(path: Path, number: int, why: str) -> UsageProblem:
    said = f"line {number} of {path} is not a row that this command wrote: {why}"
    help_ = "take the line out, and it is done again; or name another folder with -o"
    return UsageProblem.of("rows-damaged", said, help=help_)


def rows_in_turn(
    asked: Sequence[M],
    known: Mapping[str, M],
    measure: Callable[[int], M],
    unreached: Callable[[M, str], M],
    folder: Path | None,
    minutes: float | None,
    watch: Watch,
) -> tuple[M, ...]:
    """Return each row: a stored one, one measured now, or one marked as `unreached` after `minutes`.

    With `minutes`, rows are measured in an order that spreads over the suite, so that the measured ones
    represent all.
    """
    stop = time.monotonic() + 60 * minutes if minutes is not None else inf
    rows = {index: known[row.key] for index, row in enumerate(asked) if row.key in known}
    left = [index for index in range(len(asked)) if index not in rows]
    for index in left if minutes is None else sorted(left, key=spread_evenly):
        row = asked[index]
        if time.monotonic() > stop:
            rows[index] = unreached(row, f"not reached within {minutes:g} minutes")
            continue
        watch(f"{row.label} {row.form}", len(rows) + 1, len(asked))
        rows[index] = measure(index)
        append_row(folder, rows[index])
    return tuple(rows[index] for index in range(len(asked)))


def spread_evenly(index: int) -> float:
    """Return a sort key for which every prefix is spread evenly (multiples of the golden ratio)."""
    return index * GOLDEN % 1.0


def append_row(folder: Path | None, row: StoredRow) -> None:
    """Write a row to disk. A truncated row is ignored by `--resume`. Raises: as `unwritable` states."""
    if folder is not None:
        try:
            with (folder / ROWS_FILE).open("a", encoding="utf-8") as file:
                file.write(_line(row))
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise cannot_write(folder / ROWS_FILE, error) from None


def _line(row: StoredRow) -> str:
    return json.dumps(row.as_json()) + "\n"


def keep_environment(folder: Path | None, where: Mapping[str, object]) -> None:
    """Write the measurement environment to disk."""
    if folder is not None:
        text = json.dumps(where, indent=2) + "\n"
        replace_file(folder / ENVIRONMENT_FILE, text.encode(), durable=True)


# --- the stored result of one row -----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SuiteRow:
    """One case of a suite in one form. `sizes` are the suite's sizes."""

    case: int
    suite: str
    kind: str
    label: str
    class_name: str
    sizes: Mapping[str, int]
    form: str
    operations: int


@dataclass(frozen=True, slots=True)
class Row(SuiteRow):
    """One case in one form with the times of all contenders.

    Units: `seconds` per call and round, by contender; `compile_seconds` of isamap; `attainable_seconds` the
    roofline; `predicted_ns` by the cost model, for each set of figures. `dispatch_ns` what a framework takes
    to get to its function at all. `bound_by` says which roof is lower.
    `left_out` says why there are no times. `again` are the ratios of a second run, which rows get that came
    out slower. `reading_bytes_per_ns` is at what the weights alone were read in the same rounds, 0 if that
    was not measured.
    """

    beta: int = 0
    threads: int = 1
    cache: str = "warm"
    packed: bool = False
    seconds: Mapping[str, tuple[float, ...]] = field(default_factory=dict[str, tuple[float, ...]])
    implementation: Mapping[str, str] = field(default_factory=dict[str, str])
    in_c: Mapping[str, bool] = field(default_factory=dict[str, bool])
    verified: Mapping[str, bool] = field(default_factory=dict[str, bool])
    ratio: Mapping[str, Mapping[str, float]] = field(default_factory=dict[str, Mapping[str, float]])
    again: Mapping[str, Mapping[str, float]] = field(default_factory=dict[str, Mapping[str, float]])
    attainable_seconds: float = 0.0
    bound_by: str = ""
    predicted_ns: Mapping[str, float] = field(default_factory=dict[str, float])
    compile_seconds: float = 0.0
    ring: int = 1
    dispatch_ns: Mapping[str, float] = field(default_factory=dict[str, float])
    left_out: str = ""
    reading_bytes_per_ns: float = 0.0

    @property
    def key(self) -> str:
        """The key of the row in a resumed file. It includes the position, as a suite may repeat a shape."""
        how = f"beta={self.beta} threads={self.threads} {self.cache}{' packed' if self.packed else ''}"
        return f"{self.suite} {self.kind} {self.case} {self.label} {self.form} {how}"

    @property
    def measured_ns(self) -> float | None:
        """The least time of our calls over all rounds, or None. Units: nanoseconds."""
        return 1e9 * min(self.seconds["isamap"]) if "isamap" in self.seconds else None

    @property
    def best_baseline(self) -> str | None:
        """The fastest baseline with right results, or None."""
        known = {n: median(s) for n, s in self.seconds.items() if n != "isamap" and self.verified.get(n)}
        return min(known, key=lambda name: known[name]) if known else None

    def as_json(self) -> dict[str, Any]:
        """Return the row as JSON, with derived values, and each size of the suite by its name."""
        middle = {name: median(times) for name, times in self.seconds.items()}
        return {
            **self.sizes,
            **asdict(self),
            "seconds": {n: {"min": min(t), "median": middle[n]} for n, t in self.seconds.items()},
            "rounds_seconds": {n: list(t) for n, t in self.seconds.items()},
            "gflops": {n: self.operations / t / 1e9 for n, t in middle.items()},
            "measured_ns": self.measured_ns,
            "roofline_fraction": self.attainable_seconds / middle["isamap"] if "isamap" in middle else None,
        }

    @staticmethod
    def from_json(data: dict[str, Any]) -> Row:
        """Return the row that `as_json` wrote."""
        kept = {f.name: data[f.name] for f in fields(Row)}
        kept["seconds"] = {name: tuple(times) for name, times in data["rounds_seconds"].items()}
        return Row(**kept)


def classes_of(rows: Sequence[Row]) -> list[str]:
    """Return the classes of some rows, in order of increasing arithmetic."""
    least: dict[str, int] = {}
    for row in rows:
        least[row.class_name] = min(row.operations, least.get(row.class_name, row.operations))
    return sorted(least, key=lambda name: least[name])
