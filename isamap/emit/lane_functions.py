"""Print the share of an instruction that one lane performs, as a function in common C and OpenCL C.

    inout c: f32[16, 16] @ reg placed [i, j] at lane: 16*i + j;
    in a: f32[16, 16] @ reg placed [i, j] at lane: 16*i + j;
    for i in 16, j in 16 { c[i, j] += a[i, j]; }

becomes

    static inline void add(int64_t lane, const float *a, float *c) {
      const int64_t i = lane / 16;
      const int64_t j = lane % 16;
      c[0] += a[0];
    }

A lane holds the elements that the placement of a register operand gives it, and performs the iterations that
touch them. If all operands lie in memory, iterations go round among the lanes, the innermost axis fastest.

An instruction whose `emit` calls a function is performed by the hardware: the call takes pointers to what a lane
holds. In a model a lane computes its own results, and reads what other lanes show it of their registers.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from itertools import product as points
from math import prod

from isamap.emit.c_expr import CScope
from isamap.emit.c_names import CNames, compute_type, storage_type
from isamap.emit.c_text import SUM, CText, index_text
from isamap.emit.cmodel import InstructionModel, ModelOperand, ModelWriter
from isamap.ir import Assign, Axis, FloorDiv, Index, Loop, Mod, Operand, Read, Stmt
from isamap.ir import product as index_product
from isamap.ir.walk import reads
from isamap.machine import Machine, MachineInstruction, is_late_product, private_memories
from isamap.source import UsageProblem, dataclass


@dataclass(frozen=True, slots=True)
class Fragment:
    """The distribution of an operand over lanes: the lane of each element, and its position in that lane.

    Both are expressions of `indices`. A lane has so many `elements`. Elements lie in the first `lanes`; the
    lanes behind these repeat them in order.
    """

    indices: tuple[str, ...]
    lane: Index
    place: Index
    elements: int
    lanes: int


def refuse(item: MachineInstruction, why: str, advice: str) -> UsageProblem:
    """Return the error that a single lane cannot perform an instruction."""
    said = f"the lanes of a block cannot perform `{item.name}`: {why}"
    return UsageProblem.of("lanes-unsupported", said, item.span, help=advice)


@lru_cache(maxsize=1024)
def fragment_of(operand: Operand, item: MachineInstruction, machine: Machine) -> Fragment | None:
    """Return the distribution of a register operand over lanes, or None if each lane has all of it.

    Raises: UsageProblem if the placement does not say it.
    """
    if not operand.shape:
        return None
    level = machine.levels[-1]
    coordinates = dict(operand.placement.coordinates) if operand.placement is not None else {}
    shape = [extent.value for extent in operand.shape]
    if level.name not in coordinates or operand.placement is None or None in shape:
        raise refuse(
            item,
            f"the placement of `{operand.name}` does not say which {level.name} has an element",
            f"write `placed […] at {level.name}: …`, with a shape of numbers",
        )
    indices = operand.placement.indices
    others = [index for name, index in coordinates.items() if name != level.name]
    every = [dict(zip(indices, point, strict=True)) for point in points(*(range(n) for n in shape if n))]
    place, elements = Index.of(0), 1
    for index in others:
        count = 1 + max(index.evaluate(point) for point in every)
        place, elements = place * count + index, elements * count
    count = level.count or 1
    lanes = 1 + max(coordinates[level.name].evaluate(point) for point in every)
    if count % lanes or elements * lanes != len(every):
        raise refuse(
            item,
            f"`{operand.name}` has {len(every)} elements, which {count} lanes do not have in equal parts",
            f"place elements on {level.name} 0 to {count - 1}, as many on each",
        )
    return Fragment(indices, coordinates[level.name], place, elements, lanes)


@dataclass(frozen=True, slots=True)
class Digit:
    """A digit of an axis that the lane number determines: `(axis / unit) % count` is `(lane / step) % count`."""

    axis: str
    unit: int
    count: int
    step: int


def digits_of(lane: Index, lanes: int) -> tuple[Digit, ...] | None:
    """Return the digits of axes that form a lane number, or None if it has another form.

    `4 * (i % 8) + j / 2` of 32 lanes is two digits: `(lane / 4) % 8` is `i % 8`, and `lane % 4` is `j / 2`.
    """
    if lane == Index.of(0):
        return () if lanes == 1 else None
    terms = sorted((coefficient, monomial) for monomial, coefficient in lane.terms)
    ends = [*(coefficient for coefficient, _ in terms[1:]), lanes]
    found: list[Digit] = []
    at = 1
    for (step, monomial), end in zip(terms, ends, strict=True):
        read = _part(Index.of(monomial[0])) if len(monomial) == 1 else None
        if read is None or step != at or end % step:
            return None
        axis, unit, stated = read
        count = stated or end // step
        if count < 2:
            return None
        found.append(Digit(axis, unit, count, step))
        at = step * found[-1].count
    return tuple(found) if at == lanes else None


def _part(index: Index) -> tuple[str, int, int | None] | None:
    """Return axis, unit and count of `(axis / unit) % count`, or None. Without `%`, the count is None."""
    match index.terms:
        case (((str(axis),), 1),):
            return axis, 1, None
        case (((FloorDiv(value, divisor),), 1),) if divisor.value is not None:
            inner = _part(value)
            if inner is None or (inner[2] or 0) % divisor.value:
                return None
            return inner[0], inner[1] * divisor.value, inner[2] and inner[2] // divisor.value
        case (((Mod(value, divisor),), 1),) if divisor.value is not None:
            inner = _part(value)
            return None if inner is None or inner[2] else (inner[0], inner[1], divisor.value)
        case _:
            return None


def build_lane_function(
    item: MachineInstruction, machine: Machine, file_names: CNames, *, model: bool = False
) -> InstructionModel:
    """Return the function of one lane of an instruction. In a `model`, lanes may read others' registers.

    Raises: UsageProblem if it cannot be one lane's.
    """
    name = file_names.take(item.name)
    operands: list[ModelOperand] = []
    for o in item.instruction.operands:
        in_registers = machine.memories[o.memory or ""].kind == "registers" if o.role != "temp" else False
        if o.role == "temp" or o.accumulate is not None:
            raise refuse(item, f"`{o.name}` is a temporary", "write one statement without it")
        strides = () if in_registers or o.strides is None else o.strides
        varying = tuple(axis for axis, stride in enumerate(strides) if stride is None)
        operands.append(ModelOperand(o, by_value=False, is_result=False, stride_axes=varying))
    writer = _LaneFunction(item, tuple(operands), file_names.inside(), machine, model)
    text = "\n".join(writer.function(name)) + "\n"
    return InstructionModel(name, tuple(operands), item.instruction.params, text, frozenset(writer.used))


class _LaneFunction(ModelWriter):
    """A writer of the function of one lane."""

    def __init__(
        self,
        item: MachineInstruction,
        operands: tuple[ModelOperand, ...],
        names: CNames,
        machine: Machine,
        model: bool,
    ) -> None:
        self.lane, self.lane_count = names.take("lane"), names.take("lanes")
        super().__init__(item.instruction, operands, names)
        self.item, self.machine = item, machine
        self.lanes = self.lanes_used = machine.levels[-1].count or 1
        in_registers = any(self.is_register(o.operand) for o in operands)
        self.all_lanes = str(self.lanes) if in_registers else self.lane_count
        self.private = private_memories(machine)
        self.is_dealt = False
        # Devices divide numbers of 64 bits by calls of functions.
        most = prod(p.high.value if p.high and p.high.value else 1 << 31 for p in item.instruction.params)
        self.count_type = "int32_t" if most < 1 << 31 else "int64_t"
        self.model = model
        self.is_product = model and is_late_product(item, machine)
        self.shown: dict[str, int] = {}

    def function(self, name: str) -> list[str]:
        self.add(0, f"static inline void {name}({', '.join(self.parameters())}) {{")
        self.add(1, f"(void){self.lane};")
        for m in self.operands.values():
            if m.operand.role == "out" and m.operand.outside == "zero":
                self.zeroed(m.operand)
        if self.model and any(
            is_late_product(one, self.machine) for one in self.machine.instructions.values()
        ):
            word = "SUMS_OF_PRODUCT" if self.is_product else "TOUCH_SUMS"
            held = (
                m.operand for m in self.operands.values() if self.is_register(m.operand) and m.operand.shape
            )
            self.lines += [f"  {word}({self.names.of(o.name)});" for o in held]
        opening = len(self.lines)
        for stmt in self.instruction.body:
            self.statement(stmt, 1)
        if self.shown:
            shows = [f"  SHOW({number}, {self.names.of(name)});" for name, number in self.shown.items()]
            self.lines[opening:opening] = [*shows, f"  TOGETHER({self.lanes});"]
            self.add(1, f"TOGETHER({self.lanes});")
        self.add(0, "}")
        return self.lines

    def parameters(self) -> list[str]:
        found = [f"int64_t {self.lane}"]
        if self.all_lanes == self.lane_count:
            found.append(f"int64_t {self.lane_count}")
        for m in self.operands.values():
            o, name = m.operand, self.names.of(m.operand.name)
            const = "const " if o.role == "in" else ""
            found.append(f"{self.space(o)}{const}{storage_type(o.dtype)} *{name}")
            found += [f"int64_t {self.names.of(f'{o.name}.s{axis}')}" for axis in m.stride_axes]
        for p in self.instruction.params:
            c_type = compute_type(p.dtype) if p.dtype is not None else self.count_type
            found.append(f"{c_type} {self.names.of(p.name)}")
        return found

    def is_register(self, o: Operand) -> bool:
        return self.machine.memories[o.memory or ""].kind == "registers"

    def space(self, o: Operand) -> str:
        """Return the address space of an operand's memory. Registers are private to a lane and have none."""
        if self.is_register(o):
            return ""
        return "__local " if o.memory in self.private else "__global "

    def is_shared(self, o: Operand) -> int:
        return int(o.memory in self.private)

    def zeroed(self, o: Operand) -> None:
        if not self.is_register(o):
            raise refuse(self.item, f"it clears all of `{o.name}`", "clear it by an instruction of its own")
        fragment = fragment_of(o, self.item, self.machine)
        at, count = self.names.inside().take("at"), 1 if fragment is None else fragment.elements
        self.add(1, "UNROLL")
        self.add(1, f"for (int {at} = 0; {at} < {count}; {at}++) {self.names.of(o.name)}[{at}] = 0;")

    # --- iterations of one lane

    def statement(self, stmt: Stmt, depth: int) -> None:
        match stmt:
            case Loop(axes) if not self.is_dealt:
                self.is_dealt = True
                names, self.names = self.names, self.names.inside()
                self.scope = CScope(self.names.of, self.load, self.used)
                lane = self.lane_of(stmt)
                inner = self.open_turns(axes, depth) if lane is None else self.open_own(stmt, lane, depth)
                self.guarded(stmt.guard, inner, lambda d: self.all(stmt.body, d))
                for closed in range(inner - 1, depth - 1, -1):
                    self.add(closed, "}")
                self.names, self.is_dealt = names, False
                self.scope = CScope(names.of, self.load, self.used)
            case Assign(target) if not self.is_dealt and not self.is_register(self.operand(target)):
                self.add(depth, f"if ({self.lane} == 0) {{")
                super().statement(stmt, depth + 1)
                self.add(depth, "}")
            case _:
                super().statement(stmt, depth)

    def operand(self, read: Read) -> Operand:
        return self.instruction.operand(read.buffer)

    def lane_of(self, loop: Loop) -> Index | None:
        """Return the lane that has the elements of an iteration, or None if no operand is in registers.

        Lanes of a model show the others those operands that are not in the lane of the result.
        """
        found: dict[Index, Operand] = {}
        for access in _accesses(loop):
            o = self.operand(access)
            fragment = fragment_of(o, self.item, self.machine) if self.is_register(o) else None
            if fragment is None:
                continue
            at = dict(zip(fragment.indices, access.index, strict=True))
            lane = fragment.lane.substitute(at)
            if found and lane not in found and self.model and o.role == "in":
                self.shown.setdefault(o.name, len(self.shown))
                continue
            self.lanes_used = fragment.lanes if not found else self.lanes_used
            found.setdefault(lane, o)
        if len(found) > 1:
            one, other = (o.name for o in list(found.values())[:2])
            raise refuse(
                self.item,
                f"an iteration touches elements of `{one}` and `{other}` that are in different lanes",
                "place them alike, or leave it to an instruction of the machine",
            )
        return next(iter(found), None)

    def open_turns(self, axes: tuple[Axis, ...], depth: int) -> int:
        """Open the loop of a lane over iterations that are distributed among the lanes in turn."""
        at = self.names.take("at")
        total = index_text(index_product([axis.extent for axis in axes]), self.names.of, self.used)
        self.add(
            depth, f"for ({self.count_type} {at} = {self.lane}; {at} < {total}; {at} += {self.all_lanes}) {{"
        )
        names = [self.names.take(axis.name) for axis in axes]
        inner = Index.of(1)
        for axis, name in reversed(list(zip(axes, names, strict=True))):
            value = Index.of("at").floordiv(inner)
            value = value if axis is axes[0] else value.mod(axis.extent)
            inner = inner * axis.extent
            self.add(
                depth + 1, f"const {self.count_type} {name} = {index_text(value, self.names.of, self.used)};"
            )
        return depth + 1

    def open_own(self, loop: Loop, lane: Index, depth: int) -> int:
        """Open the loops of a lane over the iterations whose elements are in its registers."""
        digits = digits_of(lane, self.lanes_used)
        by_axis = {axis.name: axis for axis in loop.axes}
        if digits is None or any(digit.axis not in by_axis for digit in digits):
            raise refuse(
                self.item,
                f"the iterations of a lane do not follow from its number `{lane}`",
                f"place elements so that {self.lanes_used} lanes are counted by digits of indices",
            )
        values: list[str] = []
        conditions: list[str] = []
        for axis in loop.axes:
            own = sorted((d for d in digits if d.axis == axis.name), key=lambda digit: digit.unit)
            if not own:
                self.open_loop(depth, axis.name, axis.extent)
                depth += 1
                continue
            value, reached = Index.of(0), 1
            for digit in own:
                if digit.unit > reached:
                    depth, value = self.free(depth, value, reached, digit.unit // reached)
                quotient = Index.of(self.lane_symbol).floordiv(digit.step)
                last = digit.step * digit.count == self.lanes  # which none of the repeated ones is
                value += (quotient if last else quotient.mod(digit.count)) * digit.unit
                reached = digit.unit * digit.count
            most = self.most(loop, axis)
            if most > reached:
                depth, value = self.free(depth, value, reached, -(-most // reached))
                reached *= -(-most // reached)
            text = index_text(value, self.named, self.used).text
            name = self.names.take(axis.name)
            values.append(f"const int64_t {name} = {text};")
            if axis.extent.value != reached:
                conditions.append(f"{name} < {index_text(axis.extent, self.names.of, self.used)}")
        for line in values:
            self.add(depth, line)
        if conditions:
            self.add(depth, f"if ({' && '.join(conditions)}) {{")
            return depth + 1
        return depth

    lane_symbol = "lane of a block"

    def named(self, symbol: str) -> str:
        return self.lane if symbol == self.lane_symbol else self.names.of(symbol)

    def open_loop(self, depth: int, axis: str, extent: Index) -> None:
        """Open a loop, unrolled if its extent is constant, so that a lane's elements stay in registers."""
        if extent.value is not None:
            self.add(depth, "UNROLL")
        super().open_loop(depth, axis, extent)

    def free(self, depth: int, value: Index, unit: int, count: int) -> tuple[int, Index]:
        """Open a loop over a digit of an axis that the lane does not determine."""
        symbol = f"part{depth}"
        self.open_loop(depth, symbol, Index.of(count))
        return depth + 1, value + Index.of(symbol) * unit

    def most(self, loop: Loop, axis: Axis) -> int:
        """Return the largest number of iterations along an axis: the elements of a register operand."""
        if axis.extent.value is not None:
            return axis.extent.value
        own = Index.of(axis.name)
        shapes = (
            extent.value
            for access in _accesses(loop)
            if self.is_register(self.operand(access))
            for at, extent in zip(access.index, self.operand(access).shape, strict=True)
            if at == own
        )
        return max((extent for extent in shapes if extent is not None), default=1)

    # --- elements

    def element(self, read: Read, total: bool = False) -> CText:
        o = self.operand(read)
        fragment = fragment_of(o, self.item, self.machine) if self.is_register(o) else None
        if fragment is None:
            name = self.names.of(o.name)
            at = Index.of(0) if self.is_register(o) else self.offset(o, read.index)
        else:
            name = self.names.of(o.name)
            given = dict(zip(fragment.indices, read.index, strict=True))
            at = fragment.place.substitute(given)
            if o.name in self.shown:
                lane = index_text(fragment.lane.substitute(given), self.names.of, self.used)
                name = f"((const {storage_type(o.dtype)} *)SHOWN({self.shown[o.name]}, LANE - {self.lane} + {lane}))"
        if swizzle := self.machine.memories[o.memory or ""].swizzle:
            place = f"{name} + {index_text(at, self.names.of, self.used).inside(SUM)}"
            return CText(f"SWIZZLED({storage_type(o.dtype)}, {place}, {swizzle})")
        return CText(f"{name}[{index_text(at, self.names.of, self.used)}]")

    def load(self, read: Read) -> CText:
        o = self.operand(read)
        if self.is_register(o):
            return super().load(read)
        if read.fill is not None:
            raise refuse(self.item, f"`{o.name}` is read with a fill", "leave out the fill")
        word = "LOAD_BY_PRODUCT" if self.is_product else "LOAD"
        return CText(f"{word}({self.is_shared(o)}, {self.element(read)})")

    def assignment(self, stmt: Assign) -> str:
        if stmt.op is not None and not self.is_register(self.operand(stmt.target)):
            raise refuse(self.item, f"it adds to `{stmt.target.buffer}` in memory", "add in registers")
        return super().assignment(stmt)

    def stored(self, target: Read, place: CText, value: CText) -> str:
        o = self.operand(target)
        if self.is_register(o):
            return super().stored(target, place, value)
        how = "STORE_LATER" if self.item.is_asynchronous and self.model else "STORE"
        return f"{how}({self.is_shared(o)}, {place}, {value});"


def _accesses(stmt: Stmt) -> Iterator[Read]:
    match stmt:
        case Assign(target, _, value):
            yield target
            yield from reads(value)
        case Loop(_, body):
            for inner in body:
                yield from _accesses(inner)
