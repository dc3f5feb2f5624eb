"""Run all rows of a benchmark, and store each one, so that a stopped run can be resumed.

It also records the environment of a run, so that its numbers can be interpreted later.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from importlib.metadata import PackageNotFoundError, version
from math import ceil, prod
from pathlib import Path
from time import perf_counter
from typing import Any, Generic

import numpy as np

from isamap.bench.cases import Types
from isamap.bench.contender import Contender
from isamap.bench.kept_rows import Row, cores_for, keep_environment, open_rows, rows_in_turn
from isamap.bench.kind import C, CaseKind, MeasuringRules
from isamap.bench.libraries import HOLDS
from isamap.bench.packed_libraries import packs_of
from isamap.bench.paired_timing import Ratio, play, ratio
from isamap.bench.predictions import predicted_ns
from isamap.bench.ring import Shared, Task, fastest_bytes_per_ns, readings
from isamap.bench.timed_loops import FLAGS, build_loops, load_loops
from isamap.driver.pipeline import Compilation
from isamap.driver.request import BEST_FORM, Request
from isamap.driver.runnable import PreparedKernel, prepare
from isamap.emit.c import emit_c
from isamap.formulate.matches import chosen_tile
from isamap.ir import Index, Kernel, Read
from isamap.lower.load_issues import Emitter
from isamap.lower.program import For, Issue, LoweredProgram, Names, Node, RegisterRef, Tensor, Value
from isamap.lower.registers import configured_span, number_registers
from isamap.machine import EmitCall, Machine, cost_params, cost_value
from isamap.machine.processor import cpu_facts, system_caches, this_cpu
from isamap.match import (
    MoveSearch,
    OperandTile,
    Tile,
    coordinate_names,
    find_operand_load,
    find_operand_store,
)
from isamap.run.arguments import make_call
from isamap.run.in_process import InProcess
from isamap.run.toolchain import compile_library, find_compiler
from isamap.source import IsamapError, asdict, dataclass, field, replace
from isamap.source.progress import Watch, unwatched
from isamap.transform import statements
from isamap.tune.calibrate import calibrate
from isamap.tune.overlay import lay_over
from isamap.tune.profile import Profile
from isamap.version import __version__

# --- ceilings -------------------------------------------------------------------------------------------

# Measure the upper limits of this processor: the peak rate of an instruction, and bandwidths by cache level.
#
# attainable(…) -> operations on whole tiles / peak, bytes / bandwidth of where they live: the larger decides
#
# The peak is measured with independent chains of the instruction that a compiled kernel's schedule chose, and
# nothing else in the loop. Its operands are loaded once, by the loads that the machine's description offers,
# and hold random non-zero data. An emission of several nested C calls is timed as calibration times it,
# because compilers would hoist a part of `add(c, madd(a, b))` out of the loop.


TRIPS = 1_000_000  # long against the call from Python
CALIBRATED_S = 0.5


def peak_program(tile: Tile, machine: Machine, chains: int) -> LoweredProgram:
    """Return a program that issues a mapping's instruction on `chains` accumulators in rotation, TRIPS times."""
    acc = tile.accumulator
    assert acc is not None, "a peak is that of an accumulating instruction"
    operands = (*tile.inputs, acc)
    # A chain of its own data each: a compiler makes one of chains that compute the same.
    shapes = {o.name: ((chains, *o.shape) if o is acc else (1, *o.shape)) for o in operands}
    tensors = tuple(
        Tensor(
            f"in_{o.name}",
            "inout" if o is acc else "in",
            o.dtype,
            tuple(Index.of(s) for s in shapes[o.name]),
            _dense(shapes[o.name]),
        )
        for o in operands
    )
    search = MoveSearch(machine, {t.name: t.strides for t in tensors})
    emitter = Emitter(Names({t.name for t in tensors}))
    inputs = [(o.name, RegisterRef(_load(o, search, emitter).name)) for o in tile.inputs]
    held: list[Value] = []
    for chain in range(chains):
        held.append(_load(acc, search, emitter, chain))
        emitter.known.clear()
    issues: tuple[Node, ...] = tuple(
        Issue(tile.mapping.instruction, (*inputs, (acc.name, RegisterRef(v.name))), tile.params) for v in held
    )
    after = Emitter(emitter.names)
    for chain, value in enumerate(held):
        _store(acc, value, search, after, chain)
    nodes = (*emitter.nodes, For("trip", Index.of(TRIPS), issues), *after.nodes)
    body = configured_span(number_registers(nodes, machine), machine)
    return LoweredProgram("peak", Kernel("peak", (), (), ()), machine.name, (), (), tensors, (), body)


