"""The roofline of a schedule: the peak of its instruction, the bandwidth of each level, and where it stands.

level   bytes    operations per byte  bandwidth  allows
l2      3.7 MiB  3.1                  68 B/ns    211 GOP/s

An operation is one multiplication or addition. The bytes are those that the model counts from each level, so
that a point lies where the model sees it. Source: Williams, Waterman, Patterson, Roofline, CACM 52, 2009.

A roofline as a picture: both axes logarithmic, a sloping roof per level, a flat one for the peak.

Written by hand, so that equal figures give equal bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from math import ceil, floor, log10, prod

from isamap.plan.problem import NestOption, Problem
from isamap.plan.schedule import Schedule
from isamap.plan.time_shares import NestTime
from isamap.report.columns import Row, bytes_text

OPERATIONS_PER_STEP = 2


@dataclass(frozen=True, slots=True)
class Slope:
    """A level of memory. Units: bytes per nanosecond, bytes that the schedule moves from it."""

    level: str
    bandwidth_bytes_per_ns: float
    moved_bytes: float


@dataclass(frozen=True, slots=True)
class Roofline:
    """One statement under the roofs of its machine. Units: operations per nanosecond, which are GOP/s."""

    statement: int
    instruction: str
    operations: int
    reached_per_ns: float
    peak_per_ns: float
    slopes: tuple[Slope, ...]

    def intensity(self, slope: Slope) -> float | None:
        """Operations per byte from a level; None where nothing comes from it."""
        return self.operations / slope.moved_bytes if slope.moved_bytes > 0 else None

    def allowed_per_ns(self, slope: Slope) -> float:
        """What a level's bandwidth and the peak allow."""
        intensity = self.intensity(slope)
        if intensity is None:
            return self.peak_per_ns
        return min(self.peak_per_ns, intensity * slope.bandwidth_bytes_per_ns)


def rooflines(schedule: Schedule, problem: Problem, times: Sequence[NestTime | None]) -> tuple[Roofline, ...]:
    """A roofline for each statement that computes on a unit, and whose model says what comes from where."""
    nests = {nest.statement: nest for nest in schedule.nests}
    found: list[Roofline] = []
    for question, time in zip(problem.nests, times, strict=True):
        nest = nests.get(question.statement)
        if nest is None or time is None or not time.shares or time.total_ns <= 0:
            continue
        option = next(o for o in question.options if o.mapping == nest.mapping)
        if option.interval_ns > 0:
            found.append(_roofline(option, question.turns, time, problem))
    return tuple(found)


def _roofline(option: NestOption, turns: int, time: NestTime, problem: Problem) -> Roofline:
    operations = OPERATIONS_PER_STEP * turns * prod(axis.extent for axis in option.axes)
    each = OPERATIONS_PER_STEP * prod(axis.tile for axis in option.axes)
    sums = time.sums()
    levels = [(cache.name, cache.bandwidth_bytes_per_ns) for cache in problem.caches[1:]]
    if problem.caches:
        levels.append(("memory", problem.memory_bandwidth_bytes_per_ns))
    slopes = tuple(
        Slope(name, bandwidth, sums.get(f"from {name}", 0.0) * bandwidth) for name, bandwidth in levels
    )
    reached, peak = operations / time.total_ns, each / option.interval_ns
    return Roofline(time.statement, option.mapping.split()[0], operations, reached, peak, slopes)


def roofline_rows(roofline: Roofline) -> list[Row]:
    """The levels as a table's rows, the header first."""
    rows: list[Row] = [("level", "bytes", "operations per byte", "bandwidth", "allows")]
    for slope in roofline.slopes:
        intensity = roofline.intensity(slope)
        rows.append(
            (
                slope.level,
                bytes_text(round(slope.moved_bytes)),
                "-" if intensity is None else f"{intensity:.3g}",
                f"{slope.bandwidth_bytes_per_ns:.3g} B/ns",
                f"{roofline.allowed_per_ns(slope):.3g} GOP/s",
            )
        )
    return rows


def roofline_sentence(roofline: Roofline) -> str:
    """What is reached of the peak: `201 of 229 GOP/s of fma_zmm_f32, 88 %`."""
    share = 100 * roofline.reached_per_ns / roofline.peak_per_ns
    reached, peak = f"{roofline.reached_per_ns:.3g}", f"{roofline.peak_per_ns:.3g}"
    return f"{reached} of {peak} GOP/s of {roofline.instruction}, {share:.0f} %"


def roofline_json(roofline: Roofline) -> dict[str, object]:
    """The roofline as JSON."""
    return {
        "statement": roofline.statement,
        "instruction": roofline.instruction,
        "operations": roofline.operations,
        "reached_gops": roofline.reached_per_ns,
        "peak_gops": roofline.peak_per_ns,
        "levels": [
            {
                "level": slope.level,
                "bandwidth_bytes_per_ns": slope.bandwidth_bytes_per_ns,
                "moved_bytes": slope.moved_bytes,
                "operations_per_byte": roofline.intensity(slope),
                "allowed_gops": roofline.allowed_per_ns(slope),
            }
            for slope in roofline.slopes
        ],
    }


WIDTH, PLOT_HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 760, 320, 80, 170, 56, 60
# From the name of one level to that of the next, above the plot.
LEGEND = 150
# Told apart also by readers without red or green vision (Okabe and Ito, 2008).
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00")
INK, GRID = "#222222", "#dddddd"


