"""Perform block remainders known only at run time in pieces with numbered tiles, without loops over tiles.

A block of four rows, `for m by 4`, leaves one to three:

    if left == 3 { three rows }   if left == 2 { two rows }   if left == 1 { one row }

and a block of three registers, whose last one an instruction of the machine masks, the same with 1 to 16
elements in the last one. Without such instructions full tiles go first, then the one that is not full, alone.
With sizes given (`for m by 12 rest 8 4 2 1`) a rest takes several of these pieces, one after the other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from isamap.ir import Index
from isamap.ir.index import ZERO
from isamap.lower.finish import Finish
from isamap.lower.nest_scope import Build, Nest, Nodes, Scope
from isamap.lower.place import Piece, Place
from isamap.lower.program import Condition, If
from isamap.lower.tile_results import symbols_of
from isamap.match import LoopAxis, MoveSearch, OperandTile, Tile, bring, find_operand_store, in_register
from isamap.plan.loops import LoopStep
from isamap.source.records import dataclass, replace


@dataclass(frozen=True, slots=True)
class Case:
    """A piece with the conditions under which it is performed. Units: `left` in elements from its start."""

    conditions: tuple[Condition, ...]
    piece: Piece
    left: Index


def in_pieces(nest: Nest, block: LoopStep, scope: Scope, build: Build) -> Nodes:
    """Return all pieces of what is left of a block at a place, each with the body that `build` gives."""
    axis, place = nest.tile.axis(block.axis), scope.place
    staged = frozenset(stage.operand for stage in nest.schedule.stages)
    known = staged, nest.search
    masked = axis.tile > 1 and not block.rest and is_masked(nest.tile, axis, nest.finish, *known)
    cases = _last_cut(block, axis, place) if masked else _full_first(block, axis, place)
    return tuple(If(case.conditions, build(scope.at(_at(place, axis, case)))) for case in cases)


def _at(place: Place, axis: LoopAxis, case: Case) -> Place:
    """Return the place where a piece starts."""
    name = axis.name
    return replace(
        place,
        position={**place.position, name: place.position[name] + case.piece.first * axis.tile},
        left={**place.left, name: case.left},
        pieces={**place.pieces, name: case.piece},
    )


def _last_cut(block: LoopStep, axis: LoopAxis, place: Place) -> Iterator[Case]:
    """Yield one case per number of tiles, the last of which shows only what is left."""
    left, size = place.left[axis.name], axis.tile
    most = block.step // size
    for count in range(most, 0, -1):
        conditions: tuple[Condition, ...] = ((Index.of((count - 1) * size), "<", left),)
        if count < most:
            conditions = (*conditions, (left, "<=", Index.of(count * size)))
        yield Case(conditions, Piece(ZERO, count), left)


def _full_first(block: LoopStep, axis: LoopAxis, place: Place) -> Iterator[Case]:
    """Cases of full tiles, and behind them the tile that is not full."""
    left, size = place.left[axis.name], axis.tile
    # Where threads share an axis in blocks, a block may be whole without being known to be.
    most = block.step // size - (not block.is_dealt)
    full = left.floordiv(size) if most else ZERO
    sizes = tuple(piece // size for piece in block.rest) or tuple(range(most, 0, -1))
    yield from _some(full, size, sizes) if block.rest else _one_of(full, size, sizes)
    if size > 1:
        cut = left - full * size
        yield Case(((ZERO, "<", cut),), Piece(full, 1), cut)


def _one_of(full: Index, size: int, counts: Sequence[int]) -> Iterator[Case]:
    """Yield one case per number of full tiles."""
    for count in counts:
        yield Case(((full, "==", Index.of(count)),), Piece(ZERO, count), Index.of(count * size))


def _some(full: Index, size: int, counts: Sequence[int]) -> Iterator[Case]:
    """Pieces of which as many follow each other as there are full tiles: none is needed twice."""
    left = full
    for count in counts:
        yield Case(((Index.of(count), "<=", left),), Piece(full - left, count), Index.of(count * size))
        left = left.mod(count)


def is_masked(tile: Tile, axis: LoopAxis, finish: Finish, staged: frozenset[str], search: MoveSearch) -> bool:
    """Return whether instructions of the machine move tiles that are cut along an axis, all that are not staged."""
    cut = symbols_of({axis.name: Index.of(axis.name)})
    for operand in tile.inputs:
        if operand.name in staged or not _shows(operand, axis):
            continue
        request = operand.request(cut, filled=axis.is_reduction)
        if axis.name in operand.scattered or bring(search, tile, operand, request) is None:
            return False
    held = tile.accumulator or tile.result
    assert held is not None, "a tile is summed or assigned"
    if held.name in staged or tile.held is not None or not _shows(held, axis):
        return True
    return axis.name not in held.scattered and _is_masked_out(tile, held, cut, finish, search)


def _shows(operand: OperandTile, axis: LoopAxis) -> bool:
    """Return whether an operand's tile is cut where the axis is."""
    return axis.name in operand.parts or axis.name in operand.scattered


def _is_masked_out(
    tile: Tile, held: OperandTile, cut: dict[str, Index], finish: Finish, search: MoveSearch
) -> bool:
    """Return the same of what a tile's result goes to."""
    request = held.request(cut)
    if tile.accumulator is None:
        assert tile.target_elements is not None, "a statement that only assigns has a target"
        given = (tile.target_elements, held.elements, held.memory, held.dtype, request)
        return find_operand_store(search, *given) is not None
    if bring(search, tile, held, request) is None:
        return False
    return all(
        find_operand_store(search, w.target, in_register(w, held), held.memory, held.dtype, request)
        is not None
        or find_operand_store(search, w.target, in_register(w, held), "", None, request) is not None
        for w in finish.whole
    )
