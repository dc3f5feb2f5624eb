"""The innermost block: one issue for each tile, with operands that tiles share loaded once."""

from __future__ import annotations

from isamap.lower.carried import in_turns
from isamap.lower.place import Place, partial_axes, unrolled_places
from isamap.lower.program import Issue, OperandRef, RegisterRef, Value
from isamap.lower.scope import Nest, Nodes, Scope, key_of
from isamap.lower.steps import Issues
from isamap.lower.supplying import supply
from isamap.lower.values import Emitter
from isamap.match import OperandTile, Written

Brought = dict[tuple[object, ...], OperandRef]
"""What operands are known as here, by where their tiles lie and how much of them is valid."""


def issue_tiles(nest: Nest, step: Issues, scope: Scope) -> Nodes:
    """The issues of all tiles under unrolled loops, in the loop whose iterations carry results on."""
    emitter = Emitter(nest.names)
    brought: Brought = {}
    for _, here in unrolled_places(scope.place, step.unrolled):
        if nest.tile.result is not None:
            _assign(nest, nest.tile.result, here, emitter)
        else:
            _accumulate(nest, scope, here, emitter, brought)
    return in_turns(step.carried, tuple(emitter.nodes), nest.tile, nest.suppliers.machine)


def _accumulate(nest: Nest, scope: Scope, place: Place, emitter: Emitter, brought: Brought) -> None:
    tile, acc = nest.tile, nest.tile.accumulator
    assert acc is not None, "what has no result sums"
    partial = tuple(partial_axes(tile.axes, place).items())
    operands: list[tuple[str, OperandRef]] = []
    for operand in tile.inputs:
        key = (operand.name, key_of(operand, place), partial)
        if key not in brought:
            found, bindings, _ = supply(nest, scope, operand, place, emitter)
            brought[key] = emitter.reference(found, bindings)
        operands.append((operand.name, brought[key]))
    total = scope.held[key_of(acc, place)]
    operands.append((acc.name, RegisterRef(total.name) if isinstance(total, Value) else total))
    emitter.nodes.append(Issue(tile.mapping.instruction, tuple(operands), (*tile.params, *tile.scalars)))


def _assign(nest: Nest, result: OperandTile, place: Place, emitter: Emitter) -> None:
    """A statement without accumulation: its value goes to its target."""
    tile = nest.tile
    target, where = tile.target_elements, tile.target_positions
    value, made = tile.value_elements, tile.value_positions
    assert target is not None, "a statement that only assigns has a target"
    assert where is not None, "a statement that only assigns has a target"
    assert value is not None, "a statement that only assigns has a value"
    assert made is not None, "a statement that only assigns has a value"
    nest.results.write(result, Written(target, value, where, made), place, emitter)
