"""All pictures of a report, in display order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from isamap.report import picture as svg
from isamap.report.columns import bytes_text, percent_text
from isamap.report.explained import SMALL, TimeShares
from isamap.report.mappings import time_text
from isamap.report.page.memories import MemoryUse, Stay
from isamap.report.page.report_facts import Report
from isamap.report.page.timeline import Bar, Timeline, merge_bars
from isamap.report.page.traffic import LevelBytes
from isamap.report.roofline import roofline_picture
from isamap.source.records import dataclass


def time_pictures(report: Report) -> Iterator[svg.Picture]:
    """Yield pictures of the simulated busy times, if there are any, and of the parts of the model's time."""
    if report.timeline is not None:
        yield from timeline_pictures(report.title, report.timeline)
    longest = sorted(report.explained.spent, key=lambda spent: -spent.total_ns)
    yield from (time_picture(report.title, spent) for spent in longest if spent.parts)


def memory_pictures(report: Report) -> Iterator[svg.Picture]:
    """Yield a picture for each memory."""
    yield from (memory_picture(report.title, use) for use in report.memories)


def roofline_pictures(report: Report) -> Iterator[svg.Picture]:
    """Yield a roofline for each computing statement. The one with the most operations is first."""
    for roof in sorted(report.explained.roofs, key=lambda roof: -roof.operations):
        yield roofline_picture(report.title, [roof], f"roofline-{roof.statement}")


def traffic_pictures(report: Report) -> Iterator[svg.Picture]:
    """Yield one picture of all levels, if any traffic is known."""
    if any(level.total_bytes for level in report.levels):
        yield traffic_picture(report.title, report.levels)


def all_pictures(report: Report) -> tuple[svg.Picture, ...]:
    """Return every picture. Their names are unique."""
    kinds = (time_pictures, memory_pictures, roofline_pictures, traffic_pictures)
    return tuple(picture for kind in kinds for picture in kind(report))


# Amounts as bars beside each other: parts of the time of a statement, bytes per level of memory.
#
# the fma units         ██████████████████████████████████████████████████████  3.15 µs  91 %
# loads into registers  ███████████████████                                     1.12 µs  32 %  hidden


AMOUNTS, BAR_ROW, BARS_TOP, LETTER = 190, 26, 52, 6.4
"""Units: pixels; what stands behind the bars, and a letter of what stands in front of them."""
TEXT_COLUMNS = svg.COLUMNS - 24


@dataclass(frozen=True, slots=True)
class _Amount:
    """A bar: its length relative to the longest possible one, its pieces, and its label."""

    name: str
    pieces: tuple[float, ...]
    said: str
    is_hidden: bool = False


def time_picture(title: str, spent: TimeShares) -> svg.Picture:
    """Return a picture of a statement's time in parts. Parts that others hide are pale."""
    longest = next((part for part in spent.parts if part.hides), None)
    amounts = [
        _Amount(
            part.words,
            (min(1.0, spent.share(part)),),
            f"{time_text(part.ns)}, {percent_text(spent.share(part))}"
            + (", hidden" if part.hides and part is not longest else ""),
            part.hides and part is not longest,
        )
        for part in spent.parts
        if spent.share(part) >= SMALL
    ]
    said = f"{title}: time of statement {spent.statement}, {time_text(spent.total_ns)} by the model"
    return _bars_picture(f"time-{spent.statement}", said, amounts)


def traffic_picture(title: str, levels: Sequence[LevelBytes]) -> svg.Picture:
    """Return a picture of the bytes per level, read and then written."""
    most = max((level.total_bytes for level in levels), default=0.0) or 1.0
    amounts = [
        _Amount(level.level, (level.read_bytes / most, level.written_bytes / most), _read_and_written(level))
        for level in levels
    ]
    return _bars_picture("traffic", f"{title}: bytes read from each level, and written to it", amounts)


def _read_and_written(level: LevelBytes) -> str:
    read = bytes_text(round(level.read_bytes))
    return f"{read} + {bytes_text(round(level.written_bytes))}" if level.written_bytes else read


