"""Find the first condition that an instruction violates for a statement, and an edit that satisfies it.

    fma_f64: takes a of f64. A[m, k] is f32

Conditions are tried in one order: one plain statement, operation, type of the sum, operand tree, types of the
operands, places for all axes, elements that belong together, sizes and preconditions; the moves that the
machine needs to execute a mapping. An instruction that fails later is nearer.

It also reports the types, conversions and operations of a statement that no instruction of a machine
supports:

    y[i] += f32(x[i]) * w[i] where x is of f16:   dot-16 has no instruction that reads or writes f16, as x is
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from isamap.ir import OPS, Call, Cast, Const, Expr, IndexValue, Kernel, Read, Scalar, first_cast, print_expr
from isamap.ir.evaluate import number_of
from isamap.ir.walk import parts_of, walk
from isamap.machine import Machine, MachineInstruction
from isamap.match.mappings.enumerate import find_in_statement, find_mappings
from isamap.match.mappings.mapping import Mapping
from isamap.match.patterns.pattern import encoded_values, pattern_of, patterns_of
from isamap.match.patterns.unify import unify
from isamap.match.refusals import axis_conditions
from isamap.match.refusals.heads import refuse_heads, refuse_product
from isamap.match.refusals.kernel_edits import (
    Edits,
    abridge,
    as_factor,
    fitting_casts,
    needs_parentheses,
    replace_by,
    text_of,
    wrap,
)
from isamap.match.refusals.rejection import OTHER, REASONS, Failure, Pair, Rejection
from isamap.match.refusals.surroundings import OfferedMoves, refuse_around
from isamap.source.records import dataclass, replace
from isamap.transform import Statement, reads

# --- conditions on expressions --------------------------------------------------------------------------

MIRRORED = {"lt": "gt", "gt": "lt", "le": "ge", "ge": "le"}


@dataclass(frozen=True, slots=True)
class Difference:
    """Two different nodes, and text about the difference. `by_casts` is true if casts would make them equal."""

    reason: str
    words: str
    pattern: Expr
    subject: Expr
    edit: str | None = None
    edits: Edits = ()
    by_casts: bool = False


def first_difference(pattern: Expr, subject: Expr) -> Difference | None:
    """Return the first difference of two expressions, or None. Commutative operands are paired by similarity."""
    match pattern, subject:
        case Read(), _ if pattern.dtype == subject.dtype:
            return None
        case (IndexValue(), _) | (Cast(IndexValue()), _):
            return None if pattern == subject else _immediate_differs(pattern, subject)
        case Call(op, args), Call(other, others) if op == other and len(args) == len(others):
            if pattern.mode != subject.mode:
                return _modes_differ(pattern, subject)
            return _calls_differ(pattern, subject)
        case Cast(value), Cast(inner) if pattern.dtype == subject.dtype:
            if pattern.mode != subject.mode:
                return _modes_differ(pattern, subject)
            if isinstance(value, Read) and first_cast(inner.dtype, value.dtype, pattern.dtype, pattern.mode):
                return None
            return first_difference(value, inner)
        case (Read(), _) | (Cast(Read()), _):
            return _types_differ(pattern, subject)
        case Scalar(), _:
            return _parameter_differs(pattern, subject)
        case Const(), Const():
            return None if pattern == subject else _constants_differ(pattern, subject)
        case _:
            found = (
                _find_mirrored(pattern, subject)
                or _rounded_otherwise(pattern, subject)
                or _factor_missing(pattern, subject)
                or _factor_extra(pattern, subject)
            )
            if found is not None:
                return found
            words = f"computes `{print_expr(pattern)}` where the statement has `{abridge(subject)}`"
            return Difference("expression-differs", words, pattern, subject, OTHER)


def _calls_differ(pattern: Call, subject: Call) -> Difference | None:
    straight = _of_arguments(pattern.args, subject.args)
    if straight is None or len(pattern.args) != 2:
        return straight
    swapped = _of_arguments(pattern.args, subject.args[::-1])
    if OPS[pattern.op].commutative:
        return None if swapped is None else max(straight, swapped, key=_nearness)
    if swapped is not None:
        return straight
    left, right = subject.args
    spelled = OPS[pattern.op].spelling
    text = f"{as_factor(right)} {spelled} {as_factor(left)}" if spelled else ""
    return Difference(
        "operands-reversed",
        f"computes `{print_expr(pattern)}`, which does not commute: the statement has its operands the other "
        f"way round, `{abridge(subject)}`",
        pattern,
        subject,
        f"`{text}`, which is another value" if text else None,
        replace_by(subject, text) if text else (),
    )


def _nearness(found: Difference) -> int:
    """Return how near the expressions are. They are nearest if casts would make them equal."""
    return (found.reason != "expression-differs") + 2 * found.by_casts


def _of_arguments(patterns: tuple[Expr, ...], subjects: tuple[Expr, ...]) -> Difference | None:
    pairs = zip(patterns, subjects, strict=True)
    return next((d for p, s in pairs if (d := first_difference(p, s)) is not None), None)


# --- types ------------------------------------------------------------------------------------------------


def _types_differ(pattern: Expr, subject: Expr) -> Difference:
    leaf = pattern.value if isinstance(pattern, Cast) else pattern
    assert isinstance(leaf, Read)
    required = leaf.dtype
    same_outside = isinstance(pattern, Cast) and isinstance(subject, Cast) and pattern.dtype == subject.dtype
    inner = subject.value if same_outside and isinstance(subject, Cast) else subject
    shown = abridge(inner)
    words = f"takes {leaf.buffer} of {required}; `{shown}` is {inner.dtype}"
    reason = "operand-type-differs"
    if isinstance(pattern, Cast) and inner.dtype == required:
        reason = "widening-differs"
        words = f"widens {leaf.buffer} from {required} to {pattern.dtype}; `{shown}` stays {required}"
    elif required.is_integer and inner.dtype.is_integer and required.bits == inner.dtype.bits:
        reason = "signedness-differs"
        words += f": {_signs(required.kind)} and {_signs(inner.dtype.kind)}"
    return Difference(reason, words, pattern, subject, by_casts=True)


def _signs(kind: str) -> str:
    return "signed" if kind == "int" else "unsigned"


def _modes_differ(pattern: Call | Cast, subject: Call | Cast) -> Difference:
    if isinstance(pattern, Cast) and isinstance(subject, Cast):
        mine, theirs = (_cast_text(c) for c in (pattern, subject))
        text = text_of(subject)
        changed = mine + text[len(theirs) :] if text.startswith(f"{theirs}(") else ""
    else:
        assert isinstance(pattern, Call)
        assert isinstance(subject, Call)
        mine, theirs = (f"{c.op}(…, {c.mode})" for c in (pattern, subject))
        head, comma, _ = text_of(subject).rpartition(",")
        changed = f"{head}{comma} {pattern.mode})" if comma else ""
    words = f"computes `{mine}`; the statement has `{theirs}`"
    edit = f"`{changed}`, which gives other values" if changed else None
    return Difference(
        "mode-differs", words, pattern, subject, edit, replace_by(subject, changed) if changed else ()
    )


def _cast_text(cast: Cast) -> str:
    return cast.dtype.name if cast.mode == "exact" else f"{cast.mode}_{cast.dtype}"


# --- constants and parameters -----------------------------------------------------------------------------


def _constants_differ(pattern: Const, subject: Const) -> Difference:
    mine, theirs = print_expr(pattern), text_of(subject)
    return Difference(
        "constant-differs",
        f"has the constant `{mine}` where the statement has `{theirs}`",
        pattern,
        subject,
        f"`{mine}`, which is another value" if pattern.dtype == subject.dtype else None,
        replace_by(subject, mine) if pattern.dtype == subject.dtype else (),
    )


def _parameter_differs(pattern: Scalar, subject: Expr) -> Difference | None:
    subject = number_of(subject)
    if isinstance(subject, (Const, Scalar, IndexValue)):
        if pattern.dtype == subject.dtype:
            return None
        words = (
            f"takes its parameter {pattern.name} of {pattern.dtype}; `{text_of(subject)}` is {subject.dtype}"
        )
        return Difference("operand-type-differs", words, pattern, subject)
    words = (
        f"takes {pattern.name} as a number that is the same for all elements; `{abridge(subject)}` is read "
        "or computed"
    )
    advice = f"make it a scalar parameter: `scalar {pattern.name}: {pattern.dtype}`"
    return Difference("parameter-not-scalar", words, pattern, subject, advice)


def _immediate_differs(pattern: Expr, subject: Expr) -> Difference:
    own, theirs = text_of(pattern), abridge(subject)
    words = f"computes with its own `{own}`, which is not an operand; the statement has `{theirs}`"
    return Difference("immediate-differs", words, pattern, subject, OTHER)


# --- operations -------------------------------------------------------------------------------------------


def _find_mirrored(pattern: Expr, subject: Expr) -> Difference | None:
    """Return the difference if a comparison is mirrored, as `a < b` and `B > A`, or None."""
    if not isinstance(pattern, Call) or not isinstance(subject, Call):
        return None
    if MIRRORED.get(pattern.op) != subject.op or _of_arguments(pattern.args, subject.args[::-1]) is not None:
        return None
    left, right = subject.args
    text = f"{as_factor(right)} {OPS[pattern.op].spelling} {as_factor(left)}"
    words = f"computes `{print_expr(pattern)}`; the statement has `{abridge(subject)}`"
    edits = replace_by(subject, text)
    return Difference("comparison-mirrored", words, pattern, subject, f"`{text}`, the same", edits)


def _rounded_otherwise(pattern: Expr, subject: Expr) -> Difference | None:
    """Return the difference if one side is fused, as `fma(a, b, c)` and `A * B + C`, or None."""
    match pattern, subject:
        case Call("fma"), Call("add", (a, b)):
            product, rest = (a, b) if isinstance(a, Call) and a.op == "mul" else (b, a)
            if not isinstance(product, Call) or product.op != "mul":
                return None
            left, right = product.args
            text = f"fma({text_of(left)}, {text_of(right)}, {text_of(rest)})"
            often, other = "once", "twice"
        case Call("add"), Call("fma", (a, b, c)):
            text = f"{as_factor(a)} * {as_factor(b)} + {as_factor(c)}"
            often, other = "twice", "once"
        case _:
            return None
    words = f"rounds {often}, in `{print_expr(pattern)}`; the statement's `{abridge(subject)}` rounds {other}"
    return Difference(
        "fused-rounding", words, pattern, subject, f"`{text}`, rounded {often}", replace_by(subject, text)
    )


def _factor_missing(pattern: Expr, subject: Expr) -> Difference | None:
    """Return the difference if the kernel lacks a factor, as `a * b` and `A`, or None."""
    if not isinstance(pattern, Call) or pattern.op != "mul":
        return None
    for mine, other in (pattern.args, pattern.args[::-1]):
        one = _one(other)
        if one is None or first_difference(mine, subject) is not None:
            continue
        inside = needs_parentheses(subject)
        edits = wrap(subject, "(" if inside else "", f") * {one}" if inside else f" * {one}")
        words = f"multiplies, `{print_expr(pattern)}`; the statement has one factor, `{abridge(subject)}`"
        advice = f"`{as_factor(subject)} * {one}`"
        return Difference("factor-missing", words, pattern, subject, advice, edits)
    return None


def _one(pattern: Expr) -> str | None:
    """Return the text of the constant 1 with the casts of the instruction's factor, as in `f32(bf16(1))`."""
    match pattern:
        case Read() | Scalar():
            return "1"
        case Cast(Read() as narrow):
            return f"{pattern.dtype}({narrow.dtype}(1))"
        case _:
            return None


