"""The independent checker of schedules. It shares no code with the heuristics and solvers that it checks.

    check_schedule(schedule, problem)  ->  ()                                    # fine
                                           (Diagnostic("schedule-capacity", ...),)  # or what is wrong

It is deliberately plain: one function per rule, each over one nest.
"""

from __future__ import annotations

from collections.abc import Iterator
from difflib import get_close_matches
from itertools import pairwise
from math import prod

from isamap.plan.check.crossings import check_overlap, check_prefetches
from isamap.plan.check.scratchpads import check_scratch, staged_bytes
from isamap.plan.check.threads import check_parallel, in_parts
from isamap.plan.problem import NestOption, NestProblem, Problem, TileAxis, TileOperand, chosen_options
from isamap.plan.schedule import LoopStep, NestSchedule, Schedule, slots_of
from isamap.plan.text import blocks_words
from isamap.source import Diagnostic

MAX_STEP = 1 << 31
MAX_BUFFER_BYTES = 1 << 63
# Far beyond what instruction caches hold, and about what C compilers take minutes for.
MAX_UNROLLED_ISSUES = 4096
LEAST_USED = 16  # less than one part in so many of a capacity is almost nothing


def check_schedule(schedule: Schedule, problem: Problem) -> tuple[Diagnostic, ...]:
    """Return the errors of a schedule as an answer to a problem, or () if it may be lowered."""
    return (*_check_header(schedule, problem), *_check_nests(schedule, problem))


def live_registers(nest: NestSchedule, option: NestOption) -> dict[str, int]:
    """Return the registers of each memory that a nest's unrolled loops need at once."""
    unrolls = _unrolls(nest, option)
    needed = dict(option.between)
    for operand in option.operands:
        tiles = _live_tiles(operand, unrolls)
        for memory, registers in operand.takes:
            needed[memory] = needed.get(memory, 0) + tiles * registers
    return needed


def predict_registers(nest: NestSchedule, option: NestOption, problem: Problem) -> int:
    """Return the registers that each lane is predicted to use for a nest: of tiles, and of the device's compiler."""
    covered, loops = {axis.name: axis.extent for axis in option.axes}, 0
    for loop in nest.loops:
        loops += not loop.is_unrolled and covered.get(loop.axis, 1) > loop.step
        covered[loop.axis] = loop.step
    return sum(live_registers(nest, option).values()) + problem.compiler_registers(option, loops)


def _unrolls(nest: NestSchedule, option: NestOption) -> list[tuple[str, int]]:
    """Return the unrolled loops, outermost first, each with its number of issues."""
    extents = {axis.name: axis.extent for axis in option.axes}
    unrolls: list[tuple[str, int]] = []
    covered = dict(extents)
    for loop in nest.loops:
        if loop.is_unrolled:
            unrolls.append((loop.axis, _ceildiv(covered.get(loop.axis, 1), loop.step)))
        covered[loop.axis] = loop.step
    return unrolls


def _live_tiles(operand: TileOperand, unrolls: list[tuple[str, int]]) -> int:
    """Return the number of live tiles of an operand.

    All of an accumulator. Of another operand those that a later iteration of an unrolled loop uses again: the
    tiles along the unrolled loops inside the outermost one that it does not depend on.
    """
    own = [(axis, factor) for axis, factor in unrolls if axis in operand.axes]
    if operand.is_accumulator:
        return prod(factor for _, factor in own)
    reused_by = [i for i, (axis, factor) in enumerate(unrolls) if axis not in operand.axes and factor > 1]
    if not reused_by:
        return 1
    return prod(factor for axis, factor in unrolls[reused_by[0] :] if axis in operand.axes)


# --- the whole --------------------------------------------------------------------------------------------


