"""Copy several tiles at once with instructions that transpose blocks.

    for k in 512:                        for k in 32:
      copy 16 of B[n, k]           ->      transpose16 B[n : n + 16, 16*k : 16*k + 16]

A block of 16 rows replaces 16 iterations of the loop over tiles. The remainder uses smaller blocks if there
are some, and single copies at the end. Loops that run along one long row together become one:

    for c in 26:                         for s in 14:
      for r in 3:                          transpose16 F[k : k + 16, c, 0, 16*s : 16*s + 16]
        for s in 3:                 ->   for s in 10:
          copy 16 of F[k, c, r, s]         copy 16 of F[k, c, 0, 224 + s]
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

from isamap.ir import ZERO, Index, index_min
from isamap.lower.program import For, Names, Node
from isamap.lower.walk import rename_in
from isamap.match import OFFSET, MoveSearch, OperandTile, Tile, Written, in_tiles
from isamap.match.moves.joined import address_steps, find_joined_axes
from isamap.match.moves.transfers import copy_by_axes, copy_by_cells, packing_ns, shown_axes, transfer_ns
from isamap.match.moves.transposed_blocks import find_tiles_block
from isamap.plan.schedule import LoopStep


def transposed_tiles(
    operand: OperandTile,
    numbers: Sequence[int],
    tile: Tile,
    loops: tuple[LoopStep, ...],
    search: MoveSearch,
    *,
    back: Written | None,
    chains: Mapping[int, tuple[int, ...]],
) -> dict[int, tuple[str, tuple[int, ...]]]:
    """Return the loops whose iterations blocks replace: by number, the axis and the tiles of each block size.

    The smaller blocks cover the remainder. The result is empty if blocks do not pay. `joined_loops` finds
    `chains`.
    """
    tiled = {loops[n].axis: n for n in numbers if loops[n].step == tile.axis(loops[n].axis).tile}
    most: dict[str, int | None] = {}
    for axis, number in tiled.items():
        whole = _whole(number, tile, loops).value
        most[axis] = None if whole is None else whole // tile.axis(axis).tile
    for chain in chains.values():
        wholes = [_whole(number, tile, loops).value for number in chain]
        most[loops[chain[-1]].axis] = None if None in wholes else prod(w for w in wholes if w is not None)
    found: dict[int, tuple[str, tuple[int, ...]]] = {}
    while block := find_tiles_block(operand, tile, most, search, back=back):
        transposed = {c[1:]: size for c, size in block.sizes if c.startswith("+")}
        if not transposed or (found and {tiled[axis] for axis in transposed} != found.keys()):
            break
        if block.cost_ns >= _tile_ns(operand, tile, search, back):
            break
        for axis, size in transposed.items():
            _, before = found.get(tiled[axis], (axis, ()))
            found[tiled[axis]] = axis, (*before, size)
            most[axis] = size - 1
        if len(transposed) > 1:  # what is left over of two loops is two strips
            break
    return found


def joined_loops(
    operand: OperandTile,
    numbers: Sequence[int],
    tile: Tile,
    loops: tuple[LoopStep, ...],
    search: MoveSearch,
    *,
    back: Written | None,
) -> dict[int, tuple[int, ...]]:
    """Return the loops over single elements that one counter may replace, by the number of the outermost one.

    They are adjacent, apart from loops with one iteration.
    """
    counting = [n for n in numbers if _whole(n, tile, loops).ceildiv(loops[n].step).value != 1]
    last = {loops[n].axis: n for n in counting}
    subject = operand.subject if back is None else back.target_at
    steps = address_steps(subject, tile, [a for a, n in last.items() if loops[n].step == 1], search)
    # A loop over blocks of an axis has another name: nothing goes through it.
    order = [loops[n].axis if last[loops[n].axis] == n else f"{loops[n].axis} by {n}" for n in counting]
    counts = {axis: _whole(last[axis], tile, loops) for axis in steps}
    chains = find_joined_axes(order, counts, steps)
    return {last[chain[0]]: tuple(last[axis] for axis in chain) for chain in chains}


def _whole(number: int, tile: Tile, loops: tuple[LoopStep, ...]) -> Index:
    """Return the number of elements that a loop covers along its axis, if no other bound limits it."""
    axis = tile.axis(loops[number].axis)
    around = [loop.step for loop in loops[:number] if loop.axis == axis.name]
    return index_min(around[-1], axis.extent) if around else axis.extent


def _tile_ns(operand: OperandTile, tile: Tile, search: MoveSearch, back: Written | None) -> float:
    """Return the time per element when tiles are copied one by one. Units: ns."""
    buffer = in_tiles(operand, search).buffer
    position = {a.name: Index.of(f"@{a.name}") for a in tile.axes}
    counts = {f"~{a.name}": Index.of(a.tile) for a in shown_axes(operand, tile)}
    by_axes = copy_by_axes(operand, buffer, Index.of(OFFSET), tile, position, back=back)
    cells = copy_by_cells(operand, buffer, ZERO) if back is None else None
    ways = (
        transfer_ns(by_axes, counts, search),
        packing_ns(cells, operand.shape, search) if cells is not None else None,
    )
    return min((ns for ns in ways if ns is not None), default=float("inf"))


def transposed_by(
    transposed: Mapping[str, int] | Mapping[str, Index], nodes: tuple[Node, ...], names: Names
) -> tuple[Node, ...]:
    """Return nodes with the symbols `+axis` replaced by numbers, for every tile of a block."""
    for axis, size in transposed.items():
        if nodes:
            variable = names.fresh(axis)
            here = {f"+{axis}": Index.of(variable)}
            nodes = (For(variable, Index.of(size), rename_in(nodes, here)),)
    return nodes
