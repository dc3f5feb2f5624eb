"""Check that a program for several vector lengths equals, at each length, the program compiled for it.

The check shares no code with the join. At one length the program's symbols are numbers, and its conditions
on the length are decided. The remaining nodes must equal the other program, except for names, notes and
shapes of values.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any, cast

from isamap.ir import Index
from isamap.lower import program as lir
from isamap.lower.walk import children, walk, with_children
from isamap.source.records import dataclass, field

UNTOLD = frozenset({"note", "shape", "why", "span"})
Nodes = tuple[lir.Node, ...]


def check_join(joint: lir.LoweredProgram, programs: Sequence[lir.LoweredProgram]) -> str:
    """Return the first difference with its length, or "" if nothing differs."""
    assert joint.lengths is not None
    for n, own in enumerate(programs):
        at = joint.lengths.at(n)
        where = f"{joint.lengths.constant} = {joint.lengths.values[n]}"
        mine, theirs = _Spelled(joint.buffers), _Spelled(own.buffers)
        body = _at_length(joint.body, at, frozenset(at))
        if mine.spelled(body, at) != theirs.spelled(own.body, {}):
            return f"other nodes where {where}"
        for name, size in theirs.sizes.items():
            room = mine.sizes[name].substitute(at)
            known = dict.fromkeys(room.symbols | size.symbols, 1 << 10)
            if room != size and room.evaluate(known) < size.evaluate(known):
                return f"too little room in a buffer where {where}"
    return ""


def _at_length(nodes: Nodes, at: Mapping[str, Index | int], names: frozenset[str]) -> Nodes:
    """Return the nodes for one length, with conditions on the length decided."""
    found: list[lir.Node] = []
    for node in nodes:
        body = _at_length(children(node), at, names)
        if not isinstance(node, lir.If) or not all(_is_decided(c, names) for c in node.conditions):
            found.append(with_children(node, body))
        elif all(
            _holds(left.substitute(at), how, right.substitute(at)) for left, how, right in node.conditions
        ):
            found += body
    return tuple(found)


def _is_decided(condition: tuple[Index, str, Index], names: frozenset[str]) -> bool:
    """Return whether a condition depends on the length alone."""
    left, _, right = condition
    return bool(left.symbols | right.symbols) and left.symbols | right.symbols <= names


def _holds(left: Index, how: str, right: Index) -> bool:
    a, b = left.value, right.value
    assert a is not None
    assert b is not None
    return a == b if how == "==" else a < b if how == "<" else a <= b


@dataclass
class _Spelled:
    """A body in which declarations are renamed to numbers. `sizes` has the sizes of its buffers."""

    buffers: tuple[lir.Buffer, ...]
    numbers: dict[str, str] = field(default_factory=dict[str, str])
    sizes: dict[str, Index] = field(default_factory=dict[str, Index])
    indices: dict[Index, Index] = field(default_factory=dict[Index, Index])

    def spelled(self, nodes: Nodes, at: Mapping[str, Index | int]) -> list[Any]:
        """Return the nodes as nested lists of words and numbers."""
        own = {b.name: b.elements for b in self.buffers}
        declared = frozenset(own) | frozenset(_declared_names(nodes))
        found = [self._renumber_value(node, declared, at) for node in nodes]
        self.sizes = {self.numbers[name]: size for name, size in own.items() if name in self.numbers}
        return found

    def _renumber_value(self, thing: Any, declared: frozenset[str], at: Mapping[str, Index | int]) -> Any:
        match thing:
            case str():
                return self._number(thing) if thing in declared else thing
            case Index():
                if thing not in self.indices:  # its counters are of loops around, which are known
                    bound = thing.substitute(at)
                    own = sorted(bound.symbols & declared)
                    self.indices[thing] = bound.substitute(
                        {name: Index.of(self._number(name)) for name in own}
                    )
                return self.indices[thing]
            case tuple():
                items = cast("tuple[Any, ...]", thing)
                return [self._renumber_value(one, declared, at) for one in items]
            case bool():
                return thing
            case int():  # an index of symbols is a number at one length
                return Index.of(thing)
            case _ if dataclasses.is_dataclass(thing):
                told = _compared_fields(type(thing))
                return [
                    type(thing).__name__,
                    *[self._renumber_value(getattr(thing, name), declared, at) for name in told],
                ]
            case _:
                return thing

    def _number(self, name: str) -> str:
        return self.numbers.setdefault(name, f"#{len(self.numbers)}")


@cache
def _compared_fields(kind: type[Any]) -> tuple[str, ...]:
    """Return the fields of a node that are compared."""
    return tuple(f.name for f in dataclasses.fields(kind) if f.name not in UNTOLD)


def _declared_names(nodes: Nodes) -> Iterator[str]:
    """Yield the names of declared values, counters and work."""
    for node in walk(nodes):
        match node:
            case lir.Declare(values):
                yield from (value.name for value in values)
            case lir.Begin(work):
                yield work
            case lir.For(variable):
                yield variable
            case lir.WorkSlice(nth=nth):
                yield nth
            case lir.Parallel(counters):
                yield from (name for name, _ in counters)
            case (
                lir.Issue()
                | lir.Configure()
                | lir.Fill()
                | lir.Hint()
                | lir.Barrier()
                | lir.ProductGroup()
                | lir.If()
                | lir.Block()
            ):
                pass
