"""Search for operand loads: chains of move, conversion and arithmetic instructions into a register.

A load request asks for a register of a memory, a type and a shape whose element [%0, %1] is an expression of
its coordinates, such as `f32(A[@m, 2*@k + %0])`. The search unifies every instruction that writes such a
register with that expression. Each operand that the instruction reads becomes a request as well, until only
elements in memory remain, at strides that the instruction allows. A broadcast, a widening load, a bias
addition are found the same way.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import chain

from isamap import ir
from isamap.ir.dtypes import I64
from isamap.ir.index import ONE, Atom, Element, FloorDiv, Mod, has_elements
from isamap.ir.walk import reads
from isamap.machine import names_in
from isamap.match.operand_loads import interleave
from isamap.match.operand_loads.load_request import (
    LoadRequest,
    Lookup,
    MoveSearch,
    OperandMove,
    Places,
    Present,
    Repertoire,
    placement_of,
)
from isamap.match.patterns.address import Location, address_of, interval, lay_over
from isamap.match.patterns.lane_indices import bind_affine, compare_by_lanes, index_of
from isamap.match.patterns.pattern import Digits, Pattern, digits_of, encoded_values, invert, span_factor
from isamap.match.patterns.reach import (
    Params,
    Valid,
    axis_limits,
    coordinate_names,
    fit_shape,
    is_allowed,
    reads_past,
    valid_parts,
)
from isamap.match.patterns.unify import Binding, Bindings, heads_match, unify_once
from isamap.source.records import dataclass, replace
from isamap.transform import symbols

# --- lookups --------------------------------------------------------------------------------------------

# Table look-ups: instructions that read a table at indices which are the values of another operand.
#
#     in t: f32[16] @ zmm; in c: i32[16] values 0..15 @ zmm; …          T[C[@n + %0]]
#     for i in 16 { z[i] = t[c[i] % 16]; }                              t = T[%0], c = i32(C[@n + %0])
#
# The subscript is split into a part that is equal in all lanes, which says where the table starts, and the codes,
# which differ. The codes become a value: `W[@n + %0] / 16 % 16` is `i32(W[@n + %0]) >> 4 & 15`. Their range, which
# the kernel declares for W, must lie within the table. A table in memory is as long as the range.


@dataclass(frozen=True, slots=True)
class LookupOperands:
    """The operands of a look-up: codes, a table in a register or in memory, and the length of a table in memory."""

    codes: Binding
    table: LoadRequest | Location
    lengths: Mapping[str, int]


def lay_lookup(
    search: MoveSearch,
    lookup: Lookup,
    subject: ir.Expr,
    params: Mapping[str, int],
    extents: Mapping[str, int],
) -> LookupOperands | None:
    """Return the operands with which a look-up reads `subject`, or None. Its lanes are the symbols of `extents`."""
    if not isinstance(subject, ir.Read) or subject.fill is not None or subject.dtype != lookup.table.dtype:
        return None
    split = [_split(index, extents) for index in subject.index]
    moving = [place for place, (_, codes) in enumerate(split) if codes.terms]
    if not any(has_elements(codes) for _, codes in split):
        return None
    start = ir.Read(subject.buffer, tuple(base for base, _ in split), subject.dtype)
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
    count = ir.Index.of(reach[1] + 1)
    element = _step_along(start, along, "%0")
    bound = Binding(lookup.codes.name, (lookup.at,), value)
    if in_memory:
        table = Binding(lookup.table.name, (ir.Index.of("j"),), _step_along(start, along, "%j"))
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
        bound, LoadRequest(element, memory, subject.dtype, (size.value,), (valid,), placement=placement), {}
    )


def _is_within(
    codes: ir.Index, operand: ir.Operand, params: Mapping[str, int], lanes: Mapping[str, int]
) -> bool:
    """Return whether all codes are in the range that the instruction's description states."""
    reach, domain = interval(codes, lanes), operand.domain
    if reach is None or domain is None:
        return False
    low, high = domain.low.substitute(dict(params)).value, domain.high.substitute(dict(params)).value
    return low is not None and high is not None and low <= reach[0] <= reach[1] <= high


