"""Run all rows of a benchmark, and store each one, so that a stopped run can be resumed.

It also records the environment of a run, so that its numbers can be interpreted later.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from importlib.metadata import PackageNotFoundError, version
from math import ceil
from pathlib import Path
from time import perf_counter
from typing import Any, Generic

from isamap.bench.cases import Types
from isamap.bench.ceilings import (
    Bandwidths,
    Peaks,
    attainable,
    mapped_tile,
    measure_bandwidths,
    padded_operations,
)
from isamap.bench.contender import Contender
from isamap.bench.kept_rows import Row, cores_for, keep_environment, open_rows, rows_in_turn
from isamap.bench.kind import C, CaseKind, MeasuringRules
from isamap.bench.libraries import HOLDS
from isamap.bench.packed_libraries import packs_of
from isamap.bench.paired_timing import Ratio, play, ratio
from isamap.bench.predictions import predicted_ns
from isamap.bench.ring import Shared, Task, fastest_bytes_per_ns, readings
from isamap.bench.timed_loops import FLAGS, build_loops
from isamap.driver.request import BEST_FORM, Request
from isamap.driver.runnable import PreparedKernel, prepare
from isamap.machine.processor import cpu_facts, system_caches, this_cpu
from isamap.run.arguments import make_call
from isamap.run.toolchain import find_compiler
from isamap.source import IsamapError, asdict, dataclass, replace
from isamap.source.progress import Watch, unwatched
from isamap.tune.profile import Profile
from isamap.version import __version__

# --- measure --------------------------------------------------------------------------------------------

# Measure one row: compile it, prepare all contenders, verify their results, and time them in alternation.


MOST_RING = 1024  # twice the caches of today in copies of the smallest products of the suite


@dataclass(frozen=True, slots=True)
class Bench:
    """Contenders and the measured hardware limits."""

    contenders: Sequence[Contender]
    bandwidths: Bandwidths
    peaks: Peaks


def empty_row(kind: CaseKind[C], case: C, form: Types, rules: MeasuringRules, left_out: str = "") -> Row:
    """Return the row of a case before it is measured."""
    return Row(
        case.position, case.suite, kind.name, case.label, case.class_name, case.sizes, form.name,
        case.operations, rules.beta, rules.threads, rules.cache, rules.packed, left_out=left_out,
    )  # fmt: skip


def measure_row(kind: CaseKind[C], case: C, form: Types, rules: MeasuringRules, bench: Bench) -> Row:
    """Return the measured row. A row that is slower than a baseline is measured twice. Raises: IsamapError."""
    row, work = empty_row(kind, case, form, rules), kind.work(case, form, rules.beta)
    held = work.held + (len(bench.contenders) * work.weights if rules.packed else 0)
    if 2 * held > rules.memory_bytes:
        said = f"{held / 1e9:.1f} GB of operands; {rules.memory_bytes / 1e9:.1f} GB may be used"
        return replace(row, left_out=said)
    started = perf_counter()
    prepared = _compile_case(kind, case, form, rules)
    row = replace(row, compile_seconds=perf_counter() - started, ring=ring_of(work.held, held, rules))
    with Shared(kind.values(case, form), kind.written, row.ring) as shared:
        row = _time_row(row, kind, case, form, rules, bench.contenders, shared, prepared)
    if not row.seconds:
        return row
    bandwidths = bench.bandwidths
    if row.reading_bytes_per_ns:
        bandwidths = Bandwidths(((0, row.reading_bytes_per_ns),))
    # The least times by arithmetic and by reading. Units: seconds.
    made = prepared.program.compilation
    tile = mapped_tile(made)
    operations = padded_operations(tile) if work.operations is None else work.operations
    roofs = attainable(
        operations, bench.peaks.of(tile, made), work.read, work.live * row.ring, bandwidths, row.threads
    )
    bound_by = max(roofs, key=lambda name: roofs[name])
    return replace(
        row, attainable_seconds=roofs[bound_by], bound_by=bound_by, predicted_ns=predicted_ns(prepared)
    )


def _time_row(
    row: Row,
    kind: CaseKind[C],
    case: C,
    form: Types,
    rules: MeasuringRules,
    contenders: Sequence[Contender],
    shared: Shared,
    prepared: PreparedKernel,
) -> Row:
    """Return the row with times and ratios of the contenders with right results."""
    program = program_of(prepared, shared, rules.threads)
    task = Task(
        kind.name, case, form.name, shared.places, rules.loops, program, rules.beta, shared.ring, rules.packed
    )
    present = [c for c in contenders if c.prepare(task)]
    verified = {c.name: kind.is_right(c, case, form, rules.beta, shared) for c in present}
    timed = [c for c in present if verified[c.name]]
    row = replace(
        row,
        verified=verified,
        implementation={c.name: c.implementation for c in present},
        in_c={c.name: c.in_c for c in present},
        dispatch_ns={c.name: c.dispatch_ns for c in present if not c.in_c},
    )
    if not verified.get("isamap"):
        return replace(row, left_out="isamap's result is wrong")
    reads_alone = rules.cache == "rotate" and rules.threads == 1 and not rules.packed
    readers = readings(rules.loops, shared.arrays[kind.weights[0]]) if reads_alone else ()
    seconds = play([*timed, *readers], rules.seconds, shared)
    rate = fastest_bytes_per_ns(readers, seconds)
    seconds = {name: times for name, times in seconds.items() if name in verified}
    ratios = _ratios(seconds)
    again: Mapping[str, Ratio] = {}
    if any(r.is_slower for r in ratios.values()):
        again = _ratios(play(timed, rules.seconds, shared))
    return replace(
        row,
        seconds=seconds,
        ratio={n: asdict(r) for n, r in ratios.items()},
        again={n: asdict(r) for n, r in again.items()},
        reading_bytes_per_ns=rate,
    )


def ring_of(needed: int, held: int, rules: MeasuringRules) -> int:
    """Return the number of copies of the operands that exceed twice the caches, within the available memory.

    Units: bytes. `held` is the size of a copy with the contenders' packed operands.
    """
    if rules.cache == "warm" or needed > 2 * rules.caches_bytes:
        return 1
    return max(1, min(ceil(2 * rules.caches_bytes / needed) + 1, MOST_RING, rules.memory_bytes // held))


def _compile_case(kind: CaseKind[C], case: C, form: Types, rules: MeasuringRules) -> PreparedKernel:
    request = Request(
        kind.source(case, form, rules.beta), rules.machine, case.bindings, limit_s=rules.limit_s,
        transform=BEST_FORM, threads=rules.threads, profile=rules.profile,
        packed=kind.weights if rules.packed else (), cold=rules.cache == "rotate",
    )  # fmt: skip
    return prepare(request)


def program_of(prepared: PreparedKernel, shared: Shared, threads: int) -> dict[str, object]:
    """Return as plain data how to call the emitted library on shared operands."""
    interface = prepared.compiled.interface
    arrays = {name: copies[0] for name, copies in shared.arrays.items()}
    packs, packed = packs_of(prepared.packers, arrays)
    call = make_call(interface, arrays | packed, {}, {}, in_place=True)
    nests = prepared.program.compilation.schedule
    assert nests is not None
    return {
        "library": str(prepared.compiled.library),
        "function": interface.name,
        "fields": call.fields,
        "tensors": [t.name for t in call.tensors],
        "permissions": prepared.compiled.permissions,
        "pool": str(prepared.compiled.pool) if prepared.compiled.pool and threads > 1 else None,
        "implementation": "; ".join(nest.mapping for nest in nests.nests),
        "packs": packs,
    }


def _ratios(seconds: Mapping[str, Sequence[float]]) -> dict[str, Ratio]:
    return {name: ratio(seconds["isamap"], times) for name, times in seconds.items() if name != "isamap"}


# --- campaign -------------------------------------------------------------------------------------------


LIBRARIES = ("torch", "mkl", "onnxruntime", "numpy", "ortools")


def environment(machine: str, compiler: str, cores: frozenset[int]) -> dict[str, object]:
    """Return the CPU, compiler, library versions and affinity, and whether the machine is a virtual one."""
    return {
        "isamap": __version__,
        "machine": machine,
        "cpu": this_cpu().name,
        "cores": sorted(cores),
        "caches_bytes": {f"l{n}": c.size_bytes for n, c in enumerate(system_caches(), 1)},
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "virtual_machine": "hypervisor" in cpu_facts().get("flags", "").split(),
        "load_average": os.getloadavg()[0],
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "compiler": compiler,
        "libraries": {name: _version(name) for name in LIBRARIES},
    }


def caches_bytes() -> int:
    """Return the bytes of all data caches that one core uses."""
    return sum(cache.size_bytes for cache in system_caches())


def free_bytes() -> int:
    """Return the memory that is available without swapping."""
    for line in Path("/proc/meminfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_AVPHYS_PAGES")


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


@dataclass(frozen=True, slots=True)
class Campaign(Generic[C]):
    """The settings of a benchmark run. Units: `seconds` to time a row, `limit_s` of the solver per row.

    `hold` names an instruction set to which the baselines are limited. `folder` keeps the rows. `packed`
    lets every contender pack its weights before. No row is started after `minutes`.
    """

    kind: CaseKind[C]
    cases: Sequence[C]
    forms: Sequence[Types]
    machine: str
    against: Sequence[str]
    threads: int = 1
    beta: int = 0
    cache: str = "warm"
    seconds: float = 4.0
    limit_s: float = 10.0
    hold: str | None = None
    folder: Path | None = None
    resume: bool = False
    profile: Profile | None = None
    packed: bool = False
    minutes: float | None = None

    def rules(self, loops: str) -> MeasuringRules:
        """Return the rules by which its rows are measured, with the timed loops from `loops`."""
        return MeasuringRules(
            self.machine, self.threads, self.beta, self.cache, self.seconds, free_bytes() // 2,
            caches_bytes(), self.limit_s, loops, self.profile, self.packed,
        )  # fmt: skip


def run_campaign(
    campaign: Campaign[Any], watch: Watch = unwatched
) -> tuple[tuple[Row, ...], dict[str, object]]:
    """Return the rows, and the environment of their measurement. Raises: UsageProblem, MissingTool.

    Rows that are not reached within `minutes` say so in `left_out`.
    """
    cores = cores_for(campaign.threads)
    known = open_rows(campaign.folder, campaign.resume, Row.from_json)
    loops = build_loops()
    digest = campaign.profile.digest if campaign.profile else None
    where = {"profile": digest} | environment(campaign.machine, find_compiler(FLAGS).version, cores)
    keep_environment(campaign.folder, where)
    rules = campaign.rules(loops)
    watch("bandwidths")
    bandwidths = measure_bandwidths(loops)
    held: Mapping[str, str] = HOLDS[campaign.hold] if campaign.hold else {}
    asked = [(case, form) for case in campaign.cases for form in campaign.forms]
    empty = [empty_row(campaign.kind, case, form, rules) for case, form in asked]
    with ExitStack() as stack:
        contenders = [
            stack.enter_context(Contender(name, campaign.threads, held, cores))
            for name in ("isamap", *campaign.against)
        ]
        bench = Bench(contenders, bandwidths, Peaks())
        rows = rows_in_turn(
            empty,
            known,
            lambda index: _row(campaign.kind, *asked[index], rules, bench),
            lambda row, said: replace(row, left_out=said),
            campaign.folder,
            campaign.minutes,
            watch,
        )
    return rows, where


def _row(kind: CaseKind[C], case: C, form: Types, rules: MeasuringRules, bench: Bench) -> Row:
    """Return the measured row. A row that cannot be compiled has the reason instead."""
    try:
        return measure_row(kind, case, form, rules, bench)
    except IsamapError as error:
        said = "; ".join("; ".join((d.message, *d.notes[-2:])) for d in error.diagnostics)
        return empty_row(kind, case, form, rules, said)
