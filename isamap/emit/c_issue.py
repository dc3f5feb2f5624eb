"""One instruction issue as a C statement: the text of its `emit`, or a call of its plain-C model.

`vfmadd_zmm_f32(a = v1, b = v2, c = v0)` with `emit: c = _mm512_fmadd_ps(a, b, c)` is
`v0 = _mm512_fmadd_ps(v1, v2, v0);`.

Generated tests and timings of single instructions share them. Whole programs get theirs from `lower`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import assert_never

from isamap.emit.c_elementary import build_call
from isamap.emit.c_expr import CScope, value_text
from isamap.emit.c_names import CNames, is_narrow, literal, storage_type
from isamap.emit.c_steps import build_steps
from isamap.emit.c_text import POSTFIX, PREFIX, SUM, CText, call, cast, index_text, infix, prefix
from isamap.emit.cmodel import InstructionModel, ModelOperand
from isamap.ir import DTYPES, Cast, Const, DType, Index, Operand, Read, product
from isamap.lower.program import Argument, Configure, Hint, Issue, MemoryRef, RegisterRef, Value
from isamap.machine import (
    EmitArg,
    EmitArithmetic,
    EmitCall,
    EmitNothing,
    EmitSemantics,
    EmitSteps,
    EmitValue,
    Machine,
    MachineInstruction,
)
from isamap.machine.allowed import register_width
from isamap.source.records import dataclass, field

_SCALAR = re.compile(r"float|double|u?int(8|16|32|64)_t|_Bool|bool|(un)?signed char|char|int|unsigned")


def call_of(entry: MachineInstruction, *, model: bool) -> EmitCall | None:
    """Return the call that an issue of an instruction becomes, or None if it becomes a separate function."""
    match entry.emit:
        case EmitCall() as emit:
            return None if model else emit
        case EmitSteps() | EmitSemantics() | EmitNothing():  # a function, a model, or refused
            return None
        case _:
            assert_never(entry.emit)


def image_text(name: str, image: bytes) -> list[str]:
    """Return the declaration of an image in C."""
    rows = [image[i : i + 16] for i in range(0, len(image), 16)]
    lines = [f"static const _Alignas(64) uint8_t {name}[{len(image)}] = {{"]
    lines += [f"  {', '.join(str(b) for b in row)}," for row in rows]
    return [*lines, "};"]


@dataclass(frozen=True, slots=True)
class Here:
    """The meaning of names at an issue: C identifiers, values, element types of tensors and buffers.

    `beside_loop` is true if a loop's body contains the issue and another loop: a value that compilers hoist
    in front of both occupies a register during the inner loop. `outer_counter` is the counter of that outer loop.
    """

    names: CNames
    values: Mapping[str, Value]
    elements: Mapping[str, DType]
    beside_loop: bool = False
    outer_counter: str = ""


@dataclass
class Issuer:
    """A printer of the issues in one file, which collects the models, helpers and state images that they need.

    `asked` are names of the program for constants of the machine that the hardware is asked for.
    `opening` and `closing` are statements before and behind all others.
    """

    machine: Machine
    model: bool
    names: CNames
    models: dict[str, InstructionModel] = field(default_factory=dict[str, InstructionModel])
    used: set[str] = field(default_factory=set[str])
    images: dict[bytes, str] = field(default_factory=dict[bytes, str])
    asked: Mapping[str, str] = field(default_factory=dict[str, str])
    opening: tuple[str, ...] = ()
    closing: tuple[str, ...] = ()

    @property
    def has_versions(self) -> bool:
        """Return whether a version of the body for dense tensors is worthwhile."""
        return not self.model

    def value_type(self, value: Value) -> str | None:
        """Return the C type of a value, or None for one that lives in a register named by number."""
        memory = self.machine.memories[value.memory]
        if self.model:
            return storage_type(value.dtype)
        return None if memory.named == "immediate" else memory.c_variable(value.dtype.name)

    def statements(self, issue: Issue, here: Here) -> list[str]:
        """Return the C statements of one issue."""
        entry = self.machine.instructions[issue.instruction]
        emit = call_of(entry, model=self.model)
        if emit is None:
            return self._model_call(issue, entry, here)
        operands = dict(issue.operands)
        params = dict(issue.params)
        found = self._call(emit, entry, operands, params, here)
        if emit.result is None:
            return [f"{found};"]
        operand = entry.instruction.operand(emit.result)
        ref = operands[operand.name]
        assert isinstance(ref, RegisterRef), "the result of a call is a C value"
        value = here.values[ref.value]
        own, held = self._operand_type(operand), self.value_type(value)
        place = here.names.of(value.name)
        if own != held and register_width(own) == register_width(held):
            return [f"{place} = {cast(str(held), found)};"]
        return [f"{place} = {found};" if own == held else f"*({own} *)&{place} = {found};"]

    def hint(self, node: Hint, here: Here) -> str:
        """Return the statement of a hint. In a model, whose memory has no caches, it only mentions the place."""
        entry = self.machine.hints[node.instruction]
        emit = call_of(entry, model=self.model)
        if emit is None:
            operand = entry.instruction.operand(node.operand)
            return f"(void)({self._pointer(node.place, operand, here)}); /* {entry.name} */"
        return f"{self._call(emit, entry, {node.operand: node.place}, {}, here)};"

    def configuration(self, node: Configure) -> str:
        """Return the statement that loads or releases a state. Its image becomes a constant of the file."""
        emit = call_of(self.machine.instructions[node.instruction], model=self.model)
        assert emit is not None, "a state is loaded by a call"
        args: list[CText] = []
        for arg in emit.args:
            assert isinstance(arg, EmitArg), "a configuration is not computed"
            assert arg.kind in ("state", "literal"), "a configuration is loaded from its image"
            text = CText(arg.name)
            if arg.kind == "state":
                # The image of a state with the given (field, index, value). Unnamed fields are zero.
                image = bytearray(self.machine.states[arg.name].bytes)
                declared = {f.name: f for f in self.machine.states[arg.name].decl.fields}
                for name, index, value in node.fields:
                    size = declared[name].dtype.size_bytes
                    start = self.machine.states[arg.name].offsets[name] + (index or 0) * size
                    image[start : start + size] = value.to_bytes(size, "little", signed=value < 0)
                image = bytes(image)
                if image not in self.images:
                    self.images[image] = self.names.take(arg.name)
                text = CText(self.images[image])
            args.append(cast(arg.cast, text) if arg.cast else text)
        return f"{call(emit.function, *args)};"

    # --- calls as the description writes them

    def _call(
        self,
        emit: EmitCall,
        entry: MachineInstruction,
        operands: Mapping[str, RegisterRef | MemoryRef],
        params: Mapping[str, Argument],
        here: Here,
    ) -> CText:
        found = call(emit.function, *(self._argument(a, entry, operands, params, here) for a in emit.args))
        return cast(emit.cast, found) if emit.cast else found

    def _argument(
        self,
        arg: EmitValue,
        entry: MachineInstruction,
        operands: Mapping[str, RegisterRef | MemoryRef],
        params: Mapping[str, Argument],
        here: Here,
    ) -> CText:
        match arg:
            case EmitCall():
                return self._call(arg, entry, operands, params, here)
            case EmitArithmetic(operator, left, right):
                sides = (self._argument(side, entry, operands, params, here) for side in (left, right))
                return infix(next(sides), operator, next(sides))
            case EmitArg():
                return self._name_argument(arg, entry, operands, params, here)

    def _name_argument(
        self,
        arg: EmitArg,
        entry: MachineInstruction,
        operands: Mapping[str, RegisterRef | MemoryRef],
        params: Mapping[str, Argument],
        here: Here,
    ) -> CText:
        match arg.kind:
            case "literal":
                found = CText(arg.name, PREFIX if arg.name.startswith("-") else POSTFIX)
            case "param":
                value, high = params[arg.name], entry.instruction.param(arg.name).high
                match arg.attribute:
                    case "mask":
                        found = self._mask(value, high, here)
                    case "bits":
                        assert not isinstance(value, int | Index)
                        bits = Cast(value, DTYPES[f"i{value.dtype.bits}"], "bits")
                        found = value_text(bits, CScope(here.names.of, _no_access, self.used))
                    case _:
                        found = self._param(value, here, stays=here.beside_loop)
            case "operand":
                found = self._operand(arg, entry.instruction.operand(arg.name), operands[arg.name], here)
            case "constant":
                found = index_text(Index.of(self.asked[arg.name]), here.names.of, self.used)
            case "state" | "value":
                raise AssertionError("states are configured, values are of steps")
        return cast(arg.cast, found) if arg.cast else found

    def _operand(self, arg: EmitArg, operand: Operand, ref: RegisterRef | MemoryRef, here: Here) -> CText:
        if isinstance(ref, RegisterRef):
            value = here.values[ref.value]
            if arg.attribute == "index":
                assert value.register is not None, f"{value.name} has no register"
                return CText(str(value.register))
            name = CText(here.names.of(value.name))
            held, own = self.value_type(value), self._operand_type(operand)
            if arg.attribute == "ref":
                return prefix("&", name) if held == own else cast(f"{own} *", prefix("&", name))
            return _as_type(name, held, own)
        match arg.attribute:
            case "value":
                found = CText(f"*{self._pointer(ref, operand, here).inside(PREFIX)}", PREFIX)
                stays = here.beside_loop and here.outer_counter not in ref.offset.symbols
                return self._recompute(found, operand.dtype) if stays else found
            case "stride":
                size = here.elements[ref.buffer].size_bytes
                return index_text(ref.strides[0] * size, here.names.of, self.used)
            case _:
                return self._pointer(ref, operand, here)

    def _operand_type(self, operand: Operand) -> str | None:
        return self.machine.memories[operand.memory or ""].c_type(operand.dtype.name)

    def _param(self, value: Argument, here: Here, stays: bool = False) -> CText:
        """Return the C of a parameter. With `stays`, C compilers must not move a constant out of loops."""
        match value:
            case int():
                return CText(str(value), PREFIX if value < 0 else POSTFIX)
            case Index():
                return index_text(value, here.names.of, self.used)
            case Const(number, dtype, _):
                text = literal(number, dtype)
                if text.endswith(("INFINITY", "NAN")):
                    self.used.add("math.h")
                found = CText(text, PREFIX if text.startswith("-") else POSTFIX)
                return self._recompute(found, dtype) if stays and not is_narrow(dtype) else found
            case _:
                return value_text(value, CScope(here.names.of, _no_access, self.used))

    def _recompute(self, value: CText, dtype: DType) -> CText:
        """Return a value that compilers must compute anew at each use, so that they do not hoist it."""
        function = f"made_here_{storage_type(dtype)}"
        self.used.add(function)
        return call(function, value)

    def _mask(self, value: Argument, high: Index | None, here: Here) -> CText:
        """Return an integer in which the lowest bits are set, as many as the parameter says."""
        count = value if isinstance(value, int) else value.value if isinstance(value, Index) else None
        if count is not None:
            assert isinstance(count, int)
            return CText(f"{(1 << count) - 1:#x}{'u' if count <= 32 else 'ull'}")
        text = self._param(value, here)
        if high is None or high.value is None or high.value > 63:
            self.used.add("low_bits")
            return call("low_bits", text)
        one = CText("1u" if high.value <= 31 else "UINT64_C(1)")
        return infix(infix(one, "<<", text), "-", CText("1"))

    def _pointer(self, ref: MemoryRef, operand: Operand, here: Here) -> CText:
        """Return the address of a memory operand, as a pointer to its element type."""
        base = CText(here.names.of(ref.buffer))
        offset = index_text(ref.offset, here.names.of, self.used)
        found = base if ref.offset.value == 0 else CText(f"{base} + {offset.inside(SUM)}", SUM)
        expected = storage_type(operand.dtype)
        if offset.text.startswith("-"):
            found = CText(f"{base} + ({offset})", SUM)
        if storage_type(here.elements[ref.buffer]) == expected:
            return found
        return cast(f"{'const ' if operand.role == 'in' else ''}{expected} *", found)

    # --- calls of models

    def _model_call(self, issue: Issue, entry: MachineInstruction, here: Here) -> list[str]:
        operands, params = dict(issue.operands), dict(issue.params)
        numbers = self._numbers(operands, here) if isinstance(entry.emit, EmitSteps) else {}
        called = " ".join([entry.name, *map(str, numbers.values())])
        model = self.models.get(called)
        if model is None:
            registers = frozenset(n for n, m in self.machine.memories.items() if m.kind == "registers")
            if isinstance(entry.emit, EmitSteps) and not self.model:
                held = {o.name: str(self._operand_type(o)) for o in entry.instruction.operands}
                model = build_steps(entry.instruction, entry.emit, registers, self.names, held, numbers)
            else:
                model = build_call(entry.instruction, registers, self.names, model=self.model)
            self.models[called] = model
            self.used |= model.used
        copies, renamed = self._copies(operands, model, here)
        args: list[CText] = []
        for m in model.operands:
            ref = operands[m.operand.name]
            if isinstance(ref, MemoryRef):
                args += [self._pointer(ref, m.operand, here), *self._strides(m, ref, here)]
            elif not (m.is_result and m.operand.role == "out"):
                copied = renamed.get(m.operand.name)
                args.append(CText(copied) if copied else self._register(m, here.values[ref.value], here))
        args += [self._param(params[p.name], here) for p in model.params]
        found = call(model.name, *args)
        if model.result is None:
            return [f"{{ {' '.join(copies)} {found}; }}"] if copies else [f"{found};"]
        ref = operands[model.result.operand.name]
        assert isinstance(ref, RegisterRef), "a result by value is in a register"
        return [f"{self._register(model.result, here.values[ref.value], here)} = {found};"]

    def _numbers(self, operands: Mapping[str, RegisterRef | MemoryRef], here: Here) -> dict[str, int]:
        """Return the numbers of registers that have no C variables. A call has a version for each of them."""
        found: dict[str, int] = {}
        for name, ref in operands.items():
            value = here.values[ref.value] if isinstance(ref, RegisterRef) else None
            if value is not None and self.value_type(value) is None:
                assert value.register is not None, f"{value.name} has no register"
                found[name] = value.register
        return found

    def _strides(self, m: ModelOperand, ref: MemoryRef, here: Here) -> list[CText]:
        ratio = here.elements[ref.buffer].size_bytes, m.operand.dtype.size_bytes
        scaled = [(ref.strides[axis] * ratio[0]).floordiv(ratio[1]) for axis in m.stride_axes]
        return [index_text(s, here.names.of, self.used) for s in scaled]

    def _register(self, m: ModelOperand, value: Value, here: Here) -> CText:
        """Return a register operand as a model receives it: a number, or a pointer to its elements."""
        name, expected = here.names.of(value.name), storage_type(m.operand.dtype)
        held = self.value_type(value)
        assert held is not None, f"{value.name} is in a register that C cannot name"
        is_array = self.model and bool(value.shape)
        if m.by_value:
            if held == expected or (not self.model and _SCALAR.fullmatch(held)):
                return CText(f"{name}[0]" if is_array else name)
            return CText(f"*({expected} *){'' if is_array else '&'}{name}", PREFIX)
        found = CText(name) if is_array else prefix("&", CText(name))
        return found if held == expected else cast(f"{expected} *", found)

    def _copies(
        self, operands: Mapping[str, RegisterRef | MemoryRef], model: InstructionModel, here: Here
    ) -> tuple[list[str], dict[str, str]]:
        """Return copies of inputs that are also outputs, because a model may write them before all reads."""
        pointers = [
            (m.operand, ref.value)
            for m in model.operands
            if not m.by_value and isinstance(ref := operands[m.operand.name], RegisterRef)
        ]
        written = {value for operand, value in pointers if operand.role != "in"}
        lines: list[str] = []
        renamed: dict[str, str] = {}
        for operand, value_name in pointers:
            if operand.role != "in" or value_name not in written:
                continue
            value, name = here.values[value_name], here.names.of(value_name)
            copied = f"{name}_{operand.name}"
            array = f"[{product(value.shape)}]" if self.model and value.shape else ""
            self.used.add("string.h")
            lines.append(f"{self.value_type(value)} {copied}{array};")
            lines.append(f"memcpy(&{copied}, &{name}, sizeof {copied});")
            renamed[operand.name] = f"({storage_type(operand.dtype)} *)&{copied}"
        return lines, renamed


def _as_type(text: CText, held: str | None, expected: str | None) -> CText:
    """Return a register's value converted to the C type of an operand."""
    if held == expected or expected is None:
        return text
    if register_width(held) == register_width(expected):
        return cast(expected, text)
    return CText(f"*({expected} *)&{text}", PREFIX)


def _no_access(read: Read) -> CText:
    raise AssertionError(f"a parameter cannot read {read.buffer}")
