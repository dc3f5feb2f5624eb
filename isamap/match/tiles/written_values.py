"""The values that are written from an accumulator: its sum, or the results of fused statements.

For `C[m, n] += A[m, k] * B[k, n]` with `C[m, n] = max(C[m, n], 0)` fused, in a register along n:

    target   C[@m, @n + %0]      value   max($held, 0)

The module also builds tiles whose lanes accumulate separate partial sums: dot products, maxima of rows.

    instruction   c[i] += a[i] * b[i]            statement   y[m] += A[m, k] * x[k]

No mapping runs k on i, because lanes of c would be different elements of y. Yet each lane may sum a part of
k, starting from 0, and the partial sums are added to y[m] after the loop over k. A row of A is then read as
it lies. These tiles are not mappings as docs/matching.md defines them, and are not counted: the instruction
and the final sum together perform the statement. Every reduction, such as a maximum, may be performed this
way, since all of them may be taken in any order.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import isfinite, prod

from isamap.ir import ZERO, Axis, Call, Cast, Const, Expr, Index, Read, substitute_expr
from isamap.ir.walk import map_reads
from isamap.machine import Machine
from isamap.match.mappings.enumerate import pairings
from isamap.match.mappings.mapping import AxisGroup, KnownMappings, Mapping
from isamap.match.patterns.address import simplify_expr
from isamap.match.patterns.pattern import Pattern, only_assignment, pattern_of
from isamap.match.patterns.reach import coordinate_names
from isamap.match.patterns.unify import Bindings, read_twice
from isamap.match.tiles.operand_tiles import OperandTile, Tile, apply_mapping, over_tile, sums_can_be_padded
from isamap.source.records import dataclass, replace
from isamap.transform import Statement, identity_of, symbols
from isamap.transform.companions import HELD, CompanionValues


@dataclass(frozen=True, slots=True)
class Written:
    """An array that an accumulator writes: the access over register coordinates, and (`_at`) over positions.

    `alone` says that it is the only array that finished sums are written to.
    """

    target: Read
    value: Expr
    target_at: Read
    value_at: Expr
    alone: bool = False


def with_held(value: Expr, held: Expr) -> Expr:
    """Return the value with the accumulator's element in it, converted to the type of the sum's array."""

    def put(read: Read) -> Expr:
        if read.buffer != HELD:
            return read
        return held if held.dtype == read.dtype else Cast(held, read.dtype)

    return map_reads(value, put)


def in_register(written: Written, acc: OperandTile) -> Expr:
    """Return the value over the coordinates of the accumulator's register."""
    return with_held(written.value, acc.held)


def get_own_sum(tile: Tile) -> Written:
    """Return the sum itself, written to its own array."""
    target = tile.statement.assign.target
    found = _find_written(tile, target, Read(HELD, (), target.dtype))
    assert found is not None, "an accumulator is an element of the kernel's arrays"
    return found


def written_value(tile: Tile, outcome: CompanionValues) -> tuple[Written, ...] | None:
    """Return the values that a finished tile writes, or None if a value is not part of the tile."""
    found = [_find_written(tile, target, value) for target, value in outcome.writes]
    known = [w for w in found if w is not None]
    return tuple(replace(w, alone=len(found) == 1) for w in known) if len(known) == len(found) else None


def start_of_sum(tile: Tile, outcome: CompanionValues) -> tuple[OperandTile, Written] | None:
    """Return the accumulator whose initial value another statement gives, and that value, or None.

    Return None if no statement gives the initial value, or if it has no place in the tile.
    """
    acc, target = tile.accumulator, tile.statement.assign.target
    if outcome.first is None or acc is None:
        return None
    first, written = outcome.first, _find_written(tile, target, outcome.first)
    wide = first if first.dtype == acc.dtype else Cast(first, acc.dtype)
    found = over_tile(tile, wide)
    if found is None or written is None:
        return None
    return replace(acc, subject=found.subject, elements=found.elements), written


def _find_written(tile: Tile, target: Read, value: Expr) -> Written | None:
    where, what = over_tile(tile, target), over_tile(tile, value)
    if where is None or what is None:
        return None
    assert isinstance(where.elements, Read)
    assert isinstance(where.subject, Read)
    return Written(where.elements, what.elements, where.subject, what.subject)


def tiles_apart(
    statement: Statement, number: int, machine: Machine, profile: dict[str, int]
) -> Iterator[Tile]:
    """Yield every tile whose lanes sum parts of one reduction axis, in the machine's order of instructions."""
    if statement.assign.op is None:
        return
    for item in machine.instructions.values():
        own = only_assignment(item.instruction)
        pattern = pattern_of(item.instruction) if own and own.op == statement.assign.op else None
        if pattern is None or not _may_be_apart(pattern):
            continue
        seen = KnownMappings(pattern)
        for mapping in _mappings(statement, number, pattern):
            if seen.is_new(mapping):
                tile = apply_mapping(statement, mapping, pattern, profile)
                if tile is not None and tile.accumulator is not None and sums_can_be_padded(tile):
                    yield _with_lanes(tile, tile.accumulator)