def _factor_extra(pattern: Expr, subject: Expr) -> Difference | None:
    """Return the difference if the kernel has one more factor, as `a + b` and `(A + B) * s`, or None."""
    if not isinstance(subject, Call) or subject.op != "mul":
        return None
    for own, other in (subject.args, subject.args[::-1]):
        if isinstance(pattern, (Call, Cast)) and first_difference(pattern, own) is None:
            shown = abridge(other)
            words = f"computes `{print_expr(pattern)}`; the statement also multiplies that by `{shown}`"
            advice = f"multiply by `{shown}` in a separate statement"
            return Difference("factor-extra", words, pattern, subject, advice)
    return None


def refuse_tree(case: Pair) -> Failure | None:
    """Return the failure that the operand trees differ, at the first different node, or None."""
    pattern = case.pattern
    assert pattern is not None
    subject = case.statement.assign.value
    laid = list(unify(pattern.value, subject))
    if any(encoded_values(pattern.instruction, bindings) is not None for bindings in laid):
        return None
    if laid:
        # The cause that an encoded parameter would need a run-time value, or one out of its range.
        instruction = case.item.instruction
        binding = next(b for b in laid[0] if encoded_values(instruction, (b,)) is None)
        param, shown = instruction.param(binding.name), abridge(binding.subject)
        if isinstance(binding.subject, Const):
            words = f"encodes {param.name} from {param.low or 1} to {param.high}; the statement has {shown}"
            return Failure("parameter-out-of-range", words, binding.subject.span, param.span, OTHER)
        words = f"has {param.name} encoded in itself, a number; `{shown}` is known at run time only"
        return Failure("immediate-differs", words, binding.subject.span, param.span, OTHER)
    found = first_difference(pattern.value, subject)
    if found is None:
        return _operand_twice(pattern.value, subject)
    if isinstance(found.pattern, Scalar) and found.reason == "parameter-not-scalar":
        found = _as_immediate(case, found, found.pattern.name)
    elif found.reason == "immediate-differs":
        found = _as_declared(case, found)
    edit, edits = found.edit, found.edits
    if found.by_casts:
        casts = fitting_casts(pattern.value, subject)
        if casts is not None:
            edits, edit = casts, _cast_words(found)
        else:
            edit = OTHER
    return Failure(found.reason, found.words, found.subject.span, found.pattern.span, edit, edits)