def measure_peak(tile: Tile, machine: Machine, rounds: int = 15) -> float:
    """Return the best rate over several numbers of chains. Units: operations per nanosecond (an addition is one)."""
    emit = machine.instructions[tile.mapping.instruction].emit
    if isinstance(emit, EmitCall) and len(emit.functions) > 1:
        # The issue rate with operands hidden from the compiler and with the parameters of this tile.
        name = tile.mapping.instruction
        profile = calibrate(machine, (name,), CALIBRATED_S)
        assert any(f.interval for f in profile.figure(name)), "what is scheduled and runs here can be timed"
        measured = lay_over(machine, profile)
        item = measured.instructions[name]
        units = max(1, measured.units[item.cost.unit].count)
        interval_ns = (
            cost_value(item.cost.interval_ns, cost_params(item, measured, dict(tile.params))) / units
        )
        return 2 * prod(a.tile for a in tile.axes) / interval_ns
    count = max(m.count or 0 for m in machine.memories.values() if m.name == _register_memory(tile))
    best = 0.0
    for chains in sorted({max(1, count - len(tile.inputs) - 2), max(1, count // 2), 10, 8, 4}):
        if chains + len(tile.inputs) > count:
            continue
        program = peak_program(tile, machine, chains)
        run = InProcess(compile_library(emit_c(program, machine), machine))
        arrays = {t.name: _random(t) for t in program.tensors}
        operations = 2 * prod(a.tile for a in tile.axes) * chains * TRIPS
        best = max(best, operations / min(_seconds(run, arrays) for _ in range(rounds)) / 1e9)
    return best


def _register_memory(tile: Tile) -> str:
    assert tile.accumulator is not None
    return tile.accumulator.memory


def _seconds(run: InProcess, arrays: dict[str, np.ndarray]) -> float:
    import time

    started = time.perf_counter()
    assert run(arrays) == 0
    return time.perf_counter() - started


def _dense(shape: tuple[int, ...]) -> tuple[Index, ...]:
    return tuple(Index.of(prod(shape[d + 1 :])) for d in range(len(shape)))


def _random(tensor: Tensor) -> np.ndarray:
    rng = np.random.default_rng(1)
    shape = tuple(int(s.value or 1) for s in tensor.shape)
    if tensor.dtype.is_float:
        return (rng.standard_normal(shape) * 1e-3).astype(tensor.dtype.numpy())
    return rng.integers(1, 100, shape).astype(tensor.dtype.numpy())


def _load(operand: OperandTile, search: MoveSearch, emitter: Emitter, chain: int = 0) -> Value:
    here = tuple(Index.of(d) for d in coordinate_names(len(operand.shape)))
    source = Read(f"in_{operand.name}", (Index.of(chain), *here), operand.dtype)
    found = find_operand_load(search, operand.request({}, expr=source))
    assert found is not None, f"nothing loads {operand.name}"
    return emitter.value(found, {})


def _store(acc: OperandTile, value: Value, search: MoveSearch, emitter: Emitter, chain: int) -> None:
    here = tuple(Index.of(d) for d in coordinate_names(len(acc.shape)))
    target = Read(f"in_{acc.name}", (Index.of(chain), *here), acc.dtype)
    found = find_operand_store(search, target, acc.held, acc.memory, acc.dtype, acc.request({}))
    assert found is not None, f"nothing stores {acc.name}"
    emitter.deliver(found, {}, value)


SIZES_BYTES = tuple(part << power for power in range(13, 27) for part in (2, 3))


@dataclass(frozen=True, slots=True)
class Bandwidths:
    """Read bandwidth of one core by the size of a repeatedly read buffer. Units: bytes per nanosecond."""

    measured: tuple[tuple[int, float], ...]

    def at(self, size_bytes: int) -> float:
        """Return the bandwidth at a buffer size. It is at least the bandwidth at any larger size.

        The largest measured size that does not exceed it decides; a bandwidth reached at a larger size is
        possible, too.
        """
        below = max((size for size, _ in self.measured if size <= size_bytes), default=0)
        return max(rate for size, rate in self.measured if size >= below)


def measure_bandwidths(loops: str, rounds: int = 5) -> Bandwidths:
    """Read buffers of growing size with the widest loads of this processor, in one stream and in eight."""
    import ctypes

    library = load_loops(loops)
    data = np.random.default_rng(0).integers(1, 255, SIZES_BYTES[-1] + 64, dtype=np.uint8)
    address = -(-data.ctypes.data // 64) * 64
    sink = ctypes.c_int64(0)
    found: list[tuple[int, float]] = []
    for size in SIZES_BYTES:
        calls = max(1, SIZES_BYTES[-1] // size)
        timed = (library.time_reads, library.time_streams) * rounds
        best = min(read(address, size, calls, ctypes.addressof(sink)) for read in timed)
        found.append((size, size * calls / best))
    return Bandwidths(tuple(found))


def mapped_tile(made: Compilation) -> Tile:
    """Return the tile of the largest sum in a compiled kernel, as its schedule maps it."""
    assert made.canonical is not None
    assert made.machine is not None
    assert made.schedule is not None
    known = statements(made.canonical)
    sums = [nest for nest in made.schedule.nests if known[nest.statement].assign.op is not None]
    nest = max(sums, key=lambda n: prod(axis.extent.value or 1 for axis in known[n.statement].axes))
    return chosen_tile(known[nest.statement], made.machine, nest)


@dataclass(slots=True)
class Peaks:
    """Peaks of instructions, each measured once. Units: operations per nanosecond."""

    known: dict[str, float] = field(default_factory=dict[str, float])

    def of(self, tile: Tile, made: Compilation) -> float:
        """Return the peak of a tile's instruction."""
        assert made.machine is not None
        name = f"{tile.mapping.instruction} {tile.params}"
        if name not in self.known:
            self.known[name] = measure_peak(tile, made.machine, rounds=7)
        return self.known[name]


def padded_operations(tile: Tile) -> int:
    """Return the operations of all issues. Each issue counts as a whole tile."""
    extents = [axis.extent.value or 1 for axis in tile.axes]
    tiles = [axis.tile for axis in tile.axes]
    return 2 * prod(-(-extent // tile) * tile for extent, tile in zip(extents, tiles, strict=True))


def attainable(
    operations: int,
    peak: float,
    traffic_bytes: int,
    working_set_bytes: int,
    bandwidths: Bandwidths,
    threads: int,
) -> dict[str, float]:
    """Return the two lower bounds on the time: by arithmetic and by reading. Units: seconds.

    Units: `peak` in operations per nanosecond and core.
    """
    rate = bandwidths.at(working_set_bytes // threads)
    return {
        "arithmetic": operations / (peak * threads) * 1e-9,
        "reading": traffic_bytes / (rate * threads) * 1e-9,
    }


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
