"""Sizes from the caller: expressions of open sizes, and conditions under which a lowering is correct.

    x: f32[batch, 32]     the size `N0`, from 1 to 64; `N0*32` elements; `N0 == 7` is answered "no", and noted

Operators compute with a `Size` as with a number. Where the answer to a comparison depends on the sizes of the
call, one answer is taken, and noted with the node that asked: the program is right where the answer is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from isamap.driver.request import is_range, read_profiles
from isamap.graph.terms import NotTaken
from isamap.ir import DTYPES, Index
from isamap.ir.index import bounds
from isamap.source import UsageProblem

MOST_SIZE = 1 << 31
MOST_POINTS = 1 << 22
"""Combinations of sizes for which an expression is computed one by one; beyond them, it is bounded."""


@dataclass(frozen=True, slots=True)
class OpenSize:
    """An open size: the model's name, the name in kernels, its range, and profile values.

    One that data decides while the model runs is in a `tensor` of one i64. It may be 0 as well: kernels, which
    have no loops of 0 iterations, are not called then.
    """

    name: str
    symbol: str
    low: int
    high: int
    profiles: tuple[int, ...] = ()
    tensor: str = ""

    @property
    def text(self) -> str:
        """The range in the form of `-D`."""
        return f"{self.low}..{self.high}" + (f"@{','.join(map(str, self.profiles))}" if self.profiles else "")


Given = int | str | tuple[int, int]
"""A size of a model: a number, a range, or the text of a range, `1..64@1,16`."""


def opened_sizes(sizes: Mapping[str, Given]) -> tuple[OpenSize, ...]:
    """Return the sizes that are ranges. Raises: UsageProblem for an invalid size."""
    found: list[OpenSize] = []
    for name, value in sizes.items():
        text = f"{value[0]}..{value[1]}" if isinstance(value, tuple) else str(value)
        if isinstance(value, int):
            continue
        low, high, profiles = read_profiles(text) if is_range(text) else (1, 0, ())
        inside = all(low <= profile <= high for profile in profiles)
        if not 1 <= low <= high or high >= MOST_SIZE or not inside:
            said = f"the size `{name}` is a number, or a range of them from 1 on, not `{text[:40]}`"
            raise UsageProblem.of("size-syntax", said, help=f"write {name}=1..64")
        if low < high:
            found.append(OpenSize(name, f"N{len(found)}", low, high, profiles))
    return tuple(found)


def needs_numbers(sizes: Sequence[OpenSize], what: str) -> UsageProblem:
    """Return the error that an operation needs known sizes."""
    first = sizes[0]
    if first.tensor:
        said = f"{what} needs known sizes, and data decides a size of this model, {first.high} at most"
        return UsageProblem.of("model-range", said, help="leave that out for this model")
    said = f"{what} needs known sizes, and `{first.name}` is open from {first.low} to {first.high}"
    return UsageProblem.of("model-range", said, help=f"give it a number: -D {first.name}={first.high}")


class NeedsSize(NotTaken):
    """An exception: a node's code depends on the value of an open size."""

    def __init__(self, said: str, size: OpenSize) -> None:
        super().__init__(
            f"it computes with the number `{said}`, and `{size.name}` is open from {size.low} to {size.high}"
        )
        self.name = size.name


@dataclass(frozen=True, slots=True)
class Guard:
    """The assumed result of a comparison with 0 that some sizes in the range contradict."""

    index: Index
    comparison: str
    answer: bool


