"""How far an instruction reaches: its axes on a register of given shape, of which only a part may matter."""

from __future__ import annotations

from isamap.ir import Index
from isamap.match.instructions import Digits, Pattern, digits_of
from isamap.match.params import Params, extents_of
from isamap.match.unify import Binding

Valid = tuple[Index | None, ...]
"""How many elements along each coordinate of a register matter, None for all."""


def dims(count: int) -> tuple[str, ...]:
    """Names of an operand's coordinates in expressions about its elements."""
    return tuple(f"%{i}" for i in range(count))


def axis_limits(
    pattern: Pattern,
    params: Params,
    subscripts: tuple[Index, ...],
    shape: tuple[int, ...],
    valid: Valid,
) -> tuple[dict[str, int], dict[str, Index]] | None:
    """Extents of the instruction's axes, and values of the scalar parameters that mask it.

    None when it would not write all valid elements. A masked axis has the extent of the coordinate that it
    runs over.
    """
    known, masked = extents_of(pattern, params)
    limits: dict[str, int] = dict(known)
    masks: dict[str, Index] = {}
    for subscript, size, part in zip(subscripts, shape, valid, strict=True):
        axes = [a for a in (n.name for n in pattern.axes) if a in subscript.symbols]
        held = [a for a in axes if a in masked]
        if held:
            if len(axes) > 1:
                return None
            limits[held[0]] = size
            masks[masked[held[0]]] = part if part is not None else Index.of(size)
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
    """How many values of each digit sequence matter: those of a partly valid coordinate, by its digits."""
    found: dict[Digits, Index | None] = {}
    for subscript, size, part in zip(pattern.target.index, shape, valid, strict=True):
        digits = digits_of(subscript, limits)
        if digits and part is not None and part.value != size:
            found[digits] = part
    return found


def reads_past(
    binding: Binding, limits: dict[str, int], pattern: Pattern, shape: tuple[int, ...], valid: Valid
) -> bool:
    """Whether reading memory at full length would touch elements that are not valid."""
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
