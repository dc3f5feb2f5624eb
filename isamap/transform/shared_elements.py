"""Dependences between statements: the iterations in which two statements access the same element.

Rewrites consult this module before they reorder statements. Of `h[t + 1, n] = …` and `… = h[t, n]` in `seq
t` the first touches in one iteration the element that the second touches in the next. The proofs are those
of the verifier (`isamap.ir.dependences`): sound, not complete.

For ordered loops the module also computes which statements must precede which others across iterations. In
`seq t { a[t] = b[t]; b[t + 1] = a[t]; }` each needs the other: `a[t]` is written before it is read, and the
next iteration reads `b[t + 1]`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import groupby

from isamap.ir import BOOL, Assign, Axis, Index, Kernel, Operand, Read, is_nonnegative
from isamap.ir.equal_axes import equal_axes
from isamap.ir.facts import AxisAt, FreeSizes, Site, known_facts
from isamap.source.records import dataclass, replace
from isamap.transform.rewrite import accesses
from isamap.transform.statements import Statement, statements

Relation = frozenset[str]
"""The orders (`<`, `=`, `>`) of two statements' iterations that access one element."""

NEVER: Relation = frozenset()
ALWAYS: Relation = frozenset("<=>")


@dataclass(frozen=True, slots=True)
class Conflicts:
    """A kernel with its declarations, for queries about conflicts.

    `whole` are operands of which a read of one element counts as a read of all: it rounds all accumulated
    elements. `in_order`: float sums keep the order of the text.
    """

    kernel: Kernel
    frame: Kernel
    whole: frozenset[str]
    in_order: bool = False

    @staticmethod
    def of(kernel: Kernel, *, in_order: bool = False) -> Conflicts:
        """Return the context for queries about conflicts in a kernel."""
        frame = replace(kernel, name="", body=(), span=None)
        wide = [o.name for o in kernel.operands if is_wide(o)]
        whole = frozenset(n for n in wide if not _sums_once(kernel, frame, n))
        return Conflicts(kernel, frame, whole, in_order)

    @property
    def known(self) -> FreeSizes:
        return _known_facts(self.frame)

    def positive(self, extent: Index) -> bool:
        """Return whether an extent is provably at least 1."""
        return is_nonnegative(extent.substitute(self.known.bindings) - 1, self.known.facts)

    def same(self, a: Index, b: Index) -> bool:
        """Return whether two sizes are provably equal."""
        return a.substitute(self.known.bindings) == b.substitute(self.known.bindings)


def meetings(a: Statement, b: Statement, around: int, of: Conflicts) -> Relation:
    """Return how iterations of ordered axis number `around` compare if a and b access a common element in them.

    The outer ordered axes are equal in both. If there is no such axis, `=` means that they access a common
    element.
    """
    found = NEVER
    for f, g in _clashes(a, b, of):
        found |= _relation(f, g, a, b, around, of)
    return found


def never_meet(a: Statement, b: Statement, of: Conflicts) -> bool:
    """Return whether two statements of the same ordered loops may be exchanged."""
    shared = len([1 for x, y in zip(a.ordered_loops, b.ordered_loops, strict=False) if x == y])
    return not any(_relation(f, g, a, b, shared, of, alone=True) for f, g in _clashes(a, b, of))


def may_be_one(f: Read, a: Statement, g: Read, b: Statement, of: Conflicts, *, in_turn: bool) -> bool:
    """Return whether two accesses may be one element. `in_turn` compares iterations of shared loops only."""
    if f.buffer != g.buffer:
        return False
    pairs = zip(a.ordered_loops, b.ordered_loops, strict=False)
    shared = len([1 for x, y in pairs if x == y]) if in_turn else 0
    return bool(_relation(f, g, a, b, shared, of, alone=True))


def targets_meet(a: Statement, b: Statement, of: Conflicts) -> bool:
    """Return whether two statements in the same ordered loops may change one element, even by equal reductions."""
    mine, its = a.assign.target, b.assign.target
    if mine.buffer != its.buffer:
        return False
    shared = len([1 for x, y in zip(a.ordered_loops, b.ordered_loops, strict=False) if x == y])
    own = ((*a.sequence[shared:], *a.axes), (*b.sequence[shared:], *b.axes))
    return bool(_relate_elements(of.frame, mine.index, its.index, own, a.sequence[:shared], None))


def commute_with(statement: Statement, others: Iterable[Statement], of: Conflicts) -> bool:
    """Return whether a statement can be exchanged with each of the others, one after the other."""
    return all(never_meet(statement, o, of) for o in others)


