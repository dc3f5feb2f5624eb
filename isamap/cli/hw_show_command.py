"""`isamap hw show`: print the content of a machine, as text, as JSON, or as a picture.

Parameters other than those of instructions and bandwidths are printed as

rows, l3 → l2  zen5-loops  start_ns 2, again_ns 12
tlb            typical     count 64, page_bytes 4096, miss_ns 0.5
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from isamap.cli.answers import Answer, write_text
from isamap.cli.option_parser import MACHINE_ARGUMENT, CommandOptions, flag, one_word
from isamap.driver.inputs import machine_of
from isamap.report.columns import align
from isamap.source.records import asdict, dataclass, fields

if TYPE_CHECKING:
    from isamap.machine import Machine, MachineInstruction
    from isamap.machine.encodings import Word
    from isamap.machine.timings import AccessEnergy, LoopTimes, ModelFigures, RowTimes, StreamTimes, Tlb
    from isamap.tune.profile import Profile

    Timings = RowTimes | StreamTimes | Tlb | LoopTimes | ModelFigures | AccessEnergy


@dataclass(frozen=True, slots=True, kw_only=True)
class ShowOptions(CommandOptions):
    """The options of `hw show`."""

    name: str = MACHINE_ARGUMENT.field()
    svg: str | None = one_word("--svg", "FILE", "Write a picture of memories, links and units.")
    overwrite: bool = flag("--overwrite", "Replace the picture that is there.")


def show_command(asked: ShowOptions) -> Answer:
    """Show a machine's memories, links, units and instructions."""
    from isamap.machine import load_machine
    from isamap.tune.store import newest_profile

    machine, svg = load_machine(machine_of(asked.name)), asked.svg
    profile = newest_profile(machine.digest)
    # Per instruction, the parameters measured on this processor, at its largest lengths.
    found: dict[str, dict[str, object]] = {}
    for f in profile.instructions if profile is not None else ():
        pairs = (("interval", f.interval), ("latency", f.latency))
        found[f.instruction] = {
            f"measured_{what}_ns": m.least if m is not None else None for what, m in pairs
        }
    caches = profile.caches if profile is not None else ()
    measured, sizes = found, {c.memory: c.size_bytes for c in caches if c.size_bytes is not None}
    payload = {**_machine_json(machine, profile, measured, sizes), **({"svg": svg} if svg else {})}
    if svg is not None:
        from isamap.report.machine_picture import machine_svg

        write_text(Path(svg), machine_svg(machine), overwrite=asked.overwrite)
        return Answer(payload, f"wrote {svg}")
    return Answer(payload, _machine_text(machine, measured, sizes))


def _machine_json(
    machine: Machine,
    profile: Profile | None,
    measured: Mapping[str, Mapping[str, object]],
    sizes: Mapping[str, int],
) -> dict[str, object]:
    from isamap.machine import missing_features
    from isamap.machine.model import area_mm2

    return {
        "name": machine.name,
        "summary": machine.summary,
        "chain": list(machine.chain),
        "digest": machine.digest,
        "missing": list(missing_features(machine)),
        "profile": profile.digest if profile is not None else None,
        "memories": [
            {
                "name": m.name,
                "kind": m.kind,
                "count": m.count,
                "capacity_bytes": m.capacity_bytes,
                "view_of": m.base,
                **({"energy": timing_json(m.energy)} if m.energy is not None else {}),
                **_stated_alone(m, "area_mm2", "area_mm2_per_kib"),
                **({"measured_capacity_bytes": sizes[m.name]} if m.name in sizes else {}),
            }
            for m in machine.memories.values()
        ],
        "links": [
            {
                "from": link.source_memory,
                "to": link.target_memory,
                "bandwidth_bytes_per_ns": link.bandwidth_bytes_per_ns,
                "burst_bytes": link.burst_bytes,
                **_stated_alone(link, "energy_pj_per_byte"),
                "source": link.source,
                "rows": timing_json(link.rows),
                "streams": timing_json(link.streams),
            }
            for link in machine.links
        ],
        "tlb": timing_json(machine.tlb),
        "loops": timing_json(machine.loops),
        "model": timing_json(machine.model),
        "units": {u.name: u.count for u in machine.units.values()},
        "products_per_cycle": {
            u.name: u.products_per_cycle for u in machine.units.values() if u.products_per_cycle is not None
        },
        **({"area_mm2": area} if (area := area_mm2(machine)) is not None else {}),
        "program": asdict(machine.program) if machine.program is not None else None,
        "instructions": [
            _instruction_json(i) | dict(measured.get(i.name, {})) for i in _described_entries(machine)
        ],
    }


def _stated_alone(item: object, *names: str) -> dict[str, object]:
    """Return the stated parameters by name."""
    return {name: value for name in names if (value := getattr(item, name)) is not None}


def timing_json(figures: Timings | None) -> dict[str, object] | None:
    """Return the stated parameters by key, or None."""
    if figures is None or not (stated := _stated_parameters(figures)):
        return None
    return {**dict(stated), "source": figures.source}


def _all_timings(machine: Machine) -> Iterator[tuple[str, Timings]]:
    for link in machine.links:
        ends = f"{link.source_memory} → {link.target_memory}"
        yield f"rows, {ends}", link.rows
        if link.streams is not None:
            yield f"streams, {ends}", link.streams
    for memory in machine.memories.values():
        if memory.energy is not None:
            yield f"energy, {memory.name}", memory.energy
    yield "tlb", machine.tlb
    yield "loops", machine.loops
    yield "model", machine.model


