"""What the operands of an instruction may stand for: every node of a kernel's tree is tried for every leaf.

pairings(a[i] * b[i], B[n] * A[m])      a for A and b for B, a for B and b for A, with where they lie
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product

from isamap.ir import OPS, Call, Cast, Const, Expr, Index, IndexValue, Read, Scalar

Path = tuple[int, ...]
Pairing = dict[tuple[str, tuple[Index, ...]], Expr]
"""What each operand, read at these subscripts, stands for; parameters have no subscripts."""


def pairings(mine: Expr, theirs: Expr) -> Iterator[tuple[tuple[Path, ...], Pairing]]:
    """Yield every way to lay the instruction's leaves over nodes of the kernel's tree, with where they lie."""
    if any(isinstance(e, IndexValue) and e.index.symbols for _, e in _nodes(mine)):
        return  # an axis of an instruction counts from 0 in each issue
    leaves = [(p, e) for p, e in _nodes(mine) if isinstance(e, Read | Scalar)]
    pattern = normal(_replaced(mine, {p: _mark(n, e) for n, (p, e) in enumerate(leaves)}))
    for chosen in product(*(list(_options(leaf, theirs, n)) for n, (_, leaf) in enumerate(leaves))):
        paths = tuple(path for path, _, _ in chosen)
        laid = {path: new for path, _, new in chosen}
        if len(laid) < len(chosen) or normal(_replaced(theirs, laid)) != pattern:
            continue
        pairs = {
            ((leaf.buffer, leaf.index) if isinstance(leaf, Read) else (leaf.name, ()), subject)
            for (_, leaf), (_, subject, _) in zip(leaves, chosen, strict=True)
        }
        if len({place for place, _ in pairs}) == len(pairs):  # one meaning wherever an operand is read
            yield paths, dict(pairs)


def _mark(number: int, leaf: Expr) -> Read:
    return Read(f"leaf {number}", (), leaf.dtype)


def _options(leaf: Read | Scalar, theirs: Expr, number: int) -> Iterator[tuple[Path, Expr, Expr]]:
    """Nodes of a leaf's type: where, what it stands for there, and what takes the node's place.

    A cast to f32 of something narrower is a cast of its cast to bf16, when bf16 holds all its numbers.
    """
    for path, e in _nodes(theirs):
        if e.dtype == leaf.dtype and (isinstance(leaf, Read) or isinstance(e, Const | Scalar | IndexValue)):
            yield path, e, _mark(number, leaf)
        if (
            isinstance(e, Cast)
            and e.mode == "exact"
            and isinstance(leaf, Read)
            and e.value.dtype != leaf.dtype
        ):
            narrow, between, wide = str(e.value.dtype), str(leaf.dtype), str(e.dtype)
            if between in WIDER.get(narrow, ()) and wide in WIDER[between]:
                yield path, Cast(e.value, leaf.dtype), Cast(_mark(number, leaf), e.dtype)


WIDER = {
    "i8": {"i8", "i16", "i32", "bf16", "f32"},
    "u8": {"u8", "i16", "i32", "bf16", "f32"},
    "i16": {"i16", "i32", "f32"},
    "i32": {"i32"},
    "bf16": {"bf16", "f32"},
    "f32": {"f32"},
}
"""The types, of those that are tried, that hold all numbers of a type."""


# --- trees ------------------------------------------------------------------------------------------------


def children(e: Expr) -> tuple[Expr, ...]:
    return e.args if isinstance(e, Call) else (e.value,) if isinstance(e, Cast) else ()


def with_children(e: Expr, parts: Sequence[Expr]) -> Expr:
    if isinstance(e, Call):
        return replace(e, args=tuple(parts))
    return replace(e, value=parts[0]) if isinstance(e, Cast) else e


def _nodes(e: Expr, path: Path = ()) -> Iterator[tuple[Path, Expr]]:
    yield path, e
    for n, child in enumerate(children(e)):
        yield from _nodes(child, (*path, n))


def _replaced(e: Expr, new: Mapping[Path, Expr], path: Path = ()) -> Expr:
    if path in new:
        return new[path]
    return with_children(e, [_replaced(c, new, (*path, n)) for n, c in enumerate(children(e))])


def normal(e: Expr) -> Expr:
    """Return the tree with what commutes in an order that does not depend on the writing."""
    parts = [normal(c) for c in children(e)]
    if isinstance(e, Call) and OPS[e.op].commutative:
        parts.sort(key=repr)
    return with_children(e, parts)


def skeleton(e: Expr) -> Expr:
    """Return the expression without its subscripts and fills."""
    if isinstance(e, Read):
        return replace(e, index=(), fill=None)
    if isinstance(e, IndexValue):
        return replace(e, index=Index.of(0))
    return with_children(e, [skeleton(c) for c in children(e)])


def fills(e: Expr) -> tuple[Const | None, ...]:
    """Return what is taken outside of each array that is read."""
    own = (e.fill,) if isinstance(e, Read) else ()
    return own + tuple(f for c in children(e) for f in fills(c))


def indices(e: Expr) -> tuple[Index, ...]:
    """Return all integers that the value of an expression depends on, besides what the tensors hold."""
    own = e.index if isinstance(e, Read) else (e.index,) if isinstance(e, IndexValue) else ()
    return own + tuple(i for c in children(e) for i in indices(c))
