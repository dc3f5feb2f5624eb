"""The timeline as a picture: a track for each unit and link, a colour for each instruction.

load           ████████████▌                                                  66 %
execute              ▄█▌   ▐█▌  ██                                            16 %
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from isamap.report.columns import percent_text
from isamap.report.mappings import time_text
from isamap.report.page.timeline import Bar, Timeline, merged
from isamap.report.picture import (
    COLUMNS,
    LEFT,
    RIGHT,
    WIDTH,
    Across,
    Picture,
    box,
    colour,
    fitting,
    labelled,
    stripes,
    told_apart,
    words,
)

ROW, BAR, TOP = 30, 20, 52
LEGEND, BESIDE, LEGEND_ROW = 200, 3, 20
"""Names below the plot: from one to the next across, how many, from one row to the next."""
CLOSE = 120
"""Bars that the picture of a part shows."""
LEVELS = " ▁▂▃▄▅▆▇█"


@dataclass(frozen=True, slots=True)
class _Window:
    """The part of a timeline that is shown. Units: nanoseconds."""

    timeline: Timeline
    start_ns: float
    end_ns: float
    name: str
    title: str


def timeline_pictures(title: str, timeline: Timeline) -> Iterator[Picture]:
    """The whole run; and a part of it, where single issues are too short to be seen in the whole."""
    yield _picture(_Window(timeline, 0.0, timeline.total_ns, "timeline", f"{title}: what is busy when"))
    if len(timeline.bars) > 3 * CLOSE:
        start, end = _busiest(timeline)
        said = f"{title}: from {time_text(start)} to {time_text(end)}"
        yield _picture(_Window(timeline, start, end, "timeline-part", said))


def _busiest(timeline: Timeline) -> tuple[float, float]:
    """The first stretch of so many bars in which most instructions are issued on most tracks."""
    bars = sorted(timeline.bars, key=lambda bar: bar.start_ns)
    places = range(0, len(bars) - CLOSE, CLOSE // 4)
    kinds = {at: len({(b.track, b.label) for b in bars[at : at + CLOSE]}) for at in places}
    at = max(places, key=lambda place: (kinds[place], -place))
    return bars[at].start_ns, max(bar.end_ns for bar in bars[at : at + CLOSE])


def _picture(window: _Window) -> Picture:
    timeline = window.timeline
    across = Across(window.start_ns, window.end_ns)
    shown = (b for b in timeline.bars if b.start_ns < window.end_ns and b.end_ns > window.start_ns)
    bars = merged(shown, (window.end_ns - window.start_ns) / (WIDTH - LEFT - RIGHT))
    bottom = TOP + ROW * len(timeline.tracks)
    legend = list(_legend(window, bottom + 40))
    height = bottom + 40 + LEGEND_ROW * (1 + (len(timeline.labels) - 1) // BESIDE)
    body = [
        words(24, 28, window.title, "title"),
        *across.grid(TOP, bottom),
        *_gaps(timeline, across, bottom),
        *_tracks(timeline, window),
        stripes(window.name),
        *_bars(window, bars, across),
        *legend,
    ]
    return Picture(window.name, window.title, height, tuple(body), _text(window, bars, across))


def _tracks(timeline: Timeline, window: _Window) -> Iterator[str]:
    whole = window.end_ns - window.start_ns >= timeline.total_ns
    for number, track in enumerate(timeline.tracks):
        y = TOP + ROW * number
        has_share = whole and timeline.total_ns > 0
        yield words(LEFT - 10, y + (13 if has_share else 19), track.name, "", "end")
        if has_share:  # below the name: beside it, it would push long names out of the picture
            share = percent_text(track.busy_ns / timeline.total_ns)
            yield words(LEFT - 10, y + 26, share, "soft small", "end")
        yield f'<path class="grid" d="M{LEFT} {y + ROW - 2}H{WIDTH - RIGHT}"/>'


def _bars(window: _Window, bars: tuple[Bar, ...], across: Across) -> Iterator[str]:
    timeline = window.timeline
    rows = {track.name: number for number, track in enumerate(timeline.tracks)}
    colours = {label: number for number, label in enumerate(timeline.labels)}
    for bar in bars:
        y = TOP + ROW * rows[bar.track] + 4
        x, end = across.at(bar.start_ns), across.at(bar.end_ns)
        times = f"{bar.count} × " if bar.count > 1 else ""
        tip = f"{times}{bar.label}, {time_text(bar.start_ns)} to {time_text(bar.end_ns)}"
        label = f"{times}{bar.label}"
        yield from labelled(window.name, colours[bar.label], (x, y, end - x, BAR), tip, label)


def _gaps(timeline: Timeline, across: Across, bottom: float) -> Iterator[str]:
    """Turns that were counted and not run; loops around others come last, and take more."""
    for gap in timeline.gaps:
        if gap.start_ns < across.end and gap.end_ns > across.start:
            x, end = across.at(gap.start_ns), across.at(gap.end_ns)
            said = f"the same {gap.times} times more"
            yield box(x, TOP, end - x, bottom - TOP, "gap", tip=said)
            if shown := fitting(said, end - x):
                yield words((x + end) / 2, TOP - 5, shown, "soft small", "middle")


def _legend(window: _Window, top: float) -> Iterator[str]:
    for number, label in enumerate(window.timeline.labels):
        x, y = LEFT + LEGEND * (number % BESIDE), top + LEGEND_ROW * (number // BESIDE)
        yield box(x, y - 10, 12, 12, "bar", colour(number))
        yield from told_apart(number, window.name, (x, y - 10, 12, 12))
        yield words(x + 18, y, label, "small")


def _text(window: _Window, bars: tuple[Bar, ...], across: Across) -> str:
    timeline = window.timeline
    indent = max((len(track.name) for track in timeline.tracks), default=0) + 2
    lines = [window.title]
    for track in timeline.tracks:
        filled = [0.0] * COLUMNS
        for bar in bars:
            if bar.track == track.name:
                _fill(filled, across.column(bar.start_ns), across.column(bar.end_ns))
        row = "".join(LEVELS[round(min(1.0, part) * (len(LEVELS) - 1))] for part in filled)
        share = percent_text(track.busy_ns / timeline.total_ns) if timeline.total_ns else "0 %"
        lines.append(f"{track.name:<{indent}}{row} {share:>6}")
    return "\n".join([*lines, across.scale(indent)])


def _fill(filled: list[float], start: float, end: float) -> None:
    """Adds to each column how much of it lies between two places."""
    for column in range(int(start), min(len(filled), int(end) + 1)):
        filled[column] += max(0.0, min(end, column + 1) - max(start, column))
