"""Emit operand loads as issues. Each register is loaded once for all issues in a block that read it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from isamap.ir import Const, Expr, Index, substitute_expr
from isamap.lower import program as lir
from isamap.match import Location, OperandMove, Present
from isamap.source.records import dataclass, field, replace

Bindings = Mapping[str, Index]
Emitted = TypeVar("Emitted")


@dataclass
class Emitter:
    """A collector of the nodes of straight-line code."""

    names: lir.Names
    nodes: list[lir.Node] = field(default_factory=list[lir.Node])
    known: dict[OperandMove, lir.Value] = field(default_factory=dict[OperandMove, lir.Value])

    def value(
        self, load: OperandMove | Present, bindings: Bindings, leaf: lir.Value | None = None
    ) -> lir.Value:
        """Return the register that an operand load fills here. The load is issued unless the value is present."""
        if isinstance(load, Present):
            assert leaf is not None, "a leaf stands for a register that the caller holds"
            return leaf
        placed = bind_load(load, bindings)
        shared = leaf is None or not _has_leaf(placed)
        if placed in self.known and shared:
            return self.known[placed]
        operands = self._operands(placed, bindings, leaf)
        value = lir.Value(self.names.fresh("v"), placed.memory, placed.dtype, placed.shape, placed.registers)
        self.nodes.append(lir.Declare((value,)))
        ordered = (*operands, (placed.output, lir.RegisterRef(value.name)))
        self.nodes.append(lir.Issue(placed.instruction, ordered, arguments(placed)))
        if shared:
            self.known[placed] = value
        return value

    def reference(self, found: OperandMove | Present | Location, bindings: Bindings) -> lir.OperandRef:
        """Return the operand of an issue: the register that a chain fills here, or the place in memory."""
        if isinstance(found, Location):
            place = _bind_location(found, bindings)
            return lir.MemoryRef(place.buffer, place.offset, place.strides)
        return lir.RegisterRef(self.value(found, bindings).name)

    def where(self, conditions: tuple[lir.Condition, ...], emit: Callable[[], Emitted]) -> Emitted:
        """Return the result of `emit`, whose issues are executed only where all conditions hold."""
        first = len(self.nodes)
        made = emit()
        own = self.nodes[first:]
        if conditions and any(not isinstance(node, lir.Declare) for node in own):
            declared = [node for node in own if isinstance(node, lir.Declare)]
            issues = tuple(node for node in own if not isinstance(node, lir.Declare))
            self.nodes[first:] = [*declared, lir.If(conditions, issues)]
        return made

    def deliver(self, load: OperandMove, bindings: Bindings, leaf: lir.Value | None = None) -> None:
        """Issue an operand store, which writes a value to memory."""
        placed = bind_load(load, bindings)
        assert placed.target is not None
        target = lir.MemoryRef(placed.target.buffer, placed.target.offset, placed.target.strides)
        operands = self._operands(placed, bindings, leaf)
        self.nodes.append(
            lir.Issue(placed.instruction, (*operands, (placed.output, target)), arguments(placed))
        )

    def _operands(
        self, placed: OperandMove, bindings: Bindings, leaf: lir.Value | None
    ) -> tuple[tuple[str, lir.OperandRef], ...]:
        found: list[tuple[str, lir.OperandRef]] = []
        for name, source in placed.inputs:
            if isinstance(source, Location):
                found.append((name, lir.MemoryRef(source.buffer, source.offset, source.strides)))
            else:
                found.append((name, lir.RegisterRef(self.value(source, bindings, leaf).name)))
        return tuple(found)


def _has_leaf(load: OperandMove | Location | Present) -> bool:
    """Return whether a chain starts from a register that the caller fills."""
    if isinstance(load, OperandMove):
        return any(_has_leaf(source) for _, source in load.inputs)
    return isinstance(load, Present)


def bind_load(load: OperandMove, bindings: Bindings) -> OperandMove:
    """Return the operand load with the positions and valid parts of a place substituted."""
    inputs: list[tuple[str, OperandMove | Location | Present]] = []
    for name, source in load.inputs:
        match source:
            case OperandMove():
                inputs.append((name, bind_load(source, bindings)))
            case Location():
                inputs.append((name, _bind_location(source, bindings)))
            case Present():
                inputs.append((name, source))
    params = tuple((n, _bind_argument(v, bindings)) for n, v in load.params)
    target = _bind_location(load.target, bindings) if load.target is not None else None
    return replace(load, inputs=tuple(inputs), params=params, target=target)


def arguments(load: OperandMove) -> tuple[tuple[str, lir.Argument], ...]:
    """Return the parameters of an issue. Known values are numbers."""
    return tuple((n, v.value if isinstance(v, Index) and v.value is not None else v) for n, v in load.params)


def _bind_location(location: Location, bindings: Bindings) -> Location:
    return Location(
        location.buffer,
        location.offset.substitute(bindings),
        tuple(s.substitute(bindings) for s in location.strides),
    )


def _bind_argument(value: Index | Expr, bindings: Bindings) -> Index | Expr:
    if isinstance(value, Index):
        return value.substitute(bindings)
    return value if isinstance(value, Const) else substitute_expr(value, bindings)
