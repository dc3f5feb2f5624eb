"""Windows: operands whose neighbouring iterations share elements, such as the taps of a filter.

    X[p + r, c]                     the elements for r = 1 and p = 0 to 7 are those for r = 0 and p = 1 to 8
    X[p.q / 56 + r, p.q % 56, c]    the same along both as one axis, 56 steps farther on
    X[2*p + r, c]                   the element for r = 2 and p is that for r = 0 and p + 1; r = 1 is another plane

A buffer in a scratchpad then stores each element once: tap r of a tile starts at an offset from tap 0, or in
another plane.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import gcd, prod

from isamap.ir import FloorDiv, Index, Mod, Read, substitute_expr
from isamap.machine.timings import WindowOverlap
from isamap.match.operand_loads.load_request import MoveSearch
from isamap.match.tiles.operand_tiles import OperandTile, Tile
from isamap.match.tiles.walks import LoopAxis

MOST_PLANES = 4
"""Filters whose steps are longer are hardly ever larger than that."""


def windows_of(operand: OperandTile, tile: Tile, search: MoveSearch) -> tuple[WindowOverlap, ...]:
    """Return the windows of a scratchpad operand, with each axis in at most one. Rows of a tile come first."""
    step = search.known.address_steps.get(operand.memory)
    if step is None or not isinstance(operand.subject, Read):
        return ()
    axes = [tile.axis(name) for name in operand.axes]
    found: list[WindowOverlap] = []
    for along in sorted((a for a in axes if _is_in_cells(a, operand)), key=lambda a: -a.tile):
        cell_bytes = operand.dtype.size_bytes * prod(operand.cell_shape) // along.tile
        for tap in (a for a in axes if a.is_reduction and a.tile == 1 and a != along):
            if any({along.name, tap.name} & {w.along, w.tap} for w in found):
                continue
            window = _window(operand.subject, along, tap)
            # Of less than a shift, taps would bring more than each its own.
            if window is None or window.shift > along.tile:
                continue
            if (cell_bytes * gcd(window.shift, along.tile)) % step == 0:
                found.append(window)
    return tuple(found)


def _is_in_cells(axis: LoopAxis, operand: OperandTile) -> bool:
    """Return whether a step along an axis moves by a whole row of a tile, or by a whole tile."""
    if axis.extent.value is None or axis.is_reduction:
        return False
    if axis.tile == 1:
        return True
    rows = [digit for digit, _ in axis.digits]
    return (
        len(rows) == 1 and operand.cell_pattern[0] == Index.of(rows[0]) and operand.cell_shape[0] == axis.tile
    )


def _shifts(subject: Read) -> Iterator[int]:
    """Yield strides that two axes may share: 1, and each divisor in the subscripts (rows of flattened axes)."""
    yield 1
    atoms = {atom for index in subject.index for monomial, _ in index.terms for atom in monomial}
    divisors = {a.divisor.value for a in atoms if isinstance(a, FloorDiv | Mod)}
    yield from sorted(d for d in divisors if d is not None and d > 1)


def _window(subject: Read, along: LoopAxis, tap: LoopAxis) -> WindowOverlap | None:
    """Return the window of two axes with the fewest planes, or None."""
    here, there = f"@{along.name}", f"@{tap.name}"
    for period in range(1, min(tap.extent.value or 0, MOST_PLANES + 1)):
        later = substitute_expr(subject, {there: Index.of(there) + period})
        for shift in _shifts(subject):
            if substitute_expr(subject, {here: Index.of(here) + shift}) == later:
                return WindowOverlap(along.name, tap.name, shift, period)
    return None
