"""Conditions on elements: those of an issue correspond to those of the kernel's arrays one to one.

window: would share elements of `X[2*p + r]` as it does those of a[p + r]
outer: would write one element of `Y[p*s + r]` twice, unless R <= s
"""

from __future__ import annotations

from itertools import islice

from isamap.ir import Index, Read, print_expr
from isamap.match.mappings.enumerate import find_candidates
from isamap.match.mappings.mapping import Mapping
from isamap.match.mappings.validity import Violation, first_violation
from isamap.match.patterns.unify import Binding
from isamap.match.refusals.kernel_edits import Edits, add_where, brief, is_whole, replace_by
from isamap.match.refusals.rejection import OTHER, Case, Cause
from isamap.source.records import replace
from isamap.transform import reads

_LOOKED_AT = 24
"""Candidates of one instruction whose violation is asked for."""


def refuse_elements(case: Case) -> Cause | None:
    """Candidates there are, but in each some elements do not belong together."""
    pattern, statement = case.pattern, case.statement
    assert pattern is not None
    candidates = [
        m
        for m in islice(find_candidates(pattern, statement, case.number), 4 * _LOOKED_AT)
        if m.kind != "degenerate"
    ][:_LOOKED_AT]
    if not candidates:
        return _not_at_once(case)
    found: list[tuple[Mapping, Violation]] = []
    for mapping in candidates:
        violation = first_violation(pattern, statement, mapping, case.kernel)
        if violation is None or violation.clause == "parameters":
            return None
        found.append((mapping, violation))
    mapping, violation = next((f for f in found if not f[1].is_certain), found[0])
    if violation.clause == "output-elements":
        return _overlap(case, mapping, violation)
    if violation.clause == "operand-twice":
        return _meeting(case, mapping, violation)
    return _shared(case, mapping, violation)


def _not_at_once(case: Case) -> Cause:
    """Each axis has a place, but not all of them at once."""
    assert case.pattern is not None
    names = ", ".join(a.name for a in case.pattern.axes)
    message = f"runs over {names}: the statement has an axis for each, but not a different one for each"
    span, own = case.statement.assign.span, case.pattern.axes[0].span
    return Cause("axis-has-no-place", message, span, own, OTHER)


# --- outputs ----------------------------------------------------------------------------------------------


def _overlap(case: Case, mapping: Mapping, violation: Violation) -> Cause:
    assert case.pattern is not None
    target = case.statement.assign.target
    required = _apart(case, mapping)
    mine = print_expr(case.pattern.target)
    message = (
        f"would write elements of `{print_expr(target)}` twice in one issue, where `{mine}` are different"
    )
    if not required:
        edit = "another instruction, along one of these axes"
        if violation.is_certain:
            return Cause("output-overlap", message, target.span, case.pattern.target.span, edit)
        return _open(case, target, case.pattern.target, message)
    message += f", unless {' and '.join(required)}"
    edits = add_where(case.kernel, ", ".join(required))
    edit = f"`where {', '.join(required)}`"
    return Cause("output-overlap", message, target.span, case.pattern.target.span, edit, edits)


def _apart(case: Case, mapping: Mapping) -> tuple[str, ...]:
    """Return conditions on sizes under which no two iterations of an issue meet: `R <= s` for `Y[p*s + r]`."""
    inside = {k for g in mapping.groups for k in g.kernel_axes}
    found: list[str] = []
    for index in case.statement.assign.target.index:
        axes = [a for a in case.statement.axes if a.name in inside & index.symbols]
        steps = {a.name: index.coefficient(a.name) for a in axes}
        if len(axes) != 2:
            continue
        for far, near in (axes, axes[::-1]):
            step, small = steps[far.name], steps[near.name]
            if step is None or small is None or small.value != 1:
                continue
            if step.value == 1 or (step.value is not None and near.extent.value is not None):
                continue
            found.append(f"{near.extent} <= {step}")
            break
    return tuple(found)


# --- operands ---------------------------------------------------------------------------------------------


