"""Measure the time to start rows from each memory while a kernel computes on them.

    C[m, n] += A[m, k] * B[k, n], with all B in one memory. A register block reads a piece of each row of B:

    for n by 80 { hold; for k by 1 { … } }                   the next piece is of another row, and is started
    for k by 16 { for n by 80 { hold; for k by 1 { … } } }   16 rows continue with their next pieces

Loads without dependences would hide the start of rows by out-of-order execution. Therefore the measurement
uses kernels of the language that are matched, scheduled and compiled like any other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from math import ceil, inf, isqrt, prod
from statistics import median
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isamap.ir import F32
from isamap.machine import Machine
from isamap.plan.decisions import block_of, mapping_of, prefetch_of, stage_of, sweep_of, unroll_of
from isamap.plan.problem import Cache, NestOption, Problem, with_fields
from isamap.plan.schedule import Schedule
from isamap.scheduler.answer import schedule
from isamap.source import Infeasible, dataclass, replace
from isamap.tune.clocked import CANNOT, ClockedKernel
from isamap.tune.instruction_times import numbers
from isamap.tune.measured_parameters import RowFigure, RowReading, Unmeasured

# --- row times ------------------------------------------------------------------------------------------

# Derive row parameters from the times of products, which `row_starts` measures.
#
# pieces of a column - pieces that follow others to start a piece pieces of 16 rows of A - of 4, over what
# these compute more the exposed part of computing pieces of 4 rows of A - the exposed part of their computing
# the exposed part of their traffic pieces that follow others - the same from a near memory their delay,
# hinted or not hinted pieces - the exposed part of computing on near ones the exposed part of their traffic


WIDEST = 8  # issues along a piece
FEW, MANY = 4, 16  # rows of A: what comes from afar counts most, or what is computed
# Of the time that following saves, what may be lost where a count of rows still is followed.
LOST = 0.35
LEAST = 0.05  # of the time of pieces that follow others: less is noise


@dataclass(frozen=True, slots=True)
class TwoMemoryProduct:
    """A product whose B lies in one memory. `together` rows of B are read before their next pieces.

    With `hinted`, pieces are prefetched; those of columns only if B streams. The number of issues per piece
    divides a row evenly, and is at most `widest`.
    """

    m: int
    n: int
    k: int
    together: int
    hinted: bool = False
    widest: int = WIDEST

    @property
    def in_columns(self) -> bool:
        """Return whether a piece of every row is read before the next piece of any row."""
        return self.together == self.k


@dataclass(frozen=True, slots=True)
class RowTime:
    """The measured time of a piece of a row, and of its issues alone. Units: ns, bytes."""

    per_piece_ns: float
    issues_ns: float
    piece_bytes: int


@dataclass(frozen=True, slots=True)
class SecondMemoryTimes:
    """The times of pieces from the second memory, by the number of rows read in turn.

    `lines_ns` is the part of it for their lines, and `far_lines_ns` the time of these lines from farther
    memory. Units: nanoseconds and bytes.
    """

    piece_bytes: int
    piece_ns: Mapping[int, float]
    lines_ns: float
    far_lines_ns: float

    def in_time_ns(self, together: int, computing_factor: float) -> float:
        """Return the time of a piece whose lines arrive in time, with the part of computing that is not hidden."""
        computing_ns = self.computing_ns(together, computing_factor)
        return max(self.piece_ns[together], computing_ns + self.far_lines_ns)

    def computing_ns(self, together: int, computing_factor: float) -> float:
        """Return the computing time of a piece that its loads do not hide."""
        return computing_factor * (self.piece_ns[together] - self.lines_ns)


def row_figure(
    memory: str,
    found: Mapping[TwoMemoryProduct, RowTime],
    best: TwoMemoryProduct,
    less: Mapping[TwoMemoryProduct, RowTime],
    ns_per_byte: float = 0.0,
    near: SecondMemoryTimes | None = None,
) -> RowFigure:
    """Return the measured parameters of rows, computed from times of products.

    `found` are products of many rows: columns, and pieces with hints if there are any. `less` are products of
    few rows: the `best` one of `found`, and columns with hints if there are any. `ns_per_byte` is the time of
    sequential reads (0: unknown). `near` has the times of pieces that are not late; None: no other memory is
    known.

    Raises: Infeasible if more computing takes no longer, so that its exposed part cannot be determined.
    """
    swept, few = found[best], less[replace(best, m=FEW)]
    added_ns = swept.issues_ns - few.issues_ns
    if added_ns <= 0:
        rows = f"{MANY} rows take the processor no longer than {FEW}"
        raise Infeasible.of("rows-without-computing", rows)
    start_ns = max(
        0.0, next(t for one, t in found.items() if one.in_columns).per_piece_ns - swept.per_piece_ns
    )
    followed = _nearly_as_fast(found, swept.per_piece_ns, start_ns, hinted=False)
    shown = min(1.0, max(0.0, (swept.per_piece_ns - few.per_piece_ns) / added_ns))
    if near is not None and near.piece_bytes != swept.piece_bytes:
        near = None
    in_time_ns = dict.fromkeys(followed, swept.per_piece_ns)
    if near is not None:
        in_time_ns = {count: near.in_time_ns(count, shown) for count in followed}
    late_ns, hinted_late_ns = _late(found, in_time_ns)
    pays = hinted_late_ns < late_ns
    early_ns = min((t.per_piece_ns for one, t in found.items() if one.hinted), default=inf)
    in_time = _nearly_as_fast(found, early_ns, late_ns - hinted_late_ns + start_ns, hinted=True)
    hinted = [max(0.0, t.per_piece_ns - few.per_piece_ns) for one, t in less.items() if one.hinted]
    traffic = _traffic_shown(few, shown, few.piece_bytes * ns_per_byte)
    return RowFigure(
        memory,
        swept.piece_bytes,
        start_ns,
        min(start_ns, *hinted) if hinted else None,
        max(followed) if start_ns else 0,  # the best one is always among them
        shown,  # what is computed takes no longer than by itself
        tuple(
            RowReading(one.m, 0 if one.in_columns else one.together, one.hinted, t.per_piece_ns)
            for one, t in (*found.items(), *less.items())
        ),
        swept_ns=late_ns,
        hinted_swept_count=max(in_time) if pays else 0,
        hinted_swept_ns=hinted_late_ns if pays else 0.0,
        traffic_factor=traffic,
        hinted_traffic_factor=(
            min(traffic, _hinted_traffic_shown(found, in_time, near, shown)) if pays and near else None
        ),
    )


def _traffic_shown(few: RowTime, computing_factor: float, lines_ns: float) -> float:
    """Return the part of the lines' time that is not hidden behind computing, from 0 to 1.

    Units: nanoseconds of the lines of a piece.
    """
    left_ns = few.per_piece_ns - computing_factor * few.issues_ns
    return min(1.0, max(0.0, left_ns / lines_ns)) if lines_ns else 1.0


def _hinted_traffic_shown(
    found: Mapping[TwoMemoryProduct, RowTime],
    counts: Sequence[int],
    near: SecondMemoryTimes,
    computing_factor: float,
) -> float:
    """Return the part of hinted pieces' traffic that is not hidden: the median over several numbers of rows."""
    return median(
        max(0.0, took.per_piece_ns - near.computing_ns(one.together, computing_factor)) / near.far_lines_ns
        for one, took in found.items()
        if one.hinted and one.together in counts
    )


