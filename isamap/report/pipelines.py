"""Pipelines in words: every how long an iteration starts, and what is proven about that."""

from __future__ import annotations

from dataclasses import dataclass

from isamap.plan.schedule import Schedule
from isamap.plan.steady import Solved, Steady


@dataclass(frozen=True, slots=True)
class Pipelined:
    """What was found for the main loop of a statement; `solved` is None where nothing was."""

    statement: int
    steady: Steady | None
    solved: Solved | None


@dataclass(frozen=True, slots=True)
class Ordered:
    """A schedule with the pipelines that were found for its nests."""

    schedule: Schedule
    found: tuple[Pipelined, ...]

    def text(self) -> str:
        """A sentence for each."""
        return "\n".join(map(pipeline_line, self.found))

    def json(self) -> list[dict[str, object]]:
        """An object for each."""
        return [pipeline_json(pipelined) for pipelined in self.found]


def pipeline_line(found: Pipelined) -> str:
    """One statement's pipeline in a sentence."""
    where = f"statement {found.statement}"
    if found.steady is None:
        return f"{where}: no innermost loop holds issues only, so there is nothing to pipeline"
    if found.solved is None:
        return f"{where}: no pipeline found for {len(found.steady.operations)} issues"
    solved, tick = found.solved, found.steady.tick_ns
    interval = solved.pipeline.interval
    proof = "proven least" if solved.is_optimal else f"proven to be no less than {solved.interval_bound}"
    bound = solved.lifetime_bound
    lives = "proven least" if solved.lifetime == bound else f"proven to be no less than {bound}"
    return (
        f"{where}: a turn of {len(found.steady.operations)} issues every {interval} ticks of {tick:.3g} ns "
        f"({proof}), {solved.pipeline.stages} under way; its values take registers for {solved.lifetime} "
        f"ticks ({lives})"
    )


def pipeline_json(found: Pipelined) -> dict[str, object]:
    """One statement's pipeline as JSON; figures are null where none was found."""
    solved = found.solved
    return {
        "statement": found.statement,
        "issues": len(found.steady.operations) if found.steady else 0,
        "tick_ns": found.steady.tick_ns if found.steady else None,
        "interval_ticks": solved.pipeline.interval if solved else None,
        "interval_bound_ticks": solved.interval_bound if solved else None,
        "stages": solved.pipeline.stages if solved else None,
        "lifetime_ticks": solved.lifetime if solved else None,
        "lifetime_bound_ticks": solved.lifetime_bound if solved else None,
    }
