"""A signed factor of a sum of products as an unsigned one, larger by a constant, or the other way round.

                                                 U[m, k] = wrap_u8(A[m, k] ^ -128);
    C[m, n] += i32(A[m, k]) * i32(B[k, n]);  →   T[n] += i32(B[k, n]);
                                                 C[m, n] += i32(U[m, k]) * i32(B[k, n]);
                                                 C[m, n] = C[m, n] - 128 * T[n];

A = U - 128, so that Σ A·B = Σ U·B - 128·Σ B. Sums of integers wrap around, hence both sides are equal bit by
bit. It is for instructions that multiply a signed factor by an unsigned one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from isamap.ir import Assign, Axis, Call, Cast, Const, DType, Expr, Index, Kernel, Operand, Read
from isamap.ir.dtypes import DTYPES
from isamap.transform.conflicts import Conflicts
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
    s, source = given[number], kernel.operand(factor.buffer)
    target, wide = s.assign.target, s.assign.target.dtype
    if any(r.buffer == target.buffer for r in accesses(s)[1:]):
        return None
    sums = tuple(x for x in s.axes if x.name in symbols(other) and x not in s.reduction_axes)
    shape = tuple(x.extent for x in sums)
    if not all(map(Conflicts.of(kernel).positive, shape)) or not all(map(_is_size, source.shape)):
        return None
    moved = Operand(
        free_name(kernel, f"{source.name}_shifted"), "temp", DTYPES[_opposite(source.dtype)], source.shape
    )
    total = Operand(free_name(kernel, f"{target.buffer}_offset"), "temp", wide, shape)
    cell = Read(total.name, tuple(Index.of(x.name) for x in sums), wide)
    half = 1 << (source.dtype.bits - 1)
    signed = source.dtype.kind == "int"
    outer = tuple(x for x in s.axes if x not in s.reduction_axes)
    correction = Call(
        "sub" if signed else "add", (target, Call("mul", (Const(half, wide), cell), wide)), wide
    )
    parts = (
        _flipped(kernel, source, moved),
        replace(s, axes=sums, assign=Assign(cell, None, Const(0, wide))),
        replace(s, axes=(*sums, *s.reduction_axes), assign=replace(s.assign, target=cell, value=other)),
        replace(s, assign=replace(s.assign, value=_with(s.assign.value, factor, moved))),
        replace(s, axes=outer, assign=Assign(target, None, correction)),
    )
    operands = (*kernel.operands, moved, total)
    after = with_statements(kernel, (*given[:number], *parts, *given[number + 1 :]), operands)
    return after if accepted(kernel, after) else None


def _is_size(extent: Index) -> bool:
    return extent.value is None or extent.value > 0


def _flipped(kernel: Kernel, source: Operand, moved: Operand) -> Statement:
    """All elements of an array in the other signedness: their highest bit is the other one."""
    names = [free_name(kernel, f"i{d}") for d in range(len(source.shape))]
    axes = tuple(Axis(name, extent) for name, extent in zip(names, source.shape, strict=True))
    index = tuple(Index.of(name) for name in names)
    half = 1 << (source.dtype.bits - 1)
    bit = Const(-half if source.dtype.kind == "int" else half, source.dtype)
    value = Call("xor", (Read(source.name, index, source.dtype), bit), source.dtype)
    assign = Assign(Read(moved.name, index, moved.dtype), None, Cast(value, moved.dtype, "wrap"))
    return Statement(axes, assign, moved.dtype)


def _with(value: Expr, factor: Read, moved: Operand) -> Expr:
    """The product with the shifted array in the place of the factor, whichever side it stands on."""
    assert isinstance(value, Call)

    def changed(e: Expr) -> Expr:
        if isinstance(e, Cast) and e.value is factor:
            return replace(e, value=replace(factor, buffer=moved.name, dtype=moved.dtype))
        return e

    return replace(value, args=tuple(changed(e) for e in value.args))
