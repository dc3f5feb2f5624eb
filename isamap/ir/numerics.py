"""The words in which an instruction says how its floating-point results differ from those of its loops.

The loops of an instruction mean: every operation rounds to nearest even, sums run in the order of the text,
subnormal numbers are numbers. Hardware that does otherwise says so: `numerics reordered, flush_inputs;`.
Kernels that are not `strict` allow all of them; those that are allow `one_nan` alone, as no comparison tells
one NaN from another. The words also widen what a check against the hardware accepts. The interpreter knows
none of them.
"""

from __future__ import annotations

from collections.abc import Iterable

NUMERICS: dict[str, str] = {
    "flush_inputs": "subnormal inputs count as zero",
    "flush_results": "subnormal results become zero",
    "reordered": "sums run in an order of the hardware's own",
    "unrounded": "products and partial sums keep more digits than their type; the result is rounded",
    "round_to_odd": "sums are rounded to odd instead of nearest even",
    "truncated": "sums are cut off instead of rounded to nearest even",
    "one_nan": "every NaN that is produced is the default NaN",
}
"""Each word and what it means."""

REORDERING = frozenset(("reordered", "unrounded", "round_to_odd", "truncated"))
"""The words that say how sums differ: in their order, or in their rounding."""
FLUSHING = frozenset(("flush_inputs", "flush_results"))
"""The words that say how subnormal numbers are lost."""


def strict_forbids(words: Iterable[str]) -> tuple[str, ...]:
    """Those of an instruction's words that a `strict` kernel does not allow, in alphabetical order."""
    return tuple(sorted((REORDERING | FLUSHING).intersection(words)))
