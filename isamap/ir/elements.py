"""Evaluate single elements of an output: the oracle for large kernels.

`evaluate_samples(gemm, arrays, sizes, "C", [(0, 0), (4999, 7)])` touches one row of A and one column of B per
element. Evaluation works backwards: the last statement that writes an element computes it from the elements
that it reads.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from math import prod

import numpy as np

from isamap.ir.buffers import Box, locate, shape_of, take_arrays, take_scalars
from isamap.ir.contraction import ELEMENTS, boxes
from isamap.ir.dtypes import BOOL, F64, DType
from isamap.ir.error_bounds import (
    PLAIN,
    Contributions,
    FloatReduction,
    Measure,
    begin_tally,
    count_roundings,
    finish_tally,
    is_tallied,
    size_of,
    split_factors,
)
from isamap.ir.evaluate import Env, evaluate_expr
from isamap.ir.index import Index
from isamap.ir.interpret import bind_all
from isamap.ir.magnitude import anything, evaluate_magnitude
from isamap.ir.measuring import fill_magnitude, with_roundings, with_storage
from isamap.ir.nodes import Assign, Expr, Loop, Read, Routine, Stmt
from isamap.ir.rounding import Array, wrap
from isamap.ir.updates import UFUNCS, identity, widen
from isamap.source import UsageProblem, dataclass, replace

Pair = tuple[Array, Array]
"""Values and magnitudes."""


@dataclass(frozen=True, slots=True)
class _Step:
    """An assignment with its axes and extents, and its guards with the number of earlier assignments before each."""

    assign: Assign
    axes: tuple[tuple[str, int], ...]
    guards: tuple[tuple[Expr, int], ...]


@dataclass(frozen=True, slots=True)
class _Work:
    """The constant inputs of an evaluation of single elements."""

    routine: Routine
    steps: tuple[_Step, ...]
    arrays: Mapping[str, Array]
    scalars: Mapping[str, Array]
    measure: Measure


def evaluate_samples(
    routine: Routine,
    arrays: Mapping[str, Array],
    sizes: Mapping[str, int],
    output: str,
    coordinates: Sequence[Sequence[int]] | Array,
    scalars: Mapping[str, float] | None = None,
    measure: Measure = PLAIN,
) -> tuple[Array, Array]:
    """Return exact values of some elements of an output, and their magnitudes (see `interpret_magnitude`).

    Shapes: `coordinates` is (samples, rank of the output); both results are (samples,).
    Raises: UsageProblem as `interpret` does, and for a routine with `seq` or with targets such as
    `C[2*i + j]`, whose elements cannot be traced back to iterations.
    """
    bound = bind_all(routine, sizes)
    steps = tuple(_steps(bound))
    with np.errstate(all="ignore"):
        taken = take_arrays(_without_temps(bound), arrays, True, None)
        work = _Work(bound, steps, taken, take_scalars(bound, scalars or {}), measure)
        at = np.asarray(coordinates, np.int64).reshape(-1, len(bound.operand(output).shape))
        values, magnitudes = _ask(output, list(at.T), (len(at),), len(steps), work)
    return np.broadcast_to(values, (len(at),)).copy(), np.broadcast_to(magnitudes, (len(at),)).copy()


def _without_temps(routine: Routine) -> Routine:
    """Return the routine without its temporaries, which may be too large to allocate."""
    return replace(routine, operands=tuple(o for o in routine.operands if o.role != "temp"))


def _steps(routine: Routine) -> list[_Step]:
    steps: list[_Step] = []

    def visit(s: Stmt, axes: tuple[tuple[str, int], ...], guards: tuple[tuple[Expr, int], ...]) -> None:
        if s.guard is not None:
            guards = (*guards, (s.guard, len(steps)))
        match s:
            case Assign():
                steps.append(_Step(s, axes, guards))
            case Loop(own, body, ordered, _, span):
                if ordered:
                    raise UsageProblem.of(
                        "not-sampled", f"`{routine.name}` has a `seq` loop: evaluate all of it", span
                    )
                inner = (*axes, *((a.name, int(a.extent.evaluate({}))) for a in own))
                for child in body:
                    visit(child, inner, guards)

    for statement in routine.body:
        visit(statement, (), ())
    return steps


@dataclass(frozen=True, slots=True)
class _Asked:
    """Requested elements of an assignment's target: the values of the axes that they determine, and a mask."""

    step: _Step
    position: int
    iteration: Mapping[str, Array]
    hit: Array
    shape: tuple[int, ...]


# --- asking for elements ----------------------------------------------------------------------------------


