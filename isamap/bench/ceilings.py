"""Measure the upper limits of this processor: the peak rate of an instruction, and bandwidths by cache level.

attainable(…) -> operations on whole tiles / peak, bytes / bandwidth of where they live: the larger decides

The peak is measured with independent chains of the instruction that a compiled kernel's schedule chose, and
nothing else in the loop. Its operands are loaded once, by the loads that the machine's description offers,
and hold random non-zero data. An emission of several nested C calls is timed as calibration times it,
because compilers would hoist a part of `add(c, madd(a, b))` out of the loop.
"""

from __future__ import annotations

from math import prod

import numpy as np

from isamap.bench.timed_loops import load_loops
from isamap.driver.pipeline import Compilation
from isamap.emit.c import emit_c
from isamap.formulate.matches import chosen_tile
from isamap.ir import Index, Kernel, Read
from isamap.lower.load_issues import Emitter
from isamap.lower.program import For, Issue, LoweredProgram, Names, Node, RegisterRef, Tensor, Value
from isamap.lower.registers import configured_span, number_registers
from isamap.machine import EmitCall, Machine, cost_params, cost_value
from isamap.match import (
    MoveSearch,
    OperandTile,
    Tile,
    coordinate_names,
    find_operand_load,
    find_operand_store,
)
from isamap.run.in_process import InProcess
from isamap.run.toolchain import compile_library
from isamap.source.records import dataclass, field
from isamap.transform import statements
from isamap.tune.calibrate import calibrate
from isamap.tune.overlay import lay_over

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
