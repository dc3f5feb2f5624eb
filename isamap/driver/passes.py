"""Which kernels of models are worth a rewrite: those that pass over temporaries may do so in blocks."""

from __future__ import annotations

from functools import cache

from isamap.ir import Loop
from isamap.source import Source
from isamap.syntax import parse_kernel


@cache
def has_temporaries(text: str) -> bool:
    """Whether a kernel keeps values between statements, as a softmax does. Raises: as `parse_kernel`.

    One that goes step by step does not count: what a step needs of the one before leaves no blocks to choose.
    """
    kernel = parse_kernel(Source("kernel", text))
    if any(isinstance(statement, Loop) and statement.ordered for statement in kernel.body):
        return False
    return any(o.role == "temp" for o in kernel.operands)
