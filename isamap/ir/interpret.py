"""Interpret a kernel or an instruction with numpy: the reference for all other ways to compute it.

    interpret(gemm, {"A": a, "B": b, "C": c}, {"M": 2, "N": 2, "K": 2})  ==  {"C": c + a @ b}

Iterations of a `for` are independent, so each statement is computed for all of them at once, in boxes that
fit memory. `seq` runs in order. Numbers have the declared types. A kernel's sums in f32 or f64 are computed
in float64 and rounded once, and their products are not rounded before: the language allows every
implementation to do so. Sums in narrower floats, of a `strict` kernel and of an instruction are rounded after
each operation in the order of the loops. With `accumulate T` the result is rounded to T, then to the
operand's type, when the outermost loop ends or the operand is read. Elementwise functions are computed in
float64 and rounded. `exact=True` rounds no float anywhere and returns float64. Integers wrap around in their
types.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from typing import Any

import numpy as np

from isamap.ir import error_bounds
from isamap.ir.bind import bind
from isamap.ir.buffers import Box, load, poison, shape_of, storage, take_arrays, take_scalars
from isamap.ir.contraction import boxes, factors_of, sum_of_products, written_by
from isamap.ir.domains import index_values
from isamap.ir.dtypes import BOOL, DType
from isamap.ir.evaluate import Env, evaluate_expr
from isamap.ir.measuring import MeasuredMagnitudes, measure_box, most_hits
from isamap.ir.nodes import Assign, Expr, Instruction, Loop, Operand, Routine, Stmt
from isamap.ir.rounding import Array, round_to, wrap
from isamap.ir.substitute import substitute_routine
from isamap.ir.updates import Cells, are_cells_distinct, full_rank, update, widen
from isamap.ir.walk import reads, symbols
from isamap.source import UsageProblem, dataclass, field, replace


def interpret(
    routine: Routine,
    arrays: Mapping[str, Array],
    sizes: Mapping[str, int],
    scalars: Mapping[str, float] | None = None,
    *,
    exact: bool = False,
    rng: np.random.Generator | None = None,
) -> dict[str, Array]:
    """Return new arrays for all outputs. `arrays` holds inputs and old values of outputs and is not changed.

    Shapes: those declared, for `sizes`, which also gives integer scalars and machine constants. An output
    element that is never written has the value of `outside`. Undefined elements are NaN, a bit pattern, or
    random values from `rng`, so that reliance on them shows. Raises: UsageProblem if sizes, arrays or
    scalars are missing, unknown or do not fit.
    """
    return execute_bound(bind_all(routine, sizes), arrays, scalars, exact=exact, rng=rng)


def execute_bound(
    routine: Routine,
    arrays: Mapping[str, Array],
    scalars: Mapping[str, float] | None = None,
    *,
    exact: bool = False,
    rng: np.random.Generator | None = None,
) -> dict[str, Array]:
    """Interpret a routine without open sizes. It is meant for many executions of one instruction."""
    state = _start(routine, arrays, scalars or {}, exact, rng)
    _run_all(routine, state)
    return {o.name: _finish(o.name, state, rng) for o in routine.operands if o.role in ("out", "inout")}


def interpret_magnitude(
    routine: Routine,
    arrays: Mapping[str, Array],
    sizes: Mapping[str, int],
    scalars: Mapping[str, float] | None = None,
    measure: error_bounds.Measure = error_bounds.PLAIN,
    errors: Mapping[str, Array] | None = None,
) -> dict[str, Array]:
    """Return for every output element the sum of the absolute values of its terms, float64.

    The old value of an accumulated element is one of its terms. For integers, it is the largest deviation.
    With a measure, rounding errors are included, and `errors` of inputs. See `isamap.ir.magnitude`.
    """
    bound = bind_all(routine, sizes)
    state = _start(bound, arrays, scalars or {}, True, None)
    magnitudes = {
        o.name: error_bounds.size_of(values) if o.dtype.is_float else np.zeros(values.shape)
        for o, values in ((bound.operand(name), values) for name, values in state.values.items())
    }
    magnitudes = {name: np.asarray(sizes) for name, sizes in magnitudes.items()}
    for name, error in (errors or {}).items():
        magnitudes[name] = magnitudes[name] + measure.as_magnitudes(error)
    state = replace(state, magnitudes=magnitudes, measure=measure)
    _run_all(bound, state)
    return {o.name: magnitudes[o.name] for o in bound.operands if o.role in ("out", "inout")}


def bind_all(routine: Routine, sizes: Mapping[str, int]) -> Routine:
    """Return the routine with every symbol replaced. `sizes` may also hold constants of the routine's machine.

    Raises: UsageProblem if a symbol remains.
    """
    names = {p.name for p in routine.params}
    constants = {name: int(n) for name, n in sizes.items() if name not in names and name in _symbols(routine)}
    own = {name: int(n) for name, n in sizes.items() if name not in constants}
    bound = bind(substitute_routine(routine, constants) if constants else routine, own)
    left = _symbols(bound)
    if left:
        raise UsageProblem.of(
            "size-unbound", f"`{routine.name}` needs a value for `{min(left)}` to be executed"
        )
    return bound


def _symbols(routine: Routine) -> frozenset[str]:
    """Return the names that shapes, extents and subscripts use and that no loop declares."""
    found = {s for o in routine.operands for e in o.shape for s in e.symbols}
    for statement in routine.body:
        found |= _free(statement)
    return frozenset(found)


def _free(statement: Stmt) -> frozenset[str]:
    guard = symbols(statement.guard) if statement.guard is not None else frozenset[str]()
    match statement:
        case Assign(target, _, value, _, _):
            return guard | symbols(target) | symbols(value)
        case Loop(axes, body, _, _, _):
            inner = guard.union(*(_free(s) for s in body)) - {a.name for a in axes}
            return inner | {s for a in axes for s in a.extent.symbols}


# --- running ----------------------------------------------------------------------------------------------


def _start(
    routine: Routine,
    arrays: Mapping[str, Array],
    scalars: Mapping[str, float],
    exact: bool,
    rng: np.random.Generator | None,
) -> State:
    with np.errstate(all="ignore"):
        values = take_arrays(routine, arrays, exact, rng)
        return State(
            routine=routine,
            exact=exact,
            scalars=take_scalars(routine, scalars),
            values=values,
            indices=index_values(routine, values),
            written={
                o.name: np.zeros(shape_of(o), np.bool_)
                for o in routine.operands
                if o.role == "inout" and o.outside in ("zero", "undefined")
            },
        )


def _run_all(routine: Routine, state: State) -> None:
    with np.errstate(all="ignore"):
        for statement in routine.body:
            _run_statement(statement, StatementLoops(), state)
            for name in list(state.sums):
                flush(name, state)


def _run_statement(statement: Stmt, nest: StatementLoops, state: State) -> None:
    match statement:
        case Assign():
            execute(statement, nest, state)
        case Loop(axes, _, ordered, _, _):
            known = {**state.indices, **nest.fixed}
            extents = tuple((a.name, int(a.extent.evaluate(known))) for a in axes)
            if any(n <= 0 for _, n in extents):  # as data may say
                return
            if not ordered:
                _run_body(statement, replace(nest, axes=nest.axes + extents), state)
                return
            for point in np.ndindex(*(n for _, n in extents)):
                fixed = {**nest.fixed, **{name: i for (name, _), i in zip(extents, point, strict=True)}}
                _run_body(statement, replace(nest, fixed=fixed), state)


def _run_body(loop: Loop, nest: StatementLoops, state: State) -> None:
    """Run the statements one after the other, each for all points, because iterations are independent."""
    if loop.guard is not None:
        changes = any(read in written_by(loop.body) for read in state.reads(loop.guard))
        guard = guard_values(loop.guard, nest, state) if changes else loop.guard
        nest = replace(nest, guards=(*nest.guards, guard))
    for statement in loop.body:
        _run_statement(statement, nest, state)


def _finish(name: str, state: State, rng: np.random.Generator | None) -> Array:
    """Return an output array, with the value of `outside` in its unwritten elements."""
    values = state.values[name]
    if name in state.written:
        operand = state.routine.operand(name)
        fill: Any = (
            np.zeros(values.shape, values.dtype)
            if operand.outside == "zero"
            else storage(poison(values.shape, operand.dtype, rng), operand.dtype, state.exact)
        )
        values = np.where(state.written[name], values, fill)
    return values


# One assignment executed for all points of the `for` loops around it.
#
# A sum of products goes through matrix multiplication; other values are computed for all points of a box and
# reduced; a sum that must be rounded after each operation is taken step by step.


@dataclass(frozen=True, slots=True)
class StatementLoops:
    """The loops around a statement: unordered axes with extents, ordered axes with their values, and guards.

    A guard is an expression, or its values if the loop changes its operands; those have one dimension per
    unordered axis that was in scope.
    """

    axes: tuple[tuple[str, int], ...] = ()
    fixed: Mapping[str, int] = field(default_factory=dict[str, int])
    guards: tuple[Expr | Array, ...] = ()


@dataclass(frozen=True, slots=True)
class State:
    """The arrays of a running routine. They are changed in place.

    `sums` holds operands that accumulate in another type, in that type (floats: as float64), until they are
    flushed. `written` marks written elements, if requested. `indices` are the inputs that subscripts and
    extents read. `magnitudes` is None unless requested. `measure` is their error model, and `reduced` are
    the operands that reductions have changed.
    """

    routine: Routine
    exact: bool
    scalars: Mapping[str, Array]
    values: dict[str, Array]
    written: dict[str, Array]
    indices: Mapping[str, Array] = field(default_factory=dict[str, "Array"])
    sums: dict[str, Array] = field(default_factory=dict[str, Array])
    magnitudes: dict[str, Array] | None = None
    measure: error_bounds.Measure = error_bounds.PLAIN
    reduced: set[str] = field(default_factory=set[str])

    def reads(self, e: Expr | None) -> frozenset[str]:
        """Return the buffers that an expression reads."""
        return frozenset(r.buffer for r in reads(e)) if e is not None else frozenset()


def execute(s: Assign, nest: StatementLoops, state: State) -> None:
    """Perform an assignment at all points of its nest."""
    needed = state.reads(s.value) | state.reads(s.guard)
    for guard in nest.guards:
        needed |= frozenset() if isinstance(guard, np.ndarray) else state.reads(guard)
    if s.op is None:
        needed |= {s.target.buffer}
    for name in needed & state.sums.keys():
        flush(name, state)
    if _rounds_each_step(s, state):
        _in_steps(s, nest, state)
        return
    by_products = s.op == "add" and not nest.guards and s.guard is None
    target = symbols(s.target)
    summed = frozenset(name for name, _ in nest.axes if name not in target)
    tally = _begin_tally(s, state)
    for box in boxes(nest.axes, _arrays(s, nest, by_products), summed):
        _execute_box(s, box, nest, state, by_products, tally)
    if tally is not None:
        assert state.magnitudes is not None, "there is a tally"
        assert s.op is not None, "there is a tally"
        count = most_hits(s.target.index, dict(nest.axes))
        largest = accumulator(state.routine.operand(s.target.buffer)).largest
        reduction = error_bounds.FloatReduction(
            s.op, count, error_bounds.count_roundings(s.value), bool(nest.fixed), largest
        )
        values, sizes = state.values[s.target.buffer], state.magnitudes[s.target.buffer]
        sizes[...] = error_bounds.finish_tally(reduction, tally, values, sizes, state.measure)


def _begin_tally(s: Assign, state: State) -> error_bounds.Contributions | None:
    """Return the tally of a float reduction's errors, or None for other statements or without a measure.

    The result of an earlier reduction may have been rounded to the operand's type before.
    """
    if state.magnitudes is None or s.op is None:
        return None
    name, again = s.target.buffer, s.target.buffer in state.reduced
    state.reduced.add(name)
    values, sizes = state.values[name], state.magnitudes[name]
    stored = (
        state.measure.storing(sizes, lambda: values, state.routine.operand(name)) if again else np.zeros(())
    )
    if error_bounds.is_tallied(s, state.measure, bool(stored.any())):
        return error_bounds.begin_tally(s.op, values, sizes, stored)
    sizes += stored
    return None


def _arrays(s: Assign, nest: StatementLoops, by_products: bool) -> tuple[frozenset[str], ...]:
    """Return the axes of each array that the computation of a statement creates."""
    everything = frozenset(name for name, _ in nest.axes)
    target = symbols(s.target)
    if not by_products:
        guarded = bool(nest.guards) or s.guard is not None
        return (everything if guarded else symbols(s.value) | target,)
    factors = tuple(map(symbols, factors_of(s.value)))
    return (target, *factors, *((everything,) if len(factors) > 2 else ()))


def flush(name: str, state: State) -> None:
    """Round the sums of an operand and store them."""
    operand = state.routine.operand(name)
    total = state.sums.pop(name)
    state.values[name] = np.asarray(_store_values(_store_values(total, accumulator(operand)), operand.dtype))


def accumulator(operand: Operand) -> DType:
    """Return the type in which sums into an operand are computed."""
    return operand.accumulate or operand.dtype


def guard_values(guard: Expr, nest: StatementLoops, state: State) -> Array:
    """Return where a loop's guard holds before its body runs. Shapes: one dimension per unordered axis."""
    for name in state.reads(guard) & state.sums.keys():
        flush(name, state)
    box = Box(tuple(n for n, _ in nest.axes), (0,) * len(nest.axes), tuple(n for _, n in nest.axes))
    found = np.array(evaluate_expr(guard, _environment(box, nest, state)))  # a copy: the loop changes it
    return found.reshape((1,) * (len(nest.axes) - found.ndim) + found.shape)