def _late(found: Mapping[TwoMemoryProduct, RowTime], in_time_ns: Mapping[int, float]) -> tuple[float, float]:
    """Return the delays of a piece without and with hints. They are equal if hints save almost nothing.

    The middle of all counts of rows, as which of them is fast is by chance.
    """
    times_ns = {(one.together, one.hinted): t.per_piece_ns for one, t in found.items() if not one.in_columns}
    unasked = {count: times_ns[count, False] for count in in_time_ns}
    late_ns = median(unasked[count] - ns for count, ns in in_time_ns.items())
    least_ns = LEAST * median(unasked.values())
    if late_ns <= least_ns:
        return 0.0, 0.0
    both = [count for count in in_time_ns if (count, True) in times_ns]
    saved_ns = median(unasked[count] - times_ns[count, True] for count in both) if both else 0.0
    return late_ns, max(0.0, late_ns - saved_ns) if saved_ns > least_ns else late_ns


def _nearly_as_fast(
    found: Mapping[TwoMemoryProduct, RowTime], best_ns: float, gain_ns: float, *, hinted: bool
) -> list[int]:
    """Return the numbers of rows in turn for which pieces lose little of the gain."""
    return [
        one.together
        for one, took in found.items()
        if not one.in_columns and one.hinted == hinted and took.per_piece_ns <= best_ns + LOST * gain_ns
    ]


