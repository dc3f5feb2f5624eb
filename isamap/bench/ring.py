"""Operands in memory that several processes share: a ring of copies, so that caches can be kept cold.

with Shared({"A": (64, 32), …}, form, ring=3) as shared:   # shared.paths["A"] can be mapped by a child

A contender receives them in a `Task`, plain data sent as JSON. The weights of a ring are also read alone, in
alternation with the contenders. The memory bandwidth of one core of a shared computer changes from minute to
minute, so the memory roof of a row is measured in the row's own rounds, over the same copies.
"""

from __future__ import annotations

import ctypes
import mmap
import os
from collections.abc import Callable, Mapping, Sequence
from math import prod
from pathlib import Path
from statistics import median
from types import TracebackType
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from isamap.bench.cases import SuiteCase
from isamap.bench.timed_loops import READS, load_loops
from isamap.ir import DTYPES
from isamap.source.records import asdict, dataclass

Array = NDArray[Any]
PAGE = mmap.PAGESIZE


@dataclass(frozen=True, slots=True)
class RingPlace:
    """The place of one operand. Units: bytes. `step` is the distance between copies of the ring."""

    path: str
    shape: tuple[int, ...]
    dtype: str
    step: int

    @property
    def size(self) -> int:
        return prod(self.shape) * DTYPES[self.dtype].size_bytes


def map_place(place: RingPlace, ring: int) -> list[Array]:
    """Return an operand's copies as arrays over the shared memory."""
    with Path(place.path).open("r+b") as file:
        memory = mmap.mmap(file.fileno(), place.step * ring)
    dtype = DTYPES[place.dtype].numpy()
    return [np.ndarray(place.shape, dtype, memory, place.step * i) for i in range(ring)]


class Shared:
    """The operands of one case in anonymous memory. `written` is what contenders write."""

    def __init__(self, values: Mapping[str, tuple[str, Array]], written: str, ring: int) -> None:
        self.ring, self.written = ring, written
        self._files: list[int] = []
        self.places: dict[str, RingPlace] = {}
        self.arrays: dict[str, list[Array]] = {}
        for name, (dtype, given) in values.items():
            step = -(-given.nbytes // PAGE) * PAGE
            file = os.memfd_create(f"isamap-{name}")
            os.ftruncate(file, step * ring)
            self._files.append(file)
            path = f"/proc/{os.getpid()}/fd/{file}"  # a child may open it; gone with this process
            self.places[name] = RingPlace(path, given.shape, dtype, step)
            self.arrays[name] = map_place(self.places[name], ring)
            for copy in self.arrays[name]:
                copy[...] = given
        self.first = self.arrays[written][0].copy()

    def refill(self) -> None:
        """Restore the initial contents of the written array in every copy."""
        for copy in self.arrays[self.written]:
            copy[...] = self.first

    def __enter__(self) -> Shared:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.arrays.clear()
        for file in self._files:
            os.close(file)


def random_values(shape: tuple[int, ...], dtype: str, seed: tuple[int, int]) -> Array:
    """Return random values: floats symmetric about 0, nonzero 8-bit integers, others with small sums."""
    rng = np.random.default_rng(seed)
    kind = DTYPES[dtype]
    if kind.is_float:
        values = rng.random(shape, dtype=np.float32)
        values += np.where(values < 0.5, np.float32(-1.0), np.float32(0.0))
        return values.astype(kind.numpy())
    low, high = (1, 256) if dtype == "u8" else (-128, 128)
    return rng.integers(low, high, shape, dtype=np.int16).astype(kind.numpy())


CHUNK = 512  # what loops.h reads at once. Units: bytes


@dataclass(frozen=True, slots=True)
class Reading:
    """A way to read the copies, timed like a contender."""

    name: str
    loops: str
    copies: Sequence[Array]

    @property
    def size_bytes(self) -> int:
        """The bytes of a copy that are read."""
        return self.copies[0].nbytes // CHUNK * CHUNK

    def time(self, calls: int, first: int = 0) -> int:
        """Return the time of reading a number of copies, from `first` on. Units: nanoseconds."""
        read, sink = getattr(load_loops(self.loops), self.name), ctypes.c_int64(0)
        copies = (self.copies[(first + n) % len(self.copies)] for n in range(calls))
        return sum(read(c.ctypes.data, self.size_bytes, 1, ctypes.addressof(sink)) for c in copies)


def readings(loops: str, copies: Sequence[Array]) -> tuple[Reading, ...]:
    """Return the ways to read, in one stream and in eight, or () without anything to read."""
    ways = tuple(Reading(name, loops, copies) for name in READS)
    return ways if ways[0].size_bytes else ()


def fastest_bytes_per_ns(ways: Sequence[Reading], seconds: Mapping[str, Sequence[float]]) -> float:
    """Return the bytes per nanosecond of the faster way, as the median over rounds."""
    return max((way.size_bytes / (1e9 * median(seconds[way.name])) for way in ways), default=0.0)


C = TypeVar("C", bound=SuiteCase)


@dataclass(frozen=True, slots=True)
class Task(Generic[C]):
    """One case of a kind on shared operands.

    `places` are its operands, `ring` how many copies each has. `program` says how the emitted library is
    called, None for others. `beta` 1 adds to the result, 0 only writes it. `packed` says that the weights are
    packed before, by each contender as it likes it.
    """

    kind: str
    case: C
    form: str
    places: Mapping[str, RingPlace]
    loops: str
    program: Mapping[str, Any] | None = None
    beta: int = 0
    ring: int = 1
    packed: bool = False

    def as_json(self) -> dict[str, Any]:
        """Return the task as JSON."""
        return asdict(self)  # a case is a data class

    @staticmethod
    def from_json(data: Mapping[str, Any], case_type: Callable[..., C]) -> Task[C]:
        """Return the task that `as_json` wrote."""
        places = {
            name: RingPlace(p["path"], tuple(p["shape"]), p["dtype"], p["step"])
            for name, p in data["places"].items()
        }
        kept: dict[str, Any] = {**data, "case": case_type(**data["case"]), "places": places}
        return Task(**kept)


@dataclass(slots=True)
class Mapped(Generic[C]):
    """A task with its operands mapped into this process."""

    task: Task[C]
    arrays: dict[str, list[Array]]

    def addresses(self, name: str) -> list[int]:
        """Return where the copies of an operand start."""
        return [array.ctypes.data for array in self.arrays[name]]


def map_task(task: Task[C]) -> Mapped[C]:
    """Map the operands of a task into this process. The arrays keep the memory mapped."""
    return Mapped(task, {name: map_place(place, task.ring) for name, place in task.places.items()})
