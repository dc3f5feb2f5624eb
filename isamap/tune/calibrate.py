"""Calibrate a description: time everything in it that can be timed on this processor.

    calibrate(load_machine("x86-avx512"), None, 10.0)  ->  Profile

Nothing here knows a machine or an instruction: functions are generated from the description, compiled as the
description says, and called in a child process with limits.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from datetime import UTC, datetime
from difflib import get_close_matches
from pathlib import Path

import numpy as np

from isamap.emit.timing_source import Timing, timing_source
from isamap.machine import Machine, MachineInstruction, missing_features
from isamap.machine.allowed import permission_numbers
from isamap.machine.processor import system_caches, this_cpu
from isamap.run.blame import Emissions
from isamap.run.clocking import PAGE, Plan, Timed, time_all
from isamap.run.toolchain import Compiler, build, find_compiler
from isamap.source import Diagnostic, MissingTool, Source, UsageProblem
from isamap.source.numbers import Spread
from isamap.source.records import replace
from isamap.tune.bandwidth import Stream, bandwidth_figures, stream_source, streams
from isamap.tune.clocked import CANNOT, copies, has_two_processors, thread_files, time_copy, timed_threads
from isamap.tune.instruction_times import Asked, ask, figure, timed
from isamap.tune.measured_parameters import (
    CacheFigure,
    InstructionFigure,
    PackingFigure,
    PieceFigure,
    RowFigure,
    StreamFigure,
    Unmeasured,
    UnmeasuredPacking,
)
from isamap.tune.overlay import lay_over, with_caches
from isamap.tune.profile import Profile, parse_profile, print_profile
from isamap.tune.real_caches import (
    SAMPLER,
    kept_calls,
    kept_ns,
    kept_streams,
    least_of,
    probes,
    reported_caches,
    usable_bytes,
    with_usable,
)
from isamap.tune.row_starts import row_figures
from isamap.tune.row_streams import piece_figure, stream_figure

PROBING = 0.1  # of the time for sampling, at the start and at the end: how much of the last cache can be used
GROUP = 150  # functions of one file: more of them take a compiler longer than they are worth

Watch = Callable[[str], None]


def calibrate(
    machine: Machine,
    names: Collection[str] | None,
    budget_s: float,
    watch: Watch = lambda _: None,
    compiler: str | None = None,
) -> Profile:
    """Return the measured profile of a machine's memories and instructions, or of the named instructions.

    Units: `budget_s` is for sampling; compiling comes on top. Raises: MissingTool where this processor cannot
    run the machine, UsageProblem for unknown names.
    """
    check_runs_here(machine)
    entries = _entries(machine, names)
    when = datetime.now(UTC).isoformat(timespec="seconds")
    found = find_compiler(machine.target.flags, machine.target.toolchains, compiler, machine.target.features)
    rng = np.random.default_rng(1)
    asked = ask(machine, entries)
    timings = [t for a in asked for t in a.timings]
    libraries, calls = _instructions(machine, timings, found, rng, watch)
    caches = caches_here(machine, found, budget_s * PROBING, rng, watch) if names is None else ()
    reported = max((c.reported_bytes or 0 for c in caches), default=0)
    ways = streams(with_caches(machine, caches), reported) if names is None else ()
    if ways:
        watch("compile bandwidths")
        libraries.append(_build(machine, found, stream_source(machine, ways)))
        calls += [stream.timed(len(libraries) - 1, number) for number, stream in enumerate(ways)]
    threads = names is None and has_two_processors()
    if threads:
        libraries.append(build(found, machine.target.flags, thread_files("timing.c"), "timing.c"))
        calls.append(timed_threads(len(libraries) - 1))
    sampling_s = budget_s * (1 - 2 * PROBING) if names is None else budget_s
    watch(f"measure for {sampling_s:g} s")
    plan = _plan(machine, libraries, found, calls, ways, sampling_s)
    results = list(time_all(plan, rng.bytes(PAGE), watch)) if calls else []
    start = results.pop() if threads else None
    profile = _profile(machine, found.version, when, asked, ways, results)
    packing = list(packing_figures(machine, rng, watch)) if names is None else []
    start = start if isinstance(start, Spread) else None
    profile = replace(
        profile,
        thread_start=start,
        packing=tuple(p for p in packing if isinstance(p, PackingFigure)),
        unmeasured_packing=tuple(p for p in packing if isinstance(p, UnmeasuredPacking)),
        caches=caches,
    )
    if names is None:
        profile = _with_kept(machine, profile, found, ways, rng, watch)
        profile = _with_rows(machine, profile, rng, watch)
        profile = _with_streams(machine, profile, rng, watch)
        # Other programs that share the last cache have quiet minutes: the worst measurement of it counts.
        again = caches_here(machine, found, budget_s * PROBING, rng, watch)
        again = tuple(map(least_of, profile.caches, again))
        smaller = streams(with_caches(machine, again), reported)
        worst = _with_kept(machine, replace(profile, caches=again), found, smaller, rng, watch).caches
        profile = replace(profile, caches=tuple(map(least_of, again, worst)))
    return parse_profile(Source("profile", print_profile(profile)))  # with the digits that are kept


def _with_kept(
    machine: Machine,
    profile: Profile,
    compiler: Compiler,
    ways: Sequence[Stream],
    rng: np.random.Generator,
    watch: Watch,
) -> Profile:
    """With how long each cache but the nearest keeps lines that are not touched."""
    tried = kept_streams(machine, ways)
    if not tried:
        return profile
    watch("wait for caches to evict untouched lines")
    library = _build(machine, compiler, stream_source(machine, tried, SAMPLER))
    calls = kept_calls(tried, 0)
    results = time_all(_plan(machine, [library], compiler, calls, tried, 0.0), rng.bytes(PAGE), watch)
    each = len(calls) // len(tried)
    found = {
        stream.memory: kept_ns(stream, results[n * each : (n + 1) * each], machine, profile.bandwidths)
        for n, stream in enumerate(tried)
    }
    known = [c for c in profile.caches if c.size_bytes is not None]  # where others are is not known
    caches = tuple(replace(c, kept_ns=found.get(c.memory)) if c in known else c for c in profile.caches)
    return replace(profile, caches=caches)


def _with_rows(machine: Machine, profile: Profile, rng: np.random.Generator, watch: Watch) -> Profile:
    """With what it takes to begin rows of matrices as large as the buffers whose bandwidths were measured."""
    read = [b for b in profile.bandwidths if b.access == "read"]
    sizes, took = {b.memory: b.size_bytes for b in read}, {b.memory: b.ns_per_byte.least for b in read}
    found = list(row_figures(lay_over(machine, profile), sizes, took, watch, rng))
    return replace(
        profile,
        rows=tuple(r for r in found if isinstance(r, RowFigure)),
        unmeasured_rows=tuple(r for r in found if isinstance(r, Unmeasured)),
    )


def _with_streams(machine: Machine, profile: Profile, rng: np.random.Generator, watch: Watch) -> Profile:
    """With what rows along a sum, and long pieces of others, take that come from beyond all caches."""
    sizes = {b.memory: b.size_bytes for b in profile.bandwidths if b.access == "read"}
    here = lay_over(machine, profile)
    rows, pieces = (figure(here, sizes, watch, rng) for figure in (stream_figure, piece_figure))
    return replace(
        profile,
        streams=rows if isinstance(rows, StreamFigure) else None,
        unmeasured_streams=rows if isinstance(rows, Unmeasured) else None,
        pieces=pieces if isinstance(pieces, PieceFigure) else None,
        unmeasured_pieces=pieces if isinstance(pieces, Unmeasured) else None,
    )


def caches_here(
    machine: Machine, compiler: Compiler, budget_s: float, rng: np.random.Generator, watch: Watch
) -> tuple[CacheFigure, ...]:
    """Return the sizes of the machine's caches here: as the system reports, and the usable part of the last one."""
    system = system_caches()
    figures = list(reported_caches(machine, system))
    tried = probes(machine, system)
    if tried:
        watch(f"read the last cache for {budget_s:g} s")
        library = _build(machine, compiler, stream_source(machine, tried))
        calls = [stream.timed(0, number) for number, stream in enumerate(tried)]
        results = time_all(
            _plan(machine, [library], compiler, calls, tried, budget_s), rng.bytes(PAGE), watch
        )
        took_ns = [r.least for r in results if isinstance(r, Spread)]
        if len(took_ns) == len(tried):
            last = len(system) - 1
            figures[last] = with_usable(figures[last], usable_bytes(system, took_ns))
    return tuple(figures)