def _as_immediate(case: Pair, found: Difference, name: str) -> Difference:
    """Return the difference, or a clearer one if an encoded number would depend on the run time."""
    param = case.item.instruction.param(name)
    if param.kind != "imm":
        return found
    words = f"has {name} encoded in itself, a number; `{abridge(found.subject)}` is read or computed"
    own = Scalar(name, found.pattern.dtype, param.span)
    return replace(found, reason="immediate-differs", words=words, pattern=own, edit=OTHER)


def _as_declared(case: Pair, found: Difference) -> Difference:
    """Return the difference, with the parameter declaration of the instruction that would accept the number.

    A number of the statement has to be encoded (`imm`); one that comes at run time is a scalar of its type.
    """
    instruction = case.item.instruction
    own = found.pattern.value if isinstance(found.pattern, Cast) else found.pattern
    param = next((p for p in instruction.params if p.name == str(getattr(own, "index", ""))), None)
    if param is None or param.kind != "scalar" or param.span is None:
        return found
    edit = OTHER
    encoded = replace(param, kind="imm")
    with_imm = replace(instruction, params=tuple(encoded if p is param else p for p in instruction.params))
    pattern = pattern_of(with_imm)
    laid = unify(pattern.value, case.statement.assign.value) if pattern is not None else ()
    if any(encoded_values(with_imm, bindings) is not None for bindings in laid):
        edit = f"declare `imm{param.span.text.removeprefix('scalar')}` in {instruction.name}"
    elif isinstance(found.subject, Scalar) and found.subject.dtype == found.pattern.dtype:
        declared = f"scalar {param.name}: {found.pattern.dtype}"
        edit = f"declare `{declared}` in {instruction.name}, and compute with `{param.name}`"
    return replace(found, pattern=Scalar(param.name, found.pattern.dtype, param.span), edit=edit)


