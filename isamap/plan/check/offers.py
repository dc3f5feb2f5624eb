"""Check a nest against the features of its mapping: a carried loop, fused statements, packed operands."""

from __future__ import annotations

from collections.abc import Iterator

from isamap.plan.problem import NestOption
from isamap.plan.schedule import NestSchedule, Stage
from isamap.source import Diagnostic


def check_carried(nest: NestSchedule, option: NestOption) -> Iterator[Diagnostic]:
    """Yield the errors in the loop-carried values of a nest."""
    offered = option.carried.axis if option.carried is not None else ""
    if nest.carried and nest.carried != offered:
        yield Diagnostic(
            "schedule-carry",
            f"nest {nest.statement}: no values can be carried along `{nest.carried}`",
            notes=(f"with this mapping it can carry along: {offered or 'none'}",),
            help=f"write `carry {offered};`" if offered else "leave the line out",
        )
    if nest.carried and nest.pipeline is not None:
        yield Diagnostic(
            "schedule-carry",
            f"nest {nest.statement}: iterations along `{nest.carried}` depend on each other and cannot be pipelined",
            help="leave out the line `pipeline`",
        )


def check_fused(nest: NestSchedule, option: NestOption) -> Iterator[Diagnostic]:
    """Yield the errors in the statements that a nest fuses."""
    offered = {fusion.statement: fusion for fusion in option.fusions}
    for number in nest.fused:
        if number not in offered:
            known = ", ".join(map(str, offered)) or "none"
            yield Diagnostic(
                "schedule-fuse",
                f"nest {nest.statement}: statement {number} cannot be fused",
                notes=(f"with this mapping it can fuse: {known}",),
                help=f"give statement {number} a nest of its own",
            )
            continue
        missing = [str(n) for n in offered[number].needs if n not in nest.fused]
        if missing:
            both = ", ".join([*missing, str(number)])
            yield Diagnostic(
                "schedule-fuse",
                f"nest {nest.statement}: statement {number} needs what statement {missing[0]} computes",
                help=f"write `fuse {both};`, or give statement {number} a nest of its own",
            )


def check_packed(nest: NestSchedule, option: NestOption) -> Iterator[Diagnostic]:
    """Yield the errors in a nest's packed and unpacked operands."""
    stages = {stage.operand: stage for stage in nest.stages}
    for operand in option.operands:
        stage = stages.get(operand.name)
        if operand.staging.is_packed and (stage is None or not stage.packed):
            yield Diagnostic(
                "schedule-packed",
                f"nest {nest.statement}: `{operand.tensor}` is passed packed, and its stage is not packed",
                help=f"put `stage {operand.name} packed;` before the first loop, or leave out "
                f"--packed {operand.tensor}",
            )
        elif stage is not None and stage.packed and not operand.staging.is_packed:
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
            f"nest {nest.statement}: `stage {stage.operand} packed;` is inside {stage.depth} loops, but "
            "an operand that is packed before the program is packed as a whole",
            help="move it before the first loop",
        )