def _check_header(schedule: Schedule, problem: Problem) -> Iterator[Diagnostic]:
    for what, given, expected in (
        ("kernel", schedule.kernel, problem.kernel),
        ("machine", schedule.machine, problem.machine),
    ):
        if given != expected:
            yield Diagnostic(
                "schedule-mismatch",
                f"the schedule is for {what} `{given}`, and this is {what} `{expected}`",
                help="leave out --schedule to have it scheduled anew",
            )
    if schedule.sizes != problem.sizes:
        yield Diagnostic(
            "schedule-mismatch",
            f"the schedule is for other sizes: {_sizes(schedule.sizes)}",
            notes=(f"here: {_sizes(problem.sizes)}",),
            help="compile with these sizes, or change the line `sizes` of the schedule",
        )

    if schedule.blocks != problem.blocks:
        yield Diagnostic(
            "schedule-mismatch",
            f"the schedule is for other blocks: {blocks_words(schedule.blocks)}",
            notes=(f"here: {blocks_words(problem.blocks)}",),
            help="leave out `--fix blocks`: a schedule states its own blocks",
        )


def _sizes(sizes: tuple[tuple[str, int | str], ...]) -> str:
    return ", ".join(f"{name} = {value}" for name, value in sizes) or "none"


def _check_nests(schedule: Schedule, problem: Problem) -> Iterator[Diagnostic]:
    given = sorted(nest.statement for nest in schedule.nests)
    fused = sorted(number for nest in schedule.nests for number in nest.fused)
    expected = sorted(nest.statement for nest in problem.nests)
    if sorted((*given, *fused)) != expected:
        along = f" and fuses {_numbers(fused)}" if fused else ""
        yield Diagnostic(
            "schedule-mismatch",
            f"the schedule has nests {_numbers(given)}{along}; "
            f"the kernel's statements are {_numbers(expected)}",
            help="each statement has one nest, or is fused into one",
        )
        return
    questions = {nest.statement: nest for nest in problem.nests}
    for nest in schedule.nests:
        option, missing = _find_option(nest, questions[nest.statement])
        if option is None:
            yield missing
            continue
        unknown = (*_check_names(nest, option), *_check_places(nest))
        yield from unknown
        if unknown:
            continue
        tiling = (*_check_tiling(nest, option), *_check_order(nest, option))
        yield from tiling
        yield from check_parallel(nest, option, problem.private)
        yield from _check_stages(nest, option)
        yield from check_packed(nest, option)
        yield from check_overlap(nest, option)
        yield from check_fused(nest, option)
        yield from check_carried(nest, option)
        yield from check_prefetches(nest, option, problem.hinted)
        if not tiling:
            yield from _check_unrolled(nest, option)
            yield from check_rests(nest, option)
            of_part = in_parts(nest, option)
            yield from _check_registers(nest, option, problem.registers_of(of_part))
            yield from _check_buffers(nest, option)
            yield from check_scratch(nest, of_part, problem)


def _numbers(numbers: list[int]) -> str:
    return ", ".join(str(n) for n in numbers) or "none"


# --- names ------------------------------------------------------------------------------------------------


def _find_option(nest: NestSchedule, question: NestProblem) -> tuple[NestOption | None, Diagnostic]:
    """Return the option that a nest takes, or the error if there is none."""
    for option in question.options:
        if option.mapping == nest.mapping and option.choose == nest.choose:
            return option, Diagnostic("schedule-unknown", "")
    mappings = sorted({option.mapping for option in question.options})
    choices = sorted({option.choose for option in question.options if option.mapping == nest.mapping})
    if choices:
        near = [", ".join(f"{name} = {value}" for name, value in choose) or "none" for choose in choices]
        return None, Diagnostic(
            "schedule-unknown",
            f"nest {nest.statement}: mapping `{nest.mapping}` is not offered with these parameters",
            notes=(f"offered: {'; '.join(near[:8])}",),
        )
    close = get_close_matches(nest.mapping, mappings, n=1, cutoff=0.4)
    return None, Diagnostic(
        "schedule-unknown",
        f"nest {nest.statement}: there is no mapping `{nest.mapping}`",
        notes=(f"there {_are(len(mappings))} of this statement",),
        help=f"did you mean `{close[0]}`?" if close else "`isamap match` lists them",
    )


def _are(count: int) -> str:
    return "is 1 mapping" if count == 1 else f"are {count} mappings"


