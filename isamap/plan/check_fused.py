"""Whether a nest may take along what it fuses: part of the judge of schedules (`isamap.plan.check`)."""

from __future__ import annotations

from collections.abc import Iterator

from isamap.plan.problem import NestOption
from isamap.plan.schedule import NestSchedule
from isamap.source import Diagnostic


def check_fused(nest: NestSchedule, option: NestOption) -> Iterator[Diagnostic]:
    """What is wrong with the statements that a nest fuses."""
    offered = {fusion.statement: fusion for fusion in option.fusions}
    for number in nest.fused:
        if number not in offered:
            known = ", ".join(map(str, offered)) or "none"
            yield Diagnostic(
                "schedule-fuse",
                f"nest {nest.statement}: statement {number} cannot be fused",
                notes=(f"with this mapping it can take along: {known}",),
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
