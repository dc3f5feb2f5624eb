"""A sweep as a table: a row per combination of parameters, a column per kernel, and break-even points.

memories.spad.bytes  gemm_u8s8 M=512 N=512 K=512  status   gap
64KiB                                     360 µs  OPTIMAL  0.0 %
128KiB                                    239 µs  OPTIMAL  0.0 %

gemm_u8s8 M=512 N=512 K=512: 239 µs at memories.spad.bytes = 128KiB, within 1 % of the least
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from math import ceil, floor, log10
from typing import Protocol

from isamap.plan.schedule import PROVEN
from isamap.report.columns import align, energy_text, percent_text
from isamap.report.mappings import time_text
from isamap.report.picture import COLOURS, STYLE
from isamap.source.records import dataclass

ENOUGH = 1.01
"""Times within a hundredth of the least are as good: the first of them is named."""


class SweepPoint(Protocol):
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
class SweepLine:
    """A kernel with sizes, an objective, and the prediction at each point."""

    name: str
    points: tuple[SweepPoint, ...]
    kernel: str = ""
    objective: str = "time"

    @property
    def least(self) -> int | None:
        """The first point whose time equals the least, or None if there is no time."""
        times = [point.ns for point in self.points if point.ns is not None]
        good = [n for n, p in enumerate(self.points) if p.ns is not None and p.ns <= ENOUGH * min(times)]
        return good[0] if good else None


@dataclass(frozen=True, slots=True)
class Sweep:
    """The swept parameters, their values at each point, and the times. The first parameter is the outermost.

    The first parameter is the outermost.
    """

    paths: tuple[str, ...]
    values: tuple[tuple[str, ...], ...]
    first: tuple[float, ...]
    lines: tuple[SweepLine, ...]


Place = tuple[int, int]
"""The numbers of a line and of a point on it."""


def fronts(sweep: Sweep) -> dict[str, list[Place]]:
    """Return, per kernel, the points that no other point equals or beats in time, energy and area together.

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
    """Return the points of a front as table rows, the header first, each with its proven bound."""
    rows = [[*sweep.paths, "objective", "time", "energy", "area", "status", "gap"]]
    for number, at in front:
        line, point = sweep.lines[number], sweep.lines[number].points[at]
        time, status, gap = _words(point)
        energy = "" if point.energy_pj is None else energy_text(point.energy_pj)
        area = "" if point.area_mm2 is None else f"{point.area_mm2:.4g} mm²"
        rows.append([*sweep.values[at], line.objective, time, energy, area, status, gap])
    return rows


def sweep_csv(sweep: Sweep) -> list[list[str]]:
    """Return all points as table rows, the header first, with unrounded numbers."""
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
    """Return the table, the points at which each kernel is fastest, and the fronts if energies are stated."""
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


def _words(point: SweepPoint) -> tuple[str, str, str]:
    """Return the time, the status and the gap of a point as texts."""
    if point.ns is None:
        return point.refused, "", ""
    gap = "" if point.gap is None else percent_text(point.gap if point.gap >= PROVEN else 0)
    return time_text(point.ns), point.status, gap


def _least(sweep: Sweep, line: SweepLine) -> str:
    if (number := line.least) is None:
        return f"{line.name}: not on any of these machines"
    ns = line.points[number].ns
    assert ns is not None, "the least has a time"
    at = ", ".join(f"{path} = {value}" for path, value in zip(sweep.paths, sweep.values[number], strict=True))
    return f"{line.name}: {time_text(ns)} at {at}, within 1 % of the least"


# --- the plot of a sweep --------------------------------------------------------------------------------

RIGHT, HEIGHT, LEFT, TOP, BOTTOM, ROW = 620, 460, 84, 74, 58, 18  # up to the key
PLOT = """
  .grid { stroke: var(--grid); } .axis { stroke: var(--edge); fill: none; }
  .line { fill: none; stroke-width: 2; } .dot { stroke: var(--page); stroke-width: 1.5; }
"""


@dataclass(frozen=True, slots=True)
class _Series:
    """A line of a plot: its name, and a time for each value of the first parameter. Units: nanoseconds."""

    name: str
    points: tuple[tuple[int, float], ...]