# --- row starts -----------------------------------------------------------------------------------------


# Elements of a row of B, and of A, times odd numbers: rows begin in different sets of caches and of pages. A
# row of B is cut into pieces of 2, 3 or 5 issues, whatever memory it is in.
UNIT, DEEP = 240, 16
LEAST_ROWS, MOST_ROWS = 17 * DEEP, 127 * DEEP  # of B: columns of more would be about pages alone
SWEPT = (8, 16, 32, 64, 128, 256)
HARDLY = 1.35  # times as long as elsewhere: up to that, one set is as good as many
LOST_WAYS = 4  # times as many rows as a set has ways: all of them are lost
APART_LINES = 4  # by which rows are longer that do not begin in one set: pieces stay as wide
MOST_BYTES = 96 << 20
NEAR = 1.05  # times the least that all issues take: which of them is fastest is by chance
LEAST_S, TURNS = 0.02, 4  # of calls in a turn
LIMIT_S = 60  # of a turn
_TEXT = """
kernel rows() {{
  in A: f32[{m}, {k}]; in B: f32[{k}, {n}]; inout C: f32[{m}, {n}];
  for m in {m}, n in {n}, k in {k} {{ C[m, n] += A[m, k] * B[k, n]; }}
}}
"""


# A call on A, B and C that says what it took.
Program = Callable[[Mapping[str, NDArray[Any]]], RowTime]


def row_figures(
    machine: Machine,
    sizes: Mapping[str, int],
    ns_per_byte: Mapping[str, float],
    watch: Callable[[str], None],
    rng: np.random.Generator,
) -> Iterator[RowFigure | Unmeasured]:
    """Yield the parameters of each memory but the nearest, or the reason why they are unknown.

    `sizes` are the bytes of B in each memory, the nearest first, and `ns_per_byte` the times of sequential
    reads there.

    Raises: MissingTool.
    """
    others = list(sizes)[1:]
    second: RowFigure | None = None
    for memory in others:
        size_bytes = min(sizes[memory], MOST_BYTES)
        watch(f"rows out of {memory}")
        # All else that was measured is worth keeping.
        try:
            near = None
            if second is not None:
                lines_ns = [second.piece_bytes * ns_per_byte[name] for name in (others[0], memory)]
                near = SecondMemoryTimes(second.piece_bytes, _of_many(second.readings), *lines_ns)
            found = _measure_memory(memory, size_bytes, ns_per_byte[memory], near, machine, rng)
            if memory == others[0]:
                second = found
                found = replace(
                    found,
                    crowded_ns=_crowded_ns(size_bytes, machine, rng),
                    crowded_piece_ns=_crowded_piece_ns(size_bytes, machine, rng),
                )
        except CANNOT as problem:
            found = Unmeasured(memory, problem.diagnostics[0].message)
            watch(f"rows out of {memory} are not measured: {found.said}")
        yield found


def _of_many(readings: Sequence[RowReading]) -> dict[int, float]:
    """Return the time of a piece that is multiplied by many rows, by the number of rows read together."""
    return {r.together: r.piece_ns for r in readings if r.computed == MANY and r.together and not r.hinted}


