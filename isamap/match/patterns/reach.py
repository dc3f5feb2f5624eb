"""Find the parameters with which an instruction covers a register shape, and the extents of its axes."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from isamap.ir import Constraint, Index, Operand
from isamap.ir.bind import comparison_holds
from isamap.ir.nodes import ParamKind
from isamap.match.patterns.pattern import Digits, Pattern, digits_of
from isamap.match.patterns.unify import Binding

Params = dict[str, int]


def fit_shape(operand: Operand, shape: tuple[int, ...]) -> Params | None:
    """Return the parameter values for which an operand has the given shape, or None."""
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
    """Return the value of the only symbol for which `index` equals `size`, {} if none is needed, or None."""
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


def extents_of(
    pattern: Pattern, params: Mapping[str, int], kinds: tuple[ParamKind, ...] = ("scalar",)
) -> tuple[dict[str, int], dict[str, str]]:
    """Return the constant extents of axes, and the parameters of `kinds` that are extents of axes."""
    numbers, masked = _extents(pattern, (*params.items(),), kinds)
    return dict(numbers), dict(masked)


@lru_cache(maxsize=1 << 14)
def _extents(
    pattern: Pattern, params: tuple[tuple[str, int], ...], kinds: tuple[ParamKind, ...]
) -> tuple[tuple[tuple[str, int], ...], tuple[tuple[str, str], ...]]:
    known = dict(params)
    given = {p.name for p in pattern.instruction.params if p.kind in kinds and p.dtype is None}
    numbers: dict[str, int] = {}
    masked: dict[str, str] = {}
    for axis in pattern.axes:
        extent = axis.extent.substitute(known)
        if extent.value is not None:
            numbers[axis.name] = extent.value
        elif str(extent) in given:
            masked[axis.name] = str(extent)
    return (*numbers.items(),), (*masked.items(),)


def is_of_layout(constraint: Constraint) -> bool:
    """Return whether a constraint is about strides or alignments."""
    return any("(" in symbol for symbol in constraint.left.symbols | constraint.right.symbols)


def is_allowed(pattern: Pattern, params: Mapping[str, int]) -> bool:
    """Return whether parameters are in their ranges and satisfy every precondition."""
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
        if is_of_layout(c):  # which each place that an operand may lie at meets, or not
            continue
        left, right = c.left.substitute(params).value, c.right.substitute(params).value
        if left is None or right is None or not comparison_holds(left, c.comparison, right):
            return False
    return True


Valid = tuple[Index | None, ...]
"""The number of valid elements along each coordinate of a register, None for all."""


def coordinate_names(count: int) -> tuple[str, ...]:
    """Return the names of an operand's coordinates in expressions about its elements."""
    return tuple(f"%{i}" for i in range(count))


def axis_limits(
    pattern: Pattern,
    params: Params,
    subscripts: tuple[Index, ...],
    shape: tuple[int, ...],
    valid: Valid,
    idle: tuple[int, ...] = (),
) -> tuple[dict[str, int], dict[str, Index]] | None:
    """Return the extents of the instruction's axes, and the values of the parameters that mask it.

    Return None if it would not write all valid elements, or if a parameter chosen at compile time would need
    a run-time value. A masked axis has the extent of its coordinate, and extent 1 along `idle` coordinates.
    """
    known, masked = extents_of(pattern, params, ("scalar", "choose"))
    limits: dict[str, int] = dict(known)
    masks: dict[str, Index] = {}
    for n, (subscript, size, part) in enumerate(zip(subscripts, shape, valid, strict=True)):
        axes = [a for a in (n.name for n in pattern.axes) if a in subscript.symbols]
        held = [a for a in axes if a in masked]
        if held:
            if len(axes) > 1:
                return None
            limits[held[0]] = 1 if n in idle else size
            param, many = masked[held[0]], part if part is not None else Index.of(size)
            if many.value is None and pattern.instruction.param(param).kind == "choose":
                return None
            masks[param] = many
        elif any(a not in known for a in axes):
            return None
        digits = digits_of(subscript, {a: limits[a] for a in axes})
        if digits is None:
            return None
        reach = digits[0][1] * limits[digits[0][0]] if digits else 1
        enough = part.value if part is not None and part.value is not None else size
        if reach < enough:
            return None
    if any(a.name not in limits for a in pattern.axes):
        return None
    return limits, masks


def valid_parts(
    pattern: Pattern, limits: dict[str, int], shape: tuple[int, ...], valid: Valid
) -> dict[Digits, Index | None]:
    """Return the number of valid values of each digit sequence, for each coordinate that is only partly valid."""
    found: dict[Digits, Index | None] = {}
    for subscript, size, part in zip(pattern.target.index, shape, valid, strict=True):
        digits = digits_of(subscript, limits)
        if digits and part is not None and part.value != size:
            found[digits] = part
    return found


def reads_past(
    binding: Binding, limits: dict[str, int], pattern: Pattern, shape: tuple[int, ...], valid: Valid
) -> bool:
    """Return whether a read of memory without a mask would access elements that are not valid."""
    _, masked = extents_of(pattern, {})
    used = {a for i in binding.pattern for a in i.symbols}
    for subscript, size, part in zip(pattern.target.index, shape, valid, strict=True):
        if part is None:
            continue
        axes = {a for a in subscript.symbols if limits.get(a, 1) > 1}
        if not axes & used or any(a in masked for a in axes):
            continue
        digits = digits_of(subscript, limits)
        reach = digits[0][1] * limits[digits[0][0]] if digits else 1
        if part.value != reach and not (part.value == size == reach):
            return True
    return False
