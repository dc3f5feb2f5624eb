"""Supplies: chains of move, conversion and arithmetic instructions that bring an operand where it is wanted.

What is wanted is a register of a memory, a type and a shape whose element [%0, %1] is an expression of its
coordinates, such as `f32(A[@m, 2*@k + %0])`. The search lays every instruction that writes such a register over
that expression; what the instruction reads is wanted in turn, until only elements in memory, at strides that the
instruction takes, are left. A broadcast, a widening load, a bias addition are all found the same way.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from isamap.ir import Const, DType, Expr, Index, IndexValue, Operand, Read, Scalar, substitute_expr
from isamap.ir.index import ZERO
from isamap.machine import Machine, cost_value
from isamap.match.bounds import simplify, simplify_expr
from isamap.match.instructions import Pattern, digits_of, invert, pattern_of
from isamap.match.params import Params, extents_of, fit_shape, holds
from isamap.match.unify import Binding, Bindings, unify
from isamap.transform import symbols

MAX_DEPTH = 5
VALUE = "$value"  # the pseudo-buffer that stands for a register already computed


def dims(count: int) -> tuple[str, ...]:
    """Names of an operand's coordinates in expressions about its elements."""
    return tuple(f"%{i}" for i in range(count))


@dataclass(frozen=True, slots=True)
class Want:
    """A register whose elements are an expression of its coordinates.

    `valid` says how many elements along each coordinate matter, None for all; the others may hold anything, or
    must hold zero when `zero`.
    """

    expr: Expr
    memory: str
    dtype: DType
    shape: tuple[int, ...]
    valid: tuple[Index | None, ...]
    zero: bool = False


@dataclass(frozen=True, slots=True)
class Location:
    """Elements in memory. Units: `offset` and `strides` (per operand axis) in elements."""

    buffer: str
    offset: Index
    strides: tuple[Index, ...]


@dataclass(frozen=True, slots=True)
class Leaf:
    """A register that is already there."""


@dataclass(frozen=True, slots=True)
class Supply:
    """An instruction that computes a register (or, at the root of a delivery, writes memory)."""

    instruction: str
    output: str
    memory: str
    dtype: DType
    shape: tuple[int, ...]
    params: tuple[tuple[str, Index | Expr], ...]
    inputs: tuple[tuple[str, Supply | Location | Leaf], ...]
    cost_ns: float
    target: Location | None = None


@dataclass(frozen=True)
class Suppliers:
    """A machine's instructions by what they write, and where the kernel's arrays lie.

    Units: `strides` of each array in elements.
    """

    machine: Machine
    strides: dict[str, tuple[Index, ...]]

    @cached_property
    def producers(self) -> dict[tuple[str, str], list[Pattern]]:
        """Patterns with one register output and no reduction, by memory and type of that output."""
        found: dict[tuple[str, str], list[Pattern]] = {}
        for item in self.machine.instructions.values():
            pattern = pattern_of(item.instruction)
            if pattern and pattern.statement.assign.op is None:
                key = (pattern.output.memory or "", pattern.output.dtype.name)
                found.setdefault(key, []).append(pattern)
        return found

    @cached_property
    def memo(self) -> dict[Want, Supply | Leaf | None]:
        return {}

    def is_addressable(self, memory: str | None) -> bool:
        """Whether a memory holds arrays that are reached by address."""
        return memory is not None and self.machine.memories[memory].kind in ("addressable", "scratchpad")

    def interval_ns(self, name: str, params: Params) -> float:
        """Time that an instruction occupies one of its units. Units: ns."""
        item = self.machine.instructions[name]
        numbers = {
            p.name: params.get(p.name, p.high.value if p.high and p.high.value else 1)
            for p in item.instruction.params
            if p.dtype is None
        }
        count = self.machine.units[item.cost.unit].count
        return cost_value(item.cost.interval_ns, numbers) / max(1, count)


def find_supply(suppliers: Suppliers, want: Want, depth: int = 0) -> Supply | Leaf | None:
    """The cheapest chain that makes the wanted register, or None when the machine has none."""
    if _is_there(want):
        return Leaf()
    if want in suppliers.memo:
        return suppliers.memo[want]
    if depth >= MAX_DEPTH:
        return None
    suppliers.memo[want] = None  # a chain never needs the very thing that it is to make
    best: Supply | None = None
    for pattern in suppliers.producers.get((want.memory, want.dtype.name), []):
        found = _try(suppliers, pattern, want, depth)
        if found is not None and (best is None or found.cost_ns < best.cost_ns):
            best = found
    if best is None and depth:
        del suppliers.memo[want]  # it may only have been too deep
    else:
        suppliers.memo[want] = best
    return best


