"""A picture as SVG elements and as characters for a terminal, both from the same facts.

SVG follows the reader's light or dark mode. Equal facts give equal bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from math import ceil, floor, log10

from isamap.report.mappings import time_text
from isamap.source.records import dataclass

# --- the style of pictures ------------------------------------------------------------------------------

COLOURS = 6
"""`c0` to `c5` tell lines apart, also for readers without red, green or blue vision: a test measures that."""
STYLE = """
  svg { font: 12px sans-serif; --ink: #1c2430; --soft: #5b6675; --page: #ffffff; --edge: #b7c0cc;
        --grid: #e6eaf0; --memory: #eef3fa; --unit: #fdf6e7; --c0: #1450cc; --c1: #b8260e; --c2: #149057;
        --c3: #964175; --c4: #d9a400; --c5: #2bbcf2; }
  @media (prefers-color-scheme: dark) {
    svg { --ink: #e6eaf0; --soft: #a0acbb; --page: #14181f; --edge: #46515f; --grid: #262e39;
          --memory: #1e2733; --unit: #2b2618; --c0: #5a8ae8; --c1: #f0594a; --c2: #3fe0a0; --c3: #cf6f98;
          --c4: #e6cf2a; --c5: #c4e9ff; }
  }
  text { fill: var(--ink); } .soft { fill: var(--soft); } .name { font-weight: 600; font-size: 13px; }
  .title { font-size: 17px; font-weight: 600; } .page { fill: var(--page); }
  .halo { stroke: var(--page); stroke-width: 4; paint-order: stroke; }
"""


WIDTH, LEFT, RIGHT = 760, 136, 20
"""Of every picture, and what stands at both sides of its plot. Units: pixels."""
COLUMNS = 72
"""Characters across a plot on a terminal."""
PLOT = """
  .title { font-size: 15px; } .frame { stroke: var(--edge); fill: none; } .grid { stroke: var(--grid); }
  .bar { stroke: var(--page); fill-opacity: 0.6; } .point { fill-opacity: 1; }
  .thin { stroke: none; fill-opacity: 0.75; } .stripes { opacity: 0.35; pointer-events: none; }
  .hidden { fill-opacity: 0.2; stroke: var(--soft); stroke-dasharray: 3 2; }
  .small { font-size: 11px; } .gap { fill: var(--grid); opacity: 0.8; }
  .pad { fill: var(--memory); } .line { fill: none; stroke-width: 2; }
"""


@dataclass(frozen=True, slots=True)
class Picture:
    """A picture with the name of its files. Units: pixels. `text` has no newline at its end."""

    name: str
    title: str
    height: int
    body: tuple[str, ...]
    text: str
    width: int = WIDTH

    def svg(self) -> str:
        """Return the SVG as a standalone file."""
        return f"{self._head()}\n<style>{STYLE}{PLOT}</style>\n{self._inside()}"

    def inline(self) -> str:
        """Return the SVG as an element for a page that has the styles."""
        return f"{self._head()}\n{self._inside()}"

    def _head(self) -> str:
        size = f'viewBox="0 0 {self.width} {self.height}" width="{self.width}" height="{self.height}"'
        head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">'
        return f"{head}\n<title>{escape(self.title)}</title>"

    def _inside(self) -> str:
        page = f'<rect class="page" width="{self.width}" height="{self.height}"/>'
        return "\n".join([page, *self.body, "</svg>"]) + "\n"


def words(x: float, y: float, text: str, kind: str = "", anchor: str = "start") -> str:
    """Return a text element of SVG."""
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


LETTERS = 12
"""Height of small letters. Units: pixels."""
NARROW = 4.0
"""Bars that are narrower have no edge, which would hide them. Units: pixels."""


def box(x: float, y: float, width: float, height: float, kind: str, fill: str = "", tip: str = "") -> str:
    """Return a rectangle of SVG, with a tooltip."""
    style = f' style="fill: {fill}"' if fill else ""
    kind = "bar thin" if kind == "bar" and width < NARROW else kind
    place = f'x="{x:.2f}" y="{y:.1f}" width="{max(width, 0.6):.2f}" height="{height:.1f}"'
    inside = f"><title>{escape(tip)}</title></rect>" if tip else "/>"
    return f'<rect class="{kind}" {place}{style}{inside}'


def stripe_bar(number: int, picture: str, bar: tuple[float, float, float, float]) -> list[str]:
    """Return stripes over a bar (x, y, width, height) if its colour occurs twice. `picture` has the patterns."""
    if number < COLOURS:
        return []
    x, y, width, height = bar
    place = f'x="{x:.2f}" y="{y:.1f}" width="{max(width, 0.6):.2f}" height="{height:.1f}"'
    return [f'<rect class="stripes" {place} style="fill: url(#{picture}-stripes)"/>']


def label_bar(
    picture: str, number: int, bar: tuple[float, float, float, float], tip: str, label: str
) -> Iterator[str]:
    """Yield a bar (x, y, width, height) with its colour and stripes, and its label if that fits."""
    x, y, width, height = bar
    yield box(x, y, width, height, "bar", colour(number), tip)
    yield from stripe_bar(number, picture, bar)
    if height > LETTERS and (shown := fit_text(label, width)):
        yield words(x + 4, y + min(height - 3, LETTERS + 2), shown, "small")


def stripes(picture: str) -> str:
    """Return the stripe patterns for `stripe_bar`. Each picture of a page has its own names."""
    line = '<path d="M0 0V6" style="stroke: var(--ink); stroke-width: 2"/>'
    size = 'width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)"'
    return f'<defs><pattern id="{picture}-stripes" {size}>{line}</pattern></defs>'


def colour(number: int) -> str:
    """Return a colour of the style. The few colours repeat."""
    return f"var(--c{number % COLOURS})"


def fit_text(text: str, width: float) -> str:
    """Return the text, or "" if it is too wide."""
    return text if 6.6 * len(text) + 6 < width else ""


@dataclass(frozen=True, slots=True)
class Across:
    """A horizontal scale that maps time, or program leaves, to pixels."""

    start: float
    end: float
    is_timed: bool = True

    def at(self, value: float) -> float:
        """Return the pixels from the left."""
        inside = min(max(value, self.start), self.end)
        return LEFT + (WIDTH - LEFT - RIGHT) * (inside - self.start) / ((self.end - self.start) or 1)

    def column(self, value: float) -> float:
        """Return the characters from the left."""
        return COLUMNS * (min(max(value, self.start), self.end) - self.start) / ((self.end - self.start) or 1)

    def text(self, value: float) -> str:
        return time_text(value) if self.is_timed else f"{value:g}"

    def ticks(self) -> list[float]:
        """Return five to ten round values."""
        span = (self.end - self.start) or 1.0
        unit = 10 ** floor(log10(span))
        step = next(s * unit for s in (0.1, 0.2, 0.5, 1.0) if span / (s * unit) <= 10)
        first = ceil(self.start / step)
        return [n * step for n in range(first, floor(self.end / step + 1e-9) + 1)]

    def grid(self, top: float, bottom: float) -> Iterator[str]:
        """Yield vertical lines at the ticks, and their values below."""
        for value in self.ticks():
            x = self.at(value)
            yield f'<path class="grid" d="M{x:.1f} {top:.1f}V{bottom:.1f}"/>'
            shown = time_text(value) if self.is_timed and value else f"{value:g}"
            yield words(x, bottom + 15, shown, "soft small", "middle")

    def scale(self, indent: int) -> str:
        """Return the line below a terminal plot with the values at its ends."""
        left, right = self.text(self.start) if self.start else "0", self.text(self.end)
        return f"{'':{indent}}{left}{right:>{COLUMNS - len(left)}}"