def _shared(case: Case, mapping: Mapping, violation: Violation) -> Cause:
    pattern = case.pattern
    assert pattern is not None
    found = _read_as(case, mapping, violation)
    binding, own = found[0] if found else (None, pattern.target)
    subject = case.statement.assign.target if binding is None else binding.subject
    read = subject if isinstance(subject, Read) else next(iter(reads(subject)), case.statement.assign.target)
    mine, theirs = print_expr(own), brief(read)
    message = (
        f"reads {mine} where the statement has `{theirs}`: iterations that share an element of the one do "
        "not share one of the other"
    )
    if not violation.is_certain:
        return _open(case, read, own, message)
    if any(len([a for a in pattern.axes if a.name in i.symbols]) > 1 for i in own.index):
        at_its_step = _stepping(own, read, mapping)
        message = f"moves its window by the steps of {mine}; the statement moves it by those of `{theirs}`"
        edit, edits = OTHER, ()
        if at_its_step is not None:
            edit = f"`{print_expr(at_its_step)}`, which is another value"
            edits = replace_by(read, print_expr(at_its_step)) if is_whole(case.kernel) else ()
        return Cause("window-stride", message, read.span, own.span, edit, edits)
    return Cause("elements-shared", message, read.span, own.span, OTHER)


def _read_as(case: Case, mapping: Mapping, violation: Violation) -> list[tuple[Binding, Read]]:
    """Return, for each read of the operand in question, the expression that it stands for."""
    assert case.pattern is not None
    own = {(r.buffer, r.index): r for r in reads(case.pattern.value)}
    required = [(violation.operand, index) for index in violation.reads]
    bound = {(b.name, b.pattern): b for b in mapping.bindings}
    return [(bound[read], own[read]) for read in required]


def _meeting(case: Case, mapping: Mapping, violation: Violation) -> Cause:
    """Return the cause that one element of an operand would be two of the statement's, as it is read twice."""
    (one, mine), (other, its) = _read_as(case, mapping, violation)
    first, second = brief(one.subject), brief(other.subject)
    message = (
        f"reads one element as `{print_expr(mine)}` and as `{print_expr(its)}`: it would be two, "
        f"`{first}` and `{second}`"
    )
    read = other.subject if isinstance(other.subject, Read) else next(iter(reads(other.subject)), None)
    if not violation.is_certain and read is not None:
        return _open(case, read, its, message)
    return Cause("operand-twice", message, other.subject.span, its.span, OTHER)


def _stepping(own: Read, read: Read, mapping: Mapping) -> Read | None:
    """Return the statement's access at the steps that the instruction takes."""
    runs = {
        g.instruction_axes[0]: g.kernel_axes[0]
        for g in mapping.groups
        if len(g.instruction_axes) == len(g.kernel_axes) == 1
    }
    changed = list(read.index)
    for index in own.index:
        steps = {runs[s]: index.coefficient(s) for s in index.symbols if s in runs}
        places = [n for n, i in enumerate(changed) if i.symbols & steps.keys()]
        if not steps or len(steps) != len(index.symbols) or len(places) > 1:
            continue  # not the same window
        for axis, step in steps.items():
            before = changed[places[0]].coefficient(axis) if places else None
            if step is None or before is None or not before.terms:
                return None
            changed[places[0]] = changed[places[0]] + (step - before) * Index.of(axis)
    found = replace(read, index=tuple(changed))
    return found if found != read else None


def _open(case: Case, read: Read, own: Read, message: str) -> Cause:
    """Not refuted, but not proved either: sizes are open."""
    sizes = {p.name for p in case.kernel.params if p.dtype is None}
    axes = {a.name for a in (*case.statement.axes, *case.statement.sequence)}
    factors = sorted(
        {s for i in read.index for a in axes & i.symbols for s in _symbols(i.coefficient(a))} & sizes
    )
    if factors:
        ones = ", ".join(f"{s} == 1" for s in factors)
        given = " ".join(f"{s}=…" for s in factors)
        message += f", or that is not proved for every {' and '.join(factors)}"
        edits: Edits = add_where(case.kernel, ones)
        edit = f"`where {ones}`, or the sizes that matter: `-D {given}`"
        return Cause("symbolic-sizes", message, read.span, own.span, edit, edits)
    given = " ".join(f"{p.name}=…" for p in case.kernel.params if p.dtype is None)
    edit = f"the sizes that matter: `-D {given}`"
    return Cause(
        "symbolic-sizes", f"{message}, or that is not proved for all sizes", read.span, own.span, edit
    )


def _symbols(index: Index | None) -> frozenset[str]:
    return index.symbols if index is not None else frozenset()
