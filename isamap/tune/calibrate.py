"""Calibrate a description: measure all its parameters that can be measured on this processor.

    calibrate(load_machine("x86-avx512"), None, 10.0)  ->  Profile

Nothing here knows a machine or an instruction: functions are generated from the description, compiled as the
description says, and called in a child process with limits.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from datetime import UTC, datetime
from difflib import get_close_matches
from itertools import accumulate
from math import sqrt
from pathlib import Path

import numpy as np

from isamap.emit.timing_source import Timing, timing_source
from isamap.machine import Machine, MachineInstruction, caches_from_nearest, missing_features
from isamap.machine.allowed import permission_numbers
from isamap.machine.processor import SystemCache, system_caches, this_cpu
from isamap.report.columns import bytes_text
from isamap.run.blame import Emissions
from isamap.run.clocking import PAGE, Timed, TimingPlan, time_all
from isamap.run.toolchain import Compiler, build, find_compiler
from isamap.source import MissingTool, Source, UsageProblem, replace
from isamap.source.numbers import Spread
from isamap.source.progress import Limited
from isamap.tune.bandwidth import Stream, bandwidth_figures, stream_source, streams, widest_moves
from isamap.tune.clocked import CANNOT, copies, has_two_processors, thread_files, time_copy, timed_threads
from isamap.tune.instruction_times import TimedInstruction, ask, figure, time_operands
from isamap.tune.measured_parameters import (
    BandwidthFigure,
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
from isamap.tune.row_starts import row_figures
from isamap.tune.row_streams import piece_figure, stream_figure

# --- real caches ----------------------------------------------------------------------------------------

# Measure the usable capacity of caches on this processor, and the time for which they keep lines.
#
# The operating system reports the size of each cache; the description's caches correspond to the system's in
# order, the nearest first. A guest sees the size of the whole last cache, which it shares with others. The
# capacity that counts is the size up to which reads run at the speed of a cache. For 48 MiB in 12 ways,
#
#     2.5   3     4     6     9     12    18    24    MiB are read in sequence at
#     32.5  31.9  31.7  31.3  24.0  14.1  11.4  11.5  bytes per ns,
#
# so 6 MiB are read like a cache. They are three quarters of 8 MiB, or of two ways, which is the result. In
# sequence most misses are prefetched, so a small slowdown here may be a large one in pieces of rows
# (docs/decisions/0020-memory-model.md). Load of other guests only makes reads slower, so each probe counts as
# no slower than any larger one.
#
# A guest of a large machine shares its last cache with other guests, and perhaps its core. A buffer that is
# read repeatedly stays near, but a buffer that is used again after some milliseconds of computing is evicted.
# The probe reads a buffer, waits, and times a second read. 8 MiB in the last cache of a guest with two cores
# of thirty-two,
#
#     0     0.3   1     3     10    ms after they were read, are read again at
#     30    30    24    13    11    bytes per ns, of which the last is the speed of memory.


# How much of a cache is read in sequence without misses, though the system puts pages of 4 KiB anywhere: of a
# full one, every other set has more lines than ways. Working sets may take as much of it in the cost model.
FILLED = 0.75
# What takes so much longer in sequence than just behind the cache before comes out of memory, for a part that
# shows where nothing is fetched ahead. Emerald Rapids reads 128 MiB in 1.12 times what 4 MiB take, 192 MiB in
# 1.39; the above 6 MiB in 1.04 times, and 9 MiB in 1.35. Where the curve has no knee, reading a working set
# that counts as held takes no more than this beyond what is said of it.
MISSED = 1.15
PARTS = 16  # where the system does not say how many ways a cache has


def reported_caches(machine: Machine, system: tuple[SystemCache, ...]) -> tuple[CacheFigure, ...]:
    """Return the sizes of a description's caches as the operating system reports them, nearest first."""
    names = caches_from_nearest(machine)
    known = [
        CacheFigure(name, cache.size_bytes, cache.ways, cache.line_bytes, cache.size_bytes, "as reported")
        for name, cache in zip(names, system, strict=False)
    ]
    unknown = [
        CacheFigure(name, None, None, None, None, "the system reports no such cache; as stated")
        for name in names[len(known) :]
    ]
    return (*known, *unknown)


def probes(machine: Machine, system: tuple[SystemCache, ...]) -> tuple[Stream, ...]:
    """Return the reads from which `usable_bytes` determines the usable part of the system's last cache.

    The result is None if the description lacks that cache, or an instruction that reads it.
    """
    names, moves = caches_from_nearest(machine), widest_moves(machine)
    if moves is None or not parts(system) or len(system) > len(names):
        return ()
    sizes = (_near_bytes(system), *(int(FILLED * part) for part in parts(system)))
    return tuple(Stream(names[len(system) - 1], "read", size, *moves) for size in sizes)


