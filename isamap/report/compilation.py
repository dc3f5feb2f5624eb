"""Report the decisions of a compilation as text: one block per statement.

gemm_f32 on x86-avx512: M = 64, N = 64, K = 64

statement 0: C[m, n] += A[m, k] * B[k, n];
  fma_zmm_f32 { i: n } (a = A[m, k], b = B[k, n])
  block  n by 64, k by 256
  tile   m by 6, n by 64, k by 1; 24 issues unrolled
  staged b around k
  holds  24 of 32 zmm for c

Further parts are the packed tensors with their layouts and sizes, the workspace with each buffer's place
and lifetime, and the pipelines with their initiation intervals and proofs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import prod

from isamap.ir import Kernel
from isamap.lower.lifetimes import exact_bytes, fixed_bytes, most_bytes, padded_bytes, scratch_regions
from isamap.lower.program import Buffer, LoweredProgram
from isamap.lower.walk import issued_names
from isamap.machine import Machine
from isamap.match import statement_text
from isamap.plan.check import live_registers
from isamap.plan.problem import NestOption, Problem, chosen_options
from isamap.plan.schedule import LoopStep, NestSchedule, Schedule, cost_unit, engines_words
from isamap.plan.steady import BoundedAnswer, Steady
from isamap.plan.text import fixed_words
from isamap.source.records import dataclass
from isamap.transform import accesses, statements
from isamap.transform.companions import why_apart


def packed_json(program: LoweredProgram) -> list[dict[str, object]]:
    """Return the layout and bytes of each packed tensor, with its header, as JSON (None: known at run time)."""
    return [
        {
            "tensor": t.header.source,
            "argument": t.name,
            "program": pack.name,
            "layout": t.header.layout,
            "bytes": (t.shape[0] * t.dtype.size_bytes).value,
        }
        for pack in program.packs
        for t in pack.tensors
        if t.header is not None
    ]


def workspace_json(program: LoweredProgram) -> dict[str, object]:
    """Return the buffers with bytes, offset and lifetime as JSON (None: known at run time), and both totals."""
    sizes = [exact_bytes(b) for b in program.buffers]
    return {
        "fixed_bytes": fixed_bytes(program),
        **({"most_bytes": most_bytes(program)} if program.symbols and not program.asked else {}),
        "unshared_bytes": _unshared_bytes(program),
        "scratchpad_bytes": {name: size for name, (_, size) in scratch_regions(program).items()},
        "buffers": [
            {
                "name": b.name,
                "dtype": b.dtype.name,
                "memory": b.memory,
                "bytes": size,
                "offset_bytes": b.offset,
                "life": list(b.life) if b.life is not None else None,
                "why": b.why,
            }
            for b, size in zip(program.buffers, sizes, strict=True)
        ],
    }


MANY_BUFFERS = 8
"""More buffers than this of one type, size and purpose share a line."""


def workspace_lines(program: LoweredProgram) -> Iterator[str]:
    """Yield one line for each buffer, and the bytes saved by sharing, if any.

    Of many buffers with one type, size and purpose, one line states the first and the number of the others.
    """
    alike: dict[tuple[object, ...], list[Buffer]] = {}
    for b in program.buffers:
        alike.setdefault((b.memory, b.dtype.name, b.elements, b.why), []).append(b)
    for b in program.buffers:
        own = alike[b.memory, b.dtype.name, b.elements, b.why]
        if len(own) > MANY_BUFFERS and b is not own[0]:
            continue
        size = b.elements.value
        shown = f"{size * b.dtype.size_bytes} bytes" if size is not None else f"{b.elements} elements"
        why = f", {b.why}" if b.why else ""
        place = f" at {b.offset}" if b.offset is not None else ""
        life = f", needed from {b.life[0]} to {b.life[1]}" if b.life is not None else ""
        more = f"; {len(own) - 1} more like it, to {own[-1].name}" if len(own) > MANY_BUFFERS else ""
        yield f"{b.memory or 'workspace'} {b.name}: {b.dtype}, {shown}{place}{why}{life}{more}"
    if fixed_bytes(program) < (unshared := _unshared_bytes(program)):
        yield f"workspace: {fixed_bytes(program)} bytes; {unshared} without sharing"
    for name in scratch_regions(program):
        used, end = _occupied_bytes(program, name)
        gaps = f", and gaps between buffers, up to byte {end}" if used < end else ""
        yield f"{name}: {used} bytes in use{gaps}"


def _occupied_bytes(program: LoweredProgram, memory: str) -> tuple[int, int]:
    """Return the bytes of a scratchpad that buffers occupy at any time, and the end of the last buffer."""
    used = end = 0
    for start, size in sorted(
        (b.offset or 0, exact_bytes(b) or 0) for b in program.buffers if b.memory == memory
    ):
        used += max(0, start + size - max(start, end))
        end = max(end, start + size)
    return used, end


def _unshared_bytes(program: LoweredProgram) -> int:
    """Return the workspace bytes of buffers of known size if no two shared their place."""
    return sum(padded_bytes(b) or 0 for b in program.buffers if not b.memory)


@dataclass(frozen=True, slots=True)
class Pipelined:
    """The pipeline of a statement's main loop. `solved` is None if there is none."""

    statement: int
    steady: Steady | None
    solved: BoundedAnswer | None


