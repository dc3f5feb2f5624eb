"""The variants of a mapping: orders of fusion, cuts of classes, placement of operands, and tails.

    fma_zmm_f32 { i: p.q } of a convolution, 14 * 14 positions on 16 lanes: p.q or q.p; a is gathered into a
    buffer, b is broadcast in place or from a buffer; the last of 13 tiles holds 4 positions, hence a tail

All variants count as one mapping. They differ in data movement, so each is listed with the movement of every
operand. Tile sizes, blocks and loop orders are no variants: a scheduler decides them. Cuts use only the
instruction's largest lengths.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations, product
from math import factorial, prod
from typing import Literal

from isamap.ir import Const, Index, Kernel
from isamap.machine import Machine
from isamap.match.mappings.mapping import AxisGroup, Mapping
from isamap.match.moves.chains import Movement
from isamap.match.moves.movement import choices, tile_of
from isamap.match.operand_loads.load_request import MoveSearch
from isamap.match.operand_loads.store_search import find_operand_store
from isamap.match.tiles import operand_tiles as tiles
from isamap.match.tiles.walks import LoopAxis
from isamap.source.records import dataclass, replace
from isamap.transform import Statement

Tail = Literal["exact", "masked", "padded", "staged", "none"]
_WORST_FIRST: tuple[Tail, ...] = ("staged", "padded", "masked")


@dataclass(frozen=True, slots=True)
class MappingVariant:
    """One way to execute a mapping.

    `groups` are the mapping's, kernel axes in the order in which they are fused, instruction axes in that of
    the digits that the fused number is cut into, outermost first. `tail` is the treatment of an axis that
    ends inside a tile:

    - `exact`: no axis ends inside a tile at these sizes;
    - `masked`: every operand's moves touch the elements that there are, and no others;
    - `padded`: operands that go through a buffer find `fills` there behind their last element;
    - `staged`: a tile at the edge goes through a separate buffer, because no move of a part of it exists;
    - `none`: no fill of the remainder leaves the reduction unchanged, or the mapping cannot be executed.

    `fills` are the values, by operand, that make lanes without an iteration count for nothing.
    """

    groups: tuple[AxisGroup, ...]
    tail: Tail
    fills: tuple[tuple[str, Const], ...]
    movements: tuple[Movement, ...]

    @property
    def orders(self) -> tuple[tuple[str, ...], ...]:
        """Return the kernel axes of each group in the order in which they are fused, outermost first."""
        return tuple(g.kernel_axes for g in self.groups)

    @property
    def cuts(self) -> tuple[tuple[str, ...], ...]:
        """Return the instruction axes of each group, outermost first, that are the digits of its fused number."""
        return tuple(g.instruction_axes for g in self.groups)


def variants(
    kernel: Kernel,
    statement: Statement,
    mapping: Mapping,
    machine: Machine,
    *,
    search: MoveSearch | None = None,
) -> Iterator[MappingVariant]:
    """Yield all variants, one at a time: the order and the cuts of the written mapping come first.

    Tails are those of the kernel's bound sizes; if sizes are open, any tail may occur.
    """
    search = search or tiles.move_search_of(kernel, machine)
    for groups in _groupings(mapping):
        one = replace(mapping, groups=groups)
        tile = tile_of(statement, one, machine)
        ways = choices(kernel, statement, one, machine, search=search)
        for chosen in product(*ways):
            tail, fills = _tail(tile, chosen, search)
            yield MappingVariant(groups, tail, fills, chosen)


def count_variants(
    kernel: Kernel,
    statement: Statement,
    mapping: Mapping,
    machine: Machine,
    *,
    search: MoveSearch | None = None,
) -> int:
    """Return the number of variants. Data movement is searched for each order and cut."""
    search = search or tiles.move_search_of(kernel, machine)
    found = (
        choices(kernel, statement, replace(mapping, groups=g), machine, search=search)
        for g in _groupings(mapping)
    )
    return sum(prod(len(ways) for ways in operands) for operands in found)


def count_groupings(mapping: Mapping) -> int:
    """Return the number of combinations of fusion orders and cuts, without searching data movement."""
    return prod(factorial(len(g.kernel_axes)) * factorial(len(g.instruction_axes)) for g in mapping.groups)


def _groupings(mapping: Mapping) -> Iterator[tuple[AxisGroup, ...]]:
    """Yield the groups of a mapping in every order of their axes, the written order first."""
    ways: list[list[AxisGroup]] = [
        [
            AxisGroup(instruction_axes, kernel_axes)
            for kernel_axes in permutations(g.kernel_axes)
            for instruction_axes in permutations(g.instruction_axes)
        ]
        for g in mapping.groups
    ]
    return product(*ways)


# --- tails ------------------------------------------------------------------------------------------------


def _tail(
    tile: tiles.Tile | None, chosen: tuple[Movement, ...], search: MoveSearch
) -> tuple[Tail, tuple[tuple[str, Const], ...]]:
    """Return how tiles are treated at the edges of axes, and the fills, for the chosen moves."""
    if tile is None or any(m.kind == "none" for m in chosen):
        return "none", ()
    cut = [a for a in tile.axes if a.tile > 1 and not _divides(a)]
    if not cut:
        return "exact", ()
    fills = _fills(tile, [a for a in cut if a.is_reduction])
    if fills is None:
        return "none", ()
    buffered = {m.operand for m in chosen if m.packing}
    tails: set[Tail] = set()
    for operand in (*tile.inputs, *(o for o in (tile.accumulator, tile.result) if o is not None)):
        mine = [a for a in cut if a.name in operand.parts or a.name in operand.scattered]
        if not mine:
            continue
        zeroed = all(f.value == 0 for n, f in fills if n == operand.name)
        if operand.name in buffered:
            tails.add("padded")
        else:
            tails.add(_at_edge(operand, mine, tile, search) if zeroed else "staged")
    for tail in _WORST_FIRST:
        if tail in tails:
            return tail, fills
    return "exact", fills


def _divides(axis: LoopAxis) -> bool:
    """Return whether tiles provably divide an axis."""
    return axis.name.startswith("_") or all(c % axis.tile == 0 for _, c in axis.extent.terms)


def _fills(tile: tiles.Tile, summed: list[LoopAxis]) -> tuple[tuple[str, Const], ...] | None:
    """Return the values of operands beyond the end of reduced axes that leave the result unchanged, or None."""
    if not summed:
        return ()
    found = tiles.fills_behind(tile.pattern, tile.inputs, summed)
    return tuple(sorted(found.items())) if found is not None else None


def _at_edge(operand: tiles.OperandTile, cut: list[LoopAxis], tile: tiles.Tile, search: MoveSearch) -> Tail:
    """Return the treatment of an operand that moves in place, at an edge: masked moves, or a buffer."""
    if operand.scattered & {a.name for a in cut}:
        return "staged"
    part = {a.name: Index.of(f"#{a.name}") for a in cut}
    filled = any(a.is_reduction for a in cut)
    if tile.result is not None:
        assert tile.target_elements is not None
        assert tile.value_elements is not None
        request = operand.request(part)
        value = find_operand_store(
            search, tile.target_elements, tile.value_elements, operand.memory, operand.dtype, request
        )
        return "masked" if value is not None else "staged"
    if tiles.bring(search, tile, operand, operand.request(part, filled=filled)) is None:
        return "staged"
    if operand is tile.accumulator:
        target, held = tiles.accumulator_store(tile)
        if find_operand_store(search, target, held, "", None, operand.request(part)) is None:
            return "staged"
    return "masked"
