"""All mappings of a small statement, straight from the definition in docs/matching.md: by trying everything.

    all_mappings(instruction, kernel)       complete and fixed, each mapping with its symmetric images

Nothing here knows how the matcher works, and nothing is shared with it. Operands are laid over every node of
the kernel's tree; kernel axes are put everywhere; a mapping is valid when no element of an operand stands for
two elements of a tensor, in whatever order axes are fused and wherever blocks lie. An operand that is read at
several subscripts stands for something at each, and its elements for one value through all of them. Sizes are
numbers.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import permutations, product
from math import prod

from brute_pairings import Pairing, children, fills, indices, normal, pairings, skeleton, with_children

from isamap.ir import Assign, Expr, Index, Instruction, Loop, Read, Routine

UNBOUNDED = 10**6
"""The length of an instruction axis whose parameter has no upper end: more than any kernel here fills."""

Element = tuple[int, ...]
Point = Mapping[str, int]
Block = list[tuple[int, int]]
"""The lanes of one block: the number of each lane, and that of the iteration that it stands for."""
Groups = tuple[tuple[tuple[str, ...], tuple[str, ...]], ...]
"""Instruction axes, and the kernel axes that run over them together."""


@dataclass(frozen=True)
class Found:
    """One mapping: what operands stand for, and which kernel axes run over which instruction axes."""

    kind: str
    pairing: frozenset[tuple[str, tuple[Index, ...], Expr]]
    groups: frozenset[tuple[frozenset[str], frozenset[str]]]
    empty: frozenset[str]

    def images(self, instruction: Instruction) -> frozenset[Found]:
        """Itself and what the symmetries of the instruction make of it."""
        return frozenset(
            Found(
                self.kind,
                frozenset((operands.get(n, n), _renamed_all(at, axes), e) for n, at, e in self.pairing),
                frozenset((frozenset(axes[i] for i in mine), theirs) for mine, theirs in self.groups),
                frozenset(axes[i] for i in self.empty),
            )
            for axes, operands in _symmetries(instruction)
        )


Answer = set[frozenset[Found]]


def all_mappings(instruction: Instruction, kernel: Routine) -> tuple[Answer, Answer]:
    """Return all mappings, each with its images, and those of the first pairing in written order."""
    mine, theirs = _single(instruction).assign, _single(kernel).assign
    output = kernel.operand(theirs.target.buffer)
    expected = output.dtype if theirs.op is None else output.accumulate or output.dtype
    if theirs.guard is not None or mine.op != theirs.op:
        return set(), set()
    if (mine.target.dtype, mine.value.dtype) != (expected, theirs.value.dtype):
        return set(), set()
    answers: list[Answer] = []
    for _, pairing in sorted(pairings(mine.value, theirs.value), key=lambda p: p[0]):
        answers.append({m.images(instruction) for m in _placements(instruction, kernel, pairing)})
    return (set[frozenset[Found]]().union(*answers), answers[0]) if answers else (set(), set())


@dataclass(frozen=True)
class _Single:
    """A routine of one statement, its guards joined into one that says no more than that there are some."""

    axes: dict[str, Index]
    ordered: set[str]
    assign: Assign


def _single(routine: Routine) -> _Single:
    axes: dict[str, Index] = {}
    ordered: set[str] = set()
    guard = None
    (stmt,) = routine.body
    while isinstance(stmt, Loop):
        axes |= {a.name: a.extent for a in stmt.axes}
        ordered |= {a.name for a in stmt.axes if stmt.ordered}
        guard = guard or stmt.guard
        (stmt,) = stmt.body
    return _Single(axes, ordered, replace(stmt, guard=guard or stmt.guard))


# --- symmetries -------------------------------------------------------------------------------------------


def _renamed(e: Expr, axes: Mapping[str, Index], operands: Mapping[str, str]) -> Expr:
    if isinstance(e, Read):
        name = operands.get(e.buffer, e.buffer)
        return replace(e, buffer=name, index=tuple(i.substitute(axes) for i in e.index))
    return with_children(e, [_renamed(c, axes, operands) for c in children(e)])


def _renamed_all(subscripts: Sequence[Index], axes: Mapping[str, str]) -> tuple[Index, ...]:
    return tuple(i.substitute({a: Index.of(b) for a, b in axes.items()}) for i in subscripts)


@cache
def _symmetries(instruction: Instruction) -> list[tuple[dict[str, str], dict[str, str]]]:
    """Renamings of axes and inputs under which the instruction means the same as written."""
    axes, own = _single(instruction).axes, _single(instruction).assign
    found: list[tuple[dict[str, str], dict[str, str]]] = []
    inputs = [o.name for o in instruction.operands if o.role == "in"]
    plain = own.target, normal(own.value)
    for places, names in product(permutations(axes), permutations(inputs)):
        axis, operand = dict(zip(axes, places, strict=True)), dict(zip(inputs, names, strict=True))
        to = {a: Index.of(b) for a, b in axis.items()}
        declared = all(
            replace(instruction.operand(a), name=b) == instruction.operand(b) for a, b in operand.items()
        )
        renamed = _renamed(own.target, to, operand), normal(_renamed(own.value, to, operand))
        if declared and renamed == plain and all(axes[a] == axes[b] for a, b in axis.items()):
            found.append((axis, operand))
    return found


HOLDS = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


# --- which axes run where ---------------------------------------------------------------------------------


def _placements(instruction: Instruction, kernel: Routine, pairing: Pairing) -> Iterator[Found]:
    """Yield all valid ways to put kernel axes on instruction axes, or on classes of them, under one pairing."""
    sizes = _largest(instruction)
    if sizes is None:
        return
    issues = _Issues(instruction, kernel, pairing, sizes)
    open_sizes = [n for n, v in sizes.items() if v == UNBOUNDED]
    others = [
        _Issues(instruction, kernel, pairing, sizes | dict.fromkeys(open_sizes, n), issues)
        for n in range(1, prod(issues.extents.values()) + 4)
        if issues.moves_with(open_sizes)
    ]

    def are_valid(groups: Groups) -> bool:
        return all(i.are_valid(groups) for i in (issues, *others))

    homes = [(j,) for j in issues.lengths] + [c for c in issues.classes() if len(c) > 1]
    # An axis taken off a valid mapping leaves a valid one: outermost in its fusion, it stands still in most
    # blocks. So one that may not run somewhere alone need not be tried there with others.
    alone = {
        x: [h for h in homes if x not in issues.ordered and are_valid(((h, (x,)),))] for x in issues.extents
    }
    needless = {j for j in issues.lengths if not any((j,) in places for places in alone.values())}
    for chosen in product(*([None, *places] for places in alone.values())):
        on = {h: tuple(x for x, c in zip(alone, chosen, strict=True) if c == h) for h in homes}
        groups = tuple((h, xs) for h, xs in on.items() if xs)
        taken = [j for h, _ in groups for j in h]
        empty = issues.lengths.keys() - set(taken)
        if len(taken) == len(set(taken)) and empty <= needless and are_valid(groups):
            kind = "degenerate" if empty else "split" if any(len(h) > 1 for h, _ in groups) else "whole"
            pairs = frozenset((name, at, e) for (name, at), e in pairing.items())
            sets = frozenset((frozenset(h), frozenset(xs)) for h, xs in groups)
            yield Found(kind, pairs, sets, issues.units | empty)


def _largest(instruction: Instruction) -> dict[str, int] | None:
    """Return the largest values of parameters for which what is demanded holds; None when it never does."""
    ranges = [
        range(_at((p.low,), {})[0] if p.low else 1, _at((p.high,), {})[0] + 1) if p.high else [UNBOUNDED]
        for p in instruction.params
    ]
    names = [p.name for p in instruction.params]
    tried = [dict(zip(names, values, strict=True)) for values in product(*ranges)]
    allowed = [
        p for p in tried if all(HOLDS[c.comparison](*_at((c.left, c.right), p)) for c in instruction.where)
    ]
    return {n: max(p[n] for p in allowed) for n in names} if allowed else None


class _Issues:
    """All issues of an instruction under one pairing: what each lane and each iteration touches.

    Where a parameter without bound moves elements, all of its values count; lanes are numbered as in `whole`.
    """

    def __init__(
        self,
        instruction: Instruction,
        kernel: Routine,
        pairing: Pairing,
        sizes: Point,
        whole: _Issues | None = None,
    ) -> None:
        mine, own = _single(instruction).axes, _single(instruction).assign
        theirs, target = _single(kernel).axes, _single(kernel).assign
        self.ordered = _single(kernel).ordered
        self.sizes = dict(sizes)
        lengths = {j: _at((extent,), sizes)[0] for j, extent in mine.items()}
        self.units = whole.units if whole else frozenset(j for j, n in lengths.items() if n == 1)
        self.lengths = {j: n for j, n in lengths.items() if j not in self.units}
        self.numbering = whole.numbering if whole else self.lengths
        self.extents = {x: n for x, extent in theirs.items() if (n := _at((extent,), {})[0]) > 1}
        widths = {j: min(n, prod(self.extents.values())) for j, n in self.lengths.items()}
        self.lane_steps, self.steps = _steps(widths), _steps(self.extents)
        self.subscripts = [s for _, s in pairing] + [own.target.index]
        tensors = [indices(e) for e in pairing.values()] + [target.target.index]
        names = [name for name, _ in pairing]
        self.twice = [[n for n, name in enumerate(names) if name == own] for own in dict.fromkeys(names)]
        self.twice = [reads for reads in self.twice if len(reads) > 1]
        self.skeletons = [skeleton(e) for e in pairing.values()]
        self.fills = [fills(e) for e in pairing.values()]
        self.sizes |= dict.fromkeys(self.units, 0)
        self.elements = [[_at(s, self.sizes | p) for p in _points(widths)] for s in self.subscripts]
        still = dict.fromkeys(theirs, 0)
        self.tensors = [[_at(t, still | p) for p in _points(self.extents)] for t in tensors]

    def moves_with(self, names: Sequence[str]) -> bool:
        """Return whether elements of an operand depend on one of these parameters."""
        return any(n in i.symbols for n in names for s in self.subscripts for i in s)

    def classes(self) -> list[tuple[str, ...]]:
        """Instruction axes that move the same operands when they alone are moved."""
        found: dict[Element, list[str]] = {}
        box = [self.sizes | p for p in _points(dict.fromkeys(self.lengths, 4))]
        for j in self.lengths:
            moved = tuple(any(_at(s, p) != _at(s, p | {j: 0}) for p in box) for s in self.subscripts)
            found.setdefault(moved, []).append(j)
        return [tuple(c) for c in found.values()]

    def are_valid(self, groups: Groups) -> bool:
        """Return whether no element stands for two, in whatever order axes are fused and wherever blocks lie."""
        inside = {x for _, theirs in groups for x in theirs}
        loops = self._numbers([x for x in self.extents if x not in inside])
        orders = [product(permutations(mine), permutations(theirs)) for mine, theirs in groups]
        return all(
            self._is_valid(start, blocks)
            for order in product(*orders)
            for blocks in product(*(self._blocks(mine, theirs) for mine, theirs in order))
            for start in loops
        )

    def _numbers(self, axes: Sequence[str]) -> list[int]:
        """Numbers of the iterations over some axes, the last one fastest, all others at 0."""
        points = _points({x: self.extents[x] for x in axes})
        return [sum(self.steps[x] * v for x, v in p.items()) for p in points]

    def _blocks(self, mine: tuple[str, ...], theirs: tuple[str, ...]) -> list[Block]:
        """Return a block at every position: the lanes of `mine` together count along the fused axes `theirs`."""
        fused = self._numbers(theirs)
        lanes: Block = []
        for p in _points({j: min(self.lengths[j], len(fused)) for j in mine}):
            distance = 0
            for j in mine:
                distance = distance * self.numbering[j] + p[j]
            lanes.append((sum(self.lane_steps[j] * v for j, v in p.items()), distance))
        return [[(n, fused[o + d]) for n, d in lanes if o + d < len(fused)] for o in range(len(fused))]

    def _is_valid(self, start: int, blocks: Sequence[Block]) -> bool:
        """Return whether elements and what they stand for agree in one issue, and its outputs are all different."""
        lanes = [(0, start)]
        for block in blocks:
            lanes = [(n + dn, i + di) for n, i in lanes for dn, di in block]
        both = [
            [(at[n], of[i]) for n, i in lanes] for at, of in zip(self.elements, self.tensors, strict=True)
        ]
        if not all(map(_is_function, both)) or not _is_function([(of, at) for at, of in both[-1]]):
            return False
        return all(self._is_one_value(reads, both) for reads in self.twice)

    def _is_one_value(self, reads: Sequence[int], both: Sequence[Sequence[tuple[Element, Element]]]) -> bool:
        """Return whether each element of an operand stands for one value, wherever it is read."""
        values = {(at, (self.skeletons[n], of)) for n in reads for at, of in both[n]}
        outside = {
            ((at, place), fill)
            for n in reads
            for place, fill in enumerate(self.fills[n])
            if fill is not None
            for at, _ in both[n]
        }
        return len({at for at, _ in values}) == len(values) and len({at for at, _ in outside}) == len(outside)


def _is_function(pairs: Sequence[tuple[Element, Element]]) -> bool:
    return len(set(pairs)) == len({a for a, _ in pairs})


def _points(extents: Point) -> Iterator[dict[str, int]]:
    for values in product(*(range(n) for n in extents.values())):
        yield dict(zip(extents, values, strict=True))


def _steps(extents: Point) -> dict[str, int]:
    """By how much the number of a point grows with each axis, in the order of `_points`."""
    return {x: prod(list(extents.values())[n + 1 :]) for n, x in enumerate(extents)}


def _at(subscripts: Sequence[Index], point: Point) -> Element:
    return tuple(s.evaluate(point) for s in subscripts)
