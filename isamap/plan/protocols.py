"""The interfaces of plug-ins: cost models, heuristics, and evaluators.

A package offers them as entry points in the groups `isamap.cost_models`, `isamap.heuristics` and
`isamap.evaluators`. Each names a class that is created without arguments. docs/plugins.md has examples.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from isamap.plan.cost import Cost
from isamap.plan.problem import NestOption, NestProblem, Problem
from isamap.plan.schedule import Schedule
from isamap.source.records import dataclass

if TYPE_CHECKING:  # the solver's process does without them
    from isamap.ir import Kernel, Range
    from isamap.machine import Machine

# --- a schedule on trial --------------------------------------------------------------------------------

Fact = int | float | str


@dataclass(frozen=True, slots=True)
class Trial:
    """A schedule that passes `check_schedule`, of a kernel with bound sizes and explicit guards."""

    kernel: Kernel
    machine: Machine
    problem: Problem
    schedule: Schedule
    sizes: Mapping[str, int | Range]

    @property
    def profile(self) -> dict[str, int]:
        """The sizes at which it is evaluated: given ones, and the profile values of ranges."""
        from isamap.ir import typical_size

        return {name: typical_size(value) for name, value in self.sizes.items()}


@dataclass(frozen=True, slots=True)
class Evaluation:
    """The result of an evaluator. Units: nanoseconds, infinite if the schedule does not run.

    `facts` are further results by name.
    """

    cost_ns: float
    facts: tuple[tuple[str, Fact], ...] = ()


class CostModel(Protocol):
    """A modelled cost: an expression over decisions, hence exact for bounds."""

    @property
    def name(self) -> str:
        """The model's name in schedules."""
        ...

    def expression(self, problem: Problem, nest: NestProblem, option: NestOption) -> Cost:
        """Return the time of one statement under one option. A kernel's cost is the sum over its statements.

        The place of a loop with one iteration among the others must not change the cost.
        """
        ...


@runtime_checkable
class FlooredModel(Protocol):
    """A cost model with a fast lower bound for options, so that hopeless mappings need not be priced."""

    def least_ns(self, problem: Problem, option: NestOption) -> float:
        """Return a lower bound of `expression` for the option, valid for larger parameters or more operands, too.

        In parts on threads it may cost that much divided by their number. Units: nanoseconds.
        """
        ...


class Heuristic(Protocol):
    """A method that solves a problem."""

    @property
    def name(self) -> str:
        """The name for `--heuristic`."""
        ...

    def schedule(
        self, problem: Problem, model: CostModel, *, limit_s: float, fixed: Mapping[str, int]
    ) -> Schedule:
        """Return a schedule that has the `fixed` decisions, passes `check_schedule` and is cheap by `model`.

        Units: `limit_s` in seconds of wall clock. Raises: Infeasible if nothing agrees with `fixed`.
        """
        ...


class Evaluator(Protocol):
    """A cost from an evaluation of a schedule instead of an expression. It has no bound."""

    @property
    def name(self) -> str:
        """The name for `--evaluate`."""
        ...

    def evaluate(self, trial: Trial) -> float:
        """Return the time of one call under this schedule in ns, infinite if it does not run."""
        ...


@runtime_checkable
class ComparingEvaluator(Protocol):
    """An evaluator that compares all schedules together, or that returns additional facts."""

    def evaluate_together(self, trials: Sequence[Trial]) -> Sequence[Evaluation]:
        """Return an evaluation of each schedule, in order."""
        ...


@runtime_checkable
class DependentEvaluator(Protocol):
    """An evaluator whose results depend on more than the trial and the version of isamap."""

    def depends_on(self, machine: Machine) -> Mapping[str, str]:
        """Return further facts on which a result depends, such as compiler and processor."""
        ...
