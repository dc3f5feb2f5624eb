"""Fix the vector length of a machine whose register size only the hardware knows.

    machine Q: 2..16 = 4;                       Q is 4 unless `--hw` gives another value
    isamap compile gemm_f32 --hw rvv.yaml@Q=8   code for 512 bits
    isamap compile gemm_f32 --hw rvv.yaml@Q=any code for each length that the processor may have

Loops, layouts and costs of a kernel are computed for one length. A program for several lengths is joined from
those for each length (`isamap.lower.length_join`). Other machines are unchanged.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import assert_never

from isamap.ir import F64, Call, Cast, Const, Expr, Index, IndexValue, Param, Read, Scalar
from isamap.ir.substitute import substitute_routine
from isamap.machine import emit_nodes
from isamap.machine.allowed import asked_bytes, declares
from isamap.machine.chain import Given
from isamap.machine.masks import with_masks_set
from isamap.machine.model import Machine, MachineInstruction, Memory
from isamap.machine.row_moves import with_whole_tiles
from isamap.machine.target_fields import Length, cpu_at
from isamap.source import UsageProblem, replace


@lru_cache(maxsize=32)
def at_one_length(machine: Machine) -> Machine:
    """Return the machine with all constants at their typical values."""
    return at_lengths(machine, {}) if machine.constants else machine


def at_given(machine: Machine, given: Given) -> Machine:
    """Return the machine with its constants at given values. A program serves all of the given values.

    It is at the value that it typically has, or at the middle one of those given.
    Raises: UsageProblem for constants that it lacks, values out of range or several that nothing tells apart.
    """
    chosen: dict[str, int] = {}
    served: list[tuple[str, tuple[int, ...]]] = []
    defaults = {p.name: p.default for p in machine.constants}
    for name, stated in given.items():
        values = stated or _allowed_values(machine, name)
        for value in values:
            at_lengths(machine, {name: value})
        default = defaults[name]
        chosen[name] = default if default in values else values[len(values) // 2]
        if len(values) > 1:
            served.append((name, values))
    if served and (len(served) > 1 or served[0][0] not in {n.constant for n in machine.target.lengths}):
        names = " and ".join(f"`{name}`" for name, _ in served)
        raise UsageProblem.of(
            "option-value",
            f"no program of {machine.name} can serve several values of {names}",
            notes=("it serves those of one constant for which `target: {lengths: …}` asks the hardware",),
            help="give one value behind `@`",
        )
    return replace(at_lengths(machine, chosen), served=served[0] if served else None)


def _allowed_values(machine: Machine, name: str) -> tuple[int, ...]:
    """Return the values that the description allows for a constant. Raises: UsageProblem."""
    found = next((length.among for length in machine.target.lengths if length.constant == name), ())
    if not found:
        raise UsageProblem.of(
            "option-value",
            f"{machine.name} does not say which values `{name}` may have",
            help=f"name them: `@{name}=2,4,8`, or write `lengths: {{{name}: … in 2, 4, 8}}`",
        )
    return found


def passed_when_run(machine: Machine, described: Machine) -> Machine:
    """Return a machine at one length whose calls pass constants that a program reads from the hardware.

    `described` is the machine before it was at one length.
    """
    asked = {length.constant for length in described.target.lengths}

    def entry(name: str, at: MachineInstruction) -> MachineInstruction:
        values = {p.name: _typical(p) for p in described.constants if p.name not in asked}
        written = described.instructions.get(name, at)  # that of a whole tile is made of that of a row
        return replace(at, emit=_replace_in_calls(written.emit, values))

    return replace(machine, instructions={name: entry(name, at) for name, at in machine.instructions.items()})


def at_lengths(machine: Machine, given: Mapping[str, int]) -> Machine:
    """Return the machine with some constants at given values, and the others at their typical values.

    Raises: UsageProblem for a constant that it does not have, or a value out of its range.
    """
    values = {p.name: _value(p, given, machine) for p in machine.constants}
    for name in given.keys() - values.keys():
        known = ", ".join(values) or "none"
        said = f"{machine.name} has no constant called `{name}`"
        raise UsageProblem.of("option-value", said, notes=(f"its constants: {known}",))
    indices: dict[str, Index | int] = dict(values)
    lengths = tuple(replace(length, value=values.get(length.constant)) for length in machine.target.lengths)
    memories = {name: _memory(memory, indices) for name, memory in machine.memories.items()}
    lengths = lengths or fixed_lengths(memories, machine.target.headers)
    instructions = {n: _instruction(e, indices, values) for n, e in machine.instructions.items()}
    return replace(
        machine,
        constants=(),
        target=replace(machine.target, lengths=lengths, cpu=cpu_at(machine.target.cpu, values)),
        memories=memories,
        instructions=with_whole_tiles(with_masks_set(instructions), memories),
        hints={n: _instruction(e, indices, values) for n, e in machine.hints.items()},
    )


def fixed_lengths(memories: Mapping[str, Memory], headers: tuple[str, ...]) -> tuple[Length, ...]:
    """Return the run-time queries for register sizes that a description states and that C types do not."""
    found: dict[str, int] = {}
    for memory in memories.values():
        held = memory.register_bytes if memory.kind == "registers" else None
        for c_type in memory.c_types.values() if held is not None else ():
            if (asked := asked_bytes(c_type, held or 0)) is not None and declares(headers, asked[0]):
                found[asked[0]] = max(asked[1], found.get(asked[0], 0))
    return tuple(Length("", function, 1, value) for function, value in found.items())


def _value(p: Param, given: Mapping[str, int], machine: Machine) -> int:
    low = p.low.value if p.low is not None else None
    high = p.high.value if p.high is not None else None
    value = given.get(p.name, _typical(p))
    if (low is not None and value < low) or (high is not None and value > high):
        ends = ("" if end is None else str(end) for end in (low, high))
        said = f"`{p.name}` of {machine.name} is {'..'.join(ends)}, not {value}"
        raise UsageProblem.of("option-value", said, help="give a value of this range behind `@`")
    return value


def _typical(p: Param) -> int:
    low = p.low.value if p.low is not None else None
    return p.default if p.default is not None else 1 if low is None else low


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
        cost,
        interval_ns=_replace_in_cost(cost.interval_ns, values),
        latency_ns=_replace_in_cost(cost.latency_ns, values),
        energy_pj=None if cost.energy_pj is None else _replace_in_cost(cost.energy_pj, values),
    )
    return replace(
        entry,
        instruction=substitute_routine(entry.instruction, indices),
        cost=fixed,
        emit=_replace_in_calls(entry.emit, values),
    )


def _replace_in_calls(emit: emit_nodes.Emission, values: Mapping[str, int]) -> emit_nodes.Emission:
    """Return the calls with constants of the machine as numbers."""
    match emit:
        case emit_nodes.EmitCall():
            return _call(emit, values)
        case emit_nodes.EmitSteps(steps):
            kept = (step for step in steps if _is_counted(step, values))
            return replace(emit, steps=tuple(replace(s, call=_call(s.call, values)) for s in kept))
        case emit_nodes.EmitSemantics() | emit_nodes.EmitNothing():
            return emit
        case _ as unreachable:
            assert_never(unreachable)


def _is_counted(step: emit_nodes.EmitStep, values: Mapping[str, int]) -> bool:
    """Return whether the `for` counters of an unrolled step are below their bounds at these values of constants."""
    ends = ((iteration, end.substitute(values).value) for iteration, end in step.iterations)
    return all(end is None or iteration < end for iteration, end in ends)


def _call(call: emit_nodes.EmitCall, values: Mapping[str, int]) -> emit_nodes.EmitCall:
    return replace(call, args=tuple(_replace_argument(arg, values) for arg in call.args))


def _replace_argument(arg: emit_nodes.EmitValue, values: Mapping[str, int]) -> emit_nodes.EmitValue:
    match arg:
        case emit_nodes.EmitCall():
            return _call(arg, values)
        case emit_nodes.EmitArithmetic(operator, left, right):
            sides = (_replace_argument(left, values), _replace_argument(right, values))
            numbers = [
                int(s.name, 0)
                for s in sides
                if isinstance(s, emit_nodes.EmitArg) and s.kind == "literal" and not s.cast
            ]
            if operator == "*" and len(numbers) == 2:  # as people write it
                return emit_nodes.EmitArg("literal", str(numbers[0] * numbers[1]))
            return emit_nodes.EmitArithmetic(operator, *sides)
        case emit_nodes.EmitArg("constant", name) if name in values:
            return replace(arg, kind="literal", name=str(values[name]))
        case emit_nodes.EmitArg():
            return arg


def _replace_in_cost(cost: Expr, values: Mapping[str, int]) -> Expr:
    """Return a cost with constants of the machine replaced."""
    match cost:
        case Scalar(name):
            return Const(float(values[name]), F64) if name in values else cost
        case Call(args=args):
            return replace(cost, args=tuple(_replace_in_cost(arg, values) for arg in args))
        case Cast(value):
            return replace(cost, value=_replace_in_cost(value, values))
        case IndexValue(index):
            return replace(cost, index=index.substitute(values))
        case Const() | Read():
            return cost
        case _ as unreachable:
            assert_never(unreachable)
