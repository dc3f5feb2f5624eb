"""Time the accesses that the lanes of a machine make for one instruction, by the addresses of all lanes.

    32 lanes access words of 4 bytes                   of 32 banks              of sectors of 32 bytes
    stride 1                                           one word of each         4 sectors
    stride 2                                           two words of 16          8 sectors
    stride 32                                          32 words of one          32 sectors

All lanes access a register each in one *request*. Its words in one bank follow one another; lanes share a word. An
issue reads whole sectors, each once: the nearest cache keeps them until the issue has all of its elements.

An issue takes at least as long as its requests keep the banks, or the link, busy. Where each lane performs its own
iterations, elements of one register that are not contiguous in memory need a request each. Rows whose distance
is known at run time only are taken to be dense, and every access to begin at a multiple of the sector.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from functools import lru_cache
from math import prod

import numpy as np
from numpy.typing import NDArray

from isamap.machine import Machine, MachineInstruction, cached_bytes_per_ns
from isamap.machine.banks import banks_of
from isamap.machine.emit_nodes import EmitSemantics
from isamap.match.patterns.pattern import pattern_of
from isamap.source.records import dataclass
from isamap.transform import reads


@dataclass(frozen=True, slots=True)
class LaneAccesses:
    """The accesses of all lanes in one issue: the lane, the request, and the first byte of each element.

    `is_whole` says that the hardware collects the elements of a lane's register. Units: `size_bytes` of an element.
    """

    lanes: NDArray[np.int64]
    requests: NDArray[np.int64]
    addresses: NDArray[np.int64]
    size_bytes: int
    is_whole: bool = False

    def wavefronts(self, banks: int, word_bytes: int) -> int:
        """Return the sum over all requests of the words that the busiest bank delivers."""
        words = dict[tuple[int, int], set[int]]()
        reached = dict[tuple[int, int], tuple[int, int]]()
        every = zip(*(part.tolist() for part in (self.requests, self.lanes, self.addresses)), strict=True)
        for request, lane, address in sorted(every):
            end, piece = reached.get((request, lane), (address, 0))
            piece += address > end and not self.is_whole  # not contiguous: a request of its own
            reached[request, lane] = address + self.size_bytes, piece
            last = (address + self.size_bytes - 1) // word_bytes
            words.setdefault((request, piece), set()).update(range(address // word_bytes, last + 1))
        return sum(max(Counter(word % banks for word in found).values()) for found in words.values())

    def sectors(self, sector_bytes: int) -> int:
        """Return how many sectors the accesses touch."""
        last = (self.addresses + self.size_bytes - 1) // sector_bytes
        return len(np.unique(np.concatenate([self.addresses // sector_bytes, last])))


@lru_cache(maxsize=4096)
def lane_access_ns(
    machine: Machine, name: str, operand: str, strides: tuple[int, ...], numbers: tuple[tuple[str, int], ...]
) -> float:
    """Return how long one issue's accesses to an operand in memory occupy its banks or its link.

    It is 0 where the memory states neither banks nor sectors. Units: ns; `strides` of the operand in elements.
    """
    item = machine.instructions[name]
    memory = machine.memories[item.instruction.operand(operand).memory or ""]
    banks, sector_bytes = banks_of(memory, machine.clock_ghz), memory.number("sector_bytes")
    if not sector_bytes and (banks is None or not banks.is_interleaved):
        return 0.0
    found = lane_accesses(item, machine, operand, strides, dict(numbers))
    if found is None:
        return 0.0
    if banks is not None:
        return found.wavefronts(banks.count, banks.run_bytes) * banks.run_bytes / banks.bytes_per_ns
    rates = [link.bandwidth_bytes_per_ns for link in machine.links if link.source_memory == memory.name]
    if any(o.memory and machine.memories[o.memory].kind == "scratchpad" for o in item.instruction.operands):
        rates.append(cached_bytes_per_ns(memory, machine.levels))
    return found.sectors(sector_bytes) * sector_bytes / max(rates) if sector_bytes and rates else 0.0


def lane_accesses(
    item: MachineInstruction,
    machine: Machine,
    name: str,
    strides: tuple[int, ...],
    numbers: Mapping[str, int],
) -> LaneAccesses | None:
    """Return the accesses of an issue to a memory operand, or None for data subscripts or unknown extents."""
    pattern = pattern_of(item.instruction)
    accesses = () if pattern is None else (pattern.target, *reads(pattern.value))
    own = [read for read in accesses if read.buffer == name]
    extents = [axis.extent.substitute(dict(numbers)).value or 0 for axis in (pattern.axes if pattern else ())]
    if pattern is None or len(own) != 1 or not all(extents):
        return None
    axes = [axis.name for axis in pattern.axes]
    grids = np.indices(extents, dtype=np.int64).reshape(len(axes), prod(extents))
    points: dict[str, NDArray[np.int64]] = dict(zip(axes, grids, strict=True))
    address, order = np.zeros(prod(extents), dtype=np.int64), np.arange(prod(extents))
    for index, stride in zip(own[0].index, strides, strict=True):
        if not index.symbols <= {*axes, *numbers}:
            return None
        address = address + index.evaluate({**numbers, **points}) * stride * own[0].dtype.size_bytes
    swizzle = machine.memories[item.instruction.operand(name).memory or ""].swizzle
    address = address ^ (address >> 7 & swizzle) << 4
    level = machine.levels[-1]
    lane, request = (
        order % (level.count or 1),
        order // (level.count or 1),
    )  # without a placement they go round
    for access in accesses:
        operand = item.instruction.operand(access.buffer)
        coordinates = dict(operand.placement.coordinates) if operand.placement is not None else {}
        if operand.placement is None or level.name not in coordinates:
            continue
        indices = (index.evaluate(points) for index in access.index)
        here = dict(zip(operand.placement.indices, indices, strict=True))
        lane, register = coordinates.pop(level.name).evaluate(here), np.zeros_like(order)
        for index in coordinates.values():
            place = index.evaluate(here)
            register = register * (1 + int(np.max(place))) + place
        memory = machine.memories[operand.memory or ""]
        bits = 8 * (memory.number("bytes") or 0) // (memory.number("lanes") or level.count or 1)
        request = register * operand.dtype.bits // max(bits, operand.dtype.bits)
        break
    lane, request, address = (np.broadcast_to(part, order.shape) for part in (lane, request, address))
    is_whole = not isinstance(item.emit, EmitSemantics)
    return LaneAccesses(lane, request, address, own[0].dtype.size_bytes, is_whole)
