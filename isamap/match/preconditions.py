"""What an instruction demands of its parameters, and whether any values of them meet it.

instruction part(choose L: 4..8) where L <= 6        L is at most 6
instruction never(choose L: 4..8) where L <= 2       no values at all: it performs nothing
"""

from __future__ import annotations

from functools import lru_cache

from isamap.ir import Index, Instruction
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
    if not params:
        return _without_params(instruction)
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


def _without_params(instruction: Instruction) -> dict[str, int | None] | None:
    """Nothing to choose: what `where` says of numbers is true or not."""
    closed = [c for c in instruction.where if not c.left.symbols | c.right.symbols]
    return {} if largest_values((), [(c.left, c.comparison, c.right) for c in closed]) is not None else None
