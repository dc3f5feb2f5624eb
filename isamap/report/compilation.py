"""What a compilation decided, for people: one block per statement.

gemm_f32 on x86-avx512: M = 64, N = 64, K = 64

statement 0: C[m, n] += A[m, k] * B[k, n];
  fma_zmm_f32 { i: n } (a = A[m, k], b = B[k, n])
  block  n by 64, k by 256
  tile   m by 6, n by 64, k by 1; 24 issues unrolled
  staged b around k
  holds  24 of 32 zmm for c
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import prod

from isamap.ir import Kernel
from isamap.lower.program import LoweredProgram
from isamap.machine import Machine
from isamap.match import statement_text
from isamap.plan.check import live_registers
from isamap.plan.loops import LoopStep
from isamap.plan.problem import NestOption, Problem
from isamap.plan.schedule import NestSchedule, Schedule, engines_words
from isamap.plan.text import fixed_words
from isamap.report.packed import packed_lines
from isamap.report.workspace import workspace_lines
from isamap.transform import statements


def compilation_report(
    kernel: Kernel, machine: Machine, problem: Problem, schedule: Schedule, program: LoweredProgram
) -> str:
    """The report as text, with a newline at its end."""
    lines = [*_statement_lines(kernel, machine, problem, schedule), "", *_program_lines(program)]
    return "\n".join([*lines, *_cost_lines(schedule, machine.figures)]) + "\n"


@dataclass(frozen=True, slots=True)
class Decided:
    """A schedule with what it answers."""

    kernel: Kernel
    machine: Machine
    problem: Problem
    schedule: Schedule


def versions_report(versions: Iterable[Decided], program: LoweredProgram) -> str:
    """The report of a program with several schedules, as text with a newline at its end."""
    lines: list[str] = []
    for one in versions:
        lines += _statement_lines(one.kernel, one.machine, one.problem, one.schedule)
        lines += [*_cost_lines(one.schedule, one.machine.figures), ""]
    return "\n".join([*lines, *_program_lines(program)]) + "\n"


def _statement_lines(kernel: Kernel, machine: Machine, problem: Problem, schedule: Schedule) -> Iterator[str]:
    sizes = ", ".join(f"{name} = {value}" for name, value in schedule.sizes)
    yield f"{kernel.name} on {machine.name}{': ' if sizes else ''}{sizes}"
    given, questions = statements(kernel), {nest.statement: nest for nest in problem.nests}
    for nest in schedule.nests:
        option = next(o for o in questions[nest.statement].options if o.mapping == nest.mapping)
        yield from ("", f"statement {nest.statement}: {statement_text(given[nest.statement])}")
        yield from (f"  fuses  statement {n}: {statement_text(given[n])}" for n in nest.fused)
        yield from _nest_lines(nest, option, dict(problem.registers))


def _program_lines(program: LoweredProgram) -> Iterator[str]:
    yield from packed_lines(program)
    yield from workspace_lines(program)
    yield "instructions: " + ", ".join(program.instructions())


def _nest_lines(nest: NestSchedule, option: NestOption, registers: dict[str, int]) -> Iterator[str]:
    chosen = ", ".join(f"{name} = {value}" for name, value in nest.choose)
    yield f"  {nest.mapping}{'; ' if chosen else ''}{chosen}"
    register_axes = {axis for axis, _ in _innermost(nest)}
    dealt = nest.loops[: nest.parallel]
    if dealt:
        extents = {axis.name: axis.extent for axis in option.axes}
        parts = prod(-(-extents[step.axis] // step.step) for step in dealt)
        yield f"  deal   {_steps(list(dealt))}: {parts} parts for threads"
    innermost = {step.axis for step in dealt} - {step.axis for step in nest.loops if step.counts}
    loops = [s for s in nest.loops if s.counts or (s.is_dealt and s.axis in innermost)]
    last = {step.axis: i for i, step in enumerate(loops)}
    blocks = [step for i, step in enumerate(loops) if i != last[step.axis]]
    tiles = [step for i, step in enumerate(loops) if i == last[step.axis]]
    if blocks:
        yield f"  block  {_steps(blocks)}"
    unrolled = prod(factor for _, factor in _innermost(nest)) if register_axes else 1
    yield f"  tile   {_steps(tiles)}" + (f"; {unrolled} issues unrolled" if unrolled > 1 else "")
    for stage in nest.stages:
        around = nest.loops[stage.depth].axis if stage.depth < len(nest.loops) else "the issue"
        yield (
            f"  packed {stage.operand} before"
            if stage.packed
            else f"  staged {stage.operand} around {around}"
        )
    for memory, count in sorted(live_registers(nest, option).items()):
        if memory in registers:
            yield f"  holds  {count} of {registers[memory]} {memory}"


def _innermost(nest: NestSchedule) -> list[tuple[str, int]]:
    """The unrolled axes with how many issues each unrolls."""
    found: list[tuple[str, int]] = []
    for i, step in enumerate(nest.loops):
        if step.is_unrolled:
            outer = [s.step for s in nest.loops[:i] if s.axis == step.axis]
            found.append((step.axis, outer[-1] // step.step if outer else 1))
    return found


def _steps(steps: list[LoopStep]) -> str:
    return ", ".join(f"{step.axis} by {step.step}" for step in steps)


def _cost_lines(schedule: Schedule, figures: str) -> Iterator[str]:
    if schedule.cost_ns is None:
        yield f"schedule: {schedule.status}"
        return
    gap = f", at most {100 * schedule.gap:.1f} % above the optimum" if schedule.gap is not None else ""
    gap += " of these" if gap and schedule.fixed else ""
    among = f" among those with {fixed_words(schedule)}" if schedule.fixed else ""
    yield f"schedule: {schedule.status}{among}, {schedule.cost_ns:.0f} ns by the model {schedule.model}{gap}"
    if engines := engines_words(schedule):
        yield engines
    if schedule.profile:
        yield f"figures {figures or 'measured before'}: profile {schedule.profile}"
    if not schedule.reproducible:
        yield "the clock stopped the solver: a second run may give another schedule"
