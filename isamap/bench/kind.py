"""The interface of a kind of benchmarked cases. All other code is the same for every kind.

    CaseKind("recurrent layer", …, libraries={"isamap": …, "torch": …})

A module of a kind creates one, and `kinds.py` lists them. `campaign.py` asks it for a row's kernel and
arrays, for the least bytes that the row moves, and whether a contender's result is right.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeVar

from isamap.bench.cases import SuiteCase, Types
from isamap.bench.paired_timing import TimedContender
from isamap.bench.ring import Array, Shared
from isamap.source import Source, dataclass
from isamap.tune.profile import Profile

C = TypeVar("C", bound=SuiteCase)


@dataclass(frozen=True, slots=True)
class MeasuringRules:
    """The rules for measuring rows. `packed` lets every contender pack its weights beforehand.

    Units: `seconds` for the timing of a row, `memory_bytes` for all operands, `caches_bytes` of all caches,
    `limit_s` of the solver.
    """

    machine: str
    threads: int
    beta: int
    cache: str
    seconds: float
    memory_bytes: int
    caches_bytes: int
    limit_s: float
    loops: str
    profile: Profile | None = None
    packed: bool = False


@dataclass(frozen=True, slots=True)
class DataMovement:
    """The least data movement of a row. Units: bytes.

    `held` are all operands, `weights` those of the weights. `read` is the bytes that a call reads and
    writes, out of the `live` bytes in use. `operations` is None if the instruction's whole tiles are
    counted.
    """

    held: int
    weights: int
    read: int
    live: int
    operations: int | None = None


@dataclass(frozen=True, slots=True)
class CaseKind(Generic[C]):
    """One kind of cases, with the functions that all other code needs of it.

    `heading` is above the cases' labels, and `weights` may be packed before a call. `written` is the result.
    `libraries` prepare a task, isamap's own first.
    """

    name: str
    heading: str
    case_type: type[C]
    forms: Mapping[str, tuple[Types, ...]]
    weights: tuple[str, ...]
    written: str
    source: Callable[[C, Types, int], Source]
    values: Callable[[C, Types], Mapping[str, tuple[str, Array]]]
    work: Callable[[C, Types, int], DataMovement]
    is_right: Callable[[TimedContender, C, Types, int, Shared], bool]
    libraries: Mapping[str, Callable[[Any, int], Any]]

    @property
    def baselines(self) -> tuple[str, ...]:
        """The libraries that it can be compared with."""
        return tuple(name for name in self.libraries if name != "isamap")