@dataclass(slots=True)
class OpenSizes:
    """The open sizes of a model, and its lowering's guards, each with the node that caused it.

    Once `is_settled`, comparisons decide which code is written, not which is right, and nothing is noted.
    """

    sizes: tuple[OpenSize, ...]
    guards: dict[Guard, str] = field(default_factory=dict[Guard, str])
    node: str = ""
    is_settled: bool = False
    _known: dict[Index, tuple[int, int, bool]] = field(default_factory=dict[Index, "tuple[int, int, bool]"])

    def size(self, name: str) -> int:
        """Return an open size by its name. Operators, and the type checker, treat it as a number."""
        (found,) = (size for size in self.sizes if size.name == name)
        return _size(Index.of(found.symbol), self)

    def of_data(self, most: int) -> OpenSize:
        """Return a new data-determined size, whose tensor a step has to write."""
        number = len(self.sizes)
        found = OpenSize(f"count{number}", f"N{number}", 1, max(2, most_of(most)), tensor=f"n{number}")
        self.sizes = (*self.sizes, found)
        return found

    def extent(self, index: Index) -> tuple[int, int, bool]:
        """Return the least and the greatest value of an expression, and whether 0 may occur."""
        if index not in self._known:
            self._known[index] = self._extent(index)
        return self._known[index]

    def _extent(self, index: Index) -> tuple[int, int, bool]:
        if index.value is not None:
            return index.value, index.value, not index.value
        values = self.values(index)
        if values is None:
            low, high = bounds(index, {size.symbol: (size.low, size.high) for size in self.sizes})
            return low, high, low <= 0 <= high
        return int(values.min()), int(values.max()), not values.all()

    def values(self, index: Index) -> NDArray[np.int64] | None:
        """Return the values of an expression for all values of its sizes, in order, or None for too many."""
        found = self.of(index)
        if prod(size.high - size.low + 1 for size in found) > MOST_POINTS:
            return None
        grid = np.meshgrid(
            *(np.arange(size.low, size.high + 1, dtype=np.int64) for size in found), indexing="ij"
        )
        return np.asarray(index.evaluate({size.symbol: axis for size, axis in zip(found, grid, strict=True)}))

    def of(self, index: Index) -> tuple[OpenSize, ...]:
        """Return the sizes in an expression."""
        return tuple(size for size in self.sizes if size.symbol in index.symbols)

    def holds(self, index: Index, comparison: str) -> bool:
        """Return whether an expression is 0, or below 0. If sizes decide, record the more frequent answer."""
        low, high, has_zero = self.extent(index)
        if comparison == "==" and (not has_zero or low == high == 0):
            return has_zero
        if comparison == "<" and (high < 0 or low >= 0):
            return high < 0
        values = self.values(index)
        below = int(np.count_nonzero(values < 0)) if values is not None else 0
        answer = comparison == "<" and values is not None and 2 * below > values.size
        if not self.is_settled:
            self.guards.setdefault(Guard(index, comparison, answer), self.node)
        return answer

    def spelled(self, text: str) -> str:
        """Return a text with the model's size names instead of the kernels'."""
        for size in reversed(self.sizes):
            text = text.replace(size.symbol, size.name)
        return text

    def narrowed(self, guard: Guard) -> OpenSize | None:
        """Return the size with its range limited so that a guard holds for all other sizes, or None."""
        values = self.values(guard.index)
        if values is None:
            return None
        right = ((values == 0) if guard.comparison == "==" else (values < 0)) == guard.answer
        best: OpenSize | None = None
        for axis, size in enumerate(self.of(guard.index)):
            others = tuple(n for n in range(right.ndim) if n != axis)
            for low, high in _runs(right.all(axis=others)):
                if best is None or high - low > best.high - best.low:
                    best = OpenSize(size.name, size.symbol, size.low + low, size.low + high)
        return best


def _runs(right: NDArray[np.bool_]) -> Iterable[tuple[int, int]]:
    """Yield the first and the last position of each run of true values."""
    edges = np.flatnonzero(np.diff(np.concatenate(([False], right, [False])).astype(np.int8)))
    return zip(edges[::2].tolist(), (edges[1::2] - 1).tolist(), strict=True)


