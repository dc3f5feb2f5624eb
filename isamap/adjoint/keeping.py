"""The kernel forwards, over arrays that are built once, with some of them as further outputs.

What the derivative of a layer needs of each step is there after it, and need not be computed again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from isamap.adjoint.backward import wanted
from isamap.adjoint.names import Names
from isamap.adjoint.single_assignment import Built
from isamap.ir import Assign, Index, Kernel, Operand, Read
from isamap.transform.rewrite import accesses, with_statements
from isamap.transform.statements import Statement


def forward(kernel: Kernel, built: Built, kept: Sequence[str], names: Names) -> Kernel:
    """The kernel `NAME_forward`: the results of `kernel`, and the arrays `kept`."""
    results = [o for o in kernel.operands if o.role in ("out", "inout") and o.name in built.finals]
    ends = {o.name: built.finals[o.name].name for o in results}
    given = wanted(built.statements, {*ends.values(), *kept})
    given += [_handed_out(built, o, names) for o in results if ends[o.name] != o.name]
    used = {r.buffer for s in given for r in accesses(s)}
    interface = [o for o in kernel.operands if o.role != "temp"]
    own = {o.name for o in interface}
    operands = [
        *interface,
        *(replace(o, role="out") for o in built.operands if o.name in kept and o.name not in own),
        *(o for o in built.operands if o.name in used and o.name not in {*kept, *own}),
    ]
    frame = replace(kernel, name=f"{kernel.name}_forward")
    return with_statements(frame, given, operands)


def _handed_out(built: Built, result: Operand, names: Names) -> Statement:
    """Assigns a result, which is the value of another array at the end."""
    place = built.finals[result.name]
    axes = names.axes(result.shape)
    index = tuple(Index.of(a.name) for a in axes)
    value = Read(place.name, place.index(index), result.dtype)
    return Statement(axes, Assign(Read(result.name, index, result.dtype), None, value), result.dtype)
