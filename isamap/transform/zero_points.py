"""Offsets taken out of the factors of a sum of products: quantised values with zero points.

                                                         X[m] = 0;  X[m] += i32(x[m, k]);
                                                         W[n] = 0;  W[n] += i32(w[n, k]);
    y[m, n] = 0;                                      →  y[m, n] = K*a*b - b*X[m] - a*W[n];
    y[m, n] += (i32(x[m, k]) - a) * (i32(w[n, k]) - b);  y[m, n] += i32(x[m, k]) * i32(w[n, k]);

Σ (x - a)·(w - b) = Σ x·w - b·Σ x - a·Σ w + K·a·b, where a and b are the same all along the sum. Sums of
integers wrap around, hence both sides are equal bit by bit. It is for instructions that multiply what is in
memory: an offset widens bytes first, and their products are many times slower.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import prod

from isamap.ir import Assign, Call, Cast, Const, Expr, Index, IndexValue, Kernel, Operand, Read, print_expr
from isamap.ir.dtypes import DTYPES
from isamap.transform.conflicts import Conflicts
from isamap.transform.rewrite import Rewrite, accepted, accesses, free_name, shown
from isamap.transform.shifting import corrected, shifts
from isamap.transform.statements import Statement, reads, statements, symbols


@dataclass(frozen=True, slots=True)
class _Factor:
    """A factor that is `value - offset`; an offset of None is none."""

    value: Expr
    offset: Expr | None


def without_zero_points(kernel: Kernel) -> Iterator[Rewrite]:
    """The kernel with the offsets of one of its sums taken out, and that with one factor shifted besides."""
    given = statements(kernel)
    for number, s in enumerate(given):
        factors = _factors(s)
        after = _taken_out(kernel, given, number, factors) if factors is not None else None
        if factors is None or after is None:
            continue
        product = " by ".join(f"`{print_expr(f.value)}`" for f in factors)
        taken = Rewrite(after, (f"zero points: `{shown(s)}` multiplies {product}, and is corrected",))
        yield taken
        yield from (Rewrite(r.kernel, (*taken.steps, *r.steps)) for r in shifts(after))


def _factors(s: Statement) -> tuple[_Factor, _Factor] | None:
    """The factors of an integer sum of products of which one has an offset at least."""
    a = s.assign
    summed = {x.name for x in s.reduction_axes}
    if a.op != "add" or a.guard is not None or s.sequence or not summed:
        return None
    match a.value:
        case Call("mul", (left, right), dtype) if dtype.is_integer and dtype == a.target.dtype:
            found = _factor(left, summed), _factor(right, summed)
            return found if any(f.offset is not None for f in found) else None
        case _:
            return None


def _factor(e: Expr, summed: set[str]) -> _Factor:
    """A factor, with what it has less than its value all along the sum."""
    match e:
        case Call("sub", (value, offset)) if _is_offset(value, offset, summed):
            return _Factor(value, offset)
        case Call("add", (value, added)) if _is_offset(value, added, summed):
            return _Factor(value, Call("neg", (added,), e.dtype))
        case Call("add", (added, value)) if _is_offset(value, added, summed):
            return _Factor(value, Call("neg", (added,), e.dtype))
        case _:
            return _Factor(e, None)


def _is_offset(value: Expr, offset: Expr, summed: set[str]) -> bool:
    return bool(symbols(value) & summed) and not symbols(offset) & summed


def _taken_out(
    kernel: Kernel, given: tuple[Statement, ...], number: int, factors: tuple[_Factor, _Factor]
) -> Kernel | None:
    s = given[number]
    target, wide = s.assign.target, s.assign.target.dtype
    if any(r.buffer == target.buffer for r in accesses(s)[1:]):
        return None
    sums: list[Statement] = []
    totals: list[Operand] = []
    terms: list[Expr] = []
    for mine, other in (factors, factors[::-1]):
        if other.offset is None:
            continue
        axes = tuple(x for x in s.axes if x.name in symbols(mine.value) and x not in s.reduction_axes)
        shape = tuple(x.extent for x in axes)
        if not all(map(Conflicts.of(kernel).positive, shape)):
            return None
        known = replace(kernel, operands=(*kernel.operands, *totals))
        stem = next((r.buffer for r in reads(mine.value)), target.buffer)
        totals.append(Operand(free_name(known, f"{stem}_total"), "temp", wide, shape))
        cell = Read(totals[-1].name, tuple(Index.of(x.name) for x in axes), wide)
        sums += (
            replace(s, axes=axes, assign=Assign(cell, None, Const(0, wide))),
            replace(s, axes=(*axes, *s.reduction_axes), assign=Assign(cell, "add", mine.value)),
        )
        terms.append(Call("mul", (other.offset, cell), wide))
    left, right = factors
    if left.offset is not None and right.offset is not None:
        length = IndexValue(prod((x.extent for x in s.reduction_axes), start=Index.of(1)), DTYPES["i64"])
        count = length if wide == length.dtype else Cast(length, wide, "wrap")
        correction: Expr = Call("mul", (Call("mul", (count, left.offset), wide), right.offset), wide)
    else:
        correction, *terms = Call("neg", (terms[0],), wide), *terms[1:]
    for term in terms:
        correction = Call("sub", (correction, term), wide)
    product = replace(s, assign=replace(s.assign, value=Call("mul", (left.value, right.value), wide)))
    after = corrected(kernel, given, number, product, correction, tuple(sums), tuple(totals))
    return after if accepted(kernel, after) else None
