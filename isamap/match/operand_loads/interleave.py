"""Loads into partially used registers, and loads by instructions that write a register in pieces.

An interleave of two rows reads only some lanes of each; any instruction that fills these lanes may produce
the register. Elements are not contiguous in memory along some digits of the lane number. The search splits
the lowest of these digits first, so that it tries each order of interleaves once.

Permutations of one register are tried as loads only if they move neighbours in memory to neighbouring lanes.

    z[2*i + p] = a[16*p + i]    of two alternating rows makes two contiguous rows

A search that tried every permutation for every request would enumerate all their products. This one requires
each step to increase the number of lanes whose next lane holds the next element of memory, so it finds the
rows directly.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from isamap.ir import Axis, Expr, Index, Operand, Read, substitute_expr
from isamap.ir.evaluate import box_points, evaluate_index
from isamap.ir.index import has_elements
from isamap.match.operand_loads.load_request import (
    LoadRequest,
    MoveSearch,
    OperandMove,
    Present,
    placement_of,
)
from isamap.match.operand_loads.register_parts import LaneBox, Lanes, axes_at, box_of
from isamap.match.patterns.address import (
    LEAST_RUN,
    Location,
    address_of,
    lay_over,
    simplify,
    simplify_expr,
    wraps,
)
from isamap.match.patterns.pattern import Pattern
from isamap.match.patterns.reach import Params, extents_of, fit_shape, is_allowed
from isamap.match.patterns.unify import Binding
from isamap.source import add_up, replace
from isamap.transform import reads, symbols

ALL_LANES: Lanes = frozenset(range(4096))  # more than any register has

Find = Callable[[MoveSearch, LoadRequest, int], OperandMove | Present | None]
Source = OperandMove | Location | Present


def used_lanes(request: LoadRequest) -> Lanes | None:
    """Return the lanes of a one-dimensional register that are used, or None if run time decides."""
    if len(request.shape) != 1 or request.fill is not None:
        return None
    if request.used is not None:
        return request.used
    part = request.valid[0]
    if part is not None and part.value is None:
        return None
    return frozenset(range(request.shape[0] if part is None else min(part.value or 0, request.shape[0])))


def lanes_apart(search: MoveSearch, request: LoadRequest) -> int | None:
    """Return the first lane distance at which memory is not contiguous, or None for one run or short runs.

    Runs are short if interleaving them does not pay. In rows at places that data give, pairs are long enough.
    """
    places = _places(search, request)
    at_data = isinstance(request.expr, Read) and any(map(has_elements, request.expr.index))
    least = 2 if at_data else LEAST_RUN
    if places is None or not 1 < _runs(places) <= len(_addresses(places)) // least:
        return None
    away = places - places[:, :1]
    return int(away[0][away[0] != away[1]][0])


def contiguous_row_length(search: MoveSearch, request: LoadRequest) -> int | None:
    """Return the length of the rows that the lanes contain one after the other, or None for another layout."""
    places, apart = _places(search, request), lanes_apart(search, request)
    if request.used is not None or places is None or apart is None:
        return None
    return apart if apart * _runs(places) == places.shape[1] else None


def step_of(pieces: tuple[Pattern, ...]) -> int:
    """Return the number of lanes from the first piece to the second one."""
    first, second = (p.target.index[0].constant for p in pieces[:2])
    return abs(second - first)


def is_joining(pieces: tuple[Pattern, ...]) -> bool:
    """Return whether the pieces are whole registers that are concatenated, not interleaved."""
    sizes = {p.instruction.operand(p.value.buffer).shape for p in pieces if isinstance(p.value, Read)}
    return sizes == {(Index.of(step_of(pieces)),)}


def is_out_of_reach(search: MoveSearch, request: LoadRequest) -> bool:
    """Return whether elements wrap around, or whether the used lanes form too many runs for interleaves."""
    if wraps(request.expr, request.shape, search.strides):
        return True
    places = _places(search, request) if request.used is not None else None
    return places is not None and _runs(places) > max(1, len(_addresses(places)) // LEAST_RUN)


def places_of(search: MoveSearch, request: LoadRequest) -> NDArray[np.int64] | None:
    """Return the address of each lane's element in one array, for a value computed lane by lane, or None."""
    found = [r for r in reads(request.expr) if "%0" in symbols(r)]
    return _places(search, replace(request, expr=found[0])) if len(found) == 1 else None


