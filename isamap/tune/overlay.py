"""Replace a machine's stated parameters by measured ones: the only place where a profile is applied.

A machine whose description says 0.28 ns for a product on one of two units, and whose profile says 0.12 ns for
one after the other, has an interval of 0.24 ns afterwards.

It also compares a description with the measurements, and warns about entries that differ much:

`fma_zmm_f32 interval: 0.14 ns stated, 0.12 ns measured, 1.2 times apart`.
"""

from __future__ import annotations

from collections.abc import Iterable

from isamap.ir import F64, Call, Const, Expr, Index
from isamap.machine import Link, Machine, MachineInstruction, Memory, cost_params, cost_value
from isamap.report.columns import bytes_text
from isamap.source import Diagnostic, dataclass, replace
from isamap.source.numbers import Spread
from isamap.tune.measured_parameters import CacheFigure, InstructionFigure, Params
from isamap.tune.profile import Profile


def lay_over(machine: Machine, profile: Profile) -> Machine:
    """Return the machine with measured intervals, latencies, caches, links and thread start times."""
    figures: dict[str, list[InstructionFigure]] = {}
    for figure in profile.instructions:
        figures.setdefault(figure.instruction, []).append(figure)
    instructions = {
        name: _overlay_entry(entry, machine, figures[name]) if name in figures else entry
        for name, entry in machine.instructions.items()
    }
    links = tuple(
        measured_streams(measured_rows(machine, measured_link(machine, link, profile), profile), profile)
        for link in machine.links
    )
    start_ns = machine.thread_start_ns if profile.thread_start is None else profile.thread_start.least
    machine = with_caches(machine, profile.caches)
    return replace(machine, instructions=instructions, links=links, thread_start_ns=start_ns)


def with_caches(machine: Machine, figures: Iterable[CacheFigure]) -> Machine:
    """Return the machine with measured cache sizes. Caches without measurements are unchanged."""
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


def _overlay_entry(
    entry: MachineInstruction, machine: Machine, listed: list[InstructionFigure]
) -> MachineInstruction:
    units = max(1, machine.units[entry.cost.unit].count)
    intervals = [(f.params, units * f.interval.least) for f in listed if f.interval is not None]
    latencies = [(f.params, f.latency.least) for f in listed if f.latency is not None]
    cost = replace(
        entry.cost,
        interval_ns=_through(entry.cost.interval_ns, entry, machine, intervals),
        latency_ns=_through(entry.cost.latency_ns, entry, machine, latencies),
    )
    return replace(entry, cost=cost)