def parts(system: tuple[SystemCache, ...]) -> tuple[int, ...]:
    """Return possible usable sizes of the last cache, smallest first: all ways, or fewer. Units: bytes.

    Return none if no cache is before it, whose speed shows that the last one was read.
    """
    if len(system) < 2:
        return ()
    ways = system[-1].ways or PARTS
    counts = [ways]
    while counts[-1] > 1:
        counts.append(counts[-1] * 3 // 4)
    found = (system[-1].size_bytes * count // ways for count in reversed(counts))
    return tuple(size for size in found if FILLED * size > _near_bytes(system))


def _near_bytes(system: tuple[SystemCache, ...]) -> int:
    """Return the size of a buffer that fits into the last cache but not into the one before."""
    return 2 * system[-2].size_bytes


def usable_bytes(system: tuple[SystemCache, ...], took_ns: Sequence[float]) -> int:
    """Return the usable bytes of the last cache, from the least ns per byte of each probe."""
    undisturbed = list(accumulate(reversed(took_ns), min))[::-1]
    sizes = (_near_bytes(system), *parts(system))
    held = (size for size, took in zip(sizes, undisturbed, strict=True) if took <= MISSED * undisturbed[0])
    return max(held)


def least_of(figure: CacheFigure, again: CacheFigure) -> CacheFigure:
    """Return a cache from two measurements: the smaller usable size, and the shorter retention time.

    None of `kept_ns` means that no limit is known: the other one applies.
    """
    less = min(figure, again, key=lambda f: f.size_bytes or 0)
    kept = [f.kept_ns for f in (figure, again) if f.kept_ns is not None]
    return replace(less, kept_ns=min(kept, default=None))


def with_usable(figure: CacheFigure, usable: int) -> CacheFigure:
    """Return the last cache's parameters with the usable size, and with its ways reduced in proportion."""
    whole = figure.reported_bytes
    assert whole is not None, "only a cache that the system reports is read"
    if usable >= whole:
        return replace(figure, said="as reported, and read like a cache")
    ways = None if figure.ways is None else max(1, figure.ways * usable // whole)
    said = f"{bytes_text(whole)} reported, of which {bytes_text(usable)} are read like a cache"
    return replace(figure, size_bytes=usable, ways=ways, said=said)


# One core reads memory at a half to a third of the speed of a last cache; nearer ones nothing tells apart.
SLOWER = 1.5
WAITS_NS = tuple(31_250 << n for n in range(11))  # up to 32 ms: few kernels come back to a cache so late

SAMPLER = Path(__file__).with_name("cache_sampler.c").read_text(encoding="utf-8")


def kept_streams(machine: Machine, ways: Sequence[Stream]) -> tuple[Stream, ...]:
    """Return the read streams of all caches except the nearest. Other cores may share these caches."""
    shared = caches_from_nearest(machine)[1:]
    return tuple(stream for stream in ways if stream.access == "read" and stream.memory in shared)


def kept_calls(streams: Sequence[Stream], library: int) -> list[Timed]:
    """Return the timed calls of each stream: one without a wait, and one for each waiting time."""
    calls: list[Timed] = []
    for number, stream in enumerate(streams):
        once = stream.timed(library, number)
        for wait_ns in (0, *WAITS_NS):
            # What takes a nanosecond at least is one trip: a second one would find everything near.
            numbers = (*once.numbers, wait_ns)
            calls.append(Timed(library, once.function, once.data, numbers, once.per_trip, 1))
    return calls


def kept_ns(
    stream: Stream, results: Sequence[Spread | str], machine: Machine, bandwidths: Sequence[BandwidthFigure]
) -> int | None:
    """Return how long a cache retains most of an unaccessed buffer, or None if no limit was found.

    Return None if it outlasts all waits, if nothing was measured, or if the next memory is hardly slower, so
    that the times do not differ. `results` are those of `kept_calls` for the stream. A buffer counts as lost
    if reading it takes more than the geometric mean of an immediate read and a read of the next memory. One
    lost at once is kept while it is read. Lines are lost one by one, and half of them may be gone by that
    time: half of the longest wait counts.
    """
    behind = _source_ns_per_byte(stream.memory, machine, bandwidths)
    took = [r for r in results if isinstance(r, Spread)]
    if behind is None or len(took) < 1 + len(WAITS_NS) or behind < SLOWER * took[0].middle:
        return None
    # Not the middle of what was waited for: others are not always as quiet as half of the time.
    near_ns, waited = took[0].middle, [spread.high for spread in took[1:]]
    lost_ns = sqrt(near_ns * behind)
    lost = [took_ns > lost_ns for took_ns in waited]
    # One slow wait between two others is chance; the last one has none behind it.
    first = next((n for n, pair in enumerate(zip(lost, [*lost[1:], True], strict=True)) if all(pair)), None)
    if first is None:
        return None
    kept = WAITS_NS[first - 1] // 2 if first else 0
    return kept + int(near_ns * stream.size_bytes)  # a byte is not touched while the others are read


def _source_ns_per_byte(memory: str, machine: Machine, bandwidths: Sequence[BandwidthFigure]) -> float | None:
    """Return the time per byte of the memory that a cache loads from, or None if unmeasured. Units: ns."""
    caches = caches_from_nearest(machine)
    read = {b.memory: b.ns_per_byte.middle for b in bandwidths if b.access == "read"}
    farther = [*caches[caches.index(memory) + 1 :], *(name for name in read if name not in caches)]
    return next((read[name] for name in farther if name in read), None)


# --- calibrate ------------------------------------------------------------------------------------------


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

    Units: `budget_s` is for sampling. Compiling comes on top. Raises: MissingTool if this processor cannot
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
    watch(Limited(f"measure for {sampling_s:g} s", sampling_s))
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
    """Return the profile with a retention time for each cache except the nearest."""
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
    """Return the profile with row start times, measured with matrices of the size of the bandwidth buffers."""
    read = [b for b in profile.bandwidths if b.access == "read"]
    sizes, took = {b.memory: b.size_bytes for b in read}, {b.memory: b.ns_per_byte.least for b in read}
    found = list(row_figures(lay_over(machine, profile), sizes, took, watch, rng))
    return replace(
        profile,
        rows=tuple(r for r in found if isinstance(r, RowFigure)),
        unmeasured_rows=tuple(r for r in found if isinstance(r, Unmeasured)),
    )


def _with_streams(machine: Machine, profile: Profile, rng: np.random.Generator, watch: Watch) -> Profile:
    """Return the profile with the times of rows along a sum, and of long pieces, in memory beyond all caches."""
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
    """Return the sizes of this computer's caches, with the usable part of the last one."""
    system = system_caches()
    figures = list(reported_caches(machine, system))
    tried = probes(machine, system)
    if tried:
        watch(Limited(f"read the last cache for {budget_s:g} s", budget_s))
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
) -> TimingPlan:
    return TimingPlan(
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
    """Yield the measured packing time for each type, or the reason why it is unknown. Raises: MissingTool."""
    for copy in copies():
        watch(f"packing: {copy.way} of {copy.dtype}")
        try:
            found = time_copy(copy, machine, rng)
        except CANNOT as problem:
            found = UnmeasuredPacking(copy.way, copy.dtype, problem.diagnostics[0].message)
        if found is not None:
            yield found


def check_runs_here(machine: Machine) -> None:
    """Check that this processor can run a machine's instructions. Raises: MissingTool."""
    missing = missing_features(machine)
    if missing or machine.target.run != "native" or machine.levels:
        why = (
            f"this processor lacks {', '.join(missing)}"
            if missing
            else "this processor does not run it itself"
        )
        raise MissingTool.of(
            "calibrate-elsewhere",
            f"{machine.name} cannot be measured here: {why}",
            help="`isamap hw list` says which machines run here; `host` is the one that fits best",
        )


def _entries(machine: Machine, names: Collection[str] | None) -> tuple[MachineInstruction, ...]:
    for name in names or ():
        if name not in machine.instructions:
            near = get_close_matches(name, machine.instructions, n=1)
            raise UsageProblem.of(
                "unknown-instruction",
                f"{machine.name} has no instruction `{name[:80]}`",
                help=f"did you mean `{near[0]}`?" if near else f"see `isamap hw show {machine.called}`",
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
        calls += [time_operands(machine, timing, len(libraries), rng) for timing in group]
        libraries.append(_build(machine, compiler, timing_source(machine, group)))
    return libraries, calls


def _build(machine: Machine, compiler: Compiler, source: str) -> Path:
    return build(compiler, machine.target.flags, {"timing.c": source}, "timing.c", Emissions(machine))


def _profile(
    machine: Machine,
    compiler: str,
    when: str,
    asked: Sequence[TimedInstruction],
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
