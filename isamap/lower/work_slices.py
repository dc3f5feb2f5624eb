"""Lower independent work slices: iteration `now` finds its pieces from its number alone.

    share 3 of 5 of 12 pieces      for s in 4 * 12 / 5 - 3 * 12 / 5:  piece(3 * 12 / 5 + s)

Code that performs slices one after the other needs none of these divisions (`isamap.emit.c_body`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from isamap.ir import Index, product
from isamap.ir.index import ONE, ZERO
from isamap.lower import program as lir
from isamap.lower.walk import rename_in

Counted = tuple[list[tuple[str, Index]], tuple[lir.Node, ...]]
"""Counters of loops with their numbers of iterations, and the nodes inside."""

MOST_LOOPS = 200


def split_counted_loops(nodes: tuple[lir.Node, ...], most: int = MOST_LOOPS) -> Counted:
    """Return at most `most` nested loops, outermost first, and the nodes inside. Loops contain nothing else.

    Only the outermost may have a run-time number of iterations: divisions find the positions in the others.
    """
    counters: list[tuple[str, Index]] = []
    while len(nodes) == 1 and isinstance(nodes[0], lir.For) and len(counters) < most:
        loop = nodes[0]
        if counters and loop.trips.value is None:
            break
        counters.append((loop.variable, loop.trips))
        nodes = loop.body
    return counters, nodes


def slice_code(share: lir.WorkSlice) -> tuple[lir.Node, ...]:
    """Return the code of one slice. Its number alone determines its pieces."""
    parts = [split_counted_loops((n,), depth) for n, depth in zip(share.body, share.depths, strict=True)]
    counts = [product(count for _, count in counters) for counters, _ in parts]
    pieces = sum(counts, start=ZERO)
    piece, count = share_of_pieces(pieces, share.trips, share.now, Index.of(share.nth))
    nodes: list[lir.Node] = []
    first = ZERO
    for (counters, body), own in zip(parts, counts, strict=True):
        inside = rename_in(body, positions(counters, piece - first))
        within: tuple[lir.Condition, ...] = ((first, "<=", piece), (piece, "<", first + own))
        nodes += inside if len(parts) == 1 else (lir.If(within, inside),)
        first = first + own
    return () if count.value == 0 else (lir.For(share.nth, count, tuple(nodes)),)


def share_of_pieces(pieces: Index, trips: Index, now: Index, nth: Index) -> tuple[Index, Index]:
    """Return the nth piece that an iteration performs, and its number of pieces. Slices differ by one at most.

    If both counts are constants, a slice is a run of consecutive pieces. Otherwise iterations take pieces in turn,
    because finding a piece then needs no division.
    """
    if pieces.value is not None and trips.value is not None:
        first = (now * pieces).floordiv(trips)
        return first + nth, ((now + 1) * pieces).floordiv(trips) - first
    return now + nth * trips, (pieces - now).ceildiv(trips)


def positions(counters: list[tuple[str, Index]], piece: Index) -> dict[str, Index]:
    """Return the counter of each loop at a piece, the last fastest."""
    found: dict[str, Index] = {}
    inside = ONE
    for position, (variable, count) in reversed(list(enumerate(counters))):
        counter = piece.floordiv(inside)
        found[variable] = counter.mod(count) if position else counter
        inside = inside * count
    return found


# --- programs as one thread performs them, on numbers


def dense_numbers(program: lir.LoweredProgram, sizes: Mapping[str, int]) -> dict[str, int]:
    """Return the sizes, with open strides as those of dense tensors. Units: elements."""
    env = {**sizes, **dict(program.sizes)}
    for tensor in program.tensors:
        dense = 1
        for extent, stride in reversed([*zip(tensor.shape, tensor.strides, strict=True)]):
            if stride.value is None:
                env |= dict.fromkeys(stride.symbols - env.keys(), dense)
            dense *= extent.evaluate(env)
    return env


def by_one_thread(
    nodes: Iterable[lir.Node],
) -> Iterator[lir.Issue | lir.Configure | lir.Fill | lir.Declare | lir.For | lir.If | lir.Block]:
    """Yield the nodes that one thread executes, in order: parallel loops as loops, and slices separately.

    Hints do nothing that the results depend on.
    """
    for node in nodes:
        match node:
            case lir.Parallel(counters, body):
                for variable, trips in reversed(counters):
                    body = (lir.For(variable, trips, body),)
                yield from by_one_thread(body)
            case lir.WorkSlice():
                yield from by_one_thread(slice_code(node))
            case lir.Begin() | lir.Hint() | lir.Barrier() | lir.ProductGroup():
                pass
            case _:
                yield node


def is_met(conditions: Iterable[lir.Condition], env: Mapping[str, int]) -> bool:
    """Return whether all conditions hold at these numbers."""
    for left, relation, right in conditions:
        a, b = left.evaluate(env), right.evaluate(env)
        if not {"<": a < b, "<=": a <= b, "==": a == b}[relation]:
            return False
    return True
