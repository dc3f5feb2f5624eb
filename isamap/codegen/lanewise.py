"""The C of an instruction that performs an elementary function on every lane of a register.

`for i in 16 { z[i] = exp(a[i]); }` becomes

    static inline void exp_zmm_f32(const float *a, float *z) {
      f32x16 x;
      memcpy(&x, a, sizeof x);
      x = exp_f32x16(x);
      memcpy(z, &x, sizeof x);
    }

Compilers make registers of that, also where they are told to leave loops alone, as emitted loops are.
"""

from __future__ import annotations

from isamap.codegen.c_elementary import FUNCTIONS, LANES, lanes_type
from isamap.codegen.cmodel import Model, ModelOperand, build_model
from isamap.codegen.names import Names
from isamap.ir import F32, Assign, Call, Index, Instruction, Loop, Read


def build_call(
    instruction: Instruction, registers: frozenset[str], file_names: Names, *, model: bool
) -> Model:
    """The function that stands for an instruction: of all lanes at once, or its plain-C model.

    With `model` the latter always: registers are arrays of elements then, on any processor.
    """
    found = None if model else _function_of_lanes(instruction, registers)
    if found is None:
        return build_model(instruction, registers, file_names)
    function, given, made, lanes = found
    name, kind = file_names.take(instruction.name), lanes_type(lanes)
    text = f"""\
static inline void {name}(const float *a, float *z) {{
  {kind} x;
  memcpy(&x, a, sizeof x);
  x = {function}_{kind}(x);
  memcpy(z, &x, sizeof x);
}}
"""
    operands = {o.name: ModelOperand(o, by_value=False, is_result=False) for o in instruction.operands}
    used = frozenset((f"{function}_{kind}", "string.h"))
    return Model(name, (operands[given], operands[made]), (), text, used)


def _function_of_lanes(
    instruction: Instruction, registers: frozenset[str]
) -> tuple[str, str, str, int] | None:
    """The function, its operand, its result, and how many lanes they have."""
    match instruction.body:
        case (
            Loop(
                (axis,),
                (Assign(Read(made, (to,)), None, Call(op, (Read(given, (at,), fill=None),)), guard=None),),
                guard=None,
            ),
        ) if op in FUNCTIONS:
            pass
        case _:
            return None
    lanes, here = axis.extent.value, Index.of(axis.name)
    operands = [instruction.operand(given), instruction.operand(made)]
    plain = all(
        o.memory in registers and o.dtype == F32 and o.shape == (axis.extent,) and o.accumulate is None
        for o in operands
    )
    if lanes not in LANES or not plain or to != here or at != here or instruction.params:
        return None
    return op, given, made, lanes