def _through(
    stated: Expr, entry: MachineInstruction, machine: Machine, points: list[tuple[Params, float]]
) -> Expr:
    """Return a cost that equals the measurements at their points, and is linear in the stated cost between them."""
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
    """Return a link with the measured read bandwidth of its farther memory.

    The widest load of registers was measured, which says nothing about narrower registers.
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
    """Return a link into a cache with measured row start times."""
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
    """Return a link with the measured times of streamed rows along a sum, and of long pieces of other rows."""
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
            hinted_long_start_ns=_measured_or(pieces.hinted_start_ns, streams.hinted_long_start_ns),
            swept_start_ns=_measured_or(pieces.swept_start_ns, streams.swept_start_ns),
            hinted_swept_start_ns=_measured_or(pieces.hinted_swept_start_ns, streams.hinted_swept_start_ns),
        )
    return replace(link, streams=streams)


def _measured_or(found: float | None, stated: float | None) -> float | None:
    """Return the measured value, or the stated one if nothing was measured."""
    return stated if found is None else found


FAR = 2.0  # what other clocks, compilers and neighbours explain stays below
LEAST_NS = 0.1  # nor is it worth a warning that something is free instead of nearly so
SHOWN = 6


@dataclass(frozen=True, slots=True)
class ParameterDifference:
    """A stated and a measured parameter. Units: `unit`, or for instructions ns over all units together."""

    subject: str
    what: str
    stated: float
    measured: float
    unit: str = "ns"

    @property
    def factor(self) -> float:
        """The ratio of the larger value to the smaller one."""
        least, most = sorted((self.stated, self.measured))
        return most / least if least > 0 else float("inf")

    @property
    def is_far(self) -> bool:
        """Return whether the description is misleading."""
        tiny = self.unit == "ns" and abs(self.stated - self.measured) < LEAST_NS
        return self.factor >= FAR and not tiny

    def __str__(self) -> str:
        free = [word for word, ns in (("stated", self.stated), ("measured", self.measured)) if ns <= 0]
        times = f"{free[0]} as free" if free else f"{self.factor:.1f} times apart"
        numbers = f"{self._show_value_of(self.stated)} stated, {self._show_value_of(self.measured)} measured"
        return f"{self.subject} {self.what}: {numbers}, {times}"

    def _show_value_of(self, value: float) -> str:
        return bytes_text(value) if self.unit == "bytes" else f"{value:.3g} {self.unit}"


def compare(machine: Machine, profile: Profile) -> tuple[ParameterDifference, ...]:
    """Return each measured parameter of instructions, caches and links with the stated one."""
    found: list[ParameterDifference] = []
    for figure in profile.instructions:
        entry = machine.instructions.get(figure.instruction)
        if entry is None:
            continue
        units, params = (
            max(1, machine.units[entry.cost.unit].count),
            cost_params(entry, machine, dict(figure.params)),
        )
        name = " ".join((entry.name, *(f"{n}={v}" for n, v in figure.params)))
        pairs: tuple[tuple[str, float, Spread | None], ...] = (
            ("interval", cost_value(entry.cost.interval_ns, params) / units, figure.interval),
            ("latency", cost_value(entry.cost.latency_ns, params), figure.latency),
        )
        found += [
            ParameterDifference(name, what, stated, m.least) for what, stated, m in pairs if m is not None
        ]
    for cache in profile.caches:
        stated_bytes = machine.memories[cache.memory].capacity_bytes
        if cache.size_bytes is not None and stated_bytes is not None:
            found.append(
                ParameterDifference(cache.memory, "capacity", stated_bytes, cache.size_bytes, "bytes")
            )
    for link in machine.links:
        if profile.bandwidth(link.source_memory) is not None:
            measured = measured_link(machine, link, profile).bandwidth_bytes_per_ns
            name = f"{link.source_memory} → {link.target_memory}"
            found.append(
                ParameterDifference(name, "bandwidth", link.bandwidth_bytes_per_ns, measured, "bytes/ns")
            )
    stated_ns = {link.source_memory: link.rows.start_ns for link in machine.links if link.rows.start_ns}
    found += [
        ParameterDifference(f"rows of {row.memory}", "start", stated_ns[row.memory], row.start_ns)
        for row in profile.rows
        if row.memory in stated_ns
    ]
    if profile.thread_start is not None:
        found.append(
            ParameterDifference("threads", "start", machine.thread_start_ns, profile.thread_start.least)
        )
    return tuple(found)


def warnings(machine: Machine, profile: Profile) -> tuple[Diagnostic, ...]:
    """Return a warning for each entry that differs much from its measurement, and one for all caches and links."""
    far = [a for a in compare(machine, profile) if a.is_far]
    groups: dict[object, list[ParameterDifference]] = {}
    for apart in far:
        entry = machine.instructions.get(apart.subject.partition(" ")[0])
        span = entry.span if entry is not None else None
        groups.setdefault((span.source.name, span.start) if span is not None else None, []).append(apart)
    return tuple(_warn(machine, group, profile) for group in groups.values())


def _warn(machine: Machine, group: Iterable[ParameterDifference], profile: Profile) -> Diagnostic:
    worst = sorted(group, key=lambda a: -a.factor)
    entry = machine.instructions.get(worst[0].subject.partition(" ")[0])
    more = (f"and {len(worst) - SHOWN} more of its family",) if len(worst) > SHOWN else ()
    return Diagnostic(
        "cost-differs",
        f"{worst[0]} on this processor",
        entry.span if entry is not None else None,
        severity="warning",
        notes=(*(str(a) for a in worst[1:SHOWN]), *more),
        help=f"scheduling uses the measured parameters of profile {profile.digest[:12]}; "
        "correct the description for others",
    )
