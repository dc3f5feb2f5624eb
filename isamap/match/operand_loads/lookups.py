"""Table look-ups: instructions that read a table at indices which are the values of another operand.

    in t: f32[16] @ zmm; in c: i32[16] values 0..15 @ zmm; …          T[C[@n + %0]]
    for i in 16 { z[i] = t[c[i] % 16]; }                              t = T[%0], c = i32(C[@n + %0])

The subscript is split into a part that is equal in all lanes, which says where the table starts, and the codes,
which differ. The codes become a value: `W[@n + %0] / 16 % 16` is `i32(W[@n + %0]) >> 4 & 15`. Their range, which
the kernel declares for W, must lie within the table. A table in memory is as long as the range.
"""

from __future__ import annotations

from collections.abc import Mapping

from isamap.ir import Call, Cast, Const, DType, Expr, Index, IndexValue, Operand, Read, converts_exactly
from isamap.ir.dtypes import I64
from isamap.ir.index import Atom, Element, FloorDiv, Mod, has_elements
from isamap.match.operand_loads.load_request import LoadRequest, Lookup, MoveSearch, placement_of
from isamap.match.patterns.address import Location, address_of, interval
from isamap.match.patterns.unify import Binding
from isamap.source.records import dataclass


@dataclass(frozen=True, slots=True)
class LookupOperands:
    """The operands of a look-up: codes, a table in a register or in memory, and the length of a table in memory."""

    codes: Binding
    table: LoadRequest | Location
    lengths: Mapping[str, int]


def lay_lookup(
    search: MoveSearch, lookup: Lookup, subject: Expr, params: Mapping[str, int], extents: Mapping[str, int]
) -> LookupOperands | None:
    """Return the operands with which a look-up reads `subject`, or None. Its lanes are the symbols of `extents`."""
    if not isinstance(subject, Read) or subject.fill is not None or subject.dtype != lookup.table.dtype:
        return None
    split = [_split(index, extents) for index in subject.index]
    moving = [place for place, (_, codes) in enumerate(split) if codes.terms]
    if not any(has_elements(codes) for _, codes in split):
        return None
    start = Read(subject.buffer, tuple(base for base, _ in split), subject.dtype)
    in_memory = search.is_addressable(lookup.table.memory)
    if in_memory:
        whole, first = address_of(subject, search.strides), address_of(start, search.strides)
        if whole is None or first is None:
            return None
        codes, along = whole - first, len(split) - 1
    elif len(moving) == 1:
        codes, along = split[moving[0]][1], moving[0]
    else:
        return None
    reach, size = interval(codes, extents), lookup.table.shape[0].substitute(dict(params))
    if reach is None or reach[0] < 0 or (size.value is not None and reach[1] >= size.value):
        return None
    lengths = {str(size): reach[1] + 1} if size.value is None and in_memory else {}
    known = {**params, **lengths}
    bare = _strip(codes, lookup.modulus)
    code = next((c for c in (bare, codes) if _is_within(c, lookup.codes, known, extents)), None)
    types = search.index_types
    value = None if code is None else _value_of(code, lookup.codes.dtype, types, extents)
    if value is None:
        return None
    count = Index.of(reach[1] + 1)
    element = _step_along(start, along, "%0")
    bound = Binding(lookup.codes.name, (lookup.at,), value)
    if in_memory:
        table = Binding(lookup.table.name, (Index.of("j"),), _step_along(start, along, "%j"))
        place = search.locate(lookup.pattern.instruction, table, dict(params), {"j": reach[1] + 1})
        return (
            None
            if place is None or (size.value or 0) > reach[1] + 1
            else LookupOperands(bound, place, lengths)
        )
    if size.value is None:
        return None
    valid = None if count.value == size.value else count
    memory, placement = lookup.table.memory or "", placement_of(lookup.table, dict(params))
    return LookupOperands(
        bound,
        LoadRequest(element, memory, subject.dtype, (size.value,), (valid,), placement=placement),
        {},
    )


def _is_within(codes: Index, operand: Operand, params: Mapping[str, int], lanes: Mapping[str, int]) -> bool:
    """Return whether all codes are in the range that the instruction's description states."""
    reach, domain = interval(codes, lanes), operand.domain
    if reach is None or domain is None:
        return False
    low, high = domain.low.substitute(dict(params)).value, domain.high.substitute(dict(params)).value
    return low is not None and high is not None and low <= reach[0] <= reach[1] <= high


def _split(index: Index, lanes: Mapping[str, int]) -> tuple[Index, Index]:
    """Return the part of a subscript that is equal in all lanes, and the remaining part."""
    other = Index(tuple(t for t in index.terms if not Index((t,)).symbols.isdisjoint(lanes)))
    return index - other, other


def _strip(codes: Index, modulus: int | None) -> Index:
    """Return the codes without an outer `% modulus`, which the instruction computes itself."""
    match codes.terms:
        case (((Mod(value, divisor),), 1),) if modulus is not None and divisor.value == modulus:
            return value
        case _:
            return codes


def _step_along(read: Read, axis: int, symbol: str) -> Read:
    moved = tuple(i + Index.of(symbol) if n == axis else i for n, i in enumerate(read.index))
    return Read(read.buffer, moved, read.dtype)


def _value_of(
    index: Index, dtype: DType, types: Mapping[str, DType], extents: Mapping[str, int]
) -> Expr | None:
    """Return a subscript as a value of a type, computed from its arrays, or None if the type may be too narrow."""
    reach = interval(index, extents)
    if reach is None or not dtype.low <= reach[0] <= reach[1] <= dtype.high:
        return None
    plain = Index(tuple(t for t in index.terms if all(isinstance(atom, str) for atom in t[0])))
    total: Expr | None = None
    if plain.value is not None and plain.value:
        total = Const(plain.value, dtype)
    elif plain.terms:
        total = Cast(IndexValue(plain, I64), dtype, "wrap")
    for monomial, coefficient in (index - plain).terms:
        term = _value_of_atom(monomial[0], dtype, types, extents) if len(monomial) == 1 else None
        if term is None or coefficient < 0:
            return None
        if coefficient > 1:
            term = Call("mul", (term, Const(coefficient, dtype)), dtype)
        total = term if total is None else Call("add", (total, term), dtype)
    return total


def _value_of_atom(
    atom: Atom, dtype: DType, types: Mapping[str, DType], extents: Mapping[str, int]
) -> Expr | None:
    match atom:
        case Element(buffer, at) if buffer in types:
            read = Read(buffer, (at,), types[buffer])
            if read.dtype == dtype:
                return read
            return Cast(read, dtype, "exact" if converts_exactly(read.dtype, dtype) else "wrap")
        case Mod(value, divisor) | FloorDiv(value, divisor):
            inner, by, reach = (
                _value_of(value, dtype, types, extents),
                divisor.value,
                interval(value, extents),
            )
            if inner is None or not by or by & (by - 1) or reach is None or reach[0] < 0:
                return None
            op, other = ("and", by - 1) if isinstance(atom, Mod) else ("shr", by.bit_length() - 1)
            return Call(op, (inner, Const(other, dtype)), dtype)
        case _:
            return None
