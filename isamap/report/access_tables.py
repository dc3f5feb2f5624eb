"""Accesses per level and operand, as a table and as JSON.

statement  level   operand  tensor  reads  fills  updates  drains
0          buffer  w        W       48     0      0        0
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from isamap.plan.access_counts import Accesses, Convention, StatementAccesses
from isamap.report.columns import align
from isamap.source import add_up

if TYPE_CHECKING:
    from isamap.report.closed_forms import ClosedForm, ClosedForms  # SymPy takes half a second to import

COLUMNS = ("statement", "level", "operand", "tensor", "reads", "fills", "updates", "drains")


def accesses_json(
    convention: Convention, found: Sequence[StatementAccesses], forms: Sequence[ClosedForms | None] = ()
) -> dict[str, object]:
    """Return the counts with their convention, and the formulas, if given. Units: elements, nanoseconds."""
    return {
        "convention": {
            "name": convention.name,
            "first_read": convention.first_read,
            "refill": convention.refill,
            "latch": convention.latch,
            "shared_port": convention.shared_port,
        },
        "latency_ns": add_up(s.latency_ns for s in found),
        "statements": [_statement_json(s, form) for s, form in zip_longest(found, forms)],
    }


def accesses_text(
    convention: Convention, found: Sequence[StatementAccesses], forms: Sequence[ClosedForms | None] = ()
) -> str:
    """Return the counts for people, and the formulas, if given."""
    rows = [COLUMNS, *(_row(s.statement, a) for s in found for a in s.accesses)]
    issues = " + ".join(str(s.issues) for s in found)
    latency = add_up(s.latency_ns for s in found)
    return "\n".join(
        (
            f"accesses in elements, convention `{convention.name}`; {issues} issues, {latency:g} ns",
            align(rows),
            *_formula_lines([form for form in forms if form is not None]),
        )
    )


def _formula_lines(forms: Sequence[ClosedForms]) -> Iterator[str]:
    if not forms:
        return
    from isamap.report.closed_forms import formula

    yield "\nthe same loops at other sizes"
    yield align([COLUMNS, *(_row(form.statement, count, formula) for form in forms for count in form.counts)])
    for form in forms:
        for name, extent in form.extents.items():
            yield f"statement {form.statement}: {name} = {formula(extent)}"
        yield f"statement {form.statement}: {formula(form.issues)} issues"
        if form.home_bytes is not None:
            yield f"statement {form.statement}: bytes moved = {formula(form.home_bytes)}"


def _statement_json(found: StatementAccesses, form: ClosedForms | None) -> dict[str, object]:
    return {
        "statement": found.statement,
        "issues": found.issues,
        "compute_ns": found.compute_ns,
        "port_ns": found.port_ns,
        "unload_ns": found.unload_ns,
        "latency_ns": found.latency_ns,
        "accesses": [dict(zip(COLUMNS[1:], _cells(a), strict=True)) for a in found.accesses],
        **({} if form is None else {"formulas": _formulas_json(form)}),
    }


def _formulas_json(form: ClosedForms) -> dict[str, object]:
    """Return formulas as SymPy reads them; null where there is none."""

    def text(value: object) -> str | None:
        return None if value is None else str(value)

    return {
        "extents": {name: text(extent) for name, extent in form.extents.items()},
        "issues": text(form.issues),
        "home_bytes": text(form.home_bytes),
        "accesses": [dict(zip(COLUMNS[1:], map(text, _cells(c)), strict=True)) for c in form.counts],
    }


def _row(statement: int, a: Accesses | ClosedForm, word: Callable[[Any], str] = str) -> tuple[str, ...]:
    cells = _cells(a)
    return (str(statement), *(str(c) for c in cells[:3]), *(word(c) for c in cells[3:]))


def _cells(a: Accesses | ClosedForm) -> tuple[object, ...]:
    return (a.level, a.operand, a.tensor, a.reads, a.fills, a.updates, a.drains)
