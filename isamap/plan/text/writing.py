"""Write a Schedule as canonical text, which may be edited by hand and which `isamap.plan.text.reading` reads.

isamap schedule 1 kernel gemm_f32 machine x86-avx512 sizes M = 1024, N = 1..4096@512 status MANUAL

nest 0 {
  map vfmadd_zmm_f32 { i: n } (a = A, b = B, c = C);
  for m by 6 {
    hold;
    for k by 1 {
      unroll m by 1 {
        issue;
      }
    }
  }
}
"""

from __future__ import annotations

from hashlib import sha256

from isamap.plan.schedule import LoopStep, NestSchedule, Schedule, Stage, cost_unit, forget_cost, spread_of
from isamap.plan.text.stage_lines import print_stage

FORMAT = "isamap schedule 1"
DIGITS = 12


def print_schedule(schedule: Schedule) -> str:
    """Return the canonical text of a schedule, with a newline at its end."""
    digest = [f"digest {text_digest(schedule)}"] if schedule != forget_cost(schedule) else []
    lines = [*_header(schedule), *digest]
    return "\n".join([*lines, *_nests(schedule)]) + "\n"


def text_digest(schedule: Schedule) -> str:
    """Return the start of the sha256 of a schedule's text. Its claims only hold for this text."""
    return sha256("\n".join([*_header(schedule), *_nests(schedule)]).encode()).hexdigest()[:DIGITS]


def fixed_words(schedule: Schedule) -> str:
    """Return the decisions that a user fixed, as text. Cost and bound hold for schedules with these."""
    return ", ".join(f"{name} = {value}" for name, value in schedule.fixed)


def blocks_words(blocks: tuple[tuple[str, int], ...]) -> str:
    """Return axes with the iterations of a block, the outermost first, as text, or `none`."""
    return ", ".join(f"{axis} by {size}" for axis, size in blocks) or "none"


def _nests(schedule: Schedule) -> list[str]:
    return [line for nest in schedule.nests for line in ("", *_nest_lines(nest))]


def _header(schedule: Schedule) -> list[str]:
    lines = [FORMAT, f"kernel {schedule.kernel}", f"machine {schedule.machine}"]
    if schedule.sizes:
        lines.append("sizes " + ", ".join(f"{name} = {value}" for name, value in schedule.sizes))
    if schedule.blocks:
        lines.append(f"blocks {blocks_words(schedule.blocks)}")
    if schedule.model:
        lines.append(f"model {schedule.model}")
    if schedule.profile:
        lines.append(f"profile {schedule.profile}")
    if schedule.cost_ns is not None:
        lines.append(f"cost {schedule.cost_ns!r} {cost_unit(schedule.model)}")
    if schedule.lower_bound_ns is not None:
        lines.append(f"bound {schedule.lower_bound_ns!r} {cost_unit(schedule.model)}")
    lines.append(f"status {schedule.status}")
    if schedule.found_by:
        lines.append(f"found by {schedule.found_by}")
    if schedule.proved_by:
        lines.append(f"proved by {schedule.proved_by}")
    if not schedule.reproducible:
        lines.append("reproducible no")
    if schedule.fixed:
        lines.append(f"fixed {fixed_words(schedule)}")
    if schedule.question:
        lines.append(f"question {schedule.question}")
    return lines


def print_nest(nest: NestSchedule) -> str:
    """Return one nest as text, without a newline at its end."""
    return "\n".join(_nest_lines(nest))


def _nest_lines(nest: NestSchedule) -> list[str]:
    lines = [f"nest {nest.statement} {{", f"  map {nest.mapping};"]
    if nest.choose:
        lines.append("  choose " + ", ".join(f"{name} = {value}" for name, value in nest.choose) + ";")
    for depth in range(len(nest.loops) + 1):
        indent = "  " * (depth + 1)
        lines += [
            indent + text for stage in nest.stages if stage.depth == depth for text in _stage(nest, stage)
        ]
        lines += [
            f"{indent}prefetch {p.operand} ahead {p.ahead} into {p.cache};"
            for p in nest.prefetches
            if p.depth == depth
        ]
        if nest.hold == depth:
            lines.append(f"{indent}hold;")
            lines += [f"{indent}fuse {', '.join(map(str, nest.fused))};"] if nest.fused else []
        if nest.carried and depth == nest.loops_around_unrolled:
            lines.append(f"{indent}carry {nest.carried};")
        if depth < len(nest.loops):
            loop = nest.loops[depth]
            lines.append(f"{indent}{loop_words(loop)} {{")
    inside = "  " * (len(nest.loops) + 1)
    closing = ["  " * depth + "}" for depth in range(len(nest.loops), -1, -1)]
    return [*lines, *(inside + text for text in _pipeline(nest)), f"{inside}issue;", *closing]


def loop_words(loop: LoopStep) -> str:
    """Return the text of a loop's head."""
    rest = f" rest {' '.join(map(str, loop.rest))}" if loop.rest else ""
    return f"{loop.word} {loop.axis} by {loop.step}{rest}"


def _pipeline(nest: NestSchedule) -> list[str]:
    if nest.pipeline is None:
        return []
    return [f"pipeline every {nest.pipeline.interval} at {' '.join(map(str, nest.pipeline.starts))};"]


def _stage(nest: NestSchedule, stage: Stage) -> list[str]:
    spread = spread_of(nest, stage.operand)
    late = [f"spread write {spread.operand} into {spread.axis};"] if spread else []
    return [print_stage(stage), *late]
