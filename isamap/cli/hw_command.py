"""`isamap hw`: which machines are described, what is in them, whether it is right, and which one this is.

`hw show` prints what a machine takes beside instructions and bandwidths as

rows, l3 → l2  zen5-loops  start_ns 2, again_ns 12
tlb            typical     count 64, page_bytes 4096, miss_ns 0.5

`hw check --run` runs instructions: here, emulated, or as plain-C models.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from isamap.cli.answers import Answer, Finding
from isamap.cli.options import AsJson, EmulatorCommand, MachineArgument
from isamap.cli.terminal import Progress
from isamap.cli.words import read_emulator
from isamap.codegen.cache import cache_root
from isamap.codegen.child import Emulator
from isamap.driver.inputs import machine_of
from isamap.report.columns import table
from isamap.source import Diagnostic, OnlyWarned, UsageProblem

if TYPE_CHECKING:
    from isamap.machine import Machine, MachineInstruction
    from isamap.machine.timings import LoopTimes, ModelFigures, RowTimes, StreamTimes, Tlb
    from isamap.tune.profile import Profile

    Timings = RowTimes | StreamTimes | Tlb | LoopTimes | ModelFigures


def stamps_folder() -> Path | None:
    """The folder in the cache; None where that cannot be used. Raises: UsageProblem for an unsafe one."""
    with OnlyWarned():
        return cache_root() / "checked"
    return None


def timing_rows(machine: Machine) -> list[tuple[str, str, str]]:
    """What is stated, its source, and the figures; a line for each."""
    return [
        (what, figures.source, ", ".join(f"{name} {value:g}" for name, value in _stated(figures)))
        for what, figures in _all_timings(machine)
        if _stated(figures)
    ]


def timing_json(figures: Timings | None) -> dict[str, object] | None:
    """The figures that are stated, by key; None where none is."""
    if figures is None or not (stated := _stated(figures)):
        return None
    return {**dict(stated), "source": figures.source}


def _all_timings(machine: Machine) -> Iterator[tuple[str, Timings]]:
    for link in machine.links:
        ends = f"{link.source_memory} → {link.target_memory}"
        yield f"rows, {ends}", link.rows
        if link.streams is not None:
            yield f"streams, {ends}", link.streams
    yield "tlb", machine.tlb
    yield "loops", machine.loops
    yield "model", machine.model


def _stated(figures: Timings) -> list[tuple[str, float]]:
    from isamap.machine.timings import ModelFigures

    # What is usual of the model counts as much as anything else does.
    keeps_usual = isinstance(figures, ModelFigures) and figures.source
    values = [(f, getattr(figures, f.name)) for f in fields(figures) if f.name != "source"]
    return [(f.name, value) for f, value in values if value != f.default or keeps_usual]


def check_silicon(
    name: str, payload: Mapping[str, object], text: str, emulator: Emulator | None = None
) -> Answer:
    """The answer of a check that tried every instruction."""
    from isamap.codegen.child import emulator_for
    from isamap.codegen.silicon import check_machine
    from isamap.driver.runnable import is_model
    from isamap.machine import load_machine, missing_features

    machine = load_machine(name)
    emulator = emulator_for(machine, emulator)
    missing = missing_features(machine) if emulator is None else ()
    model = is_model(machine, missing, emulator)
    with Progress() as progress:
        progress("trying instructions")
        checks = check_machine(machine, model=model, emulator=emulator)
    bad = [check for check in checks if check.verdict in ("wrong", "crashed")]
    counts = Counter(check.verdict for check in checks)
    ran_on = "model" if model else "native" if emulator is None else "emulator"
    results = [
        {"instruction": c.instruction, "verdict": c.verdict, "message": c.message, "trials": c.trials}
        for c in checks
    ]
    lines = [text]
    if missing:
        lines.append(f"this processor lacks {', '.join(missing)}: their plain-C models were tried")
    said = ", ".join(f"{n} {verdict}" for verdict, n in sorted(counts.items()))
    lines.append(f"{sum(c.trials for c in checks)} trials on {ran_on}: {said}")
    lines += [f"skipped {c.instruction}: {c.message}" for c in checks if c.verdict == "skipped"][:20]
    findings = tuple(Finding.of(c.diagnostic(machine)) for c in bad)
    under = str(emulator) if emulator is not None else None
    found = {**payload, "ran_on": ran_on, "emulator": under, "checks": results}
    return Answer(found, "\n".join(lines), findings, 1 if bad else 0)


def list_command(as_json: AsJson = False) -> Answer:
    """List the machines that are shipped, and whether this computer can run them."""
    from isamap.machine import list_machines, load_machine, missing_features

    machines = [load_machine(name) for name in list_machines()]
    lacking = {m.name: missing_features(m) for m in machines}
    payload = {
        "machines": [
            {
                "name": m.name,
                "summary": m.summary,
                "extends": list(m.chain[1:]),
                "missing": list(lacking[m.name]),
            }
            for m in machines
        ]
    }
    return Answer(payload, table([(m.name, _runs(m, lacking[m.name]), m.summary) for m in machines]))


def _runs(machine: Machine, lacking: tuple[str, ...]) -> str:
    """How this computer runs programs for a machine."""
    if machine.target.emulator is not None:
        return f"under {machine.target.emulator}"
    if lacking:
        return f"lacks {', '.join(lacking)}"
    return "as a model" if machine.target.run != "native" else "runs here"


def show_command(name: MachineArgument, as_json: AsJson = False) -> Answer:
    """Show a machine's memories, links, units and instructions."""
    from isamap.machine import load_machine, missing_features
    from isamap.tune.store import newest_profile

    machine = load_machine(machine_of(name))
    profile = newest_profile(machine.digest)
    measured, sizes = _measured(profile), _measured_bytes(profile)
    payload = {
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
                **({"measured_capacity_bytes": sizes[m.name]} if m.name in sizes else {}),
            }
            for m in machine.memories.values()
        ],
        "links": [
            {
                "from": link.source_memory,
                "to": link.target_memory,
                "bandwidth_bytes_per_ns": link.bandwidth_bytes_per_ns,
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
        "instructions": [_instruction_json(i) | measured.get(i.name, {}) for i in _described(machine)],
    }
    return Answer(payload, _machine_text(machine, measured, sizes))


def _measured_bytes(profile: Profile | None) -> dict[str, int]:
    """The capacities of caches on this processor, as far as they are known."""
    caches = profile.caches if profile is not None else ()
    return {c.memory: c.size_bytes for c in caches if c.size_bytes is not None}


def _measured(profile: Profile | None) -> dict[str, dict[str, object]]:
    """Per instruction what was measured on this processor, where its parameters are largest."""
    found: dict[str, dict[str, object]] = {}
    for f in profile.instructions if profile is not None else ():
        pairs = (("interval", f.interval), ("latency", f.latency))
        found[f.instruction] = {
            f"measured_{what}_ns": m.least if m is not None else None for what, m in pairs
        }
    return found


def check_command(
    name: MachineArgument,
    run: Annotated[
        bool, typer.Option("--run", help="Also run each instruction and compare it with its meaning.")
    ] = False,
    emulator: EmulatorCommand = None,
    as_json: AsJson = False,
) -> Answer:
    """Check a machine's description."""
    from isamap.machine import check_machine

    if emulator is not None and not run:
        said, help_ = "`--emulator` runs instructions, and without `--run` none is", "add `--run`"
        raise UsageProblem(Diagnostic("usage", said, help=help_))
    under = read_emulator(emulator)
    word = machine_of(name)
    summary = check_machine(word, stamps_folder())
    odd = tuple(Finding(told, text) for told, text in summary.doubts)
    findings = (*odd, *_far_from_measured(word, summary.digest))
    payload: dict[str, object] = {
        "name": summary.name,
        "summary": summary.summary,
        "chain": list(summary.chain),
        "memories": summary.memories,
        "units": summary.units,
        "instructions": summary.instructions,
        "digest": summary.digest,
    }
    counts = f"{summary.memories} memories, {summary.units} units, {summary.instructions} instructions"
    text = f"{summary.name}: fine; {counts}"
    if not run:
        return Answer(payload, text, findings)

    answer = check_silicon(word, payload, text, under)
    return replace(answer, findings=(*findings, *answer.findings))


def _far_from_measured(name: str, digest: str) -> tuple[Finding, ...]:
    """A warning where a figure is far from the measured one, if anything was measured here."""
    from isamap.tune.store import newest_profile

    profile = newest_profile(digest)
    if profile is None:
        return ()
    from isamap.machine import load_machine
    from isamap.tune.overlay import warnings

    return tuple(Finding.of(w) for w in warnings(load_machine(name), profile))


def detect_command(as_json: AsJson = False) -> Answer:
    """Say which shipped machine this computer is."""
    from isamap.machine import detect_features, detect_machine

    name, features = detect_machine(), sorted(detect_features())
    return Answer({"machine": name, "features": features}, f"{name}\n{' '.join(features)}")


def _described(machine: Machine) -> list[MachineInstruction]:
    """Instructions, then hints."""
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
            f"{link.bandwidth_bytes_per_ns:g} bytes/ns",
            link.source,
        )
        for link in machine.links
    ]
    rows = [
        (i.name, i.cost.unit, _cost(i), *shown(i.name), i.source, str(i.emit)) for i in _described(machine)
    ]
    chain = f" (extends {', '.join(machine.chain[1:])})" if machine.chain[1:] else ""
    parts = [f"{machine.name}{chain}: {machine.summary}", "", table(memories)]
    parts += ["", table(links)] if links else []
    timings = timing_rows(machine)
    parts += ["", table(timings)] if timings else []
    return "\n".join([*parts, "", table([_heading(bool(measured)), *rows])])


def _heading(measured: bool) -> tuple[str, ...]:
    here = ("measured of all units",) if measured else ()
    return ("instruction", "unit", "interval, latency in ns", *here, "source", "emit")


def _size(count: int | None, capacity: int | None) -> str:
    shown = f"{capacity} bytes" if capacity is not None else "unlimited"
    return f"{count} × {capacity // count} bytes" if count and capacity is not None else shown


def _cost(i: MachineInstruction) -> str:
    from isamap.ir import print_expr

    return f"{print_expr(i.cost.interval_ns)}, {print_expr(i.cost.latency_ns)}"


def _instruction_json(i: MachineInstruction) -> dict[str, object]:
    from isamap.ir import print_expr, print_routine

    return {
        "name": i.name,
        "semantics": print_routine(i.instruction),
        "emit": str(i.emit),
        "unit": i.cost.unit,
        "interval_ns": print_expr(i.cost.interval_ns),
        "latency_ns": print_expr(i.cost.latency_ns),
        "source": i.source,
    }
