"""Run all rows of a suite on a simulated machine, store them, and summarise them.

row  images * filters             instructions  simulated µs  analytic µs  ratio  …  of the roofline  bound by
  1  1x64x56x56 * 64x1x1 s1 p0             700          30.0         25.5   0.85  …             85 %  memory
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from math import prod
from pathlib import Path
from time import perf_counter
from typing import Any, Generic

from isamap.bench.campaign import environment
from isamap.bench.cases import Types
from isamap.bench.kept_rows import SuiteRow, cores_for, keep_environment, open_rows, rows_in_turn
from isamap.bench.kind import C
from isamap.bench.layer_kinds import LayerKind
from isamap.bench.paired_timing import geometric_mean
from isamap.driver.pipeline import Compilation
from isamap.driver.request import BEST_FORM, Request
from isamap.driver.runnable import CompiledKernel, prepare
from isamap.formulate.estimate import interval_ns
from isamap.machine import Machine, load_machine
from isamap.match import pattern_of
from isamap.report.columns import align, percent_text
from isamap.run.toolchain import find_compiler
from isamap.simulate.events import simulate
from isamap.source import IsamapError, add_up, asdict, dataclass, field, fields, replace
from isamap.source.progress import Watch, unwatched

# --- simulated ------------------------------------------------------------------------------------------

# Rows of a suite on a machine that this computer cannot run: compiled, checked as a model, and simulated.
#
#     simulate_row(CONVOLUTION_LAYERS, case, S8, rules)  ->  SimulatedRow(simulated_ns=1.3e5, array_ns=1.1e5, …)
#
# Two roofs stand beside the simulated time: `array_ns`, all operations at the peak of the instruction that the
# schedule uses, and `dram_ns`, each operand once over the link of main memory. What convolutions read lies in
# memory with its margin of zeros, as such machines want it.


OPERATIONS_PER_STEP = 2
# More than this is checked on a copy of the row whose sizes are cut: a model is plain C, one call a few
# seconds. Units: operations.
MOST_CHECKED = 2_000_000_000


@dataclass(frozen=True, slots=True)
class SimulatedRow(SuiteRow):
    """One case in one form as simulated.

    Units: nanoseconds of one call, by the simulator and by the cost model; of the roofs; of each unit's work.
    `instructions` are all that are issued. `checked` says on what the result was compared: "in full", or the
    label of the copy whose sizes were cut. `left_out` says why there are no times, `warnings` what
    was said while the schedule was looked for.
    """

    machine: str
    instruction: str = ""
    instructions: int = 0
    simulated_ns: float = 0.0
    analytic_ns: float = 0.0
    bound_ns: float = 0.0
    array_ns: float = 0.0
    dram_ns: float = 0.0
    busy_ns: Mapping[str, float] = field(default_factory=dict[str, float])
    is_right: bool = False
    checked: str = ""
    compile_seconds: float = 0.0
    left_out: str = ""
    warnings: str = ""

    @property
    def key(self) -> str:
        """The key of the row in a resumed file. It includes the position, as a suite may repeat a shape."""
        return f"{self.suite} {self.kind} {self.case} {self.label} {self.form} {self.machine}"

    @property
    def roof_ns(self) -> float:
        """The lower bound on the time by both roofs. Units: nanoseconds."""
        return max(self.array_ns, self.dram_ns)

    @property
    def bound_by(self) -> str:
        """The roof that limits the row."""
        return "array" if self.array_ns >= self.dram_ns else "memory"

    def as_json(self) -> dict[str, Any]:
        """Return the row as JSON, with derived values."""
        return {**asdict(self), "roof_ns": self.roof_ns, "bound_by": self.bound_by}

    @staticmethod
    def from_json(data: dict[str, Any]) -> SimulatedRow:
        """Return the row that `as_json` wrote."""
        return SimulatedRow(**{f.name: data[f.name] for f in fields(SimulatedRow) if f.name in data})


@dataclass(frozen=True, slots=True)
class SimulatedRules:
    """The rules for simulating rows. Units: `limit_s` of the solver per row."""

    machine: str
    limit_s: float


def empty_simulated(kind: LayerKind[C], case: C, form: Types, rules: SimulatedRules) -> SimulatedRow:
    """Return the row of a case before it is simulated."""
    return SimulatedRow(
        case.position, case.suite, kind.name, case.label, case.class_name, case.sizes, form.name,
        case.operations, rules.machine,
    )  # fmt: skip


def simulate_row(kind: LayerKind[C], case: C, form: Types, rules: SimulatedRules) -> SimulatedRow:
    """Return the simulated row. A row that cannot be compiled has the reason instead."""
    row = empty_simulated(kind, case, form, rules)
    try:
        return _simulate_row(row, kind, case, form, rules)
    except IsamapError as error:
        said = "; ".join("; ".join((d.message, *d.notes[-2:])) for d in error.diagnostics)
        return replace(row, left_out=said)


def _simulate_row(
    row: SimulatedRow, kind: LayerKind[C], case: C, form: Types, rules: SimulatedRules
) -> SimulatedRow:
    started = perf_counter()
    kernel, made = _compile_case(kind, case, form, rules)
    assert made.machine and made.schedule and made.problem and made.program  # noqa: PT018 - all stages have run
    row = replace(row, compile_seconds=perf_counter() - started)
    found = simulate(made.program, made.machine, made.problem)
    instruction, peak_per_ns = _peak(made)
    moved = add_up(
        prod(shape) * form.element_bytes(operand)
        for operand, shape in zip("ABC", kind.shapes(case).values(), strict=True)
    )
    is_right, checked = _check_result(kernel, kind, case, form, rules)
    nearer = {link.target_memory for link in made.machine.links}
    outer = [link for link in made.machine.links if link.source_memory not in nearer]
    return replace(
        row,
        instruction=instruction,
        instructions=found.issues,
        simulated_ns=found.total_ns,
        analytic_ns=made.schedule.cost_ns or 0.0,
        bound_ns=made.schedule.lower_bound_ns or 0.0,
        array_ns=row.operations / peak_per_ns,
        dram_ns=moved / max(link.bandwidth_bytes_per_ns for link in outer),
        busy_ns=dict(found.busy_ns),
        is_right=is_right,
        checked=checked,
        left_out="" if is_right else "the result is wrong",
        warnings="; ".join(finding.message for finding in made.schedule.findings),
    )


def _compile_case(
    kind: LayerKind[C], case: C, form: Types, rules: SimulatedRules
) -> tuple[CompiledKernel, Compilation]:
    source = kind.source(kind.laid_out(case), form, 0)
    request = Request(source, rules.machine, case.bindings, limit_s=rules.limit_s, transform=BEST_FORM)
    prepared = prepare(request)
    return CompiledKernel(prepared, isolate=True), prepared.program.compilation


def _peak(made: Compilation) -> tuple[str, float]:
    """Return the instruction of the sum, and its peak operations per nanosecond."""
    assert made.machine is not None
    assert made.schedule is not None
    assert made.problem is not None
    found = [(nest.mapping.split()[0], nest.choose) for nest in made.schedule.nests]
    rates = [(name, lanes(made.machine, name, dict(p))) for name, p in found]
    name, rate = max(rates, key=lambda pair: pair[1])
    return name, rate


def lanes(machine: Machine, name: str, params: Mapping[str, int]) -> float:
    """Return how many operations an instruction performs per nanosecond. Each iteration counts as two."""
    item = machine.instructions[name]
    pattern = pattern_of(item.instruction)
    assert pattern is not None, "what statements are mapped to is one statement"
    steps = prod(axis.extent.substitute(params).value or 1 for axis in pattern.axes)
    interval = interval_ns(item, machine, params)
    return OPERATIONS_PER_STEP * steps / interval if interval else 0.0


def _check_result(
    kernel: CompiledKernel, kind: LayerKind[C], case: C, form: Types, rules: SimulatedRules
) -> tuple[bool, str]:
    """Return whether the result is right, and the compared sizes: the full row, or a smaller copy."""
    small, said = case, "in full"
    while small.operations > MOST_CHECKED:
        small = kind.smaller(small)
        said = small.label
    if small is not case:
        kernel, _ = _compile_case(kind, small, form, rules)
    lies = kind.laid_out(small)
    arrays = {name: array for name, (_, array) in kind.values(lies, form).items()}
    arrays |= kernel(**arrays)
    return kind.is_right(lies, form, arrays), said


# --- simulated suite ------------------------------------------------------------------------------------


# So many rows are named that reach least of the roofline.
NAMED = 5


@dataclass(frozen=True, slots=True)
class SimulatedCampaign(Generic[C]):
    """The settings of a simulation run. `folder` keeps the rows. No row is started after `minutes`.

    Units: `limit_s` of the solver per row.
    """

    kind: LayerKind[C]
    cases: Sequence[C]
    form: Types
    machine: str
    limit_s: float = 10.0
    folder: Path | None = None
    resume: bool = False
    minutes: float | None = None


def run_simulated(
    campaign: SimulatedCampaign[Any], watch: Watch = unwatched
) -> tuple[tuple[SimulatedRow, ...], dict[str, object]]:
    """Return the rows, and the environment of the run. Raises: UsageProblem, MissingTool."""
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
    """The summary of all rows with times.

    `of_roofline` is the geometric mean of the fraction of the lower roof that rows reach, and `worst` are the
    rows with the least fraction. `predicted` is the mean of analytic over simulated time, `error` that of the
    factor between both (at least 1), and `furthest` the row where it is largest.
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
    apart = sorted(timed, key=_factor_between)
    mean = geometric_mean(map(_factor_between, timed))
    return SimulatedSummary(
        len(timed),
        len(rows) - len(timed),
        geometric_mean(row.roof_ns / row.simulated_ns for row in timed),
        geometric_mean(row.analytic_ns / row.simulated_ns for row in timed),
        (None if mean is None else mean - 1),
        apart[-1] if apart else None,
        tuple(sorted(timed, key=lambda row: row.roof_ns / row.simulated_ns)[:NAMED]),
    )


def _factor_between(row: SimulatedRow) -> float:
    """Return the factor between model and simulation, at least 1."""
    ratio = row.analytic_ns / row.simulated_ns
    return max(ratio, 1 / ratio)


HEAD = (
    *("instructions", "simulated µs", "analytic µs", "analytic / simulated", "array µs", "memory µs"),
    *("of the array", "of the roofline", "bound by", "verified"),
)


def simulated_table(rows: Sequence[SimulatedRow], heading: str) -> str:
    """Return one line per row, `heading` above their labels, then reasons for missing times, and warnings."""
    lines: list[Sequence[str]] = [("row", heading, *HEAD)]
    lines += [_line(row) for row in rows if not row.left_out]
    found = align(lines, right=(0, *range(2, 10)))
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
    """Return the means, and the rows with the least fraction of the roofline."""
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
    """Return the rows as CSV."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for row in rows:
        writer.writerow([getattr(row, column) for column in COLUMNS])
    return text.getvalue()
