"""Conditions on sizes, parameters and the order of sums: the requirements of a mapping besides its axes.

matmul adds up 16 terms of k at once: the kernel is strict
lowest covers 16 of k at once: K need not be a multiple of 16, and no fill of a leaves the minimum alone
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from isamap.ir import FLUSHING, NUMERICS, REORDERING, Axis, Constraint, Index
from isamap.ir.bind import comparison_holds
from isamap.ir.facts import known_facts
from isamap.match.mappings.exact import can_be_met
from isamap.match.mappings.mapping import AxisGroup, Mapping
from isamap.match.patterns.padding import neutral_fills
from isamap.match.patterns.pattern import Pattern
from isamap.match.patterns.reach import Params
from isamap.match.refusals.heads import verb
from isamap.match.refusals.kernel_edits import add_where, remove_strict
from isamap.match.refusals.rejection import OTHER, Case, Cause
from isamap.match.tiles.operand_tiles import profile_sizes
from isamap.match.tiles.walks import choose_params
from isamap.transform import reads


def refuse_parameters(case: Case) -> Cause | None:
    """Return an instruction whose `where` contradicts the ranges of its parameters."""
    instruction = case.item.instruction
    if can_be_met(instruction):
        return None
    ranges = ", ".join(f"{p.name} in {p.low}..{p.high}" for p in instruction.params if p.low and p.high)
    stated = ", ".join(f"{c.left} {c.comparison} {c.right}" for c in instruction.where)
    message = f"requires {stated}, which cannot be met" + (f" with {ranges}" if ranges else "")
    span = next((c.span for c in instruction.where if c.span), instruction.span)
    return Cause("precondition-unmeetable", message, case.statement.assign.span, span, OTHER)


def refuse_order(case: Case) -> Cause | None:
    """Floating-point sums of a strict kernel run term by term, each term rounded."""
    if not case.kernel.strict or not case.performed:
        return None
    whys = [_reassociates(case, m) for m in case.performed]
    if not all(whys):
        return None
    edits = remove_strict(case.kernel)
    message = f"{whys[0]}: the kernel is strict"
    assert case.pattern is not None
    span = case.pattern.statement.assign.span
    edit = f"declare reassociation: `kernel {case.kernel.name}`, without `strict`"
    return Cause("reassociation-forbidden", message, case.statement.assign.span, span, edit, edits)


def _reassociates(case: Case, mapping: Mapping) -> str | None:
    """In which way terms would be added otherwise than the text says."""
    pattern, statement = case.pattern, case.statement
    assert pattern is not None
    if statement.assign.op not in ("add", "mul") or not statement.accumulator.is_float:
        return None
    words = sorted(REORDERING & set(pattern.instruction.numerics))
    if words:
        return f"sums {' and '.join(words)}"
    summed = [a for a in statement.reduction_axes if a.extent.value != 1]
    if len(summed) > 1:
        return f"may add up terms of {' and '.join(a.name for a in summed)} in any order"
    inside = {k: g for g in mapping.groups for k in g.kernel_axes}
    for axis in summed:
        if axis.name in inside:
            return f"adds up several terms of {axis.name} at once"
    return None


def refuse_flushing(case: Case) -> Cause | None:
    """Subnormal numbers of a strict kernel are numbers."""
    if not case.kernel.strict or not case.performed:
        return None
    words = sorted(FLUSHING & set(case.item.instruction.numerics))
    if not words:
        return None
    message = f"says {' and '.join(words)} ({NUMERICS[words[0]]}): the kernel is strict"
    edits = remove_strict(case.kernel)
    edit = f"allow it: `kernel {case.kernel.name}`, without `strict`"
    span = case.item.instruction.span
    return Cause("subnormals-lost", message, case.statement.assign.span, span, edit, edits)


# --- what is left of an axis ------------------------------------------------------------------------------


def refuse_padding(case: Case) -> Cause | None:
    """Lanes beyond the end of a sum must be able to hold something that it does not notice."""
    assert case.pattern is not None
    if case.statement.assign.op is None or not case.performed:
        return None
    first: Cause | None = None
    for mapping in case.performed:
        cause = next(_unpadded(case, mapping), None)
        if cause is None:
            return None
        first = first or cause
    return first


def _unpadded(case: Case, mapping: Mapping) -> Iterator[Cause]:
    pattern = case.pattern
    assert pattern is not None
    output = {s for i in pattern.target.index for s in i.symbols}
    for group in mapping.groups:
        axes = [a for a in pattern.axes if a.name in group.instruction_axes]
        if output & set(group.instruction_axes):
            continue
        lowest = [_lowest(case, a) for a in axes]
        if any(n is None for n in lowest):  # masked
            continue
        step = prod(n for n in lowest if n is not None)
        extent = _extent(case, group)
        if step == 1 or extent.divide_exactly(Index.of(step)) is not None:
            continue
        shown = frozenset(
            r.buffer
            for r in reads(pattern.value)
            if not any(s in group.instruction_axes for i in r.index for s in i.symbols)
        )
        if neutral_fills(pattern, frozenset((shown,)), finite=True) is None:
            yield _cause_of_padding(case, group, axes, step)


def _lowest(case: Case, axis: Axis) -> int | None:
    """Return the shortest length of an instruction's axis; None where a run-time parameter masks it."""
    value = axis.extent.value
    if value is not None:
        return value
    params = {p.name: p for p in case.item.instruction.params}
    bounds: dict[str, Index | int] = {}
    for s in axis.extent.symbols:
        param = params.get(s)
        if param is not None and param.kind == "scalar":
            return None
        bounds[s] = param.low if param is not None and param.low is not None else 1
    return axis.extent.substitute(bounds).value or 1