def sums_in_any_order(kernel: Kernel, operand: Operand, op: str) -> bool:
    """Return whether the terms of a reduction may be reordered, as is the default for floats."""
    accumulator = operand.accumulate or operand.dtype
    if not accumulator.is_float or op in ("max", "min"):
        return True
    return not kernel.strict and accumulator.mantissa_bits >= 24


def is_wide(operand: Operand) -> bool:
    """Return whether reading an operand rounds its accumulated values."""
    return operand.accumulate is not None and operand.accumulate != operand.dtype


def writes_all(given: Iterable[Statement], operand: Operand, of: Conflicts) -> bool:
    """Return whether plain assignments together write every element of an operand, for any data.

    One assignment writes everything if its subscripts are axes of the operand's extents. Several do if they
    differ in one subscript, which takes all values.
    """
    slices: set[tuple[int | None, ...]] = set()
    for s in given:
        if s.assign.target.buffer == operand.name and s.assign.op is None and s.assign.guard is None:
            found = _slice(s, operand, of)
            if found is not None:
                slices.add(found)
    if (None,) * len(operand.shape) in slices:
        return True
    for d, extent in enumerate(operand.shape):
        ones = {s[d] for s in slices if all((n is None) != (i == d) for i, n in enumerate(s))}
        if extent.value is not None and ones >= set(range(extent.value)):
            return True
    return False


def _slice(s: Statement, operand: Operand, of: Conflicts) -> tuple[int | None, ...] | None:
    """Return the constant of each subscript, with None for one that covers its dimension, or None."""
    axes = {a.name: a.extent for a in s.axes}
    found: list[int | None] = []
    for subscript, extent in zip(s.assign.target.index, operand.shape, strict=True):
        name = str(subscript)
        if subscript.value is not None:
            found.append(None if subscript.value == 0 and extent.value == 1 else subscript.value)
        elif name in axes and of.same(axes.pop(name), extent):
            found.append(None)
        else:
            return None
    return tuple(found)


# --- pairs of accesses ------------------------------------------------------------------------------------


def _clashes(a: Statement, b: Statement, of: Conflicts) -> Iterator[tuple[Read, Read]]:
    """Yield conflicting pairs of accesses. Two equal reductions commute and do not conflict."""
    mine, its = a.assign, b.assign
    for n, g in enumerate(accesses(b)):
        if g.buffer == mine.target.buffer and not (n == 0 and _commute(a, b, of)):
            yield mine.target, g
    for f in accesses(a)[1:]:
        if f.buffer == its.target.buffer:
            yield f, its.target


def _commute(a: Statement, b: Statement, of: Conflicts) -> bool:
    op = a.assign.op
    if op is None or op != b.assign.op:
        return False
    operand = of.kernel.operand(a.assign.target.buffer)
    if is_wide(operand):
        return False  # each of the two may be rounded by itself
    exact = not (operand.accumulate or operand.dtype).is_float or op in ("max", "min")
    return exact or (not of.in_order and sums_in_any_order(of.kernel, operand, op))


def _relation(
    f: Read, g: Read, a: Statement, b: Statement, around: int, of: Conflicts, *, alone: bool = False
) -> Relation:
    if f.buffer in of.whole:
        return ALWAYS
    shared = a.sequence[:around]
    axis = None if alone or around >= len(a.sequence) else a.sequence[around]
    inside = around + (axis is not None)
    own = ((*a.sequence[inside:], *a.axes), (*b.sequence[inside:], *b.axes))
    return _relate_elements(of.frame, f.index, g.index, own, shared, axis)


def _sums_once(kernel: Kernel, frame: Kernel, name: str) -> bool:
    """Return whether one iteration of one statement sums all of an element.

    Then the time at which other elements are rounded does not matter.
    """
    sums = [s for s in statements(kernel) if s.assign.target.buffer == name and s.assign.op is not None]
    for s in sums:
        for depth, axis in enumerate(s.sequence):
            own = (*s.sequence[depth + 1 :], *s.axes)
            index = s.assign.target.index
            if _relate_elements(frame, index, index, (own, own), s.sequence[:depth], axis) - {"="}:
                return False
    return len(sums) <= 1