def _split(index: ir.Index, lanes: Mapping[str, int]) -> tuple[ir.Index, ir.Index]:
    """Return the part of a subscript that is equal in all lanes, and the remaining part."""
    other = ir.Index(tuple(t for t in index.terms if not ir.Index((t,)).symbols.isdisjoint(lanes)))
    return index - other, other


def _strip(codes: ir.Index, modulus: int | None) -> ir.Index:
    """Return the codes without an outer `% modulus`, which the instruction computes itself."""
    match codes.terms:
        case (((Mod(value, divisor),), 1),) if modulus is not None and divisor.value == modulus:
            return value
        case _:
            return codes


def _step_along(read: ir.Read, axis: int, symbol: str) -> ir.Read:
    moved = tuple(i + ir.Index.of(symbol) if n == axis else i for n, i in enumerate(read.index))
    return ir.Read(read.buffer, moved, read.dtype)


def _value_of(
    index: ir.Index, dtype: ir.DType, types: Mapping[str, ir.DType], extents: Mapping[str, int]
) -> ir.Expr | None:
    """Return a subscript as a value of a type, computed from its arrays, or None if the type may be too narrow."""
    reach = interval(index, extents)
    if reach is None or not dtype.low <= reach[0] <= reach[1] <= dtype.high:
        return None
    plain = ir.Index(tuple(t for t in index.terms if all(isinstance(atom, str) for atom in t[0])))
    total: ir.Expr | None = None
    if plain.value is not None and plain.value:
        total = ir.Const(plain.value, dtype)
    elif plain.terms:
        total = ir.Cast(ir.IndexValue(plain, I64), dtype, "wrap")
    for monomial, coefficient in (index - plain).terms:
        term = _value_of_atom(monomial[0], dtype, types, extents) if len(monomial) == 1 else None
        if term is None or coefficient < 0:
            return None
        if coefficient > 1:
            term = ir.Call("mul", (term, ir.Const(coefficient, dtype)), dtype)
        total = term if total is None else ir.Call("add", (total, term), dtype)
    return total


def _value_of_atom(
    atom: Atom, dtype: ir.DType, types: Mapping[str, ir.DType], extents: Mapping[str, int]
) -> ir.Expr | None:
    match atom:
        case Element(buffer, at) if buffer in types:
            read = ir.Read(buffer, (at,), types[buffer])
            if read.dtype == dtype:
                return read
            return ir.Cast(read, dtype, "exact" if ir.converts_exactly(read.dtype, dtype) else "wrap")
        case Mod(value, divisor) | FloorDiv(value, divisor):
            inner, by, reach = (
                _value_of(value, dtype, types, extents),
                divisor.value,
                interval(value, extents),
            )
            if inner is None or not by or by & (by - 1) or reach is None or reach[0] < 0:
                return None
            op, other = ("and", by - 1) if isinstance(atom, Mod) else ("shr", by.bit_length() - 1)
            return ir.Call(op, (inner, ir.Const(other, dtype)), dtype)
        case _:
            return None


MAX_MOVES = 6  # one behind another in a chain; operations and casts come on top, as many as there are
VALUE = "$value"  # the pseudo-buffer that stands for a register already computed


def find_place(
    search: MoveSearch, instruction: ir.Instruction, name: str, request: LoadRequest, params: Params
) -> Location | None:
    """Return the location from which an instruction reads its memory operand, or None if the layout does not fit."""
    if any(
        part is not None and part.value != size
        for part, size in zip(request.valid, request.shape, strict=True)
    ):
        return None
    limits = {str(coordinate): size for coordinate, size in enumerate(request.shape)}
    binding = Binding(name, tuple(ir.Index.of(a) for a in limits), request.expr)
    return search.locate(instruction, binding, params, limits)