# --- step by step -----------------------------------------------------------------------------------------


def _rounds_each_step(s: Assign, state: State) -> bool:
    """Return whether a float reduction rounds each operation, as narrow types, strict kernels and instructions do."""
    acc = accumulator(state.routine.operand(s.target.buffer))
    plain = acc.mantissa_bits < 24 or state.routine.strict or isinstance(state.routine, Instruction)
    return acc.is_float and plain and not state.exact and s.op in ("add", "mul")


def _in_steps(s: Assign, nest: StatementLoops, state: State) -> None:
    """Run a statement for the points of the reduced axes one after the other, in loop order."""
    target = symbols(s.target)
    names = tuple(name for name, _ in nest.axes)
    kept = tuple((name, n) for name, n in nest.axes if name in target)
    box = Box(names, (0,) * len(names), tuple(n if name in target else 1 for name, n in nest.axes))
    cells = Cells(s.target.index, box, {**nest.fixed, **box.symbols()})
    if not are_cells_distinct(cells, state.values[s.target.buffer].shape):
        kept = ()
    stepped = [(name, n) for name, n in nest.axes if (name, n) not in kept]
    for point in product(*(range(n) for _, n in stepped)):
        at = dict(zip((name for name, _ in stepped), point, strict=True))
        inner = replace(nest, axes=kept, fixed={**nest.fixed, **at}, guards=_guards_at(nest, at))
        for piece in boxes(kept, (frozenset(name for name, _ in kept),), frozenset()):
            _execute_box(s, piece, inner, state, False)


