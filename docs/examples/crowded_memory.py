"""An evaluator: the simulated time beside neighbours that take half of the memory's bandwidth."""

from dataclasses import replace

from isamap.simulate.events import Simulated


class CrowdedMemory:
    """Looks at the lowered program, as the built-in evaluator does, on a poorer machine."""

    name = "crowded"

    def evaluate(self, trial):
        half = trial.problem.memory_bandwidth_bytes_per_ns / 2
        poorer = replace(trial.problem, memory_bandwidth_bytes_per_ns=half)
        return Simulated().evaluate(replace(trial, problem=poorer))
