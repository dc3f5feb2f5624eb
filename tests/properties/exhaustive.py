"""Every schedule of a small problem, tried one after the other: nothing here is the scheduler's.

What may be decided is stated anew, as docs/command-schedule.md says it, and costs are computed by a function
of its own. Deliberately plain: nested loops over all values of all decisions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations, permutations, product
from math import prod

from properties.exhaustive_ways import fits

from isamap.plan.cost import Add, Cases, CeilDiv, Const, Cost, Decision, Max, Mul, OverBlocks, Threshold
from isamap.plan.problem import NestOption, Problem, TileAxis, TileOperand

CUTS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32, 40, 48, 64, 80, *(1 << n for n in range(7, 13)))
"""Into how many cache blocks an axis may be cut."""


def every_decision(statement: int, option: NestOption, problem: Problem) -> Iterator[dict[str, int]]:
    """Yield all ways to decide an option."""
    files = dict(problem.registers)
    nest = f"nest{statement}"
    running = [axis for axis in option.axes if -(-axis.extent // axis.tile) > 1]
    outputs = [axis for axis in running if not axis.is_reduction]
    orders = [(order, _pairs(f"{nest}.order", running, order)) for order in permutations(running)]
    sweeps = [_pairs(f"{nest}.sweep", outputs, order) for order in permutations(outputs)]
    placements = [_placements(operand, option) for operand in option.operands]
    pads = dict(problem.scratchpads)
    for factors in _unrolled(option, running, files):
        unrolled = {axis.name: factors[axis.name] for axis in outputs}
        sizes = [_cache_blocks(axis, factors.get(axis.name, 1), least=1 if pads else 8) for axis in running]
        for blocks, stages in product(product(*sizes), product(*placements)):
            if _loses_sums(option, running, blocks, stages):
                continue
            made = {f"{nest}.unroll.{name}": factor for name, factor in factors.items()}
            made |= {f"{nest}.block.{a.name}": size for a, size in zip(running, blocks, strict=True)}
            made |= {f"{nest}.stage.{o.name}": at for o, at in zip(option.operands, stages, strict=True)}
            for (around, order), crossed in product(orders, _crossings(option, made, nest)):
                twice = {name.rpartition(".")[2] for name, value in crossed.items() if value}
                if not pads or fits(option, unrolled, (around, blocks), stages, pads, twice):
                    yield from (
                        {**made, **order, **sweep, **crossed, **hinted, **ordered}
                        for sweep in sweeps
                        for hinted in _hinted(option, made, nest)
                        for ordered in _ordered(option, made, nest)
                    )


def _unrolled(option: NestOption, running: list[TileAxis], files: dict[str, int]) -> Iterator[dict[str, int]]:
    """By how much axes are unrolled: register blocks, and the last sum beside them by 1, 2 or 4."""
    outputs = [axis for axis in running if not axis.is_reduction]
    sums = [axis for axis in running if axis.is_reduction][-1:]
    inputs = [operand for operand in option.operands if not operand.is_accumulator]
    if sums and any(sums[0].name not in operand.axes for operand in inputs):
        sums = []  # what does not follow the sum would wait in registers
    for counts in product(*(range(1, -(-axis.extent // axis.tile) + 1) for axis in outputs)):
        block = {axis.name: count for axis, count in zip(outputs, counts, strict=True)}
        if not _is_register_block(option, block, files):
            continue
        yield block if not sums else {**block, sums[0].name: 1}
        for axis in sums:
            for factor in (2, 4):
                if factor * axis.tile < axis.extent + axis.tile and factor * prod(counts) <= 64:
                    yield {**block, axis.name: factor}


def _pairs(prefix: str, axes: list[TileAxis], order: tuple[TileAxis, ...]) -> dict[str, int]:
    """1 where the first of two axes, as the problem lists them, stands around the second."""
    return {
        f"{prefix}.{a.name}.{b.name}": int(order.index(a) < order.index(b)) for a, b in combinations(axes, 2)
    }


def _placements(operand: TileOperand, option: NestOption) -> list[int]:
    """In place, per block, as a whole; each part of a sum has a buffer of its own."""
    summed = {axis.name for axis in option.axes if axis.is_reduction} & {name for name, _ in option.parts}
    found = [] if operand.costs.direct_ns is None or (operand.is_accumulator and summed) else [0]
    if operand.costs.staged_ns is not None:
        found += [1] if operand.is_accumulator else [1, 2]
    return found


def _crossings(option: NestOption, made: dict[str, int], nest: str) -> list[dict[str, int]]:
    """Return what may be filled an iteration ahead or written back one late: where a unit of its own moves it,
    ahead beside the sum where the unit that sums has its registers to itself.

    It is staged per block, inside a loop that moves on to other elements of it; a result is finished then.
    """
    sums = [axis for axis in option.axes if axis.is_reduction]
    choices: list[list[tuple[str, int]]] = []
    for operand in option.operands:
        if operand.costs.staged_ns is None or (operand.is_accumulator and not sums):
            continue
        own = [axis for axis in option.axes if axis.name in operand.axes]
        iterations = any(made.get(f"{nest}.block.{axis.name}", axis.extent) < axis.extent for axis in own)
        if operand.is_accumulator:
            iterations = any(
                axis.tile * made.get(f"{nest}.unroll.{axis.name}", axis.extent) < axis.extent for axis in own
            ) and all(made.get(f"{nest}.block.{axis.name}", axis.extent) == axis.extent for axis in sums)
        able = (
            operand.staging.mover
            and iterations
            and not option.parts
            and made[f"{nest}.stage.{operand.name}"] == 1
        )
        name = f"{nest}.{'spread' if operand.is_accumulator else 'ahead'}.{operand.name}"
        choices.append([(name, value) for value in ((0, 1) if able else (0,))])
        others = [a for a in option.axes if a.name not in operand.axes and a.extent > a.tile]
        alone = all(made.get(f"{nest}.block.{a.name}", a.extent) >= a.extent for a in others)
        if (
            operand.staging.is_concurrent
            and iterations
            and alone
            and not option.parts
            and _sums_inside(option.axes, made, nest)
        ):
            choices[-1] += [(name, 2)] if made[f"{nest}.stage.{operand.name}"] == 1 else []
    return [dict(chosen) for chosen in product(*choices)]


def _sums_inside(axes: Sequence[TileAxis], made: dict[str, int], nest: str) -> bool:
    """Return whether a loop over a sum goes on inside the register block."""
    running = [axis for axis in axes if axis.is_reduction and axis.extent > axis.tile]
    return any(
        made.get(f"{nest}.block.{a.name}", a.extent) > a.tile * made.get(f"{nest}.unroll.{a.name}", 1)
        for a in running
    )


def _hinted(option: NestOption, made: dict[str, int], nest: str) -> list[dict[str, int]]:
    """Return which inputs are asked for early: those that stream or are late, where some loop goes on to others.

    Rows along a sum are brought to the nearest cache, pieces of rows to the farthest that can be hinted.
    """
    choices: list[list[tuple[str, int]]] = []
    for operand in option.operands:
        if not operand.prefetching.hints:
            continue
        own = [axis for axis in option.axes if axis.name in operand.axes]
        along = any(axis.is_reduction and axis.name == operand.layout.dense_axis for axis in own)
        moves = any(
            made.get(f"{nest}.block.{axis.name}", axis.extent) < axis.extent
            if axis.is_reduction
            else axis.tile * made.get(f"{nest}.unroll.{axis.name}", 1) < axis.extent
            for axis in own
        )
        pieces = operand.prefetching.is_streamed and not along and _sums_inside(own, made, nest)
        able = (operand.prefetching.is_streamed or operand.prefetching.is_late) and (moves or pieces)
        into = 1 if along else len(operand.prefetching.hints)
        choices.append(
            [(f"{nest}.prefetch.{operand.name}", value) for value in ((0, into) if able else (0,))]
        )
    return [dict(chosen) for chosen in product(*choices)]


def _ordered(option: NestOption, made: dict[str, int], nest: str) -> list[dict[str, int]]:
    """Return which copies go row after row: of inputs in tiles of 512 bytes, whose rows register blocks cut."""
    choices: list[list[tuple[str, int]]] = []
    for operand in option.operands:
        if (
            operand.costs.staged_ns is None
            or operand.is_accumulator
            or operand.staging.is_packed
            or not operand.layout.dense_axis
        ):
            continue
        cut = any(
            axis.name == operand.layout.dense_axis and not axis.is_reduction and axis.extent > axis.tile
            for axis in option.axes
        )
        large = operand.tile_elements * operand.staging.staged_bytes >= 512
        able = cut and large and made[f"{nest}.stage.{operand.name}"] and not operand.staging.homes[0]
        values = (0, 1) if able and not operand.layout.subscripts else (0,)
        choices.append([(f"{nest}.rows.{operand.name}", value) for value in values])
    return [dict(chosen) for chosen in product(*choices)]


def _is_register_block(option: NestOption, unrolled: dict[str, int], files: dict[str, int]) -> bool:
    """At most two axes, 64 issues, and the registers of some order of the unrolled loops."""
    several = [name for name, factor in unrolled.items() if factor > 1]
    if len(several) > 2 or prod(unrolled.values()) > 64:
        return False
    return any(_fits(option, unrolled, order, files) for order in permutations(several))


def _fits(
    option: NestOption, unrolled: dict[str, int], order: tuple[str, ...], files: dict[str, int]
) -> bool:
    needed: dict[str, int] = dict.fromkeys(files, 0)
    for operand in option.operands:
        followed = [name for name in order if name in operand.axes]
        if not operand.is_accumulator:  # what an outer iteration that changes nothing of it uses again
            others = [place for place, name in enumerate(order) if name not in operand.axes]
            followed = [name for name in order[others[0] :] if name in operand.axes] if others else []
        tiles = prod(unrolled[name] for name in followed)
        if operand.memory in files:
            needed[operand.memory] += tiles * operand.registers
    return all(needed[memory] <= count for memory, count in files.items())


def _cache_blocks(axis: TileAxis, factor: int, least: int) -> list[int]:
    """Return the axis whole, and in blocks of whole register blocks; sums not into shorter ones than the least."""
    step = factor * axis.tile
    iterations = -(-axis.extent // step)
    found = {axis.extent}
    for count in CUTS:
        inside = -(-iterations // count)
        if inside * step < axis.extent and inside * factor >= (least if axis.is_reduction else 1):
            found.add(inside * step)
    return sorted(found)


def _loses_sums(
    option: NestOption, running: list[TileAxis], blocks: tuple[int, ...], stages: tuple[int, ...]
) -> bool:
    """Return whether partial sums would rest in a tensor that is narrower than they are."""
    cut = any(axis.is_reduction and size < axis.extent for axis, size in zip(running, blocks, strict=True))
    wide = [
        at
        for o, at in zip(option.operands, stages, strict=True)
        if o.is_accumulator and o.staging.stage_whole
    ]
    return cut and 0 in wide


# --- costs ------------------------------------------------------------------------------------------------


def value(cost: Cost, made: dict[str, int]) -> float:
    """Return what an expression comes to: no memo, no shortcuts."""
    match cost:
        case Const(number):
            return number
        case Decision(name):
            return made[name]
        case Add(parts):
            return sum(value(part, made) for part in parts)
        case Mul(parts):
            return prod(value(part, made) for part in parts)
        case Max(parts):
            return max(value(part, made) for part in parts)
        case CeilDiv(dividend, divisor):
            return -(-value(dividend, made) // value(divisor, made))
        case Cases(decision, branches):
            return next(value(branch, made) for at, branch in branches if at == made[decision])
        case Threshold(load, limit, below, above):
            return value(above if value(load, made) > limit else below, made)
        case OverBlocks(axes, body):
            return sum(value(body, {**made, **block}) for block in every_block(axes, made))


def every_block(axes: tuple[tuple[str, int], ...], made: dict[str, int]) -> Iterator[dict[str, int]]:
    """Yield the sizes of each register block, one after the other."""
    spans = [[min(made[name], issues - at) for at in range(0, issues, made[name])] for name, issues in axes]
    for sizes in product(*spans):
        yield {name: size for (name, _), size in zip(axes, sizes, strict=True)}


def program(cost: Cost) -> str:
    """Return the same as a line of Python over `made`, for expressions that are asked for often."""
    match cost:
        case Const(number):
            return repr(number)
        case Decision(name):
            return f"made[{name!r}]"
        case Add(parts):
            return f"({' + '.join(map(program, parts))})"
        case Mul(parts):
            return f"({' * '.join(map(program, parts))})"
        case Max(parts):
            return f"max(({', '.join(map(program, parts))},))"
        case CeilDiv(dividend, divisor):
            return f"-(-{program(dividend)} // {program(divisor)})"
        case Cases(decision, branches):
            chosen = " else ".join(f"({program(b)}) if made[{decision!r}] == {at}" for at, b in branches)
            return f"({chosen} else wrong())"
        case Threshold(load, limit, below, above):
            return f"(({program(above)}) if {program(load)} > {limit} else ({program(below)}))"
        case OverBlocks(axes, body):
            inner = f"(lambda made: {program(body)})"
            return f"sum({inner}({{**made, **block}}) for block in every_block({axes!r}, made))"
