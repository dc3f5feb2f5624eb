"""What the operands of an instruction may stand for: every node of a kernel's tree is tried for every leaf.

pairings(a[i] * b[i], B[n] * A[m])      a for A and b for B, a for B and b for A, with where they lie
pairings(sat_i8(a[i] + p), sat_i8(A[m]))    a for A and p for -0.0, the number that changes no sum
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product

import numpy as np

from isamap.ir import OPS, Call, Cast, Const, DType, Expr, Index, IndexValue, Read, Scalar

Path = tuple[int, ...]
Pairing = dict[tuple[str, tuple[Index, ...]], Expr]
"""What each operand, read at these subscripts, stands for; parameters have no subscripts."""


def pairings(mine: Expr, theirs: Expr) -> Iterator[tuple[tuple[Path, ...], Pairing]]:
    """Yield every way to lay the instruction's leaves over nodes of the kernel's tree, with where they lie.

    Parameters that are left out come last.
    """
    for rest, numbers in _left_out(mine):
        if isinstance(rest, Read) and not isinstance(mine, Read):
            continue  # it would only copy
        for paths, pairing in _all_laid(rest, theirs):
            all_of_them = [*pairing.items(), *(((name, ()), number) for name, number in numbers)]
            found: Pairing = dict(all_of_them)
            if all(found[place] == subject for place, subject in all_of_them):
                yield ((len(numbers),), *paths), found


def _left_out(mine: Expr) -> Iterator[tuple[Expr, list[tuple[str, Const]]]]:
    """Yield the tree with each set of parameters left out that a number takes the effect from, with the numbers."""
    parts = [list(_left_out(c)) for c in children(mine)]
    for chosen in product(*parts):
        rest = with_children(mine, [e for e, _ in chosen])
        yield rest, [n for _, numbers in chosen for n in numbers]
    if isinstance(mine, Call) and len(mine.args) == 2:
        for at, scalar in enumerate(mine.args):
            other = mine.args[1 - at]
            number = idle_number(mine, at, scalar.dtype) if isinstance(scalar, Scalar) else None
            if number is not None and isinstance(scalar, Scalar) and other.dtype == mine.dtype:
                for rest, numbers in parts[1 - at]:
                    yield rest, [*numbers, (scalar.name, number)]


def idle_number(call: Call, at: int, dtype: DType) -> Const | None:
    """Return the number with which a call returns every value of its other operand, found by trial."""
    if dtype.is_float:
        numbers: tuple[float, ...] = (-0.0, 0.0, 1.0, -1.0, np.inf, -np.inf)
        values = np.array([-0.0, 0.0, 1.5, -2.0, 1e30, np.inf, -np.inf, np.nan])
    else:
        numbers = tuple(n for n in (0, 1, -1, dtype.low, dtype.high) if dtype.low <= n <= dtype.high)
        kind = np.dtype(f"{'u' if dtype.low == 0 else ''}int{dtype.name[1:]}")
        values = np.array([dtype.low, dtype.high, 0, 1, dtype.high // 3], dtype=kind)
    for number in numbers:
        if call.op == "div" and number == 0:
            continue  # the interpreter's answer to an undefined division
        given = np.full_like(values, number)
        operands = (values, given) if at == 1 else (given, values)
        with np.errstate(all="ignore"):
            found = np.asarray(OPS[call.op].compute(*operands, *((call.mode,) if call.mode else ())))
        if np.array_equal(found, values, equal_nan=dtype.is_float) and np.array_equal(
            np.signbit(found), np.signbit(values)
        ):
            return Const(number, dtype)
    return None


def _all_laid(mine: Expr, theirs: Expr) -> Iterator[tuple[tuple[Path, ...], Pairing]]:
    """Yield every way to lay all leaves of a tree."""
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
