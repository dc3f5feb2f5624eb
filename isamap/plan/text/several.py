"""Several schedules of one kernel in one text, each for a part of the open sizes.

    isamap schedule 1                isamap schedule 1
    kernel gemm_f32                  kernel gemm_f32
    sizes …, M = 1, …                sizes …, M = 2..8192@512, …
    nest 0 { … }                     nest 0 { … }

The call's sizes choose among them, so that they have to cover all of these, and none of them twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from math import prod

from isamap.plan.schedule import Schedule
from isamap.plan.text.writing import FORMAT, print_schedule
from isamap.source import Diagnostic, Source

Box = Mapping[str, tuple[int, int]]
"""Per size its lowest and highest value."""


def print_versions(schedules: Iterable[Schedule]) -> str:
    """Return the schedules as one text."""
    return "\n".join(print_schedule(schedule) for schedule in schedules)


def split_versions(source: Source) -> tuple[Source, ...]:
    """Return the text of each schedule. Lines keep their numbers."""
    lines = source.text.splitlines(keepends=True)
    starts = [number for number, line in enumerate(lines) if line.partition("#")[0].strip() == FORMAT]
    if len(starts) < 2:
        return (source,)
    ends = [*starts[1:], len(lines)]
    return tuple(
        Source(source.name, "\n" * start + "".join(lines[start:end]))
        for start, end in zip([0, *starts[1:]], ends, strict=True)
    )


def box_of(sizes: Iterable[tuple[str, int | str]]) -> Box:
    """Return the ranges of the sizes."""
    return {name: _bounds(value) for name, value in sizes}


def _bounds(value: int | str) -> tuple[int, int]:
    if isinstance(value, int):
        return value, value
    low, _, rest = value.partition("..")
    return int(low), int(rest.partition("@")[0])


def check_versions(boxes: Sequence[Box], whole: Box) -> tuple[Diagnostic, ...]:
    """Return errors in the sizes of several versions, or () if each call is covered exactly once."""
    for box in boxes:
        outside = [name for name in whole if name not in box or not _is_within(box[name], whole[name])]
        if outside or box.keys() - whole.keys():
            return (_error(f"one is for {_show_box(box)}", whole),)
    for one, other in combinations(boxes, 2):
        if all(one[n][0] <= other[n][1] and other[n][0] <= one[n][1] for n in whole):
            return (_error(f"{_show_box(one)} and {_show_box(other)} have values in common", whole),)
    if sum(map(_volume, boxes)) < _volume(whole):
        listed = "; ".join(_show_box(box) for box in boxes)
        return (_error(f"some values have none: there are schedules for {listed}", whole),)
    return ()


def _is_within(inner: tuple[int, int], outer: tuple[int, int]) -> bool:
    return outer[0] <= inner[0] <= inner[1] <= outer[1]


def _volume(box: Box) -> int:
    return prod(high - low + 1 for low, high in box.values())


def _show_box(box: Box) -> str:
    pairs = (f"{n} = {low}" if low == high else f"{n} = {low}..{high}" for n, (low, high) in box.items())
    return ", ".join(pairs)


def _error(what: str, whole: Box) -> Diagnostic:
    return Diagnostic(
        "schedule-mismatch",
        f"the schedules do not partition {_show_box(whole)}: {what}",
        help="change their lines `sizes`, so that each value has one schedule",
    )
