"""A report as JSON: all of its facts, in nanoseconds and bytes."""

from __future__ import annotations

from isamap.report.explained import explained_json
from isamap.report.page.report_facts import Report
from isamap.source.records import asdict


def report_json(report: Report) -> dict[str, object]:
    """Return the facts; texts are lines with the names of their subjects."""
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
                "lines": [
                    {
                        "text": line.text,
                        "own": list(line.own),
                        "inside": list(line.inside),
                        "marks": [asdict(mark) for mark in line.marks],
                    }
                    for line in pane.lines
                ],
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