def _guards_at(nest: StatementLoops, at: Mapping[str, int]) -> tuple[Expr | Array, ...]:
    """Return the guards for fixed values of some axes. These dimensions are removed from evaluated guards."""

    def cut(guard: Array) -> Array:
        names = [name for name, _ in nest.axes[: guard.ndim]]
        index = tuple(
            (min(at[name], guard.shape[i] - 1) if name in at else slice(None)) for i, name in enumerate(names)
        )
        return np.asarray(guard[index])

    return tuple(cut(g) if isinstance(g, np.ndarray) else g for g in nest.guards)


# --- one box ----------------------------------------------------------------------------------------------


def _execute_box(
    s: Assign,
    box: Box,
    nest: StatementLoops,
    state: State,
    by_products: bool,
    tally: error_bounds.Contributions | None = None,
) -> None:
    env = _environment(box, nest, state)
    cells = Cells(s.target.index, box, dict(env.symbols))
    mask = _mask(s, box, nest, env)
    operand = state.routine.operand(s.target.buffer)
    dtype = accumulator(operand) if s.op is not None else operand.dtype
    values, whole = _values(s, env, cells, by_products)
    if state.magnitudes is not None:
        measured = MeasuredMagnitudes(state.routine, state.magnitudes, state.measure)
        measure_box(s, env, cells, mask, by_products, measured, tally)
    home = _home(s, operand, state)
    update(home, whole, s.op, values, mask, dtype, lambda x: _settle(x, dtype, home, state.exact, s, state))
    if operand.name in state.written:
        update(state.written[operand.name], cells, "or", np.asarray(True), mask, BOOL, lambda x: x)


