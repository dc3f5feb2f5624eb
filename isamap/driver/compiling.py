"""Compile to files: from the cache if an equal compilation was made before, else through the pipeline."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any

from isamap.driver.cached_compilations import (
    CachedOutcome,
    Warned,
    key_of,
    recall,
    recall_emitted,
    remember,
    remember_emitted,
)
from isamap.driver.request import Request, sha256
from isamap.source import Source, dataclass, replace
from isamap.version import solver_version

if TYPE_CHECKING:
    from isamap.driver.pipeline import Compilation, Seen
    from isamap.driver.stages import Watch
    from isamap.emit.c import EmittedC
    from isamap.lower.program import LoweredProgram
    from isamap.plan.access_counts import StatementAccesses
    from isamap.plan.schedule import Schedule


def compile_files(request: Request, watch: Watch = lambda _: None, seen: Seen | None = None) -> CachedOutcome:
    """Return the files of a compilation with its messages. Raises: IsamapError of any kind.

    The cache is not read if the results of passes are requested.
    """
    key = key_of(request)
    known = recall(key) if seen is None else None
    if known is not None:
        return replace(known, stage_seconds={})
    from isamap.driver.length_versions import compile_request
    from isamap.driver.pipeline import ignore_pass

    outcome = describe(request, compile_request(request, watch=watch, seen=seen or ignore_pass))
    remember(key, outcome)
    return outcome


@dataclass(frozen=True)
class CompiledProgram:
    """The outcome of a compilation and its C. The results of its stages are computed on demand after a cache hit."""

    outcome: CachedOutcome
    emitted: EmittedC
    stages: Callable[[], Compilation]

    @cached_property
    def compilation(self) -> Compilation:
        """All results of the stages of the compilation."""
        return self.stages()


def compile_program(
    request: Request, watch: Watch = lambda _: None, seen: Seen | None = None
) -> CompiledProgram:
    """Return the outcome of `compile_files` with its program, from the cache if possible."""
    from isamap.driver.length_versions import compile_request
    from isamap.driver.pipeline import ignore_pass
    from isamap.emit.c import EmittedC

    key = key_of(request)
    known = recall(key) if seen is None else None
    emitted = recall_emitted(key) if known is not None else None
    if known is not None and emitted is not None:
        return CompiledProgram(known, emitted, lambda: compile_request(_replay_request(request, known)))
    asked = request if known is None else _replay_request(request, known)
    made = compile_request(asked, watch=watch, seen=seen or ignore_pass)
    assert isinstance(made.emitted, EmittedC), "all stages have run"
    outcome = known or describe(request, made)
    if known is None:
        remember(key, outcome)
    remember_emitted(key, outcome, made.emitted)
    return CompiledProgram(outcome, made.emitted, lambda: made)


def _replay_request(request: Request, known: CachedOutcome) -> Request:
    """Return a request that replays the cached schedule."""
    name = next(name for name in known.files if name.endswith(".schedule"))
    return replace(request, schedule=Source(name, known.files[name]))


def describe(request: Request, made: Compilation) -> CachedOutcome:
    """Return files and summary of a completed compilation."""
    from isamap.emit.c import EmittedC
    from isamap.emit.c_build import pool_files
    from isamap.ir import print_routine
    from isamap.plan.text import print_versions
    from isamap.report.access_tables import energy_table, levels_json, total_energy_pj
    from isamap.report.compilation import packed_json, workspace_json

    assert (  # noqa: PT018 - they are all there, or none is
        made.machine and made.canonical and made.problem and made.schedule and made.program
    )
    assert isinstance(made.emitted, EmittedC)
    name = made.emitted.name
    files = {
        **made.emitted.files(),
        f"{name}.schedule": print_versions(schedules_of(made)),
        "report.txt": _report(made, made.program),
    }
    steps = made.rewrite.steps if made.rewrite else ()
    if made.rewrite and steps:
        files[f"{name}.ir"] = print_routine(made.rewrite.kernel)
        files["report.txt"] += "".join(f"rewritten: {step}\n" for step in steps)
    if any(emitted.interface.takes_pool for emitted in (made.emitted, *made.emitted.packs)):
        files |= pool_files()
    summary: dict[str, Any] = {
        "kernel": made.kernel.name,
        "machine": made.machine.name,
        "sizes": {**dict(made.schedule.sizes), **(request.sizes if made.versions else {})},
        "threads": request.threads,
        "mapping": _describe_mappings(made.schedule),
        "schedule": {**_describe_prices(made.schedule), "origin": dict(made.origin)},
        "rewrite": list(steps),
    }
    if made.versions:
        summary["versions"] = [
            {"sizes": dict(one.sizes), "mapping": _describe_mappings(one), "schedule": _describe_prices(one)}
            for one in schedules_of(made)
        ]
    counted = [_count(one) for one in made.versions or (made,)]
    if text := "\n\n".join(table for one in counted if (table := energy_table(one))):
        files["report.txt"] += f"\n{text}\n\n"
        summary["energy_pj"] = [total_energy_pj(one) for one in counted]
    if any(counted):
        summary["levels"] = [levels_json(one) for one in counted]
    summary["workspace"] = workspace_json(made.program)
    summary["packed"] = packed_json(made.program)
    depends: dict[str, Any] = {
        "kernel_sha256": sha256(request.kernel.text),
        "machine_sha256": made.machine.digest,
        "options": request.options(),
        "ortools": solver_version(),
    }
    warnings = tuple(Warned.of(w) for w in made.warnings)
    files |= _views(request, made, files["report.txt"])
    files["manifest.json"] = manifest(summary, depends, files)
    return CachedOutcome(made.kernel.name, made.machine.name, files, summary, warnings, made.stage_seconds)


def _count(made: Compilation) -> tuple[StatementAccesses, ...]:
    """Return the accesses of a schedule, or () for a machine without scratchpads and energies."""
    from isamap.driver.explaining import schedule_accesses
    from isamap.plan.access_counts import CONVENTIONS

    assert made.canonical and made.machine and made.problem and made.schedule  # noqa: PT018 - as in `describe`
    kinds = {memory.kind for memory in made.machine.memories.values()}
    if made.problem.energies is None and "scratchpad" not in kinds:
        return ()
    known = made.canonical, made.schedule, made.problem, made.machine
    return schedule_accesses(*known, CONVENTIONS["isamap"])


def _report(made: Compilation, program: LoweredProgram) -> str:
    """Return the report on the decisions of all versions."""
    from isamap.report.compilation import DecidedSchedule, compilation_report, versions_report

    every = tuple(
        DecidedSchedule(one.canonical, one.machine, one.problem, one.schedule)
        for one in made.versions or (made,)
        if one.canonical and one.machine and one.problem and one.schedule
    )
    if made.versions:
        return versions_report(every, program)
    (only,) = every
    return compilation_report(only.kernel, only.machine, only.problem, only.schedule, program)


def _where(made: Compilation) -> str:
    """Return text that names the schedule which the views show, if there are several."""
    if not made.versions or made.schedule is None:
        return ""
    return f"for {', '.join(f'{name} = {value}' for name, value in made.schedule.sizes)}: "


def schedules_of(made: Compilation) -> tuple[Schedule, ...]:
    """Return the schedule of a compilation, or the schedules of its versions."""
    return tuple(one.schedule for one in made.versions or (made,) if one.schedule)


def _describe_mappings(schedule: Schedule) -> list[dict[str, Any]]:
    """Return the mapping of each nest."""
    return [
        {
            "statement": nest.statement,
            "mapping": nest.mapping,
            "choose": dict(nest.choose),
            "fused": list(nest.fused),
        }
        for nest in schedule.nests
    ]


def _describe_prices(schedule: Schedule) -> dict[str, Any]:
    """Return the known costs of a schedule."""
    from isamap.plan.schedule import cost_unit

    return {
        "cost": schedule.cost_ns,
        "lower_bound": schedule.lower_bound_ns,
        "unit": cost_unit(schedule.model),
        "gap": schedule.gap,
        "model": schedule.model,
        "status": schedule.status,
        "found_by": schedule.found_by or None,
        "proved_by": schedule.proved_by or None,
        "fixed": dict(schedule.fixed),
        "reproducible": schedule.reproducible,
        "profile": schedule.profile or None,
    }


def _views(request: Request, made: Compilation, report: str) -> dict[str, str]:
    """Return the views of the schedule as files, and the report with its bottleneck."""
    import json

    from isamap.driver.explaining import explain
    from isamap.report.explained import explained_json, explained_text

    assert made.machine and made.problem and made.schedule  # noqa: PT018 - as in `describe`
    shown = explain(made.schedule, made.problem, made.machine, request.cost_model)
    return {
        "report.txt": f"{report}{_where(made)}{shown.sentence}\n",
        "views.txt": f"{explained_text(shown)}\n",
        "views.json": json.dumps(explained_json(shown), indent=2, ensure_ascii=False) + "\n",
        "roofline.svg": shown.svg(),
    }


def manifest(summary: dict[str, Any], depends: dict[str, Any], files: dict[str, str]) -> str:
    """Return the manifest: what was compiled, all inputs of the result, and the digest of each file."""
    from isamap.driver.artifacts import manifest_text

    return manifest_text(summary | {"depends_on": depends}, files)
