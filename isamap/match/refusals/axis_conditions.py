"""Conditions on axes: every instruction axis needs a statement axis that may run on it.

mma runs over j in b = F[c, r, s] and c = Y[n, c, p, q], but no axis of the statement is in these alone

The first conditions concern one side alone: statements that no instruction can perform, and instructions that
can perform no statement.

An instruction of one plain statement performs a statement without a guard.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from math import prod

from isamap.ir.bind import comparison_holds
from isamap.ir.dtypes import FLUSHING, NUMERICS, REORDERING, converts_exactly
from isamap.ir.facts import known_facts
from isamap.ir.index import Index
from isamap.ir.nodes import Assign, Axis, Call, Cast, Constraint, Expr, Instruction, Read
from isamap.ir.printer import print_expr, print_stmt
from isamap.match.mappings.enumerate import (
    Signature,
    find_candidates,
    heads_agree,
    instruction_signature,
    kernel_signature,
    may_run_on,
)
from isamap.match.mappings.exact import can_be_met
from isamap.match.mappings.mapping import AxisGroup, Mapping
from isamap.match.mappings.validity import Violation, first_violation
from isamap.match.patterns.padding import neutral_fills
from isamap.match.patterns.pattern import Pattern
from isamap.match.patterns.reach import Params
from isamap.match.patterns.unify import Binding, Bindings, places, unify
from isamap.match.refusals.heads import verb
from isamap.match.refusals.kernel_edits import (
    Edits,
    abridge,
    add_where,
    are_legal,
    is_whole,
    remove_strict,
    replace_by,
    text_of,
    unorder,
    without_guard,
)
from isamap.match.refusals.rejection import OTHER, Failure, Pair
from isamap.match.tiles.operand_tiles import profile_sizes
from isamap.match.tiles.walks import choose_params
from isamap.source.records import dataclass, replace
from isamap.transform import Statement, identity_of, is_summed_everywhere, reads, statements


@dataclass(frozen=True, slots=True)
class _Homeless:
    """Instruction axes on which no statement axis may run, for one pairing of the operands."""

    bindings: Bindings
    axes: tuple[Axis, ...]


def refuse_axes(case: Pair) -> Failure | None:
    """Return the failure that an instruction axis has no statement axis, for the nearest pairing, or None."""
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
    required = instruction_signature(axis.name, pattern, fewest.bindings)
    runs = _runs_over(case, axis, required, fewest.bindings)
    return (
        _explain_order(case, axis, required, fewest, runs)
        or _of_one(case, axis, required, fewest, runs)
        or _in_every_operand(case, axis, required, fewest, runs)
        or _nothing_like_it(case, axis, required, fewest, runs)
    )


def _axes_without_place(pattern: Pattern, statement: Statement, bindings: Bindings) -> Iterator[Axis]:
    given = [
        kernel_signature(a.name, statement.assign, bindings) for a in statement.axes if a.extent.value != 1
    ]
    for axis in pattern.axes:
        required = instruction_signature(axis.name, pattern, bindings)
        if axis.extent.value != 1 and not any(may_run_on(g, required) for g in given):
            yield axis


def _runs_over(case: Pair, axis: Axis, required: Signature, bindings: Bindings) -> str:
    """Return text about the subscripts of an axis: `runs over j in b = F[c, r, s] and c = Y[n, c, p, q]`."""
    pattern = case.pattern
    assert pattern is not None
    inputs, is_output = required
    indexed = [*sorted(inputs), *([pattern.target.buffer] if is_output else [])]
    stands = {name: abridge(b.subject) for name, b in places(bindings)}
    stands[pattern.target.buffer] = abridge(case.statement.assign.target)
    names = " and ".join(f"{n} = {stands[n]}" for n in indexed if n in stands) or "no operand"
    never = "" if is_output else f", not {pattern.target.buffer} = {stands[pattern.target.buffer]}"
    return f"runs over {axis.name} in {names}{never}"


def _find_axis(case: Pair, axes: tuple[Axis, ...], required: Signature, bindings: Bindings) -> Axis | None:
    """Return the first statement axis that may run on the instruction axis, or None."""
    assign = case.statement.assign
    return next((a for a in axes if may_run_on(kernel_signature(a.name, assign, bindings), required)), None)


def _explain_order(
    case: Pair, axis: Axis, required: Signature, missing: _Homeless, runs: str
) -> Failure | None:
    found = _find_axis(case, case.statement.sequence, required, missing.bindings)
    if found is None:
        return None
    message = f"{runs}: only {found.name} does, and `seq` keeps that in order"
    edits = unorder(case.kernel, found.name)
    edit = f"`for {found.name} in {found.extent}`, for the order does not matter"
    if not edits or not are_legal(case.kernel, edits):
        edits, edit = (), f"another instruction: steps of {found.name} use the results of earlier ones"
    return Failure("ordered-axis", message, found.span, axis.span, edit, edits)


def _of_one(case: Pair, axis: Axis, required: Signature, missing: _Homeless, runs: str) -> Failure | None:
    single = tuple(a for a in case.statement.axes if a.extent.value == 1)
    found = _find_axis(case, single, required, missing.bindings)
    if found is None:
        return None
    message = f"{runs}: only {found.name} does, and its extent is 1{_utilisation(missing.axes)}"
    edit = f"more than one {found.name} at a time, as in a batch"
    return Failure("axis-of-one", message, found.span, axis.span, edit)


def _in_every_operand(
    case: Pair, axis: Axis, required: Signature, missing: _Homeless, runs: str
) -> Failure | None:
    """Return the failure that a statement axis indexes all operands, as in a depthwise convolution, or None."""
    bindings, assign = missing.bindings, case.statement.assign
    everywhere = frozenset(name for name, b in places(bindings) if b.pattern)
    found = next(
        (
            a
            for a in case.statement.axes
            if a.extent.value != 1
            and (given := kernel_signature(a.name, assign, bindings))[1] == required[1]
            and given[0] >= everywhere > required[0]
        ),
        None,
    )
    if found is None:
        return None
    others = sorted(everywhere - required[0])
    also = " and ".join(f"{name} = {abridge(b.subject)}" for name, b in places(bindings) if name in others)
    message = f"{runs}: {found.name} does, but in {also} as well{_utilisation(missing.axes)}"
    edit = f"an axis besides {found.name} that {also} does not have, as a channel multiplier"
    return Failure("axis-in-every-operand", message, found.span, axis.span, edit)


def _nothing_like_it(case: Pair, axis: Axis, required: Signature, missing: _Homeless, runs: str) -> Failure:
    pattern, statement = case.pattern, case.statement
    assert pattern is not None
    span, used = statement.assign.span, _utilisation(missing.axes)
    summed = [a for a in statement.reduction_axes if a.extent.value != 1]
    if not required[1] and not summed:
        message = f"{runs}: the statement has no axis that is reduced{used}"
        edit = "another instruction, element by element"
        return Failure("reduction-missing", message, span, axis.span, edit)
    if required[1] and required[0]:
        names = " and ".join(sorted(required[0]))
        message = f"{runs}: no axis of the statement is in these alone{used}"
        edit = f"a batch: several {names} at once, with an axis of their own in the result"
        return Failure("batch-missing", message, span, axis.span, edit)
    message = f"{runs}: no axis of the statement does{used}"
    return Failure("axis-has-no-place", message, span, axis.span, OTHER)


def _utilisation(axes: tuple[Axis, ...]) -> str:
    """Return text about the share of lanes that do work if these axes have length one."""
    lanes = 1
    for axis in axes:
        lanes *= axis.extent.value or 1
    return f"; {100 / lanes:.3g} % of it would be busy" if lanes > 1 else ""


def refuse_instruction(case: Pair) -> Failure | None:
    """Return the failure that an instruction is not one plain statement, or None."""
    if case.pattern is not None:
        return None
    instruction = case.item.instruction
    parts = statements(instruction)
    where = case.statement.assign.span
    lacking = _find_unmatched(case, instruction, parts)
    outputs = [o for o in instruction.operands if o.role in ("out", "inout")]
    if len(outputs) > 1 and lacking is not None:
        names = " and ".join(o.name for o in outputs)
        message = f"writes {names}; no adjacent statement of the kernel does `{_line(lacking)}`"
        edit = "that statement in the kernel, over the same axes, or another instruction"
        return Failure("several-outputs", message, where, lacking.assign.span, edit)
    if len(parts) > 1:
        number = len(parts)
        message = f"performs {number} statements at once, which do not follow each other so in the kernel"
        if lacking is not None:
            message = f"performs {number} statements at once; none of the kernel's is `{_line(lacking)}`"
        edit = "the same statements in the kernel, over the same axes, or another instruction"
        return Failure("several-statements", message, where, (lacking or parts[0]).assign.span, edit)
    ordered = next((p for p in parts if p.sequence), None)
    if ordered is not None:
        axes = ", ".join(a.name for a in ordered.sequence)
        message = f"goes through {axes} in order, each step with the result of the one before"
        edit = "another instruction, without `seq`"
        return Failure("instruction-ordered", message, where, ordered.assign.span, edit)
    guarded = next((p.assign.guard for p in parts if p.assign.guard is not None), None)
    if guarded is not None:
        message = f"does nothing where `{print_expr(guarded)}` is false; the statement has no such mask"
        edit = "a condition behind the statement, or the instruction without a predicate"
        return Failure("instruction-guarded", message, where, guarded.span, edit)
    message = f"writes {len(outputs)} operands at once"
    return Failure("several-outputs", message, where, instruction.span)


def _find_unmatched(case: Pair, instruction: Instruction, parts: tuple[Statement, ...]) -> Statement | None:
    """Return the first statement of an instruction that no statement of the kernel matches, or None."""
    own = (case.statement, *case.others)
    for part in parts:
        pattern = Pattern(instruction, part)
        if not any(
            heads_agree(pattern, s) and next(unify(pattern.value, s.assign.value), None) is not None
            for s in own
        ):
            return part
    return None


def _line(statement: Statement) -> str:
    return print_stmt(statement.assign).strip().rstrip(";")


def refuse_guard(case: Pair) -> Failure | None:
    """Return the failure that a statement has a guard, or None."""
    assign = case.statement.assign
    guard = assign.guard
    if guard is None:
        return None
    assert case.pattern is not None
    shown = text_of(guard) if guard.span is not None else print_expr(guard)
    span = guard.span or assign.span
    by_data = bool(reads(guard))
    condition = "what is stored in memory" if by_data else "where it stands"
    message = f"has no mask; the statement is performed only if `{shown}`, which depends on {condition}"
    if is_summed_everywhere(case.statement, case.kernel):
        message += "; compiled, it is summed everywhere, and stored where that holds"
    chosen, nothing = _select_value(assign)
    text = f"select({shown}, {text_of(chosen)}, {nothing})"
    dropped = without_guard(case.kernel, assign)
    edits = (*replace_by(chosen, text), *dropped) if dropped else ()
    reason = "guard-reads-data" if by_data else "statement-guarded"
    edit = f"`{text}` instead of `{text_of(chosen)}`, without the condition"
    return Failure(reason, message, span, case.pattern.statement.assign.span, edit, edits)


def _select_value(assign: Assign) -> tuple[Expr, str]:
    """Return the guarded value, or the factor to guard, and the neutral value for `select`."""
    chosen = assign.value
    if assign.op is None:
        return chosen, text_of(assign.target)
    if assign.op == "add" and isinstance(chosen, Call) and chosen.op == "mul":
        chosen = chosen.args[0]  # 0 times anything adds nothing, and one factor is moved as before
        while isinstance(chosen, Cast) and converts_exactly(chosen.value.dtype, chosen.dtype):
            chosen = chosen.value
        return chosen, "0"
    return chosen, print_expr(identity_of(assign.op, chosen.dtype))


# --- element conditions ---------------------------------------------------------------------------------

# Conditions on elements: those of an issue correspond to those of the kernel's arrays one to one.
#
# window: would share elements of `X[2*p + r]` as it does those of a[p + r]
# outer: would write one element of `Y[p*s + r]` twice, unless R <= s


_LOOKED_AT = 24
"""Candidates of one instruction whose violation is asked for."""


def refuse_elements(case: Pair) -> Failure | None:
    """Return the failure that all candidate mappings violate a condition on elements, or None."""
    pattern, statement = case.pattern, case.statement
    assert pattern is not None
    candidates = [
        m
        for m in islice(find_candidates(pattern, statement, case.number), 4 * _LOOKED_AT)
        if m.kind != "degenerate"
    ][:_LOOKED_AT]
    if not candidates:
        # The cause that statement axes each have a place, but not all of them together.
        assert case.pattern is not None
        names = ", ".join(a.name for a in case.pattern.axes)
        message = f"runs over {names}: the statement has an axis for each, but not a different one for each"
        span, own = case.statement.assign.span, case.pattern.axes[0].span
        return Failure("axis-has-no-place", message, span, own, OTHER)
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
        return _refuse_two_elements(case, mapping, violation)
    return _explain_shared(case, mapping, violation)


# --- outputs ----------------------------------------------------------------------------------------------


def _overlap(case: Pair, mapping: Mapping, violation: Violation) -> Failure:
    assert case.pattern is not None
    target = case.statement.assign.target
    required = _disjointness_constraints(case, mapping)
    mine = print_expr(case.pattern.target)
    message = (
        f"would write elements of `{print_expr(target)}` twice in one issue, where `{mine}` are different"
    )
    if not required:
        edit = "another instruction, along one of these axes"
        if violation.is_certain:
            return Failure("output-overlap", message, target.span, case.pattern.target.span, edit)
        return _open(case, target, case.pattern.target, message)
    message += f", unless {' and '.join(required)}"
    edits = add_where(case.kernel, ", ".join(required))
    edit = f"`where {', '.join(required)}`"
    return Failure("output-overlap", message, target.span, case.pattern.target.span, edit, edits)


def _disjointness_constraints(case: Pair, mapping: Mapping) -> tuple[str, ...]:
    """Return size constraints under which iterations of an issue share no element: `R <= s` for `Y[p*s + r]`."""
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


def _explain_shared(case: Pair, mapping: Mapping, violation: Violation) -> Failure:
    pattern = case.pattern
    assert pattern is not None
    found = _read_as(case, mapping, violation)
    binding, own = found[0] if found else (None, pattern.target)
    subject = case.statement.assign.target if binding is None else binding.subject
    read = subject if isinstance(subject, Read) else next(iter(reads(subject)), case.statement.assign.target)
    mine, theirs = print_expr(own), abridge(read)
    message = (
        f"reads {mine} where the statement has `{theirs}`: iterations that share an element of the one do "
        "not share one of the other"
    )
    if not violation.is_certain:
        return _open(case, read, own, message)
    if any(len([a for a in pattern.axes if a.name in i.symbols]) > 1 for i in own.index):
        at_its_step = _with_steps(own, read, mapping)
        message = f"moves its window by the steps of {mine}; the statement moves it by those of `{theirs}`"
        edit, edits = OTHER, ()
        if at_its_step is not None:
            edit = f"`{print_expr(at_its_step)}`, which is another value"
            edits = replace_by(read, print_expr(at_its_step)) if is_whole(case.kernel) else ()
        return Failure("window-stride", message, read.span, own.span, edit, edits)
    return Failure("elements-shared", message, read.span, own.span, OTHER)


def _read_as(case: Pair, mapping: Mapping, violation: Violation) -> list[tuple[Binding, Read]]:
    """Return each read of the operand that breaks a condition, with the expression that it is bound to."""
    assert case.pattern is not None
    own = {(r.buffer, r.index): r for r in reads(case.pattern.value)}
    required = [(violation.operand, index) for index in violation.reads]
    bound = {(b.name, b.pattern): b for b in mapping.bindings}
    return [(bound[read], own[read]) for read in required]


def _refuse_two_elements(case: Pair, mapping: Mapping, violation: Violation) -> Failure:
    """Return the failure of a mapping by which one element of an operand is two elements of a tensor."""
    (one, mine), (other, its) = _read_as(case, mapping, violation)
    first, second = abridge(one.subject), abridge(other.subject)
    message = (
        f"reads one element as `{print_expr(mine)}` and as `{print_expr(its)}`: it would be two, "
        f"`{first}` and `{second}`"
    )
    read = other.subject if isinstance(other.subject, Read) else next(iter(reads(other.subject)), None)
    if not violation.is_certain and read is not None:
        return _open(case, read, its, message)
    return Failure("operand-twice", message, other.subject.span, its.span, OTHER)


def _with_steps(own: Read, read: Read, mapping: Mapping) -> Read | None:
    """Return the statement's access with the instruction's steps in place of its own, or None."""
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


def _open(case: Pair, read: Read, own: Read, message: str) -> Failure:
    """Return the failure that a condition is neither proved nor refuted, because sizes are open."""
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
        return Failure("symbolic-sizes", message, read.span, own.span, edit, edits)
    given = " ".join(f"{p.name}=…" for p in case.kernel.params if p.dtype is None)
    edit = f"the sizes that matter: `-D {given}`"
    return Failure(
        "symbolic-sizes", f"{message}, or that is not proved for all sizes", read.span, own.span, edit
    )


def _symbols(index: Index | None) -> frozenset[str]:
    return index.symbols if index is not None else frozenset()


# --- size conditions ------------------------------------------------------------------------------------

# Conditions on sizes, parameters and the order of sums: the requirements of a mapping besides its axes.
#
# matmul adds up 16 terms of k at once: the kernel is strict
# lowest covers 16 of k at once: K need not be a multiple of 16, and no fill of a leaves the minimum alone


def refuse_parameters(case: Pair) -> Failure | None:
    """Return the failure that an instruction's `where` contradicts its parameter ranges, or None."""
    instruction = case.item.instruction
    if can_be_met(instruction):
        return None
    ranges = ", ".join(f"{p.name} in {p.low}..{p.high}" for p in instruction.params if p.low and p.high)
    stated = ", ".join(f"{c.left} {c.comparison} {c.right}" for c in instruction.where)
    message = f"requires {stated}, which cannot be met" + (f" with {ranges}" if ranges else "")
    span = next((c.span for c in instruction.where if c.span), instruction.span)
    return Failure("precondition-unmeetable", message, case.statement.assign.span, span, OTHER)