def _cast_words(found: Difference) -> str:
    casts = fitting_casts(found.pattern, found.subject) or ()
    if found.subject.span is None or not casts:
        return "cast it"
    text, start = found.subject.span.text, found.subject.span.start
    for e in sorted(casts, key=lambda e: -e.span.start):
        text = text[: e.span.start - start] + e.replacement + text[e.span.end - start :]
    return f"`{' '.join(text.split())}`"


def _operand_twice(pattern: Expr, subject: Expr) -> Failure:
    """Return the failure that one operand would have to be two different elements."""
    mine = reads(pattern)
    twice = next((r for r in mine if mine.count(r) > 1), None)
    name, theirs = ("", []) if twice is None else (twice.buffer, _subjects(pattern, subject, twice))
    words = f"takes {name or 'one operand'} twice in `{print_expr(pattern)}`, where the statement has two"
    if len(theirs) < 2:
        return Failure("operand-twice", words, subject.span, pattern.span)
    first, second = theirs[0], theirs[1]
    words = (
        f"takes {name} twice in `{print_expr(pattern)}`; `{abridge(first)}` and `{abridge(second)}` differ"
    )
    edit = f"`{text_of(first)}` in both places, which is another value"
    edits = replace_by(second, text_of(first))
    return Failure("operand-twice", words, second.span, pattern.span, edit, edits)


