"""Addresses: where an array's elements lie, and whether an instruction's operand in memory lies there too.

`A[@m, %k]` with rows 64 elements apart starts at `64*@m` and goes on in steps of 1.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from isamap.ir import Index, Operand, Read
from isamap.ir.index import ZERO
from isamap.match.bounds import simplify
from isamap.match.params import Params
from isamap.match.unify import Binding

Strides = Mapping[str, tuple[Index, ...]]


@dataclass(frozen=True, slots=True)
class Location:
    """Elements in memory. Units: `offset` and `strides` (per operand axis) in elements."""

    buffer: str
    offset: Index
    strides: tuple[Index, ...]


def locate(
    strides_of: Strides, operand: Operand, binding: Binding, params: Params, limits: dict[str, int]
) -> Location | None:
    """Where an operand in memory starts, how far apart its elements lie; None when its shape does not fit."""
    subject = binding.subject
    if not isinstance(subject, Read) or subject.dtype != operand.dtype or subject.fill is not None:
        return None
    address = address_of(subject, strides_of)
    if address is None:
        return None
    names = [f"%{a}" for a in limits]
    address = simplify(address, {f"%{a}": e for a, e in limits.items()})
    if not address.is_affine_in(names):
        return None
    strides = _operand_strides(operand, params)
    steps: dict[str, Index] = {a: address.coefficient(f"%{a}") or ZERO for a, e in limits.items() if e > 1}
    for position, stride in enumerate(strides):
        if stride is None:
            strides[position] = _solve_stride(binding.pattern, position, steps)
    for axis, step in steps.items():
        total = ZERO
        for index, stride in zip(binding.pattern, strides, strict=True):
            coefficient = index.coefficient(axis)
            if coefficient is None:
                return None
            if coefficient.terms:
                if stride is None:
                    return None
                total = total + coefficient * stride
        if total != step:
            return None
    offset = address.substitute(dict.fromkeys(names, 0))
    return Location(subject.buffer, offset, tuple(s if s is not None else ZERO for s in strides))


def address_of(read: Read, strides: Strides) -> Index | None:
    """The element offset of an access; None for a buffer whose place is not known."""
    return _address(read.index, strides[read.buffer]) if read.buffer in strides else None


@lru_cache(maxsize=1 << 14)
def _address(subscripts: tuple[Index, ...], strides: tuple[Index, ...]) -> Index:
    total = ZERO
    for index, stride in zip(subscripts, strides, strict=True):
        total = total + index * stride
    return total


def _operand_strides(operand: Operand, params: Params) -> list[Index | None]:
    shape = [s.substitute(params) for s in operand.shape]
    if operand.strides is not None:
        return [s.substitute(params) if s is not None else None for s in operand.strides]
    found: list[Index | None] = []
    step = Index.of(1)
    for size in reversed(shape):
        found.insert(0, step)
        step = step * size
    return found


def _solve_stride(subscripts: tuple[Index, ...], position: int, steps: dict[str, Index]) -> Index | None:
    """The stride of one operand axis from an instruction axis that only it uses."""
    for axis, step in steps.items():
        c = subscripts[position].coefficient(axis)
        alone = all(axis not in s.symbols for i, s in enumerate(subscripts) if i != position)
        if c is not None and c.value and alone:
            return ZERO if not step.terms else step.divide_exactly(c)
    return None
