"""The roofline of a schedule: the peak of its instruction, the bandwidth of each level, and its position.

level   bytes    operations per byte  bandwidth  allows
l2      3.7 MiB  3.1                  68 B/ns    211 GOP/s

An operation is one multiplication or addition. The bytes are those that the model counts from each level, so
that a point lies where the model sees it. Source: Williams, Waterman, Patterson, Roofline, CACM 52, 2009.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from math import ceil, floor, log10, prod

from isamap.plan.check.threads import in_parts
from isamap.plan.problem import NestOption, Problem, chosen_options
from isamap.plan.schedule import Schedule
from isamap.plan.time_shares import NestTime
from isamap.report.columns import Row, bytes_text
from isamap.report.picture import COLUMNS, Picture, colour, words
from isamap.source.records import dataclass

OPERATIONS_PER_STEP = 2


@dataclass(frozen=True, slots=True)
class Slope:
    """A memory level. Units: bytes per nanosecond, and the bytes that the schedule moves from it."""

    level: str
    bandwidth_bytes_per_ns: float
    moved_bytes: float


@dataclass(frozen=True, slots=True)
class Roofline:
    """One statement under the machine's roofs, which are those of all cores that perform parts of it.

    Units: operations per nanosecond, which are GOP/s.
    """

    statement: int
    instruction: str
    operations: int
    reached_per_ns: float
    peak_per_ns: float
    slopes: tuple[Slope, ...]

    def intensity(self, slope: Slope) -> float | None:
        """Return operations per byte from a level, or None if no bytes come from it."""
        return self.operations / slope.moved_bytes if slope.moved_bytes > 0 else None

    def allowed_per_ns(self, slope: Slope) -> float:
        """Return the rate that a level's bandwidth and the peak allow."""
        intensity = self.intensity(slope)
        if intensity is None:
            return self.peak_per_ns
        return min(self.peak_per_ns, intensity * slope.bandwidth_bytes_per_ns)


def rooflines(schedule: Schedule, problem: Problem, times: Sequence[NestTime | None]) -> tuple[Roofline, ...]:
    """Return a roofline for each statement that computes on a unit, if the model reports traffic by level."""
    chosen = {nest.statement: (nest, option) for nest, option in chosen_options(schedule, problem)}
    found: list[Roofline] = []
    for question, time in zip(problem.nests, times, strict=True):
        if time is None or not time.shares or time.total_ns <= 0 or question.statement not in chosen:
            continue
        nest, option = chosen[question.statement]
        if option.interval_ns > 0:
            found.append(_roofline(in_parts(nest, option), question.iterations, time, problem))
    return tuple(found)


def _roofline(option: NestOption, iterations: int, time: NestTime, problem: Problem) -> Roofline:
    together = min(prod(count for _, count in option.parts), problem.teams(option))
    operations = OPERATIONS_PER_STEP * iterations * prod(axis.extent for axis in option.axes)
    each = OPERATIONS_PER_STEP * prod(axis.tile for axis in option.axes) * together
    sums = time.sums()
    levels = [
        (cache.name, cache.bandwidth_bytes_per_ns * (1 if cache.shared else together))
        for cache in problem.caches[1:]
    ]
    if problem.caches:
        shared = problem.memory_shared
        levels.append(("memory", problem.memory_bandwidth_bytes_per_ns * (1 if shared else together)))
    slopes = tuple(
        Slope(name, bandwidth, sums.get(f"from {name}", 0.0) * bandwidth) for name, bandwidth in levels
    )
    reached, peak = operations / time.total_ns, each / option.interval_ns
    return Roofline(time.statement, option.mapping.split()[0], operations, reached, peak, slopes)


def roofline_rows(roofline: Roofline) -> list[Row]:
    """Return the levels as table rows, the header first."""
    rows: list[Row] = [("level", "bytes", "operations per byte", "bandwidth", "allows")]
    for slope in roofline.slopes:
        intensity = roofline.intensity(slope)
        rows.append(
            (
                slope.level,
                bytes_text(round(slope.moved_bytes)),
                "-" if intensity is None else f"{intensity:.3g}",
                f"{slope.bandwidth_bytes_per_ns:.3g} B/ns",
                f"{rate_text(roofline.allowed_per_ns(slope))} GOP/s",
            )
        )
    return rows


def roofline_sentence(roofline: Roofline) -> str:
    """Return the reached share of the peak as text: `201 of 229 GOP/s of fma_zmm_f32, 88 %`."""
    share = 100 * roofline.reached_per_ns / roofline.peak_per_ns
    reached, peak = rate_text(roofline.reached_per_ns), rate_text(roofline.peak_per_ns)
    return f"{reached} of {peak} GOP/s of {roofline.instruction}, {share:.0f} %"