def _plan(
    machine: Machine,
    libraries: Sequence[Path],
    compiler: Compiler,
    calls: Sequence[Timed],
    ways: Sequence[Stream],
    budget_s: float,
) -> Plan:
    return Plan(
        machine.name,
        tuple(libraries),
        compiler,
        tuple(calls),
        tuple(permission_numbers()[p] for p in machine.target.permissions),
        max((s.size_bytes for s in ways), default=0),
        budget_s,
    )


def packing_figures(
    machine: Machine, rng: np.random.Generator, watch: Watch
) -> Iterator[PackingFigure | UnmeasuredPacking]:
    """Yield the measured time of packing by type, or the reason why it is unknown. Raises: MissingTool."""
    for copy in copies():
        watch(f"packing: {copy.way} of {copy.dtype}")
        try:
            found = time_copy(copy, machine, rng)
        except CANNOT as problem:
            found = UnmeasuredPacking(copy.way, copy.dtype, problem.diagnostics[0].message)
        if found is not None:
            yield found


def check_runs_here(machine: Machine) -> None:
    """Raise MissingTool where this processor cannot run a machine's instructions."""
    missing = missing_features(machine)
    if missing or machine.target.run != "native":
        why = f"this processor lacks {', '.join(missing)}" if missing else "it is not run natively"
        raise MissingTool(
            Diagnostic(
                "calibrate-elsewhere",
                f"{machine.name} cannot be measured here: {why}",
                help="`isamap hw list` says which machines run here; `host` is the one that fits best",
            )
        )


