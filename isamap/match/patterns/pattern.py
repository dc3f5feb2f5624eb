"""Instructions as the matcher uses them: one statement, its axes, and each operand's subscripts.

Subscript maps are inverted here: an element of `a[m, 2*k + p]` with p in 2 determines m, k and p.

Parameters that are encoded in the instruction (`imm`) may stand for numbers of the kernel:

    instruction srai(imm S: 0..31) { … z[i] = a[i] >> i32(S); } performs Y[n] = X[n] >> 3, S being 3

A masked load takes the time of every line that its register spans, even of the lines that its mask excludes.

If a mask selects 32 of a register's 64 bytes, the load reads as many lines as a full one. Measured on Zen 5,
columns of 128 bytes out of memory read by halves of registers: 13 ns a row with masks, 6.8 without; a product
with four rows in bf16 took 2.2 times as long.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache

from isamap import ir
from isamap.ir import BOOL, ZERO
from isamap.ir.walk import conjuncts, with_parts
from isamap.match.patterns.unify import Binding
from isamap.source import Span, dataclass, replace
from isamap.transform import Statement, reads, statements


def encoded_params(instruction: ir.Instruction) -> frozenset[str]:
    """Return the parameters whose number is encoded in the instruction."""
    return frozenset(p.name for p in instruction.params if p.kind == "imm")


def with_encoded(expr: ir.Expr, encoded: frozenset[str]) -> ir.Expr:
    """Return an instruction's expression with encoded parameters as scalars, which match the kernel's numbers."""
    match expr:
        # However it is cast: the statement has a number of that type, so that the parameter is that number.
        case ir.Cast(ir.IndexValue(index), dtype) if str(index) in encoded:
            return ir.Scalar(str(index), dtype)
        case ir.IndexValue(index, dtype) if str(index) in encoded:
            return ir.Scalar(str(index), dtype)
        case _:
            return with_parts(expr, lambda part: with_encoded(part, encoded))


def encoded_values(instruction: ir.Instruction, bindings: Iterable[Binding]) -> dict[str, int] | None:
    """Return the numbers for encoded parameters, or None if one is not a number or not encodable."""
    names = encoded_params(instruction)
    found: dict[str, int] = {}
    for binding in bindings:
        if binding.name in names and not binding.pattern:
            match binding.subject:
                case ir.Const(int(value)) if _is_in_range(instruction.param(binding.name), value):
                    found[binding.name] = value
                case _:
                    return None
    return found


def _is_in_range(param: ir.Param, value: int) -> bool:
    low = param.low.value if param.low is not None else 1
    high = param.high.value if param.high is not None else None
    return (low is None or value >= low) and (high is None or value <= high)


@dataclass(frozen=True, slots=True)
class Pattern:
    """An instruction of one statement, prepared for matching."""

    instruction: ir.Instruction
    statement: Statement

    def __hash__(self) -> int:
        return hash(self.instruction)

    @property
    def name(self) -> str:
        return self.instruction.name

    @property
    def target(self) -> ir.Read:
        return self.statement.assign.target

    @property
    def output(self) -> ir.Operand:
        return self.instruction.operand(self.target.buffer)

    @property
    def axes(self) -> tuple[ir.Axis, ...]:
        return self.statement.axes

    @property
    def value(self) -> ir.Expr:
        return self.statement.assign.value


def only_assignment(instruction: ir.Instruction) -> ir.Assign | None:
    """Return the only assignment of an instruction, or None if it has several."""
    body = instruction.body
    while len(body) == 1 and isinstance(body[0], ir.Loop):
        body = body[0].body
    return body[0] if len(body) == 1 and isinstance(body[0], ir.Assign) else None


def pattern_of(instruction: ir.Instruction) -> Pattern | None:
    """Return the instruction as a pattern, or None if it is not one plain statement."""
    return _pattern_of(instruction, instruction.span)


@lru_cache(maxsize=4096)
def _pattern_of(instruction: ir.Instruction, span: Span | None) -> Pattern | None:
    """Return the pattern of an instruction, cached by its source position, which messages point to."""
    found = _statements(instruction)
    outputs = [o for o in instruction.operands if o.role in ("out", "inout")]
    if len(found) != 1 or len(outputs) != 1 or found[0].assign.guard is not None or found[0].sequence:
        return None
    return _pattern(instruction, found[0])


def _statements(instruction: ir.Instruction) -> tuple[Statement, ...]:
    """Return an instruction's statements. A condition on the first values of an axis becomes a shorter extent.

    `for i in 8 if i < B` with B at most 8 is `for i in B`.
    """
    return tuple(_shorten_statement(s, instruction) for s in statements(instruction))


def _shorten_statement(statement: Statement, instruction: ir.Instruction) -> Statement:
    """Return the statement with its guard expressed by extents, or the unchanged statement."""
    extents = {a.name: a.extent for a in statement.axes}
    for condition in conjuncts(statement.assign.guard):
        found = _find_bound(condition, extents, instruction)
        if found is None:
            return statement
        extents[found[0]] = found[1]
    axes = tuple(replace(a, extent=extents[a.name]) for a in statement.axes)
    return replace(statement, axes=axes, assign=replace(statement.assign, guard=None))


def _find_bound(
    condition: ir.Expr, extents: dict[str, ir.Index], instruction: ir.Instruction
) -> tuple[str, ir.Index] | None:
    """Return the axis that a condition shortens, and the shortened extent, or None."""
    match condition:
        case ir.Call("lt" | "le" | "gt" | "ge" as op, args):
            left, right = (_count(a) for a in (args if op in ("lt", "le") else args[::-1]))
            if left is None or right is None:
                return None
            within = right - left + (op in ("le", "ge"))
        case _:
            return None
    for axis, extent in extents.items():
        bound = within + ir.Index.of(axis)
        if axis in bound.symbols or extents.keys() & bound.symbols:
            continue
        if bound.value is not None and extent.value is not None:
            return axis, ir.Index.of(max(0, min(bound.value, extent.value)))
        for shorter, longer in ((bound, extent), (extent, bound)):
            high = _most(shorter, instruction)
            if high is not None and longer.value is not None and high <= longer.value:
                return axis, shorter
    return None


def _count(expr: ir.Expr) -> ir.Index | None:
    match expr:
        case ir.IndexValue(index):
            return index
        case ir.Const(int(value)):
            return ir.Index.of(value)
        case _:
            return None


def _most(count: ir.Index, instruction: ir.Instruction) -> int | None:
    """Return the largest value of a count that is a run-time parameter, or None."""
    param = next((p for p in instruction.params if p.kind == "scalar" and str(count) == p.name), None)
    return param.high.value if param is not None and param.high is not None else None


def _pattern(instruction: ir.Instruction, statement: Statement) -> Pattern:
    """Return the pattern of a statement. Encoded parameters may match numbers of the kernel.

    `z[i] = a[i] >> S` with S encoded performs `Y[n] = X[n] >> 3` with S = 3.
    """
    value = with_encoded(statement.assign.value, encoded_params(instruction))
    return Pattern(instruction, replace(statement, assign=replace(statement.assign, value=value)))


def patterns_of(instruction: ir.Instruction) -> tuple[Pattern, ...]:
    """Return a pattern for each statement of an instruction, or () if one is ordered or conditional.

    A condition that asks predicate operands only is no hindrance: the predicate is set for the lanes in use.
    """
    return _patterns_of(instruction, instruction.span)


@lru_cache(maxsize=4096)
def _patterns_of(instruction: ir.Instruction, span: Span | None) -> tuple[Pattern, ...]:
    found: list[Pattern] = []
    for statement in _statements(instruction):
        guard = statement.assign.guard
        if statement.sequence or not (guard is None or is_predicate(guard, instruction)):
            return ()
        found.append(_pattern(instruction, statement))
    return tuple(p for n, p in enumerate(found) if not any(_overwrites(later, p) for later in found[n + 1 :]))


def _overwrites(later: Pattern, earlier: Pattern) -> bool:
    """Return whether a later statement overwrites every element that an earlier one writes."""
    return (
        later.statement.assign.op is None
        and later.target == earlier.target
        and later.axes == earlier.axes
        and all(r.buffer != later.target.buffer for r in reads(later.value))
    )


def is_predicate(guard: ir.Expr, instruction: ir.Instruction) -> bool:
    """Return whether a condition is a conjunction of elements of predicate operands."""
    match guard:
        case ir.Call("and", args):
            return all(is_predicate(a, instruction) for a in args)
        case ir.Read(buffer, _, dtype):
            return dtype == BOOL and instruction.operand(buffer).role == "in"
        case _:
            return False


Digits = tuple[tuple[str, int], ...]


def digits_of(index: ir.Index, extents: dict[str, int]) -> Digits | None:
    """Return the axes of a mixed-radix subscript with their steps, largest step first, or None.

    `2*k + p` with p in 2 gives ((k, 2), (p, 1)). `p + r` gives None, for two of its values coincide.
    """
    if index.constant:
        return None
    steps: list[tuple[str, int]] = []
    for axis in index.symbols:
        coefficient = index.coefficient(axis)
        if axis not in extents or coefficient is None or coefficient.value is None or coefficient.value <= 0:
            return None
        if extents[axis] > 1:
            steps.append((axis, coefficient.value))
    steps.sort(key=lambda s: (-s[1], s[0]))
    reach = 1
    for axis, step in reversed(steps):
        if step != reach:
            return None
        reach = step * extents[axis]
    return tuple(steps)


def invert(
    subscripts: tuple[ir.Index, ...], extents: dict[str, int], dims: tuple[str, ...]
) -> dict[str, ir.Index] | None:
    """Return each axis as an expression of the coordinates `dims`, or None if they do not determine it.

    Axes of extent one are 0. An axis that the subscripts do not use is left out.
    """
    found: dict[str, ir.Index] = {a: ZERO for a, e in extents.items() if e == 1}
    for subscript, dim in zip(subscripts, dims, strict=True):
        digits = digits_of(subscript, extents)
        if digits is None:
            return None
        for position, (axis, step) in enumerate(digits):
            if axis in found:
                return None
            quotient = ir.Index.of(dim).floordiv(step)
            found[axis] = quotient if position == 0 else quotient.mod(extents[axis])
    return found


def span_factor(pattern: Pattern, masks: Mapping[str, ir.Index]) -> float:
    """Return the elements of a register divided by those that a mask selects. It is 1 for a run-time mask."""
    factor = 1.0
    for param in pattern.instruction.params:
        taken = masks[param.name].value if param.name in masks else None
        whole = param.high.value if param.high else None
        if taken and whole and taken < whole:
            factor *= whole / taken
    return factor
