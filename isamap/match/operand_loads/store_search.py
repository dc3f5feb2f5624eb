"""Operand stores: the instruction that writes a value to memory, with the instructions that compute it."""

from __future__ import annotations

from itertools import product
from math import prod

from isamap.ir import DType, Expr, Index, Operand, Read
from isamap.match.operand_loads.load_request import LoadRequest, MoveSearch, OperandMove, placement_of
from isamap.match.operand_loads.load_search import find_inputs
from isamap.match.patterns.address import lay_over
from isamap.match.patterns.pattern import Pattern
from isamap.match.patterns.reach import Params, axis_limits, coordinate_names, fit_shape, reads_past
from isamap.match.patterns.unify import Binding, unify_once
from isamap.source.records import replace
from isamap.transform import Statement, reads

MOST_SIZES = 1024  # of an instruction that are priced one by one


def find_operand_store(
    search: MoveSearch, target: Read, value: Expr, memory: str, dtype: DType | None, request: LoadRequest
) -> OperandMove | None:
    """Return the cheapest way to write `value`, an expression over the coordinates of `request`, to `target`.

    `request` gives shape and valid part. Its expression is ignored. If the mapping names the last
    instruction, `memory` and `dtype` are the register that it reads. Empty means any register.
    """
    question = (target, value, memory, dtype, request)
    if question not in search.stores:
        search.stores[question] = _cheapest(search, *question)
    return search.stores[question]


def _cheapest(
    search: MoveSearch, target: Read, value: Expr, memory: str, dtype: DType | None, request: LoadRequest
) -> OperandMove | None:
    best: OperandMove | None = None
    for pattern in _writers(search, target.dtype):
        for operand in pattern.instruction.operands:
            if operand.role != "in" or (not memory and search.is_addressable(operand.memory)):
                continue
            if memory and (operand.memory, operand.dtype) != (memory, dtype):
                continue
            if memory and placement_of(operand, fit_shape(operand, request.shape) or {}) != request.placement:
                continue
            found = _try_store(search, pattern, operand, target, value, request)
            if found is not None and (best is None or found.cost_ns < best.cost_ns):
                best = found
    return best


def _writers(search: MoveSearch, dtype: DType) -> list[Pattern]:
    return [
        p
        for memory, name in search.known.outputs
        if name == dtype.name and search.is_addressable(memory)
        for p in search.known.producers(memory, name)
    ]


def _try_store(
    search: MoveSearch, pattern: Pattern, operand: Operand, target: Read, value: Expr, request: LoadRequest
) -> OperandMove | None:
    """Return the store of a value by this instruction, or None if its register operand cannot have the shape."""
    params = fit_shape(operand, request.shape)
    own = [b for b in reads(pattern.value) if b.buffer == operand.name]
    if params is None or len(own) != 1:
        return None
    placed = axis_limits(pattern, params, own[0].index, request.shape, request.valid)
    if placed is None:
        return None
    limits, masks = placed
    if pattern.output.outside in ("zero", "undefined") and (masks or not _is_filled(pattern, params, limits)):
        return None  # it would write what lies behind
    prefixed = {a: Index.of(f"%{a}") for a in limits}
    over = {
        d: i.substitute(prefixed)
        for d, i in zip(coordinate_names(len(request.shape)), own[0].index, strict=True)
    }
    extents = {f"%{a}": e for a, e in limits.items()}
    written = lay_over(target, over, extents)
    subject = lay_over(value, over, extents)
    assert isinstance(written, Read)
    through = replace(request, expr=subject)
    output = Binding(pattern.output.name, pattern.target.index, written)
    whole = Pattern(pattern.instruction, _target_register(pattern, own[0]))
    if reads_past(output, limits, whole, request.shape, request.valid):
        return None
    place = search.locate(pattern.instruction, output, params, limits)
    if place is None:
        return None
    for bindings in unify_once(pattern.value, subject):
        built = find_inputs(search, whole, bindings, params, limits, masks, through, 0)
        if built is not None:
            inputs, chosen, cost = built
            known = params | {n: mask.value for n, mask in masks.items() if mask.value is not None}
            cost += search.lanes_ns(pattern.name, [(pattern.output.name, place)], known)[1]
            return OperandMove(
                pattern.name,
                pattern.output.name,
                pattern.output.memory or "",
                target.dtype,
                request.shape,
                chosen,
                inputs,
                cost,
                place,
            )
    return None


def _is_filled(pattern: Pattern, params: Params, limits: dict[str, int]) -> bool:
    """Return whether the instruction assigns all elements of its output."""
    size = prod(s.substitute(params).value or 0 for s in pattern.output.shape)
    return prod(limits[a] for a in limits if any(a in i.symbols for i in pattern.target.index)) == size


def _target_register(pattern: Pattern, read: Read) -> Statement:
    """Return the statement with its register operand as the target, so that limits apply to that register."""
    assign = replace(pattern.statement.assign, target=read)
    return replace(pattern.statement, assign=assign)


def widths(search: MoveSearch, dtype: DType) -> tuple[tuple[int, int], ...]:
    """Return the element counts that one store may have, with the lengths of its registers, largest first."""
    found: set[tuple[int, int]] = set()
    for pattern in _writers(search, dtype):
        written = [s.value for s in pattern.output.shape]
        for operand in pattern.instruction.operands:
            if operand.role == "in" and len(operand.shape) == 1 and operand.shape[0].value:
                length = operand.shape[0].value
                found.add((written[0] or length if len(written) == 1 else length, length))
    return tuple(sorted((f for f in found if f[0] > 1), reverse=True))


def least_copy_ns(search: MoveSearch, dtype: DType) -> float:
    """Return a lower bound of the time to store one element of `dtype`, for any value. Units: ns.

    One instruction writes it and another one has produced its register; or one instruction moves blocks.
    """
    if dtype not in search.known.least_copies:
        apart = [
            _least_ns(search, pattern) + _least_register_ns(search, operand)
            for pattern in _writers(search, dtype)
            for operand in pattern.instruction.operands
            if operand.role == "in" and not search.is_addressable(operand.memory)
        ]
        blocks = [p for p in search.known.block_moves if p.output.dtype == dtype]
        least = min((*apart, *(_least_ns(search, p) for p in blocks)), default=0.0)
        search.known.least_copies[dtype] = least
    return search.known.least_copies[dtype]


def _least_register_ns(search: MoveSearch, operand: Operand) -> float:
    """Return the least time per element of any instruction that writes the operand's register."""
    key = (operand.memory or "", operand.dtype.name)
    made = [*search.known.producers(*key), *(p[0] for p in search.known.in_pieces(*key))]
    return min((_least_ns(search, pattern) for pattern in made), default=0.0)


def _least_ns(search: MoveSearch, pattern: Pattern) -> float:
    """Return the least time per written element over all sizes of an instruction. It is 0 for too many sizes."""
    known = {p.name: p for p in pattern.instruction.params}
    names = sorted({n for size in pattern.output.shape for n in size.symbols})
    ends = [(p.low, p.high) if (p := known.get(n)) is not None else (None, None) for n in names]
    spans = [
        range(max(1, low.value), high.value + 1)
        if low is not None and high is not None and low.value is not None and high.value is not None
        else range(0)
        for low, high in ends
    ]
    if not all(spans) or prod(len(span) for span in spans) > MOST_SIZES:
        return 0.0
    found: list[float] = []
    for sizes in product(*spans):
        params = dict(zip(names, sizes, strict=True))
        count = prod(size.substitute(params).value or 0 for size in pattern.output.shape)
        found.append(search.interval_ns(pattern.name, params) / count if count else 0.0)
    return min(found)