def find_delivery(
    suppliers: Suppliers, target: Read, value: Expr, memory: str, dtype: DType, want: Want
) -> Supply | None:
    """The cheapest way to write `value`, an expression over the coordinates of `want`, to `target` in memory.

    `want` gives shape and valid part; its expression is not looked at. `memory` and `dtype` say which register
    the last instruction reads when it is to be the one that the mapping names; empty means any.
    """
    best: Supply | None = None
    for pattern in _writers(suppliers, target.dtype):
        for operand in pattern.instruction.operands:
            wrong = operand.role != "in" or suppliers.is_addressable(operand.memory)
            if wrong or (memory and (operand.memory, operand.dtype) != (memory, dtype)):
                continue
            found = _try_delivery(suppliers, pattern, operand, target, value, want)
            if found is not None and (best is None or found.cost_ns < best.cost_ns):
                best = found
    return best


def _writers(suppliers: Suppliers, dtype: DType) -> list[Pattern]:
    return [
        p
        for (memory, name), patterns in suppliers.producers.items()
        if name == dtype.name and suppliers.is_addressable(memory)
        for p in patterns
    ]


def _is_there(want: Want) -> bool:
    e = want.expr
    here = tuple(Index.of(d) for d in dims(len(want.shape)))
    return isinstance(e, Read) and e.buffer == f"{VALUE}:{want.memory}" and e.index == here


# --- one instruction laid over one want -----------------------------------------------------------------------


def _try(suppliers: Suppliers, pattern: Pattern, want: Want, depth: int) -> Supply | None:
    params = fit_shape(pattern.output, want.shape)
    if params is None:
        return None
    placed = _axis_limits(pattern, params, pattern.target.index, want.shape, want.valid)
    if placed is None:
        return None
    limits, masks = placed
    if want.zero and masks and pattern.output.outside != "zero":
        return None
    coordinates = dict(zip(dims(len(want.shape)), pattern.target.index, strict=True))
    extents = {f"%{a}": e for a, e in limits.items()}
    prefixed = {a: Index.of(f"%{a}") for a in limits}
    over_axes = {d: i.substitute(prefixed) for d, i in coordinates.items()}
    subject = simplify_expr(substitute_expr(want.expr, over_axes), extents)
    for bindings in unify(pattern.value, subject):
        if want.zero and not all(_keeps_zero(pattern) for _ in bindings):
            continue
        built = _inputs(suppliers, pattern, bindings, params, limits, masks, want, depth)
        if built is not None:
            inputs, chosen, cost = built
            return Supply(
                pattern.name, pattern.output.name, want.memory, want.dtype, want.shape, chosen, inputs, cost
            )
    return None


def _keeps_zero(pattern: Pattern) -> bool:
    """Whether zero elements stay zero: moves and casts do, a sum with something else may not."""
    from isamap.ir import Cast

    value = pattern.value
    while isinstance(value, Cast):
        value = value.value
    return isinstance(value, (Read, Const))


def _axis_limits(
    pattern: Pattern,
    params: Params,
    subscripts: tuple[Index, ...],
    shape: tuple[int, ...],
    valid: tuple[Index | None, ...],
) -> tuple[dict[str, int], dict[str, Index]] | None:
    """Extents of the instruction's axes, and values of the scalar parameters that mask it.

    None when it would not write all valid elements. A masked axis has the extent of the coordinate it runs over.
    """
    known, masked = extents_of(pattern, params)
    limits: dict[str, int] = dict(known)
    masks: dict[str, Index] = {}
    for subscript, size, part in zip(subscripts, shape, valid, strict=True):
        axes = [a for a in (n.name for n in pattern.axes) if a in subscript.symbols]
        held = [a for a in axes if a in masked]
        if held:
            if len(axes) > 1:
                return None
            limits[held[0]] = size
            masks[masked[held[0]]] = part if part is not None else Index.of(size)
        elif any(a not in known for a in axes):
            return None
        digits = digits_of(subscript, {a: limits[a] for a in axes})
        if digits is None:
            return None
        reach = digits[0][1] * limits[digits[0][0]] if digits else 1
        enough = part.value if part is not None and part.value is not None else size
        if reach < enough:
            return None
    if any(a.name not in limits for a in pattern.axes):
        return None
    return limits, masks


