"""Measured figures laid over a machine's stated ones: the one place where a profile enters.

A machine whose description says 0.28 ns for a product on one of two units, and whose profile says 0.12 ns for
one after the other, has an interval of 0.24 ns afterwards.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from isamap.ir import F64, Call, Const, Expr, Index
from isamap.machine import Cost, Link, Machine, MachineInstruction, Memory, cost_params, cost_value
from isamap.tune.figures import CacheFigure, InstructionFigure, Params
from isamap.tune.profile import Profile


def lay_over(machine: Machine, profile: Profile) -> Machine:
    """The machine with measured intervals, latencies, caches, links and thread start; the rest stays."""
    figures: dict[str, list[InstructionFigure]] = {}
    for figure in profile.instructions:
        figures.setdefault(figure.instruction, []).append(figure)
    instructions = {
        name: _measured(entry, machine, figures.get(name, ())) for name, entry in machine.instructions.items()
    }
    links = tuple(
        measured_streams(measured_rows(machine, measured_link(machine, link, profile), profile), profile)
        for link in machine.links
    )
    start_ns = machine.thread_start_ns if profile.thread_start is None else profile.thread_start.least
    machine = with_caches(machine, profile.caches)
    return replace(machine, instructions=instructions, links=links, thread_start_ns=start_ns)


def with_caches(machine: Machine, figures: Iterable[CacheFigure]) -> Machine:
    """The machine with caches as large as they are here; what is not known of them stays."""
    memories = dict(machine.memories)
    for figure in figures:
        memories[figure.memory] = _measured_cache(memories[figure.memory], figure)
    return replace(machine, memories=memories)


def _measured_cache(memory: Memory, figure: CacheFigure) -> Memory:
    known = {
        "bytes": figure.size_bytes,
        "ways": figure.ways,
        "line_bytes": figure.line_bytes,
        "kept_ns": figure.kept_ns,
    }
    measured = {name: Index.of(value) for name, value in known.items() if value is not None}
    attributes = tuple({**dict(memory.decl.attributes), **measured}.items())
    return replace(memory, decl=replace(memory.decl, attributes=attributes))


def _measured(
    entry: MachineInstruction, machine: Machine, figures: Iterable[InstructionFigure]
) -> MachineInstruction:
    listed = tuple(figures)
    units = max(1, machine.units[entry.cost.unit].count)
    intervals = [(f.params, units * f.interval.least) for f in listed if f.interval is not None]
    latencies = [(f.params, f.latency.least) for f in listed if f.latency is not None]
    cost = Cost(
        entry.cost.unit,
        _through(entry.cost.interval_ns, entry, machine, intervals),
        _through(entry.cost.latency_ns, entry, machine, latencies),
    )
    return replace(entry, cost=cost)


def _through(
    stated: Expr, entry: MachineInstruction, machine: Machine, points: list[tuple[Params, float]]
) -> Expr:
    """A cost that agrees with what was measured, and between two points follows the stated one."""
    if not points:
        return stated
    if isinstance(stated, Const):
        return Const(points[-1][1], F64)
    first, last = points[0], points[-1]
    low, high = (cost_value(stated, cost_params(entry, machine, dict(p))) for p, _ in (first, last))
    slope = (last[1] - first[1]) / (high - low) if high != low else -1.0
    if slope < 0:  # one point, or noise: everything in proportion
        return Call("mul", (Const(last[1] / high if high else 1.0, F64), stated), F64)
    scaled = Call("mul", (Const(slope, F64), stated), F64)
    return Call("add", (Const(last[1] - slope * high, F64), scaled), F64)


def measured_link(machine: Machine, link: Link, profile: Profile) -> Link:
    """A link at the speed at which its farther memory was read.

    What the widest load of registers reached is no news about narrower registers.
    """
    found = profile.bandwidth(link.source_memory)
    if found is None:
        return link
    if machine.memories[link.target_memory].kind == "registers":
        mine = {b.instruction for b in profile.bandwidths if b.memory == link.source_memory}
        known = [machine.instructions[name] for name in mine if name in machine.instructions]
        filled = {o.memory for entry in known for o in entry.instruction.operands}
        if link.target_memory not in filled:
            found = min(found, link.bandwidth_bytes_per_ns)
    return replace(link, bandwidth_bytes_per_ns=found)


def measured_rows(machine: Machine, link: Link, profile: Profile) -> Link:
    """A link into a cache with what beginning rows takes; a piece takes its share, however short it is."""
    found = next((r for r in profile.rows if r.memory == link.source_memory), None)
    if found is None or machine.memories[link.target_memory].kind != "cache":
        return link
    # Each row lies on pages of its own, and so do those of the other operands. Hints translate theirs before.
    pages = machine.tlb.count // 2
    rows = replace(
        link.rows,
        start_ns=found.start_ns,
        start_bytes=found.piece_bytes,
        short_start_ns=0.0,
        short_bytes=0,
        swept_count=min(found.swept_count, pages or found.swept_count),
        swept_ns=found.swept_ns,
        hinted_swept_count=found.hinted_swept_count,
        hinted_swept_ns=found.hinted_swept_ns,
        hinted_traffic_factor=found.hinted_traffic_factor,
        computing_factor=found.computing_factor,
        traffic_factor=found.traffic_factor,
        crowded_ns=link.rows.crowded_ns if found.crowded_ns is None else found.crowded_ns,
        crowded_piece_ns=(
            link.rows.crowded_piece_ns if found.crowded_piece_ns is None else found.crowded_piece_ns
        ),
    )
    if link.streams is None or found.hinted_start_ns is None:
        return replace(link, rows=rows)
    # Hints never make a row along a sum dearer than it is without them.
    hinted_ns = min(found.hinted_start_ns, link.streams.row_start_ns)
    return replace(link, rows=rows, streams=replace(link.streams, hinted_start_ns=hinted_ns))


def measured_streams(link: Link, profile: Profile) -> Link:
    """A link with what rows along a sum, and long pieces of others, take that stream through it."""
    streams, rows, pieces = link.streams, profile.streams, profile.pieces
    if streams is None:
        return link
    if rows is not None and rows.memory == link.source_memory:
        streams = replace(
            streams,
            row_start_ns=rows.start_ns,
            row_computing_factor=rows.computing_factor,
            hinted_row_start_ns=rows.hinted_start_ns,
            hinted_row_computing_factor=rows.hinted_computing_factor,
        )
    if pieces is not None and pieces.memory == link.source_memory:
        streams = replace(
            streams,
            long_start_ns=pieces.long_start_ns,
            hinted_long_start_ns=_found_or(pieces.hinted_start_ns, streams.hinted_long_start_ns),
            swept_start_ns=_found_or(pieces.swept_start_ns, streams.swept_start_ns),
            hinted_swept_start_ns=_found_or(pieces.hinted_swept_start_ns, streams.hinted_swept_start_ns),
        )
    return replace(link, streams=streams)


def _found_or(found: float | None, stated: float | None) -> float | None:
    """What was measured, or what is stated where nothing was."""
    return stated if found is None else found
