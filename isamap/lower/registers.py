"""Allocate register numbers for values in registers that the description names explicitly.

A value lives from its declaration to the last issue that names it in its block (or inside a block within).
Two values may share a register when their lives do not meet and they need the same configuration.

The configuration that numbered registers need is loaded before their uses and released after. All nests of a
program share one if their registers suffice; else each has its own:

    configure; nest 0; seq t { nest 1; … } release    ->    nest 0; seq t { configure; nest 1; release; … }
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from isamap.ir import Index
from isamap.lower.program import Block, Configure, Declare, For, If, Issue, Node, Parallel, RegisterRef, Value
from isamap.lower.walk import children, has_parallel, issued_names, walk, with_children
from isamap.machine import Machine
from isamap.source import Infeasible, dataclass, field, replace

Need = tuple[tuple[str, str, int], ...]  # (state, field, value) that a register's configuration must have


def number_registers(nodes: tuple[Node, ...], machine: Machine) -> tuple[Node, ...]:
    """Return the nodes with registers numbered, or unchanged if the compiler names no registers.

    Raises: Infeasible if the values alive at one point are more than the registers.
    """
    named = {n for n, m in machine.memories.items() if m.named == "immediate"}

    def number(part: tuple[Node, ...]) -> tuple[Node, ...]:
        return _Allocator(machine, needs_of(part, machine)).block(part, named)

    try:
        return number(nodes)
    except Infeasible:
        return _by_nest(nodes, number)


def _by_nest(
    nodes: tuple[Node, ...], change: Callable[[tuple[Node, ...]], tuple[Node, ...]]
) -> tuple[Node, ...]:
    """Return the nodes with `change` applied to each nest, and to each copy in front of ordered loops."""
    found: list[Node] = []
    for node in nodes:
        match node:
            case For(_, _, body):
                found.append(replace(node, body=_by_nest(body, change)))
            case Block(note, body):
                try:
                    found.append(replace(node, body=change(body)))
                except Infeasible as error:
                    (said,) = error.diagnostics
                    raise Infeasible(replace(said, notes=(f"in the nest of `{note}`",))) from None
            case _:
                found.append(node)
    return tuple(found)


@dataclass
class _Allocator:
    machine: Machine
    needs: Mapping[str, Need]
    purpose: dict[tuple[str, int], Need] = field(default_factory=dict[tuple[str, int], Need])

    def block(
        self, nodes: tuple[Node, ...], named: set[str], busy: frozenset[tuple[str, int]] = frozenset()
    ) -> tuple[Node, ...]:
        last: dict[str, int] = {}
        for i, node in enumerate(nodes):
            for name in _mentions(node):
                last[name] = i
        alive: dict[str, set[tuple[str, int]]] = {}
        out: list[Node] = []
        for i, node in enumerate(nodes):
            taken = busy.union(*alive.values())
            if isinstance(node, Declare):
                fresh: list[Value] = []
                for declared in node.values:
                    value = declared
                    if value.memory in named:
                        first = self._pick(value, taken)
                        alive[value.name] = _file(value, first)
                        taken |= alive[value.name]
                        value = replace(value, register=first)
                    fresh.append(value)
                out.append(Declare(tuple(fresh)))
            else:
                out.append(with_children(node, self.block(children(node), named, taken)))
            alive = {n: r for n, r in alive.items() if last.get(n, -1) > i}
        return tuple(out)

    def _pick(self, value: Value, taken: frozenset[tuple[str, int]] | set[tuple[str, int]]) -> int:
        need = self.needs.get(value.name, ())
        count = self.machine.memories[value.memory].count or 0
        places = {n: _file(value, n) for n in range(count - value.registers + 1)}
        fitting = [
            n
            for n, place in places.items()
            if not place & taken and all(self.purpose.get(one, need) == need for one in place)
        ]
        fitting.sort(key=lambda n: not places[n] <= self.purpose.keys())
        if not fitting:
            raise Infeasible.of(
                "out-of-registers",
                f"more values are alive at once than `{value.memory}` has registers ({count})",
                help="unroll fewer tiles of that nest: `--fix nest0.unroll.m=1` for axis m of nest 0",
            )
        number = fitting[0]
        self.purpose |= dict.fromkeys(places[number], need)
        return number


def _file(value: Value, first: int) -> set[tuple[str, int]]:
    """Return the registers of a value, given the number of the first one."""
    return {(value.memory, number) for number in range(first, first + value.registers)}


def _mentions(node: Node) -> set[str]:
    """Return the names of values used in a node or inside it."""
    issues = (inner for inner in walk((node,)) if isinstance(inner, Issue))
    return {ref.value for issue in issues for _, ref in issue.operands if isinstance(ref, RegisterRef)}


def needs_of(nodes: tuple[Node, ...], machine: Machine) -> dict[str, Need]:
    """Return the configuration that issues require of the registers of each value.

    Only states that are loaded as a whole count. A field that is set by itself may change while a value lives.
    """
    found: dict[str, set[tuple[str, str, int]]] = {}
    loaded = {state for m in machine.instructions.values() for state in m.instruction.sets_state}
    for node in walk(nodes):
        if not isinstance(node, Issue):
            continue
        numbers = {n: v for n, v in node.params if isinstance(v, int | Index)}
        registers = {n: r.value for n, r in node.operands if isinstance(r, RegisterRef)}
        for require in machine.instructions[node.instruction].instruction.requires:
            ref, required = require.field, require.value.substitute(numbers).value
            value = registers.get(ref.index) if isinstance(ref.index, str) else None
            if value is not None and required is not None and ref.state in loaded:
                found.setdefault(value, set()).add((ref.state, ref.field, required))
    return {name: tuple(sorted(need)) for name, need in found.items()}


Configured = Mapping[tuple[str, str], Mapping[int, int]]
"""Per state and field the value that each register needs."""


def configured_span(nodes: tuple[Node, ...], machine: Machine) -> tuple[Node, ...]:
    """Return the nodes between the load and the release of each state. No node changes it in between.

    State belongs to a thread: each parallel part loads it and releases it. The nodes are unchanged if no
    numbered register needs a state.
    """
    found = _configuration(nodes, machine)
    if found is None:
        return _by_nest(nodes, lambda part: configured_span(part, machine))
    return _with_states(nodes, machine, found) if found else nodes


def _configuration(nodes: tuple[Node, ...], machine: Machine) -> Configured | None:
    """Return the configuration that all numbered registers need, or None if two nests need different ones."""
    needs = needs_of(nodes, machine)
    found: dict[tuple[str, str], dict[int, int]] = {}
    declared = (node for node in walk(nodes) if isinstance(node, Declare))
    for value in (value for node in declared for value in node.values):
        if value.register is not None:
            for state, name, required in needs.get(value.name, ()):
                if found.setdefault((state, name), {}).setdefault(value.register, required) != required:
                    return None
    return found


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
    return _surround_parts(nodes, tuple(before), tuple(after), frozenset(_users(machine, used)))


def _users(machine: Machine, states: frozenset[str]) -> set[str]:
    """Return the instructions that require fields of these states."""
    return {
        m.name
        for m in machine.instructions.values()
        if any(require.field.state in states for require in m.instruction.requires)
    }


def _surround_parts(
    nodes: tuple[Node, ...], before: tuple[Node, ...], after: tuple[Node, ...], users: frozenset[str]
) -> tuple[Node, ...]:
    """Return the nodes with `before` and `after` around each part that one thread executes."""
    if not has_parallel(nodes):
        return (*before, *nodes, *after)
    found: list[Node] = []
    run: list[Node] = []
    for node in (*nodes, None):
        if node is not None and not has_parallel((node,)):
            run.append(node)
            continue
        found += (*before, *run, *after) if users & set(issued_names(tuple(run))) else run
        run = []
        match node:
            case Parallel(_, body):
                needed = users & set(issued_names(body))
                found.append(replace(node, body=(*before, *body, *after)) if needed else node)
            case For(_, _, body) | If(_, body) | Block(_, body):
                found.append(replace(node, body=_surround_parts(body, before, after, users)))
            case _:
                pass
    return tuple(found)


def _fixed_fields(machine: Machine, state: str) -> list[tuple[str, int | None, int]]:
    """Return the fields for which every issue requires the same value, such as those of a palette."""
    found: dict[tuple[str, int | None], int] = {}
    for item in machine.instructions.values():
        for require in item.instruction.requires:
            ref, value = require.field, require.value.value
            if ref.state == state and not isinstance(ref.index, str) and value is not None:
                found[(ref.field, ref.index)] = value
    return [(f, i, v) for (f, i), v in sorted(found.items(), key=str)]