def _bars_picture(name: str, title: str, amounts: Sequence[_Amount]) -> svg.Picture:
    names = 30 + LETTER * max((len(amount.name) for amount in amounts), default=0)
    room = svg.WIDTH - names - AMOUNTS
    body: list[str] = [svg.words(24, 28, title, "title")]
    for number, amount in enumerate(amounts):
        y, x = BARS_TOP + BAR_ROW * number, names
        body.append(svg.words(names - 10, y + 15, amount.name, "", "end"))
        for piece, part in enumerate(amount.pieces):
            body.append(svg.box(x, y + 2, room * part, BAR_ROW - 8, _kind(amount), svg.colour(piece)))
            x += room * part
        body.append(svg.words(x + 8, y + 15, amount.said))
    return svg.Picture(
        name, title, BARS_TOP + BAR_ROW * len(amounts) + 12, tuple(body), "\n".join(_lines(title, amounts))
    )


def _kind(amount: _Amount) -> str:
    return "bar hidden" if amount.is_hidden else "bar"


def _lines(title: str, amounts: Sequence[_Amount]) -> Iterator[str]:
    yield title
    indent = max((len(amount.name) for amount in amounts), default=0) + 2
    for amount in amounts:
        marks = "▒" if amount.is_hidden else "█"
        cells = "".join(
            round(TEXT_COLUMNS * part) * (marks, "░")[piece] for piece, part in enumerate(amount.pieces)
        )
        yield f"{amount.name:<{indent}}{cells or '▏'} {amount.said}"


# What lies in a memory over time, as a picture: addresses down, a box for each buffer in its bytes.
#
# spad: at most 24 KiB of 512 KiB a_tiles0  ████████████████████████████          0  4 KiB b_tiles0
# ████████████████████       4 KiB  4 KiB


MEMORY_TOP, USED, LEAST, FREE = 56, 200, 18, 16
"""Units: pixels; all used bytes together, any piece of them at least, and free bytes, however many."""


@dataclass(frozen=True, slots=True)
class _Down:
    """The vertical positions of addresses. Used pieces are in proportion to their sizes. Units: bytes, pixels."""

    places: tuple[tuple[int, float], ...]

    @staticmethod
    def of(use: MemoryUse) -> _Down:
        edges = sorted(
            {0, *(e for s in use.stays for e in (s.offset_bytes, s.end_bytes)), use.capacity_bytes or 0}
        )
        used = [_is_used(use, a) for a in edges[:-1]]
        total = sum(b - a for a, b, is_used in zip(edges, edges[1:], used, strict=False) if is_used) or 1
        places, y = [(edges[0], float(MEMORY_TOP))], float(MEMORY_TOP)
        for start, end, is_used in zip(edges, edges[1:], used, strict=False):
            y += max(LEAST, USED * (end - start) / total) if is_used else FREE
            places.append((end, y))
        return _Down(tuple(places))

    def at(self, address: int) -> float:
        """Return the pixels from the top of an address at which a buffer begins or ends."""
        return dict(self.places)[address]

    @property
    def bottom(self) -> float:
        return self.places[-1][1]


def _is_used(use: MemoryUse, address: int) -> bool:
    return any(s.offset_bytes <= address < s.end_bytes for s in use.stays)


def memory_picture(title: str, use: MemoryUse) -> svg.Picture:
    """Return the picture of one memory."""
    across, down = svg.Across(0.0, use.span or 1.0, use.is_timed), _Down.of(use)
    said = (
        f"{title}: {use.memory} over {'time' if use.is_timed else 'the program, in issues'}, {peak_text(use)}"
    )
    body = (
        svg.words(24, 28, said, "title"),
        *across.grid(MEMORY_TOP, down.bottom),
        *_addresses(use, down),
        *(one for stay in use.stays for one in _stay(use, stay, across, down)),
    )
    return svg.Picture(f"memory-{use.memory}", said, round(down.bottom) + 34, body, _text(use, across, said))


def peak_text(use: MemoryUse) -> str:
    """Return the peak as text: `at most 24 KiB of 512 KiB, 4.7 %`."""
    most = f"at most {bytes_text(use.peak_bytes)}"
    if not use.capacity_bytes:
        return most
    return f"{most} of {bytes_text(use.capacity_bytes)}, {percent_text(use.peak_bytes / use.capacity_bytes)}"


