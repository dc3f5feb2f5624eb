"""A backtracking packer. It finds offsets for buffers with fixed lifetimes, or proves that none exist.

Time is cut into *sections* in which the same buffers live. Any packing can be pushed down until each buffer
rests on the bottom or on another one, so that it is enough to place buffers on the *skyline*, the top of what
is placed in each section. In a valley of the skyline, a section is either covered by a buffer that fits
between the walls, or stays empty up to the next height at which something could bridge it. How much a section
may still waste is known exactly: the memory's size less the skyline less all that has to come. Branching
takes the section with the fewest choices, or the lowest one. Which is better differs, so both are
tried.

Source: the canonical (pushed down) solutions are those of Moffitt, MiniMalloc, ASPLOS 2023; branching on the
valleys of the skyline is that of strip packing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import gcd
from typing import Literal

from isamap.plan.placement import PlacedBuffer
from isamap.source.records import dataclass

Branching = Literal["fewest", "lowest"]


@dataclass(frozen=True, slots=True)
class Instance:
    """Buffers over sections of time. Units: sizes and capacity in `unit_bytes`.

    Buffer b lives in sections first[b] up to before last[b]. No section is one whose buffers all live in the
    next one too.
    """

    first: tuple[int, ...]
    last: tuple[int, ...]
    size: tuple[int, ...]
    alignment: tuple[int, ...]
    sections: int
    capacity: int
    unit_bytes: int

    @property
    def loads(self) -> tuple[int, ...]:
        """The total size of the live buffers in each section."""
        total = [0] * self.sections
        for first, last, size in zip(self.first, self.last, self.size, strict=True):
            for s in range(first, last):
                total[s] += size
        return tuple(total)


def make_instance(buffers: Sequence[PlacedBuffer], capacity_bytes: int) -> Instance:
    """Compress time to sections, and divide sizes by their common divisor. Requires at least one buffer."""
    unit = gcd(*(b.size_bytes for b in buffers), *(b.alignment_bytes for b in buffers if _matters(b)))
    times = sorted({t for b in buffers for t in (b.start, b.end)})
    alive = [frozenset(n for n, b in enumerate(buffers) if b.start <= t < b.end) for t in times[:-1]]
    kept: list[frozenset[int]] = []
    for live in alive:
        while kept and kept[-1] <= live:
            kept.pop()
        if live and not (kept and live <= kept[-1]):
            kept.append(live)
    first = [min(s for s, live in enumerate(kept) if n in live) for n in range(len(buffers))]
    last = [max(s for s, live in enumerate(kept) if n in live) + 1 for n in range(len(buffers))]
    return Instance(
        tuple(first),
        tuple(last),
        tuple(b.size_bytes // unit for b in buffers),
        tuple(b.alignment_bytes // unit if _matters(b) else 1 for b in buffers),
        len(kept),
        capacity_bytes // unit,
        unit,
    )


def _matters(buffer: PlacedBuffer) -> bool:
    return buffer.alignment_bytes > 1


class OutOfNodes(Exception):
    """An error: the search was stopped before it had an answer."""


@dataclass(frozen=True, slots=True)
class Effort:
    """The strategy of a search. `rank` orders buffers, least first. `nodes` limits the placements."""

    branching: Branching
    rank: Callable[[int], float]
    nodes: int


def search(instance: Instance, effort: Effort, failures: list[int]) -> tuple[int, ...] | None:
    """Return offsets in units, or None if there are none. `failures` counts, per section, where choices ran out.

    Raises: OutOfNodes.
    """
    if max(instance.loads) > instance.capacity:
        return None
    return _Search(instance, effort, failures).run()


@dataclass(frozen=True, slots=True)
class _Choice:
    """A section of a valley from `left` to before `right` at `level`, and the buffers that could cover it."""

    section: int
    left: int
    right: int
    level: int
    slack: int
    buffers: Sequence[int]


class _Search:
    """The state of one search: the skyline, the unplaced buffers of each section, and the placed ones."""

    def __init__(self, instance: Instance, effort: Effort, failures: list[int]) -> None:
        self.instance = instance
        self.effort = effort
        self.failures = failures
        self.nodes = 0
        self.skyline = [0] * instance.sections
        self.rest = list(instance.loads)
        self.placed = [False] * len(instance.size)
        self.offsets = [0] * len(instance.size)
        ranked = sorted(range(len(instance.size)), key=effort.rank)
        self.covering: list[list[int]] = [[] for _ in range(instance.sections)]
        for b in ranked:
            for s in range(instance.first[b], instance.last[b]):
                self.covering[s].append(b)

    def run(self) -> tuple[int, ...] | None:
        """Search depth first, without recursion, because instances have hundreds of buffers."""
        trail: list[tuple[_Choice, int]] = []
        while (choice := self.branch()) is not None:
            pick = 0
            while not self.take(choice, pick):
                # All choices of this place are used up: the one before was wrong.
                if pick >= len(choice.buffers):
                    self.failures[choice.section] += 1
                    if not trail:
                        return None
                    choice, pick = trail.pop()
                    self.undo(choice, pick)
                pick += 1
            trail.append((choice, pick))
        return tuple(self.offsets)

    def branch(self) -> _Choice | None:
        """Return where to place next, or None if all buffers are placed."""
        found: _Choice | None = None
        best: tuple[int, ...] = ()
        for left, right in self.valleys():
            level = self.skyline[left]
            for section in range(left, right):
                choice = self.choice(section, left, right, level)
                count = len(choice.buffers) + (choice.slack > 0)
                if count == 0:
                    return choice
                key = (level, section) if self.effort.branching == "lowest" else (count, choice.slack)
                if found is None or key < best:
                    found, best = choice, key
                if self.effort.branching == "lowest":
                    break
        return found

    def valleys(self) -> list[tuple[int, int]]:
        """Return runs of sections of one height between higher walls. A section without buffers left is a wall."""
        found: list[tuple[int, int]] = []
        level, left = -1, 0
        sections = self.instance.sections
        is_open = False  # whether the run that starts at `left` has a wall on its left
        for s in range(sections + 1):
            height = self.skyline[s] if s < sections and self.rest[s] > 0 else self.instance.capacity + 1
            if height == level:
                continue
            if is_open and height > level:
                found.append((left, s))
            is_open = level < 0 or height < level
            level, left = height, s
            if height > self.instance.capacity:
                is_open = False
        return found

    def choice(self, section: int, left: int, right: int, level: int) -> _Choice:
        instance = self.instance
        buffers = [
            b
            for b in self.covering[section]
            if not self.placed[b] and instance.first[b] >= left and instance.last[b] <= right
        ]
        slack = instance.capacity - self.rest[section] - level
        return _Choice(section, left, right, level, slack, buffers)

    def take(self, choice: _Choice, pick: int) -> bool:
        """Place one of a choice's buffers, or leave a gap after the last one. Return whether that is possible."""
        if pick > len(choice.buffers):
            return False
        self.nodes += 1
        if self.nodes > self.effort.nodes:
            raise OutOfNodes
        if pick == len(choice.buffers):
            height = self.bridge(choice)
            if height is None or height + self.rest[choice.section] > self.instance.capacity:
                return False
            self.skyline[choice.section] = height
            return True
        b = choice.buffers[pick]
        if any(self.is_same(b, other) for other in choice.buffers[:pick]):
            return False
        return self.place(b, choice.level)

    def place(self, b: int, level: int) -> bool:
        """Place a buffer unless a section under it could then not hold the remaining buffers."""
        i = self.instance
        offset = -(-level // i.alignment[b]) * i.alignment[b]
        top = offset + i.size[b]
        for s in range(i.first[b], i.last[b]):
            if top + self.rest[s] - i.size[b] > i.capacity:
                self.failures[s] += 1
                return False
        self.placed[b], self.offsets[b] = True, offset
        for s in range(i.first[b], i.last[b]):
            self.skyline[s] = top
            self.rest[s] -= i.size[b]
        return True

    def undo(self, choice: _Choice, pick: int) -> None:
        if pick == len(choice.buffers):
            self.skyline[choice.section] = choice.level
            return
        b = choice.buffers[pick]
        self.placed[b] = False
        for s in range(self.instance.first[b], self.instance.last[b]):
            self.skyline[s] = choice.level
            self.rest[s] += self.instance.size[b]

    def bridge(self, choice: _Choice) -> int | None:
        """Return the least height at which a buffer could cover a section that is left empty, or None.

        The next buffer over the section rests on a wall of the valley, or on a buffer that will be next to it
        there.
        """
        if choice.slack <= 0:
            return None
        i = self.instance
        walls = [self.skyline[s] for s in (choice.left - 1, choice.right) if self.is_wall(s)]
        adjacent = {b for s in range(choice.left, choice.right) for b in self.covering[s]}
        supports = [
            choice.level + i.size[b]
            for b in adjacent
            if not self.placed[b]
            and i.first[b] >= choice.left
            and i.last[b] <= choice.right
            and not i.first[b] <= choice.section < i.last[b]
        ]
        return min((*walls, *supports), default=None)

    def is_wall(self, section: int) -> bool:
        """Return whether a section next to a valley may still be covered by a buffer."""
        return 0 <= section < self.instance.sections and self.rest[section] > 0

    def is_same(self, one: int, other: int) -> bool:
        """Return whether two buffers are interchangeable."""
        i = self.instance
        return (i.first[one], i.last[one], i.size[one], i.alignment[one]) == (
            i.first[other],
            i.last[other],
            i.size[other],
            i.alignment[other],
        )
