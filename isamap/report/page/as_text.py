"""A report for a terminal: the sentence, tables, and every picture in characters."""

from __future__ import annotations

from collections.abc import Iterator

from isamap.report.columns import align, indent
from isamap.report.explained import explained_text
from isamap.report.page.pictures import memory_pictures, roofline_pictures, time_pictures, traffic_pictures
from isamap.report.page.report_facts import Report
from isamap.report.page.traffic import level_rows


def report_text(report: Report) -> str:
    """Return the whole, with a newline at its end."""
    return "\n\n".join(_parts(report)) + "\n"


PLAIN = str.maketrans(
    {
        **dict(zip("▁▂▃▄▅▆▇█", ".,:-=+*#", strict=True)),
        "▒": "%", "░": "o", "▏": "|", "─": "-", "│": "|", "└": "+", "–": "-", "→": ">", "µ": "u", "…": "...",
    }
)  # fmt: skip
"""For terminals that have no other characters than ASCII's."""


def _parts(report: Report) -> Iterator[str]:
    yield report.sentence
    yield f"{report.title}{': ' if report.sizes else ''}{report.sizes}"
    yield align([(name, value) for name, value in report.figures])
    yield align(report.mappings)
    yield from (picture.text for picture in time_pictures(report))
    if report.timeline is None:
        yield f"no timeline: {report.no_timeline}"
    yield from (picture.text for picture in memory_pictures(report))
    yield from (picture.text for picture in roofline_pictures(report))
    yield from (picture.text for picture in traffic_pictures(report))
    yield f"bytes per level\n{indent(align(level_rows(report.levels), right=(1, 2)))}"
    yield f"accesses in bytes\n{indent(align(report.accesses, right=(4, 5, 6, 7, 8)))}"
    yield explained_text(report.explained)
    yield from report.notes
