"""A signed factor of a sum of products as an unsigned one, larger by a constant, or the other way round.

                                                 T[m] = 0;
                                                 T[m] += i32(u8(1)) * i32(A[m, k]);
                                                 T[m] = -128 * T[m];
    C[m, n] = 0;                              →  C[m, n] = T[m];
    C[m, n] += i32(A[m, k]) * i32(B[k, n]);      C[m, n] += i32(A[m, k]) * i32(wrap_u8(B[k, n] ^ -128));

B = U - 128, so that Σ A·B = Σ A·U - 128·Σ A. Sums of integers wrap around, hence both sides are equal bit by
bit. It is for instructions that multiply a signed factor by an unsigned one. The factor is shifted where it
is read: whether once for all uses, while it is packed, or in registers, is for the schedule to decide
(docs/decisions/0018-shifting-in-place.md).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from isamap.ir import Assign, Call, Cast, Const, DType, Expr, Index, Kernel, Operand, Read
from isamap.ir.dtypes import DTYPES
from isamap.transform.companions import companions
from isamap.transform.conflicts import Conflicts, is_wide
from isamap.transform.rewrite import Rewrite, accepted, accesses, free_name, shown, with_statements
from isamap.transform.statements import Statement, statements, symbols


def shifts(kernel: Kernel) -> Iterator[Rewrite]:
    """The kernel with one factor of one of its integer sums of products shifted into the other signedness."""
    given = statements(kernel)
    for number, s in enumerate(given):
        for factor, other in _factors(kernel, s):
            after = _shifted(kernel, given, number, factor, other)
            if after is not None:
                name, to = factor.buffer, _opposite(factor.dtype)
                yield Rewrite(after, (f"shifting: `{shown(s)}` takes `{name}` as {to}, and is corrected",))


def _factors(kernel: Kernel, s: Statement) -> Iterator[tuple[Read, Expr]]:
    """The narrow factors of a sum of products that are read as they are, each with the other factor."""
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
    """Whether it is an element of an input, of a type whose shifted values fit into the wide type."""
    dtype = read.dtype
    fits = dtype.is_integer and 1 < dtype.bits < wide.bits and _opposite(dtype) in DTYPES
    return fits and kernel.operand(read.buffer).role == "in"


def _opposite(dtype: DType) -> str:
    return f"{'u' if dtype.kind == 'int' else 'i'}{dtype.bits}"


def _shifted(
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
    product = replace(s, assign=replace(s.assign, value=_with(s.assign.value, factor)))
    after = corrected(kernel, given, number, product, cell, summed, (total,))
    return after if accepted(kernel, after) else None


def corrected(
    kernel: Kernel,
    given: tuple[Statement, ...],
    number: int,
    product: Statement,
    correction: Expr,
    summed: tuple[Statement, ...],
    totals: tuple[Operand, ...],
) -> Kernel:
    """The kernel with another product in the place of a statement, and what that lacks added.

    The sum starts from the correction where a statement says what it starts from; else it is added in the
    end. `summed` are the statements that compute `totals`, of which the correction is made.
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


def _with(value: Expr, factor: Read) -> Expr:
    """The product with the factor's highest bit flipped, and taken as the other signedness."""
    assert isinstance(value, Call)
    dtype = factor.dtype
    half = 1 << (dtype.bits - 1)
    flipped = Call("xor", (factor, Const(-half if dtype.kind == "int" else half, dtype)), dtype)
    moved = Cast(flipped, DTYPES[_opposite(dtype)], "wrap")

    def changed(e: Expr) -> Expr:
        return replace(e, value=moved) if isinstance(e, Cast) and e.value is factor else e

    return replace(value, args=tuple(changed(e) for e in value.args))
