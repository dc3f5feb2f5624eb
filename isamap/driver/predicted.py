"""Predict the time of kernels on a described machine, with the instruction used and the busy lanes.

gemm_f32 M=128 N=128 K=128 on edge-npu -> 12.4 µs by multiply_f32, 100 % of its lanes

Many predictions run on all cores, each in a process of its own, or on a cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf, prod

from isamap.driver.cached_schedules import question_of
from isamap.driver.formulation import extent_of
from isamap.driver.inputs import read_kernel
from isamap.driver.pipeline import Compilation, compile_kernel, find_schedule
from isamap.driver.request import DEFAULT_COST_MODEL, TIME, Request, Size
from isamap.driver.side_by_side import done_side_by_side
from isamap.formulate.estimate import estimate, number_extents
from isamap.formulate.matches import chosen_tile
from isamap.kernels import list_kernels
from isamap.machine.model import area_mm2
from isamap.match import pattern_of
from isamap.plan.access_counts import CONVENTIONS
from isamap.plan.check import check_schedule
from isamap.plan.plugins import load_cost_model
from isamap.plan.schedule import PROVEN, NestSchedule, Schedule, cost_unit
from isamap.plan.text import parse_schedule, print_schedule
from isamap.scheduler.nests.pricing import price, start_from
from isamap.source import IsamapError, Source, add_up, dataclass, replace
from isamap.suites import usual_sizes
from isamap.syntax import parse_kernel
from isamap.transform import statements


@dataclass(frozen=True, slots=True)
class KernelCase:
    """A kernel at sizes, as written or in a variant."""

    kernel: Source
    sizes: tuple[tuple[str, Size], ...]
    transform: str | None = None

    @property
    def name(self) -> str:
        """The name with sizes, such as `gemm_f32 M=64 N=64 K=64`."""
        stem = self.kernel.name.removesuffix(".ir")
        return " ".join([stem, *(f"{name}={value}" for name, value in self.sizes)])


@dataclass(frozen=True, slots=True)
class Predicted:
    """The prediction of a case. If there is none, `ns` is None and `refused` is the code of the reason.

    `instructions` perform the statements that compute, and `utilisation` is the share of busy lanes of the
    one with most iterations. `status` is the solver's result for `schedule`, a text. `gap` is the largest
    fraction of `ns`, or of the objective's cost, by which it may exceed the optimum. `energy_pj` and
    `area_mm2` are None if the machine states none. Units: nanoseconds, picojoules, square millimetres.
    """

    ns: float | None
    instructions: tuple[str, ...] = ()
    utilisation: float | None = None
    refused: str = ""
    status: str = ""
    gap: float | None = None
    schedule: str = ""
    energy_pj: float | None = None
    area_mm2: float | None = None

    def as_json(self) -> dict[str, object]:
        """Return the prediction as JSON."""
        shown = None if self.utilisation is None else round(self.utilisation, 6)
        found = {
            "ns": self.ns,
            "status": self.status,
            "gap": self.gap,
            "instructions": list(self.instructions),
        }
        stated = {name: getattr(self, name) for name in ("energy_pj", "area_mm2")}
        return {
            **found,
            **{name: value for name, value in stated.items() if value is not None},
            "utilisation": shown,
            "refused": self.refused or None,
            "schedule": self.schedule,
        }


@dataclass(frozen=True, slots=True)
class PredictedKernel:
    """A kernel, or a model: its kernels with call counts, and the time of its other steps by machine."""

    name: str
    cases: tuple[KernelCase, ...]
    calls: tuple[int, ...] = (1,)
    other_ns: Callable[[str], float] | None = None

    @property
    def is_model(self) -> bool:
        return self.other_ns is not None


def add_predictions(
    subject: PredictedKernel, found: Sequence[Predicted], machine: str, objective: str
) -> Predicted:
    """Return the prediction of a subject from those of its kernels. A refused kernel refuses the whole.

    The gap is that of the sum: each kernel's own, weighted by its cost. A product of sums has none.
    """
    if subject.other_ns is None:
        return found[0]
    refused = next((one.refused for one in found if one.refused), "")
    if refused:
        return Predicted(None, refused=refused)
    called = list(zip(subject.calls, found, strict=True))
    times = [n * one.ns for n, one in called if one.ns is not None]
    ns = add_up(times) + subject.other_ns(machine) if len(times) == len(found) else None
    energies = [n * one.energy_pj for n, one in called if one.energy_pj is not None]
    energy_pj = add_up(energies) if len(energies) == len(found) else None
    costs, whole = (times, ns) if objective == TIME else (energies, energy_pj)
    gaps = [cost * one.gap for cost, one in zip(costs, found, strict=False) if one.gap is not None]
    gap = add_up(gaps) / whole if whole and len(gaps) == len(found) and objective in PROVEN_SUMS else None
    words = {one.status for one in found} - {"OPTIMAL"}
    status = next(iter(sorted(words - {"FEASIBLE"}) or words), "OPTIMAL")
    names = tuple(dict.fromkeys(name for one in found for name in one.instructions))
    area_mm2 = found[0].area_mm2 if found else None
    return Predicted(ns, names, None, "", status, gap, "", energy_pj, area_mm2)


PROVEN_SUMS = (TIME, "energy")
"""Objectives of which the optimum of a sum is the sum of optima."""


@dataclass(frozen=True, slots=True)
class PredictionRequest:
    """A request for a prediction: a case on a machine, by a heuristic. Units: `limit_s` in seconds.

    `known` are texts of schedules: the one that was found here before, and those of similar machines.
    """

    case: KernelCase
    machine: str
    heuristic: str = "greedy"
    limit_s: float = 10.0
    known: tuple[str, ...] = ()
    objective: str = "time"
    within: str = ""


def shipped_cases() -> tuple[KernelCase, ...]:
    """Return every shipped kernel at one small size."""
    usual = usual_sizes()
    sources = [read_kernel(name) for name in list_kernels()]
    found: list[KernelCase] = []
    for source in sources:
        open_sizes = [p.name for p in parse_kernel(source).params if p.kind == "size" and p.default is None]
        found.append(KernelCase(source, tuple((name, usual.get(name, usual["*"])) for name in open_sizes)))
    return tuple(found)


def predict(asked: PredictionRequest) -> Predicted:
    """Return the performance that the description predicts, or the reason of a refusal."""
    request = Request(
        asked.case.kernel,
        asked.machine,
        dict(asked.case.sizes),
        heuristic=asked.heuristic,
        limit_s=asked.limit_s,
        cost_model=DEFAULT_COST_MODEL if asked.objective == TIME else asked.objective,
        objective=asked.objective,
        within=asked.within,
        transform=asked.case.transform,
        cache=asked.heuristic == "cpsat",  # what is found quickly is found again sooner than it is written
    )
    try:
        made = _improve(request, asked.known) if asked.known else compile_kernel(request, "schedule")
    except IsamapError as error:
        return Predicted(None, refused=error.diagnostics[0].code)
    assert made.schedule is not None, "the stages before have run"
    used = uses_of(made)
    busiest = max(used, key=lambda use: use.iterations, default=None)
    names = tuple(dict.fromkeys(use.instruction for use in used))
    utilisation = busiest.utilisation if busiest else None
    found = made.schedule
    known = names, utilisation, "", found.status, found.gap, print_schedule(found)
    return Predicted(_time_ns(made), *known, *_energy_and_area(made))


def _time_ns(made: Compilation) -> float | None:
    """Return the time of a schedule chosen for any objective, or None if the model has no price."""
    assert made.schedule is not None, "the stages before have run"
    assert made.problem is not None, "the stages before have run"
    if cost_unit(made.schedule.model) == "ns" and " " not in made.schedule.model:
        return made.schedule.cost_ns
    parts = price(made.schedule, made.problem, load_cost_model(DEFAULT_COST_MODEL))
    known = [part for part in parts if part is not None]
    return add_up(known) if len(known) == len(parts) else None


def _energy_and_area(made: Compilation) -> tuple[float | None, float | None]:
    """Return the energy of a schedule and the area of its machine, None where not stated."""
    from isamap.driver.explaining import schedule_accesses

    assert made.machine is not None, "the stages before have run"
    area = area_mm2(made.machine)
    if made.problem is None or made.schedule is None or made.canonical is None or not made.problem.energies:
        return None, area
    known = made.canonical, made.schedule, made.problem, made.machine
    counted = schedule_accesses(*known, CONVENTIONS["isamap"])
    return add_up(s.energy.total_pj for s in counted if s.energy is not None), area


def _improve(request: Request, known: Sequence[str]) -> Compilation:
    """Return the compilation with the cheapest schedule, after a search from each known one."""
    own, *others = (parse_schedule(Source("schedule", text)) for text in known)
    named = tuple(sorted({nest.mapping for schedule in (own, *others) for nest in schedule.nests}))
    formulated, model = (
        compile_kernel(request, "formulate", extent=named),
        load_cost_model(request.cost_model),
    )
    assert formulated.problem is not None, "this stage has run"
    best = own
    for other in others:
        parts = () if check_schedule(other, formulated.problem) else price(other, formulated.problem, model)
        cost_ns = add_up(part or 0.0 for part in parts)
        if parts and None not in parts and cost_ns < (best.cost_ns or inf):
            best = replace(other, cost_ns=cost_ns, question=question_of(request))
    if best is own:
        return replace(formulated, schedule=own)
    problem = compile_kernel(request, "formulate", extent=extent_of(request)).problem
    assert problem is not None, "this stage has run"
    solved = find_schedule(request, start_from(problem, best, model))
    best = min(solved, best, key=lambda schedule: schedule.cost_ns or inf)
    return replace(formulated, schedule=_take_largest_bound(best, own, solved))


def _take_largest_bound(best: Schedule, *searched: Schedule) -> Schedule:
    """Return the schedule with the largest lower bound that the searches proved.

    A schedule that is cheaper than a bound was outside the searched space, and disproves the bound.
    """
    assert best.cost_ns is not None, "it was priced"
    bounds = [s.lower_bound_ns for s in searched if s.lower_bound_ns is not None]
    bounds = [bound for bound in bounds if bound * (1 - PROVEN) <= best.cost_ns]
    found = replace(best, lower_bound_ns=min(best.cost_ns, max(bounds)) if bounds else None)
    word = searched[-1].status if searched[-1].status not in ("OPTIMAL", "FEASIBLE") else "FEASIBLE"
    return replace(found, status="OPTIMAL" if found.is_proven else word)


@dataclass(frozen=True, slots=True)
class InstructionUse:
    """An instruction that performs a computing statement, with the number of iterations.

    It performs `lanes` of them at once, and `utilisation` is the share of busy lanes; None if unknown.
    """

    instruction: str
    iterations: int
    lanes: int | None
    utilisation: float | None


def uses_of(made: Compilation) -> tuple[InstructionUse, ...]:
    """Return the instructions that perform the computing statements of a schedule."""
    assert made.schedule is not None, "the stages before have run"
    return tuple(use for nest in made.schedule.nests if (use := _use(made, nest)) is not None)


def _use(made: Compilation, nest: NestSchedule) -> InstructionUse | None:
    assert made.canonical is not None, "the stages before have run"
    assert made.machine is not None, "the stages before have run"
    statement = statements(made.canonical)[nest.statement]
    if statement.assign.op is None:
        return None
    mapping = chosen_tile(statement, made.machine, nest, made.matches).mapping
    pattern = pattern_of(made.machine.instructions[mapping.instruction].instruction)
    exact = number_extents(statement, {})
    found = estimate(exact, mapping, pattern, made.machine) if exact and pattern else None
    iterations = prod(axis.extent.value or 1 for axis in (*statement.axes, *statement.sequence))
    known = (found.lanes, found.utilisation) if found is not None else (None, None)
    return InstructionUse(mapping.instruction, iterations, *known)


def predict_all(
    requests: Sequence[PredictionRequest],
    where: int | str,
    seen: Callable[[int, Predicted], None] = lambda _n, _p: None,
) -> list[Predicted]:
    """Return the predictions in order. `seen` receives each one, with its number, as soon as it exists.

    `where` is a number of processes of this computer, or the address of a scheduler.
    """
    found: dict[int, Predicted] = {}
    for number, result in done_side_by_side(predict, requests, where, machines=lambda one: (one.machine,)):
        found[number] = result
        seen(number, result)
    return [found[number] for number in range(len(requests))]