def _environment(box: Box, nest: StatementLoops, state: State) -> Env:
    symbols: dict[str, int | Array] = {**state.indices, **nest.fixed, **box.symbols()}
    values = state.values
    return Env(symbols, state.scalars, lambda r: load(values[r.buffer], r, box, symbols), state.exact)


def _mask(s: Assign, box: Box, nest: StatementLoops, env: Env) -> Array | None:
    mask: Array | None = None
    for guard in (*nest.guards, *((s.guard,) if s.guard is not None else ())):
        if isinstance(guard, np.ndarray):
            ranges = zip(guard.shape, box.starts, box.counts, strict=False)
            cut = guard[
                tuple(slice(start, start + n) if length > 1 else slice(None) for length, start, n in ranges)
            ]
            holds = cut.reshape(cut.shape + (1,) * (len(box.names) - cut.ndim))
        else:
            holds = evaluate_expr(guard, env)
        mask = holds if mask is None else mask & holds
    return mask


def _values(s: Assign, env: Env, cells: Cells, by_products: bool) -> tuple[Array, Cells]:
    """Return the values that a statement writes, and the elements that receive them. Sums of products are summed."""
    if not by_products:
        return evaluate_expr(s.value, env), cells
    rank = len(cells.box.names)
    factors = [full_rank(widen(evaluate_expr(f, env)), rank) for f in factors_of(s.value)]
    return sum_of_products(factors, cells.box.counts, cells.kept), cells.reduced()


def _home(s: Assign, operand: Operand, state: State) -> Array:
    """Return the array that a statement changes: its target, or the running sums of its target."""
    acc = accumulator(operand)
    if s.op is None or acc == operand.dtype or (state.exact and acc.is_float):
        return state.values[operand.name]
    if operand.name not in state.sums:
        wide = np.dtype(np.float64) if acc.is_float else acc.numpy()
        state.sums[operand.name] = state.values[operand.name].astype(wide)
    return state.sums[operand.name]


def _settle(values: Array, dtype: DType, home: Array, exact: bool, s: Assign, state: State) -> Array:
    """Return reduced values converted to the type that the array stores."""
    if not dtype.is_float:
        return wrap(values, dtype)
    if exact:
        return values
    running = home.dtype == np.float64 and dtype.name != "f64"
    return values if running and not _rounds_each_step(s, state) else round_to(values, dtype)


def _store_values(values: Array, dtype: DType) -> Array:
    return round_to(values, dtype) if dtype.is_float else wrap(values, dtype)
