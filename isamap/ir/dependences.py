"""Verify that iterations of a `for` are independent: no two access one element, except in declared reductions.

`C[m] = A[m]; D[m] = C[m + 1];` in a `for m` has a pair of accesses of C that two iterations share.
`isamap.ir.equal_axes` decides each pair, and equal pairs once. A pair without a proof is refused: with the
counterexample if small sizes have one, else as unproved.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from operator import sub

from isamap.ir.equal_axes import shared_axes
from isamap.ir.facts import FreeSizes, Site, find_sites
from isamap.ir.nodes import Param, Read, Routine
from isamap.ir.small_sizes import GuardedAccess, find_meeting
from isamap.source import Diagnostic, dataclass, replace

MAX_PAIRS = 1 << 20
"""The most pairs of different accesses of a buffer inside a loop: checking them takes seconds."""
_MOST_FINDINGS = 100  # each is looked for in small sizes

# The axis in which two iterations differ that touch one element, and these in words; the first axis and None
# where small sizes have none.
_Meeting = Callable[[Read, Site, Read, Site, tuple[str, ...]], tuple[str, str | None]]


def check_dependences(
    routine: Routine, known: FreeSizes, constants: tuple[Param, ...] = ()
) -> Iterator[Diagnostic]:
    """Yield a finding for every pair of accesses that iterations of a `for` may have in common."""

    def meeting(f: Read, a: Site, g: Read, b: Site, axes: tuple[str, ...]) -> tuple[str, str | None]:
        found = (
            find_meeting(routine, GuardedAccess(f, a), GuardedAccess(g, b), axis, constants) for axis in axes
        )
        examples = ((axis, words) for axis, words in zip(axes, found, strict=True) if words is not None)
        return next(examples, (axes[0], None))

    sites = find_sites(routine)
    accesses = [[_sorted_in(site, read) for read in (site.assign.target, *site.reads)] for site in sites]
    writes: _Kinds = {}
    reads: _Kinds = {}
    proofs = _Proofs(known)
    found = 0
    for site, (target, *sources) in zip(sites, accesses, strict=True):
        if all(axis.ordered for axis in site.axes):
            continue
        for finding in _find_conflicts(target, sources, writes, reads, proofs, meeting):
            found += 1
            yield finding
        if found >= _MOST_FINDINGS:
            return
        if proofs.pairs > MAX_PAIRS:
            yield _too_many(target)
            return
        writes.setdefault(target.place, {}).setdefault((target.kind, site.assign.op), target)
        for source in sources:
            reads.setdefault(source.place, {}).setdefault((source.kind, None), source)


@dataclass(frozen=True, slots=True, eq=False)
class _Sorted:
    """An access, with its subscripts split into `shape` and `constants` so that equal proofs are found.

    Accesses in one `place`, of one buffer inside one outermost loop, may access the same element in an
    iteration of it. `loops` numbers the loop of each axis. Accesses of one `kind` differ only in the statements
    that have them.
    """

    site: Site
    read: Read
    place: tuple[str, int]
    shape: tuple[object, ...]
    constants: tuple[int, ...]
    loops: tuple[int, ...]

    @property
    def kind(self) -> tuple[object, ...]:
        return self.shape, self.constants, self.loops


_Kinds = dict[tuple[str, int], dict[tuple[object, str | None], _Sorted]]
"""Of each place the first access of each kind, with the operation of those that write."""


def _sorted_in(site: Site, read: Read) -> _Sorted:
    loops = tuple(axis.loop for axis in site.axes)
    ranks = {loop: rank for rank, loop in enumerate(dict.fromkeys(loops))}
    frame = tuple((axis.name, axis.extent, axis.ordered, ranks[axis.loop]) for axis in site.axes)
    constants = tuple(index.constant for index in read.index)
    moving = tuple(index - constant for index, constant in zip(read.index, constants, strict=True))
    place = (read.buffer, loops[0] if loops else 0)
    return _Sorted(site, read, place, (frame, site.guards, site.conditions, moving), constants, loops)


def _find_conflicts(
    target: _Sorted, sources: list[_Sorted], writes: _Kinds, reads: _Kinds, proofs: _Proofs, meeting: _Meeting
) -> Iterator[Diagnostic]:
    """Yield a finding for each statement, from the first to this one, that may access the same element."""
    site, said = target.site, set[int]()
    op = site.assign.op
    for (_, other_op), other in [*writes.get(target.place, {}).items(), ((None, op), target)]:
        if (op is None or op != other_op) and (axes := proofs.shared_axes(other, target)):
            said.add(other.site.position)
            yield _written_twice(other.site, site, axes, meeting)
    for source in sources:
        own = [target] if target.place == source.place else []
        for other in [*writes.get(source.place, {}).values(), *own]:
            if other.site.position not in said and (
                axes := proofs.shared_axes(other, source, by_guards=True)
            ):
                said.add(other.site.position)
                yield _report_carried(other.read, other.site, source.read, site, axes, meeting)
    for other in reads.get(target.place, {}).values():
        if other.site.position not in said and (axes := proofs.shared_axes(other, target, by_guards=True)):
            said.add(other.site.position)
            yield _report_carried(target.read, site, other.read, other.site, axes, meeting)


class _Proofs:
    """Proofs about pairs of accesses, cached: pairs at equal distances need only one proof."""

    def __init__(self, known: FreeSizes) -> None:
        self.known = known
        self.pairs = 0
        self.made: dict[tuple[object, ...], tuple[str, ...]] = {}

    def shared_axes(self, one: _Sorted, other: _Sorted, *, by_guards: bool = False) -> tuple[str, ...]:
        """Return the unordered axes in which two iterations with a common element may differ."""
        self.pairs += 1
        differ = (n for n, (a, b) in enumerate(zip(one.loops, other.loops, strict=False)) if a != b)
        depth = next(differ, min(len(one.loops), len(other.loops)))
        apart = tuple(map(sub, one.constants, other.constants))
        question = (one.shape, other.shape, depth, apart, by_guards)
        if question not in self.made:
            common = one.site.axes[:depth]
            self.made[question] = shared_axes(
                one.read, other.read, one.site, other.site, common, self.known, by_guards=by_guards
            )
        return self.made[question]


def _too_many(access: _Sorted) -> Diagnostic:
    return Diagnostic(
        "too-many-accesses",
        f"`for` loops here have more than {MAX_PAIRS} pairs of accesses to one element",
        access.read.span,
        help="write fewer statements, with loops around them, or loops of their own",
    )


def _written_twice(earlier: Site, later: Site, axes: tuple[str, ...], meeting: _Meeting) -> Diagnostic:
    target = later.assign.target
    axis, example = meeting(earlier.assign.target, earlier, target, later, axes)
    way = "order the loop with `seq`"
    if earlier is later:
        way = f"subscript `{target.buffer}` by `{axis}`, reduce with `+=`, or {way}"
        found = f"iterations that differ in `{axis}` assign the same element of `{target.buffer}`"
        unproved = f"iterations that differ in `{axis}` cannot be proved to assign different elements"
    else:
        way = f"put the two statements into loops of their own, or {way}"
        found = f"another statement assigns elements of `{target.buffer}` in other iterations of `{axis}`"
        unproved = f"another statement cannot be proved to assign no element in other iterations of `{axis}`"
    line = earlier.assign.span.line if earlier is not later and earlier.assign.span else None
    other = (f"the other statement is on line {line}",) if line else ()
    if example is None:
        if earlier.conditions or later.conditions:
            other = (*other, "guards do not count here: where one does not hold, the old value may be stored")
        return _report_unproved(f"{unproved} of `{target.buffer}`", target, other, way)
    unordered = "`for` is unordered: which value stays is not defined"
    return Diagnostic("duplicate-write", found, target.span, notes=(*other, example, unordered), help=way)


def _report_carried(
    target: Read, writer: Site, read: Read, reader: Site, axes: tuple[str, ...], meeting: _Meeting
) -> Diagnostic:
    axis, example = meeting(target, writer, read, reader, axes)
    way = f"split the loop, order it with `seq {axis} in …`, or write a reduction such as `+=`"
    if example is None:
        words = f"no proof that each iteration of `{axis}` reads only its own elements of `{target.buffer}`"
        return _report_unproved(words, replace(read, span=read.span or reader.assign.span), (), way)
    return Diagnostic(
        "loop-carried",
        f"`{target.buffer}` is written in one iteration of `{axis}` and read in another",
        read.span or reader.assign.span,
        notes=(example, "`for` is unordered: an iteration cannot use what another one computed"),
        help=way,
    )


def _report_unproved(message: str, access: Read, notes: tuple[str, ...], way: str) -> Diagnostic:
    none_found = "no two iterations of small sizes were found that meet, and no proof that none do"
    return Diagnostic("independence-unproved", message, access.span, notes=(*notes, none_found), help=way)