def _check_names(nest: NestSchedule, option: NestOption) -> Iterator[Diagnostic]:
    axes = [axis.name for axis in option.axes]
    operands = [operand.name for operand in option.operands]
    for what, name, known in (
        *(("axis", loop.axis, axes) for loop in nest.loops),
        *(("operand", stage.operand, operands) for stage in nest.stages),
        *(("operand", prefetch.operand, operands) for prefetch in nest.prefetches),
    ):
        if name not in known:
            near = get_close_matches(name, known, n=1, cutoff=0.5)
            yield Diagnostic(
                "schedule-unknown",
                f"nest {nest.statement}: there is no {what} `{name}`",
                notes=(f"known: {', '.join(known)}",),
                help=f"did you mean `{near[0]}`?" if near else None,
            )


def _check_places(nest: NestSchedule) -> Iterator[Diagnostic]:
    """Yield errors of stages and prefetches whose depth exceeds the number of loops."""
    for what, name, depth in (
        *(("stage", stage.operand, stage.depth) for stage in nest.stages),
        *(("prefetch", prefetch.operand, prefetch.depth) for prefetch in nest.prefetches),
    ):
        if not 0 <= depth <= len(nest.loops):
            yield Diagnostic(
                "schedule-stage",
                f"nest {nest.statement}: `{what} {name}` is placed inside {depth} loops, "
                f"and there are {len(nest.loops)}",
            )


# --- loops ------------------------------------------------------------------------------------------------


def _check_tiling(nest: NestSchedule, option: NestOption) -> Iterator[Diagnostic]:
    for axis in option.axes:
        loops = [loop for loop in nest.loops if loop.axis == axis.name]
        steps = [loop.step for loop in loops]
        shown = ", ".join(str(step) for step in steps)
        where = f"nest {nest.statement}, axis `{axis.name}`"
        if not loops or steps[-1] != axis.tile:
            yield Diagnostic(
                "schedule-tiling",
                f"{where}: the innermost loop has to step by {axis.tile}",
                notes=(
                    f"one issue covers {axis.tile}; "
                    + (f"the steps are {shown}" if loops else "it has no loop"),
                ),
                help=f"add `for {axis.name} by {axis.tile}`",
            )
        if any(outer <= inner for outer, inner in pairwise(steps)):
            yield Diagnostic(
                "schedule-tiling", f"{where}: the steps {shown} do not decrease from outside to inside"
            )
        if any(step < 1 or step % axis.tile for step in steps):
            yield Diagnostic(
                "schedule-tiling", f"{where}: the steps {shown} are not all multiples of {axis.tile}"
            )
        # One beyond the extent is a loop of one trip: a text serves small sizes, too.
        if any(step > MAX_STEP for step in steps):
            yield Diagnostic("schedule-too-large", f"{where}: a step is at most 2**31; the steps are {shown}")
        if any(loop.is_unrolled for loop in loops[:-1]):
            yield Diagnostic("schedule-tiling", f"{where}: only its innermost loop can be unrolled")


def _check_order(nest: NestSchedule, option: NestOption) -> Iterator[Diagnostic]:
    """Yield errors in the order of loops: outer loops, `hold`, reduction loops, unrolled loops."""
    late = [loop for loop in nest.loops[nest.loops_around_unrolled :] if not loop.is_unrolled]
    if late:
        yield Diagnostic(
            "schedule-tiling",
            f"nest {nest.statement}: `{late[0].word} {late[0].axis} by {late[0].step}` stands "
            "inside an unrolled loop",
            help="unrolled loops are the innermost ones",
        )
    if not 0 <= nest.hold <= nest.loops_around_unrolled:
        yield Diagnostic("schedule-hold", f"nest {nest.statement}: `hold` must be around all unrolled loops")
        return
    summing = {axis.name for axis in option.axes if axis.is_reduction}
    for loop in nest.loops[nest.hold : nest.loops_around_unrolled]:
        if loop.axis not in summing:
            yield Diagnostic(
                "schedule-hold",
                f"nest {nest.statement}: `for {loop.axis} by {loop.step}` stands inside `hold`, "
                "but moves to other elements of the output",
                help=f"move it outside `hold`, or write `unroll {loop.axis} by {loop.step}` inside",
            )
    # Of a sum that is dealt to threads, `check_parallel` says what its accumulator needs.
    around = list(enumerate(nest.loops[: nest.hold]))
    outside = [i for i, loop in around if loop.axis in summing and not loop.is_dealt]
    # The sums whose parts do not fit their array's type. Others stay in a scratchpad by choice.
    sums = (operand for operand in option.operands if operand.is_accumulator and operand.staging.stage_whole)
    for operand in [
        operand for operand in sums if operand.layout.tensor_bytes < operand.staging.staged_bytes
    ]:
        depths = [stage.depth for stage in nest.stages if stage.operand == operand.name]
        if outside and (not depths or depths[0] > outside[0]):
            yield _partial_sums(nest, operand, nest.loops[outside[0]])


