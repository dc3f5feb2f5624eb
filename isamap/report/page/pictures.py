"""All pictures of a report, in the order in which they are shown."""

from __future__ import annotations

from collections.abc import Iterator

from isamap.report.page.bars_picture import time_picture, traffic_picture
from isamap.report.page.facts import Report
from isamap.report.page.memory_picture import memory_picture
from isamap.report.page.timeline_picture import timeline_pictures
from isamap.report.picture import Picture
from isamap.report.roofline_picture import roofline_picture


def time_pictures(report: Report) -> Iterator[Picture]:
    """When what is busy, where a simulation says it; and of what the model's time is made."""
    if report.timeline is not None:
        yield from timeline_pictures(report.title, report.timeline)
    longest = sorted(report.explained.spent, key=lambda spent: -spent.total_ns)
    yield from (time_picture(report.title, spent) for spent in longest if spent.parts)


def memory_pictures(report: Report) -> Iterator[Picture]:
    """One for each memory."""
    yield from (memory_picture(report.title, use) for use in report.memories)


def roofline_pictures(report: Report) -> Iterator[Picture]:
    """One for each statement that computes, those with most operations first."""
    for roof in sorted(report.explained.roofs, key=lambda roof: -roof.operations):
        yield roofline_picture(report.title, [roof], f"roofline-{roof.statement}")


def traffic_pictures(report: Report) -> Iterator[Picture]:
    """One of all levels, where anything is known to move."""
    if any(level.total_bytes for level in report.levels):
        yield traffic_picture(report.title, report.levels)


def all_pictures(report: Report) -> tuple[Picture, ...]:
    """Every picture; no two have one name."""
    kinds = (time_pictures, memory_pictures, roofline_pictures, traffic_pictures)
    return tuple(picture for kind in kinds for picture in kind(report))
