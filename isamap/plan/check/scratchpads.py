"""Check buffers in scratchpads: each is in a permitted scratchpad, inside it, and disjoint.

stage a in spad at 0;        4096 bytes
stage b in spad at 2048;     overlaps the one above: both are needed while the innermost loops run
"""

from __future__ import annotations

from collections.abc import Iterator

from isamap.plan.problem import NestOption, Problem, TileOperand
from isamap.plan.schedule import NestSchedule, Stage, slots_of
from isamap.source import Diagnostic


def check_scratch(nest: NestSchedule, option: NestOption, problem: Problem) -> Iterator[Diagnostic]:
    """Yield the errors in the memories of a nest's stages."""
    operands = {operand.name: operand for operand in option.operands}
    capacities = problem.room(option)
    for stage in nest.stages:
        operand = operands[stage.operand]
        if stage.memory not in operand.staging.homes:
            homes = ", ".join(f"`{home}`" if home else "the workspace" for home in operand.staging.homes)
            where = f"in `{stage.memory}`" if stage.memory else "in the workspace"
            first = operand.staging.homes[0]
            yield Diagnostic(
                "schedule-stage",
                f"nest {nest.statement}: `{stage.operand}` cannot be staged {where}",
                notes=(f"its readers load from {homes}",),
                help=f"write `stage {stage.operand} in {first} at 0;`"
                if first
                else f"write `stage {stage.operand};`",
            )
    for memory, capacity in capacities.items():
        here = [stage for stage in nest.stages if stage.memory == memory]
        yield from _check_steps(nest, memory, here, dict(problem.address_steps).get(memory, 1))
        yield from _check_memory(
            nest, memory, capacity, [(s, staged_bytes(nest, s, operands, option)) for s in here]
        )


def _check_memory(
    nest: NestSchedule, memory: str, capacity: int, stages: list[tuple[Stage, int]]
) -> Iterator[Diagnostic]:
    needed = sum(size for _, size in stages)
    parts = ", ".join(f"`{stage.operand}`: {size} bytes" for stage, size in stages)
    if needed > capacity:
        yield Diagnostic(
            "schedule-capacity",
            f"nest {nest.statement}: {needed} bytes of `{memory}` are needed, there are {capacity}",
            notes=(parts,),
            help="stage further inside, or in smaller blocks",
        )
        return
    for number, (stage, size) in enumerate(stages):
        if stage.address is None:
            yield Diagnostic(
                "schedule-stage",
                f"nest {nest.statement}: `stage {stage.operand} in {memory}` does not say where",
                notes=(parts,),
                help=f"write `stage {stage.operand} in {memory} at 0;`, or another address",
            )
            continue
        if stage.address + size > capacity:
            yield Diagnostic(
                "schedule-capacity",
                f"nest {nest.statement}: `{stage.operand}` lies at {stage.address} to "
                f"{stage.address + size}, and `{memory}` ends at {capacity}",
            )
        for other, length in stages[:number]:
            begin = other.address
            if begin is not None and stage.address < begin + length and begin < stage.address + size:
                yield Diagnostic(
                    "schedule-capacity",
                    f"nest {nest.statement}: `{other.operand}` at {begin} to {begin + length} and "
                    f"`{stage.operand}` at {stage.address} to {stage.address + size} overlap in `{memory}`",
                    help="both are needed while the loops inside run: move one of them",
                )


def _check_steps(nest: NestSchedule, memory: str, stages: list[Stage], step: int) -> Iterator[Diagnostic]:
    for stage in stages:
        if stage.address is not None and stage.address % step:
            yield Diagnostic(
                "schedule-stage",
                f"nest {nest.statement}: `{stage.operand}` lies at {stage.address} in `{memory}`, whose "
                f"instructions count {step} bytes",
                help=f"write `stage {stage.operand} in {memory} at {stage.address // step * step};`, or "
                f"another multiple of {step}",
            )


def staged_bytes(
    nest: NestSchedule, stage: Stage, operands: dict[str, TileOperand], option: NestOption
) -> int:
    """Return the bytes of a stage's buffer: whole tiles for everything inside the loops, once per copy."""
    operand = operands[stage.operand]
    left = {axis.name: axis.extent for axis in option.axes}
    for loop in nest.loops[: stage.depth]:
        left[loop.axis] = min(left[loop.axis], loop.step)
    tiles = slots_of(nest, stage)
    axes, once = {axis.name: axis for axis in option.axes}, list[str]()
    for window in operand.staging.windows:  # taps that all lie inside share what they read
        along, taps = axes[window.along], axes[window.tap].extent
        if left[window.tap] == taps:
            rows = -(-left[along.name] // along.tile) * along.tile
            rows += (taps - 1) // window.period * window.shift
            tiles *= min(window.period, taps) * -(-rows // along.tile)
            once += [window.along, window.tap]
    for loop in nest.loops[stage.depth :]:
        if loop.axis in operand.axes and loop.axis not in once:
            tiles *= -(-left[loop.axis] // loop.step)
            left[loop.axis] = min(left[loop.axis], loop.step)
    return tiles * operand.tile_elements * operand.staging.staged_bytes
