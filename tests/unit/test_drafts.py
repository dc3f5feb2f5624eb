"""What all drafts of machines have in common: loading, sources, printing."""

from __future__ import annotations

import pytest
from unit.drafts import MMA, SYSTOLIC

from isamap.hw_specs import shipped_drafts
from isamap.ir import ConstantDecl, Instruction, Module, print_routine
from isamap.machine import EmitNothing, load_machine
from isamap.source import Source
from isamap.syntax import parse_module


def test_the_drafts_are_shipped() -> None:
    assert set(shipped_drafts()) == {SYSTOLIC, MMA, "drafts/hexagon-hvx"}


@pytest.mark.parametrize("name", [SYSTOLIC, MMA])
def test_a_draft_says_where_its_numbers_come_from_and_emits_nothing(name: str) -> None:
    machine = load_machine(name)
    assert all(isinstance(i.emit, EmitNothing) for i in machine.instructions.values())
    assert {i.source for i in machine.instructions.values()} <= machine.sources.keys()
    memories = [m for m in machine.memories.values() if m.base is None]
    assert all(m.source in machine.sources for m in memories)


@pytest.mark.parametrize("name", [SYSTOLIC, MMA])
def test_the_printed_instructions_of_a_draft_parse_to_themselves(name: str) -> None:
    machine = load_machine(name)
    module = Module(tuple(i.instruction for i in machine.instructions.values()))
    known = Module(
        (
            *(ConstantDecl(p) for p in machine.constants),
            *(m.decl for m in machine.memories.values()),
            *(s.decl for s in machine.states.values()),
        )
    )
    text = "\n".join(print_routine(i) for i in module.declarations if isinstance(i, Instruction))
    assert parse_module(Source("printed", text), known) == module
