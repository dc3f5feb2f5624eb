"""`isamap compile --hw A --hw B`: one artifact with code for several machines, which selects at run time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from isamap.driver.cached_compilations import CachedOutcome
from isamap.driver.compiling import describe, manifest
from isamap.driver.pipeline import Compilation, compile_kernel
from isamap.driver.request import Request, sha256
from isamap.driver.stages import Watch
from isamap.emit.c import EmittedC
from isamap.emit.c_names import spell
from isamap.emit.dispatch import (
    MachineProgram,
    check_askable,
    dispatch_files,
    order_by_preference,
    variant_name,
)
from isamap.emit.lanes import emit_code
from isamap.machine import at_one_length, load_machine
from isamap.source import UsageProblem, replace
from isamap.version import solver_version


def compile_dispatch(requests: Sequence[Request], watch: Watch = lambda _: None) -> CachedOutcome:
    """Return the files of a kernel for several machines, given a request for each, with all messages.

    Raises: IsamapError of any kind; UsageProblem for machines between which no program can choose.
    """
    machines = [at_one_length(load_machine(request.machine)) for request in requests]
    if len({machine.name for machine in machines}) < len(machines):
        said = f"one machine is named twice: {', '.join(machine.name for machine in machines)}"
        raise UsageProblem.of("usage", said, help="name each machine once")
    for machine in machines:
        check_askable(machine)
        if machine.served is not None:
            said = f"{machine.name} for several lengths is not a part of an artifact for several machines"
            raise UsageProblem.of("several-lengths", said, help="name one length, or compile it alone")
    outcomes: list[CachedOutcome] = []
    variants: list[MachineProgram] = []
    for position in order_by_preference(machines):
        made = _rename_program(compile_kernel(requests[position], watch=watch))
        assert made.machine is not None
        assert isinstance(made.emitted, EmittedC)
        variants.append(MachineProgram(made.machine, made.emitted))
        outcomes.append(describe(requests[position], made))
    return _join_outcomes(requests, variants, outcomes)


def _rename_program(made: Compilation) -> Compilation:
    """Return a compilation whose program's name includes its machine."""
    assert made.program is not None
    assert made.machine is not None
    assert isinstance(made.emitted, EmittedC)
    name = variant_name(made.program.name, made.machine.name)
    program = replace(made.program, name=name)
    return replace(made, program=program, emitted=emit_code(program, made.machine, model=made.emitted.model))


def _join_outcomes(
    requests: Sequence[Request], variants: Sequence[MachineProgram], outcomes: Sequence[CachedOutcome]
) -> CachedOutcome:
    kernel, name = outcomes[0].kernel, spell(outcomes[0].kernel)
    files = dispatch_files(name, variants)
    for variant, outcome in zip(variants, outcomes, strict=True):
        own = variant.emitted.name
        files |= {n: text for n, text in outcome.files.items() if n.startswith((own, "isamap_pool."))}
        files[f"{own}.report.txt"] = outcome.files["report.txt"]
    names = [variant.machine.name for variant in variants]
    summary: dict[str, Any] = {
        "kernel": kernel,
        "machines": names,
        "dispatch": [
            {
                "machine": v.machine.name,
                "function": v.emitted.name,
                "features": list(v.machine.target.features),
                "permissions": list(v.machine.target.permissions),
            }
            for v in variants
        ],
        "variants": [outcome.summary for outcome in outcomes],
    }
    depends = {
        "kernel_sha256": sha256(requests[0].kernel.text),
        "machine_sha256": {v.machine.name: v.machine.digest for v in variants},
        "options": requests[0].options() | {"profile": None},
        "ortools": solver_version(),
    }
    files["manifest.json"] = manifest(summary, depends, files)
    warnings = tuple(dict.fromkeys(w.text for outcome in outcomes for w in outcome.warnings))
    by_text = {w.text: w for outcome in outcomes for w in outcome.warnings}
    found = tuple(by_text[text] for text in warnings)
    return CachedOutcome(kernel, "dispatch", files, summary, found)
