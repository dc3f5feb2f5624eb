"""Run all rows of a suite on a simulated machine, store them, and summarise them.

row  images * filters             instructions  simulated µs  analytic µs  ratio  …  of the roofline  bound by
  1  1x64x56x56 * 64x1x1 s1 p0             700          30.0         25.5   0.85  …             85 %  memory
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Generic

from isamap.bench.campaign import environment
from isamap.bench.cases import Form
from isamap.bench.kept_rows import cores_for, keep_environment, open_rows, rows_in_turn
from isamap.bench.kind import C
from isamap.bench.layer_kinds import LayerKind
from isamap.bench.paired_timing import geometric_mean
from isamap.bench.simulated import SimulatedRow, SimulatedRules, empty_simulated, simulate_row
from isamap.machine import load_machine
from isamap.report.columns import percent_text, table
from isamap.run.toolchain import find_compiler
from isamap.source.records import dataclass, replace

# So many rows are named that reach least of the roofline.
NAMED = 5


@dataclass(frozen=True, slots=True)
class SimulatedCampaign(Generic[C]):
    """The settings of a simulation run. `folder` keeps the rows; no row is started after `minutes`.

    Units: `limit_s` of the solver per row.
    """

    kind: LayerKind[C]
    cases: Sequence[C]
    form: Form
    machine: str
    limit_s: float = 10.0
    folder: Path | None = None
    resume: bool = False
    minutes: float | None = None


def run_simulated(
    campaign: SimulatedCampaign[Any], watch: Callable[[str], None] = lambda _: None
) -> tuple[tuple[SimulatedRow, ...], dict[str, object]]:
    """Return the rows, and where they were made. Raises: UsageProblem, MissingTool."""
    known = open_rows(campaign.folder, campaign.resume, SimulatedRow.from_json)
    rules = SimulatedRules(campaign.machine, campaign.limit_s)
    where = environment(
        campaign.machine, find_compiler(load_machine(campaign.machine).target.flags).version, cores_for(1)
    )
    keep_environment(campaign.folder, where)
    empty = [empty_simulated(campaign.kind, case, campaign.form, rules) for case in campaign.cases]
    rows = rows_in_turn(
        empty,
        known,
        lambda index: simulate_row(campaign.kind, campaign.cases[index], campaign.form, rules),
        lambda row, said: replace(row, left_out=said),
        campaign.folder,
        campaign.minutes,
        watch,
    )
    return rows, where


# --- what they come to ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SimulatedSummary:
    """Of all rows with times: `of_roofline` is the geometric mean of what they reach of the lower roof,
    `predicted` that of analytic over simulated time, `error` of how far the two are apart, either way, and
    `furthest` the row in which they are most. `worst` reach least.
    """

    rows: int
    left_out: int
    of_roofline: float | None
    predicted: float | None
    error: float | None
    furthest: SimulatedRow | None
    worst: tuple[SimulatedRow, ...]

    def as_json(self) -> dict[str, object]:
        """Return the summary as JSON."""
        return {
            "rows": self.rows,
            "left_out": self.left_out,
            "of_roofline": self.of_roofline,
            "analytic_over_simulated": self.predicted,
            "analytic_error": self.error,
            "furthest_row": self.furthest.case if self.furthest else None,
            "worst_rows": [row.case for row in self.worst],
        }


def summarise_simulated(rows: Sequence[SimulatedRow]) -> SimulatedSummary:
    """Return the summary of some rows."""
    timed = [row for row in rows if not row.left_out]
    apart = sorted(timed, key=_apart)
    return SimulatedSummary(
        len(timed),
        len(rows) - len(timed),
        geometric_mean(row.roof_ns / row.simulated_ns for row in timed),
        geometric_mean(row.analytic_ns / row.simulated_ns for row in timed),
        _mean_apart(timed),
        apart[-1] if apart else None,
        tuple(sorted(timed, key=lambda row: row.roof_ns / row.simulated_ns)[:NAMED]),
    )


def _apart(row: SimulatedRow) -> float:
    """Return how far the model is off, either way: 1 where it is not."""
    ratio = row.analytic_ns / row.simulated_ns
    return max(ratio, 1 / ratio)


def _mean_apart(rows: Sequence[SimulatedRow]) -> float | None:
    mean = geometric_mean(map(_apart, rows))
    return None if mean is None else mean - 1


HEAD = (
    *("instructions", "simulated µs", "analytic µs", "analytic / simulated", "array µs", "memory µs"),
    *("of the array", "of the roofline", "bound by", "verified"),
)


def simulated_table(rows: Sequence[SimulatedRow], heading: str) -> str:
    """Return one line per row, `heading` over their labels; below, why rows have no times, and warnings."""
    lines: list[Sequence[str]] = [("row", heading, *HEAD)]
    lines += [_line(row) for row in rows if not row.left_out]
    found = table(lines, right=(0, *range(2, 10)))
    left_out = [f"{row.case:4}  {row.label}: {row.left_out}" for row in rows if row.left_out]
    warned = [f"{row.case:4}  {row.label}: {row.warnings}" for row in rows if row.warnings]
    named = {"left out:": left_out, "warnings:": warned}
    return "\n".join([found, *(line for title, own in named.items() if own for line in ("", title, *own))])


def _line(row: SimulatedRow) -> Sequence[str]:
    times = (f"{ns / 1e3:.1f}" for ns in (row.simulated_ns, row.analytic_ns))
    roofs = (f"{ns / 1e3:.1f}" for ns in (row.array_ns, row.dram_ns))
    ratio = f"{row.analytic_ns / row.simulated_ns:.2f}"
    shares = (percent_text(ns / row.simulated_ns) for ns in (row.array_ns, row.roof_ns))
    return (
        str(row.case), row.label, str(row.instructions), *times, ratio, *roofs, *shares, row.bound_by,
        row.checked,
    )  # fmt: skip


def simulated_text(summary: SimulatedSummary) -> str:
    """Return the means, and the rows that fall short."""
    return "\n".join(_sentences(summary))


def _sentences(summary: SimulatedSummary) -> Iterator[str]:
    if summary.of_roofline is None or summary.predicted is None or summary.error is None:
        yield "no row has a time"
        return
    yield (
        f"of the roofline, geometric mean of {summary.rows} rows: {percent_text(summary.of_roofline)}; "
        "least: "
        + ", ".join(f"{percent_text(r.roof_ns / r.simulated_ns)} (row {r.case})" for r in summary.worst)
    )
    said = f"analytic / simulated: geometric mean {summary.predicted:.3f}, apart {summary.error:.1%}"
    if (row := summary.furthest) is not None:
        said += f", furthest {row.analytic_ns / row.simulated_ns:.2f} (row {row.case})"
    yield said


COLUMNS = (
    *("case", "suite", "label", "form", "machine", "instruction", "instructions", "simulated_ns"),
    *(
        "analytic_ns",
        "bound_ns",
        "array_ns",
        "dram_ns",
        "roof_ns",
        "bound_by",
        "is_right",
        "checked",
        "left_out",
        "warnings",
    ),
)


def simulated_csv(rows: Sequence[SimulatedRow]) -> str:
    """Return one line per row."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for row in rows:
        writer.writerow([getattr(row, column) for column in COLUMNS])
    return text.getvalue()
