"""A sweep as a table: a row for each combination of parameters, columns for kernels, and break-even points.

memories.spad.bytes  gemm_u8s8 M=512 N=512 K=512  status   gap
64KiB                                     360 µs  OPTIMAL  0.0 %
128KiB                                    239 µs  OPTIMAL  0.0 %

gemm_u8s8 M=512 N=512 K=512: 239 µs at memories.spad.bytes = 128KiB, within 1 % of the least
"""

from __future__ import annotations

from typing import Protocol

from isamap.plan.schedule import PROVEN
from isamap.report.columns import align, percent_text
from isamap.report.mappings import time_text
from isamap.source.records import dataclass

ENOUGH = 1.01
"""Times within a hundredth of the least are as good: the first of them is named."""


class Point(Protocol):
    """A predicted time, or why there is none."""

    @property
    def ns(self) -> float | None: ...

    @property
    def refused(self) -> str: ...
    @property
    def status(self) -> str: ...
    @property
    def gap(self) -> float | None: ...


@dataclass(frozen=True, slots=True)
class Line:
    """A kernel at sizes, with what is predicted at each point."""

    name: str
    points: tuple[Point, ...]

    @property
    def least(self) -> int | None:
        """The first point whose time is as good as the least; None where there is no time."""
        times = [point.ns for point in self.points if point.ns is not None]
        good = [n for n, p in enumerate(self.points) if p.ns is not None and p.ns <= ENOUGH * min(times)]
        return good[0] if good else None


@dataclass(frozen=True, slots=True)
class Sweep:
    """The figures that change, their values as words at each point, those of the first as numbers, and times.

    The first figure turns slowest.
    """

    paths: tuple[str, ...]
    values: tuple[tuple[str, ...], ...]
    first: tuple[float, ...]
    lines: tuple[Line, ...]


def sweep_text(sweep: Sweep) -> str:
    """Return the table, and for each kernel where it is fastest."""
    rows = [[*sweep.paths, *(word for line in sweep.lines for word in (line.name, "status", "gap"))]]
    for number, values in enumerate(sweep.values):
        rows.append([*values, *(word for line in sweep.lines for word in _words(line.points[number]))])
    first = len(sweep.paths)
    shown = align(rows, right=[n for n in range(first, len(rows[0])) if (n - first) % 3 != 1])
    return "\n".join([shown, "", *(_least(sweep, line) for line in sweep.lines)])


def _words(point: Point) -> tuple[str, str, str]:
    """Return the time of a point, its status and its gap."""
    if point.ns is None:
        return point.refused, "", ""
    gap = "" if point.gap is None else percent_text(point.gap if point.gap >= PROVEN else 0)
    return time_text(point.ns), point.status, gap


def _least(sweep: Sweep, line: Line) -> str:
    if (number := line.least) is None:
        return f"{line.name}: not on any of these machines"
    ns = line.points[number].ns
    assert ns is not None, "the least has a time"
    at = ", ".join(f"{path} = {value}" for path, value in zip(sweep.paths, sweep.values[number], strict=True))
    return f"{line.name}: {time_text(ns)} at {at}, within 1 % of the least"
