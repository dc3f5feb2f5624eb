"""Print the plain-C model of an instruction: a function with its semantics, on scalars and pointers.

`inout c: f32 @ reg; in a: f32 @ reg; in b: f32 @ reg; c += a*b;` becomes

    static inline float mac_f32(float c, float a, float b) {
      c += a * b;
      return c;
    }

An operand of rank 0 in a register is a value, and the result when it is written. All others are pointers to
elements, row-major in registers, strided in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import assert_never

from isamap.emit.c_expr import CScope, stored_text, stored_value, value_text
from isamap.emit.c_names import CNames, compute_type, is_narrow, storage_type
from isamap.emit.c_text import PRODUCT, CText, Namer, choice, index_text, infix
from isamap.ir import product as index_product
from isamap.ir.dtypes import DType
from isamap.ir.index import Index
from isamap.ir.nodes import Assign, Call, Cast, Expr, Instruction, Loop, Operand, Param, Read, Scalar, Stmt
from isamap.ir.ops import OPS
from isamap.source.records import dataclass


@dataclass(frozen=True, slots=True)
class ModelOperand:
    """How an operand is passed: by value, as the result, or as a pointer with strides."""

    operand: Operand
    by_value: bool
    is_result: bool
    stride_axes: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class InstructionModel:
    """The model of one instruction: the name of its function, its calling convention, and its text."""

    name: str
    operands: tuple[ModelOperand, ...]
    params: tuple[Param, ...]
    text: str
    used: frozenset[str]

    @property
    def result(self) -> ModelOperand | None:
        return next((o for o in self.operands if o.is_result), None)


def is_register(operand: Operand, registers: frozenset[str]) -> bool:
    """Return whether an operand lives in a register memory."""
    return operand.memory in registers


def build_model(instruction: Instruction, registers: frozenset[str], file_names: CNames) -> InstructionModel:
    """Return the model of an instruction. `registers` names the register memories."""
    name = file_names.take(instruction.name)
    names = file_names.inside()
    operands = passed_operands(instruction, registers)
    writer = ModelWriter(instruction, operands, names)
    lines = writer.function(name)
    return InstructionModel(
        name, operands, instruction.params, "\n".join(lines) + "\n", frozenset(writer.used)
    )


def passed_operands(instruction: Instruction, registers: frozenset[str]) -> tuple[ModelOperand, ...]:
    """Return how the operands of an instruction's function are passed, in order."""
    passed = [o for o in instruction.operands if o.role != "temp"]
    scalars = [o for o in passed if is_register(o, registers) and not o.shape]
    written = [o for o in scalars if o.role != "in"]
    result = written[0] if len(written) == 1 else None
    found: list[ModelOperand] = []
    for o in passed:
        by_value = o in scalars and (o.role == "in" or o is result)
        strides = o.strides if not is_register(o, registers) and o.strides is not None else ()
        varying = tuple(axis for axis, stride in enumerate(strides) if stride is None)
        found.append(ModelOperand(o, by_value, o is result, varying))
    return tuple(found)