def _addresses(use: MemoryUse, down: _Down) -> Iterator[str]:
    for (start, y), (end, below) in zip(down.places, down.places[1:], strict=False):
        yield svg.words(svg.LEFT - 10, y + 12, bytes_text(start) if start else "0", "soft small", "end")
        if not _is_used(use, start):
            yield svg.box(svg.LEFT, y, svg.WIDTH - svg.LEFT - svg.RIGHT, below - y, "pad")
            free = f"{bytes_text(end - start)} without a buffer"
            yield svg.words((svg.LEFT + svg.WIDTH - svg.RIGHT) / 2, y + 12, free, "soft small", "middle")
    yield f'<path class="frame" d="M{svg.LEFT} {MEMORY_TOP}V{down.bottom:.1f}H{svg.WIDTH - svg.RIGHT}"/>'


def _stay(use: MemoryUse, stay: Stay, across: svg.Across, down: _Down) -> Iterator[str]:
    x, end = across.at(stay.start), across.at(stay.end)
    y, below = down.at(stay.offset_bytes), down.at(stay.end_bytes)
    when = f"{across.text(stay.start)} to {across.text(stay.end)}"
    tip = f"{stay.buffer}: {bytes_text(stay.size_bytes)} at {stay.offset_bytes}, {when}; {stay.why}"
    yield svg.box(x, y, end - x, below - y, "bar", svg.colour(use.buffers.index(stay.buffer)), tip)
    if shown := svg.fit_text(stay.buffer, end - x):
        yield svg.words(x + 5, (y + below) / 2 + 4, shown, "small")


def _text(use: MemoryUse, across: svg.Across, said: str) -> str:
    indent = max((len(name) for name in use.buffers), default=0) + 2
    lines = [said]
    for name in use.buffers:
        stays = [s for s in use.stays if s.buffer == name]
        cells = [" "] * svg.COLUMNS
        for stay in stays:
            first, last = int(across.column(stay.start)), int(across.column(stay.end) - 1e-9)
            for column in range(min(first, svg.COLUMNS - 1), min(last, svg.COLUMNS - 1) + 1):
                cells[column] = "█"
        place = f"{bytes_text(stays[0].size_bytes)} at {stays[0].offset_bytes}"
        lines.append(f"{name:<{indent}}{''.join(cells)} {place}")
    return "\n".join([*lines, across.scale(indent)])


# The timeline as a picture: a track for each unit and link, a colour for each instruction.
#
# load           ████████████▌                                                  66 % execute              ▄█▌
# ▐█▌  ██                                            16 %


TIMELINE_ROW, BAR, TIMELINE_TOP = 30, 20, 52
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