def _subjects(pattern: Expr, subject: Expr, required: Read) -> list[Expr]:
    """Return the expressions that an operand read at `required` would have, with operands in written order."""
    match pattern:
        case Read():
            return [subject] if pattern == required else []
        case _:
            mine, theirs = parts_of(pattern), parts_of(subject)
            if len(mine) != len(theirs):
                return []
            return [e for p, s in zip(mine, theirs, strict=True) for e in _subjects(p, s, required)]


CONDITIONS: tuple[Callable[[Pair], Failure | None], ...] = (
    axis_conditions.refuse_instruction,
    axis_conditions.refuse_guard,
    refuse_heads,
    refuse_product,
    refuse_tree,
    axis_conditions.refuse_axes,
    axis_conditions.refuse_elements,
    axis_conditions.refuse_parameters,
)
"""The conditions that are tested, in this order, for an instruction without a mapping."""

FURTHER: tuple[Callable[[Pair], Failure | None], ...] = (
    refuse_product,
    axis_conditions.refuse_order,
    axis_conditions.refuse_flushing,
    axis_conditions.refuse_padding,
    axis_conditions.refuse_preconditions,
)
"""The conditions that are tested for an instruction with mappings: whether they are legal and executable."""


def refusals(
    kernel: Kernel, machine: Machine, mappings: tuple[Mapping, ...] | None = None
) -> tuple[Rejection, ...]:
    """Return a rejection for every statement and instruction without a whole or split mapping, nearest first.

    `mappings` are all mappings. They are searched if not given.
    """
    known: dict[tuple[int, str], list[Mapping]] = {}
    for mapping in find_mappings(kernel, machine) if mappings is None else mappings:
        known.setdefault((mapping.statement, mapping.instruction), []).append(mapping)
    around = OfferedMoves(kernel, machine)
    found: list[Rejection] = []
    for number, statement in enumerate(around.statements):
        for item in machine.instructions.values():
            own = tuple(known.get((number, item.instruction.name), ()))
            rejection = refusal(around, item, statement, number, own)
            if rejection is not None:
                found.append(rejection)
    return tuple(sorted(found, key=lambda r: (r.statement, -REASONS.index(r.reason), not r.edits)))


def refusal(
    around: OfferedMoves,
    item: MachineInstruction,
    statement: Statement,
    number: int,
    mappings: tuple[Mapping, ...],
) -> Rejection | None:
    """Return why an instruction does not perform a statement, or None if it does, or if it only moves data."""
    if not any(o.role in ("out", "inout") for o in item.instruction.operands):
        return None
    pattern = pattern_of(item.instruction)
    if pattern is None and (number, item.instruction.name) in around.grouped:
        return None
    others = tuple(s for n, s in enumerate(around.statements) if n != number)
    case = Pair(around.kernel, around.machine, item, statement, number, mappings, pattern, others)
    cause = _first(case, around)
    if cause is None:
        return None
    name = item.instruction.name
    span = cause.span or statement.assign.span
    own = cause.instruction_span or item.instruction.span
    return Rejection(
        name, number, cause.reason, f"{name} {cause.message}", span, cause.edit, own, cause.edits
    )


def _first(case: Pair, around: OfferedMoves) -> Failure | None:
    if case.performed:
        found = next((c for condition in FURTHER if (c := condition(case)) is not None), None)
        return found or refuse_around(case, around)
    if case.pattern is None and len(parts := patterns_of(case.item.instruction)) == 1:
        # Under a predicate alone an instruction does what it would without, in lanes where that holds.
        plain = replace(case, pattern=parts[0])
        found = next((c for condition in CONDITIONS[1:] if (c := condition(plain)) is not None), None)
        return found or axis_conditions.refuse_instruction(case)
    found = next((c for condition in CONDITIONS if (c := condition(case)) is not None), None)
    return found or _not_counted(case)


