"""Which kernels of models are worth a rewrite: those that pass over temporaries may do so in blocks."""

from __future__ import annotations

from functools import cache

from isamap.source import Source
from isamap.syntax import parse_kernel


@cache
def has_temporaries(text: str) -> bool:
    """Whether a kernel keeps values between statements, as a softmax does. Raises: as `parse_kernel`."""
    return any(o.role == "temp" for o in parse_kernel(Source("kernel", text)).operands)