def _measure_memory(
    memory: str,
    size_bytes: int,
    ns_per_byte: float,
    near: SecondMemoryTimes | None,
    machine: Machine,
    rng: np.random.Generator,
) -> RowFigure:
    """Return the parameters of a memory. Raises: NoMapping, Infeasible, RunProblem, CompilerRefused, MissingTool."""
    n, k = shape(size_bytes)
    asked = [TwoMemoryProduct(MANY, n, k, together) for together in (*SWEPT, k)]
    programs = {one: _program(one, machine) for one in asked}
    with suppress(Infeasible):  # where there are no hints
        programs |= {one: _program(one, machine) for one in [replace(p, hinted=True) for p in asked[:-1]]}
    found = _least(programs, rng)
    best = min(asked[:-1], key=lambda one: found[one].per_piece_ns)
    few, hinted = replace(best, m=FEW), TwoMemoryProduct(FEW, n, k, k, hinted=True)
    less = {few: _program(few, machine)}
    with suppress(Infeasible):  # most memories have nothing to hint
        less[hinted] = _program(hinted, machine)
    return row_figure(memory, found, best, _least(less, rng), ns_per_byte, near)


def _crowded_ns(size_bytes: int, machine: Machine, rng: np.random.Generator) -> float | None:
    """Return the wait of a register block for rows of B whose cache sets hold stored rows of C, or None.

    The result is None if the sets are unknown, if they hold all rows of C, or if pieces have several sizes.

    Raises: NoMapping, Infeasible, RunProblem, CompilerRefused, MissingTool.
    """
    cache = _nearest(machine)
    if not 0 < cache.ways < MANY:
        return None
    # No more rows of B than a set holds: with more, each register block reads all of them anew.
    together = max(count for count in (*SWEPT, cache.ways) if count <= cache.ways)
    return crowded_ns(*_in_one_set(cache, size_bytes, together, WIDEST, machine, rng), together)


