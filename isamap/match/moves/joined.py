"""Join axes whose elements are contiguous in an array, so that a copy treats them as one long row.

    F[@k, @c, @r, @s] of K filters, C channels, 3 by 3        steps 9*C, 9, 3, 1

While @s goes through 3 and @r through 3, the address goes through 9, and the next @c goes on there: c, r and
s are one counter of 9*C, along which blocks of 16 fit where none fits along 3.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from isamap.ir import Expr, Index
from isamap.ir.walk import reads
from isamap.match.operand_loads.load_request import MoveSearch
from isamap.match.patterns.address import address_of
from isamap.match.tiles.operand_tiles import OperandTile, Tile


def address_steps(subject: Expr, tile: Tile, axes: Iterable[str], search: MoveSearch) -> dict[str, Index]:
    """Return the address step along each axis of the only array that is read element by element. Units: elements.

    Axes along which the step is not constant are left out.
    """
    met = reads(subject)
    address = address_of(met[0], search.strides) if len(met) == 1 and met[0].fill is None else None
    if address is None:
        return {}
    steps = ((a, address.coefficient(f"@{a}")) for a in axes if tile.axis(a).tile == 1)
    return {axis: step for axis, step in steps if step is not None and step.value != 0}


def find_joined_axes(
    order: Sequence[str], counts: Mapping[str, Index], steps: Mapping[str, Index]
) -> Iterator[tuple[str, ...]]:
    """Yield groups of adjacent axes, outermost first, that one counter can replace.

    All but the outermost are counted from end to end, `counts` times.
    """
    chain: list[str] = []
    for inner in reversed(order):
        if chain and inner in steps and steps[inner] == steps[chain[0]] * counts[chain[0]]:
            chain.insert(0, inner)
            continue
        if len(chain) > 1:
            yield tuple(chain)
        chain = [inner] if inner in steps else []
    if len(chain) > 1:
        yield tuple(chain)


def tiles_along(operand: OperandTile, tile: Tile, search: MoveSearch) -> dict[str, int | None]:
    """Return how many whole tiles of an operand one copy may move along each axis, where that is known.

    Consecutive axes count as the innermost one, because loops run in that order.
    """
    found: dict[str, int | None] = {}
    for name in operand.axes:
        axis = tile.axis(name)
        found[name] = axis.extent.value // axis.tile if axis.extent.value is not None else None
    steps = address_steps(operand.subject, tile, operand.axes, search)
    known = {axis: step.value for axis, step in steps.items() if step.value and found[axis]}
    order = sorted(known, key=lambda axis: known[axis], reverse=True)
    counts = {axis: Index.of(found[axis] or 0) for axis in order}
    for chain in find_joined_axes(order, counts, steps):
        for axis in chain[:-1]:
            found[chain[-1]] = (found[chain[-1]] or 0) * (found[axis] or 0)
    return found
