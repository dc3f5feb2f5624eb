"""What is odd in a description that is not wrong: memories that nothing fills, empties or uses; twins.

    weights: registers, and no instruction writes them   ->   every mapping that needs them is refused

A machine with doubts loads and is used; `isamap hw check` tells of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from isamap.ir import Const, Expr
from isamap.ir.printer import print_routine
from isamap.machine.model import Machine, MachineInstruction
from isamap.source import Diagnostic


def doubts(machine: Machine) -> Iterator[Diagnostic]:
    """A warning for each memory of registers or scratchpad that data cannot pass through, and each twin."""
    items = (*machine.instructions.values(), *machine.hints.values())
    files = {name: _file(name, machine) for name in machine.memories}
    for name, memory in machine.memories.items():
        if memory.kind not in ("registers", "scratchpad") or files[name] != name:
            continue
        uses = [
            (i, o.role) for i in items for o in i.instruction.operands if files.get(o.memory or "") == name
        ]
        if not uses:
            yield _doubt(
                machine, name, "memory-unused", "no instruction uses `{}`",
                "describe one, or leave the memory out",
            )  # fmt: skip
            continue
        if not any(role == "out" for _, role in uses):
            yield _doubt(
                machine, name, "memory-unfilled", "no instruction fills `{}`: nothing is ever in it",
                "describe one that loads it, or that sets it to numbers",
            )  # fmt: skip
        elif not any(role != "out" and _goes_elsewhere(item, name, files) for item, role in uses):
            yield _doubt(
                machine, name, "memory-unemptied", "nothing leaves `{}`: no instruction takes it elsewhere",
                "describe one that stores it",
            )  # fmt: skip
    yield from _twins(machine)


def _file(name: str, machine: Machine) -> str:
    """The memory that a view lies on; a memory's own name else."""
    base = machine.memories[name].base
    return name if base is None else _file(base, machine)


def _goes_elsewhere(item: MachineInstruction, name: str, files: dict[str, str]) -> bool:
    return any(o.role != "in" and files.get(o.memory or "") != name for o in item.instruction.operands)


def _doubt(machine: Machine, name: str, code: str, said: str, advice: str) -> Diagnostic:
    span = machine.memories[name].decl.span
    return Diagnostic(code, said.format(name), span, severity="warning", help=advice)


def _twins(machine: Machine) -> Iterator[Diagnostic]:
    """Instructions that do what another one does in the same memories, and take longer: never chosen."""
    known: dict[str, MachineInstruction] = {}
    for item in machine.instructions.values():
        text = print_routine(replace(item.instruction, name="_"))
        other = known.setdefault(text, item)
        times = [e for i in (other, item) for e in (i.cost.interval_ns, i.cost.latency_ns)]
        if other is item or not all(isinstance(e, Const) for e in times):
            continue
        first, second = times[:2], times[2:]
        slower, faster = (item, other) if _at_least(second, first) else (other, item)
        if _at_least(second, first) or _at_least(first, second):
            yield Diagnostic(
                "instruction-twin",
                f"`{slower.name}` does what `{faster.name}` does, and is not faster: it is never chosen",
                slower.span,
                severity="warning",
                help="leave one out, or correct what they mean or cost",
            )


def _at_least(one: list[Expr], other: list[Expr]) -> bool:
    pairs = zip(one, other, strict=True)
    return all(isinstance(a, Const) and isinstance(b, Const) and a.value >= b.value for a, b in pairs)
