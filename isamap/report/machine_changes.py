"""Compare two machines: the memories, links, units and instructions that differ, before and after.

memory spad   scratchpad(bytes = 262144, banks = 4)   scratchpad(bytes = 524288, banks = 4)
unit execute  1                                       2
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import groupby
from typing import TypeVar

from isamap.ir import print_expr, print_routine
from isamap.machine import Link, Machine, MachineInstruction, Memory
from isamap.machine.model import Unit
from isamap.report.columns import align, bytes_text, count_text
from isamap.source.records import asdict, dataclass

T = TypeVar("T")
NAMED = 4
"""So many instructions of a kind of change are shown."""
COST = "cost of"


@dataclass(frozen=True, slots=True)
class Change:
    """A difference in one item. `before` or `after` is None if that machine lacks the item."""

    what: str
    name: str
    before: str | None
    after: str | None

    def as_json(self) -> dict[str, object]:
        """Return the change as JSON."""
        return asdict(self)


def changes(a: Machine, b: Machine) -> list[Change]:
    """Return all differences between two machines."""
    one, other = _instructions(a), _instructions(b)
    common = [n for n in one if n in other]
    return [
        *_changes("clock", _clock(a), _clock(b), lambda clock: f"{clock:g}"),
        *_changes("memory", a.memories, b.memories, memory_text),
        *_changes("link", _links(a), _links(b), _link_text),
        *_changes("unit", a.units, b.units, unit_text),
        *_changes("instruction", one, other, _meaning_text),
        *_changes(COST, {n: one[n] for n in common}, {n: other[n] for n in common}, _cost_text),
    ]


def _changes(
    what: str, a: Mapping[str, T], b: Mapping[str, T], shown: Callable[[T], str]
) -> Iterator[Change]:
    for name in dict.fromkeys((*a, *b)):
        texts = [shown(side[name]) if name in side else None for side in (a, b)]
        if texts[0] != texts[1]:
            yield Change(what, name, *texts)


def memory_text(memory: Memory) -> str:
    """Return a memory's kind and size as text."""
    kind = f"view of {memory.base}" if memory.base is not None else memory.kind
    if (e := memory.energy) is not None:
        kind += f", {e.read_pj:g} pJ to read and {e.write_pj:g} to write {e.access_bytes} bytes"
    areas = (memory.area_mm2, memory.area_mm2_per_kib)
    kind += "".join(
        f", {a:g} mm²{per}" for a, per in zip(areas, ("", " a KiB"), strict=True) if a is not None
    )
    size, one, count = memory.capacity_bytes, memory.register_bytes, memory.count
    if size is None or one is None:
        return kind
    return f"{kind}, {f'{count} of ' if count and count > 1 else ''}{bytes_text(one)}"


def unit_text(unit: Unit) -> str:
    """Return the copies of a unit, and the multiplications of one copy per cycle, as text."""
    peak = f", {unit.products_per_cycle} products a cycle" if unit.products_per_cycle else ""
    area = f", {unit.area_mm2:g} mm² each" if unit.area_mm2 else ""
    return f"{unit.count}{peak}{area}"


def _clock(machine: Machine) -> Mapping[str, float]:
    return {"GHz": machine.clock_ghz} if machine.clock_ghz is not None else {}


def _links(machine: Machine) -> Mapping[str, Link]:
    return {f"{link.source_memory} → {link.target_memory}": link for link in machine.links}


def _link_text(link: Link) -> str:
    bursts = f" in bursts of {link.burst_bytes} bytes" if link.burst_bytes > 1 else ""
    energy = f", {link.energy_pj_per_byte:g} pJ/byte" if link.energy_pj_per_byte is not None else ""
    return f"{link.bandwidth_bytes_per_ns:g} bytes/ns{bursts}{', shared' if link.shared else ''}{energy}"


def _instructions(machine: Machine) -> Mapping[str, MachineInstruction]:
    return {**machine.instructions, **machine.hints}


def _meaning_text(item: MachineInstruction) -> str:
    words = "" if item.encoding is None else f" {item.encoding}"
    return f"{' '.join(print_routine(item.instruction).split())} {item.emit}{words}"


def _cost_text(item: MachineInstruction) -> str:
    """Return the cost as written in the description, without the lower bounds that links imply."""
    cost = item.stated or item.cost
    units = " and ".join(cost.occupied)
    energy = f", {print_expr(cost.energy_pj)} pJ" if cost.energy_pj is not None else ""
    times = f"{print_expr(cost.interval_ns)} ns each, {print_expr(cost.latency_ns)} ns until used"
    return f"{units}, {times}{energy}"


def changes_text(found: list[Change]) -> str:
    """Return a line for each change. Instructions of only one machine are counted, with a few names."""
    rows: list[tuple[str, str, str]] = []
    counts: list[str] = []
    for what, group in groupby(found, key=lambda change: change.what):
        own = list(group)
        if what == "instruction":
            counts += _instruction_lines(own)
            continue
        shown = own[:NAMED] if what == COST else own
        rows += [(f"{what} {c.name}", c.before or "–", c.after or "–") for c in shown]
        if len(own) > len(shown):
            counts.append(f"{len(own) - len(shown)} more with another cost: `--json` has them")
    return "\n".join([*([align([("", "before", "after"), *rows])] if rows else []), *counts])


def _instruction_lines(found: list[Change]) -> Iterator[str]:
    sides = {
        "only before": [c.name for c in found if c.after is None],
        "only after": [c.name for c in found if c.before is None],
        "with another meaning or emission": [c.name for c in found if c.before and c.after],
    }
    for said, names in sides.items():
        if names:
            more = ", …" if len(names) > NAMED else ""
            yield f"{count_text(len(names), 'instruction')} {said}: {', '.join(names[:NAMED])}{more}"