@lru_cache(maxsize=1 << 16)
def _relate_elements(
    frame: Kernel,
    f: tuple[Index, ...],
    g: tuple[Index, ...],
    own: tuple[tuple[Axis, ...], tuple[Axis, ...]],
    shared: tuple[Axis, ...],
    axis: Axis | None,
) -> Relation:
    """Return how values of `axis` compare where two subscripts are equal. The result is cached."""
    known = _known_facts(frame)
    outer = tuple(AxisAt(x.name, x.extent, True, n) for n, x in enumerate(shared))
    common = outer if axis is None else (*outer, AxisAt(axis.name, axis.extent, True, len(shared)))
    reads = [Read("", index, BOOL) for index in (f, g)]
    sites = [_site(common, axes, n) for n, axes in enumerate(own)]
    equal = {x.name for x in shared}
    solved = equal_axes(reads[0], reads[1], sites[0], sites[1], common, equal, known)
    if solved is None:
        return NEVER
    if axis is None or axis.name in solved:
        return frozenset("=")
    # The sign of the iteration distance between f and g, if a subscript determines it: `h[t + 1]`, `h[t]`.
    private = {x.name for s in sites for x in s.axes} - equal
    for mine, its in zip(f, g, strict=True):
        left, right = mine.substitute(known.bindings), its.substitute(known.bindings)
        slope = left.coefficient(axis.name)
        step = slope.value if slope is not None else None
        if not step or slope != right.coefficient(axis.name):
            continue
        moved = [i - Index.of(axis.name) * step for i in (left, right)]
        gap = (moved[1] - moved[0]).value
        if gap is None or any(i.symbols & private for i in moved):
            continue
        if gap % step:
            return NEVER
        return frozenset("=" if gap == 0 else ">" if gap // step > 0 else "<")
    return ALWAYS


@lru_cache(maxsize=256)
def _known_facts(frame: Kernel) -> FreeSizes:
    return known_facts(frame)


def _site(common: tuple[AxisAt, ...], own: tuple[Axis, ...], number: int) -> Site:
    """Return a site in these loops, without accesses."""
    axes = (*common, *(AxisAt(x.name, x.extent, False, 1000 + number) for x in own))
    return Site(Assign(Read("", (), BOOL), None, Read("", (), BOOL)), axes, (), number)


Unit = tuple[Statement, ...]
"""Statements of one ordered loop that stay together: one, or those of an inner ordered loop."""

Needs = list[list[bool]]
"""For each pair of units whether the second needs the first."""


@dataclass(frozen=True, slots=True)
class Sequential:
    """An ordered loop of a canonical kernel: its depth, and the statements before, inside and after it."""

    before: tuple[Statement, ...]
    inside: tuple[Statement, ...]
    behind: tuple[Statement, ...]
    depth: int

    @property
    def axis(self) -> Axis:
        return self.inside[0].sequence[self.depth]

    @property
    def units(self) -> tuple[Unit, ...]:
        groups = groupby(
            enumerate(self.inside), lambda i: (i[1].ordered_loops[self.depth + 1 :] or (~i[0],))[0]
        )
        return tuple(tuple(s for _, s in members) for _, members in groups)


def sequential_loops(given: Sequence[Statement]) -> Iterator[Sequential]:
    """Yield all ordered loops, outer loops before inner ones."""
    numbers = dict.fromkeys(n for s in given for n in s.ordered_loops)
    for number in numbers:
        at = [i for i, s in enumerate(given) if number in s.ordered_loops]
        first, last = at[0], at[-1] + 1
        depth = given[first].ordered_loops.index(number)
        yield Sequential(tuple(given[:first]), tuple(given[first:last]), tuple(given[last:]), depth)


def without_order(s: Statement, depth: int) -> Statement:
    """Return the statement with an ordered axis moved to the unordered axes."""
    return replace(
        s,
        axes=(s.sequence[depth], *s.axes),
        sequence=(*s.sequence[:depth], *s.sequence[depth + 1 :]),
        ordered_loops=(*s.ordered_loops[:depth], *s.ordered_loops[depth + 1 :]),
    )


def needs(of: Conflicts, loop: Sequential) -> Needs:
    """Return a matrix: needs[i][j] if some iteration of unit i must precede some iteration of unit j."""
    units = loop.units
    found = [[False] * len(units) for _ in units]
    for i, first in enumerate(units):
        for j, second in enumerate(units[i:], i):
            relation = _meetings(first, second, loop.depth, of)
            found[i][j] |= "<" in relation or (i < j and "=" in relation)
            found[j][i] |= ">" in relation
    return found


def _meetings(first: Unit, second: Unit, depth: int, of: Conflicts) -> Relation:
    found: Relation = frozenset()
    for a in first:
        for b in second:
            found |= meetings(a, b, depth, of)
            if found == ALWAYS:
                return found
    return found


def closure(order: Needs) -> Needs:
    """Return the transitive closure of a relation."""
    reach = [list(row) for row in order]
    for m, through in enumerate(reach):
        for row in reach:
            if row[m]:
                row[:] = [a or b for a, b in zip(row, through, strict=True)]
    return reach


def in_needed_order(taken: list[int], order: Needs) -> list[int]:
    """Return the units in topological order, otherwise in textual order."""
    left, found = list(taken), list[int]()
    while left:
        following = next(n for n in left if not any(order[m][n] for m in left if m != n))
        left.remove(following)
        found.append(following)
    return found