def _inputs(
    suppliers: Suppliers,
    pattern: Pattern,
    bindings: Bindings,
    params: Params,
    limits: dict[str, int],
    masks: dict[str, Index],
    want: Want,
    depth: int,
) -> (
    tuple[tuple[tuple[str, Supply | Location | Leaf], ...], tuple[tuple[str, Index | Expr], ...], float]
    | None
):
    """Everything that the instruction reads, its parameters and the cost of the whole chain."""
    reach = _reaches(pattern, limits, want)
    chosen: dict[str, Index | Expr] = {n: Index.of(v) for n, v in params.items()}
    chosen |= masks
    inputs: list[tuple[str, Supply | Location | Leaf]] = []
    cost = suppliers.interval_ns(pattern.name, params)
    for binding in bindings:
        if not binding.pattern and any(p.name == binding.name for p in pattern.instruction.params):
            if any(s.startswith("%") for s in symbols(binding.subject)):
                return None
            chosen[binding.name] = binding.subject
            continue
        operand = pattern.instruction.operand(binding.name)
        if suppliers.is_addressable(operand.memory):
            where = (
                None
                if _reads_past(binding, limits, masks, pattern, want)
                else locate(suppliers, operand, binding, params, limits)
            )
            if where is None:
                return None
            inputs.append((binding.name, where))
            continue
        wanted = _register_want(operand, binding, params, limits, reach, want.zero)
        found = find_supply(suppliers, wanted, depth + 1) if wanted else None
        if found is None:
            return None
        inputs.append((binding.name, found))
        cost += found.cost_ns if isinstance(found, Supply) else 0.0
    named = {p.name for p in pattern.instruction.params}
    if named - chosen.keys() or not holds(pattern, params):
        return None
    return tuple(inputs), tuple(sorted(chosen.items())), cost


def _reaches(
    pattern: Pattern, limits: dict[str, int], want: Want
) -> dict[tuple[tuple[str, int], ...], Index | None]:
    """How many values of each digit sequence matter: those of a partly valid coordinate, by its digits."""
    found: dict[tuple[tuple[str, int], ...], Index | None] = {}
    for subscript, size, part in zip(pattern.target.index, want.shape, want.valid, strict=True):
        digits = digits_of(subscript, limits)
        if digits and part is not None and part.value != size:
            found[digits] = part
    return found


def _reads_past(
    binding: Binding, limits: dict[str, int], masks: dict[str, Index], pattern: Pattern, want: Want
) -> bool:
    """Whether reading memory at full length would touch elements that are not valid."""
    known, masked = extents_of(pattern, {})
    used = {a for i in binding.pattern for a in i.symbols}
    for subscript, size, part in zip(pattern.target.index, want.shape, want.valid, strict=True):
        if part is None:
            continue
        axes = {a for a in subscript.symbols if limits.get(a, 1) > 1}
        if not axes & used or any(a in masked for a in axes):
            continue
        digits = digits_of(subscript, limits)
        reach = digits[0][1] * limits[digits[0][0]] if digits else 1
        if part.value != reach and not (part.value == size == reach):
            return True
    return False


def _register_want(
    operand: Operand,
    binding: Binding,
    params: Params,
    limits: dict[str, int],
    reach: dict[tuple[tuple[str, int], ...], Index | None],
    zero: bool,
) -> Want | None:
    """What a register operand must hold, over its own coordinates."""
    shape = tuple(s.substitute(params).value for s in operand.shape)
    if None in shape:
        return None
    names = dims(len(shape))
    axes = invert(binding.pattern, limits, names)
    if axes is None:
        return None
    free = {f"%{a}" for a, e in limits.items() if e > 1 and a not in axes}
    if free & symbols(binding.subject):
        return None
    back = {f"%{a}": e for a, e in axes.items()}
    sizes = {n: int(s or 1) for n, s in zip(names, shape, strict=True)}
    valid: list[Index | None] = []
    partial = {a for digits, part in reach.items() if part is not None for a, _ in digits}
    for index, size in zip(binding.pattern, shape, strict=True):
        digits = digits_of(index, limits) or ()
        if digits in reach:
            valid.append(reach[digits])
        elif partial & {a for a, _ in digits}:
            return None
        else:
            span = digits[0][1] * limits[digits[0][0]] if digits else 1
            valid.append(None if span == size else Index.of(span))
    expr = simplify_expr(substitute_expr(binding.subject, back), sizes)
    return Want(expr, operand.memory or "", operand.dtype, tuple(sizes.values()), tuple(valid), zero)


def locate(
    suppliers: Suppliers, operand: Operand, binding: Binding, params: Params, limits: dict[str, int]
) -> Location | None:
    """Where an operand in memory starts and how far apart its elements lie; None when its shape does not fit."""
    subject = binding.subject
    if not isinstance(subject, Read) or subject.dtype != operand.dtype or subject.fill is not None:
        return None
    address = address_of(subject, suppliers.strides)
    if address is None:
        return None
    names = [f"%{a}" for a in limits]
    address = simplify(address, {f"%{a}": e for a, e in limits.items()})
    if not address.is_affine_in(names):
        return None
    strides = _operand_strides(operand, params)
    steps: dict[str, Index] = {a: address.coefficient(f"%{a}") or ZERO for a, e in limits.items() if e > 1}
    for position, stride in enumerate(strides):
        if stride is None:
            strides[position] = _solve_stride(binding.pattern, position, steps)
    for axis, step in steps.items():
        total = ZERO
        for index, stride in zip(binding.pattern, strides, strict=True):
            coefficient = index.coefficient(axis)
            if coefficient is None:
                return None
            if coefficient.terms:
                if stride is None:
                    return None
                total = total + coefficient * stride
        if total != step:
            return None
    offset = address.substitute(dict.fromkeys(names, 0))
    return Location(subject.buffer, offset, tuple(s if s is not None else ZERO for s in strides))


