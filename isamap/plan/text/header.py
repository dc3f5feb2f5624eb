"""The lines of a schedule's text before its first nest: what it is for, and what is claimed about it.

What is claimed is the solver's word, and stands only in a text that was not changed since: the line
`digest` says so of all others. Without it, or where it differs, the schedule is one that a person wrote.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

from isamap.plan.schedule import Schedule, unclaimed
from isamap.plan.text.cursor import Reader
from isamap.plan.text.writing import text_digest
from isamap.source import Span

_SIZE = re.compile(
    r"\s*([A-Za-z_][A-Za-z0-9_]*)\s*=\s*(?:(-?[0-9]{1,20})|(-?[0-9]{1,20}\.\.-?[0-9]{1,20}(?:@-?[0-9]{1,20})?))\s*$"
)
_DIGEST = re.compile(r"[0-9a-f]{12}")
_STATUSES = ("OPTIMAL", "FEASIBLE", "HEURISTIC", "MANUAL")
_BLOCKS = re.compile(r"\s*([A-Za-z_][A-Za-z0-9_]*)\s+by\s+([1-9][0-9]{0,17})\s*")
_FIXED = re.compile(r"\s*([A-Za-z_][A-Za-z0-9_.]*)\s*=\s*([0-9]{1,18})\s*")


def standing(schedule: Schedule, digest: str) -> Schedule:
    """The schedule as it was written; without what is claimed about it where the digest is not its own."""
    return schedule if digest == text_digest(schedule) else unclaimed(schedule)


def parse_header(reader: Reader) -> tuple[Schedule, str]:
    """The lines before the first nest, as a schedule without nests, and the digest that it gives."""
    schedule, digest = Schedule("", "", (), ()), ""
    seen: set[str] = set()
    while not reader.at_end() and reader.peek_span().text != "nest":
        key_span = reader.peek_span()
        key = reader.take_one_of((*_HEADER_READERS, "digest", "nest"))
        if key in seen:
            raise reader.problem(f"`{key}` is given twice", key_span)
        seen.add(key)
        value = reader.line_span()
        if not value.text:
            raise reader.problem(f"`{key}` needs a value on this line", key_span)
        if key == "digest":
            digest = _read_digest(reader, value)
        else:
            schedule = _HEADER_READERS[key](schedule, reader, value)
        reader.position = value.end
    for key in ("kernel", "machine"):
        if key not in seen:
            raise reader.problem(
                f"the schedule does not say its {key}", reader.peek_span(), f"add a line `{key} NAME`"
            )
    return schedule, digest


def _read_sizes(schedule: Schedule, reader: Reader, value: Span) -> Schedule:
    sizes: list[tuple[str, int | str]] = []
    for word in value.text.split(","):
        match = _SIZE.match(word)
        if not match:
            raise reader.problem(
                f"`{word.strip()}` is not a size",
                value,
                "write `M = 1024`, or a range `M = 1..8192@512`",
            )
        sizes.append((match[1], int(match[2]) if match[2] else match[3]))
    return replace(schedule, sizes=tuple(sizes))


def _read_time(reader: Reader, value: Span) -> float:
    number, _, unit = value.text.partition(" ")
    try:
        time_ns = float(number)
    except ValueError:
        time_ns = -1.0
    if unit.strip() != "ns" or not 0 <= time_ns < float("inf"):
        raise reader.problem(f"`{value.text}` is not a time", value, "write it as `12.5 ns`")
    return time_ns


def _read_digest(reader: Reader, value: Span) -> str:
    if not _DIGEST.fullmatch(value.text):
        raise reader.problem(
            f"`{value.text}` is no digest", value, "leave the line out, or write its 12 digits"
        )
    return value.text


def _read_fixed(schedule: Schedule, reader: Reader, value: Span) -> Schedule:
    pairs = [_FIXED.fullmatch(word) for word in value.text.split(",")]
    found = [(pair[1], int(pair[2])) for pair in pairs if pair]
    if len(found) != len(pairs):
        raise reader.problem(
            f"`{value.text}` fixes no decisions",
            value,
            "write `nest0.unroll.m = 2`, with commas between them",
        )
    return replace(schedule, fixed=tuple(found))


def _read_blocks(schedule: Schedule, reader: Reader, value: Span) -> Schedule:
    pairs = [_BLOCKS.fullmatch(word) for word in value.text.split(",")]
    found = [(pair[1], int(pair[2])) for pair in pairs if pair]
    if len(found) != len(pairs) or len(dict(found)) != len(found):
        raise reader.problem(
            f"`{value.text}` says no blocks", value, "write `p by 4`, with commas between different axes"
        )
    return replace(schedule, blocks=tuple(found))


def _read_profile(schedule: Schedule, reader: Reader, value: Span) -> Schedule:
    if not _DIGEST.fullmatch(value.text):
        raise reader.problem(
            f"`{value.text}` is no digest of a profile", value, "leave the line out, or write its 12 digits"
        )
    return replace(schedule, profile=value.text)


def _read_status(schedule: Schedule, reader: Reader, value: Span) -> Schedule:
    if value.text not in _STATUSES:
        reader.position = value.start
        raise reader.unexpected(_STATUSES)
    return replace(schedule, status=value.text)


def _read_engines(reader: Reader, value: Span) -> str:
    word, _, engines = value.text.partition(" ")
    if word != "by" or not engines:
        raise reader.problem(f"`{value.text}` names no engine", value, "write it as `by greedy`")
    return engines.strip()


def _read_reproducible(schedule: Schedule, reader: Reader, value: Span) -> Schedule:
    if value.text not in ("yes", "no"):
        reader.position = value.start
        raise reader.unexpected(("yes", "no"))
    return replace(schedule, reproducible=value.text == "yes")


_HEADER_READERS: dict[str, Callable[[Schedule, Reader, Span], Schedule]] = {
    "kernel": lambda s, _, value: replace(s, kernel=value.text),
    "machine": lambda s, _, value: replace(s, machine=value.text),
    "sizes": _read_sizes,
    "blocks": _read_blocks,
    "model": lambda s, _, value: replace(s, model=value.text),
    "cost": lambda s, reader, value: replace(s, cost_ns=_read_time(reader, value)),
    "bound": lambda s, reader, value: replace(s, lower_bound_ns=_read_time(reader, value)),
    "profile": _read_profile,
    "question": lambda s, reader, value: replace(s, question=_read_digest(reader, value)),
    "fixed": _read_fixed,
    "status": _read_status,
    "found": lambda s, reader, value: replace(s, found_by=_read_engines(reader, value)),
    "proved": lambda s, reader, value: replace(s, proved_by=_read_engines(reader, value)),
    "reproducible": _read_reproducible,
}
