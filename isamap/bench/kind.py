"""What a kind of benchmarked cases says about itself, once: all else is the same for every kind.

    Kind("recurrent layer", …, libraries={"isamap": …, "torch": …})

A module of a kind makes one, `kinds.py` lists them, and `measure.py` asks it for a row's kernel and arrays,
for what the row moves at least, and whether a contender's result is right.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from isamap.bench.cases import Case, Form
from isamap.bench.ring import Array, Shared
from isamap.bench.turns import Timed
from isamap.source import Source
from isamap.tune.profile import Profile

C = TypeVar("C", bound=Case)


@dataclass(frozen=True, slots=True)
class Rules:
    """How rows are measured. `packed` has every contender pack its weights before.

    Units: `seconds` of a row's turns, `memory_bytes` that operands may take, `caches_bytes` of all caches,
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
class Work:
    """What a row moves at least. Units: bytes.

    `held` are all operands, `weights` those of the weights; `read` is what a call reads and writes, from
    where `live` bytes live. `operations` is None where the instruction's whole tiles are counted.
    """

    held: int
    weights: int
    read: int
    live: int
    operations: int | None = None


@dataclass(frozen=True, slots=True)
class Kind(Generic[C]):
    """One kind of cases. `heading` stands over their labels; `weights` may be packed before a call, `written`
    is the result; `libraries` prepare a task, isamap's own first.
    """

    name: str
    heading: str
    case_type: type[C]
    forms: Mapping[str, tuple[Form, ...]]
    weights: tuple[str, ...]
    written: str
    source: Callable[[C, Form, int], Source]
    values: Callable[[C, Form], dict[str, tuple[str, Array]]]
    work: Callable[[C, Form, int], Work]
    is_right: Callable[[Timed, C, Form, int, Shared], bool]
    libraries: Mapping[str, Callable[[Any, int], Any]]

    @property
    def baselines(self) -> tuple[str, ...]:
        """The libraries that it can be compared with."""
        return tuple(name for name in self.libraries if name != "isamap")
