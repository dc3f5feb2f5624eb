"""Report which kernels a machine's instructions compute, as a matrix of mapping counts.

coverage of matmul-16x16x16: 2 kernels, 3 statements, 1 computing instruction

kernel          matmul    total
conv2d_nchw         98       98
depthwise       0/0/42   0/0/42
total          98/0/42  98/0/42

A cell is whole/split/degenerate, without trailing zeros. Mappings with an operand that is computed first
have a separate column if an instruction has both kinds.

The overview compares several machines on the same kernels.

kernel       dot-16  gemv-16  matmul-16x16x16
gemm_f32          1        4                2
conv2d_nchw       7       56               98
total             8       60              100
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property

from isamap.machine import Machine
from isamap.match import statement_text
from isamap.report.columns import align, count_text
from isamap.report.mapping_facts import (
    NONE,
    Matched,
    Tally,
    by_instruction,
    computing_instructions,
    is_computing,
    total,
)
from isamap.source.records import dataclass

WIDTH = 110
"""Columns have numbers instead of names where the matrix would be wider."""

NAMED = 8
NOTHING = "·"
LEGEND = "a cell: whole/split/degenerate, zeros at its end left out; ·: none"
_COMPOSED = "; composed: with an operand that is computed first"


@dataclass(frozen=True, slots=True)
class CoverageRow:
    """One statement of a kernel, with its mappings by instruction.

    `before` are those of its mappings that also perform an earlier statement: totals count them there.
    """

    kernel: str
    statement: int
    label: str
    text: str
    cells: Mapping[str, Tally]
    before: Mapping[str, Tally]

    @property
    def total(self) -> Tally:
        return total(self.cells.values())


@dataclass(frozen=True)
class Coverage:
    """The statements of kernels with their mappings. `instructions` are all computing ones."""

    machine: str
    mode: str
    instructions: tuple[str, ...]
    rows: tuple[CoverageRow, ...]

    @property
    def kernels(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(r.kernel for r in self.rows))

    @cached_property
    def totals(self) -> Mapping[str, Tally]:
        """The total of each instruction with a mapping, in machine order."""
        sums: dict[str, Tally] = {}
        for row in self.rows:
            for instruction, one in row.cells.items():
                sums[instruction] = sums.get(instruction, NONE) + one - row.before.get(instruction, NONE)
        return {i: sums[i] for i in self.instructions if sums.get(i)}

    @property
    def used(self) -> tuple[str, ...]:
        """The instructions with a mapping, composed ones included, in machine order."""
        return tuple(self.totals)

    @property
    def total(self) -> Tally:
        return total(self.totals.values())

    @property
    def uncovered(self) -> tuple[CoverageRow, ...]:
        return tuple(r for r in self.rows if not r.total)


def coverage_of(machine: Machine, found: Iterable[Matched], mode: str) -> Coverage:
    """Return the matrix of matched kernels. Statements that only move have no row if others have one."""
    instructions = computing_instructions(machine)
    rows = [row for matched in found for row in _rows(matched, frozenset(instructions))]
    return Coverage(machine.name, mode, instructions, tuple(rows))


def _rows(matched: Matched, computing: frozenset[str]) -> list[CoverageRow]:
    all_of_it = list(enumerate(matched.statements))
    kept = [(n, s) for n, s in all_of_it if is_computing(s)] or all_of_it
    rows: list[CoverageRow] = []
    for number, statement in kept:
        cells = {i: c for i, c in matched.counts_of(number).items() if i in computing}
        first = [g for g in matched.groups if number in g.statements and number > min(g.statements)]
        before = {i: c for i, c in by_instruction((), first).items() if i in computing}
        name = matched.kernel.name
        does = f"{statement.assign.target.buffer} {'+' if statement.assign.op == 'add' else ''}="
        label = name if len(kept) == 1 else f"{name}.{number} {does}"
        rows.append(CoverageRow(name, number, label, statement_text(statement), cells, before))
    return rows


# --- as text ----------------------------------------------------------------------------------------------


def coverage_text(coverage: Coverage) -> str:
    """Return the matrix, its legend, and a note on omitted parts."""
    columns = [i for i in coverage.used if coverage.totals[i].plain]
    shown = _matrix(coverage, columns, columns)
    names: list[str] = []
    if max(map(len, shown.splitlines())) > WIDTH:
        shown = _matrix(coverage, columns, [str(n) for n in range(1, len(columns) + 1)])
        # Lines with the names behind the column numbers, four per line.
        cells = [f"{n}  {name}" for n, name in enumerate(columns, 1)]
        lines = [cells[i : i + 4] for i in range(0, len(cells), 4)]
        names = ["", *align([(*line, *[""] * (4 - len(line))) for line in lines]).splitlines()]
    legend = LEGEND + (_COMPOSED if coverage.total.composed else "")
    return "\n".join([_headline(coverage), "", shown, "", legend, *names, *_left_out(coverage)])


def cell_text(one: Tally) -> str:
    """Return the counts by kind without trailing zeros. Composed mappings are not counted."""
    numbers = [one.count, one.split, one.degenerate]
    while len(numbers) > 1 and not numbers[-1]:
        numbers.pop()
    return "/".join(map(str, numbers)) if one.plain else NOTHING


def _headline(coverage: Coverage) -> str:
    mode = "" if coverage.mode == "complete" else f", counted as {coverage.mode}"
    covered = len(coverage.rows) - len(coverage.uncovered)
    return (
        f"coverage of {coverage.machine}: {covered} of {count_text(len(coverage.rows), 'statement')} in "
        f"{count_text(len(coverage.kernels), 'kernel')}, by {len(coverage.used)} of "
        f"{count_text(len(coverage.instructions), 'computing instruction')}{mode}"
    )


def _matrix(coverage: Coverage, columns: Sequence[str], names: Sequence[str]) -> str:
    composed = bool(coverage.total.composed)

    def line(label: str, cells: Iterable[Tally], sums: Tally) -> tuple[str, ...]:
        apart = (str(sums.composed or NOTHING),) if composed else ()
        return (label, *map(cell_text, cells), cell_text(sums), *apart)

    rows: list[tuple[str, ...]] = [("kernel", *names, "total", *(("composed",) if composed else ()))]
    rows += [line(r.label, (r.cells.get(i, NONE) for i in columns), r.total) for r in coverage.rows]
    rows.append(line("total", (coverage.totals[i] for i in columns), coverage.total))
    return align(rows, right=range(1, len(rows[0])))


def _left_out(coverage: Coverage) -> list[str]:
    lines: list[str] = []
    if coverage.uncovered:
        lines.append(f"no mapping: {', '.join(r.label for r in coverage.uncovered)}")
    unused = [i for i in coverage.instructions if i not in coverage.totals]
    if unused:
        first = ", ".join(unused[:NAMED]) + (", …" if len(unused) > NAMED else "")
        lines.append(f"{count_text(len(unused), 'instruction')} without a mapping: {first}")
    return ["", *lines] if lines else []


# --- as JSON ----------------------------------------------------------------------------------------------


def coverage_json(coverage: Coverage) -> dict[str, object]:
    """Return the matrix as JSON: a row per statement, cells by instruction, totals in all directions."""
    return {
        "machine": coverage.machine,
        "mode": coverage.mode,
        "kernels": list(coverage.kernels),
        "instructions": list(coverage.instructions),
        "rows": [
            {
                "kernel": row.kernel,
                "statement": row.statement,
                "text": row.text,
                "cells": {name: one.as_json() for name, one in row.cells.items()},
                **row.total.as_json(),
            }
            for row in coverage.rows
        ],
        "totals": {name: one.as_json() for name, one in coverage.totals.items()},
        **coverage.total.as_json(),
    }


def overview_text(found: Sequence[Coverage]) -> str:
    """Return a row for each statement and a column for each machine with all its instructions' counts."""
    machines = ", ".join(c.machine for c in found)
    mode = "" if found[0].mode == "complete" else f", counted as {found[0].mode}"
    rows = [("kernel", *(c.machine for c in found))]
    rows += [(one.label, *(cell_text(c.rows[n].total) for c in found)) for n, one in enumerate(found[0].rows)]
    rows.append(("total", *(cell_text(c.total) for c in found)))
    shown = align(rows, right=range(1, len(found) + 1))
    return f"coverage of {machines}{mode}\n\n{shown}\n\n{LEGEND}"
