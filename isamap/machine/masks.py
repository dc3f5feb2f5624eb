"""Derive unpredicated instructions from predicated ones, with all lanes active.

    instruction ptrue() {                        instruction fmla_whole() {
      out d: bool[8] @ p;                          inout c: f32[8] @ v;
      for i in 8 { d[i] = true; }                  in a: f32[8] @ v;
    }                                              in b: f32[8] @ v;
    instruction fmla() {                           for i in 8 { c[i] += a[i] * b[i]; }
      in m: bool[8] @ p;                         }
      inout c: f32[8] @ v;
      in a: f32[8] @ v;                          emit: c = svmla_f32_m(svptrue_b32(), c, a, b)
      in b: f32[8] @ v;
      for i in 8 { c[i] += a[i] * b[i] if m[i]; }
    }

A statement without a predicate needs such an unpredicated instruction. An instruction of the machine sets the
lanes: one that writes true, or one that sets the first L lanes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from isamap.ir import Assign, Call, Const, Expr, Index, IndexValue, Instruction, Loop, Operand, Read
from isamap.ir.walk import reads
from isamap.machine import emit_nodes
from isamap.machine.model import MachineInstruction
from isamap.source.records import dataclass, replace

Instructions = Mapping[str, MachineInstruction]


def with_masks_set(instructions: Instructions) -> dict[str, MachineInstruction]:
    """Return the instructions, followed by an unpredicated variant of each predicated one."""
    found = dict(instructions)
    setters = [s for entry in instructions.values() if (s := _setter_of(entry)) is not None]
    for entry in instructions.values() if setters else ():
        masks = _masks_of(entry.instruction)
        calls = {m.name: _call_for(m, setters) for m in masks}
        if masks and entry.encoding is None and all(call is not None for call in calls.values()):
            whole = _whole(entry, {name: call for name, call in calls.items() if call is not None})
            if whole is not None:
                found.setdefault(whole.name, whole)
    return found


# --- predicates -------------------------------------------------------------------------------------------


def _masks_of(instruction: Instruction) -> tuple[Operand, ...]:
    """Return the predicate operands of an instruction of one statement, or ()."""
    if len(instruction.body) != 1 or not isinstance(instruction.body[0], Loop):
        return ()
    loop = instruction.body[0]
    if loop.guard is not None or len(loop.body) != 1 or not isinstance(loop.body[0], Assign):
        return ()
    asked = tuple(_conditions(loop.body[0].guard))
    inputs = {o.name: o for o in instruction.operands if o.role == "in" and o.dtype.kind == "bool"}
    if not all(isinstance(e, Read) and e.buffer in inputs for e in asked):
        return ()
    return tuple(inputs[name] for name in dict.fromkeys(e.buffer for e in asked if isinstance(e, Read)))


def _conditions(guard: Expr | None) -> Iterator[Expr]:
    match guard:
        case None:
            pass
        case Call("and", args):
            for arg in args:
                yield from _conditions(arg)
        case _:
            yield guard


@dataclass(frozen=True, slots=True)
class _Setter:
    """An instruction that activates lanes, and the parameter that gives their number (None: all lanes)."""

    entry: MachineInstruction
    mask: Operand
    count: str | None


def _setter_of(entry: MachineInstruction) -> _Setter | None:
    """Return the setter if an instruction only activates the first lanes of a predicate, else None."""
    own = entry.instruction
    if len(own.operands) != 1 or len(own.body) != 1 or not isinstance(own.body[0], Loop):
        return None
    (mask,), loop = own.operands, own.body[0]
    if mask.role != "out" or mask.dtype.kind != "bool" or loop.guard is not None or len(loop.body) != 1:
        return None
    (assign,) = loop.body
    places = tuple(Index.of(axis.name) for axis in loop.axes)
    extents = tuple(axis.extent for axis in loop.axes)
    if not isinstance(assign, Assign) or assign.op is not None or assign.guard is not None:
        return None
    if (assign.target.index, extents) != (places, mask.shape):
        return None
    match assign.value, own.params:
        case Const(True), ():
            return _Setter(entry, mask, None)
        case Call("lt", (IndexValue(lane), IndexValue(count))), (param,) if (
            lane,
        ) == places and count == Index.of(param.name):
            return _Setter(entry, mask, param.name)
        case _:
            return None


def _call_for(mask: Operand, setters: list[_Setter]) -> emit_nodes.Emission | None:
    """Return the call that activates all lanes of a predicate, or None if no instruction does."""
    for setter in setters:
        own = setter.mask
        alike = (own.memory, own.shape, _element_places(own)) == (
            mask.memory,
            mask.shape,
            _element_places(mask),
        )
        lanes = mask.shape[0].value
        if not alike or lanes is None:
            continue
        emit = setter.entry.emit
        if setter.count is None or not isinstance(emit, emit_nodes.EmitCall):
            return emit
        return replace(emit, args=tuple(_replace_operands(a, {}, {setter.count: lanes}) for a in emit.args))
    return None


def _element_places(o: Operand) -> tuple[tuple[str, Index], ...] | None:
    """Return the place of each element of an operand, with canonical index names, or None without a placement."""
    if o.placement is None:
        return None
    named: dict[str, Index | int] = {n: Index.of(f"%{at}") for at, n in enumerate(o.placement.indices)}
    return tuple((name, at.substitute(named)) for name, at in o.placement.coordinates)


# --- without them -----------------------------------------------------------------------------------------


def _whole(entry: MachineInstruction, calls: Mapping[str, emit_nodes.Emission]) -> MachineInstruction | None:
    """Return the unpredicated instruction, or None if its call does not work with all lanes active."""
    emit = _emission(entry.emit, calls)
    own = entry.instruction
    loop = own.body[0]
    assert isinstance(loop, Loop), "looked at before"
    (assign,) = loop.body
    assert isinstance(assign, Assign), "looked at before"
    kept = (o for o in own.operands if o.name not in calls)
    instruction = replace(
        own,
        name=f"{own.name}_whole",
        operands=tuple(replace(o, role="out") if _is_overwritten(o, assign, loop) else o for o in kept),
        body=(replace(loop, body=(replace(assign, guard=None),)),),
    )
    return None if emit is None else replace(entry, instruction=instruction, emit=emit, made_of=own.name)


def _is_overwritten(o: Operand, assign: Assign, loop: Loop) -> bool:
    """Return whether a merging move overwrites the whole operand once all lanes are active."""
    extents = {Index.of(axis.name): axis.extent for axis in loop.axes}
    covered = len(set(assign.target.index)) == len(o.shape) and all(
        extents.get(at) == size for at, size in zip(assign.target.index, o.shape, strict=False)
    )
    read = {r.buffer for r in reads(assign.value)}
    is_target = o.role == "inout" and o.name == assign.target.buffer and assign.op is None
    return is_target and covered and o.name not in read


def _emission(
    emit: emit_nodes.Emission, calls: Mapping[str, emit_nodes.Emission]
) -> emit_nodes.Emission | None:
    match emit:
        case emit_nodes.EmitSemantics() | emit_nodes.EmitNothing():
            return emit
        case emit_nodes.EmitCall() | emit_nodes.EmitSteps():
            known = {
                name: replace(c, result=None)
                for name, c in calls.items()
                if isinstance(c, emit_nodes.EmitCall)
            }
            if known.keys() != calls.keys():
                return None
            if isinstance(emit, emit_nodes.EmitCall):
                return _inside(emit, known)
            return replace(emit, steps=tuple(replace(s, call=_inside(s.call, known)) for s in emit.steps))


def _inside(call: emit_nodes.EmitCall, calls: Mapping[str, emit_nodes.EmitCall]) -> emit_nodes.EmitCall:
    return replace(call, args=tuple(_replace_operands(arg, calls, {}) for arg in call.args))


def _replace_operands(
    value: emit_nodes.EmitValue, calls: Mapping[str, emit_nodes.EmitCall], params: Mapping[str, int]
) -> emit_nodes.EmitValue:
    """Return an argument with operands replaced by calls, and parameters by numbers."""
    match value:
        case emit_nodes.EmitCall():
            return replace(value, args=tuple(_replace_operands(arg, calls, params) for arg in value.args))
        case emit_nodes.EmitArithmetic(operator, left, right):
            return emit_nodes.EmitArithmetic(
                operator, _replace_operands(left, calls, params), _replace_operands(right, calls, params)
            )
        case emit_nodes.EmitArg("operand", name, None) if name in calls:
            return calls[name]
        case emit_nodes.EmitArg("param", name, None) if name in params:
            return replace(value, kind="literal", name=str(params[name]))
        case emit_nodes.EmitArg():
            return value
