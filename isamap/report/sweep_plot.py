"""Plot a sweep: predicted time over the first parameter that changes, a line for each kernel.

Where other figures change as well, each of their combinations has lines of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from math import ceil, floor, log10

from isamap.report.mappings import time_text
from isamap.report.svg_style import COLOURS, STYLE
from isamap.report.sweeps import Sweep
from isamap.source.records import dataclass

RIGHT, HEIGHT, LEFT, TOP, BOTTOM, ROW = 620, 460, 84, 74, 58, 18  # up to the key
PLOT = """
  .grid { stroke: var(--grid); } .axis { stroke: var(--edge); fill: none; }
  .line { fill: none; stroke-width: 2; } .dot { stroke: var(--page); stroke-width: 1.5; }
"""


@dataclass(frozen=True, slots=True)
class _Series:
    """A line: its name, and time by the number of the first figure's value. Units: nanoseconds."""

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
    """The coordinate frame of a plot: the first parameter's values across, a range of times down."""

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
    """Return the values at which lines are drawn: 1, 2 and 5 of each decade, or more where these are too few."""
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
            yield _centred(x, frame.bottom + 18, word, "soft")
    yield f'<path class="axis" d="M{LEFT} {TOP}V{frame.bottom}H{RIGHT}"/>'
    yield _centred((LEFT + RIGHT) / 2, frame.bottom + 40, sweep.paths[0], "what")


def _centred(x: float, y: float, text: str, kind: str) -> str:
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
