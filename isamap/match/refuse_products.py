"""Products of more factors than an instruction takes: what the others must be grouped with, or summed apart.

Y[n, k, p] += X[n, c, p + r] * F[c, r] * G[k, c]        three-factors: sum X * F over r first
C[m, n] += A[m, k] * B[k, n] * alpha                    scale-misplaced: (A[m, k] * alpha) * B[k, n]
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from isamap.ir import Call, Expr, Kernel, print_routine
from isamap.match.enumerate import find_in_statement
from isamap.match.fitting import as_factor
from isamap.match.kernel_text import Edits, as_written, brief, replace_by
from isamap.match.rejection import Case, Cause
from isamap.source import Edit, Span
from isamap.transform import factorisations, reads


def refuse_product(case: Case) -> Cause | None:
    """A sum of products of three and more factors for an instruction that takes two."""
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
        shown = " and ".join(brief(s) for s in scales)
        message = f"multiplies two operands; `{brief(value)}` scales by {shown} what is multiplied already"
        edits = replace_by(value, text)
        return Cause("scale-misplaced", message, value.span, mine.span, f"`{text}`", edits)
    return None


def _factors(value: Expr) -> tuple[Expr, ...]:
    match value:
        case Call("mul", (a, b)):
            return (*_factors(a), *_factors(b))
        case _:
            return (value,)


def _three(case: Case, arrays: list[Expr]) -> Cause:
    assert case.pattern is not None
    value = case.statement.assign.value
    names = ", ".join(brief(f) for f in arrays)
    message = f"multiplies two operands; the statement multiplies {len(arrays)} arrays: {names}"
    edit, edits = _factorisation(case.kernel, case.kernel.span, case.number)
    return Cause("three-factors", message, value.span, case.pattern.value.span, edit, edits)


@lru_cache(maxsize=64)
def _factorisation(kernel: Kernel, span: Span | None, number: int) -> tuple[str, Edits]:
    """The cheapest way to take a statement apart, and the kernel after it, sizes left open.

    `span` is the kernel's own: kernels are equal wherever they stand, and their edits are not.
    """
    written = as_written(kernel) or kernel
    found = next((f for f in factorisations(written) if f.statement == number), None)
    if found is None:
        return "the product of all but one of them in a statement of its own", ()
    if written.span is None:
        return "; ".join(found.steps), ()
    return "; ".join(found.steps), (Edit(written.span, print_routine(found.kernel).rstrip()),)