def rate_text(per_ns: float) -> str:
    """Return a rate with at least three digits: `6.43`, `151`, `2048`."""
    return f"{per_ns:.0f}" if per_ns >= 100 else f"{per_ns:.3g}"


def roofline_json(roofline: Roofline) -> dict[str, object]:
    """Return the roofline as JSON."""
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


# --- the picture of the roofline ------------------------------------------------------------------------

WIDTH, PLOT_HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 760, 300, 76, 150, 48, 110
LINES = 14
"""Of the plot on a terminal."""
# Of the levels' names below the plot: from one to the next across, how many, and from one row to the next.
LEGEND, BESIDE, ROW = 270, 2, 20
MARKS = "abcdefghij"


@dataclass(frozen=True, slots=True)
class _Scale:
    """The decades of both axes, and the top of the plot. Units: pixels for `top`."""

    x: tuple[int, int]
    y: tuple[int, int]
    top: int

    def across(self, value: float) -> float:
        """Return the pixels from the left."""
        low, high = self.x
        return LEFT + (WIDTH - LEFT - RIGHT) * (log10(value) - low) / (high - low)

    def down(self, value: float) -> float:
        """Return the pixels from the top."""
        low, high = self.y
        return self.top + PLOT_HEIGHT * (1 - (log10(value) - low) / (high - low))


def roofline_picture(title: str, lines: Sequence[Roofline], name: str = "roofline") -> Picture:
    """Return the picture of all rooflines, from top to bottom."""
    each = TOP + PLOT_HEIGHT + BOTTOM
    body: list[str] = []
    texts: list[str] = []
    for number, line in enumerate(lines):
        scale = _scale(line, number * each + TOP)
        body += _plot(title, line, scale)
        texts.append("\n".join(_text(title, line, scale)))
    if not lines:
        texts.append(f"{title}: the model names no traffic")
        body.append(words(LEFT, TOP, texts[0]))
    return Picture(name, title, max(1, len(lines)) * each, tuple(body), "\n\n".join(texts), WIDTH)


def _scale(line: Roofline, top: int) -> _Scale:
    """Return decades that include all points and the intersections of roofs with the peak."""
    across = [i for slope in line.slopes if (i := line.intensity(slope)) is not None]
    across += [line.peak_per_ns / slope.bandwidth_bytes_per_ns for slope in line.slopes]
    across = across or [1.0]
    low, high = floor(log10(min(across)) - 0.3), ceil(log10(max(across)) + 0.3)
    bottom = min(line.reached_per_ns, line.peak_per_ns / 30)
    return _Scale((low, high), (floor(log10(bottom)), ceil(log10(line.peak_per_ns) + 0.1)), top)


def _plot(title: str, line: Roofline, scale: _Scale) -> Iterator[str]:
    said = f"{title}, statement {line.statement}: {roofline_sentence(line)}"
    yield words(24, scale.top - 20, said, "title")
    yield from _grid(scale)
    yield from _peak(line, scale)
    for number, slope in enumerate(line.slopes):
        yield from _slope(line, slope, scale, colour(number), number)


def _grid(scale: _Scale) -> Iterator[str]:
    bottom, right = scale.top + PLOT_HEIGHT, WIDTH - RIGHT
    for power in range(scale.x[0], scale.x[1] + 1):
        x = scale.across(10.0**power)
        yield f'<path class="grid" d="M{x:.1f} {scale.top}V{bottom}"/>'
        yield words(x, bottom + 18, _power(power), "soft", "middle")
    for power in range(scale.y[0], scale.y[1] + 1):
        y = scale.down(10.0**power)
        yield f'<path class="grid" d="M{LEFT} {y:.1f}H{right}"/>'
        yield words(LEFT - 8, y + 4, _power(power), "soft", "end")
    yield words((LEFT + right) / 2, bottom + 40, "operations per byte", "soft", "middle")
    y = scale.top + PLOT_HEIGHT / 2
    yield (
        f'<text class="soft" x="24" y="{y:.1f}" text-anchor="middle" transform="rotate(-90 24 {y:.1f})">'
        "GOP/s (operations per ns)</text>"
    )


def _power(power: int) -> str:
    return f"{10**power}" if 0 <= power <= 4 else f"1e{power}"


