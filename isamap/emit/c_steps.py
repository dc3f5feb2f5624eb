"""The C function of an instruction that is emitted as several consecutive calls.

`for i in 2: __m128 r[i] = _mm_loadu_ps(a[i, 0].addr);` and steps like it become

    static inline void transpose_f32(const float *a, int64_t a_s0, float *z, int64_t z_s0) {
      __m128 r_0 = _mm_loadu_ps(a);
      __m128 r_1 = _mm_loadu_ps(a + a_s0);
"""

from __future__ import annotations

from collections.abc import Mapping

from isamap.emit.c_names import CNames, storage_type
from isamap.emit.c_text import POSTFIX, PREFIX, SUM, CText, call, cast, index_text, infix, prefix
from isamap.emit.cmodel import InstructionModel, ModelOperand, is_register, passed_operands
from isamap.ir import Index, Instruction
from isamap.ir import product as index_product
from isamap.machine import EmitArg, EmitArithmetic, EmitCall, EmitSteps, EmitValue


def build_steps(
    instruction: Instruction,
    emit: EmitSteps,
    registers: frozenset[str],
    file_names: CNames,
    held: Mapping[str, str],
    numbers: Mapping[str, int],
) -> InstructionModel:
    """Return the function of an instruction, which performs its calls in order.

    `held` are the C types of its operands in registers, which the function receives by address. `numbers` are
    the register numbers in the code, for which the function is specialised.
    """
    name = file_names.take("_".join([instruction.name, *map(str, numbers.values())]))
    operands = tuple(m for m in passed_operands(instruction, registers) if m.operand.name not in numbers)
    in_registers = {m.operand.name for m in operands if is_register(m.operand, registers)}
    held = {name: c_type for name, c_type in held.items() if name in in_registers}
    writer = _Writer(operands, file_names.inside(), held, numbers)
    given = ", ".join(
        [*writer.parameters(), *(f"int64_t {writer.names.take(p.name)}" for p in instruction.params)]
    )
    lines = [f"static inline void {name}({given}) {{"]
    for step in emit.steps:
        text = writer.call(step.call)
        if step.c_type:
            text = f"{step.c_type} {writer.names.take(step.value)} = {text}"
        elif step.value:
            text = f"{writer.room(step.value, '*')} = {text}"
        lines.append(f"  {text};")
    return InstructionModel(
        name, operands, instruction.params, "\n".join([*lines, "}"]) + "\n", frozenset(writer.used)
    )


def call_text(emit: EmitCall) -> CText:
    """Return a call whose arguments are the C variables with the template's names."""
    names = CNames()
    for arg in emit.names:
        if arg.kind == "value":
            names.take(arg.name)
    return _Writer((), names, {}, {}).call(emit)


class _Writer:
    """A writer of calls over the parameters of one function."""

    def __init__(
        self,
        operands: tuple[ModelOperand, ...],
        names: CNames,
        held: Mapping[str, str],
        numbers: Mapping[str, int],
    ) -> None:
        self.held, self.numbers = held, numbers
        self.operands = {m.operand.name: m for m in operands}
        self.names = names
        self.used: set[str] = set()

    def parameters(self) -> list[str]:
        """Return the declarations of the operands in order, each with its strides."""
        found: list[str] = []
        for m in self.operands.values():
            const = "const " if m.operand.role == "in" else ""
            found.append(f"{const}{storage_type(m.operand.dtype)} *{self.names.take(m.operand.name)}")
            found += [f"int64_t {self.names.take(f'{m.operand.name}.s{axis}')}" for axis in m.stride_axes]
        return found

    def call(self, emit: EmitCall) -> CText:
        made = call(emit.function, *(self.argument(a) for a in emit.args))
        return cast(emit.cast, made) if emit.cast else made

    def argument(self, arg: EmitValue) -> CText:
        match arg:
            case EmitCall():
                return self.call(arg)
            case EmitArithmetic(operator, left, right):
                return infix(self.argument(left), operator, self.argument(right))
            case EmitArg():
                return self.name(arg)

    def name(self, arg: EmitArg) -> CText:
        match arg.kind:
            case "literal":
                found = CText(arg.name, PREFIX if arg.name.startswith("-") else POSTFIX)
            case "operand":
                found = self.place(arg)
            case "value" | "param":
                found = CText(self.names.of(arg.name))
            case "state":
                raise AssertionError("a state is loaded by Configure, not by steps")
            case "constant":
                raise AssertionError("programs are made for machines at one length")
        return cast(arg.cast, found) if arg.cast else found

    def room(self, name: str, operator: str) -> CText:
        """Return a register operand's variable, or its address."""
        found = cast(f"{self.held[name]} *", CText(self.names.of(name)))
        return prefix(operator, found) if operator else found

    def place(self, arg: EmitArg) -> CText:
        """Return the address of an element or the row stride in bytes, or the value or address of a register."""
        if arg.name in self.numbers:
            return CText(str(self.numbers[arg.name]))
        if arg.name in self.held and not arg.place:
            return self.room(arg.name, "" if arg.attribute == "ref" else "*")
        m = self.operands[arg.name]
        o = m.operand
        dense = tuple(index_product(o.shape[axis + 1 :]) for axis in range(len(o.shape)))
        steps = [
            Index.of(f"{o.name}.s{axis}") if axis in m.stride_axes else step
            for axis, step in enumerate(
                s if s is not None else d for s, d in zip(o.strides or dense, dense, strict=True)
            )
        ]
        if arg.attribute == "stride":
            return index_text(steps[0] * o.dtype.size_bytes, self.names.of, self.used)
        offset = sum((step * at for step, at in zip(steps, arg.place, strict=False)), start=Index.of(0))
        name = self.names.of(o.name)
        if offset.value == 0:
            return CText(name)
        return CText(f"{name} + {index_text(offset, self.names.of, self.used).inside(SUM)}", SUM)
