"""A report for a terminal: the bottleneck sentence, tables, and every picture in characters."""

from __future__ import annotations

from collections.abc import Iterator

from isamap.report.columns import align, indent
from isamap.report.explained import explained_json, explained_text
from isamap.report.page.pictures import memory_pictures, roofline_pictures, time_pictures, traffic_pictures
from isamap.report.page.report_facts import Report
from isamap.report.page.traffic import level_rows
from isamap.source.records import asdict


def report_text(report: Report) -> str:
    """Return the whole report as text, with a newline at its end."""
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


# --- the report as JSON ---------------------------------------------------------------------------------


def report_json(report: Report) -> dict[str, object]:
    """Return the facts as JSON. Texts are lines with the names of their subjects."""
    head, *rows = report.accesses
    return {
        "schema": "isamap.report/1",
        "kernel": report.kernel,
        "machine": report.machine,
        "sizes": report.sizes,
        "sentence": report.sentence,
        "figures": dict(report.figures),
        "panes": [
            {
                "name": pane.name,
                "title": pane.title,
                "left_out": pane.left_out,
                "lines": [asdict(line) for line in pane.lines],
            }
            for pane in report.panes
        ],
        **explained_json(report.explained),
        "timeline": asdict(report.timeline) if report.timeline is not None else None,
        "no_timeline": report.no_timeline or None,
        "memories": [{**asdict(use), "peak_bytes": use.peak_bytes} for use in report.memories],
        "levels": [{**asdict(level), "arrays": dict(level.arrays)} for level in report.levels],
        "accesses": [dict(zip(head, row, strict=True)) for row in rows],
        "notes": list(report.notes),
    }
