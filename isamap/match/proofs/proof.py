"""Prove that a mapping is sound, with integer sets and a few lemmas, independent of the search.

    prove(pattern, statement, mapping, kernel)  ==  Proof("proved", "")

The proof covers all sizes that `where` allows, every order of fusion and every position of an issue. It shows
that lanes which access one element of an operand stand for one element of the tensor, and that different
elements of an output stand for different ones. Every iteration of the kernel is performed by one lane of one
issue, and unused lanes change nothing. Three lemmas reach what isl cannot, because sizes multiply each other:

*Numbering.* To number the points of a box in a fixed order of its axes is one to one, whatever its extents.
So, in one issue, lanes of a group are equal exactly when its kernel axes are, for any order of fusion; and
blocks of lanes of any lengths cover all points.

*Congruence.* A term that depends only on the axes of some groups is equal if their lanes are equal, however
it depends on them: `X[p*stride + r]` needs no product to be understood when operand elements determine p and
r.

*Cancellation.* Two iterations of one issue have equal terms for the axes outside the issue; these drop out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from collections.abc import Mapping as MappingType
from itertools import chain, combinations, islice, product
from math import prod
from typing import Literal, TypeVar

from isamap.ir.dtypes import converts_exactly, strict_forbids
from isamap.ir.index import Index
from isamap.ir.nodes import Call, Cast, Constraint, Expr, Kernel, Read, Scalar
from isamap.ir.ops import OPS
from isamap.ir.printer import print_expr
from isamap.ir.substitute import substitute_routine
from isamap.ir.walk import indices, with_parts
from isamap.match.mappings.exact import can_be_met, largest_parameters
from isamap.match.mappings.mapping import AxisGroup, Mapping
from isamap.match.patterns.padding import Shown, neutral_fills
from isamap.match.patterns.pattern import Pattern
from isamap.match.patterns.unify import read_twice
from isamap.match.proofs import affine
from isamap.source.records import dataclass, replace
from isamap.transform import Statement, reads, statements, tells_apart
from isamap.transform.statements import number_without_effect


@dataclass(frozen=True, slots=True)
class Proof:
    """The result of a soundness proof of a mapping. `reason` says which step is open if it is not proved."""

    status: Literal["proved", "unproved"]
    reason: str = ""


MOST_VALUES = 64


class _OpenQuestion(Exception):
    """An exception: a step could not be proved."""


@dataclass(frozen=True, slots=True)
class _Case:
    """A mapping with the data that its proof needs.

    `lengths` are the largest lengths of the instruction's axes, 1 for axes on which nothing runs. `extents`
    are those of the kernel's axes. `facts` are the known facts about sizes.
    """

    pattern: Pattern
    statement: Statement
    mapping: Mapping
    lengths: MappingType[str, int]
    extents: MappingType[str, Index]
    facts: tuple[Constraint, ...]

    @property
    def groups(self) -> tuple[AxisGroup, ...]:
        return self.mapping.groups

    def own(self, subscripts: Sequence[Index]) -> tuple[Index, ...]:
        """Return the instruction's subscripts with parameters at their largest values."""
        return tuple(i.substitute(largest_parameters(self.pattern.instruction)) for i in subscripts)

    def lanes_of(self, groups: Sequence[AxisGroup]) -> list[str]:
        """Return the instruction axes of the groups whose length exceeds 1."""
        return [i for g in groups for i in g.instruction_axes if self.lengths[i] > 1]


def prove(pattern: Pattern, statement: Statement, mapping: Mapping, kernel: Kernel | None = None) -> Proof:
    """Return the proof that the mapping is sound. `kernel` has the facts about its sizes (default: at least 1)."""
    # The parameters on which subscripts depend.
    used = _used_axes(tuple(chain.from_iterable(r.index for r in (pattern.target, *reads(pattern.value)))))
    moving = tuple(p.name for p in pattern.instruction.params if p.name in used)
    values = tuple(islice(_values_of(pattern, moving), MOST_VALUES + 1))
    if len(values) > MOST_VALUES:
        return Proof("unproved", f"elements of the instruction move with {', '.join(moving)}, of any value")
    if twice := read_twice(mapping.bindings):
        return Proof("unproved", f"{twice[0]} is read at two subscripts, and stands for two expressions")
    proofs = (_prove(*_with_values(pattern, mapping, chosen), statement, kernel) for chosen in values)
    return next((p for p in proofs if p.status == "unproved"), Proof("proved"))