def sweep_svg(title: str, sweep: Sweep) -> str:
    """Return the plot of a sweep."""
    series = _series(sweep)
    height = max(HEIGHT, TOP + BOTTOM + ROW * len(series))
    width = RIGHT + 80 + 7 * max(len(line.name) for line in series)
    size = f'width="{width}" height="{height}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" {size} role="img">',
        f"<title>{escape(title)}: predicted time over {escape(sweep.paths[0])}</title>",
        f"<style>{STYLE}{PLOT}</style>",
        f'<rect class="page" {size}/>',
        f'<text class="title" x="24" y="30">{escape(title)}</text>',
        f'<text class="soft" x="24" y="48">predicted time over {escape(sweep.paths[0])}</text>',
    ]
    frame = _Frame.of(sweep, series, height)
    parts += _grid(sweep, frame)
    for number, line in enumerate(series):
        parts += _line(line, frame, number)
    return "\n".join([*parts, "</svg>"]) + "\n"


def _series(sweep: Sweep) -> list[_Series]:
    others = list(dict.fromkeys(values[1:] for values in sweep.values))
    found: list[_Series] = []
    for line in sweep.lines:
        for other in others:
            at = [n for n, values in enumerate(sweep.values) if values[1:] == other]
            times = [(x, line.points[n].ns) for x, n in enumerate(at)]
            fixed = "".join(
                f", {p.split('.', 1)[-1]} {v}" for p, v in zip(sweep.paths[1:], other, strict=True)
            )
            found.append(_Series(f"{line.name}{fixed}", tuple((x, ns) for x, ns in times if ns is not None)))
    return found


@dataclass(frozen=True, slots=True)
class _Frame:
    """The coordinate frame of a plot: the first parameter's values horizontally, times vertically."""

    across: tuple[float, ...]
    low: float
    high: float
    bottom: int

    @staticmethod
    def of(sweep: Sweep, series: Sequence[_Series], height: int) -> _Frame:
        times = [ns for line in series for _, ns in line.points] or [1.0]
        numbers = sweep.first
        # What grows by factors is drawn so.
        by_factors = len(numbers) > 2 and numbers[0] > 0 and numbers[-1] >= 4 * numbers[0]
        scaled = [log10(n) for n in numbers] if by_factors else list(numbers)
        least, most = min(scaled), max(scaled)
        span = most - least or 1.0
        places = tuple(LEFT + 24 + (RIGHT - LEFT - 48) * (n - least) / span for n in scaled)
        low, high = log10(min(times)), log10(max(times))
        room = max(0.05, 0.08 * (high - low))
        return _Frame(places, low - room, high + room, height - BOTTOM)

    def down(self, ns: float) -> float:
        return TOP + (self.bottom - TOP) * (self.high - log10(ns)) / (self.high - self.low)


