"""Show a scheduled statement as a loop tree, with each iteration's bytes and the cache that holds them.

loop               trips  a        b        c        together  fits
all                       40 KiB   120 KiB  80 KiB   240 KiB   l2
for k by 100       3      40 KiB   80 KiB   80 KiB   200 KiB   l2
  for m by 9       12     3.6 KiB  80 KiB   7.2 KiB  90.8 KiB  l2
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from isamap.plan.check import live_registers
from isamap.plan.problem import Cache, NestOption, Problem, TileOperand
from isamap.plan.schedule import NestSchedule
from isamap.plan.text import print_nest
from isamap.report.columns import Row, bytes_text
from isamap.source.records import asdict, dataclass

MEMORY = "memory"


@dataclass(frozen=True, slots=True)
class NestLine:
    """One line of a schedule's text. A loop has the bytes that an iteration accesses.

    Units: `touched_bytes` per operand. `trips` is None if the line is not a loop, and 0 outside all loops.
    `fits` is the nearest cache with room for all of it.
    """

    depth: int
    text: str
    trips: int | None = None
    touched_bytes: tuple[tuple[str, int], ...] = ()
    fits: str = ""


@dataclass(frozen=True, slots=True)
class NestTree:
    """All levels of a nest, and the registers in use as (memory, used, available).

    `stationary` gives the operands that stay in a memory of an accelerator, and the loops over which they stay.
    """

    statement: int
    mapping: str
    operands: tuple[str, ...]
    levels: tuple[NestLine, ...]
    registers: tuple[tuple[str, int, int], ...]
    stationary: tuple[tuple[str, str, tuple[str, ...]], ...] = ()


def nest_tree(nest: NestSchedule, option: NestOption, problem: Problem) -> NestTree:
    """Return the tree of a nest."""
    extents = {axis.name: axis.extent for axis in option.axes}
    covered = dict(extents)
    levels = [_level(0, "all", 0, covered, _staged_operands(nest, 0), option, problem.caches)]
    loops = iter(enumerate(nest.loops))
    depth = 0
    for line in _lines(nest):
        if not line.endswith("{"):
            levels.append(NestLine(depth, line.rstrip(";")))
            continue
        number, loop = next(loops)
        trips = -(-covered.get(loop.axis, 1) // loop.step)
        covered[loop.axis] = min(loop.step, covered.get(loop.axis, loop.step))
        text = line.removesuffix(" {")
        staged = _staged_operands(nest, number + 1)
        levels.append(_level(depth, text, trips, covered, staged, option, problem.caches))
        depth += 1
    files = dict(problem.registers)
    used = sorted(live_registers(nest, option).items())
    return NestTree(
        nest.statement,
        nest.mapping,
        tuple(operand.name for operand in option.operands),
        tuple(levels),
        tuple((memory, count, files[memory]) for memory, count in used if memory in files),
        tuple(_stationary(nest, option)),
    )


def _stationary(nest: NestSchedule, option: NestOption) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """Yield each operand that stays in an accelerator memory while loops repeat, with these loops."""
    kept = {stage.operand: (stage.depth, stage.memory) for stage in nest.stages if stage.memory}
    for operand in option.operands if kept else ():
        depth, memory = kept.get(operand.name, (len(nest.loops), ""))
        if operand.is_accumulator:
            depth, memory = nest.hold, operand.memory
        covered, over = {axis.name: axis.extent for axis in option.axes}, dict[str, None]()
        for number, loop in enumerate(nest.loops):
            if number >= depth and loop.axis not in operand.axes and covered[loop.axis] > loop.step:
                over[loop.axis] = None
            covered[loop.axis] = min(covered[loop.axis], loop.step)
        if over:
            yield operand.name, memory, tuple(over)


def _lines(nest: NestSchedule) -> list[str]:
    """Return the text of a nest inside its braces, one statement per line."""
    lines = [line.strip() for line in print_nest(nest).splitlines()[1:]]
    return [line for line in lines if line != "}" and not line.startswith(("map ", "choose "))]


def _staged_operands(nest: NestSchedule, depth: int) -> frozenset[str]:
    """Return the operands that are read from buffers inside the first `depth` loops."""
    return frozenset(stage.operand for stage in nest.stages if stage.depth < depth)


def _level(
    depth: int,
    text: str,
    trips: int,
    covered: Mapping[str, int],
    staged: frozenset[str],
    option: NestOption,
    caches: tuple[Cache, ...],
) -> NestLine:
    touched = tuple((o.name, _bytes(o, covered, o.name in staged)) for o in option.operands)
    total = sum(size for _, size in touched)
    fits = next((cache.name for cache in caches if total <= cache.capacity_bytes), MEMORY)
    return NestLine(depth, text, trips, touched, fits)


def _bytes(operand: TileOperand, covered: Mapping[str, int], staged: bool) -> int:
    """Return the bytes of an operand that loops access. `covered` has the elements along each axis."""
    size = operand.staging.staged_bytes if staged else operand.layout.tensor_bytes
    if operand.layout.subscripts and not staged:
        for subscript in operand.layout.subscripts:
            size *= 1 + sum(abs(step) * (covered[axis] - 1) for axis, step in subscript)
        return size
    for axis in operand.axes:
        size *= covered[axis]
    return size


def tree_rows(tree: NestTree) -> list[Row]:
    """Return the tree as table rows, the header first."""
    rows: list[Row] = [("loop", "trips", *tree.operands, "together", "fits")]
    for level in tree.levels:
        text = "  " * level.depth + level.text
        if level.trips is None:
            rows.append((text, "", *("" for _ in tree.operands), "", ""))
            continue
        sizes = [size for _, size in level.touched_bytes]
        shown = [bytes_text(size) for size in (*sizes, sum(sizes))]
        rows.append((text, str(level.trips) if level.trips else "", *shown, level.fits))
    return rows


def registers_text(tree: NestTree) -> str:
    """Return the used and available registers as text: `31 of 32 zmm`."""
    return ", ".join(f"{used} of {there} {memory}" for memory, used, there in tree.registers)


def stationary_text(tree: NestTree) -> str:
    """Return the stationary operands with their memories and loops: `b stays in weights over p, q`."""
    return "; ".join(
        f"{name} stays in {memory} over {', '.join(loops)}" for name, memory, loops in tree.stationary
    )


def tree_json(tree: NestTree) -> dict[str, object]:
    """Return the tree as JSON."""
    return {
        "statement": tree.statement,
        "mapping": tree.mapping,
        "levels": [{**asdict(level), "touched_bytes": dict(level.touched_bytes)} for level in tree.levels],
        "registers": [
            {"memory": memory, "used": used, "available": there} for memory, used, there in tree.registers
        ],
        "stationary": [
            {"operand": name, "memory": memory, "loops": list(loops)}
            for name, memory, loops in tree.stationary
        ],
    }
