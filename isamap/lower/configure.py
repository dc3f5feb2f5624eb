"""The configuration that numbered registers need: loaded before, given back behind what uses it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from isamap.lower.program import (
    Block,
    Configure,
    Declare,
    For,
    If,
    Node,
    Parallel,
    Value,
    has_parallel,
    issued,
)
from isamap.lower.registers import needs_of
from isamap.machine import Machine

Configured = Mapping[tuple[str, str], Mapping[int, int]]
"""Per state and field the value that each register needs."""


def configured(nodes: tuple[Node, ...], machine: Machine) -> tuple[Node, ...]:
    """The nodes between loading each state once and giving it back: nothing in between changes it.

    State belongs to a thread: where parts are dealt to threads, each loads it and gives it back. Unchanged
    where no register that has a number needs any.
    """
    found = _configuration(nodes, machine)
    return _with_states(nodes, machine, found) if found else nodes


def _configuration(nodes: tuple[Node, ...], machine: Machine) -> Configured:
    needs = needs_of(nodes, machine)
    found: dict[tuple[str, str], dict[int, int]] = {}
    for value in _values(nodes):
        if value.register is not None:
            for state, name, wanted in needs.get(value.name, ()):
                found.setdefault((state, name), {})[value.register] = wanted
    return found


def _values(nodes: tuple[Node, ...]) -> Iterator[Value]:
    for node in nodes:
        match node:
            case Declare(values):
                yield from values
            case For(_, _, body) | Parallel(_, body) | If(_, body) | Block(_, body):
                yield from _values(body)
            case _:
                pass


def _with_states(nodes: tuple[Node, ...], machine: Machine, configured: Configured) -> tuple[Node, ...]:
    before: list[Node] = []
    after: list[Node] = []
    for state in sorted({s for s, _ in configured}):
        fields: list[tuple[str, int | None, int]] = [
            (name, number, value)
            for (s, name), registers in sorted(configured.items())
            if s == state
            for number, value in sorted(registers.items())
        ]
        fields += _fixed_fields(machine, state)
        setters = [m.name for m in machine.instructions.values() if state in m.instruction.sets_state]
        releasers = [m.name for m in machine.instructions.values() if state in m.instruction.releases_state]
        assert setters, f"{machine.name} has no instruction that sets {state}"
        before.append(Configure(setters[0], state, tuple(fields)))
        after += [Configure(r, state, release=True) for r in releasers[:1]]
    used = frozenset(s for s, _ in configured)
    return _around(nodes, tuple(before), tuple(after), frozenset(_users(machine, used)))


def _users(machine: Machine, states: frozenset[str]) -> set[str]:
    """The instructions that require something of a state."""
    return {
        m.name
        for m in machine.instructions.values()
        if any(require.field.state in states for require in m.instruction.requires)
    }


def _around(
    nodes: tuple[Node, ...], before: tuple[Node, ...], after: tuple[Node, ...], users: frozenset[str]
) -> tuple[Node, ...]:
    """The nodes with `before` and `after` around what one thread performs without a break."""
    if not has_parallel(nodes):
        return (*before, *nodes, *after)
    found: list[Node] = []
    run: list[Node] = []
    for node in (*nodes, None):
        if node is not None and not has_parallel((node,)):
            run.append(node)
            continue
        found += (*before, *run, *after) if users & set(issued(tuple(run))) else run
        run = []
        match node:
            case Parallel(_, body):
                needed = users & set(issued(body))
                found.append(replace(node, body=(*before, *body, *after)) if needed else node)
            case For(_, _, body) | If(_, body) | Block(_, body):
                found.append(replace(node, body=_around(body, before, after, users)))
            case _:
                pass
    return tuple(found)


def _fixed_fields(machine: Machine, state: str) -> list[tuple[str, int | None, int]]:
    """Fields that every issue requires at one value whatever its operands: a palette."""
    found: dict[tuple[str, int | None], int] = {}
    for item in machine.instructions.values():
        for require in item.instruction.requires:
            ref, value = require.field, require.value.value
            if ref.state == state and not isinstance(ref.index, str) and value is not None:
                found[(ref.field, ref.index)] = value
    return [(f, i, v) for (f, i), v in sorted(found.items(), key=str)]