def address_of(read: Read, strides: Mapping[str, tuple[Index, ...]]) -> Index | None:
    """The element offset of an access; None for a buffer whose place is not known."""
    if read.buffer not in strides:
        return None
    total = ZERO
    for index, stride in zip(read.index, strides[read.buffer], strict=True):
        total = total + index * stride
    return total


def _operand_strides(operand: Operand, params: Params) -> list[Index | None]:
    shape = [s.substitute(params) for s in operand.shape]
    if operand.strides is not None:
        return [s.substitute(params) if s is not None else None for s in operand.strides]
    found: list[Index | None] = []
    step = Index.of(1)
    for size in reversed(shape):
        found.insert(0, step)
        step = step * size
    return found


def _solve_stride(subscripts: tuple[Index, ...], position: int, steps: dict[str, Index]) -> Index | None:
    """The stride of one operand axis from an instruction axis that only it uses."""
    for axis, step in steps.items():
        c = subscripts[position].coefficient(axis)
        alone = all(axis not in s.symbols for i, s in enumerate(subscripts) if i != position)
        if c is not None and c.value and alone:
            return ZERO if not step.terms else step.divide_exactly(c)
    return None


# --- deliveries -----------------------------------------------------------------------------------------------


def _try_delivery(
    suppliers: Suppliers, pattern: Pattern, operand: Operand, target: Read, value: Expr, want: Want
) -> Supply | None:
    """The writing instruction whose register operand has the shape of the value and lies in its coordinates."""
    params = fit_shape(operand, want.shape)
    reads = [b for b in _pattern_reads(pattern) if b.buffer == operand.name]
    if params is None or len(reads) != 1:
        return None
    placed = _axis_limits(pattern, params, reads[0].index, want.shape, want.valid)
    if placed is None:
        return None
    limits, masks = placed
    prefixed = {a: Index.of(f"%{a}") for a in limits}
    over = {d: i.substitute(prefixed) for d, i in zip(dims(len(want.shape)), reads[0].index, strict=True)}
    extents = {f"%{a}": e for a, e in limits.items()}
    written = simplify_expr(substitute_expr(target, over), extents)
    subject = simplify_expr(substitute_expr(value, over), extents)
    assert isinstance(written, Read)
    through = replace(want, expr=subject)
    whole = Pattern(pattern.instruction, _reading(pattern, reads[0]))
    if _reads_past(Binding("", pattern.target.index, written), limits, masks, whole, want):
        return None
    place = locate(
        suppliers, pattern.output, Binding(pattern.output.name, pattern.target.index, written), params, limits
    )
    if place is None:
        return None
    for bindings in unify(pattern.value, subject):
        built = _inputs(suppliers, whole, bindings, params, limits, masks, through, 0)
        if built is not None:
            inputs, chosen, cost = built
            return Supply(
                pattern.name,
                pattern.output.name,
                pattern.output.memory or "",
                target.dtype,
                want.shape,
                chosen,
                inputs,
                cost,
                place,
            )
    return None


def _pattern_reads(pattern: Pattern) -> tuple[Read, ...]:
    from isamap.transform import reads

    return reads(pattern.value)


def _reading(pattern: Pattern, read: Read):  # type: ignore[no-untyped-def]
    """The statement with its register operand in the place of its target: limits are counted along that."""
    assign = replace(pattern.statement.assign, target=read)
    return replace(pattern.statement, assign=assign)


def literal(expr: Expr) -> bool:
    """Whether an expression is a number or a run-time parameter."""
    return isinstance(expr, (Const, Scalar, IndexValue))


def widths(suppliers: Suppliers, dtype: DType) -> tuple[int, ...]:
    """Lengths of the vector registers that some instruction writes to memory as elements of `dtype`, longest first."""
    found: set[int] = set()
    for pattern in _writers(suppliers, dtype):
        for operand in pattern.instruction.operands:
            if operand.role == "in" and len(operand.shape) == 1 and operand.shape[0].value:
                found.add(operand.shape[0].value)
    return tuple(sorted(found - {1}, reverse=True))
