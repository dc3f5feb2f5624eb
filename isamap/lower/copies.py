"""Copies between arrays and buffers as loops, by the widest moves that serve, else one element at a time."""

from __future__ import annotations

from collections.abc import Mapping

from isamap.ir import Expr, Index
from isamap.lower.names import Names
from isamap.lower.program import For, Node
from isamap.lower.scratch import dma_loops
from isamap.lower.values import Emitter
from isamap.match import Copy, Suppliers, Transfer, find_transfer
from isamap.source import Diagnostic, NoMapping
from isamap.transform import reads


def copy_loops(
    copy: Copy, counts: Mapping[str, Index], suppliers: Suppliers, names: Names
) -> tuple[Node, ...]:
    """The loops of a copy. Raises: NoMapping when the machine cannot even move one element."""
    moved = dma_loops(copy, counts, suppliers, names)
    if moved is not None:
        return moved
    found = transfer_of(copy, counts, suppliers)
    order = [c for c in copy.counters if c != found.counter]
    trips = {c: counts[c] for c in order}
    if found.counter is not None:
        trips[found.counter] = counts[found.counter].floordiv(found.width)
    steps = {found.counter: found.width} if found.counter is not None else {}
    return group_loops(found, trips, steps, {}, names)


def transfer_of(copy: Copy, counts: Mapping[str, Index], suppliers: Suppliers) -> Transfer:
    """How a copy moves its elements. Raises: NoMapping when the machine cannot even move one."""
    found = find_transfer(copy, counts, suppliers)
    if found is None:
        dtype = copy.value.dtype
        raise NoMapping(
            Diagnostic(
                "no-move",
                f"{suppliers.machine.name} has no instructions that move one {dtype}: "
                f"{_named(copy.value)} cannot be brought to {_named(copy.target)} one element at a time",
                copy.value.span or copy.target.span,
                help=f"give {suppliers.machine.name} an instruction that loads one {dtype} into a "
                "register and one that stores it from there, or choose sizes that its wider moves divide",
            )
        )
    return found


def _named(e: Expr) -> str:
    """An expression as it is written in the text, or what it is read from where it stands in none."""
    if e.span is not None:
        return f"`{' '.join(e.span.text.split())}`"
    names = dict.fromkeys(r.buffer for r in reads(e))
    return ", ".join(f"`{name}`" for name in names) or "a value"


def group_loops(
    transfer: Transfer,
    trips: Mapping[str, Index],
    steps: Mapping[str, int],
    around: Mapping[str, Index],
    names: Names,
) -> tuple[Node, ...]:
    """Loops that count `trips`, in their order; a counter advances by its step, 1 unless `steps` has it."""
    bindings: dict[str, Index] = dict(around)
    variables: list[tuple[str, Index]] = []
    for counter, count in trips.items():
        if count.value == 1:
            bindings[counter] = Index.of(0)
            continue
        variable = names.fresh(counter.strip("~"))
        variables.append((variable, count))
        bindings[counter] = Index.of(variable) * steps.get(counter, 1)
    emitter = Emitter(names)
    emitter.deliver(transfer.delivery, bindings)
    body: tuple[Node, ...] = tuple(emitter.nodes)
    for variable, count in reversed(variables):
        body = (For(variable, count, body),)
    return body