def _partial_sums(nest: NestSchedule, operand: TileOperand, loop: LoopStep) -> Diagnostic:
    return Diagnostic(
        "schedule-hold",
        f"nest {nest.statement}: `for {loop.axis} by {loop.step}` outside `hold` leaves partial sums in "
        f"`{operand.tensor}`, whose elements are narrower than the accumulator",
        help=f"put `stage {operand.name};` around this loop, or the loop inside `hold`",
    )


# --- data -------------------------------------------------------------------------------------------------


def _check_stages(nest: NestSchedule, option: NestOption) -> Iterator[Diagnostic]:
    where = f"nest {nest.statement}"
    staged = [stage.operand for stage in nest.stages]
    for name in sorted({name for name in staged if staged.count(name) > 1}):
        yield Diagnostic("schedule-stage", f"{where}: `{name}` is staged {staged.count(name)} times")
    filled_apart = {o.name for o in option.operands if o.staging.mover and not o.is_accumulator}
    for stage in nest.stages:
        inside = bool(stage.memory) and stage.operand in filled_apart and not option.shares_work
        if not 0 <= stage.depth <= (nest.loops_around_unrolled if inside else nest.hold):
            yield Diagnostic(
                "schedule-stage",
                f"{where}: `stage {stage.operand};` stands inside `hold`",
                help="move it outside `hold`",
            )
    rowless = {o.name for o in option.operands if not o.layout.dense_axis or o.staging.is_packed}
    for name in sorted({stage.operand for stage in nest.stages if stage.by_rows} & rowless):
        yield Diagnostic(
            "schedule-stage",
            f"{where}: `stage {name} by rows;`: no loop runs along rows of the copied elements",
            help=f"write `stage {name};`",
        )
    for operand in option.operands:
        if operand.name in staged and operand.costs.staged_ns is None:
            yield Diagnostic(
                "schedule-stage",
                f"{where}: `{operand.name}` cannot be staged",
                notes=("no move of the machine loads it from a buffer",),
            )
        if operand.name not in staged and operand.costs.direct_ns is None and not operand.staging.is_packed:
            yield Diagnostic(
                "schedule-stage",
                f"{where}: `{operand.name}` has to be staged",
                notes=(f"no move of the machine loads it directly from `{operand.tensor}`",),
                help=f"put `stage {operand.name};` before `hold;` or further outside",
            )


def _check_unrolled(nest: NestSchedule, option: NestOption) -> Iterator[Diagnostic]:
    factors = [factor for _, factor in _unrolls(nest, option)]
    if prod(factors) > MAX_UNROLLED_ISSUES:
        yield Diagnostic(
            "schedule-too-large",
            f"nest {nest.statement}: {prod(factors)} issues are unrolled in one loop body, "
            f"at most {MAX_UNROLLED_ISSUES} can be",
            help="write `for` instead of `unroll`, or put a smaller step around it",
        )


def _check_registers(
    nest: NestSchedule, option: NestOption, registers: dict[str, int]
) -> Iterator[Diagnostic]:
    for memory, needed in sorted(live_registers(nest, option).items()):
        available = registers.get(memory)
        if available is not None and needed > available:
            unrolls = _unrolls(nest, option)
            parts = [
                f"`{operand.name}`: {_live_tiles(operand, unrolls) * registers}"
                for operand in option.operands
                for taken, registers in operand.takes
                if taken == memory
            ]
            parts += [f"within an issue: {count}" for held, count in option.between if held == memory]
            yield Diagnostic(
                "schedule-capacity",
                f"nest {nest.statement}: {needed} registers of `{memory}` are needed, there are {available}",
                notes=(", ".join(parts),),
                help="unroll less",
            )