def refuse_order(case: Pair) -> Failure | None:
    """Return the failure that a mapping would reorder a float sum of a strict kernel, or None."""
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
    return Failure("reassociation-forbidden", message, case.statement.assign.span, span, edit, edits)


def _reassociates(case: Pair, mapping: Mapping) -> str | None:
    """Return text about the reordered additions, or None if a mapping keeps the written order."""
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


def refuse_flushing(case: Pair) -> Failure | None:
    """Return the failure that an instruction flushes subnormal numbers and the kernel is strict, or None."""
    if not case.kernel.strict or not case.performed:
        return None
    words = sorted(FLUSHING & set(case.item.instruction.numerics))
    if not words:
        return None
    message = f"says {' and '.join(words)} ({NUMERICS[words[0]]}): the kernel is strict"
    edits = remove_strict(case.kernel)
    edit = f"allow it: `kernel {case.kernel.name}`, without `strict`"
    span = case.item.instruction.span
    return Failure("subnormals-lost", message, case.statement.assign.span, span, edit, edits)


# --- what is left of an axis ------------------------------------------------------------------------------


def refuse_padding(case: Pair) -> Failure | None:
    """Return the failure that lanes beyond the end of a sum have no neutral value, or None."""
    assert case.pattern is not None
    if case.statement.assign.op is None or not case.performed:
        return None
    first: Failure | None = None
    for mapping in case.performed:
        cause = next(_explain_unpadded(case, mapping), None)
        if cause is None:
            return None
        first = first or cause
    return first


