"""Pipelines added to a schedule: the innermost loops of its nests, solved one by one."""

from __future__ import annotations

from dataclasses import replace

from isamap.ir import Kernel
from isamap.lower.lower import steady_states
from isamap.machine import Machine
from isamap.plan.schedule import NestSchedule, Schedule
from isamap.report.pipelines import Ordered, Pipelined


def with_pipelines(schedule: Schedule, kernel: Kernel, machine: Machine, limit_s: float) -> Ordered:
    """The schedule with a pipeline for each nest that may have one.

    Units: `limit_s` of wall clock, for each of them.
    """
    from isamap.scheduler.pipelines.modulo import pipeline_apart  # its child brings OR-Tools

    nests: list[NestSchedule] = []
    found: list[Pipelined] = []
    for nest, steady in steady_states(kernel, machine, schedule):
        solved = pipeline_apart(steady, limit_s) if steady is not None else None
        found.append(Pipelined(nest.statement, steady, solved))
        nests.append(replace(nest, pipeline=solved.pipeline) if solved is not None else nest)
    return Ordered(replace(schedule, nests=tuple(nests)), tuple(found))