@dataclass(frozen=True, slots=True)
class _Scale:
    """Decades of both axes, and the top of the plot. Units: pixels for `top`."""

    x: tuple[int, int]
    y: tuple[int, int]
    top: int

    def across(self, value: float) -> float:
        """Pixels from the left."""
        low, high = self.x
        return LEFT + (WIDTH - LEFT - RIGHT) * (log10(value) - low) / (high - low)

    def down(self, value: float) -> float:
        """Pixels from the top."""
        low, high = self.y
        return self.top + PLOT_HEIGHT * (1 - (log10(value) - low) / (high - low))


def roofline_svg(title: str, lines: Sequence[Roofline]) -> str:
    """The picture of all rooflines, one above the other."""
    each = TOP + PLOT_HEIGHT + BOTTOM
    height = max(1, len(lines)) * each
    size = f'viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}"'
    style = f'font-family="sans-serif" font-size="12" fill="{INK}" role="img"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} {style}>',
        f"<title>{escape(title)}</title>",
        f'<rect width="{WIDTH}" height="{height}" fill="white"/>',
    ]
    for number, line in enumerate(lines):
        parts += _plot(title, line, _scale(line, number * each + TOP))
    if not lines:
        parts.append(f'<text x="{LEFT}" y="{TOP}">{escape(title)}: the model names no traffic</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"


def _scale(line: Roofline, top: int) -> _Scale:
    """Decades around all points, and around where the roofs meet the peak."""
    across = [i for slope in line.slopes if (i := line.intensity(slope)) is not None]
    across += [line.peak_per_ns / slope.bandwidth_bytes_per_ns for slope in line.slopes]
    across = across or [1.0]
    low, high = floor(log10(min(across)) - 0.3), ceil(log10(max(across)) + 0.3)
    bottom = min(line.reached_per_ns, line.peak_per_ns / 30)
    return _Scale((low, high), (floor(log10(bottom)), ceil(log10(line.peak_per_ns) + 0.1)), top)


def _plot(title: str, line: Roofline, scale: _Scale) -> Iterator[str]:
    yield (
        f'<text x="{LEFT}" y="{scale.top - 30}" font-size="15">{escape(title)}, statement '
        f"{line.statement}: {escape(line.instruction)}</text>"
    )
    yield from _grid(scale)
    yield from _peak(line, scale)
    for number, slope in enumerate(line.slopes):
        yield from _slope(line, slope, scale, COLOURS[number % len(COLOURS)], number)


def _grid(scale: _Scale) -> Iterator[str]:
    bottom, right = scale.top + PLOT_HEIGHT, WIDTH - RIGHT
    for power in range(scale.x[0], scale.x[1] + 1):
        x = scale.across(10.0**power)
        yield f'<path d="M{x:.1f} {scale.top}V{bottom}" stroke="{GRID}"/>'
        yield f'<text x="{x:.1f}" y="{bottom + 18}" text-anchor="middle">{_power(power)}</text>'
    for power in range(scale.y[0], scale.y[1] + 1):
        y = scale.down(10.0**power)
        yield f'<path d="M{LEFT} {y:.1f}H{right}" stroke="{GRID}"/>'
        yield f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{_power(power)}</text>'
    middle = (LEFT + right) / 2
    yield f'<text x="{middle:.1f}" y="{bottom + 40}" text-anchor="middle">operations per byte</text>'
    y = scale.top + PLOT_HEIGHT / 2
    yield (
        f'<text x="24" y="{y:.1f}" text-anchor="middle" transform="rotate(-90 24 {y:.1f})">'
        "GOP/s (operations per ns)</text>"
    )


def _power(power: int) -> str:
    return f"{10**power}" if 0 <= power <= 4 else f"1e{power}"


def _peak(line: Roofline, scale: _Scale) -> Iterator[str]:
    y, right = scale.down(line.peak_per_ns), WIDTH - RIGHT
    yield f'<path d="M{LEFT} {y:.1f}H{right}" stroke="{INK}" stroke-width="2"/>'
    yield f'<text x="{right + 8}" y="{y + 4:.1f}">peak {line.peak_per_ns:.3g} GOP/s</text>'
    y = scale.down(line.reached_per_ns)
    yield f'<path d="M{LEFT} {y:.1f}H{right}" stroke="{INK}" stroke-dasharray="4 4"/>'
    below = y + 20 if abs(y - scale.down(line.peak_per_ns)) < 16 else y + 4
    yield f'<text x="{right + 8}" y="{below:.1f}">model {line.reached_per_ns:.3g} GOP/s</text>'


def _slope(line: Roofline, slope: Slope, scale: _Scale, colour: str, number: int) -> Iterator[str]:
    """A roof as far as the plot shows it, the point of the schedule on its level, and the label of both."""
    bandwidth = slope.bandwidth_bytes_per_ns
    start = max(10.0 ** scale.x[0], 10.0 ** scale.y[0] / bandwidth)
    end = line.peak_per_ns / bandwidth
    x1, y1 = scale.across(start), scale.down(start * bandwidth)
    x2, y2 = scale.across(end), scale.down(line.peak_per_ns)
    yield f'<path d="M{x1:.1f} {y1:.1f}L{x2:.1f} {y2:.1f}" stroke="{colour}" stroke-width="2"/>'
    x, y = LEFT + LEGEND * number, scale.top - 10
    intensity = line.intensity(slope)
    label = f"{slope.level} {bandwidth:.3g} B/ns" + ("" if intensity is not None else ", unused")
    yield f'<circle cx="{x + 5}" cy="{y - 4}" r="5" fill="{colour}"/>'
    yield f'<text x="{x + 15}" y="{y}">{escape(label)}</text>'
    if intensity is not None:
        x, y_point = scale.across(intensity), scale.down(line.reached_per_ns)
        yield f'<circle cx="{x:.1f}" cy="{y_point:.1f}" r="5" fill="{colour}" stroke="white"/>'