def _ask(buffer: str, at: list[Array], shape: tuple[int, ...], before: int, work: _Work) -> Pair:
    """Return the values and magnitudes of elements as they are after the first `before` steps. Shapes: `shape`."""
    position = next(
        (i for i in reversed(range(before)) if work.steps[i].assign.target.buffer == buffer), None
    )
    if position is None:
        if buffer not in work.arrays:
            return np.full(shape, np.nan), np.full(shape, np.nan)
        found = np.asarray(work.arrays[buffer][tuple(at)])
        is_float = work.routine.operand(buffer).dtype.is_float
        return found, size_of(found) if is_float else np.zeros(found.shape)
    if prod(shape) > ELEMENTS // 4 and len(shape) == 1:
        half = shape[0] // 2
        parts = [
            _ask(buffer, [np.broadcast_to(a, shape)[cut] for a in at], (n,), before, work)
            for cut, n in ((slice(half), half), (slice(half, None), shape[0] - half))
        ]
        return np.concatenate([p[0] for p in parts]), np.concatenate([p[1] for p in parts])
    step = work.steps[position]
    iteration, hit = _solve(step, at, shape, work)
    old: Pair | None = None
    if step.assign.op is not None or step.guards or not hit.all():
        old = _ask(buffer, at, shape, position, work)
    return _perform(_Asked(step, position, iteration, hit, shape), old, work)


def _solve(
    step: _Step, at: list[Array], shape: tuple[int, ...], work: _Work
) -> tuple[dict[str, Array], Array]:
    """Return the axes' values in the iteration that writes each element, and a mask of elements that have one."""
    hit = np.ones(shape, np.bool_)
    extents = dict(step.axes)
    solved: dict[str, Array] = {}
    for subscript, expected in zip(step.assign.target.index, at, strict=True):
        offset, axis, slope = _linear(subscript, extents, step, work)
        if axis is None:
            hit = hit & (expected == offset)
            continue
        value = (expected - offset) // slope
        hit = hit & ((expected - offset) % slope == 0) & (value >= 0) & (value < extents[axis])
        if axis in solved:
            hit = hit & (solved[axis] == value)
        solved[axis] = np.clip(value, 0, extents[axis] - 1)
    return solved, np.broadcast_to(hit, shape)


def _linear(
    subscript: Index, extents: Mapping[str, int], step: _Step, work: _Work
) -> tuple[int, str | None, int]:
    """Return constant, axis and slope of a target's subscript. Raises: UsageProblem if it has several axes."""
    offset, axis, slope = 0, None, 0
    for monomial, coefficient in subscript.terms:
        match monomial:
            case ():
                offset = coefficient
            case (str() as name,) if name in extents and axis is None:
                axis, slope = name, coefficient
            case _:
                raise UsageProblem.of(
                    "not-sampled",
                    f"which iteration of `{work.routine.name}` writes an element of "
                    f"`{step.assign.target.buffer}` is not known from its subscript `{subscript}`",
                    step.assign.target.span,
                    help="evaluate all of it",
                )
    return offset, axis, slope


# --- one step ---------------------------------------------------------------------------------------------


