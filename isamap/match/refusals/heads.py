"""Conditions on whole statements: the reduction operation and the result type.

    vmul: assigns; the statement sums up          fma_f64: sums in f64; the statement sums in f32

A product may have more factors than the instruction takes. The others must be grouped, or summed separately:

    Y[n, k, p] += X[n, c, p + r] * F[c, r] * G[k, c]        three-factors: sum X * F over r first
    C[m, n] += A[m, k] * B[k, n] * alpha                    scale-misplaced: (A[m, k] * alpha) * B[k, n]
"""

from __future__ import annotations

from functools import lru_cache

from isamap.ir import OPS, REDUCTIONS, Assign, Call, Expr, Kernel, print_expr, print_routine
from isamap.ir import Read as Access
from isamap.match.mappings.enumerate import find_in_statement, heads_agree
from isamap.match.refusals.kernel_edits import (
    Edits,
    abridge,
    accumulate_in,
    as_factor,
    as_written,
    fitting_casts,
    replace_by,
    replace_operator,
    retype,
    text_of,
)
from isamap.match.refusals.rejection import OTHER, Failure, Pair
from isamap.source import Edit, Span, replace
from isamap.transform import factorisations, identity_of, reads

_SYMBOL = {op: f"{symbol}=" for symbol, op in REDUCTIONS.items()}


def refuse_heads(case: Pair) -> Failure | None:
    """Return the failure that operations or result types differ, or None."""
    pattern = case.pattern
    assert pattern is not None
    if heads_agree(pattern, case.statement):
        return None
    mine, theirs = pattern.statement.assign, case.statement.assign
    if mine.op == theirs.op:
        return _types_of_result(case, mine, theirs)
    if mine.op is None:
        return _assigns_only(case, mine, theirs)
    if theirs.op is None:
        return _accumulates_only(case, mine, theirs)
    changed = f"{text_of(theirs.target)} {_SYMBOL[mine.op]} {text_of(theirs.value)}"
    would = _performs(case, replace(theirs, op=mine.op))
    return Failure(
        "operation-differs",
        f"{verb(mine.op)}; the statement {verb(theirs.op)}",
        theirs.span,
        mine.span,
        f"`{changed}`, which is another value" if would else OTHER,
        replace_operator(theirs, _SYMBOL[mine.op]) if would else (),
    )


def verb(op: str | None) -> str:
    """Return the verb that messages use for an assignment with the operator `op`."""
    words = {"add": "sums up", "mul": "multiplies up", "max": "takes the maximum", "min": "takes the minimum"}
    return "assigns" if op is None else words.get(op, f"reduces by `{op}`")


def _performs(case: Pair, assign: Assign) -> bool:
    """Return whether the instruction would perform the statement if its assignment operator were another one."""
    assert case.pattern is not None
    statement = replace(case.statement, assign=assign)
    return any(
        m.kind != "degenerate"
        for m in find_in_statement(case.pattern, statement, case.number, kernel=case.kernel)
    )


# --- one of the two accumulates ---------------------------------------------------------------------------


def _assigns_only(case: Pair, mine: Assign, theirs: Assign) -> Failure:
    assert theirs.op is not None
    message = f"assigns; the statement {verb(theirs.op)}"
    plain = Call(theirs.op, (theirs.target, theirs.value), theirs.value.dtype)
    if not case.statement.reduction_axes and _performs(case, replace(theirs, op=None, value=plain)):
        target, value = text_of(theirs.target), as_factor(theirs.value)
        text = f"{target} = {_spell_combination(theirs.op, target, value)};"
        return Failure("assigns-only", message, theirs.span, mine.span, f"`{text}`", replace_by(theirs, text))
    edit = "another instruction, that accumulates: this one may compute an operand of it"
    return Failure("assigns-only", message, theirs.span, mine.span, edit)


def _spell_combination(op: str, left: str, right: str) -> str:
    spelled = OPS[op].spelling
    return f"{left} {spelled} {right}" if spelled else f"{op}({left}, {right})"


def _accumulates_only(case: Pair, mine: Assign, theirs: Assign) -> Failure:
    """Return the failure that an assignment should accumulate: `C = C + A * B` is written `C += A * B`."""
    assert mine.op is not None
    message = f"{verb(mine.op)}; the statement assigns"
    rest = _find_added(theirs, mine.op)
    target = text_of(theirs.target)
    if rest is not None:
        if not _performs(case, replace(theirs, op=mine.op, value=rest)):
            return Failure("accumulates-only", message, theirs.span, mine.span, OTHER)
        text = f"{target} {_SYMBOL[mine.op]} {text_of(rest)};"
        return Failure(
            "accumulates-only", message, theirs.span, mine.span, f"`{text}`", replace_by(theirs, text)
        )
    if not _performs(case, replace(theirs, op=mine.op)):
        return Failure("accumulates-only", message, theirs.span, mine.span, OTHER)
    first = f"{target} = {print_expr(identity_of(mine.op, theirs.target.dtype))};"
    text = f"{first} {target} {_SYMBOL[mine.op]} {text_of(theirs.value)};"
    return Failure(
        "accumulates-only",
        message,
        theirs.span,
        mine.span,
        f"initialise apart: `{text}`",
        replace_by(theirs, text),
    )


