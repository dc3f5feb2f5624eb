"""Find duplicate instructions: those for which another one does the same in the same memories, not slower."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import count

from isamap.ir import Assign, Const, Expr, Instruction, Stmt
from isamap.ir.printer import print_expr, print_routine
from isamap.machine.model import Machine, MachineInstruction
from isamap.source import Diagnostic
from isamap.source.records import replace

_WORD = re.compile(r"(?<!@ )\b[A-Za-z_][A-Za-z_0-9]*\b")


def find_duplicates(machine: Machine) -> Iterator[Diagnostic]:
    """Yield a warning for each instruction that is never chosen because another one does the same."""
    known: dict[str, MachineInstruction] = {}
    for item in machine.instructions.values():
        other = known.setdefault(_meaning(item.instruction), item)
        if other is item:
            continue
        first, second = ([i.cost.interval_ns, i.cost.latency_ns] for i in (other, item))
        if _at_least(second, first):
            yield _twin(item, other)
        elif _at_least(first, second):
            yield _twin(other, item)


def _twin(slower: MachineInstruction, faster: MachineInstruction) -> Diagnostic:
    return Diagnostic(
        "duplicate-instruction",
        f"`{slower.name}` duplicates `{faster.name}` and is not faster: it is never chosen",
        slower.span,
        severity="warning",
        help="leave one out, or correct its meaning or cost",
    )


def _meaning(instruction: Instruction) -> str:
    """Return an instruction's meaning with canonical names of it, its operands, parameters and loops."""
    own = {o.name for o in instruction.operands} | {p.name for p in instruction.params}
    own |= {let.name for let in instruction.lets} | {a for s in instruction.body for a in _axes(s)}
    numbers = count()
    names: dict[str, str] = {}

    def renamed(found: re.Match[str]) -> str:
        word = found[0]
        return names.setdefault(word, f"_{next(numbers)}") if word in own else word

    return _WORD.sub(renamed, print_routine(replace(instruction, name="_")))


def _axes(statement: Stmt) -> Iterator[str]:
    if isinstance(statement, Assign):
        return
    yield from (axis.name for axis in statement.axes)
    for inner in statement.body:
        yield from _axes(inner)


def _at_least(one: list[Expr], other: list[Expr]) -> bool:
    """Return whether times are at least others: numbers as such, expressions where they are the same."""
    return all(
        a.value >= b.value
        if isinstance(a, Const) and isinstance(b, Const)
        else print_expr(a) == print_expr(b)
        for a, b in zip(one, other, strict=True)
    )