@dataclass(frozen=True, slots=True)
class Ordered:
    """A schedule with the software pipelines found for its nests."""

    schedule: Schedule
    found: tuple[Pipelined, ...]

    def text(self) -> str:
        """Return a sentence for each pipeline."""
        return "\n".join(map(pipeline_line, self.found))

    def json(self) -> list[dict[str, object]]:
        """Return a JSON object for each pipeline."""
        return [pipeline_json(pipelined) for pipelined in self.found]


def pipeline_line(found: Pipelined) -> str:
    """Return one statement's pipeline in a sentence."""
    where = f"statement {found.statement}"
    if found.steady is None:
        return f"{where}: no innermost loop has issues only, so none can be pipelined"
    if found.solved is None:
        return f"{where}: no pipeline found for {len(found.steady.operations)} issues"
    solved, tick = found.solved, found.steady.tick_ns
    interval = solved.pipeline.interval
    proof = "proven least" if solved.is_optimal else f"proven to be no less than {solved.interval_bound}"
    bound = solved.lifetime_bound
    lives = "proven least" if solved.lifetime == bound else f"proven to be no less than {bound}"
    return (
        f"{where}: an iteration of {len(found.steady.operations)} issues every {interval} ticks of {tick:.3g} ns "
        f"({proof}), {solved.pipeline.stages} under way; its values take registers for {solved.lifetime} "
        f"ticks ({lives})"
    )


def pipeline_json(found: Pipelined) -> dict[str, object]:
    """Return one statement's pipeline as JSON, with null for numbers that are unknown."""
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


def compilation_report(
    kernel: Kernel, machine: Machine, problem: Problem, schedule: Schedule, program: LoweredProgram
) -> str:
    """Return the report as text, with a newline at its end."""
    lines = [*_statement_lines(kernel, machine, problem, schedule), "", *_program_lines(program)]
    return "\n".join([*lines, *cost_lines(schedule, machine.figures)]) + "\n"


@dataclass(frozen=True, slots=True)
class DecidedSchedule:
    """A schedule with its kernel, machine and problem."""

    kernel: Kernel
    machine: Machine
    problem: Problem
    schedule: Schedule


def versions_report(versions: Iterable[DecidedSchedule], program: LoweredProgram) -> str:
    """Return the report of a program with several schedules, as text with a newline at its end."""
    lines: list[str] = []
    for one in versions:
        lines += _statement_lines(one.kernel, one.machine, one.problem, one.schedule)
        lines += [*cost_lines(one.schedule, one.machine.figures), ""]
    return "\n".join([*lines, *_program_lines(program)]) + "\n"


def _statement_lines(kernel: Kernel, machine: Machine, problem: Problem, schedule: Schedule) -> Iterator[str]:
    sizes = ", ".join(f"{name} = {value}" for name, value in schedule.sizes)
    yield f"{kernel.name} on {machine.name}{': ' if sizes else ''}{sizes}"
    given = statements(kernel)
    for nest, option in chosen_options(schedule, problem):
        yield from ("", f"statement {nest.statement}: {statement_text(given[nest.statement])}")
        yield from (f"  fuses  statement {n}: {statement_text(given[n])}" for n in nest.fused)
        yield from _apart_lines(kernel, schedule, problem, nest.statement)
        yield from _nest_lines(nest, option, dict(problem.registers))