def find_operand_load(
    search: MoveSearch, request: LoadRequest, moves: int = 0
) -> OperandMove | Present | None:
    """Return the cheapest chain that fills the requested register, `moves` moves before its use, or None."""
    if search.is_addressable(request.memory):  # no register, and nothing is written to memory on the way
        return None
    e = request.expr
    here = tuple(ir.Index.of(d) for d in coordinate_names(len(request.shape)))
    if isinstance(e, ir.Read) and e.buffer == f"{VALUE}:{request.memory}" and e.index == here:
        return Present()
    if search.short_indices and request.expr != (expr := compare_by_lanes(request.expr)):
        request = replace(request, expr=expr)
    if request in search.underway:  # a chain never needs the very thing that it is to make
        search.met.add(request)
        return None
    if request in search.memo:
        return search.memo[request]
    if moves >= min(MAX_MOVES, search.failed.get(request, MAX_MOVES)):
        return None
    if interleave.is_out_of_reach(search, request):
        search.failed[request] = 0
        return None
    search.underway.add(request)
    best: OperandMove | None = None
    for first, *others in _candidates(search, request):
        if best is not None and search.interval_ns(first.name, {}) >= best.cost_ns:
            continue
        if others or request.used is not None:
            found = interleave.try_pieces(search, (first, *others), request, moves, find_operand_load)
        else:
            found = _try(search, first, request, moves)
        if found is not None and (best is None or found.cost_ns < best.cost_ns):
            best = found
    for lookup in _lookups(search.known, request):
        found = _try_lookup(search, lookup, request, moves)
        if found is not None and (best is None or found.cost_ns < best.cost_ns):
            best = found
    search.underway.remove(request)
    search.met.discard(request)
    if best is not None and _is_constant(request.expr):
        best = replace(best, cost_ns=0.0)
    if best is not None:
        search.memo[request] = best
    elif not search.met & search.underway:  # else it failed for where it was requested
        search.failed[request] = moves  # behind more moves it fails as well
    return best


def _candidates(search: MoveSearch, request: LoadRequest) -> Iterator[tuple[Pattern, ...]]:
    """Yield instructions that write a register of the requested kind, as a whole or in pieces."""
    key = (request.memory, request.dtype.name)
    every = search.known.producers(*key)
    if request.used is None and index_of(request.expr) is None:  # else others than those of its head may do
        every = search.known.producers_of(request.memory, request.dtype, request.expr)
    yield from ((p,) for p in every if not interleave.is_wasted(search, p, request))
    written = search.known.in_pieces(*key)
    if written and (apart := interleave.lanes_apart(search, request)) is not None:
        rows = interleave.contiguous_row_length(search, request)
        for pieces in written:
            step = interleave.step_of(pieces)
            if step % rows == 0 if rows and interleave.is_joining(pieces) else step == apart:
                yield pieces


def _is_constant(e: ir.Expr) -> bool:
    """Return whether an expression does not change in any loop, so that compilers compute it once.

    The register that it stays in is not counted (docs/decisions/0018-shifting-in-place.md).
    """
    return not reads(e) and all(s.startswith("%") for s in symbols(e))


# --- one instruction laid over one want -------------------------------------------------------------------


def _try(search: MoveSearch, pattern: Pattern, request: LoadRequest, moves: int) -> OperandMove | None:
    agree = heads_match(pattern.value, request.expr) or index_of(request.expr) is not None
    laid = _lay_axes(pattern, request) if agree else None
    if laid is None:
        return None
    params, limits, masks, subject = laid
    if request.fill is not None and masks and (pattern.output.outside != "zero" or request.fill.value != 0):
        return None
    if request.fill is not None and not _leaves_fill(search, pattern, request, request.fill, masks):
        return None
    counted = bind_affine(pattern.value, subject, limits)
    for bindings in chain(unify_once(pattern.value, subject), () if counted is None else (counted,)):
        built = find_inputs(search, pattern, bindings, params, limits, masks, request, moves)
        if built is not None:
            return _move(pattern, request, *built)
    return None


_Laid = tuple[Params, dict[str, int], dict[str, ir.Index], ir.Expr]
_Built = tuple[
    tuple[tuple[str, OperandMove | Location | Present], ...],
    tuple[tuple[str, ir.Index | ir.Expr], ...],
    float,
]


def _lay_axes(pattern: Pattern, request: LoadRequest) -> _Laid | None:
    """Return the value of an instruction that covers a register, with its parameters, extents and masks, or None."""
    valid = tuple(ONE if n in request.idle else part for n, part in enumerate(request.valid))
    placed = _place_axes(pattern, request.shape, valid, request.idle, request.placement)
    if placed is None:
        return None
    params, limits, masks, over_axes = placed
    expr = lay_over(request.expr, over_axes, {f"%{a}": e for a, e in limits.items()})
    return dict(params), dict(limits), dict(masks), expr