def _places(search: MoveSearch, request: LoadRequest) -> NDArray[np.int64] | None:
    """Return the used lanes and the addresses of their elements, or None if unclear. Shapes: (2, lanes).

    Given for made-up positions and strides: it spares searches, and is no proof of anything.
    """
    used = used_lanes(request)
    if not used or not isinstance(request.expr, Read):
        return None
    address = address_of(request.expr, search.strides)
    if address is None:
        return None
    lanes = np.array(sorted(used), np.int64)
    # Longer than any register, so that lanes of different rows lie apart; products of eight fit into 64 bits.
    made_up = {s: 101 + 10 * (n % 10) for n, s in enumerate(sorted(address.symbols - {"%0"}))}
    env: dict[str, int | NDArray[np.int64]] = {**made_up}
    places = evaluate_index(address, env | {"%0": lanes})
    return np.stack([lanes, np.broadcast_to(places, lanes.shape)])


def _addresses(places: NDArray[np.int64]) -> list[int]:
    """Return the addresses in ascending order. `np.unique` imports masked arrays, which takes 20 ms."""
    return sorted(set(places[1].tolist()))


def _runs(places: NDArray[np.int64]) -> int:
    """Return the number of contiguous runs of elements in memory."""
    return 1 + int(np.count_nonzero(np.diff(_addresses(places)) != 1))


def try_pieces(
    search: MoveSearch, pieces: tuple[Pattern, ...], request: LoadRequest, moves: int, find: Find
) -> OperandMove | None:
    """Return the instruction that writes the register piece by piece, with the load of each piece, or None."""
    used = used_lanes(request)
    first = pieces[0]
    params = fit_shape(first.output, request.shape)
    if used is None or params is None or not is_allowed(first, params):
        return None
    if placement_of(first.output, params) != request.placement:
        return None
    if {p.name for p in first.instruction.params} - params.keys():
        return None
    boxes: list[LaneBox] = []
    for piece in pieces:
        lengths, masked = extents_of(piece, params)
        box = None if masked else box_of(piece.target.index[0], piece.axes, lengths, used)
        if box is None and not masked and len(pieces) == 1:
            box = _written_lanes(piece, lengths, used)
        if box is None:
            return None
        boxes.append(box)
    if not used <= frozenset().union(*(b.lanes for b in boxes)):
        return None
    subjects = [_subject(p, b, request) for p, b in zip(pieces, boxes, strict=True)]
    parts = len(pieces) > 1 and not is_joining(pieces)
    if parts and not _takes_lowest_apart(subjects, boxes, search):
        return None
    inputs: list[tuple[str, Source]] = []
    for piece, box, subject in zip(pieces, boxes, subjects, strict=True):
        source = _source(search, piece, box, subject, params, moves + 1, find)
        if source is None:
            return None
        inputs.append(source)
    cost = search.interval_ns(first.name, params)
    cost += add_up(s.cost_ns for _, s in inputs if isinstance(s, OperandMove))
    chosen = tuple(sorted((n, Index.of(v)) for n, v in params.items()))
    return OperandMove(
        first.name,
        first.output.name,
        request.memory,
        request.dtype,
        request.shape,
        chosen,
        tuple(inputs),
        cost,
        registers=request.registers,
    )


def _written_lanes(piece: Pattern, lengths: dict[str, int], used: Lanes) -> LaneBox | None:
    """Return all lanes that a piece writes, or None if they do not include the used ones."""
    whole = box_of(piece.target.index[0], piece.axes, lengths, ALL_LANES)
    return replace(whole, full=False) if whole is not None and used <= whole.lanes else None


def _subject(piece: Pattern, box: LaneBox, request: LoadRequest) -> Expr:
    """Return the value that the piece has to write, over its axes `%a`."""
    extents = {f"%{a.name}": box.limits.get(a.name, 1) for a in piece.axes}
    moving = {a.name: Index.of(f"%{a.name}" if extents[f"%{a.name}"] > 1 else 0) for a in piece.axes}
    return lay_over(request.expr, {"%0": piece.target.index[0].substitute(moving)}, extents)


def _takes_lowest_apart(subjects: list[Expr], boxes: list[LaneBox], search: MoveSearch) -> bool:
    """Return whether memory is contiguous below the lane digit that separates the pieces, but not along it."""
    addresses: list[Index] = []
    for subject, box in zip(subjects, boxes, strict=True):
        address = address_of(subject, search.strides) if isinstance(subject, Read) else None
        if address is None:
            return False
        addresses.append(simplify(address, {f"%{a}": n for a, n in box.limits.items()}))
    step, apart = boxes[1].offset - boxes[0].offset, addresses[1] - addresses[0]
    if apart.value in (0, step):
        return False
    below = [(a, s) for a, s, n in boxes[0].digits if n > 1 and s < abs(step)]
    return all((c := addresses[0].coefficient(f"%{a}")) is not None and c.value == s for a, s in below)