def _entries(machine: Machine, names: Collection[str] | None) -> tuple[MachineInstruction, ...]:
    for name in names or ():
        if name not in machine.instructions:
            near = get_close_matches(name, machine.instructions, n=1)
            raise UsageProblem(
                Diagnostic(
                    "unknown-instruction",
                    f"{machine.name} has no instruction `{name[:80]}`",
                    help=f"did you mean `{near[0]}`?" if near else f"see `isamap hw show {machine.called}`",
                )
            )
    return tuple(e for n, e in machine.instructions.items() if names is None or n in names)


def _instructions(
    machine: Machine, timings: Sequence[Timing], compiler: Compiler, rng: np.random.Generator, watch: Watch
) -> tuple[list[Path], list[Timed]]:
    """Return the libraries, and the calls of their functions in order."""
    libraries: list[Path] = []
    calls: list[Timed] = []
    for start in range(0, len(timings), GROUP):
        watch(f"compile {start} of {len(timings)} timings")
        group = tuple(timings[start : start + GROUP])
        calls += [timed(machine, timing, len(libraries), rng) for timing in group]
        libraries.append(_build(machine, compiler, timing_source(machine, group)))
    return libraries, calls


def _build(machine: Machine, compiler: Compiler, source: str) -> Path:
    return build(compiler, machine.target.flags, {"timing.c": source}, "timing.c", Emissions(machine))


def _profile(
    machine: Machine,
    compiler: str,
    when: str,
    asked: Sequence[Asked],
    ways: Sequence[Stream],
    results: Sequence[Spread | str],
) -> Profile:
    figures: list[InstructionFigure] = []
    rest, done = list(results), 0
    for one in asked:
        figures.append(figure(one, rest[done : done + len(one.timings)]))
        done += len(one.timings)
    return Profile(
        machine.name,
        machine.digest,
        this_cpu(),
        compiler,
        when,
        tuple(figures),
        bandwidth_figures(ways, rest[done:]),
    )