@lru_cache(maxsize=1 << 14)
def _place_axes(
    pattern: Pattern, shape: tuple[int, ...], valid: Valid, idle: tuple[int, ...], placement: Places
) -> tuple[Params, dict[str, int], dict[str, ir.Index], dict[str, ir.Index]] | None:
    """Return how an instruction covers a register, or None: its parameters, extents and masks.

    The last part is the register's coordinates by the instruction's axes.
    """
    params = fit_shape(pattern.output, shape)
    if params is None or placement_of(pattern.output, params) != placement:
        return None
    placed = axis_limits(pattern, params, pattern.target.index, shape, valid, idle)
    if placed is None:
        return None
    prefixed = {a: ir.Index.of(f"%{a}") for a in placed[0]}
    coordinates = zip(coordinate_names(len(shape)), pattern.target.index, strict=True)
    return params, *placed, {d: i.substitute(prefixed) for d, i in coordinates}


def _move(
    pattern: Pattern,
    request: LoadRequest,
    inputs: tuple[tuple[str, OperandMove | Location | Present], ...],
    chosen: tuple[tuple[str, ir.Index | ir.Expr], ...],
    cost_ns: float,
) -> OperandMove:
    own = pattern.name, pattern.output.name, request.memory, request.dtype, request.shape
    return OperandMove(*own, chosen, inputs, cost_ns, registers=request.registers)


def _lookups(known: Repertoire, request: LoadRequest) -> Sequence[Lookup]:
    """Return the look-up instructions that may serve a request whose subscripts depend on values."""
    expr = request.expr
    if request.used is not None or request.fill is not None or not isinstance(expr, ir.Read):
        return ()
    if not any(has_elements(i) and any(s.startswith("%") for s in i.symbols) for i in expr.index):
        return ()
    return known.lookups(request.memory, request.dtype.name)


def _try_lookup(search: MoveSearch, lookup: Lookup, request: LoadRequest, moves: int) -> OperandMove | None:
    pattern = lookup.pattern
    laid = _lay_axes(pattern, request)
    if laid is None:
        return None
    params, limits, masks, subject = laid
    partial = valid_parts(pattern, limits, request.shape, request.valid)
    if partial and not masks and lookup.modulus is None:
        return None  # lanes behind the valid ones would read anywhere
    found = lay_lookup(search, lookup, subject, params, {f"%{a}": e for a, e in limits.items()})
    if found is None:
        return None
    table = found.table
    loaded = find_operand_load(search, table, moves + 1) if isinstance(table, LoadRequest) else table
    if loaded is None:
        return None
    params |= found.lengths
    built = find_inputs(search, pattern, (found.codes,), params, limits, masks, request, moves)
    if built is None:
        return None
    inputs, chosen, cost = built
    moves_with = isinstance(table, LoadRequest) and any(s.startswith("@") for s in symbols(table.expr))
    if moves_with and isinstance(loaded, OperandMove):  # else compilers keep the table in a register
        cost += loaded.cost_ns
    return _move(pattern, request, (*inputs, (lookup.table.name, loaded)), chosen, cost)


def _leaves_fill(
    search: MoveSearch, pattern: Pattern, request: LoadRequest, fill: ir.Const, masks: dict[str, ir.Index]
) -> bool:
    """Return whether elements beyond the valid ones have the fill value.

    Moves leave it as it is, casts leave zero. A sum with something else may not. An axis that no mask cuts
    short has to run over a register whose own elements are filled there: a broadcast fills all lanes alike.
    """
    value = pattern.value
    while isinstance(value, ir.Cast) and fill.value == 0:
        value = value.value
    if not isinstance(value, (ir.Read, ir.Const)):
        return False
    masked = {a.name for a in pattern.axes if a.extent.symbols & masks.keys()}
    open_axes = {
        axis
        for n, (index, part) in enumerate(zip(pattern.target.index, request.valid, strict=True))
        if part is not None and n not in request.idle
        for axis in index.symbols - masked
    }
    if not open_axes:
        return True
    if isinstance(value, ir.Const):
        return value.value == fill.value
    if search.is_addressable(pattern.instruction.operand(value.buffer).memory):
        return False
    return open_axes <= {s for i in value.index for s in i.symbols}