def _ticks(frame: _Frame) -> list[float]:
    """Return the values of the grid lines: 1, 2 and 5 of each decade, or more if these are too few."""
    decades = range(floor(frame.low) - 1, ceil(frame.high) + 1)
    for steps in ((1,), (1, 2, 5), (1, 1.5, 2, 3, 4, 5, 6, 8), [1 + n / 20 for n in range(180)]):
        found = [s * 10.0**d for d in decades for s in steps if frame.low <= log10(s * 10.0**d) <= frame.high]
        if len(found) >= 4:
            return found[:: max(1, len(found) // 8)]
    return [10.0**frame.low, 10.0**frame.high]


def _grid(sweep: Sweep, frame: _Frame) -> Iterator[str]:
    for ns in _ticks(frame):
        y = frame.down(ns)
        yield f'<path class="grid" d="M{LEFT} {y:.1f}H{RIGHT}"/>'
        yield f'<text class="soft" x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{time_text(ns)}</text>'
    words = list(dict.fromkeys(values[0] for values in sweep.values))
    each = max(1, -(-len(words) * 52 // (RIGHT - LEFT)))
    for number, (word, x) in enumerate(zip(words, frame.across, strict=True)):
        if number % each == 0:
            yield f'<path class="grid" d="M{x:.1f} {TOP}V{frame.bottom}"/>'
            yield _centre_text(x, frame.bottom + 18, word, "soft")
    yield f'<path class="axis" d="M{LEFT} {TOP}V{frame.bottom}H{RIGHT}"/>'
    yield _centre_text((LEFT + RIGHT) / 2, frame.bottom + 40, sweep.paths[0], "what")


def _centre_text(x: float, y: float, text: str, kind: str) -> str:
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="middle">{escape(text)}</text>'


def _line(line: _Series, frame: _Frame, number: int) -> Iterator[str]:
    colour = f"var(--c{number % COLOURS})"
    dashes = ("", "6 3", "2 3")[number // COLOURS % 3]
    style = f"stroke: {colour}; stroke-dasharray: {dashes or 'none'}"
    points = [(frame.across[x], frame.down(ns)) for x, ns in line.points]
    if points:
        path = "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
        yield f'<path class="line" style="{style}" d="M{path}"/>'
        yield from (
            f'<circle class="dot" style="fill: {colour}" cx="{x:.1f}" cy="{y:.1f}" r="4"/>' for x, y in points
        )
    x, y = RIGHT + 20, TOP + 8 + ROW * number
    said = line.name if points else f"{line.name}: never"
    yield f'<path class="line" style="{style}" d="M{x} {y - 4}H{x + 22}"/>'
    yield f'<text x="{x + 30}" y="{y}">{escape(said)}</text>'


# --- fronts -----------------------------------------------------------------------------------------------


def front_svg(title: str, sweep: Sweep) -> str:
    """Return a plot of energy over time, or of area without energies, with the front of each kernel."""
    points = {(n, at): p for n, line in enumerate(sweep.lines) for at, p in enumerate(line.points) if p.ns}
    has_energy = any(p.energy_pj for p in points.values())
    costs = {place: (p.energy_pj if has_energy else p.area_mm2) or 0.0 for place, p in points.items()}
    found = {place: (points[place].ns or 0.0, cost) for place, cost in costs.items() if cost > 0}
    what, width, bottom = ("energy" if has_energy else "area"), RIGHT + 300, HEIGHT - BOTTOM
    size = f'width="{width}" height="{HEIGHT}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {HEIGHT}" {size} role="img">',
        f"<title>{escape(title)}: {what} over time</title>",
        f"<style>{STYLE}{PLOT}</style>",
        f'<rect class="page" {size}/>',
        f'<text class="title" x="24" y="30">{escape(title)}</text>',
        f'<text class="soft" x="24" y="48">{what} over predicted time; lines join the points of a front</text>',
        f'<path class="axis" d="M{LEFT} {TOP}V{bottom}H{RIGHT}"/>',
        _centre_text((LEFT + RIGHT) / 2, bottom + 40, "predicted time", "what"),
    ]
    across = _Scale.of([ns for ns, _ in found.values()], LEFT + 20, RIGHT - 20)
    down = _Scale.of([cost for _, cost in found.values()], bottom - 20, TOP + 20)
    ends = ((across.least, across.most), (down.least, down.most)) if found else ((), ())
    parts += [
        _centre_text(across.at(ns), bottom + 18, time_text(ns), "soft") for ns in dict.fromkeys(ends[0])
    ]
    for cost in dict.fromkeys(ends[1]):
        said = energy_text(cost) if has_energy else f"{cost:.3g} mm²"
        y = down.at(cost) + 4
        parts.append(f'<text class="soft" x="{LEFT - 8}" y="{y:.1f}" text-anchor="end">{said}</text>')
    kept = fronts(sweep)
    for number, kernel in enumerate(dict.fromkeys(line.kernel for line in sweep.lines)):
        colour = f"var(--c{number % COLOURS})"
        drawn = {
            p: (across.at(found[p][0]), down.at(found[p][1])) for p in found if _kernel(sweep, p) == kernel
        }
        front = [p for p in kept.get(kernel, ()) if p in drawn]
        if front:
            path = "L".join(f"{x:.1f} {y:.1f}" for x, y in (drawn[p] for p in front))
            parts.append(f'<path class="line" style="stroke: {colour}" d="M{path}"/>')
        for place, (x, y) in drawn.items():
            line, point = sweep.lines[place[0]], points[place]
            tip = f"{', '.join(sweep.values[place[1]])}, {line.objective}: {point.status}"
            style = f"fill: {colour if place in front else 'none'}; stroke: {colour}"
            parts.append(
                f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" style="{style}"><title>{escape(tip)}</title></circle>'
            )
        y = TOP + ROW * number
        parts.append(f'<text x="{RIGHT + 16}" y="{y}" style="fill: {colour}">{escape(kernel)}</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"


def _kernel(sweep: Sweep, place: Place) -> str:
    return sweep.lines[place[0]].kernel


@dataclass(frozen=True, slots=True)
class _Scale:
    """A logarithmic axis from `least` to `most`, drawn from `first` to `last`."""

    least: float
    most: float
    first: int
    last: int

    @staticmethod
    def of(values: Sequence[float], first: int, last: int) -> _Scale:
        return _Scale(min(values, default=1.0), max(values, default=1.0), first, last)

    def at(self, value: float) -> float:
        span = log10(self.most / self.least) or 1.0
        return self.first + (self.last - self.first) * log10(value / self.least) / span
