"""Buffers with lifetimes in one memory, and an independent check of their placement.

PlacedBuffer("a", start=0, end=3, size_bytes=4)     lives at times 0, 1 and 2
check_placement(buffers, {"a": 0, …}, 12)     () when no two that live at one time overlap
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from difflib import get_close_matches

from isamap.source import Diagnostic, Source, Span, UsageProblem, dataclass, is_digits


@dataclass(frozen=True, slots=True)
class PlacedBuffer:
    """A buffer that is live from `start` until before `end`, at a multiple of `alignment_bytes`."""

    name: str
    start: int
    end: int
    size_bytes: int
    alignment_bytes: int = 1

    def __post_init__(self) -> None:
        assert self.start < self.end
        assert self.size_bytes > 0
        assert self.alignment_bytes > 0


def check_placement(
    buffers: Sequence[PlacedBuffer], offsets: Mapping[str, int], capacity_bytes: int
) -> tuple[Diagnostic, ...]:
    """Return the errors in a placement, or () if it is correct.

    It is quadratic on purpose, and shares no code with the packers, so that it is obviously right.
    """
    found: list[Diagnostic] = []
    for n, one in enumerate(buffers):
        offset = offsets.get(one.name)
        if offset is None:
            found.append(_describe_fault(f"{one.name} has no place"))
            continue
        if offset < 0 or offset + one.size_bytes > capacity_bytes:
            end = offset + one.size_bytes
            found.append(
                _describe_fault(f"{one.name} is at {offset} to {end}, outside of {capacity_bytes} bytes")
            )
        if offset % one.alignment_bytes:
            found.append(
                _describe_fault(f"{one.name} is at {offset}, not a multiple of {one.alignment_bytes}")
            )
        for other in buffers[:n]:
            their = offsets.get(other.name)
            if their is None or one.start >= other.end or other.start >= one.end:
                continue
            if offset < their + other.size_bytes and their < offset + one.size_bytes:
                found.append(_describe_fault(f"{other.name} and {one.name} overlap while both live"))
    return tuple(found)


def _describe_fault(message: str) -> Diagnostic:
    return Diagnostic("placement-wrong", message)


# --- buffers as CSV -------------------------------------------------------------------------------------

COLUMNS = ("id", "lower", "upper", "size")
ALIGNMENT = "alignment"
OFFSET = "offset"
MAX_NUMBER = 1 << 53
MAX_BUFFERS = 100_000


@dataclass(frozen=True, slots=True)
class BufferTable:
    """The rows of a file, each with its buffer."""

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    buffers: tuple[PlacedBuffer, ...]


def read_buffers(source: Source) -> BufferTable:
    """Return the buffers of a CSV text. Raises: UsageProblem with the line of every error."""
    lines = source.text.splitlines(keepends=True)
    rows = [(n, cells) for n, cells in _rows(source, lines) if cells]
    if not rows:
        raise UsageProblem.of("buffers-empty", f"{source.name} is empty", help=_describe_columns())
    (_, first), *rest = rows
    header = [cell.strip() for cell in first]
    _check_header(header, source)
    if len(rest) > MAX_BUFFERS:
        raise UsageProblem.of(
            "buffers-too-many", f"{source.name} has {len(rest)} buffers, more than {MAX_BUFFERS}"
        )
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line))
    findings: list[Diagnostic] = []
    buffers: dict[str, PlacedBuffer] = {}
    for number, cells in rest:
        line = lines[number].rstrip("\r\n")
        span = Span(source, starts[number], starts[number] + len(line))
        buffer = _buffer(dict(zip(header, cells, strict=False)), len(header), len(cells), span)
        if isinstance(buffer, PlacedBuffer) and buffer.name in buffers:
            buffer = Diagnostic("buffers-row", f"a buffer called `{buffer.name}` occurs twice", span)
        if isinstance(buffer, Diagnostic):
            findings.append(buffer)
        else:
            buffers[buffer.name] = buffer
    if findings:
        raise UsageProblem(*findings)
    return BufferTable(tuple(header), tuple(tuple(c) for _, c in rest), tuple(buffers.values()))


def print_offsets(table: BufferTable, offsets: Mapping[str, int]) -> str:
    """Return the table as CSV with a column `offset` in bytes, which replaces an existing one."""
    kept = [n for n, name in enumerate(table.header) if name != OFFSET]
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([*(table.header[n] for n in kept), OFFSET])
    for row, buffer in zip(table.rows, table.buffers, strict=True):
        writer.writerow([*(row[n] for n in kept), offsets[buffer.name]])
    return out.getvalue()


def _rows(source: Source, lines: Sequence[str]) -> list[tuple[int, list[str]]]:
    """Return the cells of each line with its number. Quoted cells must not span lines. Raises: UsageProblem."""
    rows: list[tuple[int, list[str]]] = []
    for number, line in enumerate(lines):
        try:
            rows += [(number, cells) for cells in csv.reader([line])]
        except csv.Error as error:  # a cell longer than such a reader takes
            said = f"line {number + 1} of {source.name} is not a row of CSV: {error}"
            raise UsageProblem.of("buffers-row", said) from None
    return rows


def _check_header(header: list[str], source: Source) -> None:
    missing = [c for c in COLUMNS if c not in header]
    if not missing:
        if len(set(header)) == len(header):
            return
        twice = next(c for c in header if header.count(c) > 1)
        raise UsageProblem.of("buffers-header", f"{source.name} has two columns `{twice}`")
    near = get_close_matches(missing[0], header, n=1)
    raise UsageProblem.of(
        "buffers-header",
        f"{source.name} has no column `{missing[0]}`",
        notes=(f"columns: {', '.join(c[:40] for c in header[:12])}",),
        help=f"is `{near[0]}` meant?" if near else _describe_columns(),
    )


def _describe_columns() -> str:
    return f"the first line names the columns: {','.join(COLUMNS)}"


def _buffer(cells: Mapping[str, str], expected: int, given: int, span: Span) -> PlacedBuffer | Diagnostic:
    """Return the buffer of one line, or its error."""
    if given != expected:
        return Diagnostic("buffers-row", f"this row has {given} cells; the header names {expected}", span)
    numbers: dict[str, int] = {}
    for column in (*COLUMNS[1:], ALIGNMENT):
        text = cells.get(column, "1").strip()
        if not is_digits(text.removeprefix("-")):
            return Diagnostic("buffers-row", f"{column} is a whole number, not `{text[:40]}`", span)
        if len(text) > 17 or abs(int(text)) > MAX_NUMBER:
            return Diagnostic("buffers-row", f"{column} is beyond 2**53", span)
        numbers[column] = int(text)
    if not cells["id"].strip():
        return Diagnostic("buffers-row", "this buffer has no id", span)
    lower, upper, size = (numbers[c] for c in COLUMNS[1:])
    if lower >= upper:
        return Diagnostic("buffers-row", f"`upper` is {upper}, which is not after `lower`, {lower}", span)
    if size < 1 or numbers[ALIGNMENT] < 1:
        return Diagnostic("buffers-row", "size and alignment are at least 1", span)
    return PlacedBuffer(cells["id"].strip(), lower, upper, size, numbers[ALIGNMENT])
