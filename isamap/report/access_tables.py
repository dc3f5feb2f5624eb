"""Accesses per level and operand, as a table and as JSON.

statement  level   operand  tensor  reads  fills  updates  drains
0          buffer  w        W       48     0      0        0
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from isamap.plan.access_counts import Accesses, Convention, StatementAccesses, StatementEnergy
from isamap.report.columns import align, energy_text, percent_text
from isamap.report.mappings import time_text
from isamap.source import add_up, asdict

if TYPE_CHECKING:
    from isamap.report.closed_forms import ClosedForm, ClosedForms  # SymPy takes half a second to import

COLUMNS = ("statement", "level", "operand", "tensor", "reads", "fills", "updates", "drains")


def accesses_json(
    convention: Convention, found: Sequence[StatementAccesses], forms: Sequence[ClosedForms | None] = ()
) -> dict[str, object]:
    """Return the counts with their convention, and formulas, if given, as JSON. Units: elements, nanoseconds."""
    return {
        "convention": asdict(convention),
        "latency_ns": add_up(s.latency_ns for s in found),
        **({"energy_pj": total} if (total := total_energy_pj(found)) is not None else {}),
        "statements": [_statement_json(s, form) for s, form in zip_longest(found, forms)],
    }


def total_energy_pj(found: Sequence[StatementAccesses]) -> float | None:
    """Return the energy of all statements, or None if the machine states no energies. Units: picojoules."""
    stated = [s.energy.total_pj for s in found if s.energy is not None]
    return add_up(stated) if stated else None


def levels_json(found: Sequence[StatementAccesses]) -> dict[str, dict[str, float]]:
    """Return the bytes that are read and written at each level, and their energy where the machine states one."""
    levels: dict[str, dict[str, float]] = {}
    for a in (a for s in found for a in s.accesses):
        sums = levels.setdefault(a.level, {"bytes": 0})
        sums["bytes"] += (a.reads + a.fills + a.updates + a.drains) * a.element_bytes
        if a.energy_pj is not None:
            sums["energy_pj"] = sums.get("energy_pj", 0.0) + a.energy_pj
    return levels


def layers_text(layers: Sequence[Mapping[str, Any]]) -> str:
    """Return a table of a network's layers, given as JSON, with sums: time, gap, bytes at each level, energy."""
    names = sorted({name for layer in layers for name in layer.get("levels", ())})
    rows = [("layer", "runs on", "time", "gap", *(f"{name} bytes" for name in names), "energy")]
    named = [(" + ".join(one["nodes"]) or one["kernel"], one["machine"], [one]) for one in layers]
    for name, machine, own in (*named, ("all layers", "", layers)):
        time_ns, pj = (add_up(one.get(key, 0.0) for one in own) for key in ("predicted_ns", "energy_pj"))
        moved = [sum(one.get("levels", {}).get(n, {}).get("bytes", 0) for one in own) for n in names]
        gap = gap_text([(one.get("predicted_ns", 0.0), one.get("gap")) for one in own])
        energy = energy_text(pj) if pj else "-"
        rows.append((name, machine, time_text(time_ns), gap, *map(str, moved), energy))
    return align(rows, right=range(2, 5 + len(names)))


def gap_text(parts: Sequence[tuple[float, float | None]]) -> str:
    """Return the gap of several schedules, each weighted by its time, or "-" if none is known."""
    known = [(ns, gap) for ns, gap in parts if gap is not None]
    whole = add_up(ns for ns, _ in known)
    return percent_text(add_up(ns * gap for ns, gap in known) / whole) if whole else "-"


def energy_figures(found: Sequence[StatementAccesses]) -> list[tuple[str, str]]:
    """Return names and texts of the energy of all statements and its parts, or [] without energies."""
    energies = [s.energy for s in found if s.energy is not None]
    if not energies:
        return []
    links = dict.fromkeys(name for e in energies for name, _ in e.links_pj)
    parts = (
        ("accesses of memories", add_up(e.memories_pj for e in energies)),
        ("instructions that compute", add_up(e.issues_pj for e in energies)),
        ("instructions that move", add_up(e.moves_pj for e in energies)),
        *((f"link {n}", add_up(pj for e in energies for m, pj in e.links_pj if m == n)) for n in links),
        ("leakage", add_up(e.leakage_pj for e in energies)),
    )
    shown = [(f"  {name}", energy_text(pj)) for name, pj in parts if pj]
    return [("energy", energy_text(total_energy_pj(found) or 0.0)), *shown]


def _energy_lines(found: Sequence[StatementAccesses]) -> Iterator[str]:
    if figures := energy_figures(found):
        yield f"\n{align(figures)}"


def energy_table(found: Sequence[StatementAccesses]) -> str:
    """Return a table of the energy: its parts, then levels and operands, the largest first. "" without energies."""
    total = total_energy_pj(found)
    if not total:
        return ""
    spent: dict[tuple[str, ...], float] = {}
    for a in (a for s in found for a in s.accesses):
        key = a.level, a.operand, a.tensor
        spent[key] = spent.get(key, 0.0) + (a.energy_pj or 0.0)
    rows = sorted(((key, pj) for key, pj in spent.items() if pj), key=lambda row: -row[1])
    table = [
        ("level", "operand", "tensor", "energy", "share"),
        *((*key, energy_text(pj), percent_text(pj / total)) for key, pj in rows),
    ]
    return f"{align(energy_figures(found))}\n\n{align(table, right=(3, 4))}"


def accesses_text(
    convention: Convention, found: Sequence[StatementAccesses], forms: Sequence[ClosedForms | None] = ()
) -> str:
    """Return the counts as text for users, with formulas, if given."""
    has_energy = any(s.energy is not None for s in found)
    more = [("energy",), *((energy_text(a.energy_pj or 0.0),) for s in found for a in s.accesses)]
    rows = [COLUMNS, *(_row(s.statement, a) for s in found for a in s.accesses)]
    if has_energy:
        rows = [(*row, *own) for row, own in zip(rows, more, strict=True)]
    issues = " + ".join(str(s.issues) for s in found)
    latency = add_up(s.latency_ns for s in found)
    return "\n".join(
        (
            f"accesses in elements, convention `{convention.name}`; {issues} issues, {latency:g} ns",
            align(rows),
            *_energy_lines(found),
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
        "accesses": [
            dict(zip(COLUMNS[1:], _cells(a), strict=True))
            | ({} if a.energy_pj is None else {"energy_pj": a.energy_pj})
            for a in found.accesses
        ],
        **({} if found.energy is None else {"energy": energy_json(found.energy)}),
        **({} if form is None else {"formulas": _formulas_json(form)}),
    }


def energy_json(energy: StatementEnergy) -> dict[str, object]:
    """Return the energy of a statement in its parts as JSON. Units: picojoules."""
    return {
        "total_pj": energy.total_pj,
        "accesses_pj": energy.memories_pj,
        "issues_pj": energy.issues_pj,
        "moves_pj": energy.moves_pj,
        "links_pj": dict(energy.links_pj),
        "leakage_pj": energy.leakage_pj,
    }


def _formulas_json(form: ClosedForms) -> dict[str, object]:
    """Return a statement's formulas in SymPy's syntax as JSON, or null where there is none."""

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
