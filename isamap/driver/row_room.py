"""Pad the rows of a kernel's own arrays if they would share sets of a cache.

f32[9, 9, 512], an image with its border      f32[9, 9, 528], of which the last 16 are not touched
"""

from __future__ import annotations

from isamap.ir import Kernel, Operand
from isamap.machine import Machine
from isamap.machine.cache_sets import uncrowding_bytes
from isamap.source.records import replace


def with_row_room(canonical: Kernel, kernel: Kernel, machine: Machine) -> Kernel:
    """Return the canonical form of a kernel, with rows apart of the arrays that it has and the kernel has not.

    Of open sizes there are several programs, which have their arrays in common: those stay as they are.
    """
    if any(size.value is None for o in canonical.operands for size in o.shape):
        return canonical
    own = {o.name for o in kernel.operands}
    operands = tuple(o if o.name in own else _with_room(o, machine) for o in canonical.operands)
    return replace(canonical, operands=operands)


def _with_room(o: Operand, machine: Machine) -> Operand:
    if len(o.shape) < 2 or o.dtype.bits % 8:
        return o
    size = o.dtype.bits // 8
    more = uncrowding_bytes((o.shape[-1].value or 0) * size, machine)
    return replace(o, shape=(*o.shape[:-1], o.shape[-1] + more // size)) if more else o
