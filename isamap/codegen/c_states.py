"""The calls that load what an instruction requires of a machine's states, and release it again.

Generated tests and timings of single instructions use them; whole programs get theirs from `lower`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from isamap.codegen.c_issue import Issuer
from isamap.ir import Instruction
from isamap.lower.program import Configure
from isamap.machine import EmitCall, Machine

Fields = Mapping[str, tuple[tuple[str, int | None, int], ...]]


def fields_by_state(settings: Iterable[tuple[str, str, int | None, int]]) -> Fields:
    """`(state, field, index, value)` gathered state by state, in their order."""
    found: dict[str, tuple[tuple[str, int | None, int], ...]] = {}
    for state, name, index, value in settings:
        found[state] = (*found.get(state, ()), (name, index, value))
    return found


def load_states(issuer: Issuer, fields: Fields) -> list[str]:
    """Return the statements that load states."""
    found: list[str] = []
    for state, own in fields.items():
        setter = _performer(issuer.machine, state, release=False)
        if setter is not None:
            found.append(issuer.configuration(Configure(setter, state, own)))
    return found


def release_states(issuer: Issuer, instruction: Instruction) -> list[str]:
    """Return the statements that release what the instruction requires."""
    found: list[str] = []
    for state in dict.fromkeys(r.field.state for r in instruction.requires):
        name = _performer(issuer.machine, state, release=True)
        if name is not None:
            found.append(issuer.configuration(Configure(name, state, (), True)))
    return found


def _performer(machine: Machine, state: str, release: bool) -> str | None:
    """Return the instruction that loads or releases a state by a call; None where the machine has none."""
    for entry in machine.instructions.values():
        own = entry.instruction
        if state in (own.releases_state if release else own.sets_state) and isinstance(entry.emit, EmitCall):
            return entry.name
    return None
