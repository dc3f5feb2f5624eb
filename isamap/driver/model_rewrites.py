"""Decide which kernels of models to rewrite. Kernels with temporaries may be computed in blocks."""

from __future__ import annotations

from functools import cache

from isamap.driver.request import BEST_FORM
from isamap.ir.walk import reads
from isamap.source import Source
from isamap.syntax import parse_kernel
from isamap.transform.statements import statements


@cache
def form_of(text: str) -> str | None:
    """Return the variant in which a kernel of a model is compiled. Raises: as `parse_kernel`.

    Kernels that reduce rows several times, such as a norm or a softmax, get the best variant, also between two
    products (attention). Single products stay as written: searching their variants takes longer than it saves.
    """
    reductions = products = 0
    for statement in statements(parse_kernel(Source("kernel", text))):
        summed = {axis.name for axis in statement.reduction_axes}
        if statement.sequence:
            return None
        if statement.assign.op is None or not summed:
            continue
        rows = {r.buffer for r in reads(statement.assign.value) if any(summed & i.symbols for i in r.index)}
        products += len(rows) > 1
        reductions += len(rows) <= 1
    return BEST_FORM if reductions > 1 and products in (0, 2) else None
