"""Expand products of quantised values with zero points, so that factors of sums have no offsets.

                                                         X[m] = 0;  X[m] += i32(x[m, k]);
                                                         W[n] = 0;  W[n] += i32(w[n, k]);
    y[m, n] = 0;                                      →  y[m, n] = K*a*b - b*X[m] - a*W[n];
    y[m, n] += (i32(x[m, k]) - a) * (i32(w[n, k]) - b);  y[m, n] += i32(x[m, k]) * i32(w[n, k]);

Σ (x - a)·(w - b) = Σ x·w - b·Σ x - a·Σ w + K·a·b, where a and b are constant along the sum. Sums of integers
wrap around, so both sides are bitwise equal. The rewrite is for instructions that multiply stored bytes: with
an offset, bytes are widened first, and such products are many times slower.

Shifting makes a signed factor of a sum of products an unsigned one, larger by a constant, or the other way
round.

                                                 T[m] = 0;
                                                 T[m] += i32(u8(1)) * i32(A[m, k]);
                                                 T[m] = -128 * T[m];
    C[m, n] = 0;                              →  C[m, n] = T[m];
    C[m, n] += i32(A[m, k]) * i32(B[k, n]);      C[m, n] += i32(A[m, k]) * i32(wrap_u8(B[k, n] ^ -128));

B = U - 128, so that Σ A·B = Σ A·U - 128·Σ A. Sums of integers wrap around, so both sides are bitwise equal.
The rewrite is for instructions that multiply a signed factor by an unsigned one. The factor is shifted at its
use. The schedule decides whether that happens once during packing, or in registers
(docs/decisions/0018-shifting-in-place.md).
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from isamap.ir.dtypes import DTYPES, DType
from isamap.ir.index import Index
from isamap.ir.nodes import Assign, Call, Cast, Const, Expr, IndexValue, Kernel, Operand, Read
from isamap.ir.printer import print_expr
from isamap.ir.walk import reads, symbols
from isamap.source.records import dataclass, replace
from isamap.transform.companions import companions
from isamap.transform.rewrite import Rewrite, accesses, free_name, is_accepted, line_of, with_statements
from isamap.transform.shared_elements import Conflicts, is_wide
from isamap.transform.statements import Statement, statements


def shifts(kernel: Kernel) -> Iterator[Rewrite]:
    """Yield the kernel with one factor of an integer sum of products shifted to the other signedness."""
    given = statements(kernel)
    for number, s in enumerate(given):
        for factor, other in _signed_factors(kernel, s):
            after = _shift_factor(kernel, given, number, factor, other)
            if after is not None:
                name, to = factor.buffer, _opposite(factor.dtype)
                yield Rewrite(after, (f"shifting: `{line_of(s)}` takes `{name}` as {to}, and is corrected",))


def _signed_factors(kernel: Kernel, s: Statement) -> Iterator[tuple[Read, Expr]]:
    """Yield the narrow factors of a sum of products that are plain reads, each with the other factor."""
    a = s.assign
    if a.op != "add" or a.guard is not None or s.sequence or not s.reduction_axes:
        return
    match a.value:
        case Call("mul", (left, right), dtype) if dtype.is_integer and dtype == a.target.dtype:
            for factor, other in ((left, right), (right, left)):
                match factor:
                    case Cast(Read(fill=None) as read, _, "exact") if _is_shiftable(kernel, read, dtype):
                        yield read, other
                    case _:
                        pass
        case _:
            return


def _is_shiftable(kernel: Kernel, read: Read, wide: DType) -> bool:
    """Return whether a read is of an input whose shifted values fit into the wide type."""
    dtype = read.dtype
    fits = dtype.is_integer and 1 < dtype.bits < wide.bits and _opposite(dtype) in DTYPES
    return fits and kernel.operand(read.buffer).role == "in"


def _opposite(dtype: DType) -> str:
    return f"{'u' if dtype.kind == 'int' else 'i'}{dtype.bits}"


def _shift_factor(
    kernel: Kernel, given: tuple[Statement, ...], number: int, factor: Read, other: Expr
) -> Kernel | None:
    s = given[number]
    target, wide = s.assign.target, s.assign.target.dtype
    if any(r.buffer == target.buffer for r in accesses(s)[1:]):
        return None
    sums = tuple(x for x in s.axes if x.name in symbols(other) and x not in s.reduction_axes)
    shape = tuple(x.extent for x in sums)
    if not all(map(Conflicts.of(kernel).positive, shape)):
        return None
    total = Operand(free_name(kernel, f"{target.buffer}_offset"), "temp", wide, shape)
    cell = Read(total.name, tuple(Index.of(x.name) for x in sums), wide)
    half = 1 << (factor.dtype.bits - 1)
    one = Cast(Const(1, DTYPES[_opposite(factor.dtype)]), wide)
    scaled = Call("mul", (Const(-half if factor.dtype.kind == "int" else half, wide), cell), wide)
    summed = (
        replace(s, axes=sums, assign=Assign(cell, None, Const(0, wide))),
        replace(
            s,
            axes=(*sums, *s.reduction_axes),
            assign=replace(s.assign, target=cell, value=Call("mul", (one, other), wide)),
        ),
        replace(s, axes=sums, assign=Assign(cell, None, scaled)),
    )
    product = replace(s, assign=replace(s.assign, value=_flip_sign_bit(s.assign.value, factor)))
    after = correct_product(kernel, given, number, product, cell, summed, (total,))
    return after if is_accepted(kernel, after) else None


def correct_product(
    kernel: Kernel,
    given: tuple[Statement, ...],
    number: int,
    product: Statement,
    correction: Expr,
    summed: tuple[Statement, ...],
    totals: tuple[Operand, ...],
) -> Kernel:
    """Return the kernel with another product in a statement, and the correction term added.

    The sum starts from the correction if a statement sets its initial value; else the correction is added at
    the end. `summed` are the statements that compute `totals`, from which the correction is made.
    """
    target, wide = product.assign.target, product.assign.target.dtype
    outer = tuple(x for x in product.axes if x not in product.reduction_axes)
    begun = next((c for c in companions(kernel, number) if c.starts), None)
    if begun is None or is_wide(kernel.operand(target.buffer)):
        last = Assign(target, None, Call("add", (target, correction), wide))
        parts, before = (*summed, product, replace(product, axes=outer, assign=last)), given[:number]
    else:
        is_zero = isinstance(begun.value, Const) and begun.value.value == 0
        first = correction if is_zero else Call("add", (begun.value, correction), wide)
        started = replace(product, axes=outer, assign=Assign(target, None, first))
        parts, before = (*summed, started, product), _without(given[:number], begun.number)
    return with_statements(kernel, (*before, *parts, *given[number + 1 :]), (*kernel.operands, *totals))


def _without(given: tuple[Statement, ...], number: int) -> tuple[Statement, ...]:
    return (*given[:number], *given[number + 1 :])


def _flip_sign_bit(value: Expr, factor: Read) -> Expr:
    """Return the product with the factor's highest bit flipped, as a number of the other signedness."""
    assert isinstance(value, Call)
    dtype = factor.dtype
    half = 1 << (dtype.bits - 1)
    flipped = Call("xor", (factor, Const(-half if dtype.kind == "int" else half, dtype)), dtype)
    moved = Cast(flipped, DTYPES[_opposite(dtype)], "wrap")

    def change(e: Expr) -> Expr:
        return replace(e, value=moved) if isinstance(e, Cast) and e.value is factor else e

    return replace(value, args=tuple(change(e) for e in value.args))


@dataclass(frozen=True, slots=True)
class _Factor:
    """A factor of the form `value - offset`. The offset is None without one."""

    value: Expr
    offset: Expr | None


def without_zero_points(kernel: Kernel) -> Iterator[Rewrite]:
    """Yield the kernel with the offsets of one sum expanded, also with one factor shifted."""
    given = statements(kernel)
    for number, s in enumerate(given):
        factors = _factors(s)
        after = _taken_out(kernel, given, number, factors) if factors is not None else None
        if factors is None or after is None:
            continue
        product = " by ".join(f"`{print_expr(f.value)}`" for f in factors)
        taken = Rewrite(after, (f"zero points: `{line_of(s)}` multiplies {product}, and is corrected",))
        yield taken
        yield from (Rewrite(r.kernel, (*taken.steps, *r.steps)) for r in shifts(after))


def _factors(s: Statement) -> tuple[_Factor, _Factor] | None:
    """Return the factors of an integer sum of products, at least one of which has an offset."""
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
    """Return a factor, with the offset that is constant along the sum."""
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
    after = correct_product(kernel, given, number, product, correction, tuple(sums), tuple(totals))
    return after if is_accepted(kernel, after) else None
