"""What an instruction demands of its parameters, and whether any values of them meet it.

instruction part(choose L: 4..8) where L <= 6        L is at most 6
instruction never(choose L: 4..8) where L <= 2       no values at all: it performs nothing
"""

from __future__ import annotations

from functools import lru_cache

from isamap.ir import Index, Instruction, Param
from isamap.match.exact import Comparison, largest_values
from isamap.match.instructions import Pattern


@lru_cache(maxsize=4096)
def largest(instruction: Instruction) -> dict[str, int]:
    """The largest values of the parameters that are integers; those that nothing bounds are left out."""
    found = _largest(instruction)
    return {} if found is None else {name: top for name, top in found.items() if top is not None}


def unit_axes(pattern: Pattern) -> tuple[str, ...]:
    """Axes of one element, whatever the parameters: nothing runs on them."""
    highs = largest(pattern.instruction)
    return tuple(a.name for a in pattern.axes if a.extent.substitute(highs).value == 1)


def can_be_met(instruction: Instruction) -> bool:
    """Whether there are values in the ranges of the parameters that `where` allows.

    Strides and alignments are those of whatever an operand is placed in: they can be had.
    """
    return _largest(instruction) is not None


@lru_cache(maxsize=4096)
def _largest(instruction: Instruction) -> dict[str, int | None] | None:
    params = [p for p in instruction.params if p.dtype is None]
    if not instruction.where and all(_is_plain(p) for p in params):
        return {p.name: p.high.value if p.high is not None else None for p in params}
    names = tuple(p.name for p in params)
    lets = {let.name: let.value for let in instruction.lets}
    known: list[Comparison] = []
    for p in params:
        low = Index.of(1) if p.low is None else p.low
        known.append((Index.of(p.name), ">=", low.substitute(lets)))
        known += [(Index.of(p.name), "<=", p.high.substitute(lets))] if p.high is not None else []
    for c in instruction.where:
        left, right = c.left.substitute(lets), c.right.substitute(lets)
        if left.symbols | right.symbols <= set(names):
            known.append((left, c.comparison, right))
    return largest_values(names, known)


def _is_plain(p: Param) -> bool:
    """Whether a range is two numbers with something between them."""
    low = 1 if p.low is None else p.low.value
    return low is not None and (p.high is None or (p.high.value is not None and low <= p.high.value))
