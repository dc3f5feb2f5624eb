"""Copy in the order of memory lines: the loop along the rows of a tensor is inside the loops over rows.

    for k in 1024:                     for k in 64:
      for m in 64:               ->      for m in 64:
        copy A[m, k]                       for k' in 16:
                                             copy A[m, 16*k + k']

On the left a line is visited sixteen times, and 63 others in between: where rows lie a power of two of bytes
apart, those evict it each time. On the right a row is left when its line is done.

    for n in 10:                       for k in 128:
      for k in 384:                      for n in 10:
        copy B[k, 48*n + 48]     ->        for k' in 3:
                                             copy B[3*k + k', 48*n + 48]

Pieces of rows, longer than a line, are copied a few rows at a time: on the left each piece is the first of a
row that was not read from, on the right it follows the one before it. Copies of 4 MB of f32 for a product
on Ice Lake, 192 bytes a piece, took 5.8 ms on the left, 2.4 with 8 rows at a time, 2.7 row by row. A few
rows are as many as WRITTEN_BYTES of the buffer take, where one tile may have pieces of several rows.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from math import ceil

from isamap.ir import Expr, Index, index_min
from isamap.ir.walk import reads
from isamap.lower.program import Block, Fill, For, If, Names, Node
from isamap.lower.walk import has_loop, substituted
from isamap.source.records import dataclass, replace

Nodes = tuple[Node, ...]

WRITTEN_BYTES = 512  # of a buffer at least, one after the other, before the next pieces of the same rows


@dataclass(frozen=True, slots=True)
class Along:
    """A loop that counts an axis along the rows of a tensor.

    Units: `step_bytes` that each iteration moves on in a row, `written_bytes` of the buffer that it writes
    for each iteration of a loop over rows.
    """

    axis: str
    variable: str
    trips: Index
    step_bytes: int
    written_bytes: int


def along_rows(subject: Expr, axes: Iterable[str]) -> Mapping[str, int]:
    """Return the axes that run along the rows of the one tensor that is read, over positions `@axis`, and along
    nothing else of it; each with the bytes of a step. What is computed of an element does not matter."""
    met = reads(subject)
    if len(met) != 1 or len(met[0].index) < 2:
        return {}
    (read,) = met
    *outer, last = read.index
    rows = frozenset(symbol for index in outer for symbol in index.symbols)
    steps = {axis: last.coefficient(f"@{axis}") for axis in axes if f"@{axis}" not in rows}
    return {axis: read.dtype.size_bytes for axis, step in steps.items() if step and step.value == 1}


def by_lines(loop: Along, body: Nodes, inner: set[str], line_bytes: int, names: Names) -> Nodes:
    """Return the loop over a body, inside the body's own loops as far as lines reach, and inside those over rows.

    As it is where lines are not known, or the body has no loops. `inner` are variables of loops in the body
    that run along the same rows, which stay inside; those made here are added. The iterations of all loops
    may run in any order.
    """
    inner.add(loop.variable)
    iterations = line_bytes // max(1, loop.step_bytes)
    if iterations < 2 or not has_loop(body) or not _can_sink(loop.variable, body, inner):
        return _few_rows(loop, body, inner, names) if line_bytes else (_over(loop, body),)
    each = _each(loop.trips, iterations)
    if each is None:
        return sunk(loop, body, inner, names)
    first, iteration = Index.of(loop.variable) * each, names.fresh(loop.axis)
    exact = loop.trips.value is not None and loop.trips.value % each == 0
    left = Index.of(each) if exact else index_min(each, loop.trips - first)
    inside = substituted(body, {loop.variable: first + Index.of(iteration)})
    within = sunk(replace(loop, variable=iteration, trips=left), inside, inner, names)
    lines = replace(
        loop,
        trips=loop.trips.ceildiv(each),
        step_bytes=each * loop.step_bytes,
        written_bytes=each * loop.written_bytes,
    )
    return _few_rows(lines, within, inner, names)


def _over(loop: Along, body: Nodes) -> Node:
    return For(loop.variable, loop.trips, body)


def _few_rows(loop: Along, body: Nodes, inner: Collection[str], names: Names) -> Nodes:
    """Return the loop inside a body's loop over rows, of which it takes a few at a time."""
    each = ceil(WRITTEN_BYTES / max(1, loop.written_bytes))
    match body:
        case (For(rows, trips, within),) if (
            each > 1 and rows not in inner and loop.variable not in trips.symbols
        ):
            if trips.value is not None and trips.value <= 2 * each:
                return (_over(loop, body),)
            first, iteration = Index.of(rows) * each, names.fresh(rows.rstrip("0123456789"))
            exact = trips.value is not None and trips.value % each == 0
            left = Index.of(each) if exact else index_min(each, trips - first)
            near = For(iteration, left, substituted(within, {rows: first + Index.of(iteration)}))
            return (For(rows, trips.ceildiv(each), (_over(loop, (near,)),)),)
        case _:
            return (_over(loop, body),)


def _each(trips: Index, iterations: int) -> int | None:
    """Return how many iterations are taken together; None for all of them, where they reach over two lines."""
    if trips.value is None:
        return iterations
    if trips.value <= 2 * iterations:
        return None
    return next((n for n in range(iterations, iterations // 2, -1) if trips.value % n == 0), iterations)


def sunk(loop: Along, nodes: Nodes, inner: set[str], names: Names) -> Nodes:
    """Return the nodes, performed for each iteration of a loop, which runs inside theirs."""

    def repeated(some: Nodes) -> Node:
        iteration = names.fresh(loop.axis)
        inner.add(iteration)
        return For(iteration, loop.trips, substituted(some, {loop.variable: Index.of(iteration)}))

    if not _can_sink(loop.variable, nodes, inner):
        return (repeated(nodes),)
    found: list[Node] = []
    for node in nodes:
        match node:
            case For(_, _, body) | If(_, body) | Block(_, body):
                found.append(replace(node, body=sunk(loop, body, inner, names)))
            case _:
                found.append(repeated((node,)))
    return tuple(found)


def _can_sink(variable: str, nodes: Nodes, inner: Collection[str]) -> bool:
    """Return whether each of the nodes may be performed for all iterations before the next one is for any.

    Values in registers are seen by the nodes behind: issues stay together.
    """

    def can(node: Node) -> bool:
        match node:
            case For(own, trips):
                return own not in inner and variable not in trips.symbols
            case If(conditions):
                return all(variable not in side.symbols for a, _, b in conditions for side in (a, b))
            case Block() | Fill():
                return True
            case _:
                return False

    return all(can(node) for node in nodes)
