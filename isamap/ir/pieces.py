"""How a statement is computed: as a sum of products or term by term, in boxes that fit memory.

`C[m, n] += A[m, k] * B[k, n]` over 4096³ is a sum of the products of two factors; its iteration space is cut
into boxes so that the arrays of one box stay within some tens of megabytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import assert_never

from isamap.ir.buffers import Box
from isamap.ir.nodes import Assign, Call, Cast, Const, Expr, IndexValue, Read, Scalar, Stmt

ELEMENTS = 4_000_000
"""Elements of all arrays of one box together; each takes about 30 bytes while it is computed."""


def factors_of(e: Expr) -> tuple[Expr, ...]:
    """What an expression is the product of; itself when it is no product."""
    match e:
        case Call("mul", (left, right), _, _, _):
            return factors_of(left) + factors_of(right)
        case _:
            return (e,)


def symbols_of(e: Expr) -> frozenset[str]:
    """The axes and sizes that an expression mentions, subscripts included."""
    match e:
        case Const() | Scalar():
            return frozenset()
        case IndexValue(index, _, _):
            return index.symbols
        case Read(_, index, _, _, _):
            return frozenset(s for i in index for s in i.symbols)
        case Call(_, args, _, _, _):
            return frozenset(s for a in args for s in symbols_of(a))
        case Cast(value, _, _, _):
            return symbols_of(value)
        case _:
            assert_never(e)


def written_by(body: tuple[Stmt, ...]) -> frozenset[str]:
    """The buffers that statements assign."""
    found: set[str] = set()
    for statement in body:
        match statement:
            case Assign(target, _, _, _, _):
                found.add(target.buffer)
            case _:
                found |= written_by(statement.body)
    return frozenset(found)


def boxes(
    axes: tuple[tuple[str, int], ...],
    arrays: tuple[frozenset[str], ...],
    last: frozenset[str],
    limit: int | None = None,
) -> Iterator[Box]:
    """The iteration space in boxes, in order, each with at most `limit` (`ELEMENTS`) elements in `arrays`.

    `arrays` are the axes that each array of a box has; those in `last` are cut only where nothing else helps.
    """
    names = tuple(name for name, _ in axes)
    yield from _cut(Box(names, (0,) * len(axes), tuple(n for _, n in axes)), arrays, last, limit or ELEMENTS)


def _cut(box: Box, arrays: tuple[frozenset[str], ...], last: frozenset[str], limit: int) -> Iterator[Box]:
    if _elements(box, arrays) <= limit or all(n == 1 for n in box.counts):
        yield box
        return
    halves = {i: _half(box, i) for i, n in enumerate(box.counts) if n > 1}
    axis = min(halves, key=lambda i: (_elements(halves[i][0], arrays), box.names[i] in last, i))
    for half in halves[axis]:
        yield from _cut(half, arrays, last, limit)


def _elements(box: Box, arrays: tuple[frozenset[str], ...]) -> int:
    counts = dict(zip(box.names, box.counts, strict=True))
    return sum(prod(counts[s] for s in array if s in counts) for array in arrays)


def _half(box: Box, axis: int) -> tuple[Box, Box]:
    left = -(-box.counts[axis] // 2)

    def part(start: int, count: int) -> Box:
        starts = (*box.starts[:axis], box.starts[axis] + start, *box.starts[axis + 1 :])
        return Box(box.names, starts, (*box.counts[:axis], count, *box.counts[axis + 1 :]))

    return part(0, left), part(left, box.counts[axis] - left)