def _peak(line: Roofline, scale: _Scale) -> Iterator[str]:
    y, right = scale.down(line.peak_per_ns), WIDTH - RIGHT
    yield f'<path class="line" style="stroke: var(--ink)" d="M{LEFT} {y:.1f}H{right}"/>'
    yield words(right + 8, y + 4, f"peak {rate_text(line.peak_per_ns)} GOP/s")
    y = scale.down(line.reached_per_ns)
    style = "stroke: var(--ink); stroke-dasharray: 4 4; stroke-width: 1"
    yield f'<path class="line" style="{style}" d="M{LEFT} {y:.1f}H{right}"/>'
    below = y + 20 if abs(y - scale.down(line.peak_per_ns)) < 16 else y + 4
    yield words(right + 8, below, f"model {rate_text(line.reached_per_ns)} GOP/s")


def _slope(line: Roofline, slope: Slope, scale: _Scale, stroke: str, number: int) -> Iterator[str]:
    """Yield the visible part of a roof, the schedule's point on its level, and a label."""
    bandwidth, letter = slope.bandwidth_bytes_per_ns, MARKS[number % len(MARKS)]
    start = max(10.0 ** scale.x[0], 10.0 ** scale.y[0] / bandwidth)
    end = line.peak_per_ns / bandwidth
    x1, y1 = scale.across(start), scale.down(start * bandwidth)
    x2, y2 = scale.across(end), scale.down(line.peak_per_ns)
    yield f'<path class="line" style="stroke: {stroke}" d="M{x1:.1f} {y1:.1f}L{x2:.1f} {y2:.1f}"/>'
    # The letter tells the roofs apart where colours do not.
    yield words(
        x1 + 6 + 14 * number, y1 - 6 - (y1 - y2) * 14 * number / max(x2 - x1, 14), letter, "name halo"
    )
    x, y = LEFT + LEGEND * (number % BESIDE), scale.top + PLOT_HEIGHT + 64 + ROW * (number // BESIDE)
    intensity = line.intensity(slope)
    yield f'<circle cx="{x + 5}" cy="{y - 4}" r="5" style="fill: {stroke}"/>'
    yield words(x + 15, y, f"{letter}: {_label(line, slope)}")
    if intensity is not None:
        x, y_point = scale.across(intensity), scale.down(line.reached_per_ns)
        tip = f"<title>{escape(_label(line, slope))}: {intensity:.3g} operations per byte</title>"
        where = f'cx="{x:.1f}" cy="{y_point:.1f}" r="6"'
        yield f'<circle class="bar point" {where} style="fill: {stroke}">{tip}</circle>'


def _label(line: Roofline, slope: Slope) -> str:
    unused = "" if line.intensity(slope) is not None else ", unused"
    return f"{slope.level} {slope.bandwidth_bytes_per_ns:.3g} B/ns{unused}"


def _text(title: str, line: Roofline, scale: _Scale) -> Iterator[str]:
    """Yield the plot for a terminal: a letter for each roof, `*` for the schedule."""
    yield f"{title}, statement {line.statement}: {roofline_sentence(line)}"
    cells = [[" "] * COLUMNS for _ in range(LINES)]

    def mark(intensity: float, height: float, sign: str) -> None:
        x = (log10(intensity) - scale.x[0]) / (scale.x[1] - scale.x[0])
        y = 1 - (log10(height) - scale.y[0]) / (scale.y[1] - scale.y[0])
        column, row = round(x * (COLUMNS - 1)), round(y * (LINES - 1))
        if 0 <= column < COLUMNS and 0 <= row < LINES:
            cells[row][column] = sign

    for column in range(COLUMNS):
        across = 10 ** (scale.x[0] + (scale.x[1] - scale.x[0]) * column / (COLUMNS - 1))
        mark(across, line.peak_per_ns, "─")
        for number, slope in enumerate(line.slopes):
            if (height := across * slope.bandwidth_bytes_per_ns) < line.peak_per_ns:
                mark(across, height, MARKS[number % len(MARKS)])
    for slope in line.slopes:
        if (intensity := line.intensity(slope)) is not None:
            mark(intensity, line.reached_per_ns, "*")
    for number, row in enumerate(cells):
        power = scale.y[1] - (scale.y[1] - scale.y[0]) * number / (LINES - 1)
        label = _power(round(power)) if abs(power - round(power)) < 0.5 / LINES else ""
        yield f"{label:>6} │{''.join(row)}".rstrip()
    ends = _power(scale.x[0]), _power(scale.x[1])
    yield f"{'GOP/s':>6} └{'─' * COLUMNS}"
    yield f"{'':8}{ends[0]}{'operations per byte':^{COLUMNS - len(ends[0]) - len(ends[1])}}{ends[1]}"
    for number, slope in enumerate(line.slopes):
        yield f"{'':8}{MARKS[number % len(MARKS)]}: {_label(line, slope)}"