def _prove(pattern: Pattern, mapping: Mapping, statement: Statement, kernel: Kernel | None) -> Proof:
    try:
        case = _case(pattern, statement, mapping, kernel)
        subjects = {b.name: b.subject for b in case.mapping.bindings}
        if _canonical(_fill_operands(case.pattern.value, subjects)) != _canonical(
            case.statement.assign.value
        ):
            raise _OpenQuestion("the expressions differ")
        own, theirs = case.pattern.statement.assign, case.statement.assign
        if own.op != theirs.op:
            raise _OpenQuestion("the operations differ")
        required = theirs.target.dtype if theirs.op is None else case.statement.accumulator
        if own.target.dtype != required:
            raise _OpenQuestion(f"the instruction's result is {own.target.dtype}, not {required}")
        _all_once(case)
        for binding in mapping.bindings:
            _elements_follow(case, binding.name, binding.pattern, tuple(indices(binding.subject)))
        target = statement.assign.target
        _elements_follow(case, pattern.target.buffer, pattern.target.index, target.index)
        _written_apart(case)
        _padding_is_neutral(case)
        if kernel is not None and kernel.strict:
            _check_order(case)
    except _OpenQuestion as question:
        return Proof("unproved", str(question))
    return Proof("proved")


# --- what the mapping says --------------------------------------------------------------------------------


def _case(pattern: Pattern, statement: Statement, mapping: Mapping, kernel: Kernel | None) -> _Case:
    if statement.assign.guard is not None:
        raise _OpenQuestion("the statement runs only where a guard holds")
    if not can_be_met(pattern.instruction):
        raise _OpenQuestion("no parameters meet the preconditions of the instruction")
    highs = largest_parameters(pattern.instruction)
    running = {i for g in mapping.groups for i in g.instruction_axes}
    lengths: dict[str, int] = {}
    for axis in pattern.axes:
        length = axis.extent.substitute(highs).value
        if length is None and axis.name in running:
            raise _OpenQuestion(f"the length of the instruction's axis {axis.name} is not known")
        lengths[axis.name] = 1 if length is None or axis.name not in running else length
    extents = {a.name: a.extent for a in (*statement.axes, *statement.sequence)}
    lets = {let.name: let.value for let in kernel.lets} if kernel is not None else {}
    extents = {a: e.substitute(lets) for a, e in extents.items()}
    facts = kernel.where if kernel is not None else ()
    return _Case(pattern, statement, mapping, lengths, extents, facts)


def _values_of(pattern: Pattern, names: Sequence[str]) -> Iterator[dict[str, Index | int]]:
    """Yield all combinations of values of some parameters. It is endless if one has no limit."""
    highs = largest_parameters(pattern.instruction)
    lows = {p.name: p.low.value or 0 if p.low is not None else 1 for p in pattern.instruction.params}
    if any(n not in highs for n in names):
        yield from ({} for _ in range(MOST_VALUES + 1))
        return
    for chosen in product(*(range(lows[n], highs[n] + 1) for n in names)):
        yield dict(zip(names, chosen, strict=True))


def _with_values(
    pattern: Pattern, mapping: Mapping, values: MappingType[str, Index | int]
) -> tuple[Pattern, Mapping]:
    """Return the pattern and the mapping with numbers in place of some parameters."""
    if not values:
        return pattern, mapping
    left = tuple(p for p in pattern.instruction.params if p.name not in values)
    instruction = replace(substitute_routine(pattern.instruction, values), params=left)
    number = statements(pattern.instruction).index(pattern.statement)
    bindings = tuple(
        replace(b, pattern=tuple(i.substitute(values) for i in b.pattern)) for b in mapping.bindings
    )
    return Pattern(instruction, statements(instruction)[number]), replace(mapping, bindings=bindings)


def _fill_operands(e: Expr, subjects: MappingType[str, Expr]) -> Expr:
    """Return an instruction's expression with each operand replaced by the kernel's expression.

    The subjects belong to the kernel: their names have no meaning among the instruction's names.
    """
    match e:
        case Read(str(name)) | Scalar(str(name)) if name in subjects:
            return subjects[name]
        case _:
            return with_parts(e, lambda part: _fill_operands(part, subjects))


def _canonical(expr: Expr) -> str:
    match expr:
        case Call(op, (one, other)) if other == number_without_effect(op, 1, other.dtype):
            return _canonical(one)
        case Call(op, (one, other)) if one == number_without_effect(op, 0, one.dtype):
            return _canonical(other)
        case Call(op, args):
            parts = [_canonical(a) for a in args]
            ordered = sorted(parts) if OPS[op].commutative else parts
            return f"{op}.{expr.mode}:{expr.dtype}({', '.join(ordered)})"
        case Cast(Cast() as inner) if _widens(inner) and inner.value.dtype != expr.dtype:
            return _canonical(Cast(inner.value, expr.dtype, expr.mode))
        case Cast(value):
            return f"{expr.dtype}.{expr.mode}({_canonical(value)})"
        case _:
            return f"{print_expr(expr)}:{expr.dtype}"