def _not_counted(case: Pair) -> Failure | None:
    """Return the failure that only the counting mode excludes the mapping, or None."""
    pattern = case.pattern
    assert pattern is not None
    found = find_in_statement(pattern, case.statement, case.number, kernel=case.kernel)
    first = next((m for m in found if m.kind != "degenerate"), None)
    if first is None:
        return None
    message = f"has mappings such as `{first.ident}`, which this way of counting leaves out"
    span, own = case.statement.assign.span, pattern.statement.assign.span
    return Failure("not-counted", message, span, own, "`--count complete`")


Ability = tuple[str, str, str]
"""An operation, or `cast`, the type it takes, and the type of its result."""


def lacking_abilities(statement: Statement, machine: Machine, *, in_lanes: bool = False) -> tuple[str, ...]:
    """Return, as text, the types, conversions and operations that no instruction of the machine has.

    Types come first, because a missing type has no operations. Innermost operations come first. With
    `in_lanes`, only instructions that perform several iterations in one issue count.
    """
    instructions = [
        item.instruction
        for item in machine.instructions.values()
        if not in_lanes or any(p.axes for p in patterns_of(item.instruction))
    ]
    how = " on several elements at once" if in_lanes else ""
    assign = statement.assign
    types = {o.dtype for instruction in instructions for o in instruction.operands}
    without: dict[str, dict[str, None]] = {}
    for r in (*reads(assign.value), assign.target):
        if r.dtype not in types:
            without.setdefault(str(r.dtype), {})[r.buffer] = None
    if without:
        return tuple(
            f"{machine.name} has no instruction that reads or writes {dtype}{how}, the type of "
            f"{', '.join(names)}"
            for dtype, names in without.items()
        )
    there = {a for i in instructions for p in patterns_of(i) for _, a in _abilities(p.statement)}
    found = {
        ability: f"{machine.name} has no instruction that {_words(ability)}{how}"
        + (f", by which `{abridge(e)}` is reduced" if e is assign.target else f": `{abridge(e)}`")
        for e, ability in reversed(tuple(_abilities(statement)))
        if ability not in there
    }
    return tuple(reversed(found.values()))


def can_convert(machine: Machine, source: str, target: str) -> bool:
    """Return whether an instruction converts a type to another one."""
    every = (p for item in machine.instructions.values() for p in patterns_of(item.instruction))
    known = (ability for p in every for _, ability in _abilities(p.statement))
    return any(op.startswith("cast ") and ends == [source, target] for op, *ends in known)


def adds_to_narrowed(machine: Machine) -> bool:
    """Return whether an instruction adds two numbers that it reads, and stores a narrower type."""
    assigns = (
        pattern.statement.assign
        for item in machine.instructions.values()
        for pattern in patterns_of(item.instruction)
    )
    return any(
        isinstance(e, Call) and e.op == "add" and all(isinstance(arg, Read) for arg in e.args)
        and e.dtype.bits > assign.target.dtype.bits
        for assign in assigns if assign.op is None for e in walk(assign.value)
    )  # fmt: skip


def _abilities(statement: Statement) -> Iterator[tuple[Expr, Ability]]:
    """Yield the operations of a statement, innermost first, each with its place and the ability that it needs."""
    assign = statement.assign
    yield from _operations(assign.value)
    if assign.op is not None:
        dtype = str(statement.accumulator)
        yield assign.target, (assign.op, dtype, dtype)


def _operations(e: Expr) -> Iterator[tuple[Expr, Ability]]:
    match e:
        case Call(op, args):
            for a in args:
                yield from _operations(a)
            yield e, (op, str(args[0].dtype), str(e.dtype))
        case Cast(value, dtype, mode):
            yield from _operations(value)
            yield e, (f"cast {mode}", str(value.dtype), str(dtype))
        case _:
            return


def _words(ability: Ability) -> str:
    op, taken, result = ability
    how = {"sat": " and saturates", "wrap": " and wraps around", "bits": " bit by bit"}
    if op.startswith("cast "):
        return f"converts {taken} to {result}{how.get(op.removeprefix('cast '), '')}"
    return f"computes `{op}` of {taken}"
