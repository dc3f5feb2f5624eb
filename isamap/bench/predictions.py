"""Compare the cost model's predictions with measured times, and report their agreement on a machine.

    agreements(rows)[0]  ->  Agreement(figures="stated", rows=31, spearman=0.994, kendall=0.94, …)

The prediction is the cost of the schedule that ran, by the description's stated parameters, and by those of
the calibrated profile if there is one. The measurement is the least time of all rounds.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import mean, median
from typing import TYPE_CHECKING

from isamap.bench.kept_rows import Row
from isamap.bench.paired_timing import geometric_mean
from isamap.driver.request import read_size
from isamap.formulate.build import build_problem
from isamap.machine import load_machine
from isamap.plan.plugins import load_cost_model
from isamap.report.schedules import kendall_tau
from isamap.scheduler.nests.pricing import price
from isamap.source.records import asdict, dataclass, replace

if TYPE_CHECKING:
    from isamap.driver.runnable import PreparedKernel
    from isamap.plan.problem import Problem
    from isamap.plan.protocols import CostModel
    from isamap.plan.schedule import Schedule

FIGURES: tuple[str, ...] = ("stated", "calibrated")
"""Those of the description, and those of a profile of `isamap hw calibrate`."""
# With fewer rows than this an order says nothing.
LEAST_ROWS = 3


@dataclass(frozen=True, slots=True)
class Agreement:
    """The agreement of predictions with measurements over rows, for one set of parameters.

    `spearman` and `kendall` (tau-b) are rank correlations, 1 if both orders are the same; None if one of
    them has only ties. `median_relative_error` is that of |predicted - measured| / measured.
    `predicted_over_measured` is the geometric mean of the ratio: below 1 the model is too optimistic.
    """

    figures: str
    rows: int
    spearman: float | None
    kendall: float | None
    median_relative_error: float
    predicted_over_measured: float

    def as_json(self) -> dict[str, object]:
        """Return the agreement as JSON."""
        return asdict(self)

    def text(self) -> str:
        """Return the agreement in one line."""
        orders = [f"Spearman {_show_number(self.spearman)}", f"Kendall tau {_show_number(self.kendall)}"]
        error = f"median error {self.median_relative_error:.0%}"
        over = f"predicted / measured {self.predicted_over_measured:.2f}"
        return f"cost model by {self.figures} figures, {self.rows} rows: {', '.join((*orders, error, over))}"


def predicted_ns(prepared: PreparedKernel) -> dict[str, float]:
    """Return the modelled time of a row's schedule, for each set of parameters. Units: nanoseconds."""
    request, made = prepared.request, prepared.program.compilation
    assert made.schedule is not None
    assert made.problem is not None
    assert made.canonical is not None
    sizes = {name: read_size(value) for name, value in made.schedule.sizes}
    stated, model = made.problem, load_cost_model(request.cost_model)
    if request.profile is not None:  # the same question, with the figures of the description
        asked = (sizes, request.threads, request.packed)
        machine = replace(load_machine(request.machine), starts_cold=request.cold)
        stated = build_problem(made.canonical, machine, *asked)
    found = {FIGURES[0]: _price_ns(made.schedule, stated, model)}
    if request.profile is not None:
        found[FIGURES[1]] = _price_ns(made.schedule, made.problem, model)
    return {figures: ns for figures, ns in found.items() if ns is not None}


def agreements(rows: Sequence[Row]) -> tuple[Agreement, ...]:
    """Return the agreement for each parameter set over the rows with that prediction."""
    found = (_agreement(figures, pairs(rows, figures)) for figures in FIGURES)
    return tuple(agreement for agreement in found if agreement is not None)


def pairs(rows: Sequence[Row], figures: str) -> list[tuple[float, float]]:
    """Return pairs of predicted and measured nanoseconds for the rows that have both."""
    timed = (row for row in rows if figures in row.predicted_ns and row.measured_ns is not None)
    return [(row.predicted_ns[figures], row.measured_ns or 0.0) for row in timed]


def spearman(found: Sequence[tuple[float, float]]) -> float | None:
    """Return Spearman's rank correlation, or None if all values of one side are equal."""
    left, right = (_ranks([pair[side] for pair in found]) for side in (0, 1))
    mean_l, mean_r = mean(left), mean(right)
    both = sum((a - mean_l) * (b - mean_r) for a, b in zip(left, right, strict=True))
    own = sum((a - mean_l) ** 2 for a in left) * sum((b - mean_r) ** 2 for b in right)
    return both / own**0.5 if own else None


def _agreement(figures: str, found: Sequence[tuple[float, float]]) -> Agreement | None:
    if len(found) < LEAST_ROWS:
        return None
    return Agreement(
        figures,
        len(found),
        spearman(found),
        kendall_tau(found),
        median(abs(p - m) / m for p, m in found),
        geometric_mean(p / m for p, m in found) or 0.0,
    )


def _price_ns(schedule: Schedule, problem: Problem, model: CostModel) -> float | None:
    """Return the predicted cost of a schedule, or None if the model has none."""
    costs = price(schedule, problem, model)
    known = [cost for cost in costs if cost is not None]
    return sum(known) if len(known) == len(costs) else None


def _ranks(values: Sequence[float]) -> list[float]:
    places: dict[float, list[int]] = {value: [] for value in values}
    for place, value in enumerate(sorted(values)):
        places[value].append(place)
    return [mean(places[value]) for value in values]


def _show_number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"
