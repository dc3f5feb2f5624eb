"""Conditions on axes: every instruction axis needs one of the statement that may run on it.

mma runs over j in b = F[c, r, s] and c = Y[n, c, p, q], but no axis of the statement is in these alone
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from isamap.ir import Axis
from isamap.match.enumerate import Signature, instruction_signature, kernel_signature, may_run_on
from isamap.match.instructions import Pattern
from isamap.match.kernel_text import are_legal, brief, unorder
from isamap.match.rejection import OTHER, Case, Cause
from isamap.match.unify import Bindings, places, unify
from isamap.transform import Statement


@dataclass(frozen=True, slots=True)
class _Homeless:
    """Instruction axes on which nothing may run, under one pairing of the operands."""

    bindings: Bindings
    axes: tuple[Axis, ...]


def refuse_axes(case: Case) -> Cause | None:
    """The first instruction axis without a place, under the pairing that leaves fewest."""
    pattern, statement = case.pattern, case.statement
    assert pattern is not None
    missing = [
        _Homeless(b, tuple(_axes_without_place(pattern, statement, b)))
        for b in unify(pattern.value, statement.assign.value)
    ]
    if not missing or not all(m.axes for m in missing):
        return None
    fewest = min(missing, key=lambda m: len(m.axes))
    axis = fewest.axes[0]
    wanted = instruction_signature(axis.name, pattern, fewest.bindings)
    runs = _runs_over(case, axis, wanted, fewest.bindings)
    return (
        _ordered(case, axis, wanted, fewest, runs)
        or _of_one(case, axis, wanted, fewest, runs)
        or _in_every_operand(case, axis, wanted, fewest, runs)
        or _nothing_like_it(case, axis, wanted, fewest, runs)
    )


def _axes_without_place(pattern: Pattern, statement: Statement, bindings: Bindings) -> Iterator[Axis]:
    given = [
        kernel_signature(a.name, statement.assign, bindings) for a in statement.axes if a.extent.value != 1
    ]
    for axis in pattern.axes:
        wanted = instruction_signature(axis.name, pattern, bindings)
        if axis.extent.value != 1 and not any(may_run_on(g, wanted) for g in given):
            yield axis


def _runs_over(case: Case, axis: Axis, wanted: Signature, bindings: Bindings) -> str:
    """`runs over j in b = F[c, r, s] and c = Y[n, c, p, q]`."""
    pattern = case.pattern
    assert pattern is not None
    inputs, is_output = wanted
    indexed = [*sorted(inputs), *([pattern.target.buffer] if is_output else [])]
    stands = {name: brief(b.subject) for name, b in places(bindings)}
    stands[pattern.target.buffer] = brief(case.statement.assign.target)
    names = " and ".join(f"{n} = {stands[n]}" for n in indexed if n in stands) or "no operand"
    never = "" if is_output else f", not {pattern.target.buffer} = {stands[pattern.target.buffer]}"
    return f"runs over {axis.name} in {names}{never}"


def _fitting(case: Case, axes: tuple[Axis, ...], wanted: Signature, bindings: Bindings) -> Axis | None:
    """The first of some axes of the statement that may run on the instruction's."""
    assign = case.statement.assign
    return next((a for a in axes if may_run_on(kernel_signature(a.name, assign, bindings), wanted)), None)


def _ordered(case: Case, axis: Axis, wanted: Signature, missing: _Homeless, runs: str) -> Cause | None:
    found = _fitting(case, case.statement.sequence, wanted, missing.bindings)
    if found is None:
        return None
    message = f"{runs}: only {found.name} does, and `seq` keeps that in order"
    edits = unorder(case.kernel, found.name)
    edit = f"`for {found.name} in {found.extent}`, for the order does not matter"
    if not edits or not are_legal(case.kernel, edits):
        edits, edit = (), f"another instruction: steps of {found.name} use what the ones before left"
    return Cause("ordered-axis", message, found.span, axis.span, edit, edits)


def _of_one(case: Case, axis: Axis, wanted: Signature, missing: _Homeless, runs: str) -> Cause | None:
    single = tuple(a for a in case.statement.axes if a.extent.value == 1)
    found = _fitting(case, single, wanted, missing.bindings)
    if found is None:
        return None
    message = f"{runs}: only {found.name} does, and its extent is 1{_utilisation(missing.axes)}"
    edit = f"more than one {found.name} at a time, as in a batch"
    return Cause("axis-of-one", message, found.span, axis.span, edit)


def _in_every_operand(
    case: Case, axis: Axis, wanted: Signature, missing: _Homeless, runs: str
) -> Cause | None:
    """Depthwise: an axis is in all operands that the instruction's is in, and in others besides."""
    bindings, assign = missing.bindings, case.statement.assign
    everywhere = frozenset(name for name, b in places(bindings) if b.pattern)
    found = next(
        (
            a
            for a in case.statement.axes
            if a.extent.value != 1
            and (given := kernel_signature(a.name, assign, bindings))[1] == wanted[1]
            and given[0] >= everywhere > wanted[0]
        ),
        None,
    )
    if found is None:
        return None
    others = sorted(everywhere - wanted[0])
    also = " and ".join(f"{name} = {brief(b.subject)}" for name, b in places(bindings) if name in others)
    message = f"{runs}: {found.name} does, but in {also} as well{_utilisation(missing.axes)}"
    edit = f"an axis besides {found.name} that {also} does not have, as a channel multiplier"
    return Cause("axis-in-every-operand", message, found.span, axis.span, edit)


def _nothing_like_it(case: Case, axis: Axis, wanted: Signature, missing: _Homeless, runs: str) -> Cause:
    pattern, statement = case.pattern, case.statement
    assert pattern is not None
    span, used = statement.assign.span, _utilisation(missing.axes)
    summed = [a for a in statement.reduction_axes if a.extent.value != 1]
    if not wanted[1] and not summed:
        message = f"{runs}: the statement has no axis that is reduced{used}"
        edit = "another instruction, element by element"
        return Cause("reduction-missing", message, span, axis.span, edit)
    if wanted[1] and wanted[0]:
        names = " and ".join(sorted(wanted[0]))
        message = f"{runs}: no axis of the statement is in these alone{used}"
        edit = f"a batch: several {names} at once, with an axis of their own in the result"
        return Cause("batch-missing", message, span, axis.span, edit)
    message = f"{runs}: no axis of the statement does{used}"
    return Cause("axis-has-no-place", message, span, axis.span, OTHER)


def _utilisation(axes: tuple[Axis, ...]) -> str:
    """What is busy when these axes have length one."""
    lanes = 1
    for axis in axes:
        lanes *= axis.extent.value or 1
    return f"; {100 / lanes:.3g} % of it would be busy" if lanes > 1 else ""