def _check_buffers(nest: NestSchedule, option: NestOption) -> Iterator[Diagnostic]:
    extents = {axis.name: axis.extent for axis in option.axes}
    for stage in nest.stages:
        operand = next(o for o in option.operands if o.name == stage.operand)
        covered = dict(extents)
        for loop in nest.loops[: stage.depth]:
            covered[loop.axis] = min(covered[loop.axis], loop.step)
        elements = prod(covered[axis] for axis in operand.axes if axis in covered) * slots_of(nest, stage)
        if elements * max(1, operand.staging.staged_bytes) >= MAX_BUFFER_BYTES:
            yield Diagnostic(
                "schedule-too-large",
                f"nest {nest.statement}: the buffer of `{stage.operand}` has {elements} elements",
                help="stage it further inside",
            )


def _ceildiv(a: int, b: int) -> int:
    return -(-a // max(1, b))


def warn_unused_capacity(schedule: Schedule, problem: Problem) -> Iterator[Diagnostic]:
    """Yield a warning for each almost empty accelerator memory whose operand is loaded repeatedly.

    A schedule that takes at most twice the time of its issues would gain little from more of a memory. Registers
    of lanes are left out: more blocks on a core use the rest of them.
    """
    known = chosen_options(schedule, problem)
    issued_ns = sum(
        option.interval_ns * prod(_ceildiv(axis.extent, axis.tile) for axis in option.axes)
        for _, option in known
    )
    if not problem.scratchpads or schedule.cost_ns is None or schedule.cost_ns <= 2 * issued_ns:
        return
    for nest, option in known:
        live = live_registers(nest, option)
        for operand in option.operands:
            if operand.is_accumulator:
                continue
            stage = next((s for s in nest.stages if s.operand == operand.name and s.memory), None)
            if operand.memory in dict(problem.registers):
                if problem.private:
                    continue
                memory, unit, used = operand.memory, "registers", live[operand.memory]
                there, depth = dict(problem.registers)[memory], nest.loops_around_unrolled
            elif stage is not None:
                memory, unit, depth = stage.memory, "bytes", stage.depth
                operands = {o.name: o for o in option.operands}
                here = (s for s in nest.stages if s.memory == memory)
                used = sum(staged_bytes(nest, s, operands, option) for s in here)
                there = problem.room(option)[memory]
            else:
                continue
            times = _loads_again(nest, option, operand, depth)
            if used * LEAST_USED <= there and times > 1:
                yield _report_unused(
                    nest, operand, f"{used} of {there} {unit} of `{memory}`", times, unit == "bytes"
                )


def _loads_again(nest: NestSchedule, option: NestOption, operand: TileOperand, depth: int) -> int:
    """Return how often each tile of an operand is loaded inside the first `depth` loops."""
    covered, times = {axis.name: axis.extent for axis in option.axes}, 1
    for loop in nest.loops[:depth]:
        if loop.axis not in operand.axes:
            times *= _ceildiv(covered[loop.axis], loop.step)
        covered[loop.axis] = min(covered[loop.axis], loop.step)
    return times


def _report_unused(
    nest: NestSchedule, operand: TileOperand, used: str, times: int, is_scratchpad: bool
) -> Diagnostic:
    return Diagnostic(
        "capacity-unused",
        f"nest {nest.statement} uses {used}, and loads each tile of `{operand.name}` {times} times",
        severity="warning",
        help="give the search more time with --limit"
        if is_scratchpad
        else "a loop can count through registers that are `named = immediate`, that only moves out of main memory "
        "write, and that only sums read: describe them so, or as a scratchpad",
    )


# --- features of the mapping ----------------------------------------------------------------------------


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
                help=f"give statement {number} its own nest",
            )
            continue
        missing = [str(n) for n in offered[number].needs if n not in nest.fused]
        if missing:
            both = ", ".join([*missing, str(number)])
            yield Diagnostic(
                "schedule-fuse",
                f"nest {nest.statement}: statement {number} reads the result of statement {missing[0]}, "
                "which is not fused",
                help=f"write `fuse {both};`, or give statement {number} its own nest",
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
        elif stage is not None and stage.packed and (stage.depth or stage.ahead or stage.memory):
            yield Diagnostic(
                "schedule-packed",
                f"nest {nest.statement}: `stage {stage.operand} packed;` is inside {stage.depth} loops, but "
                "an operand that is packed before the program is packed as a whole",
                help="move it before the first loop",
            )


# --- remainders -----------------------------------------------------------------------------------------

MAX_ISSUES = 4096
"""The most issues of a register block with all its remainders: more take C compilers minutes."""


def check_rests(nest: NestSchedule, option: NestOption) -> Iterator[Diagnostic]:
    """Yield the errors in the pieces into which a nest splits the remainders of axes."""
    whole = issues = 1
    for axis in option.axes:
        loops = [loop for loop in nest.loops if loop.axis == axis.name]
        around = [loop for loop in loops if not loop.is_unrolled]
        block = around[-1] if around and loops[-1].is_unrolled else None
        for loop in around:
            if loop.rest:
                yield from _check_pieces(nest, axis, loop, is_block=loop == block)
        if block is not None:
            whole *= block.step // axis.tile
            issues *= _tiles(axis, block, around)
    if issues > MAX_ISSUES and issues > whole:
        yield Diagnostic(
            "schedule-too-large",
            f"nest {nest.statement}: a register block and its remainders have {issues} issues together, "
            f"at most {MAX_ISSUES} can be",
            help="write fewer sizes behind `rest`, such as `rest 8 4 2 1`, or unroll less",
        )


def _tiles(axis: TileAxis, block: LoopStep, around: list[LoopStep]) -> int:
    """Return the tiles of an axis in a whole block and in all remainder pieces."""
    whole = block.step // axis.tile
    nested = all(loop.step % block.step == 0 for loop in around)
    if nested and not axis.is_open:
        return whole
    if block.rest:
        pieces = sum(size // axis.tile for size in block.rest)
    else:
        pieces = whole * (whole - 1) // 2  # one piece for each number of tiles, 1 to whole - 1
    return whole + pieces + (whole if axis.tile > 1 else 0)


def _check_pieces(
    nest: NestSchedule, axis: TileAxis, loop: LoopStep, *, is_block: bool
) -> Iterator[Diagnostic]:
    sizes = loop.rest
    where = f"nest {nest.statement}, `for {axis.name} by {loop.step} rest {' '.join(map(str, sizes))}`"
    whole = loop.step if loop.is_dealt else loop.step - axis.tile
    if not is_block or not whole:
        yield Diagnostic(
            "schedule-tiling",
            f"{where}: `rest` belongs to the innermost loop over blocks of unrolled tiles",
            help=f"leave it out, or write `unroll {axis.name} by {axis.tile}` inside",
        )
        return
    makes_all = (
        sizes[-1] == axis.tile
        and all(size % axis.tile == 0 for size in sizes)
        and all(size > after for size, after in pairwise(sizes))
        and all(size <= 2 * after for size, after in pairwise(sizes))
        and sizes[0] <= whole < 2 * sizes[0]
    )
    if not makes_all:
        yield Diagnostic(
            "schedule-tiling",
            f"{where}: these pieces do not compose every remainder up to {whole}, each used at most once",
            notes=(f"they are multiples of {axis.tile} and end with it; each is at most twice the next one",),
            help=f"write `rest {' '.join(map(str, piece_sizes(whole, axis.tile)))}`",
        )


def piece_sizes(whole: int, tile: int) -> tuple[int, ...]:
    """Return the fewest piece sizes that combine to every number of tiles up to `whole` elements: powers of two."""
    found = [tile]
    while 2 * found[-1] <= whole:
        found.append(2 * found[-1])
    return tuple(reversed(found))
