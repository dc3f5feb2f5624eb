"""Find elements that one iteration of an ordered loop writes and the next reads, and keep them in registers.

    for m in M { seq n in N - 1 { y[m, n + 1] = y[m, n] + x[m, n + 1]; } }

      for m by 4 {          the ordered loop runs inside the loops over rows: a block of rows at a time
        carry n;            goes along n, and y[m, n] is still where the iteration before has computed it
        unroll m by 1 { issue; }
      }

That is legal where the statement is alone in the ordered loop, writes each element once, and reads of its own
array what the iteration before wrote: then rows do not meet. It pays where iterations go along rows of the
array; where they go from row to row, the loops over the row's elements stay inside.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from isamap.formulate.load_costs import store_of
from isamap.ir import Axis, Index, Kernel, Read, typical_value
from isamap.ir.index import ONE
from isamap.machine import Machine, cost_params, cost_value
from isamap.match import Location, MoveSearch, OperandMove, Tile
from isamap.plan.problem import Carried, NestOption
from isamap.source import added
from isamap.source.records import replace
from isamap.transform import Statement, reads, statements
from isamap.transform.margins import tells_apart

# So many iterations back recurrences are looked for: what the last one left stays in registers.
FARTHEST = 4


def with_carried(
    option: NestOption, tile: Tile, search: MoveSearch, kernel: Kernel, profile: Mapping[str, int]
) -> NestOption:
    """Return the option of a tile that is only written, with what it carries along an ordered loop, and without what
    it takes to bring that; unchanged where nothing can be carried.
    """
    axis, store = carried_axis(tile.statement, kernel), store_of(tile, search)
    if axis is None or store is None or store.target is None:
        return option
    if store.target.offset.coefficient(axis.name) not in (ONE, -ONE):  # iterations go from row to row
        return option
    loads = [s for s in _issues(store) if _reads_before(s, store.target, axis.name)]
    if not loads:
        return option
    saved_ns = added({id(s): s.cost_ns for s in loads}.values())
    chain_ns = _chain_ns(store, store, axis.name, search.machine) or 0.0
    pitches = tuple(_pitches(tile.statement, axis.name, kernel, profile))
    operands = tuple(
        replace(o, direct_ns=max(0.0, o.direct_ns - saved_ns)) if o.is_accumulator and o.direct_ns else o
        for o in option.operands
    )
    iterations = typical_value(axis.extent, profile) or 1
    return replace(option, operands=operands, carried=Carried(axis.name, iterations, chain_ns, pitches))


def carried_axis(statement: Statement, kernel: Kernel) -> Axis | None:
    """Return the innermost ordered axis around a statement, where its iterations may go on by themselves inside the
    other loops, and read what the iteration before wrote.
    """
    target, operand = statement.assign.target, kernel.operand(statement.assign.target.buffer)
    if not statement.sequence or statement.assign.op is not None or statement.assign.guard is not None:
        return None
    if operand.accumulate not in (None, operand.dtype):
        return None  # rounded when the loops around end
    loop, axis = statement.ordered_loops[-1], statement.sequence[-1]
    if sum(loop in s.ordered_loops for s in statements(kernel)) > 1:
        return None
    if not tells_apart(target.index, {a.name: a.extent for a in (*statement.axes, axis)}):
        return None
    own = [r for r in reads(statement.assign.value) if r.buffer == target.buffer]
    return axis if own and all(_is_written_before(r, target, axis.name) for r in own) else None


def _is_written_before(read: Read, target: Read, axis: str) -> bool:
    """Return whether a read is what one of the last iterations wrote."""
    later = ({axis: Index.of(axis) + iterations} for iterations in range(1, FARTHEST + 1))
    return any(tuple(i.substitute(moved) for i in read.index) == target.index for moved in later)


def _issues(load: OperandMove) -> Iterator[OperandMove]:
    yield load
    for _, source in load.inputs:
        if isinstance(source, OperandMove):
            yield from _issues(source)


def _reads_before(load: OperandMove, target: Location, axis: str) -> bool:
    """Return whether an instruction brings what the iteration before has written to the same lanes."""
    places = [source for _, source in load.inputs if isinstance(source, Location)]
    later = {axis: Index.of(axis) + 1}
    return len(places) == len(load.inputs) == 1 and all(
        p.buffer == target.buffer
        and p.strides == target.strides
        and p.offset.substitute(later) == target.offset
        for p in places
    )


def _chain_ns(load: OperandMove, store: OperandMove, axis: str, machine: Machine) -> float | None:
    """Latencies from what is carried to the register that is stored; None where nothing of it comes in."""
    assert store.target is not None
    if _reads_before(load, store.target, axis):
        return 0.0
    inputs = [s for _, s in load.inputs if isinstance(s, OperandMove)]
    found = [c for s in inputs if (c := _chain_ns(s, store, axis, machine)) is not None]
    if not found:
        return None
    if load is store:
        return max(found)
    item = machine.instructions[load.instruction]
    known = {n: v.value for n, v in load.params if isinstance(v, Index) and v.value is not None}
    return max(found) + cost_value(item.cost.latency_ns, cost_params(item, machine, known))


def _pitches(statement: Statement, axis: str, kernel: Kernel, profile: Mapping[str, int]) -> Iterator[int]:
    """Yield how far apart the rows lie of each array that is gone through along its rows. Units: bytes."""
    touched = (statement.assign.target, *reads(statement.assign.value))
    for buffer in sorted({r.buffer for r in touched if r.index and axis in r.index[-1].symbols}):
        operand = kernel.operand(buffer)
        row = operand.shape[-1].substitute(profile).value
        if row and len(operand.shape) > 1:
            yield row * operand.dtype.size_bytes
