"""Predict the time of kernels on a described machine: the time, its instruction, and the lanes in use.

gemm_f32 M=128 N=128 K=128 on edge-npu -> 12.4 µs by multiply_f32, 100 % of its lanes

Many predictions run on all cores, each in a process of its own, or on a cluster. Each process reads the
descriptions itself.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from math import inf, prod
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

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
from isamap.source import Diagnostic, IsamapError, MissingTool, Source, UsageProblem, add_up
from isamap.source.records import dataclass, replace
from isamap.suites import usual_sizes
from isamap.syntax import parse_kernel
from isamap.transform import statements
from isamap.version import __version__

# --- cluster --------------------------------------------------------------------------------------------

# Many pieces of work on a cluster of Dask: other computers, on which the same isamap is installed.
#
# `isamap hw sweep … --scheduler tcp://head:8786` sends each prediction as a job, with what it needs as texts.


Work = TypeVar("Work")
Found = TypeVar("Found")
CONNECT_S = 10


def done_on_cluster(
    do: Callable[[Work], Found], requests: Sequence[Work], address: str
) -> Iterator[tuple[int, Found]]:
    """Yield the result of each piece of work with its number, in order of completion.

    Raises: MissingTool without `distributed`; UsageProblem if no scheduler answers, or if workers have
    another version of isamap or none.
    """
    with _client(address) as (distributed, client):
        # `pure`: work that is equal would be done once, and counted once
        futures = client.map(do, list(requests), pure=False)
        numbers = {future: number for number, future in enumerate(futures)}
        for future in distributed.as_completed(futures, loop=client.loop):
            if future.status != "finished":
                raise _refused(address, f"a job of it failed: {future.exception()!r}")
            yield numbers[future], future.result()
            future.release()


@contextmanager
def _client(address: str) -> Generator[tuple[Any, Any]]:
    """Open a connection to a scheduler whose workers have this isamap, and yield it with the library."""
    try:
        distributed: Any = importlib.import_module("distributed")
    except ModuleNotFoundError:
        said = "`--scheduler` needs the package distributed of Dask, which is not installed"
        raise MissingTool(Diagnostic("no-dask", said, help="`pip install 'isamap[dask]'`")) from None
    try:
        client = distributed.Client(address, timeout=CONNECT_S, set_as_default=False)
    except (OSError, ValueError, TypeError) as error:
        said = f"no scheduler of Dask answers at `{address}`"
        help_ = "`dask scheduler` prints its address, as tcp://192.168.0.7:8786"
        notes = (f"{type(error).__name__}: {error}"[:200],)
        raise UsageProblem(Diagnostic("no-scheduler", said, notes=notes, help=help_)) from None
    with client:
        _check_workers(address, client)
        yield distributed, client


def _check_workers(address: str, client: Any) -> None:
    """Check that all present workers have the same isamap as this process."""
    try:
        versions: dict[str, str] = client.run(version)
    except Exception as error:  # noqa: BLE001 - whatever a worker raises that cannot import isamap
        raise _refused(address, f"a worker cannot run isamap: {error!r}") from None
    others = {where: found for where, found in versions.items() if found != __version__}
    if others:
        where, found = next(iter(others.items()))
        raise _refused(address, f"the worker {where} has isamap {found}, this is {__version__}")


def version() -> str:
    """Return the version of the isamap that a worker has."""
    return __version__


def _refused(address: str, why: str) -> UsageProblem:
    said = f"the cluster at `{address}` does not do the work"
    help_ = "install this version of isamap where its workers run"
    return UsageProblem(Diagnostic("cluster-failed", said, notes=(why[:300],), help=help_))


# --- predicted ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Case:
    """A kernel at sizes."""

    kernel: Source
    sizes: tuple[tuple[str, Size], ...]

    @property
    def name(self) -> str:
        """`gemm_f32 M=64 N=64 K=64`."""
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
class Asked:
    """A requested prediction: a case on a machine, by a heuristic. Units: `limit_s` in seconds.

    `known` are texts of schedules: the one that was found here before, and those of similar machines.
    """

    case: Case
    machine: str
    heuristic: str = "greedy"
    limit_s: float = 10.0
    known: tuple[str, ...] = ()
    objective: str = "time"
    within: str = ""


def shipped_cases() -> tuple[Case, ...]:
    """Return every shipped kernel at one small size."""
    usual = usual_sizes()
    sources = [read_kernel(name) for name in list_kernels()]
    found: list[Case] = []
    for source in sources:
        open_sizes = [p.name for p in parse_kernel(source).params if p.kind == "size" and p.default is None]
        found.append(Case(source, tuple((name, usual.get(name, usual["*"])) for name in open_sizes)))
    return tuple(found)


def predict(asked: Asked) -> Predicted:
    """Return the performance that the description predicts, or the reason why it refuses the kernel."""
    request = Request(
        asked.case.kernel,
        asked.machine,
        dict(asked.case.sizes),
        heuristic=asked.heuristic,
        limit_s=asked.limit_s,
        cost_model=DEFAULT_COST_MODEL if asked.objective == TIME else asked.objective,
        objective=asked.objective,
        within=asked.within,
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
    """Return the time of a schedule chosen for any objective; None if the model has no price for it."""
    assert made.schedule is not None, "the stages before have run"
    assert made.problem is not None, "the stages before have run"
    if cost_unit(made.schedule.model) == "ns" and " " not in made.schedule.model:
        return made.schedule.cost_ns
    parts = price(made.schedule, made.problem, load_cost_model(DEFAULT_COST_MODEL))
    known = [part for part in parts if part is not None]
    return add_up(known) if len(known) == len(parts) else None


def _energy_and_area(made: Compilation) -> tuple[float | None, float | None]:
    """Return the energy of a schedule and the area of its machine, if they are stated."""
    from isamap.driver.explaining import schedule_accesses

    assert made.machine is not None, "the stages before have run"
    area = area_mm2(made.machine)
    if made.problem is None or made.schedule is None or made.canonical is None or not made.problem.energies:
        return None, area
    known = made.canonical, made.schedule, made.problem, made.machine
    counted = schedule_accesses(*known, CONVENTIONS["isamap"])
    return add_up(s.energy.total_pj for s in counted if s.energy is not None), area


def _improve(request: Request, known: Sequence[str]) -> Compilation:
    """Return the compilation with the cheapest schedule known here; a search starts from one that is new."""
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
    """Return the schedule with the largest bound that the searches proved.

    A schedule that is cheaper than a bound was outside the searched space, and disproves the bound.
    """
    assert best.cost_ns is not None, "it was priced"
    bounds = [s.lower_bound_ns for s in searched if s.lower_bound_ns is not None]
    bounds = [bound for bound in bounds if bound * (1 - PROVEN) <= best.cost_ns]
    found = replace(best, lower_bound_ns=min(best.cost_ns, max(bounds)) if bounds else None)
    word = searched[-1].status if searched[-1].status not in ("OPTIMAL", "FEASIBLE") else "FEASIBLE"
    return replace(found, status="OPTIMAL" if found.is_proven else word)


@dataclass(frozen=True, slots=True)
class Use:
    """An instruction that performs a computing statement, in so many iterations.

    It performs `lanes` of them at once, and `utilisation` is the share of busy lanes; None if unknown.
    """

    instruction: str
    iterations: int
    lanes: int | None
    utilisation: float | None


def uses_of(made: Compilation) -> tuple[Use, ...]:
    """Return the instructions that perform the computing statements of a schedule."""
    assert made.schedule is not None, "the stages before have run"
    return tuple(use for nest in made.schedule.nests if (use := _use(made, nest)) is not None)


def _use(made: Compilation, nest: NestSchedule) -> Use | None:
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
    return Use(mapping.instruction, iterations, *known)


@dataclass(frozen=True, slots=True)
class Sent:
    """A prediction with the texts of its machine's files by their names: for another computer."""

    asked: Asked
    files: tuple[tuple[str, str], ...]

    @staticmethod
    def of(asked: Asked) -> Sent:
        """Return the request for a description in its own folder, with the texts of that folder."""
        path = Path(asked.machine)
        texts = {file.name: file.read_text(encoding="utf-8") for file in sorted(path.parent.glob("*.yaml"))}
        return Sent(replace(asked, machine=path.name), tuple(texts.items()))


def predict_sent(sent: Sent) -> Predicted:
    """Return the prediction, if it has arrived."""
    with TemporaryDirectory() as folder:
        for name, text in sent.files:
            (Path(folder) / name).write_text(text, encoding="utf-8")
        return predict(replace(sent.asked, machine=str(Path(folder) / sent.asked.machine)))


def predict_all(
    requests: Sequence[Asked],
    jobs: int,
    seen: Callable[[int, Predicted], None] = lambda _n, _p: None,
    scheduler: str | None = None,
) -> list[Predicted]:
    """Return the predictions in their order; `seen` is told each as soon as it is there, with its number.

    They are made on the cores of this computer, or by the cluster of a Dask `scheduler`: then each machine is
    a description in a folder of its own.
    """
    found: dict[int, Predicted] = {}
    if scheduler is None:
        made = done_side_by_side(predict, requests, jobs)
    else:
        made = done_on_cluster(predict_sent, [Sent.of(asked) for asked in requests], scheduler)
    for number, result in made:
        found[number] = result
        seen(number, result)
    return [found[number] for number in range(len(requests))]
