"""What moving data takes at least, whatever an instruction's cost states: over a link, and through banks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import reduce
from operator import mul

from isamap.ir import F64, Call, Const, Expr, Index, IndexValue, Instruction
from isamap.machine.banks import Banks
from isamap.machine.links import carried
from isamap.machine.model import Cost, Link


def over_link(cost: Cost, instruction: Instruction, links: Mapping[tuple[str, str], Link]) -> Cost:
    """The cost of an instruction that moves data between two memories: never less than their link takes.

    A link of 16 bytes per ns takes 64 ns for an i8[32, 32], whatever the instruction states. Of what is
    converted on the way, the bytes in the farther memory count.
    """
    inputs = [o for o in instruction.operands if o.role != "out"]
    outputs = [o for o in instruction.operands if o.role != "in"]
    if len(inputs) != 1 or len(outputs) != 1:
        return cost
    ends = {o.memory: o for o in (*inputs, *outputs) if o.memory is not None}
    for (farther, nearer), link in links.items():
        if farther in ends and nearer in ends:
            moved = ends[farther]
            amount, unit = carried(link, moved, moved.shape)
            taken = _per(amount, 8 / unit * link.bandwidth_bytes_per_ns)
            return replace(
                cost,
                interval_ns=_at_least(cost.interval_ns, taken),
                latency_ns=_at_least(cost.latency_ns, taken),
            )
    return cost


def through_banks(cost: Cost, instruction: Instruction, banks: Iterable[Banks]) -> Cost:
    """The cost of an instruction: never less than the banks take that its dense operands lie in."""
    rates = {one.memory: one.moved_per_ns for one in banks}
    for operand in instruction.operands:
        if operand.memory in rates:
            elements = reduce(mul, operand.shape, Index.of(1))
            times = 2 if operand.role == "inout" else 1  # it is read and written
            taken = _per(elements * operand.dtype.bits * times, 8 * rates[operand.memory])
            interval_ns = _at_least(cost.interval_ns, taken)
            cost = Cost(cost.unit, interval_ns, _at_least(cost.latency_ns, taken), cost.also)
    return cost


def _per(index: Index, divisor: float) -> Expr:
    if index.value is not None:
        return Const(index.value / divisor, F64)
    return Call("div", (IndexValue(index, F64), Const(divisor, F64)), F64)


def _at_least(stated: Expr, least: Expr) -> Expr:
    if isinstance(stated, Const) and isinstance(least, Const):
        return stated if stated.value >= least.value else least
    return Call("max", (stated, least), F64)
