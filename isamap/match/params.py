"""Parameters of instructions: values that make an operand's shape the wanted one, and what they must obey."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from isamap.ir import Index, Operand
from isamap.ir.bind import comparison_holds
from isamap.match.instructions import Pattern

Params = dict[str, int]


def fit_shape(operand: Operand, shape: tuple[int, ...]) -> Params | None:
    """Values of parameters for which an operand has the given shape, or None when there are none."""
    if len(operand.shape) != len(shape):
        return None
    found: Params = {}
    for index, size in zip(operand.shape, shape, strict=True):
        value = solve(index.substitute(found), size)
        if value is None:
            return None
        found |= value
    return found


def solve(index: Index, size: int) -> Params | None:
    """The value of the one symbol of `index` that makes it `size`; {} when it is that already."""
    if index.value is not None:
        return {} if index.value == size else None
    if len(index.symbols) != 1:
        return None
    (symbol,) = index.symbols
    coefficient = index.coefficient(symbol)
    if coefficient is None or not coefficient.value:
        return None
    rest = size - index.constant
    return {symbol: rest // coefficient.value} if rest % coefficient.value == 0 and rest > 0 else None


def extents_of(pattern: Pattern, params: Mapping[str, int]) -> tuple[dict[str, int], dict[str, str]]:
    """Extents of the axes that are numbers, and of those whose extent is a scalar parameter, its name."""
    numbers, masked = _extents(pattern, (*params.items(),))
    return dict(numbers), dict(masked)


@lru_cache(maxsize=1 << 14)
def _extents(
    pattern: Pattern, params: tuple[tuple[str, int], ...]
) -> tuple[tuple[tuple[str, int], ...], tuple[tuple[str, str], ...]]:
    known = dict(params)
    scalars = {p.name for p in pattern.instruction.params if p.kind == "scalar" and p.dtype is None}
    numbers: dict[str, int] = {}
    masked: dict[str, str] = {}
    for axis in pattern.axes:
        extent = axis.extent.substitute(known)
        if extent.value is not None:
            numbers[axis.name] = extent.value
        elif str(extent) in scalars:
            masked[axis.name] = str(extent)
    return (*numbers.items(),), (*masked.items(),)


def holds(pattern: Pattern, params: Mapping[str, int]) -> bool:
    """Whether parameters are in their ranges and every precondition is met by them alone."""
    return _holds(pattern, (*params.items(),))


@lru_cache(maxsize=1 << 14)
def _holds(pattern: Pattern, given: tuple[tuple[str, int], ...]) -> bool:
    params = dict(given)
    for p in pattern.instruction.params:
        value = params.get(p.name)
        if value is None:
            continue
        low = p.low.substitute(params).value if p.low else None
        high = p.high.substitute(params).value if p.high else None
        if (low is not None and value < low) or (high is not None and value > high):
            return False
    for c in pattern.instruction.where:
        left, right = c.left.substitute(params).value, c.right.substitute(params).value
        if left is None or right is None or not comparison_holds(left, c.comparison, right):
            return False
    return True
