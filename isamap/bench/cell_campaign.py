"""All rows of a recurrent layer, one after the other, kept as they come; and what they come to, as tables."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from isamap.bench.campaign import environment
from isamap.bench.ceilings import Bandwidths, Peaks, measure_bandwidths
from isamap.bench.cell_measure import CellRules, measure_cell
from isamap.bench.cells import FEW, CellCase, CellRow, empty_row
from isamap.bench.contender import Contender
from isamap.bench.kept_rows import append_row, cores_for, keep_environment, open_rows
from isamap.bench.libraries import HOLDS
from isamap.bench.timed_loops import FLAGS, build_loops
from isamap.bench.turns import Ratio, geometric_mean
from isamap.codegen.toolchain import find_compiler
from isamap.report.columns import table
from isamap.source import IsamapError
from isamap.tune.profile import Profile


@dataclass(frozen=True, slots=True)
class CellCampaign:
    """What is to be measured; units and fields as of a product's `Campaign`."""

    cases: Sequence[CellCase]
    form: str
    machine: str
    against: Sequence[str]
    threads: int = 1
    seconds: float = 4.0
    limit_s: float = 10.0
    hold: str | None = None
    folder: Path | None = None
    resume: bool = False
    profile: Profile | None = None


def run_cells(
    campaign: CellCampaign, watch: Callable[[str], None] = lambda _: None
) -> tuple[tuple[CellRow, ...], dict[str, object]]:
    """The rows, and where they were measured. Raises: UsageProblem, MissingTool."""
    cores = cores_for(campaign.threads)
    known = open_rows(campaign.folder, campaign.resume, CellRow.from_json)
    loops, digest = build_loops(), campaign.profile.digest if campaign.profile else None
    where = {"profile": digest} | environment(campaign.machine, find_compiler(FLAGS).version, cores)
    keep_environment(campaign.folder, where)
    rules = CellRules(
        campaign.machine, campaign.threads, campaign.seconds, campaign.limit_s, loops, campaign.profile
    )
    watch("bandwidths")
    bandwidths, peaks = measure_bandwidths(loops), Peaks()
    held: Mapping[str, str] = HOLDS[campaign.hold] if campaign.hold else {}
    rows: list[CellRow] = []
    with ExitStack() as stack:
        contenders = [
            stack.enter_context(Contender(name, campaign.threads, held, cores))
            for name in ("isamap", *campaign.against)
        ]
        for number, case in enumerate(campaign.cases, 1):
            watch(f"row {number} of {len(campaign.cases)}: {case.cell} {case.label} {campaign.form}")
            row = known.get(empty_row(case, campaign.form, campaign.threads).key)
            if row is None:
                row = _row(case, campaign.form, rules, contenders, peaks, bandwidths)
                append_row(campaign.folder, row)
            rows.append(row)
    return tuple(rows), where


def _row(
    case: CellCase,
    form: str,
    rules: CellRules,
    contenders: Sequence[Contender],
    peaks: Peaks,
    bandwidths: Bandwidths,
) -> CellRow:
    """The row; one that cannot be compiled stays in the table with the reason."""
    try:
        return measure_cell(case, form, rules, contenders, peaks, bandwidths)
    except IsamapError as error:
        said = "; ".join("; ".join((d.message, *d.notes[-2:])) for d in error.diagnostics)
        return empty_row(case, form, rules.threads, said)


def cells_table(rows: Sequence[CellRow]) -> str:
    """One line per row; what was left out says why."""
    names = list(dict.fromkeys(name for row in rows for name in row.seconds if name != "isamap"))
    head = ("row", "units x sequences", "form", "isamap ms", *(f"{n} ms" for n in names))
    lines: list[Sequence[str]] = [(*head, *(f"ratio to {n}" for n in names), "of roofline", "bound by")]
    for row in rows:
        if "isamap" in row.seconds:
            times = [_milliseconds(row, n) for n in ("isamap", *names)]
            ratios = [_interval(row, n) for n in names]
            share = f"{row.attainable_seconds / median(row.seconds['isamap']):.0%}"
            lines.append((f"{row.case}", row.label, row.form, *times, *ratios, share, row.bound_by))
    found = table(lines, right=(0, 3, *range(4, 4 + len(names))))
    left_out = [f"{row.case:4}  {row.label} {row.form}: {row.left_out}" for row in rows if row.left_out]
    wrong = [
        f"{row.case:4}  {row.label} {row.form}: the result of {n} is wrong"
        for row in rows
        for n, right in row.verified.items()
        if not right and n != "isamap"
    ]
    return "\n".join([found, *(["", "left out:", *left_out, *wrong] if left_out or wrong else [])])


def _milliseconds(row: CellRow, name: str) -> str:
    return f"{1e3 * median(row.seconds[name]):.4g}" if name in row.seconds else "-"


def _interval(row: CellRow, name: str) -> str:
    found = row.ratio.get(name)
    return f"{found['value']:.2f} ({found['low']:.2f}..{found['high']:.2f})" if found else "-"


@dataclass(frozen=True, slots=True)
class CellSummary:
    """Geometric means of the ratios to each baseline, and to the fastest of each row (by sequences, too)."""

    rows: int
    left_out: int
    geometric_mean: Mapping[str, float | None]
    few_sequences: float | None
    many_sequences: float | None
    slower: int
    wide_intervals: int


def cells_summary(rows: Sequence[CellRow]) -> CellSummary:
    """What the rows come to; a row is slower where its whole interval is."""
    timed = [row for row in rows if row.best_baseline is not None]
    best = [Ratio(**row.ratio[row.best_baseline or ""]) for row in timed]
    names = dict.fromkeys(name for row in timed for name in row.ratio)
    means = {n: geometric_mean(r.ratio[n]["value"] for r in timed if n in r.ratio) for n in names}
    few = [b.value for b, row in zip(best, timed, strict=True) if row.batch <= FEW]
    many = [b.value for b, row in zip(best, timed, strict=True) if row.batch > FEW]
    return CellSummary(
        rows=len(timed),
        left_out=len(rows) - len(timed),
        geometric_mean={**means, "best": geometric_mean(b.value for b in best)},
        few_sequences=geometric_mean(few),
        many_sequences=geometric_mean(many),
        slower=sum(b.is_slower for b in best),
        wide_intervals=sum(b.is_wide for b in best),
    )


def summary_line(summary: CellSummary) -> str:
    """The summary for people."""

    def shown(value: float | None) -> str:
        return "-" if value is None else f"{value:.2f}"

    each = ", ".join(f"{name} {shown(value)}" for name, value in summary.geometric_mean.items())
    return (
        f"{summary.rows} rows; geometric means of ratios: {each}; "
        f"up to {FEW} sequences {shown(summary.few_sequences)}, more {shown(summary.many_sequences)}; "
        f"{summary.slower} rows slower, {summary.wide_intervals} with wide intervals"
    )


def place_text(where: Mapping[str, object]) -> str:
    """Where it ran, in a line."""
    return f"{where['cpu']}, cores {where['cores']}, load {os.getloadavg()[0]:.1f}" + (
        ", a virtual machine" if where["virtual_machine"] else ""
    )