def _stated_parameters(figures: Timings) -> list[tuple[str, float]]:
    from isamap.machine.timings import ModelFigures

    # What is usual of the model counts as much as anything else does.
    keeps_usual = isinstance(figures, ModelFigures) and figures.source
    values = [(f, getattr(figures, f.name)) for f in fields(figures) if f.name != "source"]
    return [(f.name, value) for f, value in values if value != f.default or keeps_usual]


def _described_entries(machine: Machine) -> list[MachineInstruction]:
    """Return the instructions, followed by the hints."""
    return [*machine.instructions.values(), *machine.hints.values()]


def _machine_text(
    machine: Machine, measured: Mapping[str, Mapping[str, object]], sizes: Mapping[str, int]
) -> str:

    def shown(name: str) -> tuple[str, ...]:
        values = measured.get(name, {}).values()
        said = ", ".join("–" if v is None else f"{v:.3g}" for v in values)
        return (said,) if measured else ()

    def here(name: str) -> tuple[str, ...]:
        return (f"{sizes[name]} bytes measured" if name in sizes else "",) if sizes else ()

    memories = [
        (
            m.name,
            m.kind,
            _size(m.count, m.capacity_bytes),
            *here(m.name),
            f"view of {m.base}" if m.base else "",
        )
        for m in machine.memories.values()
    ]
    links = [
        (
            f"{link.source_memory} → {link.target_memory}",
            f"{link.bandwidth_bytes_per_ns:g} bytes/ns"
            + (f" in bursts of {link.burst_bytes}" if link.burst_bytes > 1 else "")
            + (f", {link.energy_pj_per_byte:g} pJ/byte" if link.energy_pj_per_byte is not None else ""),
            link.source,
        )
        for link in machine.links
    ]
    rows = [
        (i.name, " and ".join(i.cost.occupied), _cost(i), *shown(i.name), i.source, str(i.emit))
        for i in _described_entries(machine)
    ]
    chain = f" (extends {', '.join(machine.chain[1:])})" if machine.chain[1:] else ""
    parts = [f"{machine.name}{chain}: {machine.summary}", "", align(memories)]
    parts += ["", align(links)] if links else []
    timings = [
        (what, figures.source, ", ".join(f"{name} {value:g}" for name, value in _stated_parameters(figures)))
        for what, figures in _all_timings(machine)
        if _stated_parameters(figures)
    ]
    parts += ["", align(timings)] if timings else []
    parts += ["", align([("unit", "count", "products a cycle", "instructions"), *_unit_rows(machine)])]
    from isamap.machine.model import area_mm2

    if (area := area_mm2(machine)) is not None:
        parts += ["", f"area  {area:g} mm² of the units and memories that state one"]
    if machine.program is not None:
        encoded = sum(i.encoding is not None for i in _described_entries(machine))
        said = f"words of {machine.program.word_bits} bits, for {encoded} of {len(rows)} instructions"
        queues = ", ".join(f"{q.giver} to {q.taker} ({q.depth})" for q in machine.program.queues)
        said += f"; tokens from {queues}" if queues else ""
        if (bundle := machine.program.bundle) is not None:
            slots = ", ".join(slot.unit for slot in bundle.slots)
            said += f"; slots for {slots}{'; loops' if bundle.loop is not None else ''}"
        parts += ["", f"program  {machine.program.source}  {said}"]
    return "\n".join([*parts, "", align([_column_names(bool(measured)), *rows])])


def _unit_rows(machine: Machine) -> list[tuple[str, ...]]:
    used = Counter(unit for item in _described_entries(machine) for unit in item.cost.occupied)
    return [
        (u.name, str(u.count), str(u.products_per_cycle or ""), str(used[u.name]))
        for u in machine.units.values()
    ]


def _column_names(measured: bool) -> tuple[str, ...]:
    here = ("measured of all units",) if measured else ()
    return ("instruction", "unit", "interval, latency in ns", *here, "source", "emit")


def _size(count: int | None, capacity: int | None) -> str:
    shown = f"{capacity} bytes" if capacity is not None else "unlimited"
    return f"{count} × {capacity // count} bytes" if count and capacity is not None else shown


def _cost(i: MachineInstruction) -> str:
    from isamap.ir import print_expr

    energy = f"; {print_expr(i.cost.energy_pj)} pJ" if i.cost.energy_pj is not None else ""
    return f"{print_expr(i.cost.interval_ns)}, {print_expr(i.cost.latency_ns)}{energy}"


def _instruction_json(i: MachineInstruction) -> dict[str, object]:
    from isamap.ir import print_expr, print_routine

    return {
        "name": i.name,
        "semantics": print_routine(i.instruction),
        "emit": str(i.emit),
        "unit": i.cost.unit,
        "also": i.cost.also,
        "interval_ns": print_expr(i.cost.interval_ns),
        "latency_ns": print_expr(i.cost.latency_ns),
        **({"energy_pj": print_expr(i.cost.energy_pj)} if i.cost.energy_pj is not None else {}),
        "source": i.source,
        "encoding": [_word_json(word) for word in i.encoding.words] if i.encoding is not None else None,
    }


def _word_json(word: Word) -> dict[str, object]:
    """Return the fields of a word by name: their bits, and their contents."""
    return {
        f.name: {
            "bits": [f.high, f.low],
            **(
                {"constant": f.holds}
                if isinstance(f.holds, int)
                else {"holds": str(f.holds), "unit": f.holds.unit}
            ),
        }
        for f in word
    }