def _find_added(assign: Assign, op: str) -> Call | Access | None:
    """Return the expression that is combined with the old value of the target, or None."""
    value = assign.value
    if not isinstance(value, Call) or value.op != op or len(value.args) != 2:
        return None
    for own, rest in (value.args, value.args[::-1]):
        if own == assign.target and isinstance(rest, (Call, Access)):
            return rest
    return None


# --- types ------------------------------------------------------------------------------------------------


def _types_of_result(case: Pair, mine: Assign, theirs: Assign) -> Failure:
    required = mine.target.dtype
    casts = fitting_casts(mine.value, theirs.value)
    name = theirs.target.buffer
    if theirs.op is None:
        message = f"writes {required}; the statement writes {theirs.target.dtype}"
        alone = _is_alone(case, name)
        edits = _both(retype(case.kernel, name, required), casts) if alone else ()
        edit = f"declare `{name}: {required}`" if alone else OTHER
        return Failure("result-type-differs", message, theirs.target.span, mine.target.span, edit, edits)
    message = f"sums in {required}; the statement sums in {case.statement.accumulator}"
    clause = _both(accumulate_in(case.kernel, name, required), casts)
    edit = f"declare `{name} … accumulate {required}`" if clause else f"declare `{name}: {required}`"
    edits = clause or _both(retype(case.kernel, name, required), casts)
    if theirs.target.dtype.is_float != required.is_float or not (clause or _is_alone(case, name)):
        edit, edits = OTHER, ()
    return Failure("accumulator-type-differs", message, theirs.target.span, mine.target.span, edit, edits)


def _is_alone(case: Pair, name: str) -> bool:
    """Return whether only one statement uses an array, so that its type may change freely."""
    assigns = [s.assign for s in case.others]
    return all(name != r.buffer for a in assigns for r in (a.target, *reads(a.value)))


def _both(declared: Edits, casts: Edits | None) -> Edits:
    return (*declared, *casts) if declared and casts is not None else ()


def refuse_product(case: Pair) -> Failure | None:
    """Return the failure that a sum of products has more factors than the instruction takes, or None."""
    pattern, statement = case.pattern, case.statement
    assert pattern is not None
    value = statement.assign.value
    mine, factors = pattern.value, _factors(value)
    if not isinstance(mine, Call) or mine.op != "mul" or len(_factors(mine)) != 2 or len(factors) < 3:
        return None
    if not statement.reduction_axes or any(
        all(len(reads(b.subject)) < 2 for b in m.bindings) for m in case.performed
    ):
        return None
    arrays = [f for f in factors if reads(f)]
    if len(arrays) > 2:
        return _three(case, arrays)
    if case.performed or len(arrays) < 2:
        return None
    first, second = arrays
    scales = [f for f in factors if not reads(f)]
    for near, far in ((first, second), (second, first)):
        grouped: Expr = near
        for scale in scales:
            grouped = Call("mul", (grouped, scale), value.dtype)
        regrouped = replace(statement.assign, value=Call("mul", (grouped, far), value.dtype))
        changed = replace(statement, assign=regrouped)
        found = find_in_statement(pattern, changed, case.number, kernel=case.kernel)
        if not any(m.kind != "degenerate" for m in found):
            continue
        text = " * ".join(as_factor(f) for f in (near, *scales, far))
        shown = " and ".join(abridge(s) for s in scales)
        message = f"multiplies two operands; `{abridge(value)}` scales a product by {shown}"
        edits = replace_by(value, text)
        return Failure("scale-misplaced", message, value.span, mine.span, f"`{text}`", edits)
    return None


def _factors(value: Expr) -> tuple[Expr, ...]:
    match value:
        case Call("mul", (a, b)):
            return (*_factors(a), *_factors(b))
        case _:
            return (value,)


def _three(case: Pair, arrays: list[Expr]) -> Failure:
    assert case.pattern is not None
    value = case.statement.assign.value
    names = ", ".join(abridge(f) for f in arrays)
    message = f"multiplies two operands; the statement multiplies {len(arrays)} arrays: {names}"
    edit, edits = _factorisation(case.kernel, case.kernel.span, case.number)
    return Failure("three-factors", message, value.span, case.pattern.value.span, edit, edits)


@lru_cache(maxsize=64)
def _factorisation(kernel: Kernel, span: Span | None, number: int) -> tuple[str, Edits]:
    """Return the cheapest factorisation of a statement as text, and the edits that give the factored kernel.

    `span` is the kernel's own: equal kernels may have different spans, so edits are not shared.
    """
    written = as_written(kernel) or kernel
    found = next((f for f in factorisations(written) if f.statement == number), None)
    if found is None:
        return "the product of all but one of them in a separate statement", ()
    if written.span is None:
        return "; ".join(found.steps), ()
    return "; ".join(found.steps), (Edit(written.span, print_routine(found.kernel).rstrip()),)
