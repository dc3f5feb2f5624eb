"""A sweep as a table: a row for each combination of parameters, columns for kernels, and break-even points.

memories.spad.bytes  gemm_u8s8 M=512 N=512 K=512  status   gap
64KiB                                     360 µs  OPTIMAL  0.0 %
128KiB                                    239 µs  OPTIMAL  0.0 %

gemm_u8s8 M=512 N=512 K=512: 239 µs at memories.spad.bytes = 128KiB, within 1 % of the least
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from isamap.plan.schedule import PROVEN
from isamap.report.columns import align, energy_text, percent_text
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
    @property
    def energy_pj(self) -> float | None: ...
    @property
    def area_mm2(self) -> float | None: ...


@dataclass(frozen=True, slots=True)
class Line:
    """A kernel at sizes under an objective, with the prediction at each point."""

    name: str
    points: tuple[Point, ...]
    kernel: str = ""
    objective: str = "time"

    @property
    def least(self) -> int | None:
        """The first point whose time is as good as the least; None if there is no time."""
        times = [point.ns for point in self.points if point.ns is not None]
        good = [n for n, p in enumerate(self.points) if p.ns is not None and p.ns <= ENOUGH * min(times)]
        return good[0] if good else None


@dataclass(frozen=True, slots=True)
class Sweep:
    """The changing parameters, their values in words at each point, those of the first as numbers, and times.

    The first parameter is the outermost.
    """

    paths: tuple[str, ...]
    values: tuple[tuple[str, ...], ...]
    first: tuple[float, ...]
    lines: tuple[Line, ...]


Place = tuple[int, int]
"""The numbers of a line and of a point on it."""


def fronts(sweep: Sweep) -> dict[str, list[Place]]:
    """Return, per kernel, the points that no other one equals or beats in time, energy and area at once.

    Points of all objectives compete. Without energies and areas there is no front.
    """
    found: dict[str, list[Place]] = {}
    for kernel in dict.fromkeys(line.kernel for line in sweep.lines):
        costs: dict[Place, tuple[float, ...]] = {}
        for number, line in enumerate(sweep.lines):
            for at, point in enumerate(line.points if line.kernel == kernel else ()):
                stated = (point.ns, point.energy_pj, point.area_mm2)
                if point.ns is not None and any(stated[1:]):
                    costs[number, at] = tuple(value or 0.0 for value in stated)
        # In order, no later point beats an earlier one; of equal ones the first stands for all.
        front: list[Place] = []
        for place in sorted(costs, key=lambda p: (costs[p], p)):
            own = costs[place]
            if not any(all(a <= b for a, b in zip(costs[p], own, strict=True)) for p in front):
                front.append(place)
        if front:
            found[kernel] = front
    return found


def front_rows(sweep: Sweep, front: Sequence[Place]) -> list[list[str]]:
    """Return the points of a front as rows, the header first, each with its proven bound."""
    rows = [[*sweep.paths, "objective", "time", "energy", "area", "status", "gap"]]
    for number, at in front:
        line, point = sweep.lines[number], sweep.lines[number].points[at]
        time, status, gap = _words(point)
        energy = "" if point.energy_pj is None else energy_text(point.energy_pj)
        area = "" if point.area_mm2 is None else f"{point.area_mm2:.4g} mm²"
        rows.append([*sweep.values[at], line.objective, time, energy, area, status, gap])
    return rows


def sweep_csv(sweep: Sweep) -> list[list[str]]:
    """Return all points as rows of a table, the header first; numbers with all their digits."""
    kept = {place for front in fronts(sweep).values() for place in front}
    head = ["kernel", "objective", "ns", "energy_pj", "area_mm2", "status", "gap", "refused", "front"]
    rows = [[*sweep.paths, *head]]
    for number, line in enumerate(sweep.lines):
        for at, p in enumerate(line.points):
            costs = ["" if n is None else repr(n) for n in (p.ns, p.energy_pj, p.area_mm2)]
            proven = [p.status, "" if p.gap is None else repr(p.gap), p.refused]
            is_kept = "yes" if (number, at) in kept else "no"
            rows.append([*sweep.values[at], line.kernel, line.objective, *costs, *proven, is_kept])
    return rows


def sweep_text(sweep: Sweep) -> str:
    """Return the table, for each kernel if it is fastest, and its front where energies or areas are stated."""
    rows = [[*sweep.paths, *(word for line in sweep.lines for word in (line.name, "status", "gap"))]]
    for number, values in enumerate(sweep.values):
        rows.append([*values, *(word for line in sweep.lines for word in _words(line.points[number]))])
    first = len(sweep.paths)
    shown = align(rows, right=[n for n in range(first, len(rows[0])) if (n - first) % 3 != 1])
    parts = [shown, "", *(_least(sweep, line) for line in sweep.lines)]
    for kernel, front in fronts(sweep).items():
        table, (count, noun) = front_rows(sweep, front), (len(front), "points" if len(front) > 1 else "point")
        parts += ["", f"{kernel}: {count} {noun} on the front of time, energy and area", align(table)]
        if len({sweep.lines[number].points[at].status for number, at in front}) > 1:
            parts.append("not all of these are proven: a gap says by how much a point may still be better")
    return "\n".join(parts)


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
