"""How `hw show` prints what a machine takes beside instructions and bandwidths.

rows, l3 → l2  zen5-loops  start_ns 2, again_ns 12
tlb            typical     count 64, page_bytes 4096, miss_ns 0.5
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from isamap.machine import Machine
    from isamap.machine.timings import LoopTimes, RowTimes, StreamTimes, Tlb


def timing_rows(machine: Machine) -> list[tuple[str, str, str]]:
    """What is stated, its source, and the figures; a line for each."""
    return [
        (what, figures.source, ", ".join(f"{name} {value:g}" for name, value in _stated(figures)))
        for what, figures in _all_timings(machine)
        if _stated(figures)
    ]


def timing_json(figures: RowTimes | StreamTimes | Tlb | LoopTimes | None) -> dict[str, object] | None:
    """The figures that are stated, by key; None where none is."""
    if figures is None or not (stated := _stated(figures)):
        return None
    return {**dict(stated), "source": figures.source}


def _all_timings(machine: Machine) -> Iterator[tuple[str, RowTimes | StreamTimes | Tlb | LoopTimes]]:
    for link in machine.links:
        ends = f"{link.source_memory} → {link.target_memory}"
        yield f"rows, {ends}", link.rows
        if link.streams is not None:
            yield f"streams, {ends}", link.streams
    yield "tlb", machine.tlb
    yield "loops", machine.loops


def _stated(figures: RowTimes | StreamTimes | Tlb | LoopTimes) -> list[tuple[str, float]]:
    values = [(f, getattr(figures, f.name)) for f in fields(figures) if f.name != "source"]
    return [(f.name, value) for f, value in values if value != f.default]