class ModelWriter:
    """A writer of one function, line by line."""

    def __init__(self, instruction: Instruction, operands: tuple[ModelOperand, ...], names: CNames) -> None:
        self.instruction = instruction
        self.operands: Mapping[str, ModelOperand] = {m.operand.name: m for m in operands}
        self.names = names
        self.used: set[str] = set()
        self.lines: list[str] = []
        self.scope = CScope(names.of, self.load, self.used)
        for operand in instruction.operands:
            names.take(operand.name)
        for m in operands:
            for axis in m.stride_axes:
                names.take(f"{m.operand.name}.s{axis}")
        for param in instruction.params:
            names.take(param.name)

    def function(self, name: str) -> list[str]:
        result = next((m for m in self.operands.values() if m.is_result), None)
        returns = storage_type(result.operand.dtype) if result else "void"
        self.add(1, f"static inline {returns} {name}({', '.join(self.parameters()) or 'void'}) {{", indent=0)
        self.prologue()
        for stmt in self.instruction.body:
            self.statement(stmt, 1)
        self.epilogue()
        if result:
            self.add(1, f"return {self.names.of(result.operand.name)};")
        self.add(0, "}")
        return self.lines

    def parameters(self) -> list[str]:
        """Return the C parameters: operands in order, each with its strides, then the instruction's parameters."""
        found: list[str] = []
        for m in self.operands.values():
            o, name = m.operand, self.names.of(m.operand.name)
            if m.by_value:
                found += [] if m.is_result and o.role == "out" else [f"{storage_type(o.dtype)} {name}"]
                continue
            const = "const " if o.role == "in" else ""
            found.append(f"{const}{storage_type(o.dtype)} *{name}")
            found += [f"int64_t {self.names.of(f'{o.name}.s{axis}')}" for axis in m.stride_axes]
        for p in self.instruction.params:
            c_type = compute_type(p.dtype) if p.dtype is not None else "int64_t"
            found.append(f"{c_type} {self.names.of(p.name)}")
        return found

    def prologue(self) -> None:
        """Declare the result, temporaries, accumulators, and the old values of an output outside the tile."""
        for o in self.instruction.operands:
            m = self.operands.get(o.name)
            name, c_type = self.names.of(o.name), storage_type(o.dtype)
            if m is None:
                self.declare(c_type, name, o.shape)
            elif m.is_result and o.role == "out":
                self.add(1, f"{c_type} {name} = 0;" if self.is_partly_written(o) else f"{c_type} {name};")
            elif o.role == "out" and o.outside == "zero" and not m.by_value:
                self.each_element(o, lambda at: f"{self.element(at)} = 0;")
            if o.accumulate is not None and m is not None:
                self.declare(compute_type(o.accumulate), self.names.take(f"{o.name}.sum"), o.shape)
                if o.role == "inout" or o.outside is not None:
                    self.each_element(o, self.widening)

    def epilogue(self) -> None:
        """Write accumulators, rounded once, to their operands."""
        for o in self.instruction.operands:
            if o.accumulate is not None and o.name in self.operands:
                self.each_element(o, lambda at: f"{self.element(at)} = {self.rounded(at)};")

    def widening(self, at: Read) -> str:
        """Return the statement that initialises an accumulator from the operand's element."""
        o = self.instruction.operand(at.buffer)
        assert o.accumulate is not None
        scope = CScope(self.names.of, self.element, self.used)
        return f"{self.element(at, total=True)} = {value_text(Cast(at, o.accumulate), scope)};"

    def rounded(self, at: Read) -> CText:
        """Return an accumulator's element as it is stored in the operand."""
        o = self.instruction.operand(at.buffer)
        assert o.accumulate is not None
        total = self.element(at, total=True)
        scope = CScope(lambda _: total.text, self.load, self.used)
        return stored_text(Cast(Scalar("sum", o.accumulate), o.dtype), scope)

    def is_partly_written(self, o: Operand) -> bool:
        return not any(
            isinstance(s, Assign) and s.target.buffer == o.name and s.guard is None and s.op is None
            for s in self.instruction.body
        )

    # --- statements

    def statement(self, stmt: Stmt, depth: int) -> None:
        match stmt:
            case Assign():
                self.guarded(stmt.guard, depth, lambda d: self.add(d, self.assignment(stmt)))
            case Loop(axes, body, _, guard, _):
                names, self.names = self.names, self.names.inside()
                self.scope = CScope(self.names.of, self.load, self.used)
                for axis in axes:
                    self.open_loop(depth, axis.name, axis.extent)
                    depth += 1
                self.guarded(guard, depth, lambda d: self.all(body, d))
                for _ in axes:
                    depth -= 1
                    self.add(depth, "}")
                self.names = names
                self.scope = CScope(names.of, self.load, self.used)
            case _:
                assert_never(stmt)

    def all(self, body: tuple[Stmt, ...], depth: int) -> None:
        for stmt in body:
            self.statement(stmt, depth)

    def guarded(self, guard: Expr | None, depth: int, write: Callable[[int], None]) -> None:
        if guard is None:
            write(depth)
            return
        self.add(depth, f"if ({value_text(guard, self.scope)}) {{")
        write(depth + 1)
        self.add(depth, "}")

    def assignment(self, stmt: Assign) -> str:
        target = stmt.target
        operand = self.instruction.operand(target.buffer)
        value = stmt.value
        summed = operand.accumulate is not None and operand.role != "temp"
        dtype = operand.accumulate if summed and operand.accumulate is not None else operand.dtype
        place = self.element(target, total=summed)
        if stmt.op is None:
            value = Cast(value, dtype) if value.dtype != dtype else value
            text = value_text(value, self.scope) if summed else stored_text(value, self.scope)
            return self.stored(target, place, text)
        if dtype.is_float and not is_narrow(dtype) and (sign := OPS[stmt.op].spelling) is not None:
            return f"{place} {sign}= {value_text(value, self.scope)};"
        old = Scalar("old.", dtype)
        scope = CScope(self.old_name(place, dtype, summed), self.load, self.used)
        updated = Call(stmt.op, (old, value), dtype)
        text = value_text(updated, scope) if summed else stored_text(updated, scope)
        return f"{place} = {text};"

    def stored(self, _target: Read, place: CText, value: CText) -> str:
        """Return the statement that writes an element."""
        return f"{place} = {value};"

    def old_name(self, place: CText, dtype: DType, summed: bool) -> Namer:
        """Return the naming of values in which `old.` denotes the element that is updated."""
        old = place if summed else stored_value(place, dtype, self.scope)
        inner = self.scope.name
        return lambda name: old.text if name == "old." else inner(name)

    def open_loop(self, depth: int, axis: str, extent: Index) -> None:
        bound = index_text(extent, self.names.of, self.used)
        name = self.names.take(axis)
        self.add(depth, f"for (int64_t {name} = 0; {name} < {bound}; {name}++) {{")

    # --- elements

    def load(self, read: Read) -> CText:
        """Return the stored element that an access reads, or its fill outside of the shape."""
        operand = self.instruction.operand(read.buffer)
        if operand.accumulate is not None and operand.name in self.operands:
            element = self.rounded(read)
        else:
            element = self.element(read)
        if read.fill is None:
            return element
        inside = self.inside(read, operand)
        return element if inside is None else choice(inside, element, stored_text(read.fill, self.scope))

    def inside(self, read: Read, operand: Operand) -> CText | None:
        """Return the condition that the subscripts are inside the operand's shape, or None if they always are."""
        found: CText | None = None
        for index, extent in zip(read.index, operand.shape, strict=True):
            at = index_text(index, self.names.of, self.used)
            bound = index_text(extent, self.names.of, self.used)
            for test in (infix(at, ">=", CText("0")), infix(at, "<", bound)):
                found = test if found is None else infix(found, "&&", test)
        return found

    def element(self, read: Read, total: bool = False) -> CText:
        operand = self.instruction.operand(read.buffer)
        if total:
            name = self.names.of(f"{operand.name}.sum")
            at = _dense_offset(read.index, operand.shape)
        else:
            name = self.names.of(operand.name)
            at = self.offset(operand, read.index)
        m = self.operands.get(operand.name)
        if not operand.shape and (total or m is None or m.by_value):
            return CText(name)
        return CText(f"{name}[{index_text(at, self.names.of, self.used)}]")

    def offset(self, operand: Operand, subscripts: tuple[Index, ...]) -> Index:
        """Return the offset of an element: by strides in memory, row-major in registers."""
        m = self.operands.get(operand.name)
        if m is None or operand.strides is None or len(operand.strides) != len(subscripts):
            return _dense_offset(subscripts, operand.shape)
        steps = (Index.of(f"{operand.name}.s{n}") if s is None else s for n, s in enumerate(operand.strides))
        return sum((at * step for at, step in zip(subscripts, steps, strict=True)), start=Index.of(0))

    def each_element(self, o: Operand, write: Callable[[Read], str]) -> None:
        """Write loops over all elements of an operand around the statement from `write`."""
        names, self.names = self.names, self.names.inside()
        axes = tuple(f"at{n}" for n in range(len(o.shape)))
        for depth, (axis, extent) in enumerate(zip(axes, o.shape, strict=True), 1):
            self.open_loop(depth, axis, extent)
        self.add(1 + len(axes), write(Read(o.name, tuple(Index.of(a) for a in axes), o.dtype)))
        for depth in range(len(axes), 0, -1):
            self.add(depth, "}")
        self.names = names

    def declare(self, c_type: str, name: str, shape: tuple[Index, ...]) -> None:
        if not shape:
            self.add(1, f"{c_type} {name};")
            return
        size = index_text(index_product(shape), self.names.of, self.used)
        self.add(1, f"{c_type} {name}[{size.inside(PRODUCT)}];")

    def add(self, depth: int, line: str, indent: int | None = None) -> None:
        self.lines.append("  " * (depth if indent is None else indent) + line)


def _dense_offset(subscripts: tuple[Index, ...], shape: tuple[Index, ...]) -> Index:
    steps = (index_product(shape[axis + 1 :]) for axis in range(len(subscripts)))
    return sum((at * step for at, step in zip(subscripts, steps, strict=True)), start=Index.of(0))
