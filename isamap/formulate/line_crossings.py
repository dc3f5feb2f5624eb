"""Price loads in place that cross cache lines: the load unit reads one line after the other.

Y[k, p, q] += X[c, p + r, q + s] * F[k, c, r, s]   16 q of f32 are a line; beside s = 1 or 2 they lie on two

A processor's load port reads one line at a time, so such a load takes it twice: on an Emerald Rapids guest
64 bytes take 0.20 ns within a line and 0.41 across two (docs/decisions/0065-loads-across-lines.md).

A mask that leaves out what lies on the second line does not help there.

Where it errs: arrays are taken to begin with a line; stores are not looked at, nor copies, which wait for
caches more than for ports.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import gcd

from isamap.formulate.load_times import loading_ns
from isamap.ir import Index, Kernel
from isamap.ir.index import ZERO
from isamap.machine import line_bytes
from isamap.match import MoveSearch, OperandTile, Tile, bring, is_lane, standing
from isamap.plan.problem import TileOperand
from isamap.source import added
from isamap.source.records import replace
from isamap.transform import reads


def with_crossings(
    described: TileOperand,
    operand: OperandTile,
    tile: Tile,
    search: MoveSearch,
    kernel: Kernel,
    profile: Mapping[str, int],
) -> TileOperand:
    """Return the operand with what loads in place take more, on average over its tiles."""
    line = line_bytes(search.machine)
    if not line or described.direct_ns is None:
        return described
    share = crossing_share(operand, tile, kernel, profile, line)
    if not share:
        return described
    direct = bring(search, tile, operand, operand.request({}, expr=standing(operand.elements, is_lane)))
    return replace(described, direct_ns=described.direct_ns + share * loading_ns(direct))


def crossing_share(
    operand: OperandTile, tile: Tile, kernel: Kernel, profile: Mapping[str, int], line: int
) -> float:
    """Return how many lines the rows of a tile touch beyond the fewest that hold them, as a share of these; a mean.

    0 where it is not known how the array lies, or where a tile has no rows of several elements.
    Units: `line` in bytes.
    """
    found = _place(operand, kernel, profile)
    if found is None:
        return 0.0
    place, size = found
    begins, row, known = {0: 1.0}, 1, {f"@{axis.name}": axis for axis in tile.axes}
    for monomial, coefficient in place.terms:
        if not monomial:
            begins = {(begin + coefficient * size) % line: part for begin, part in begins.items()}
            continue
        atom = monomial[0]
        if len(monomial) > 1 or not isinstance(atom, str):
            return 0.0
        axis = known.get(atom)
        extent = axis.extent.substitute(profile).value or line if axis else line
        step = coefficient * size
        if axis is not None and coefficient == 1 and axis.tile > 1:
            row, step, extent = axis.tile, size * axis.tile, -(-extent // axis.tile)
        begins = _moved(begins, step, extent, line)
    least = -(-row * size // line)
    touched = added(part * -(-(begin + row * size) // line) for begin, part in begins.items())
    return touched / least - 1 if row > 1 else 0.0


def _place(operand: OperandTile, kernel: Kernel, profile: Mapping[str, int]) -> tuple[Index, int] | None:
    """Return where in its array an element lies, in elements, and the bytes of one; None where no array is known."""
    found = reads(operand.subject)
    array = next((o for o in kernel.operands if len(found) == 1 and o.name == found[0].buffer), None)
    if array is None:
        return None
    place, pitch = ZERO, Index.of(1)
    strides = array.strides or (None,) * len(array.shape)
    for index, extent, stride in reversed(list(zip(found[0].index, array.shape, strides, strict=True))):
        pitch = pitch if stride is None else stride
        place = place + index * pitch
        pitch = pitch * extent
    return place.substitute(profile), array.dtype.size_bytes


def _moved(begins: Mapping[int, float], step: int, count: int, line: int) -> dict[int, float]:
    """Return where rows begin in a line, and how many of them, when each goes on by so many steps."""
    places = min(count, line // gcd(step, line))
    moved: dict[int, float] = {}
    for begin, part in begins.items():
        for iteration in range(places):
            at = (begin + iteration * step) % line
            moved[at] = moved.get(at, 0.0) + part / places
    return moved
