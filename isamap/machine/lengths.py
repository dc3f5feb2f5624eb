"""Machines whose registers are as long as only the hardware knows, at one length.

    machine Q: 2..16 = 4;                       Q is 4 unless a word says another value
    isamap compile gemm_f32 --hw rvv.yaml@Q=8   code for 512 bits

Everything that is computed for a kernel is for one length: loops, layouts, costs. A machine without such
constants is what it was.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from typing import assert_never

from isamap.ir import F64, Call, Cast, Const, Expr, Index, IndexValue, Param, Read, Scalar
from isamap.ir.substitute import substitute_routine
from isamap.machine.model import (
    Emission,
    EmitArg,
    EmitCall,
    EmitNothing,
    EmitSemantics,
    EmitSteps,
    Machine,
    MachineInstruction,
    Memory,
)
from isamap.source import Diagnostic, UsageProblem


@lru_cache(maxsize=32)
def at_one_length(machine: Machine) -> Machine:
    """The machine with its constants at the values that they typically have."""
    return at_lengths(machine, {}) if machine.constants else machine


def at_lengths(machine: Machine, given: Mapping[str, int]) -> Machine:
    """The machine with constants at given values, and the others where they typically are.

    Raises: UsageProblem for a constant that it does not have, or a value out of its range.
    """
    values = {p.name: _value(p, given, machine) for p in machine.constants}
    for name in given.keys() - values.keys():
        known = ", ".join(values) or "none"
        said = f"{machine.name} has no constant called `{name}`"
        raise UsageProblem(Diagnostic("option-value", said, notes=(f"its constants: {known}",)))
    indices: dict[str, Index | int] = dict(values)
    lengths = tuple(replace(length, value=values.get(length.constant)) for length in machine.target.lengths)
    return replace(
        machine,
        constants=(),
        target=replace(machine.target, lengths=lengths),
        memories={name: _memory(memory, indices) for name, memory in machine.memories.items()},
        instructions={n: _instruction(e, indices, values) for n, e in machine.instructions.items()},
        hints={n: _instruction(e, indices, values) for n, e in machine.hints.items()},
    )


def _value(p: Param, given: Mapping[str, int], machine: Machine) -> int:
    low = p.low.value if p.low is not None else None
    high = p.high.value if p.high is not None else None
    value = given.get(p.name, p.default if p.default is not None else 1 if low is None else low)
    if (low is not None and value < low) or (high is not None and value > high):
        ends = ("" if end is None else str(end) for end in (low, high))
        said = f"`{p.name}` of {machine.name} is {'..'.join(ends)}, not {value}"
        raise UsageProblem(Diagnostic("option-value", said, help="give a value of this range behind `@`"))
    return value


def _memory(memory: Memory, values: Mapping[str, Index | int]) -> Memory:
    attributes = tuple(
        (name, value.substitute(values) if isinstance(value, Index) else value)
        for name, value in memory.decl.attributes
    )
    return replace(memory, decl=replace(memory.decl, attributes=attributes))


def _instruction(
    entry: MachineInstruction, indices: Mapping[str, Index | int], values: Mapping[str, int]
) -> MachineInstruction:
    cost = entry.cost
    fixed = replace(
        cost, interval_ns=_fixed(cost.interval_ns, values), latency_ns=_fixed(cost.latency_ns, values)
    )
    return replace(
        entry,
        instruction=substitute_routine(entry.instruction, indices),
        cost=fixed,
        emit=_emitted(entry.emit, values),
    )


def _emitted(emit: Emission, values: Mapping[str, int]) -> Emission:
    """Calls with constants of the machine as numbers."""
    match emit:
        case EmitCall():
            return _call(emit, values)
        case EmitSteps(steps):
            return replace(emit, steps=tuple(replace(s, call=_call(s.call, values)) for s in steps))
        case EmitSemantics() | EmitNothing():
            return emit
        case _ as unreachable:
            assert_never(unreachable)


def _call(call: EmitCall, values: Mapping[str, int]) -> EmitCall:
    return replace(call, args=tuple(_passed(arg, values) for arg in call.args))


def _passed(arg: EmitArg | EmitCall, values: Mapping[str, int]) -> EmitArg | EmitCall:
    if isinstance(arg, EmitCall):
        return _call(arg, values)
    if arg.kind != "constant":
        return arg
    return replace(arg, kind="literal", name=str(arg.factor * values[arg.name]), factor=1)


def _fixed(cost: Expr, values: Mapping[str, int]) -> Expr:
    """A cost with constants of the machine replaced."""
    match cost:
        case Scalar(name):
            return Const(float(values[name]), F64) if name in values else cost
        case Call(args=args):
            return replace(cost, args=tuple(_fixed(arg, values) for arg in args))
        case Cast(value):
            return replace(cost, value=_fixed(value, values))
        case IndexValue(index):
            return replace(cost, index=index.substitute(values))
        case Const() | Read():
            return cost
        case _ as unreachable:
            assert_never(unreachable)
