"""Kernel × machine → every mapping of every statement."""

from __future__ import annotations

from collections.abc import Iterator

from isamap.ir import Kernel
from isamap.machine import Machine
from isamap.match.enumerate import find_in_statement
from isamap.match.instructions import pattern_of
from isamap.match.mapping import CountMode, Mapping
from isamap.transform import Statement, statements


def find_mappings(kernel: Kernel, machine: Machine, mode: CountMode = "complete") -> tuple[Mapping, ...]:
    """All mappings, by statement, then in the machine's order of instructions."""
    return tuple(
        m
        for number, statement in enumerate(statements(kernel))
        for m in statement_mappings(statement, number, machine, mode, kernel)
    )


def statement_mappings(
    statement: Statement,
    number: int,
    machine: Machine,
    mode: CountMode = "complete",
    kernel: Kernel | None = None,
    instruction: str | None = None,
) -> Iterator[Mapping]:
    """All mappings of a statement, or those of one instruction; `kernel` says what is known of its sizes."""
    for item in machine.instructions.values():
        if instruction not in (None, item.name):
            continue
        pattern = pattern_of(item.instruction)
        if pattern is not None:
            yield from find_in_statement(pattern, statement, number, mode, kernel)
