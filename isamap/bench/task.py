"""What a contender is told about one case: plain data that travels as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from isamap.bench.ring import Array, Place, map_place


@dataclass(frozen=True, slots=True)
class Task:
    """One product on shared operands.

    `places` are its operands, `ring` how many copies each has; `program` says how the emitted library is
    called, None for others. `beta` 1 adds to C, 0 only writes it. `packed` says that B is packed before, by
    each contender as it likes it.
    """

    form: str
    m: int
    n: int
    k: int
    transpose_a: bool
    transpose_b: bool
    beta: int
    ring: int
    places: Mapping[str, Place]
    loops: str
    program: Mapping[str, Any] | None = None
    packed: bool = False

    def as_json(self) -> dict[str, Any]:
        """The task as JSON."""
        return asdict(self)

    @staticmethod
    def from_json(data: dict[str, Any]) -> Task:
        """The task that `as_json` gave."""
        kept: dict[str, Any] = dict(data)
        kept["places"] = {
            name: Place(p["path"], (p["shape"][0], p["shape"][1]), p["dtype"], p["step"])
            for name, p in data["places"].items()
        }
        return Task(**kept)


@dataclass(slots=True)
class Mapped:
    """A task with its operands mapped into this process."""

    task: Task
    arrays: dict[str, list[Array]]

    @staticmethod
    def of(task: Task) -> Mapped:
        """Maps the operands; the arrays keep the memory."""
        return Mapped(task, {name: map_place(place, task.ring) for name, place in task.places.items()})

    def addresses(self, name: str) -> list[int]:
        """Where the copies of an operand start."""
        return [array.ctypes.data for array in self.arrays[name]]
