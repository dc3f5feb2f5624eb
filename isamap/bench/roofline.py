"""What this processor could do at best: the peak of the very instruction, the bandwidth of a cache level.

attainable_seconds(...) = max(operations on whole tiles / peak, bytes / bandwidth of where they live)
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod

import numpy as np

from isamap.bench.loops import load_loops
from isamap.bench.peak import measure_peak
from isamap.driver.pipeline import Compilation
from isamap.match import Tile
from isamap.posing.matches import chosen_tile
from isamap.transform import statements

SIZES_BYTES = tuple(part << power for power in range(13, 27) for part in (2, 3))


@dataclass(frozen=True, slots=True)
class Bandwidths:
    """Read bandwidth of one core by the size of what is read over and over. Units: bytes per nanosecond."""

    measured: tuple[tuple[int, float], ...]

    def at(self, size_bytes: int) -> float:
        """That of the level where so many bytes live, and of no slower one.

        The largest size measured that is not above decides; what a larger one has reached, it can reach, too.
        """
        below = max((size for size, _ in self.measured if size <= size_bytes), default=0)
        return max(rate for size, rate in self.measured if size >= below)


def measure_bandwidths(loops: str, rounds: int = 5) -> Bandwidths:
    """Reads buffers of growing size with the widest loads of this processor, in one stream and in eight."""
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
    """The tile of a compiled kernel's largest sum, as its schedule maps it."""
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
        """The peak of a tile's instruction."""
        assert made.machine is not None
        name = f"{tile.mapping.instruction} {tile.params}"
        if name not in self.known:
            self.known[name] = measure_peak(tile, made.machine, rounds=7)
        return self.known[name]


def padded_operations(tile: Tile) -> int:
    """Operations of all issues, whole tiles counted: what the instruction cannot do with fewer of."""
    extents = [axis.extent.value or 1 for axis in tile.axes]
    tiles = [axis.tile for axis in tile.axes]
    return 2 * prod(-(-extent // tile) * tile for extent, tile in zip(extents, tiles, strict=True))


def attainable_seconds(
    operations: int,
    peak: float,
    traffic_bytes: int,
    working_set_bytes: int,
    bandwidths: Bandwidths,
    threads: int,
) -> float:
    """The least time by the two roofs. Units: `peak` per nanosecond and core."""
    compute = operations / (peak * threads)
    traffic = traffic_bytes / (bandwidths.at(working_set_bytes // threads) * threads)
    return max(compute, traffic) * 1e-9
