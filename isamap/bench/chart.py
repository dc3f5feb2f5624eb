"""The paired ratios as a picture (SVG): a dot per row with its interval, by class, on a logarithmic scale."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from math import log2

from isamap.bench.cases import CLASSES
from isamap.bench.rows import Row

WIDTH, HEIGHT, LEFT, TOP, BOTTOM = 960, 420, 60, 40, 60
SVG = "http://www.w3.org/2000/svg"
TICKS = (0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 4.0, 8.0)


def ratio_chart(rows: Sequence[Row], title: str) -> str:
    """The chart of rows that have a baseline, each against the fastest of its baselines."""
    shown = sorted(
        ((row, name) for row in rows if (name := row.best_baseline) is not None),
        key=lambda pair: (CLASSES.index(pair[0].class_name), pair[0].operations),
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
