"""Find the memory level that serves each access, from the bytes accessed between two uses of a line.

    for m0 { for k0 { load B[k0] } }      a line of B is used again one iteration of m0 later;
                                          the bytes of an iteration fit into l2: from the second on,
                                          l2 serves it

The search for the previous use of a line goes from the innermost loop outward. A loop that does not move
the access returns it to the same line one iteration later. A loop that moves it by less than a line does so
for a part of its iterations, and a loop that moves it further never does. If no loop returns the access to
its line, another access of the same array may have touched it before, or else the previous call.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import pairwise

from isamap.ir import Index
from isamap.plan.problem import Cache
from isamap.source.records import dataclass, field


@dataclass(frozen=True, eq=False)
class LoopAround:
    """A loop around accesses, with its trip count and the next outer loop."""

    variable: str
    trips: int
    bit: int
    around: LoopAround | None

    @cached_property
    def chain(self) -> tuple[LoopAround, ...]:
        """This loop and the enclosing ones, innermost first."""
        return (self, *(self.around.chain if self.around is not None else ()))


@dataclass(frozen=True, eq=False)
class MemoryOperand:
    """An operand of an issue in memory. Units: bytes; `strides` per surrounding loop, innermost first."""

    number: int
    array: str
    base: int
    size: int
    strides: tuple[int, ...]
    loop: LoopAround | None
    writes: bool
    reads: bool = True

    @property
    def turns(self) -> tuple[tuple[LoopAround, int], ...]:
        """The loops around an access with its strides along them, innermost first."""
        return tuple(zip(self.loop.chain if self.loop else (), self.strides, strict=True))

    def inside(self, loop: LoopAround | None) -> tuple[tuple[int, int], ...]:
        """Return strides and trip counts of the loops inside a loop, or of all loops for None."""
        found: list[tuple[int, int]] = []
        for outer, stride in self.turns:
            if outer is loop:
                break
            if stride and outer.trips > 1:
                found.append((abs(stride), outer.trips))
        return tuple(found)


def strides_of(
    offset: Index, variables: Sequence[str], env: Mapping[str, int]
) -> tuple[int, tuple[int, ...]]:
    """Return the start of an offset, and its step for each variable. Units: those of the offset."""
    zero = {**env, **dict.fromkeys(variables, 0)}
    base = offset.evaluate(zero)
    moved = offset.symbols
    return base, tuple(offset.evaluate({**zero, v: 1}) - base if v in moved else 0 for v in variables)


Weights = tuple[tuple[int, float], ...]
"""Lines that each level has to bring, per access: (level, share of a line); level 0 is the nearest cache."""


@dataclass(eq=False)
class Reuse:
    """Reuse queries for all accesses of a program. Units: bytes; `sizes` of the arrays, `line_bytes` of a line."""

    accesses: Sequence[MemoryOperand]
    caches: Sequence[Cache]
    sizes: Mapping[str, int]
    line_bytes: int
    _touched: dict[int, int] = field(default_factory=dict[int, int])
    _cold: dict[int, int] = field(default_factory=dict[int, int])
    _by_array: dict[str, list[MemoryOperand]] = field(default_factory=dict[str, list[MemoryOperand]])

    def __post_init__(self) -> None:
        for access in self.accesses:
            self._by_array.setdefault(access.array, []).append(access)

    def weights(self, access: MemoryOperand, past_first: int) -> Weights:
        """Return the parts of an access that each level beyond the nearest cache serves.

        `past_first` has the bits of the loops that are past their first iteration.
        """
        left, found = 1.0, dict[int, float]()
        for outer, stride in access.turns:
            level = self.level(self.touched(outer))
            if stride == 0 and past_first & outer.bit:
                found[level] = found.get(level, 0.0) + left
                left = 0.0
                break
            if 0 < abs(stride) < self.line_bytes:
                lines = -(-outer.trips * abs(stride) // self.line_bytes) / outer.trips
                found[level] = found.get(level, 0.0) + left * (1 - lines)
                left *= lines
        if left:
            level = self._cold_level(access)
            found[level] = found.get(level, 0.0) + left
        lines = max(1, access.size // self.line_bytes)
        return tuple((level, share * lines) for level, share in sorted(found.items()) if level and share > 0)

    def level(self, touched_bytes: int) -> int:
        """Return the nearest level that still holds data after this number of other bytes was accessed."""
        fitting = (
            i for i, c in enumerate(self.caches) if touched_bytes <= c.capacity_bytes * c.usable_factor
        )
        return next(fitting, len(self.caches))

    def touched(self, loop: LoopAround | None) -> int:
        """Return the bytes that one iteration of a loop accesses, or for None the whole program."""
        key = id(loop)
        if key not in self._touched:
            inner = [a for a in self.accesses if loop is None or loop in (a.loop.chain if a.loop else ())]
            arrays: dict[str, list[MemoryOperand]] = {}
            for access in inner:
                arrays.setdefault(access.array, []).append(access)
            self._touched[key] = sum(self._union(name, own, loop) for name, own in arrays.items())
        return self._touched[key]

    def _union(self, array: str, accesses: Sequence[MemoryOperand], loop: LoopAround | None) -> int:
        """Return the bytes of an array that an iteration accesses: the most of any group of equal accesses."""
        alike: dict[tuple[tuple[int, int], ...], list[MemoryOperand]] = {}
        for access in accesses:
            alike.setdefault(access.inside(loop), []).append(access)
        most = max(_count_covered(turns, own, self.line_bytes) for turns, own in alike.items())
        return min(most, self.sizes[array])

    def _cold_level(self, access: MemoryOperand) -> int:
        """Return the level of a line that no loop around accesses again."""
        if access.number not in self._cold:
            self._cold[access.number] = self.level(self._since_another(access))
        return self._cold[access.number]

    def _since_another(self, access: MemoryOperand) -> int:
        """Return the bytes accessed since an earlier access of the same line, or since the previous call."""
        earlier = [
            o
            for o in self._by_array[access.array]
            if o.number < access.number and _share_lines(o, access, self.line_bytes)
        ]
        if not earlier:
            return self.touched(None)
        chain = access.loop.chain if access.loop is not None else ()
        shared = max(earlier, key=lambda o: (_depth_shared(o, access), o.number))
        depth = _depth_shared(shared, access)
        return self.touched(chain[len(chain) - depth] if depth else None)


def _count_covered(
    turns: tuple[tuple[int, int], ...], accesses: Sequence[MemoryOperand], line_bytes: int
) -> int:
    """Return the bytes that accesses with these strides cover, in whole lines."""
    span, count = max(a.size for a in accesses), 1
    for stride, trips in sorted(turns):
        if stride <= max(span, line_bytes):
            span += stride * (trips - 1)
        else:
            count *= trips
    bases = sorted({a.base for a in accesses})
    gaps = [min(span, b - a) for a, b in pairwise(bases)]
    near = sum(max(gap, line_bytes) if gap >= line_bytes else gap for gap in gaps)
    return count * (near + -(-span // line_bytes) * line_bytes)


def _share_lines(one: MemoryOperand, other: MemoryOperand, line_bytes: int) -> bool:
    """Return whether two accesses of an array have lines in common."""
    if one.loop is other.loop and one.strides == other.strides:
        apart = abs(one.base - other.base)
        steps = [(abs(s), t.trips) for t, s in one.turns if s]
        return apart < line_bytes or any(apart % s == 0 and apart // s < trips for s, trips in steps)
    (low, high), (first, last) = _interval(one), _interval(other)
    return low < last and first < high


def _interval(access: MemoryOperand) -> tuple[int, int]:
    low, high = access.base, access.base + access.size
    for outer, stride in access.turns:
        moved = stride * (outer.trips - 1)
        low, high = low + min(0, moved), high + max(0, moved)
    return low, high


def _depth_shared(one: MemoryOperand, other: MemoryOperand) -> int:
    """Return the number of loops around both accesses."""
    outer = (tuple(reversed(a.loop.chain)) if a.loop is not None else () for a in (one, other))
    return sum(1 for a, b in zip(*outer, strict=False) if a is b)
