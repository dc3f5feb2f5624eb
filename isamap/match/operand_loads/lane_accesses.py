"""Time the accesses that the lanes of a machine make for one instruction, by the addresses of all lanes.

    memory shared: scratchpad(bytes = 48 KiB, banks = 32, bank_bytes = 1, interleave_bytes = 4);
    memory global: addressable(sector_bytes = 32);

    32 lanes load s[i], 4 bytes, i * stride from each other     stride 1 or 33      one word of each bank
                                                                stride 2            two words of 16 banks
                                                                stride 32           32 words of one bank
    32 lanes load g[i], 4 bytes                                 stride 1            4 sectors
                                                                stride 8 or more    32 sectors

Lanes access memory a register at a time: all lanes one register each is a *request*. The words of a request that lie
in one bank follow one another; lanes that want the same word share it. What an issue reads of a memory
with sectors is whole sectors, each once: the nearest cache keeps them until the issue has all of its elements.

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

from isamap.ir import Instruction, Operand
from isamap.machine import Machine, MachineInstruction
from isamap.machine.banks import banks_of
from isamap.machine.emit_nodes import EmitSemantics
from isamap.match.patterns.pattern import pattern_of
from isamap.source.records import dataclass
from isamap.transform import reads

Points = Mapping[str, NDArray[np.int64]]


@dataclass(frozen=True, slots=True)
class LaneAccesses:
    """The accesses of all lanes for one issue: for each element its lane, its request, and its first byte.

    `is_whole` says that the hardware collects the elements of a lane's register. Units: `size_bytes` of an element.
    """

    lanes: NDArray[np.int64]
    requests: NDArray[np.int64]
    addresses: NDArray[np.int64]
    size_bytes: int
    is_whole: bool = False

    def wavefronts(self, banks: int, word_bytes: int) -> int:
        """Return the sum, over requests, of the words that the busiest bank delivers one after the other."""
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


def lane_access_ns(
    machine: Machine, name: str, operand: str, strides: tuple[int, ...], numbers: Mapping[str, int]
) -> float:
    """Return how long the accesses of one issue to an operand in memory keep its banks or its link busy.

    It is 0 on machines without lanes, and where the memory states neither banks nor sectors. Units: ns; `strides`
    of the operand in elements.
    """
    item = machine.instructions[name]
    memory = machine.memories[item.instruction.operand(operand).memory or ""]
    if not machine.levels or not (memory.number("sector_bytes") or memory.number("interleave_bytes")):
        return 0.0
    return _access_ns(machine, name, operand, strides, tuple(sorted(numbers.items())))


@lru_cache(maxsize=4096)
def _access_ns(
    machine: Machine, name: str, operand: str, strides: tuple[int, ...], numbers: tuple[tuple[str, int], ...]
) -> float:
    item = machine.instructions[name]
    found = lane_accesses(item, machine, operand, strides, dict(numbers))
    memory = machine.memories[item.instruction.operand(operand).memory or ""]
    if found is None or not len(found.addresses):
        return 0.0
    if (banks := banks_of(memory, machine.clock_ghz)) is not None and banks.is_interleaved:
        return found.wavefronts(banks.count, banks.run_bytes) * banks.run_bytes / banks.bytes_per_ns
    sector_bytes = memory.number("sector_bytes")
    rates = [link.bandwidth_bytes_per_ns for link in machine.links if link.source_memory == memory.name]
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
    if pattern is None:
        return None
    own = [read for read in (pattern.target, *reads(pattern.value)) if read.buffer == name]
    extents = [axis.extent.substitute(dict(numbers)).value for axis in pattern.axes]
    if len(own) != 1 or None in extents:
        return None
    sizes = [extent or 0 for extent in extents]
    names = [axis.name for axis in pattern.axes]
    points = dict(zip(names, (grid.ravel() for grid in np.indices(sizes, dtype=np.int64)), strict=True))
    count = prod(sizes)
    size_bytes = max(1, own[0].dtype.size_bytes)
    address = np.zeros(count, dtype=np.int64)
    for index, stride in zip(own[0].index, strides, strict=True):
        if not index.symbols <= {*names, *numbers}:
            return None
        address = address + index.evaluate({**numbers, **points}) * stride * size_bytes
    lanes, requests = _distribution(item.instruction, machine, points, count)
    return LaneAccesses(lanes, requests, address, size_bytes, not isinstance(item.emit, EmitSemantics))


def _distribution(
    instruction: Instruction, machine: Machine, points: Points, count: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the lane of each iteration, and the number of its register there; without a placement they go round."""
    level = machine.levels[-1]
    lanes = level.count or 1
    pattern = pattern_of(instruction)
    assert pattern is not None, "it was laid over a kernel"
    for access in (pattern.target, *reads(pattern.value)):
        operand = instruction.operand(access.buffer)
        coordinates = dict(operand.placement.coordinates) if operand.placement is not None else {}
        if operand.placement is None or level.name not in coordinates:
            continue
        here = dict(zip(operand.placement.indices, (i.evaluate(points) for i in access.index), strict=True))
        register = np.zeros(count, dtype=np.int64)
        for name, index in coordinates.items():
            if name != level.name:
                place = np.broadcast_to(index.evaluate(here), (count,))
                register = register * (1 + int(place.max(initial=0))) + place
        lane = np.broadcast_to(coordinates[level.name].evaluate(here), (count,))
        return lane, register * operand.dtype.size_bytes // _lane_bytes(operand, machine)
    order = np.arange(count, dtype=np.int64)
    return order % lanes, order // lanes


def _lane_bytes(operand: Operand, machine: Machine) -> int:
    """Return the bytes of a register that one lane has, or those of an element if the machine does not say."""
    memory = machine.memories[operand.memory or ""]
    own = (memory.number("bytes") or 0) // (memory.number("lanes") or machine.levels[-1].count or 1)
    return max(own, operand.dtype.size_bytes)