def _apart_lines(kernel: Kernel, schedule: Schedule, problem: Problem, number: int) -> Iterator[str]:
    """Yield why a statement is not fused with the sums that it reads. Each has its own loop nest."""
    given = statements(kernel)
    read = {r.buffer for r in accesses(given[number])}
    for nest in (one for one in schedule.nests if one.statement < number):
        if given[nest.statement].is_reduction and given[nest.statement].assign.target.buffer in read:
            options = next(one.options for one in problem.nests if one.statement == nest.statement)
            fusions = {f.statement for o in options if o.mapping == nest.mapping for f in o.fusions}
            possible = "it can be fused, but this schedule has a separate loop nest for it"
            lacking = f"no instructions compute it from sums of {nest.mapping.partition(' ')[0]} and store its result"
            why = why_apart(kernel, nest.statement, number) or (possible if number in fusions else lacking)
            yield f"  apart from statement {nest.statement}: {why}"


def _program_lines(program: LoweredProgram) -> Iterator[str]:
    # One line for each packed tensor.
    for entry in packed_json(program):
        size = entry["bytes"] if entry["bytes"] is not None else "a run-time number of"
        yield (
            f"packed {entry['tensor']}: {size} bytes, written by {entry['program']}, layout {entry['layout']}"
        )
    yield from workspace_lines(program)
    yield "instructions: " + ", ".join(issued_names(program.body))


def _nest_lines(nest: NestSchedule, option: NestOption, registers: dict[str, int]) -> Iterator[str]:
    chosen = ", ".join(f"{name} = {value}" for name, value in nest.choose)
    yield f"  {nest.mapping}{'; ' if chosen else ''}{chosen}"
    register_axes = {axis for axis, _ in _innermost(nest)}
    dealt = nest.loops[: nest.parallel]
    if dealt:
        around, parts = {axis.name: axis.extent for axis in option.axes}, 1
        for step in dealt:
            parts *= -(-around[step.axis] // step.step)
            around[step.axis] = step.step
        yield f"  par    {_steps(list(dealt))}: {parts} parts for threads"
    counted = {step.axis for step in nest.loops if step.counts}
    own = {step.axis: step for step in dealt if step.axis not in counted}
    loops = [s for s in nest.loops if s.counts or s is own.get(s.axis)]
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
    """Return the unrolled axes, each with its number of issues."""
    found: list[tuple[str, int]] = []
    for i, step in enumerate(nest.loops):
        if step.is_unrolled:
            outer = [s.step for s in nest.loops[:i] if s.axis == step.axis]
            found.append((step.axis, outer[-1] // step.step if outer else 1))
    return found


def _steps(steps: list[LoopStep]) -> str:
    return ", ".join(f"{step.axis} by {step.step}" for step in steps)


def gap_text(schedule: Schedule) -> str:
    """Return the gap in percent with one decimal place. 0.0 is a proof."""
    shown = f"{100 * (schedule.gap or 0):.1f}"
    return "0.1" if shown == "0.0" and not schedule.is_proven else shown


def cost_lines(schedule: Schedule, figures: str) -> Iterator[str]:
    """Yield the known parts of a schedule's cost, one per line. `figures` names the source of the parameters."""
    if schedule.cost_ns is None:
        yield f"schedule: {schedule.status}"
        return
    gap = f", at most {gap_text(schedule)} % above the model's optimum" if schedule.gap is not None else ""
    gap += " of these" if gap and schedule.fixed else ""
    among = f" among those with {fixed_words(schedule)}" if schedule.fixed else ""
    cost = f"{schedule.cost_ns:.0f} {cost_unit(schedule.model)}"
    yield f"schedule: {schedule.status}{among}, {cost} by the model {schedule.model}{gap}"
    if engines := engines_words(schedule):
        yield engines
    if schedule.profile:
        yield f"figures {figures or 'measured before'}: profile {schedule.profile}"
    if not schedule.reproducible:
        found = "of the same cost" if schedule.is_proven else "as the clock stopped the solver"
        yield f"a second run may give another schedule, {found}"