def _perform(asked: _Asked, old: Pair | None, work: _Work) -> Pair:
    """Return the elements that a step writes. `old` has the elements before the step, or None if unneeded."""
    s = asked.step.assign
    operand = work.routine.operand(s.target.buffer)
    dtype = operand.dtype if s.op is None else operand.accumulate or operand.dtype
    inner = tuple((name, n) for name, n in asked.step.axes if name not in asked.iteration)
    names = frozenset(name for name, _ in inner)
    again = any(
        e.assign.op is not None and e.assign.target.buffer == operand.name
        for e in work.steps[: asked.position]
    )
    old, tally = _begin(s, old, again, work)
    found = old
    for box in boxes(inner, (names,), frozenset(), max(1, ELEMENTS // max(1, prod(asked.shape)))):
        found, tally = _perform_box(asked, box, found, tally, dtype, work)
    assert found is not None, "an iteration space has at least one box"
    values, sizes = found
    if tally is not None:
        count = prod(n for _, n in inner)
        reduction = FloatReduction(str(s.op), count, count_roundings(s.value), False, dtype.largest)
        sizes = finish_tally(reduction, tally, values, sizes, work.measure)
    return (values if dtype.is_float else wrap(values, operand.dtype)), sizes


def _begin(s: Assign, old: Pair | None, again: bool, work: _Work) -> tuple[Pair | None, Contributions | None]:
    """Return the initial values of a statement, and the error tally of a reduction."""
    if old is None or s.op is None:
        return old, None
    values, sizes = old
    operand = work.routine.operand(s.target.buffer)
    stored = work.measure.storing(sizes, lambda: values, operand) if again else np.zeros(())
    if is_tallied(s, work.measure, bool(stored.any())):
        return old, begin_tally(s.op, values, sizes, stored)
    return (values, sizes + stored), None


def _perform_box(
    asked: _Asked, box: Box, old: Pair | None, tally: Contributions | None, dtype: DType, work: _Work
) -> tuple[Pair, Contributions | None]:
    s, shape = asked.step.assign, asked.shape
    symbols = _symbols(asked, box)
    reader = _Reader(symbols, asked.position, work, {})
    env = Env(symbols, work.scalars, reader.load, exact=True)
    runs = _holds(asked, box, symbols, work)
    values = evaluate_expr(s.value, env)
    summed = s.op in ("add", "mul")
    magnitudes = evaluate_magnitude(s.value, env, reader.load_magnitude, work.measure, summed=summed)
    if s.op is None:
        magnitudes = with_roundings(magnitudes, s.value, values, work.measure)
        last = tuple(-1 for _ in box.counts)  # one iteration writes an element: inner axes have one point
        values, magnitudes, runs = (
            np.broadcast_to(v, shape + box.counts)[(..., *last)] for v in (values, magnitudes, runs)
        )
        if old is None:
            return (values, magnitudes), None
        return (np.where(runs, values, old[0]), np.where(runs, magnitudes, old[1])), None
    assert old is not None, "a reduction starts from the old value"

    def reduce(op: str, values: Array, dtype: DType = F64) -> Array:
        wide = np.broadcast_to(np.where(runs, widen(values), identity(op, dtype)), shape + box.counts)
        trailing = tuple(range(len(shape), len(shape) + len(box.counts)))
        return UFUNCS[op].reduce(wide, axis=trailing) if trailing else wide

    total = UFUNCS[s.op](widen(old[0]), reduce(s.op, values, dtype))
    total = total if dtype.is_float else wrap(total, dtype)
    if tally is None:
        if s.op not in ("add", "min", "max"):
            magnitudes = anything(magnitudes + (old[1] > 0).any(), dtype)
        measured = "add" if s.op == "add" else "max"
        return (total, UFUNCS[measured](old[1], reduce(measured, magnitudes))), None
    touched = tally.touched | reduce("or", runs, BOOL)
    if s.op == "mul":
        factors, relative = split_factors(values, magnitudes)
        terms, relative = tally.terms * reduce("mul", factors), tally.relative + reduce("add", relative)
        return (total, old[1]), Contributions(terms, relative, touched, tally.stored)
    terms = tally.terms + reduce("add", size_of(values))
    return (total, old[1] + reduce("add", magnitudes)), Contributions(
        terms, tally.relative, touched, tally.stored
    )


def _symbols(asked: _Asked, box: Box) -> dict[str, int | Array]:
    """Return the value of each axis: determined by the element, or along a trailing dimension."""
    rank = len(box.names)
    own = {
        n: np.broadcast_to(v, asked.shape).reshape(asked.shape + (1,) * rank)
        for n, v in asked.iteration.items()
    }
    return {**own, **{name: box.values(i) for i, name in enumerate(box.names)}}


def _holds(asked: _Asked, box: Box, symbols: dict[str, int | Array], work: _Work) -> Array:
    """Return a mask of the points where the step runs: an iteration exists and the guards hold."""
    runs = asked.hit.reshape(asked.shape + (1,) * len(box.names))
    for guard, before in asked.step.guards:
        reader = _Reader(symbols, before, work, {})
        runs = runs & evaluate_expr(guard, Env(symbols, work.scalars, reader.load, exact=True))
    return runs


@dataclass(frozen=True, slots=True)
class _Reader:
    """A cached loader of a step's reads, with array contents as they are before step number `before`."""

    symbols: Mapping[str, int | Array]
    before: int
    work: _Work
    found: dict[Read, Pair]

    def load(self, read: Read) -> Array:
        return self._both(read)[0]

    def load_magnitude(self, read: Read) -> Array:
        return self._both(read)[1]

    def _both(self, read: Read) -> Pair:
        if read not in self.found:
            operand = self.work.routine.operand(read.buffer)
            shape = shape_of(operand)
            positions, inside = locate(shape, read.index, self.symbols)
            full = np.broadcast_shapes(*(p.shape for p in positions))
            values, sizes = _ask(read.buffer, positions, full, self.before, self.work)
            if inside is not None and read.fill is not None:
                fill = float(read.fill.value)
                values = np.where(inside, values, np.asarray(fill, values.dtype))
                sizes = np.where(inside, sizes, fill_magnitude(read.fill))
            sizes = with_storage(sizes, partial(np.asarray, values), operand, self.work.measure)
            self.found[read] = values, sizes
        return self.found[read]
