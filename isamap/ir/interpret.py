"""What a kernel or an instruction means, computed with numpy: what everything else is held against.

    interpret(gemm, {"A": a, "B": b, "C": c}, {"M": 2, "N": 2, "K": 2})  ==  {"C": c + a @ b}

Iterations of a `for` are independent, so each statement is computed for all of them at once, in boxes that
fit memory; `seq` runs in order. Numbers are those of the declared types. Of a kernel, sums in f32 or f64
are computed in float64 and rounded once, and their products are not rounded before: the language grants
every implementation that much. Sums in narrower floats, of a `strict` kernel and of an instruction are
rounded after each operation in the order of the loops. With `accumulate T` the result is rounded to T, then
to the operand's type, when the outermost loop ends or the operand is read. Elementwise functions are
computed in float64 and rounded. `exact=True` rounds no float anywhere and returns float64. Integers wrap
around in their types.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from isamap.ir.bind import bind
from isamap.ir.buffers import poison, shape_of, storage, take_arrays, take_scalars
from isamap.ir.contraction import written_by
from isamap.ir.domains import index_values
from isamap.ir.error_bounds import PLAIN, Measure, size_of
from isamap.ir.execution import Nest, State, execute, flush, guard_values
from isamap.ir.nodes import Assign, Loop, Routine, Stmt
from isamap.ir.rounding import Array
from isamap.ir.substitute import substitute_routine
from isamap.ir.walk import symbols
from isamap.source import Diagnostic, UsageProblem


def interpret(
    routine: Routine,
    arrays: Mapping[str, Array],
    sizes: Mapping[str, int],
    scalars: Mapping[str, float] | None = None,
    *,
    exact: bool = False,
    rng: np.random.Generator | None = None,
) -> dict[str, Array]:
    """New arrays for all outputs; `arrays` holds inputs and old values of outputs and is not changed.

    Shapes: those declared, for `sizes`, which also gives integer scalars and machine constants. An output
    element that is never written is what `outside` says; undefined ones are NaN or a bit pattern, or random
    values drawn from `rng`, so that reliance on them shows.
    Raises: UsageProblem when sizes, arrays or scalars are missing, unknown or do not fit.
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
    """As `interpret`, of a routine without open sizes: for many executions of one instruction."""
    state = _start(routine, arrays, scalars or {}, exact, rng)
    _run_all(routine, state)
    return {o.name: _finish(o.name, state, rng) for o in routine.operands if o.role in ("out", "inout")}


def interpret_magnitude(
    routine: Routine,
    arrays: Mapping[str, Array],
    sizes: Mapping[str, int],
    scalars: Mapping[str, float] | None = None,
    measure: Measure = PLAIN,
) -> dict[str, Array]:
    """For every output element the sum of the absolute values of what was added up to get it, float64.

    The old value of an element that is accumulated into is one of its terms. Of integers, by how much they
    may differ. With a measure the errors of what is computed are part of it. See `isamap.ir.magnitude`.
    """
    bound = bind_all(routine, sizes)
    state = _start(bound, arrays, scalars or {}, True, None)
    magnitudes = {
        o.name: size_of(values) if o.dtype.is_float else np.zeros(values.shape)
        for o, values in ((bound.operand(name), values) for name, values in state.values.items())
    }
    magnitudes = {name: np.asarray(sizes) for name, sizes in magnitudes.items()}
    state = replace(state, magnitudes=magnitudes, measure=measure)
    _run_all(bound, state)
    return {o.name: magnitudes[o.name] for o in bound.operands if o.role in ("out", "inout")}


def bind_all(routine: Routine, sizes: Mapping[str, int]) -> Routine:
    """The routine with every symbol replaced; `sizes` may also hold constants of the routine's machine.

    Raises: UsageProblem when a symbol is left.
    """
    names = {p.name for p in routine.params}
    constants = {name: int(n) for name, n in sizes.items() if name not in names and name in _symbols(routine)}
    own = {name: int(n) for name, n in sizes.items() if name not in constants}
    bound = bind(substitute_routine(routine, constants) if constants else routine, own)
    left = _symbols(bound)
    if left:
        raise UsageProblem(
            Diagnostic("size-unbound", f"`{routine.name}` needs a value for `{min(left)}` to be executed")
        )
    return bound


def _symbols(routine: Routine) -> frozenset[str]:
    """Names that shapes, extents and subscripts use and that no loop declares."""
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
            _run(statement, Nest(), state)
            for name in list(state.sums):
                flush(name, state)


def _run(statement: Stmt, nest: Nest, state: State) -> None:
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


def _run_body(loop: Loop, nest: Nest, state: State) -> None:
    """The statements one after the other, each for all points: iterations are independent."""
    if loop.guard is not None:
        changes = any(read in written_by(loop.body) for read in state.reads(loop.guard))
        guard = guard_values(loop.guard, nest, state) if changes else loop.guard
        nest = replace(nest, guards=(*nest.guards, guard))
    for statement in loop.body:
        _run(statement, nest, state)


def _finish(name: str, state: State, rng: np.random.Generator | None) -> Array:
    """The output, with what `outside` says where an output with an old value was not written."""
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
