"""Divide work evenly among the iterations of a loop: each iteration performs a slice of the pieces.

Twelve pieces interleaved with the five iterations of `for k`:

    begin copy, 12 pieces in 5 shares
    for k in 5:  share k of 5 of copy

Each slice alone is

    for s in (k + 1) * 12 / 5 - k * 12 / 5:  piece(k * 12 / 5 + s)

A piece is the body of the loops that only count: one row of a copy, or one register of it, so that there are
more pieces than iterations.
"""

from __future__ import annotations

from collections.abc import Callable

from isamap.ir import ZERO, Index, index_min, product
from isamap.lower.place import Place
from isamap.lower.program import Begin, Block, Condition, Fill, For, If, Names, Node, WorkSlice
from isamap.lower.walk import rename_in
from isamap.lower.work_slices import positions, share_of_pieces, split_counted_loops
from isamap.source.records import dataclass, replace


@dataclass(frozen=True, slots=True)
class DividedWork:
    """Work that is divided among the iterations of some loops, each directly inside the previous one.

    `hosts` are the loops (by number) with their trip counts; `make` builds the work's nodes, anew each time.
    With `by_rows`, each iteration of the last host has the pieces of the same number of rows (the last one
    perhaps of fewer), and the iterations of the outer hosts divide them. The work named `work` has begun
    outside of them.
    """

    note: str
    hosts: tuple[tuple[int, Index], ...]
    make: Callable[[], tuple[Node, ...]]
    by_rows: int = 0
    work: str = ""

    @property
    def trips(self) -> Index:
        """The number of iterations among which the work is divided."""
        return product(count for _, count in self.hosts)

    @property
    def innermost(self) -> int:
        """The number of the innermost loop, whose body performs the slices."""
        return self.hosts[-1][0]


def continue_slices(dealt: DividedWork, names: Names) -> tuple[DividedWork, tuple[Node, ...]]:
    """Return the work in slices that continue where the previous slice ended, and the nodes that start it.

    Later nodes read values in registers: if such values are defined outside a loop, the work is one piece.
    """
    work = names.fresh("work")
    _, nodes = _split_guards(dealt.make())
    apart = all(isinstance(node, For | If | Block | Fill) for node in nodes)
    if not nodes or not apart or dealt.trips.value == 1:
        return dealt, ()
    depths = _depths(nodes, dealt.trips)
    counters = [split_counted_loops((node,), depth)[0] for node, depth in zip(nodes, depths, strict=True)]
    pieces = sum((product(count for _, count in some) for some in counters), start=ZERO)
    return replace(dealt, work=work), (Begin(work, pieces, dealt.trips, max(depths), len(nodes)),)


def _depths(nodes: tuple[Node, ...], trips: Index) -> tuple[int, ...]:
    """Return for each part how many loops count its pieces: as few as give each iteration a piece.

    If an iteration gets several, smaller pieces are more even: at least four, or as many for all.
    """
    found: list[int] = []
    for node in nodes:
        counters, _ = split_counted_loops((node,))
        depth = len(counters)
        for fewer in range(depth - 1, -1, -1):
            pieces = product(count for _, count in counters[:fewer])
            if not (pieces.value and trips.value) or pieces.constant < trips.constant:
                break
            if pieces.constant % trips.constant == 0 or pieces.constant >= 4 * trips.constant:
                depth = fewer
        found.append(depth)
    return tuple(found)


def is_even(dealt: DividedWork) -> bool:
    """Return whether every iteration performs the same number of pieces, known at compile time."""
    pieces = product(count for _, count in split_counted_loops(_split_guards(dealt.make())[1])[0])
    trips = dealt.trips
    return bool(pieces.value and trips.value) and pieces.constant % trips.constant == 0


def has_rows(dealt: DividedWork) -> bool:
    """Return whether pieces form rows, with equally many pieces for each iteration of the last host."""
    return _rows_of(dealt) is not None


@dataclass(frozen=True, slots=True)
class _Rows:
    """Pieces in rows: a loop over rows, and around it a loop over their lines.

    Each iteration of the loop over rows has `each` pieces. `conditions` guard all of it. Without a loop over
    lines, there is one line. `last` is the last row if the last iteration may have fewer.
    """

    conditions: tuple[Condition, ...]
    line: str
    lines: int
    row: str
    each: int
    last: Index | None
    body: tuple[Node, ...]