def _widens(cast: Cast) -> bool:
    return cast.mode == "exact" and converts_exactly(cast.value.dtype, cast.dtype)


# --- every iteration once ---------------------------------------------------------------------------------


def _all_once(case: _Case) -> None:
    """Check that each kernel axis is in one group or one loop, and each instruction axis in one group, or unused."""
    kernel = [k for g in case.groups for k in g.kernel_axes]
    lanes = [*(i for g in case.groups for i in g.instruction_axes), *case.mapping.empty]
    if len(set(kernel)) < len(kernel) or len(set(lanes)) < len(lanes):
        raise _OpenQuestion("an axis is in two places")
    if not set(kernel) <= {a.name for a in case.statement.axes}:
        raise _OpenQuestion("an ordered loop runs inside of the instruction")
    for group in case.groups:
        lengths = tuple(case.lengths[i] for i in group.instruction_axes)
        extents = tuple(case.extents[k].value for k in group.kernel_axes)
        numbers = tuple(e for e in extents if e is not None)
        if affine.covers_once(lengths) is not True:
            raise _OpenQuestion(f"blocks over {group.name} were not shown to cover it once")
        if len(numbers) == len(extents) > 1 and affine.counts_once(numbers) is not True:
            raise _OpenQuestion(f"the order of {group.name} was not shown to reach every point")


def _check_order(case: _Case) -> None:
    """Check that a strict float sum adds term by term, along its one axis, and omits no term."""
    is_sum = case.statement.assign.op is not None and case.statement.accumulator.is_float
    summed = {a.name for a in case.statement.reduction_axes} if is_sum else set[str]()
    inside = any(case.lanes_of([g]) for g in case.groups if summed & set(g.kernel_axes))
    if inside or len(summed) > 1 or strict_forbids(case.pattern.instruction.numerics):
        raise _OpenQuestion("the kernel is strict, and the order of its sum or a rounding may change")


# --- elements ---------------------------------------------------------------------------------------------


def _elements_follow(case: _Case, operand: str, own: tuple[Index, ...], theirs: tuple[Index, ...]) -> None:
    """Check that lanes with the same element of an operand stand for the same elements of the kernel's arrays."""
    own = case.own(own)
    needed = [g for g in case.groups if any(k in i.symbols for i in theirs for k in g.kernel_axes)]
    lanes = {i: Index.of(n) for i, n in case.lengths.items() if n > 1}
    asked = case.lanes_of(needed)
    if not asked or affine.determines_axes(own, lanes, asked):
        return
    if not _all_implied(case, own, theirs, from_lanes=True):
        raise _OpenQuestion(f"elements of {operand} were not shown to stand for one element each")


def _written_apart(case: _Case) -> None:
    """Check that different elements of the output are different elements of the target."""
    own, theirs = case.own(case.pattern.target.index), case.statement.assign.target.index
    groups = [g for g in case.groups if any(i in s.symbols for s in own for i in g.instruction_axes)]
    groups = [g for g in groups if case.lanes_of([g])]
    axes = {k: case.extents[k] for g in groups for k in g.kernel_axes}
    if not axes or affine.determines_axes(theirs, axes, axes) or tells_apart(theirs, axes):
        return
    if not _all_implied(case, own, theirs, from_lanes=False):
        raise _OpenQuestion("two elements of the output were not shown to be two of the array")


def _all_implied(case: _Case, own: tuple[Index, ...], theirs: tuple[Index, ...], *, from_lanes: bool) -> bool:
    """Return whether equal subscripts on one side imply equal ones on the other, for all lengths of shared axes.

    The iteration of a lane on one such axis depends on the lengths of the others.
    """
    shared = {i for g in case.groups if len(g.instruction_axes) > 1 for i in g.instruction_axes}
    deciding = {s for a in case.pattern.axes if a.name in shared for s in a.extent.symbols}
    names = [p.name for p in case.pattern.instruction.params if p.name in deciding]
    found = list(islice(_values_of(case.pattern, names), MOST_VALUES + 1))
    if len(found) > MOST_VALUES:
        return False
    highs = largest_parameters(case.pattern.instruction)
    for values in found:
        lengths = {
            a.name: a.extent.substitute(values).substitute(highs).value or 1 if a.name in shared else length
            for a, length in zip(case.pattern.axes, case.lengths.values(), strict=True)
        }
        pairs = affine.Pairs(case.groups, lengths, case.extents)
        if affine.implies_equality(own, theirs, pairs, from_lanes=from_lanes) is not True:
            return False
    return True


