"""Keep in registers the elements that one iteration of an ordered loop stores and the next one loads.

    For("n", trips=N) {                        v0 = load(y[0])
      v0 = load(y[n])                          For("n", trips=N) {
      v1 = load(x[n + 1])              ->        v1 = load(x[n + 1])
      v2 = add(v0, v1)                           v0 = add(v0, v1)
      store(v2, y[n + 1]) }                      store(v0, y[n + 1]) }

Only between instructions that copy a register to memory and back as it is. Where anything else brings what
the iteration before left, it goes on coming out of memory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from isamap.ir import Axis, Index, Read
from isamap.ir.index import ZERO
from isamap.lower.program import Declare, For, Issue, MemoryRef, Node, OperandRef, RegisterRef, Value
from isamap.machine import Machine
from isamap.match import Tile, pattern_of
from isamap.transform import reads


@dataclass(frozen=True, slots=True)
class _Kept:
    """A register that a load fills from what the iteration before has stored of another register."""

    load: Issue
    value: Value
    stored: str


def in_turns(carried: str, body: tuple[Node, ...], tile: Tile, machine: Machine) -> tuple[Node, ...]:
    """Return a block of issues in the ordered loop over the axis that is carried; as it is where none is."""
    axes = [axis for axis in tile.statement.sequence if axis.name == carried]
    return _looped(axes[0], body, machine) if axes else body


def _looped(axis: Axis, body: tuple[Node, ...], machine: Machine) -> tuple[Node, ...]:
    """Return the loop over `axis` around a block of issues, whose kept registers are loaded once in front of it."""
    kept = _kept(axis.name, body, machine)
    if not kept:
        return (For(axis.name, axis.extent, body),)
    names = {k.stored: k.value.name for k in kept}
    loads = {k.load for k in kept}
    gone = {k.value.name for k in kept} | names.keys()
    inside: list[Node] = []
    for node in body:
        match node:
            case Declare(values):
                left = tuple(v for v in values if v.name not in gone)
                inside += [Declare(left)] if left else []
            case Issue(_, operands) if node not in loads:
                inside.append(replace(node, operands=tuple((n, _renamed(r, names)) for n, r in operands)))
            case Issue():
                pass
            case _:
                inside.append(node)
    first = [Declare((k.value,)) for k in kept] + [_at_start(k.load, axis.name) for k in kept]
    return (*first, For(axis.name, axis.extent, tuple(inside)))  # extents are at least 1


def _kept(axis: str, body: tuple[Node, ...], machine: Machine) -> list[_Kept]:
    """Return what stays in registers. All of the body has to be issues, whose order is the order of its effects."""
    if not all(isinstance(node, Declare | Issue) for node in body):
        return []
    issues = [node for node in body if isinstance(node, Issue)]
    values = {v.name: v for node in body if isinstance(node, Declare) for v in node.values}
    later = {axis: Index.of(axis) + 1}
    moves = [moved for issue in issues if (moved := _moved(issue, values, machine, "stores"))]
    stores = {place: stored for stored, place in moves}
    found: dict[str, _Kept] = {}
    for issue in issues:
        moved = _moved(issue, values, machine, "loads")
        if moved is None:
            continue
        loaded, place = moved
        stored = stores.get(replace(place, offset=place.offset.substitute(later)))
        if stored is not None and _can_share(values[loaded], values[stored], issues, machine):
            found.setdefault(stored, _Kept(issue, values[loaded], stored))
    return list(found.values())


def _at_start(load: Issue, axis: str) -> Issue:
    """Return the load of the first iteration. What it copies it takes as it is: no parameter depends on it."""
    first = {axis: ZERO}
    return replace(
        load,
        operands=tuple(
            (n, replace(r, offset=r.offset.substitute(first)) if isinstance(r, MemoryRef) else r)
            for n, r in load.operands
        ),
    )


def _moved(
    issue: Issue, values: Mapping[str, Value], machine: Machine, how: Literal["loads", "stores"]
) -> tuple[str, MemoryRef] | None:
    """Return the register and the place between which an issue copies all elements as they are; None of others."""
    pattern = pattern_of(machine.instructions[issue.instruction].instruction)
    if pattern is None or pattern.statement.assign.op is not None or not isinstance(pattern.value, Read):
        return None
    refs = dict(issue.operands)
    ends = refs.get(pattern.value.buffer), refs[pattern.target.buffer]
    match ends if how == "stores" else ends[::-1]:
        case RegisterRef(name), MemoryRef() as place if name in values:
            known = {n: v for n, v in issue.params if isinstance(v, int | Index)}
            lanes = tuple(a.extent.substitute(known).value for a in pattern.axes)
            order = tuple(Index.of(a.name) for a in pattern.axes)
            whole = pattern.value.index == pattern.target.index == order and lanes == values[name].shape
            return (name, place) if whole and pattern.value.dtype == pattern.target.dtype else None
        case _:
            return None


def _can_share(loaded: Value, stored: Value, issues: Sequence[Issue], machine: Machine) -> bool:
    """Return whether one register may hold both: nothing needs the first one when the second one is there."""
    alike = replace(loaded, name=stored.name) == stored != loaded
    named = machine.memories[loaded.memory].named == "immediate"
    last = max(n for n, issue in enumerate(issues) if _uses(issue, loaded.name))
    made = min(n for n, issue in enumerate(issues) if _uses(issue, stored.name))
    return alike and not named and last <= made and _in_place(issues[made], loaded.name, machine)


def _uses(issue: Issue, value: str) -> bool:
    return any(ref == RegisterRef(value) for _, ref in issue.operands)


def _in_place(issue: Issue, value: str, machine: Machine) -> bool:
    """Return whether an instruction may write to that register: it does not read it, or lane by lane."""
    pattern = pattern_of(machine.instructions[issue.instruction].instruction)
    names = {name for name, ref in issue.operands if ref == RegisterRef(value)}
    found = [] if pattern is None else [r for r in reads(pattern.value) if r.buffer in names]
    return not names or (
        pattern is not None and bool(found) and all(r.index == pattern.target.index for r in found)
    )


def _renamed(ref: OperandRef, names: Mapping[str, str]) -> OperandRef:
    return RegisterRef(names.get(ref.value, ref.value)) if isinstance(ref, RegisterRef) else ref