def _rows_of(dealt: DividedWork) -> _Rows | None:
    """Return the rows that work consists of, or None if it has none or only run time knows their number."""
    conditions, nodes = _split_guards(dealt.make())
    around: list[For] = []
    while len(nodes) == 1 and isinstance(nodes[0], For):
        around.append(nodes[0])
        nodes = nodes[0].body
    if not 1 <= len(around) <= 2:
        return None
    *lines, rows = around
    trips, each = dealt.hosts[-1][1], dealt.by_rows
    last: Index | None = None
    if rows.trips != trips * each:
        if rows.trips.ceildiv(each) != trips:
            return None
        last = rows.trips - 1
    if not lines:
        return _Rows(conditions, "", 1, rows.variable, each, last, nodes)
    count = lines[0].trips.value
    return _Rows(conditions, lines[0].variable, count, rows.variable, each, last, nodes) if count else None


def share_of(dealt: DividedWork, place: Place, names: Names) -> tuple[Node, ...]:
    """Return the slice of work that the iteration at `place` performs."""
    if dealt.by_rows:
        return _share_of_rows(dealt, place, names)
    made, trips = dealt.make(), dealt.trips
    if not made or trips.value == 1:
        return (Block(dealt.note, made),) if made else ()
    now = ZERO
    for number, count in dealt.hosts:
        now = now * count + place.trips[number]
    conditions, work = _split_guards(made)
    if dealt.work:
        depths = _depths(work, trips)
        nodes: tuple[Node, ...] = (WorkSlice(dealt.work, now, trips, names.fresh("share"), depths, work),)
        return (Block(dealt.note, (If(conditions, nodes),) if conditions else nodes),)
    counters, body = split_counted_loops(work)
    pieces = product(count for _, count in counters)
    variable = names.fresh("share")
    piece, count = share_of_pieces(pieces, trips, now, Index.of(variable))
    if count.value == 0:
        return ()
    bindings = positions(counters, piece)
    share: Node = For(variable, count, rename_in(body, bindings))
    return (Block(dealt.note, (If(conditions, (share,)) if conditions else share,)),)


def _share_of_rows(dealt: DividedWork, place: Place, names: Names) -> tuple[Node, ...]:
    """Return the rows of which an iteration performs a slice. Outer iterations take lines in turn.

    So an iteration of a sum has next to nothing to count, and all of its iterations have as many hints. Of
    lines that are fewer than those trips, each has a part of the rows: all of them in the first trips would
    be more than a memory sends meanwhile.
    """
    rows = _rows_of(dealt)
    assert rows is not None, "only what stands in rows is dealt by them"
    number, _ = dealt.hosts[-1]
    around, now = product(count for _, count in dealt.hosts[:-1]).constant, ZERO
    for host, count in dealt.hosts[:-1]:
        now = now * count + place.trips[host]
    row = place.trips[number] * rows.each
    nth = names.fresh("row") if rows.each > 1 else ""
    if nth:
        row = row + Index.of(nth)
        row = row if rows.last is None else index_min(row, rows.last)
    here = rename_in(rows.body, {rows.row: row})
    if nth:
        here = (For(nth, Index.of(rows.each), here),)
    iterations, left = divmod(rows.lines, around)
    found: tuple[Node, ...] = ()
    if iterations == 1:
        found = rename_in(here, {rows.line: now})
    elif iterations:
        nth = names.fresh("share")
        found = (For(nth, Index.of(iterations), rename_in(here, {rows.line: now + Index.of(nth) * around})),)
    if left:
        parts = around // left
        last = rename_in(here, {rows.line: now.mod(left) + iterations * around})
        mine: tuple[Condition, ...] = ((now, "<", Index.of(left * parts)),)
        if parts > 1:
            mine = (*mine, (place.trips[number].mod(parts), "==", now.floordiv(left)))
        found = (*found, If(mine, last))
    return (Block(dealt.note, (If(rows.conditions, found),) if rows.conditions else found),)


def _split_guards(nodes: tuple[Node, ...]) -> tuple[tuple[Condition, ...], tuple[Node, ...]]:
    """Return the conditions around the whole work, and the nodes inside them."""
    conditions: tuple[Condition, ...] = ()
    while len(nodes) == 1 and isinstance(nodes[0], If):
        conditions += nodes[0].conditions
        nodes = nodes[0].body
    return conditions, nodes
