"""Buffers as CSV, in the columns that MiniMalloc's public instances have, and back with offsets.

    id,lower,upper,size            id,lower,upper,size,offset
    a,0,3,4                        a,0,3,4,0

`lower` is the first time at which a buffer lives, `upper` the first at which it no longer does. A column
`alignment` may be added; further columns and the order of rows and columns are kept.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from difflib import get_close_matches

from isamap.plan.placement import Buffer
from isamap.source import Diagnostic, Source, Span, UsageProblem, is_digits
from isamap.source.records import dataclass

COLUMNS = ("id", "lower", "upper", "size")
ALIGNMENT = "alignment"
OFFSET = "offset"
MAX_NUMBER = 1 << 53
MAX_BUFFERS = 100_000


@dataclass(frozen=True, slots=True)
class BufferTable:
    """The rows of a file, with the buffer that each describes."""

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    buffers: tuple[Buffer, ...]


def read_buffers(source: Source) -> BufferTable:
    """Return the buffers of a CSV text. Raises: UsageProblem with the line of everything that is wrong."""
    lines = source.text.splitlines(keepends=True)
    rows = [(n, cells) for n, cells in _rows(source, lines) if cells]
    if not rows:
        raise UsageProblem(Diagnostic("buffers-empty", f"{source.name} is empty", help=_describe_columns()))
    (_, first), *rest = rows
    header = [cell.strip() for cell in first]
    _check_header(header, source)
    if len(rest) > MAX_BUFFERS:
        raise UsageProblem(
            Diagnostic("buffers-too-many", f"{source.name} has {len(rest)} buffers, more than {MAX_BUFFERS}")
        )
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line))
    findings: list[Diagnostic] = []
    buffers: dict[str, Buffer] = {}
    for number, cells in rest:
        line = lines[number].rstrip("\r\n")
        span = Span(source, starts[number], starts[number] + len(line))
        buffer = _buffer(dict(zip(header, cells, strict=False)), len(header), len(cells), span)
        if isinstance(buffer, Buffer) and buffer.name in buffers:
            buffer = Diagnostic("buffers-row", f"a buffer called `{buffer.name}` stands further up", span)
        if isinstance(buffer, Diagnostic):
            findings.append(buffer)
        else:
            buffers[buffer.name] = buffer
    if findings:
        raise UsageProblem(*findings)
    return BufferTable(tuple(header), tuple(tuple(c) for _, c in rest), tuple(buffers.values()))


def print_offsets(table: BufferTable, offsets: Mapping[str, int]) -> str:
    """Return the table as CSV with a column `offset` in bytes, which replaces one that was there."""
    kept = [n for n, name in enumerate(table.header) if name != OFFSET]
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([*(table.header[n] for n in kept), OFFSET])
    for row, buffer in zip(table.rows, table.buffers, strict=True):
        writer.writerow([*(row[n] for n in kept), offsets[buffer.name]])
    return out.getvalue()


def _rows(source: Source, lines: Sequence[str]) -> list[tuple[int, list[str]]]:
    """Return cells of each line with its number; a quoted cell does not run over lines. Raises: UsageProblem."""
    rows: list[tuple[int, list[str]]] = []
    for number, line in enumerate(lines):
        try:
            rows += [(number, cells) for cells in csv.reader([line])]
        except csv.Error as error:  # a cell longer than such a reader takes
            said = f"line {number + 1} of {source.name} is no row of CSV: {error}"
            raise UsageProblem(Diagnostic("buffers-row", said)) from None
    return rows


def _check_header(header: list[str], source: Source) -> None:
    missing = [c for c in COLUMNS if c not in header]
    if not missing:
        if len(set(header)) == len(header):
            return
        twice = next(c for c in header if header.count(c) > 1)
        raise UsageProblem(Diagnostic("buffers-header", f"{source.name} has two columns `{twice}`"))
    near = get_close_matches(missing[0], header, n=1)
    raise UsageProblem(
        Diagnostic(
            "buffers-header",
            f"{source.name} has no column `{missing[0]}`",
            notes=(f"columns: {', '.join(c[:40] for c in header[:12])}",),
            help=f"is `{near[0]}` meant?" if near else _describe_columns(),
        )
    )


def _describe_columns() -> str:
    return f"the first line names the columns: {','.join(COLUMNS)}"


def _buffer(cells: Mapping[str, str], expected: int, given: int, span: Span) -> Buffer | Diagnostic:
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
        return Diagnostic("buffers-row", f"upper is {upper}: a buffer lives from lower, {lower}, on", span)
    if size < 1 or numbers[ALIGNMENT] < 1:
        return Diagnostic("buffers-row", "size and alignment are at least 1", span)
    return Buffer(cells["id"].strip(), lower, upper, size, numbers[ALIGNMENT])
