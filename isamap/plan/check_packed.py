"""The judge of operands that are passed packed: the nest takes them so, as a whole, and no others."""

from __future__ import annotations

from collections.abc import Iterator

from isamap.plan.problem import NestOption
from isamap.plan.schedule import NestSchedule, Stage
from isamap.source import Diagnostic


def check_packed(nest: NestSchedule, option: NestOption) -> Iterator[Diagnostic]:
    """What is wrong with what a nest says of operands that are packed, and of those that are not."""
    stages = {stage.operand: stage for stage in nest.stages}
    for operand in option.operands:
        stage = stages.get(operand.name)
        if operand.packed and (stage is None or not stage.packed):
            yield Diagnostic(
                "schedule-packed",
                f"nest {nest.statement}: `{operand.tensor}` is passed packed, and not taken so",
                help=f"put `stage {operand.name} packed;` before the first loop, or leave out "
                f"--packed {operand.tensor}",
            )
        elif stage is not None and stage.packed and not operand.packed:
            yield Diagnostic(
                "schedule-packed",
                f"nest {nest.statement}: `stage {operand.name} packed;`, and `{operand.tensor}` is not "
                "passed packed",
                help=f"add --packed {operand.tensor}, or write `stage {operand.name};`",
            )
        elif stage is not None and stage.packed:
            yield from _check_whole(nest, stage)


def _check_whole(nest: NestSchedule, stage: Stage) -> Iterator[Diagnostic]:
    if stage.depth or stage.ahead or stage.memory:
        yield Diagnostic(
            "schedule-packed",
            f"nest {nest.statement}: `stage {stage.operand} packed;` stands inside {stage.depth} loops, and "
            "what is packed before is packed as a whole",
            help="move it before the first loop",
        )