def _crowded_piece_ns(size_bytes: int, machine: Machine, rng: np.random.Generator) -> float | None:
    """Return the time of an additional piece if a set has fewer lines than B has rows, or None.

    The result is None if the cache's sets are unknown, there is room for no more rows, or pieces are not of one size.

    Raises: NoMapping, Infeasible, RunProblem, CompilerRefused, MissingTool.
    """
    cache = _nearest(machine)
    room = size_bytes * cache.ways // max(1, cache.capacity_bytes)
    counts = [count for count in SWEPT if LOST_WAYS * cache.ways <= count <= room]
    if not cache.ways or len(counts) < 2:
        return None
    few, many = counts[0], counts[-1]
    # How many issues on a row of B read one line of it.
    one = TwoMemoryProduct(MANY, UNIT, 1, 1)
    _, option = _plain(
        one, ClockedKernel.of("rows", _TEXT.format(m=one.m, n=one.n, k=one.k), machine).problem
    )
    line = max(1, cache.line_bytes // (_tiles(option)["n"] * F32.size_bytes))
    taken = {count: _in_one_set(cache, size_bytes, count, line, machine, rng) for count in (few, many)}
    return crowded_piece_ns(taken, few, many)


def _nearest(machine: Machine) -> Cache:
    return ClockedKernel.of("rows", _TEXT.format(m=MANY, n=UNIT, k=1), machine).problem.caches[0]


def _in_one_set(
    cache: Cache, size_bytes: int, together: int, widest: int, machine: Machine, rng: np.random.Generator
) -> tuple[RowTime, RowTime]:
    """Return two measured products: the rows of B start in one cache set, and they start in different ones."""
    n = cache.capacity_bytes // cache.ways // F32.size_bytes
    k = max(1, size_bytes // (n * F32.size_bytes) // together) * together
    # Rows a few lines longer, read in pieces of the same size, begin in sets of their own.
    apart = n + cache.line_bytes // F32.size_bytes * APART_LINES
    products = (TwoMemoryProduct(MANY, columns, k, together, widest=widest) for columns in (n, apart))
    crowded, free = (_least({one: _program(one, machine)}, rng)[one] for one in products)
    return crowded, free


def crowded_ns(crowded: RowTime, apart: RowTime, together: int) -> float | None:
    """Return the wait of a register block for `together` rows of B, or None if pieces differ in size."""
    if crowded.piece_bytes != apart.piece_bytes:
        return None
    return max(0.0, crowded.per_piece_ns - apart.per_piece_ns) * together * FEW / MANY


def crowded_piece_ns(taken: Mapping[int, tuple[RowTime, RowTime]], few: int, many: int) -> float | None:
    """Return the time of an additional piece in a register block, for rows in one cache set, or None.

    All times include the starts of a block's rows. The result is 0 if the pieces take hardly longer than
    those of rows in separate sets, and None if they are not of one size.
    """
    crowded, apart = taken[many]
    if len({took.piece_bytes for pair in taken.values() for took in pair}) > 1:
        return None
    if crowded.per_piece_ns <= HARDLY * apart.per_piece_ns:
        return 0.0
    further_ns = many * crowded.per_piece_ns - few * taken[few][0].per_piece_ns
    return max(0.0, further_ns / (many - few)) * FEW / MANY


def shape(size_bytes: int) -> tuple[int, int]:
    """Return the columns and rows of an f32 matrix of this size.

    Rows of A of a whole page would share one set of the nearest cache, which would hide how many rows of B
    are followed.
    """
    elements = size_bytes // F32.size_bytes
    columns = UNIT * _largest_odd(elements // (UNIT * _rows(isqrt(elements))))
    return columns, _rows(elements // columns)


def _rows(most: int) -> int:
    """Return a number of rows of B that is at most `most`."""
    return DEEP * _largest_odd(min(MOST_ROWS, max(LEAST_ROWS, most)) // DEEP)


def _largest_odd(count: int) -> int:
    """Return the largest odd number up to a limit."""
    return max(1, count - 1 + count % 2)


def _least(
    programs: Mapping[TwoMemoryProduct, Program], rng: np.random.Generator
) -> dict[TwoMemoryProduct, RowTime]:
    """Return the least time of each product. All products have operands of equal shapes. Raises: RunProblem."""
    found: dict[TwoMemoryProduct, RowTime] = {}
    one = next(iter(programs))
    arrays = {
        "A": numbers(F32, one.m * one.k, rng).reshape(one.m, one.k),
        "B": numbers(F32, one.k * one.n, rng).reshape(one.k, one.n),
        "C": np.zeros((one.m, one.n), np.float32),
    }
    for _ in range(TURNS):  # in turns, so that what else the computer does disturbs all of them alike
        for product, program in programs.items():
            took = program(arrays)
            if product not in found or took.per_piece_ns < found[product].per_piece_ns:
                found[product] = took
    return found


def _program(one: TwoMemoryProduct, machine: Machine) -> Program:
    """Return a function that times a product. It raises RunProblem after a crash or a time-out.

    Raises: NoMapping if the machine performs none, Infeasible where not in these loops; CompilerRefused,
    MissingTool.
    """
    clocked = ClockedKernel.of("rows", _TEXT.format(m=one.m, n=one.n, k=one.k), machine)
    chosen = _in_pieces(one, clocked.problem)
    library = clocked.compiled(chosen)
    issues_ns, piece = _piece(one, clocked.problem, chosen)
    pieces = one.k * ceil(one.n / piece)

    def run(arrays: Mapping[str, NDArray[Any]]) -> RowTime:
        calls = max(2, ceil(LEAST_S / (1e-9 * pieces * max(issues_ns, 1.0))))
        ns = min(clocked.calls_ns(library, arrays, calls, LIMIT_S))
        return RowTime(ns / pieces, issues_ns, piece * F32.size_bytes)

    return run


def _in_pieces(one: TwoMemoryProduct, problem: Problem) -> Schedule:
    """Return a schedule with the fastest mapping, register blocks of few rows, and the widest equal pieces.

    Raises: Infeasible if no such block fits into the registers.
    """
    number, option = _plain(one, problem)
    if one.hinted:
        problem = _asked_for(problem, number)
        option = problem.nests[0].options[number]
    tiles = _tiles(option)
    blocks = {"m": one.m, "n": one.n, "k": one.together}
    fixed = {
        mapping_of(0): number,
        unroll_of(0, "m"): FEW // tiles["m"],
        **{block_of(0, axis): size for axis, size in blocks.items()},
        **{stage_of(0, operand.name): 0 for operand in option.operands},
    }
    b = next(operand for operand in option.operands if operand.tensor == "B")
    if one.hinted:
        if not b.prefetching.hints or (one.in_columns and not b.prefetching.is_streamed):
            raise Infeasible.of("rows-without-hints", "inputs that do not stream have no hints")
        fixed[prefetch_of(0, b.name)] = len(b.prefetching.hints)
    elif b.prefetching.hints and one.m > FEW:
        fixed[prefetch_of(0, b.name)] = 0
    if one.m > FEW:
        fixed[sweep_of(0, "m", "n")] = 0
    issues = one.n // tiles["n"]
    for width in range(one.widest, 1, -1):
        if issues % width == 0:
            with suppress(Infeasible):
                return schedule(problem, heuristic="greedy", fixed={**fixed, unroll_of(0, "n"): width})
    return schedule(problem, heuristic="greedy", fixed={**fixed, unroll_of(0, "n"): 1})


def _plain(one: TwoMemoryProduct, problem: Problem) -> tuple[int, NestOption]:
    """Return the mapping with the fastest issues, and its number. Of similar ones, take the one with fewest issues.

    Only issues with few rows of A and with B in place count. Raises: Infeasible if there is none.
    """
    # What computes factors on the way reads A and B at once; issues along m and n together have no rows.
    plain = [
        (number, option)
        for number, option in enumerate(problem.nests[0].options)
        if sorted(operand.tensor for operand in option.operands) == [*"ABC"] and "m" in _tiles(option)
    ]
    if not plain:
        raise Infeasible.of("rows-by-factors", "no instruction multiplies registers")
    narrow = [(number, option) for number, option in plain if FEW % _tiles(option)["m"] == 0]
    if not narrow:
        least = min(_tiles(option)["m"] for _, option in plain)
        raise Infeasible.of("rows-by-tiles", f"instructions multiply {least} rows or more, not {FEW}")
    took = {number: option.interval_ns * _issues(option, one.m, one.n) for number, option in narrow}
    near = [(number, option) for number, option in narrow if took[number] <= NEAR * min(took.values())]
    return min(near, key=lambda o: _issues(o[1], one.m, one.n))


def _asked_for(problem: Problem, number: int) -> Problem:
    """Return the problem with hints for operand B in this option."""
    option = problem.nests[0].options[number]
    ahead_bytes = problem.memory_streams.ahead_bytes if problem.memory_streams is not None else 0
    operands = tuple(
        with_fields(o, is_late=True, ahead_bytes=ahead_bytes)
        if o.tensor == "B" and not o.prefetching.is_streamed
        else o
        for o in option.operands
    )
    options = list(problem.nests[0].options)
    options[number] = replace(option, operands=operands)
    return replace(problem, nests=(replace(problem.nests[0], options=tuple(options)), *problem.nests[1:]))


def _tiles(option: NestOption) -> dict[str, int]:
    """Return the number of elements of each axis in one issue."""
    return {axis.name: axis.tile for axis in option.axes}


def _issues(option: NestOption, rows: int, columns: int) -> int:
    """Return the number of issues for these rows of A and columns of B."""
    tiles = _tiles(option)
    return prod(ceil(n / tiles.get(axis, 1)) for axis, n in (("m", rows), ("n", columns), ("k", 1)))


def _piece(one: TwoMemoryProduct, problem: Problem, chosen: Schedule) -> tuple[float, int]:
    """Return the time of the issues on one piece of a row, and the elements of the piece."""
    (nest,) = chosen.nests
    option = next(o for o in problem.nests[0].options if (o.mapping, o.choose) == (nest.mapping, nest.choose))
    swept = [loop.step for loop in nest.loops[: nest.hold] if loop.axis == "n"]
    piece = swept[-1] if swept else one.n
    return _issues(option, one.m, piece) * option.interval_ns, piece