def _may_be_apart(pattern: Pattern) -> bool:
    """Return whether all axes index all inputs and some are lanes. Unused lanes then add nothing."""
    read = [i for i in pattern.instruction.operands if i.role == "in"]
    lanes = {s for i in pattern.target.index for s in i.symbols}
    return bool(read and lanes) and not pattern.instruction.params


def _mappings(statement: Statement, number: int, pattern: Pattern) -> Iterator[Mapping]:
    """Yield the mappings of one or two reduction axes onto all axes of the instruction, for every pairing."""
    lanes = [s for i in pattern.target.index for s in i.symbols]
    axes = (*lanes, *(a.name for a in pattern.axes if a.name not in lanes))
    for bindings in pairings(pattern, statement, "complete"):
        indexed = all(set(axes) <= {s for i in b.pattern for s in i.symbols} for b in bindings)
        if not indexed or not bindings or read_twice(bindings):
            continue
        along = [a for a in statement.reduction_axes if a.extent.value != 1]
        along = [a for a in along if _is_along(a.name, bindings, pattern)]
        count = prod(a.extent.value or 0 for a in pattern.axes)
        joined = [
            (outer.name, inner.name) for outer in along for inner in along if _is_short(inner, outer, count)
        ]
        for names in [*((a.name,) for a in along), *joined]:
            groups = (AxisGroup(axes, names),)
            yield Mapping(pattern.name, number, bindings, groups, (), "whole")


def _is_short(axis: Axis, outer: Axis, lanes: int) -> bool:
    """Return whether an axis of 2, 4 or 8 fits into the lanes, so that they run over the next axis, too."""
    length = axis.extent.value
    is_whole = length in (2, 4, 8) and lanes >= length and lanes % length == 0
    return is_whole and axis is not outer and outer.extent.value not in (2, 4, 8)


def _is_along(axis: str, bindings: Bindings, pattern: Pattern) -> bool:
    """Return whether all inputs depend on an axis, or some do and the other factors of a product are numbers.

    In unused lanes the inputs hold a neutral value, such as 0, and so do products with it.
    """
    along = [axis in symbols(b.subject) for b in bindings]
    value = pattern.statement.assign.value
    is_product = isinstance(value, Call) and value.op == "mul"
    numbers = all(here or _is_number(b.subject) for here, b in zip(along, bindings, strict=True))
    return all(along) or (any(along) and is_product and numbers)


def _is_number(e: Expr) -> bool:
    """Return whether an expression is a constant whose product with 0 is 0."""
    return _is_number(e.value) if isinstance(e, Cast) else isinstance(e, Const) and isfinite(e.value)


def _with_lanes(tile: Tile, acc: OperandTile) -> Tile:
    """Return the tile with an accumulator of partial sums, each of which starts from the neutral element."""
    nothing = identity_of(_op(tile), acc.dtype)
    here = tuple(Index.of(d) for d in coordinate_names(len(acc.shape)))
    shares = replace(
        acc,
        subject=nothing,
        elements=nothing,
        parts=tuple(None for _ in acc.shape),
        scattered=frozenset[str](),
        cell_shape=acc.shape,
        cell_pattern=tile.pattern.target.index,
        cells=here,
    )
    inputs = tuple(replace(o, elements=_at_multiples(o, tile)) for o in tile.inputs)
    return replace(tile, inputs=inputs, accumulator=shares, held=acc)


def _at_multiples(operand: OperandTile, tile: Tile) -> Expr:
    """Return the elements of an operand, whose tiles start at multiples of the short axis that lanes run over."""
    (group,) = tile.mapping.groups
    if len(group.kernel_axes) == 1:
        return operand.elements
    start, step = Index.of(f"@{group.name}"), tile.statement.axis(group.kernel_axes[1]).extent
    moved = substitute_expr(operand.elements, {str(start): start.floordiv(step) * step})
    return simplify_expr(moved, dict(zip(coordinate_names(len(operand.shape)), operand.shape, strict=True)))


def _op(tile: Tile) -> str:
    op = tile.statement.assign.op
    assert op is not None, "what only assigns has no shares"
    return op


def sum_of_lanes(buffer: str, lanes: int, tile: Tile) -> tuple[Read, Expr]:
    """Return, for each position, the target and the sum of its old value and the partial sums in a buffer.

    Halves are added repeatedly: compilers then find vector instructions.
    """
    assert tile.held is not None
    op = _op(tile)
    old, dtype = tile.held.subject, tile.held.dtype
    terms: list[Expr] = [Read(buffer, (ZERO, Index.of(n)), dtype) for n in range(lanes)]
    while len(terms) > 1:
        half = -(-len(terms) // 2)
        rest = terms[half:]
        terms = [
            Call(op, (term, rest[n]), dtype) if n < len(rest) else term for n, term in enumerate(terms[:half])
        ]
    value: Expr = Call(op, (old, terms[0]), dtype)
    target = old.value if isinstance(old, Cast) else old
    assert isinstance(target, Read), "an accumulator is an element of the kernel's arrays"
    return target, value if target.dtype == dtype else Cast(value, target.dtype)