# --- lanes that stand for nothing -------------------------------------------------------------------------


def _padding_is_neutral(case: _Case) -> None:
    """Check that lanes beyond the end, and unused lanes, leave the written element unchanged."""
    padded = list(_padded_cases(case))
    written = _used_axes(case.pattern.target.index)
    outer = [p for p in padded if p & written]
    lanes = {i: Index.of(n) for i, n in _full_lengths(case.pattern).items() if n > 1}
    asked = sorted({i for p in outer for i in p if i in lanes})
    if not all(p <= written for p in outer) or (
        asked and not affine.determines_axes(case.own(case.pattern.target.index), lanes, asked)
    ):
        raise _OpenQuestion("lanes beyond the end may write elements that are in use")
    inner = [p for p in padded if not p & written]
    if not inner:
        return
    shown = frozenset(s for some in _subsets(inner) if some for s in _show_lanes(case, some, lanes))
    if neutral_fills(case.pattern, shown) is None:
        names = ", ".join(sorted({a for p in inner for a in p}))
        raise _OpenQuestion(f"lanes beyond the end of {names} count, unless sizes are whole tiles")


def _padded_cases(case: _Case) -> Iterator[frozenset[str]]:
    """Yield sets of instruction axes along which lanes may have no iteration at the same time.

    There are no such lanes if extents are whole tiles, if a parameter shortens the axis, or if a predicate
    switches the lanes off.
    """
    guard = case.pattern.statement.assign.guard
    masked = _used_axes(tuple(indices(guard))) if guard is not None else frozenset[str]()
    full = _full_lengths(case.pattern)
    for group in case.groups:
        tile = prod(full[i] for i in group.instruction_axes)
        own = frozenset(i for i in group.instruction_axes if full[i] > 1)
        fits = any(affine.divides(tile, case.extents[k], case.facts) for k in group.kernel_axes)
        numbers = [case.extents[k].value for k in group.kernel_axes]
        fits = fits or (None not in numbers and prod(n or 1 for n in numbers) % tile == 0)
        shortened = len(group.instruction_axes) == 1 and _can_be_one(case.pattern, *group.instruction_axes)
        if own and not fits and not shortened and not own <= masked:
            yield own
    running = {i for g in case.groups for i in g.instruction_axes}
    for axis, length in full.items():
        if axis not in running and length > 1 and axis not in masked and not _can_be_one(case.pattern, axis):
            yield frozenset({axis})


def _full_lengths(pattern: Pattern) -> dict[str, int]:
    """Return the largest lengths of all axes, or 1 for those without an upper bound, whose length is arbitrary."""
    highs = largest_parameters(pattern.instruction)
    return {a.name: a.extent.substitute(highs).value or 1 for a in pattern.axes}


def _can_be_one(pattern: Pattern, name: str) -> bool:
    """Return whether a parameter determines the length of an axis alone, from one lane on."""
    extent = next(a.extent for a in pattern.axes if a.name == name)
    param = next((p for p in pattern.instruction.params if Index.of(p.name) == extent), None)
    if param is None or any(param.name in a.extent.symbols for a in pattern.axes if a.name != name):
        return False
    bound = any(param.name in side.symbols for c in pattern.instruction.where for side in (c.left, c.right))
    return not bound and (param.low is None or (param.low.value is not None and param.low.value <= 1))


def _used_axes(subscripts: Sequence[Index]) -> frozenset[str]:
    return frozenset(s for i in subscripts for s in i.symbols)


def _show_lanes(case: _Case, padded: Sequence[frozenset[str]], lanes: dict[str, Index]) -> Iterator[Shown]:
    """Yield the sets of operands that may have a valid element in lanes without an iteration."""
    axes = frozenset[str]().union(*padded)
    always: set[str] = set()
    perhaps: list[str] = []
    for binding in case.mapping.bindings:
        used = _used_axes(binding.pattern)
        if not used & axes:
            always.add(binding.name)
        elif not any(
            p <= used and affine.determines_axes(case.own(binding.pattern), lanes, sorted(p)) for p in padded
        ):
            perhaps.append(binding.name)
    yield from (frozenset((*always, *some)) for some in _subsets(perhaps))


T = TypeVar("T")


def _subsets(items: Sequence[T]) -> Iterator[tuple[T, ...]]:
    return chain.from_iterable(combinations(items, n) for n in range(len(items) + 1))