def timeline_pictures(title: str, timeline: Timeline) -> Iterator[svg.Picture]:
    """Yield a picture of the whole run, and of a part of it if single issues are too short to see."""
    yield _timeline_picture(_Window(timeline, 0.0, timeline.total_ns, "timeline", f"{title}: busy times"))
    if len(timeline.bars) > 3 * CLOSE:
        # The first section of the timeline with the most instructions on the most tracks.
        bars = sorted(timeline.bars, key=lambda bar: bar.start_ns)
        places = range(0, len(bars) - CLOSE, CLOSE // 4)
        kinds = {at: len({(b.track, b.label) for b in bars[at : at + CLOSE]}) for at in places}
        at = max(places, key=lambda place: (kinds[place], -place))
        start, end = bars[at].start_ns, max(bar.end_ns for bar in bars[at : at + CLOSE])
        said = f"{title}: from {time_text(start)} to {time_text(end)}"
        yield _timeline_picture(_Window(timeline, start, end, "timeline-part", said))


def _timeline_picture(window: _Window) -> svg.Picture:
    timeline = window.timeline
    across = svg.Across(window.start_ns, window.end_ns)
    shown = (b for b in timeline.bars if b.start_ns < window.end_ns and b.end_ns > window.start_ns)
    bars = merge_bars(shown, (window.end_ns - window.start_ns) / (svg.WIDTH - svg.LEFT - svg.RIGHT))
    bottom = TIMELINE_TOP + TIMELINE_ROW * len(timeline.tracks)
    legend = list(_legend(window, bottom + 40))
    height = bottom + 40 + LEGEND_ROW * (1 + (len(timeline.labels) - 1) // BESIDE)
    body = [
        svg.words(24, 28, window.title, "title"),
        *across.grid(TIMELINE_TOP, bottom),
        *_gaps(timeline, across, bottom),
        *_tracks(timeline, window),
        svg.stripes(window.name),
        *_bars(window, bars, across),
        *legend,
    ]
    return svg.Picture(window.name, window.title, height, tuple(body), _timeline_text(window, bars, across))


def _tracks(timeline: Timeline, window: _Window) -> Iterator[str]:
    whole = window.end_ns - window.start_ns >= timeline.total_ns
    for number, track in enumerate(timeline.tracks):
        y = TIMELINE_TOP + TIMELINE_ROW * number
        has_share = whole and timeline.total_ns > 0
        yield svg.words(svg.LEFT - 10, y + (13 if has_share else 19), track.name, "", "end")
        if has_share:  # below the name: beside it, it would push long names out of the picture
            share = percent_text(track.busy_ns / timeline.total_ns)
            yield svg.words(svg.LEFT - 10, y + 26, share, "soft small", "end")
        yield f'<path class="grid" d="M{svg.LEFT} {y + TIMELINE_ROW - 2}H{svg.WIDTH - svg.RIGHT}"/>'


def _bars(window: _Window, bars: tuple[Bar, ...], across: svg.Across) -> Iterator[str]:
    timeline = window.timeline
    rows = {track.name: number for number, track in enumerate(timeline.tracks)}
    colours = {label: number for number, label in enumerate(timeline.labels)}
    for bar in bars:
        y = TIMELINE_TOP + TIMELINE_ROW * rows[bar.track] + 4
        x, end = across.at(bar.start_ns), across.at(bar.end_ns)
        times = f"{bar.count} × " if bar.count > 1 else ""
        tip = f"{times}{bar.label}, {time_text(bar.start_ns)} to {time_text(bar.end_ns)}"
        label = f"{times}{bar.label}"
        yield from svg.label_bar(window.name, colours[bar.label], (x, y, end - x, BAR), tip, label)


def _gaps(timeline: Timeline, across: svg.Across, bottom: float) -> Iterator[str]:
    """Yield marks for iterations that were not simulated. Marks of outer loops are longer and come last."""
    for gap in timeline.gaps:
        if gap.start_ns < across.end and gap.end_ns > across.start:
            x, end = across.at(gap.start_ns), across.at(gap.end_ns)
            said = f"the same {gap.times} times more"
            yield svg.box(x, TIMELINE_TOP, end - x, bottom - TIMELINE_TOP, "gap", tip=said)
            if shown := svg.fit_text(said, end - x):
                yield svg.words((x + end) / 2, TIMELINE_TOP - 5, shown, "soft small", "middle")


def _legend(window: _Window, top: float) -> Iterator[str]:
    for number, label in enumerate(window.timeline.labels):
        x, y = svg.LEFT + LEGEND * (number % BESIDE), top + LEGEND_ROW * (number // BESIDE)
        yield svg.box(x, y - 10, 12, 12, "bar", svg.colour(number))
        yield from svg.stripe_bar(number, window.name, (x, y - 10, 12, 12))
        yield svg.words(x + 18, y, label, "small")


def _timeline_text(window: _Window, bars: tuple[Bar, ...], across: svg.Across) -> str:
    timeline = window.timeline
    indent = max((len(track.name) for track in timeline.tracks), default=0) + 2
    lines = [window.title]
    for track in timeline.tracks:
        filled = [0.0] * svg.COLUMNS
        for bar in bars:
            if bar.track == track.name:
                _fill(filled, across.column(bar.start_ns), across.column(bar.end_ns))
        row = "".join(LEVELS[round(min(1.0, part) * (len(LEVELS) - 1))] for part in filled)
        share = percent_text(track.busy_ns / timeline.total_ns) if timeline.total_ns else "0 %"
        lines.append(f"{track.name:<{indent}}{row} {share:>6}")
    return "\n".join([*lines, across.scale(indent)])


def _fill(filled: list[float], start: float, end: float) -> None:
    """Add to each column the part of it that lies between two positions."""
    for column in range(int(start), min(len(filled), int(end) + 1)):
        filled[column] += max(0.0, min(end, column + 1) - max(start, column))
