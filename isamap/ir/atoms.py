"""Atoms of index expressions: quotients, remainders, minima, maxima and elements of integer arrays.

`x[p / 2, row[m] % 4]` has the atoms `p / 2`, `row[m] % 4` and, inside the latter, `row[m]`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from isamap.source.records import dataclass, field, replace

if TYPE_CHECKING:
    from isamap.ir.index import Index


@dataclass(frozen=True, slots=True)
class _Division:
    """A division. The divisor is a positive constant or a polynomial of sizes."""

    value: Index
    divisor: Index
    _hash: int = field(default=0, init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_hash", hash((type(self).__name__, self.value, self.divisor)))

    def __hash__(self) -> int:
        return self._hash


class FloorDiv(_Division):
    """`value / divisor`, rounded towards negative infinity."""

    __slots__ = ()

    def __str__(self) -> str:
        return f"{_factor(self.value)} / {_factor(self.divisor)}"


class Mod(_Division):
    """`value % divisor`, with the sign of the divisor."""

    __slots__ = ()

    def __str__(self) -> str:
        return f"{_factor(self.value)} % {_factor(self.divisor)}"


@dataclass(frozen=True, slots=True)
class MinMax:
    """Smaller or larger of two index expressions (loop bounds of tails)."""

    op: str  # "min" | "max"
    left: Index
    right: Index

    def __str__(self) -> str:
        return f"{self.op}({self.left}, {self.right})"


@dataclass(frozen=True, slots=True)
class Element:
    """An element of an integer input that an index reads, with the declared facts about it.

    It is between `low` and `high`, both included. There are `count` elements; if they are `ascending`, none
    is smaller than the previous one. Each call checks these facts before it computes.
    """

    buffer: str
    at: Index
    low: Index
    high: Index
    count: Index
    ascending: bool = False

    @property
    def parts(self) -> tuple[Index, ...]:
        """The expressions inside: the subscript first, then the bounds and the value."""
        return self.at, self.low, self.high, self.count

    def with_parts(self, parts: tuple[Index, ...]) -> Element:
        """Return the element with other `parts`."""
        at, low, high, count = parts
        return replace(self, at=at, low=low, high=high, count=count)

    def evaluate(self, env: Mapping[str, Any]) -> Any:
        """Return its value if `env` has the array, else a value that agrees with all known facts.

        Values of `env` are numbers or numpy arrays.
        """
        at = self.at.evaluate(env)
        if self.buffer in env:
            return env[self.buffer][at]
        low, high, last = self.low.evaluate(env), self.high.evaluate(env), self.count.evaluate(env) - 1
        if self.ascending:
            return low + (high - low) * at // (last + (last < 1) * (1 - last))
        return low + at * _SCATTERED % (high - low + 1)

    def __str__(self) -> str:
        return f"{self.buffer}[{self.at}]"


_SCATTERED = 7919
"""A prime that scatters the representative of unknown subscripts over their range."""


def _factor(index: Index) -> str:
    text = str(index)
    bare = (str, MinMax, Element)
    plain = len(index.terms) <= 1 and all(isinstance(a, bare) for m, _ in index.terms for a in m)
    return text if plain and "*" not in text and not text.startswith("-") else f"({text})"