def find_inputs(
    search: MoveSearch,
    pattern: Pattern,
    bindings: Bindings,
    params: Params,
    limits: dict[str, int],
    masks: dict[str, ir.Index],
    request: LoadRequest,
    moves: int,
) -> _Built | None:
    """Return all loads that an instruction needs, its parameters, and the cost of the chain, or None."""
    if (encoded := encoded_values(pattern.instruction, bindings)) is None:
        return None
    reach = valid_parts(pattern, limits, request.shape, request.valid)
    moves += isinstance(pattern.value, ir.Read)
    chosen: dict[str, ir.Index | ir.Expr] = {n: ir.Index.of(v) for n, v in params.items()}
    chosen |= masks
    inputs: list[tuple[str, OperandMove | Location | Present]] = []
    known = params | {n: mask.value for n, mask in masks.items() if mask.value is not None}
    cost = search.interval_ns(pattern.name, known)
    own = pattern.instruction
    if any(b.pattern and search.is_addressable(own.operand(b.name).memory) for b in bindings):
        priced = names_in(search.machine.instructions[pattern.name].cost.interval_ns)
        cost *= span_factor(pattern, {n: mask for n, mask in masks.items() if n not in priced})
    for binding in bindings:
        if not binding.pattern and any(p.name == binding.name for p in pattern.instruction.params):
            if any(s.startswith("%") for s in symbols(binding.subject)):
                return None
            number = encoded.get(binding.name)
            chosen[binding.name] = binding.subject if number is None else ir.Index.of(number)
            continue
        operand = own.operand(binding.name)
        if search.is_addressable(operand.memory):
            where = (
                None
                if reads_past(binding, limits, pattern, request.shape, request.valid)
                else search.locate(pattern.instruction, binding, params, limits)
            )
            if where is None:
                return None
            inputs.append((binding.name, where))
            continue
        fill = ir.Const(request.fill.value, operand.dtype) if request.fill is not None else None
        requested = _request_register(operand, binding, pattern.axes, params, limits, reach, fill)
        found = find_operand_load(search, requested, moves) if requested else None
        if found is None:
            return None
        inputs.append((binding.name, found))
        cost += found.cost_ns if isinstance(found, OperandMove) else 0.0
    named = {p.name for p in pattern.instruction.params}
    cost += search.lanes_ns(pattern.name, ((n, at) for n, at in inputs if isinstance(at, Location)), known)[1]
    if named - chosen.keys() or not is_allowed(pattern, known):
        return None
    return tuple(inputs), tuple(sorted(chosen.items())), cost


def _request_register(
    operand: ir.Operand,
    binding: Binding,
    of: tuple[ir.Axis, ...],
    params: Params,
    limits: dict[str, int],
    reach: dict[Digits, ir.Index | None],
    fill: ir.Const | None,
) -> LoadRequest | None:
    """Return the load request for a register operand, or None if its value is unclear."""
    shape = tuple(s.substitute(params).value for s in operand.shape)
    if None in shape:
        return None
    names = coordinate_names(len(shape))
    axes = invert(binding.pattern, limits, names)
    if axes is None:
        whole = fill is None and all(part is None for part in reach.values())
        return (
            interleave.requested_lanes(operand, binding.pattern, binding.subject, of, limits, params)
            if whole
            else None
        )
    free = {f"%{a}" for a, e in limits.items() if e > 1 and a not in axes}
    if free & symbols(binding.subject):
        return None
    back = {f"%{a}": e for a, e in axes.items()}
    sizes = {n: int(s or 1) for n, s in zip(names, shape, strict=True)}
    valid: list[ir.Index | None] = []
    partial = {a for digits, part in reach.items() if part is not None for a, _ in digits}
    for index, size in zip(binding.pattern, shape, strict=True):
        digits = digits_of(index, limits) or ()
        if digits in reach:
            valid.append(reach[digits])
        elif partial & {a for a, _ in digits}:
            return None
        else:
            span = digits[0][1] * limits[digits[0][0]] if digits else 1
            valid.append(None if span == size else ir.Index.of(span))
    expr = lay_over(binding.subject, back, sizes)
    shape_of, placement = tuple(sizes.values()), placement_of(operand, params)
    return LoadRequest(
        expr, operand.memory or "", operand.dtype, shape_of, tuple(valid), fill, placement=placement
    )
