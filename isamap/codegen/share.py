"""How far one element of an input is felt: the largest share of an output that depends on it.

Of a matrix product an element of A is in one row of C, 1/M of it. One of a vector that a matrix is multiplied
with is in all results. What an iteration of an ordered loop takes in, all later ones may depend on.
"""

from __future__ import annotations

from math import prod

from isamap.ir import Kernel
from isamap.ir.pieces import symbols_of
from isamap.ir.sites import Site, find_sites


def shares(kernel: Kernel) -> dict[str, float]:
    """For each input of a kernel whose sizes are bound, the share of an output that one element reaches."""
    places = find_sites(kernel)
    outputs = [o.name for o in kernel.operands if o.role in ("out", "inout")]
    found: dict[str, float] = {}
    for operand in kernel.operands:
        if operand.role in ("in", "inout"):
            known = {operand.name: 1 / prod(extent.evaluate({}) for extent in operand.shape)}
            while sum(_passes_on(site, known) for site in places):
                pass
            found[operand.name] = max(known.get(name, 0.0) for name in outputs)
    return found


def _passes_on(site: Site, known: dict[str, float]) -> bool:
    """Whether an assignment spreads what it reads further than was known; then it is known."""
    assign, extents = site.assign, {name: int(n.evaluate({})) for name, n in site.extents.items()}
    kept = symbols_of(assign.target) - {a.name for a in site.axes if a.ordered}
    by_buffer: dict[str, float] = {}
    for read in dict.fromkeys(site.reads):
        for_one_element = prod(extents[a] for a in (symbols_of(read) - kept) & extents.keys())
        felt = known.get(read.buffer, 0.0) * for_one_element
        by_buffer[read.buffer] = by_buffer.get(read.buffer, 0.0) + felt
    # Of one array other elements are read at each subscript; of several, what goes back to the same elements.
    share = min(max(by_buffer.values(), default=0.0), 1.0)
    if share <= 1.001 * known.get(assign.target.buffer, 0.0):
        return False
    known[assign.target.buffer] = share
    return True
