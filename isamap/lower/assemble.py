"""A body made into a program: with its tensors, buffers, symbols, and the programs that pack operands."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from isamap.ir import Kernel, Range, product
from isamap.lower.names import Names
from isamap.lower.packed import packing_program, symbols_of
from isamap.lower.program import Buffer, LoweredProgram, Node, arrays_in, tensor_of
from isamap.machine import Machine
from isamap.transform import statements


def names_of(kernel: Kernel) -> Names:
    """The names that a program may give."""
    ordered = {a.name for s in statements(kernel) for a in s.sequence}
    return Names({p.name for p in kernel.params} | {o.name for o in kernel.operands} | ordered)


def temps_of(kernel: Kernel, body: tuple[Node, ...]) -> tuple[Buffer, ...]:
    """The kernel's own arrays that a program touches."""
    touched = arrays_in(body)
    return tuple(
        Buffer(o.name, o.dtype, product(o.shape), "of the kernel")
        for o in kernel.operands
        if o.role == "temp" and o.name in touched
    )


def program_of(
    kernel: Kernel,
    machine: Machine,
    sizes: Mapping[str, int | Range],
    temps: tuple[Buffer, ...],
    names: Names,
    body: tuple[Node, ...],
) -> LoweredProgram:
    """A program with everything that its body needs; `names` have the buffers that it claims."""
    packed = {pack.source: replace(pack.target, role="in") for pack in names.packs}
    return LoweredProgram(
        kernel.name,
        kernel,
        machine.name,
        tuple((n, v) for n, v in sorted(sizes.items()) if isinstance(v, int)),
        symbols_of(kernel),
        tuple(packed.get(o.name) or tensor_of(o) for o in kernel.operands if o.role != "temp"),
        (*temps, *names.buffers),
        body,
        packs=tuple(packing_program(pack, kernel, machine, sizes) for pack in names.packs),
    )
