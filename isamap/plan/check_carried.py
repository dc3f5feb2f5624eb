"""Whether an ordered loop may turn inside a nest: part of the judge of schedules (`isamap.plan.check`)."""

from __future__ import annotations

from collections.abc import Iterator

from isamap.plan.problem import NestOption
from isamap.plan.schedule import NestSchedule
from isamap.source import Diagnostic


def check_carried(nest: NestSchedule, option: NestOption) -> Iterator[Diagnostic]:
    """What is wrong with what a nest says that it carries along an ordered loop."""
    offered = option.carried.axis if option.carried is not None else ""
    if nest.carried and nest.carried != offered:
        yield Diagnostic(
            "schedule-carry",
            f"nest {nest.statement}: nothing can be carried along `{nest.carried}`",
            notes=(f"with this mapping it can be along: {offered or 'none'}",),
            help=f"write `carry {offered};`" if offered else "leave the line out",
        )
    if nest.carried and nest.pipeline is not None:
        yield Diagnostic(
            "schedule-carry",
            f"nest {nest.statement}: turns along `{nest.carried}` wait for each other, in no pipeline",
            help="leave out the line `pipeline`",
        )