def _explain_unpadded(case: Pair, mapping: Mapping) -> Iterator[Failure]:
    pattern = case.pattern
    assert pattern is not None
    output = {s for i in pattern.target.index for s in i.symbols}
    for group in mapping.groups:
        axes = [a for a in pattern.axes if a.name in group.instruction_axes]
        if output & set(group.instruction_axes):
            continue
        lowest = [_least_length(case, a) for a in axes]
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


def _least_length(case: Pair, axis: Axis) -> int | None:
    """Return the least length of an instruction axis, or None if a run-time parameter masks it."""
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


def _extent(case: Pair, group: AxisGroup) -> Index:
    """Return the number of points of a group, in terms of free sizes."""
    total = Index.of(1)
    for name in group.kernel_axes:
        total = total * case.statement.axis(name).extent
    return total.substitute(known_facts(case.kernel).bindings)


def _cause_of_padding(case: Pair, group: AxisGroup, axes: list[Axis], step: int) -> Failure:
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
        return Failure(reason, message, span, own, edit)
    constraint = f"{extent} % {step} == 0" if len(extent.terms) == 1 else f"({extent}) % {step} == 0"
    edits = add_where(case.kernel, constraint)
    return Failure(reason, message, span, own, f"`where {constraint}`", edits)


# --- preconditions ----------------------------------------------------------------------------------------


