"""The simulated cost: a schedule lowered, and its program run by events."""

from __future__ import annotations

from collections.abc import Sequence

from isamap.lower.lower import lower
from isamap.plan.trial import Evaluation, Fact, Trial
from isamap.simulate.events import simulate


class Simulated:
    """Needs no compiler and no processor of the machine's kind; what it leaves out is among its facts."""

    name = "simulated"

    def evaluate(self, trial: Trial) -> float:
        """Nanoseconds of one call by the simulator."""
        return _evaluation(trial).cost_ns

    def evaluate_together(self, trials: Sequence[Trial]) -> tuple[Evaluation, ...]:
        """The simulated cost of each, with what kept the machine busy."""
        return tuple(_evaluation(trial) for trial in trials)


def _evaluation(trial: Trial) -> Evaluation:
    program = lower(trial.kernel, trial.machine, trial.schedule, dict(trial.sizes))
    found = simulate(program, trial.machine, trial.problem, trial.profile)
    facts: list[tuple[str, Fact]] = [("issues", found.issues)]
    facts += [(f"busy_{unit}_ns", round(ns, 3)) for unit, ns in found.busy_ns]
    facts += [(f"from_{level}_bytes", round(moved)) for level, moved in found.moved_bytes]
    facts.append(("left_out", "; ".join(found.left_out)))
    return Evaluation(found.total_ns, tuple(facts))
