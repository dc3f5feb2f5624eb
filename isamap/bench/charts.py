"""The paired ratios as a picture (SVG): a dot per row with its interval, by class, on a logarithmic scale.

Draw predicted against measured times as a picture (SVG): a dot per row and parameter set, logarithmic scales.

On the diagonal both are equal. Above it the measured time is shorter than the prediction.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from math import ceil, floor, log2, log10

from isamap.bench.kept_rows import Row, classes_of
from isamap.bench.predictions import FIGURES, agreements

WIDTH, HEIGHT, LEFT, TOP, BOTTOM = 960, 420, 60, 40, 60
SVG = "http://www.w3.org/2000/svg"
TICKS = (0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 4.0, 8.0)


def ratio_chart(rows: Sequence[Row], title: str) -> str:
    """Return the chart of rows with a baseline, each compared with its fastest baseline."""
    classes = classes_of(rows)
    shown = sorted(
        ((row, name) for row in rows if (name := row.best_baseline) is not None),
        key=lambda pair: (classes.index(pair[0].class_name), pair[0].operations),
    )
    parts = [
        f'<svg xmlns="{SVG}" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="11">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        f'<text x="{LEFT}" y="22" font-size="14">{escape(title)}</text>',
        *_axis(),
        *_dots(shown),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _y(value: float) -> float:
    low, high = log2(TICKS[0]), log2(TICKS[-1])
    at = min(max(log2(value), low), high)
    return round(TOP + (high - at) / (high - low) * (HEIGHT - TOP - BOTTOM), 1)


def _axis() -> list[str]:
    parts: list[str] = []
    for tick in TICKS:
        y = _y(tick)
        colour = "#444" if tick == 1 else "#ddd"
        parts.append(f'<line x1="{LEFT}" x2="{WIDTH - 10}" y1="{y}" y2="{y}" stroke="{colour}"/>')
        parts.append(f'<text x="{LEFT - 8}" y="{y + 4}" text-anchor="end">{tick:g}</text>')
    middle = (TOP + HEIGHT - BOTTOM) / 2
    words = "time of the fastest baseline / ours"
    parts.append(
        f'<text x="14" y="{middle}" text-anchor="middle" transform="rotate(-90 14 {middle})">{words}</text>'
    )
    return parts


def _dots(shown: Sequence[tuple[Row, str]]) -> list[str]:
    parts: list[str] = []
    step = (WIDTH - LEFT - 20) / max(1, len(shown))
    last = ""
    for number, (row, name) in enumerate(shown):
        x = round(LEFT + (number + 0.5) * step, 1)
        if row.class_name != last:
            last = row.class_name
            left, low = round(x - step / 2, 1), HEIGHT - BOTTOM
            parts.append(f'<line x1="{left}" x2="{left}" y1="{TOP}" y2="{low}" stroke="#bbb"/>')
            parts.append(f'<text x="{x}" y="{HEIGHT - BOTTOM + 16}">{escape(last)}</text>')
        r = row.ratio[name]
        colour = "#0a7" if r["low"] > 1 else "#c33" if r["high"] < 1 else "#888"
        said = f"{row.label} {row.form}: {r['value']:.2f} ({r['low']:.2f} to {r['high']:.2f}) of {name}"
        parts.append(f'<line x1="{x}" x2="{x}" y1="{_y(r["low"])}" y2="{_y(r["high"])}" stroke="{colour}"/>')
        title = f"<title>{escape(said)}</title>"
        parts.append(f'<circle cx="{x}" cy="{_y(r["value"])}" r="3" fill="{colour}">{title}</circle>')
    return parts


SIDE, MARGIN_LEFT, MARGIN_TOP, RIGHT = 480, 70, 64, 16
COLOURS: dict[str, str] = dict(zip(FIGURES, ("#06c", "#e70"), strict=True))


def prediction_chart(rows: Sequence[Row], title: str) -> str:
    """Return the chart of all timed rows, or an empty diagonal without any."""
    shown = [
        (row, figures, row.predicted_ns[figures], row.measured_ns)
        for row in rows
        for figures in FIGURES
        if figures in row.predicted_ns and row.measured_ns is not None
    ]
    times = [ns for _, _, predicted, measured in shown for ns in (predicted, measured)] or [1e3, 1e6]
    low, high = floor(log10(min(times))), ceil(log10(max(times)))
    scale = _Scale(low, max(high, low + 1))
    width, height = MARGIN_LEFT + SIDE + RIGHT, MARGIN_TOP + SIDE + 50
    parts = [
        f'<svg xmlns="{SVG}" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="11">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
        f'<text x="{LEFT}" y="20" font-size="14">{escape(title)}</text>',
        *_legend(rows),
        *scale.axes(),
    ]
    for row, figures, predicted, measured in shown:
        said = f"{row.label} {row.form}: {figures} {predicted:.0f} ns, measured {measured:.0f} ns"
        parts.append(
            f'<circle cx="{scale.x(measured)}" cy="{scale.y(predicted)}" r="3" fill="{COLOURS[figures]}" '
            f'fill-opacity="0.6"><title>{escape(said)}</title></circle>'
        )
    return "\n".join([*parts, "</svg>"]) + "\n"


class _Scale:
    """Powers of ten from `low` to `high` along both sides of a square."""

    def __init__(self, low: int, high: int) -> None:
        self.low, self.high = low, high

    def _at(self, ns: float) -> float:
        return (log10(ns) - self.low) / (self.high - self.low) * SIDE

    def x(self, ns: float) -> float:
        """Return the horizontal place of a time."""
        return round(MARGIN_LEFT + self._at(ns), 1)

    def y(self, ns: float) -> float:
        """Return the vertical place of a time."""
        return round(MARGIN_TOP + SIDE - self._at(ns), 1)

    def axes(self) -> list[str]:
        """Return lines at powers of ten, the diagonal, and the labels of the scales."""
        bottom, end = MARGIN_TOP + SIDE, MARGIN_LEFT + SIDE
        parts: list[str] = []
        for power in range(self.low, self.high + 1):
            x, y, word = self.x(10.0**power), self.y(10.0**power), _time(power)
            parts += [
                f'<line x1="{x}" x2="{x}" y1="{TOP}" y2="{bottom}" stroke="#ddd"/>',
                f'<line x1="{LEFT}" x2="{end}" y1="{y}" y2="{y}" stroke="#ddd"/>',
                f'<text x="{x}" y="{bottom + 16}" text-anchor="middle">{word}</text>',
                f'<text x="{LEFT - 6}" y="{y + 4}" text-anchor="end">{word}</text>',
            ]
        middle = MARGIN_TOP + SIDE / 2
        turned = f'transform="rotate(-90 14 {middle})"'
        return [
            *parts,
            f'<line x1="{LEFT}" y1="{bottom}" x2="{end}" y2="{TOP}" stroke="#444"/>',
            f'<text x="{LEFT + SIDE / 2}" y="{bottom + 36}" text-anchor="middle">measured, least</text>',
            f'<text x="14" y="{middle}" text-anchor="middle" {turned}>predicted</text>',
        ]


def _legend(rows: Sequence[Row]) -> list[str]:
    return [
        f'<text x="{LEFT}" y="{36 + 14 * line}" fill="{COLOURS[agreement.figures]}">'
        f"{escape(agreement.text())}</text>"
        for line, agreement in enumerate(agreements(rows))
    ]


def _time(power: int) -> str:
    """Return a power of ten of nanoseconds with its unit: 4 is `10 µs`."""
    unit, name = max((e, n) for e, n in ((0, "ns"), (3, "µs"), (6, "ms"), (9, "s")) if e <= max(power, 0))
    return f"{10.0 ** (power - unit):g} {name}"