class Size:
    """An expression of open sizes in place of a number. Its text is as in kernels.

    It equals neither 1 nor another open size, whatever their values in a call: a loop is correct for one
    iteration, too, and code for different sizes is correct for equal ones. If a node depends on more than the
    form of its loops, `is_zero` records the answer.
    """

    __slots__ = ("index", "opened")
    __array_ufunc__ = None  # numbers of numpy leave arithmetic to it

    def __init__(self, index: Index, opened: OpenSizes) -> None:
        self.index, self.opened = index, opened

    def __hash__(self) -> int:
        return hash(self.index)

    def __str__(self) -> str:
        text = str(self.index)
        return text if text in self.index.symbols else f"({text})"

    def __repr__(self) -> str:
        return self.opened.spelled(str(self.index))

    def __add__(self, other: Any) -> int:
        return _size(self.index + index_of(other), self.opened)

    __radd__ = __add__

    def __mul__(self, other: Any) -> int:
        return _size(self.index * index_of(other), self.opened)

    __rmul__ = __mul__

    def __pow__(self, times: int) -> int:
        return prod([cast(int, self)] * times)

    def __neg__(self) -> int:
        return _size(-self.index, self.opened)

    def __sub__(self, other: Any) -> int:
        return _size(self.index - index_of(other), self.opened)

    def __rsub__(self, other: Any) -> int:
        return _size(index_of(other) - self.index, self.opened)

    def __floordiv__(self, other: Any) -> int:
        return self._divide(self.index, index_of(other), Index.floordiv)

    def __rfloordiv__(self, other: Any) -> int:
        return self._divide(index_of(other), self.index, Index.floordiv)

    def __mod__(self, other: Any) -> int:
        return self._divide(self.index, index_of(other), Index.mod)

    def __rmod__(self, other: Any) -> int:
        return self._divide(index_of(other), self.index, Index.mod)

    def _divide(self, value: Index, divisor: Index, how: Any) -> int:
        if self.opened.extent(divisor)[0] <= 0:
            raise self._refuse_size()
        return _size(how(value, divisor), self.opened)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Size | int | np.integer):
            return NotImplemented
        index = self.index - index_of(other)
        if isinstance(other, Size) or other == 1:
            low, high, _ = self.opened.extent(index)
            return low == high == 0
        return self.opened.holds(index, "==")

    def __lt__(self, other: Any) -> bool:
        return self.opened.holds(self.index - index_of(other), "<")

    def __gt__(self, other: Any) -> bool:
        return self.opened.holds(index_of(other) - self.index, "<")

    def __le__(self, other: Any) -> bool:
        return not self > other

    def __ge__(self, other: Any) -> bool:
        return not self < other

    def __bool__(self) -> bool:
        return not self.opened.holds(self.index, "==")

    def _refuse_size(self, *_: object) -> NeedsSize:
        return NeedsSize(repr(self), self.opened.of(self.index)[0])

    def __index__(self) -> int:
        raise self._refuse_size()

    __int__ = __trunc__ = __index__

    def __float__(self) -> float:
        raise self._refuse_size()

    def __truediv__(self, other: object) -> float:
        raise self._refuse_size()

    __rtruediv__ = __truediv__


def _size(index: Index, opened: OpenSizes) -> int:
    """Return an expression as a number if it is constant."""
    return index.value if index.value is not None else cast(int, Size(index, opened))


def index_of(size: Any) -> Index:
    """Return a number or a size as an expression."""
    return size.index if isinstance(size, Size) else Index.of(int(size))


def is_open(size: object) -> bool:
    """Return whether the caller determines a size."""
    return isinstance(size, Size)


def record_of_open(sizes: Iterable[object]) -> OpenSizes | None:
    """Return the record of open sizes to which one of these sizes belongs, or None."""
    return next((size.opened for size in sizes if isinstance(size, Size)), None)


def most_of(size: int) -> int:
    """Return the greatest value of a size."""
    found: object = size
    return found.opened.extent(found.index)[1] if isinstance(found, Size) else size


def value_of(size: int, given: Mapping[str, int]) -> int:
    """Return a size as a number, given the numbers of a call by their names in kernels."""
    found: object = size
    return found.index.evaluate(given) if isinstance(found, Size) else size


def may_be(size: int, number: int) -> bool:
    """Return whether a size equals a number, or is decided by data and can be so large."""
    found: object = size
    if isinstance(found, Size) and any(one.tensor for one in found.opened.of(found.index)):
        return 0 <= number <= most_of(size)
    return size == number


def as_known(sizes: Sequence[int], shape: tuple[int, ...]) -> NDArray[Any]:
    """Return sizes as a known array of i64, or of objects if a size is open."""
    return np.array(sizes, object if any(map(is_open, sizes)) else np.int64).reshape(shape)


def as_value(size: int, dtype: str) -> str:
    """Return a size as a number of a float or integer type."""
    return f"{dtype}({size})" if is_open(size) and DTYPES[dtype].is_float else str(size)


def is_zero(size: int) -> bool:
    """Return whether a size, or the difference of two sizes, is 0. If calls decide, the recorded answer is no."""
    found: object = size
    return found.opened.holds(found.index, "==") if isinstance(found, Size) else size == 0