def _source(
    search: MoveSearch, piece: Pattern, box: LaneBox, subject: Expr, params: Params, moves: int, find: Find
) -> tuple[str, Source] | None:
    """Return the operand of a piece, with the location or the load of its value, or None."""
    value = piece.value
    if not isinstance(value, Read) or value.dtype != subject.dtype:
        return None
    operand = piece.instruction.operand(value.buffer)
    limits = {a.name: box.limits.get(a.name, 1) for a in piece.axes}
    if search.is_addressable(operand.memory):
        lengths, _ = extents_of(piece, params)
        if not box.full and any(lengths[a] > 1 for i in value.index for a in i.symbols):
            return None  # it would read what may not be there
        binding = Binding(operand.name, value.index, subject)
        place = search.locate(piece.instruction, binding, params, limits)
        return (operand.name, place) if place is not None else None
    requested = requested_lanes(operand, value.index, subject, piece.axes, limits, params)
    found = find(search, requested, moves) if requested is not None else None
    return None if found is None else (operand.name, found)


def requested_lanes(
    operand: Operand,
    subscripts: tuple[Index, ...],
    subject: Expr,
    axes: tuple[Axis, ...],
    limits: dict[str, int],
    params: Params,
) -> LoadRequest | None:
    """Return the load request for the register that a subscript reads, or None if its value is unclear.

    `subject` is over axes `%a`. Every axis runs from 0 to its limit.
    """
    size = operand.shape[0].substitute(params).value if len(operand.shape) == 1 else None
    if size is None:
        return None
    read_at = box_of(subscripts[0], axes, limits, frozenset(range(size)))
    back = axes_at(read_at, "%0") if read_at is not None and read_at.full else None
    if read_at is None or back is None or read_at.offset:  # what the low lanes do as well
        return None
    if any(n > 1 and a not in back and f"%{a}" in symbols(subject) for a, n in limits.items()):
        return None
    elements = substitute_expr(subject, {f"%{a}": e for a, e in back.items()})
    lanes = read_at.lanes
    dense = lanes == frozenset(range(len(lanes)))
    part = Index.of(len(lanes)) if dense and len(lanes) < size else None
    expr = simplify_expr(elements, {"%0": len(lanes) if dense else size})
    used = None if dense else lanes
    placement = placement_of(operand, params)
    return LoadRequest(
        expr, operand.memory or "", operand.dtype, (size,), (part,), used=used, placement=placement
    )


MAX_LANES = 4096


def is_wasted(search: MoveSearch, pattern: Pattern, request: LoadRequest) -> bool:
    """Return whether an instruction permutes a register without bringing memory neighbours together."""
    if pattern.name not in search.known.permuted_lanes:
        search.known.permuted_lanes[pattern.name] = _lanes_read(pattern)
    lanes = search.known.permuted_lanes[pattern.name]
    if lanes is None:
        return False
    places = places_of(search, request)
    if places is None or places.shape[1] != len(lanes):
        return True
    before, after = places[1], np.empty_like(places[1])
    after[list(lanes)] = before
    return _neighbours(after) <= _neighbours(before)


def _neighbours(places: NDArray[np.int64]) -> int:
    """Return the number of lanes with the next element of memory after that of the lane before."""
    return int(np.count_nonzero(np.diff(places) == 1))


def _lanes_read(pattern: Pattern) -> tuple[int, ...] | None:
    """Return the source lane of each written lane, or None if the instruction does not permute one register."""
    value, written = pattern.value, pattern.output
    if not isinstance(value, Read) or len(written.shape) != 1 or len(value.index) != 1:
        return None
    if has_elements(value.index[0]):
        return None
    read = pattern.instruction.operand(value.buffer)
    if (read.memory, read.dtype, read.shape) != (written.memory, written.dtype, written.shape):
        return None
    lengths, masked = extents_of(pattern, {})
    sizes = [lengths.get(axis.name, 0) for axis in pattern.axes]
    size = written.shape[0].value
    if masked or size is None or size > MAX_LANES or int(np.prod(sizes)) != size:
        return None
    points = box_points(sizes)
    env: dict[str, int | NDArray[np.int64]] = {a.name: points[n] for n, a in enumerate(pattern.axes)}
    to, source = (
        np.broadcast_to(evaluate_index(i, env), size) for i in (pattern.target.index[0], value.index[0])
    )
    if len(set(to.tolist())) != size or len(set(source.tolist())) != size:
        return None
    return tuple(int(lane) for lane in source[np.argsort(to)])
