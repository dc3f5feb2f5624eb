"""What a masked load takes: every line that its register spans, whatever its mask leaves out.

A register of 64 bytes of which a mask takes 32 comes from as many lines as one that is full. Measured on
Zen 5, columns of 128 bytes out of memory read by halves of registers: 13 ns a row with masks, 6.8 without;
a product with four rows in bf16 took 2.2 times as long.
"""

from __future__ import annotations

from collections.abc import Mapping

from isamap.ir import Index
from isamap.match.instructions import Pattern


def spanned(pattern: Pattern, masks: Mapping[str, Index]) -> float:
    """How many times what it wants a load spans, at least 1; 1 where only the run knows its mask."""
    factor = 1.0
    for param in pattern.instruction.params:
        taken = masks[param.name].value if param.name in masks else None
        whole = param.high.value if param.high else None
        if taken and whole and taken < whole:
            factor *= whole / taken
    return factor