def refuse_preconditions(case: Pair) -> Failure | None:
    """Return the failure that no mapping satisfies a precondition on parameters or layouts, or None."""
    pattern, statement = case.pattern, case.statement
    assert pattern is not None
    if not pattern.instruction.where or not case.performed:
        return None
    profile = profile_sizes(statement)
    tried = [choose_params(statement, m, pattern, profile) for m in case.performed]
    unmet = [_violations(pattern, params) for params in tried]
    if not all(unmet):
        return None
    stated = ", ".join(f"{c.left} {c.comparison} {c.right}" for c in unmet[0])
    chosen = ", ".join(f"{n} = {v}" for n, v in sorted(tried[0].items()))
    rest = f"; the statement fills {chosen}" if chosen else ", which is not promised"
    edit = "sizes that fill the instruction, or padding to them" if chosen else OTHER
    span, own = statement.assign.span, unmet[0][0].span
    return Failure("precondition-fails", f"requires {stated}{rest}", span, own, edit)


def _violations(pattern: Pattern, params: Params) -> tuple[Constraint, ...]:
    """Return the constraints that parameters violate, and those on layouts."""
    found: list[Constraint] = []
    for c in pattern.instruction.where:
        left, right = c.left.substitute(params), c.right.substitute(params)
        if left.value is None or right.value is None:
            if any("(" in s for s in left.symbols | right.symbols):  # stride(a,0), align(a)
                found.append(c)
        elif not comparison_holds(left.value, c.comparison, right.value):
            found.append(c)
    return tuple(found)