def _extent(case: Case, group: AxisGroup) -> Index:
    """Return how many points a group has, over what `where` leaves free."""
    total = Index.of(1)
    for name in group.kernel_axes:
        total = total * case.statement.axis(name).extent
    return total.substitute(known_facts(case.kernel).bindings)


def _cause_of_padding(case: Case, group: AxisGroup, axes: list[Axis], step: int) -> Cause:
    assert case.pattern is not None
    names = ".".join(group.kernel_axes)
    extent = Index.of(1)
    for name in group.kernel_axes:
        extent = extent * case.statement.axis(name).extent
    op = verb(case.statement.assign.op)
    message = (
        f"covers {step} of {names} at once and {op}: {extent} need not be a multiple, and nothing that its "
        "operands hold beyond the end leaves the result alone"
    )
    reason = (
        "padding-not-neutral" if all(a.extent.value is not None for a in axes) else "parameter-out-of-range"
    )
    span, own = case.statement.axis(group.kernel_axes[0]).span, axes[0].span
    if extent.value is not None:
        edit = f"pad {names} from {extent} to {-(-extent.value // step) * step}"
        return Cause(reason, message, span, own, edit)
    constraint = f"{extent} % {step} == 0" if len(extent.terms) == 1 else f"({extent}) % {step} == 0"
    edits = add_where(case.kernel, constraint)
    return Cause(reason, message, span, own, f"`where {constraint}`", edits)


# --- preconditions ----------------------------------------------------------------------------------------


def refuse_preconditions(case: Case) -> Cause | None:
    """Return the precondition on parameters, or on an operand's layout, that no mapping meets."""
    pattern, statement = case.pattern, case.statement
    assert pattern is not None
    if not pattern.instruction.where or not case.performed:
        return None
    profile = profile_sizes(statement)
    tried = [choose_params(statement, m, pattern, profile) for m in case.performed]
    unmet = [_unmet(pattern, params) for params in tried]
    if not all(unmet):
        return None
    stated = ", ".join(f"{c.left} {c.comparison} {c.right}" for c in unmet[0])
    chosen = ", ".join(f"{n} = {v}" for n, v in sorted(tried[0].items()))
    rest = f"; the statement fills {chosen}" if chosen else ", which is not promised"
    edit = "sizes that fill the instruction, or padding to them" if chosen else OTHER
    span, own = statement.assign.span, unmet[0][0].span
    return Cause("precondition-fails", f"requires {stated}{rest}", span, own, edit)


def _unmet(pattern: Pattern, params: Params) -> tuple[Constraint, ...]:
    """Return constraints that parameters do not meet, or that concern a layout; isamap chooses the others."""
    found: list[Constraint] = []
    for c in pattern.instruction.where:
        left, right = c.left.substitute(params), c.right.substitute(params)
        if left.value is None or right.value is None:
            if any("(" in s for s in left.symbols | right.symbols):  # stride(a,0), align(a)
                found.append(c)
        elif not comparison_holds(left.value, c.comparison, right.value):
            found.append(c)
    return tuple(found)
