"""`isamap schedule --rows`: one kernel at many sizes, in one process."""

from __future__ import annotations

import csv
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from isamap.cli.answers import Answer, Finding
from isamap.cli.early_words import read_pair
from isamap.cli.terminal import Progress
from isamap.driver.inputs import read_file
from isamap.report.columns import table
from isamap.source import Diagnostic, Source, UsageProblem
from isamap.source.records import dataclass, replace
from isamap.suites import SUITES, suite_path

if TYPE_CHECKING:
    from isamap.driver.request import Request, Size
    from isamap.plan.schedule import Schedule


@dataclass(frozen=True, slots=True)
class Done:
    """One row's schedule by one heuristic. Units: `seconds` from the kernel's text on."""

    sizes: Mapping[str, Size]
    heuristic: str
    schedule: Schedule
    seconds: float


def schedule_rows(request: Request, heuristics: Sequence[str], rows: str, output: str | None) -> Answer:
    """Return a schedule for every row of a table. Raises: UsageProblem for a table without sizes of the kernel."""
    if output is not None:
        raise UsageProblem(
            Diagnostic(
                "rows-output",
                "`-o` writes one schedule, and `--rows` asks for many",
                help="leave out `-o`; `--json` gives all schedules as text",
            )
        )
    sets = read_rows(request, rows)
    done: list[Done] = []
    with Progress() as progress:
        for number, sizes in enumerate(sets, 1):
            progress(f"schedule {number} of {len(sets)}")
            done += [_schedule(replace(request, sizes=sizes, heuristic=name)) for name in heuristics]
    findings = dict.fromkeys(finding for row in done for finding in row.schedule.findings)
    gaps = tuple(row.schedule.gap for row in done)
    return Answer(_payload(request, done), _text(done), tuple(map(Finding.of, findings)), gaps=gaps)


def _schedule(request: Request) -> Done:
    from isamap.driver.pipeline import compile_kernel
    from isamap.source.process import full_collection_put_off

    with full_collection_put_off():  # between rows, and in none's seconds
        started = time.perf_counter()
        found = compile_kernel(request, "schedule").schedule
        assert found is not None
        return Done(request.sizes, request.heuristic, found, time.perf_counter() - started)


def read_rows(request: Request, name: str) -> list[dict[str, Size]]:
    """Return the sizes of every row: the columns that the kernel knows, and the sizes that are the same for all."""
    from isamap.syntax import parse_kernel

    source = read_file(suite_path(name) if name in SUITES else Path(name), name)
    kernel = parse_kernel(request.kernel)
    known = {param.name for param in kernel.params}
    header, rows = _cells(source)
    columns = [column for column in header if column in known]
    if not columns:
        raise UsageProblem(
            Diagnostic(
                "rows-without-sizes",
                f"no column of {name} is a size of {kernel.name}",
                notes=(
                    f"columns: {', '.join(c[:40] for c in header[:12]) or 'none'}",
                    f"sizes: {', '.join(param.name for param in kernel.params)}",
                ),
                help="the first line names the columns, as in `M,N,K`",
            )
        )
    common = {n: size for n, size in request.sizes.items() if n not in columns}
    return [common | dict(read_pair(f"{c}={row[c] or ''}") for c in columns) for row in rows]


def _cells(source: Source) -> tuple[list[str], list[dict[str, str]]]:
    """Return the header of a table, and its rows. Raises: UsageProblem for what is no CSV."""
    reader = csv.DictReader(source.text.splitlines())
    try:
        return list(reader.fieldnames or ()), list(reader)
    except csv.Error as error:  # a cell longer than such a reader takes
        said = f"{source.name} is no table: line {reader.line_num}: {error}"
        raise UsageProblem(Diagnostic("rows-without-sizes", said)) from None


def _payload(request: Request, done: Sequence[Done]) -> dict[str, object]:
    from isamap.plan.text import print_schedule

    return {
        "kernel": request.kernel.name,
        "machine": request.machine,
        "rows": [
            {
                "sizes": dict(row.sizes),
                "heuristic": row.heuristic,
                "cost_ns": row.schedule.cost_ns,
                "lower_bound_ns": row.schedule.lower_bound_ns,
                "gap": row.schedule.gap,
                "status": row.schedule.status,
                "found_by": row.schedule.found_by or None,
                "proved_by": row.schedule.proved_by or None,
                "fixed": dict(row.schedule.fixed),
                "reproducible": row.schedule.reproducible,
                "seconds": row.seconds,
                "schedule": print_schedule(row.schedule),
            }
            for row in done
        ],
    }


def _text(done: Sequence[Done]) -> str:
    from isamap.plan.text import fixed_words

    lines = [("sizes", "heuristic", "cost_ns", "gap", "status", "seconds")]
    for row in done:
        sizes = " ".join(f"{name}={value}" for name, value in row.sizes.items())
        gap = "" if row.schedule.gap is None else f"{100 * row.schedule.gap:.1f} %"
        cost = "" if row.schedule.cost_ns is None else f"{row.schedule.cost_ns:.1f}"
        lines.append((sizes, row.heuristic, cost, gap, row.schedule.status, f"{row.seconds:.2f}"))
    total = sum(row.seconds for row in done)
    worst = max((row.schedule.gap or 0.0 for row in done), default=0.0)
    fixed = f" with {fixed_words(done[0].schedule)}" if done and done[0].schedule.fixed else ""
    return f"{table(lines)}\n\n{len(done)} schedules{fixed} in {total:.1f} s, largest gap {100 * worst:.1f} %"
