"""Compute the expected result of a kernel, and its error bounds, with the interpreter.

Integers must be equal bit by bit. For floats, |error| ≤ 4·2⁻²³·Σ|a||b| for sums in f32 (2⁻⁵² for f64, and
so on) of random data, whose signs cancel. For terms that do not cancel, and on all other data, a sum of K
terms has an additional K·2⁻²³, which bounds every order of summation. A product of K factors has a relative
error of K·2⁻²³. A result that is rounded to a narrower type has one more unit in the last place. If every
partial sum is a small integer, floats must be equal bit by bit, too.

An integer to which a float was rounded may be the rounding of any float within these bounds. If the bounds
include values beyond the largest number of the output's type, an overflow is also right; if all values lie
beyond it, only an overflow is right.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isamap.ir.dtypes import F64, DType
from isamap.ir.elements import evaluate_samples
from isamap.ir.error_bounds import Measure
from isamap.ir.index import typical_value
from isamap.ir.interpret import interpret, interpret_magnitude
from isamap.ir.nodes import Assign, Call, Const, Expr, Kernel, Loop, Stmt
from isamap.ir.ops import OPS
from isamap.ir.rounding import round_to
from isamap.ir.walk import symbols, walk
from isamap.run.fills import shape_of
from isamap.source.records import dataclass, replace
from isamap.transform import edges_apart

Array = NDArray[Any]
Axes = tuple[tuple[str, int], ...]
WHOLE_ITERATIONS = 1 << 35
"""Above this many iterations only samples are computed by the oracle."""
SAMPLES = 2048
ORDER_FACTOR = 4
MOST_OPERATIONS_AT_POINTS = 0.5
"""The most operations of a convolution at points, as a part of those of the sum: passes over its tiles cost too."""


@dataclass(frozen=True, slots=True)
class Expected:
    """The exact values of an output, and the largest allowed error of each.

    `at` are the sampled coordinates, None if all elements are given. `is_exact` requires identical bits.
    `dtype` is the output's type. `computed` is the part of the bound before the result is rounded to it,
    which determines overflow.
    """

    values: Array
    bound: Array
    at: tuple[Array, ...] | None
    is_exact: bool
    dtype: DType
    computed: Array


def expect(
    kernel: Kernel,
    arrays: Mapping[str, Array],
    scalars: Mapping[str, float],
    fill: str,
    samples: int | None = None,
) -> dict[str, Expected]:
    """Return the values that each output should have after a run on the named fill.

    `samples` asks for that many elements only; by default very large kernels are sampled.
    """
    if samples is None and count_iterations(kernel) > WHOLE_ITERATIONS and not has_sequence(kernel):
        samples = SAMPLES
    if fill == "integers" and sums_only(kernel):
        below = 2.0 ** sum_type(kernel).mantissa_bits  # errors of sums that are not small integers show
        small = Measure(1 / below, exact_below=below, given=_list_given(kernel))
        exact = _expect(kernel, arrays, scalars, small, samples)
        if all(e.is_exact for e in exact.values()):
            return exact
    else:
        exact = dict[str, Expected]()
    measure = measure_of(kernel, fill)
    found = _expect(kernel, arrays, scalars, measure, samples)
    if (cut := edges_apart(kernel)) and any(
        e.dtype.is_float and np.isnan(e.values).any() for e in found.values()
    ):
        apart = _expect(cut.kernel, arrays, scalars, measure, samples)
        found = {name: _open_at_edges(e, apart[name]) for name, e in found.items()}
    return {**found, **{name: e for name, e in exact.items() if e.is_exact}}


def expect_with_errors(
    kernel: Kernel, arrays: Mapping[str, Array], fill: str, errors: Mapping[str, Array]
) -> dict[str, Expected]:
    """Return the expected values if float inputs have errors of any sign, element by element."""
    measure = measure_of(kernel, fill)
    measure = replace(measure, given=measure.given - errors.keys())
    return _expect(kernel, arrays, {}, measure, None, errors)


def expect_rounded(
    kernel: Kernel, rounded: Kernel, arrays: Mapping[str, Array], scalars: Mapping[str, float], fill: str
) -> dict[str, Expected]:
    """Return a kernel's expected values with the error bounds of its rewritten form.

    Where the rewritten kernel gives an infinity or a NaN, and not the same as the kernel, anything is right: these
    reach all results that are computed together.
    """
    own = _expect(rounded, arrays, scalars, measure_of(rounded, fill), None)
    found = expect(kernel, arrays, scalars, fill)
    return {name: _as_rounded(e, own[name]) for name, e in found.items()}


def _as_rounded(expected: Expected, own: Expected) -> Expected:
    if not expected.dtype.is_float:
        return expected
    values, bound, computed = (
        a if expected.at is None else a[expected.at] for a in (own.values, own.bound, own.computed)
    )
    with np.errstate(invalid="ignore"):
        apart = np.abs(values.astype(np.float64) - expected.values.astype(np.float64))
    apart = np.where(np.isfinite(apart), apart, np.where(values == expected.values, 0.0, np.inf))
    return replace(
        expected,
        bound=np.maximum(expected.bound, bound + apart),
        computed=np.maximum(expected.computed, computed + apart),
        is_exact=False,
    )


def _open_at_edges(expected: Expected, apart: Expected) -> Expected:
    """Return expected values that accept any result where terms beyond an array alone cause a NaN."""
    if not expected.dtype.is_float:
        return expected
    is_open = np.isnan(expected.values) & ~np.isnan(apart.values)
    return replace(expected, bound=np.where(is_open, np.inf, expected.bound))


def measure_of(kernel: Kernel, fill: str) -> Measure:
    """Return the error model of a kernel, in which each rounding is off by one unit in the last place."""
    sums, given = sum_type(kernel), _list_given(kernel)
    unit = 2.0 ** (1 - sums.mantissa_bits)
    return Measure(
        scale=ORDER_FACTOR * unit,
        growth=1 / ORDER_FACTOR,
        cancels=fill == "random",
        mantissa_bits=sums.mantissa_bits,
        given=given,
        flushes=not kernel.strict,
    )


def _list_given(kernel: Kernel) -> frozenset[str]:
    return frozenset(o.name for o in kernel.operands if o.role == "in")


def _expect(
    kernel: Kernel,
    arrays: Mapping[str, Array],
    scalars: Mapping[str, float],
    measure: Measure,
    samples: int | None,
    errors: Mapping[str, Array] | None = None,
) -> dict[str, Expected]:
    sums = sum_type(kernel)
    lost = sums.smallest_subnormal if kernel.strict else sums.smallest_normal
    outputs = [o for o in kernel.operands if o.role in ("out", "inout")]
    found: dict[str, Expected] = {}
    if samples is None:
        values = interpret(kernel, arrays, {}, scalars, exact=True)
        magnitudes = interpret_magnitude(kernel, arrays, {}, scalars, measure, errors)
        return {
            o.name: _bound_errors(o.dtype, values[o.name], magnitudes[o.name], None, measure, lost)
            for o in outputs
        }
    for o in outputs:
        # Random coordinates of an array, and those of its corners.
        shape = shape_of(o)
        rng = np.random.default_rng(1)
        corners = np.array(np.meshgrid(*[[0, n - 1] for n in shape])).reshape(len(shape), -1)
        inner = np.array([rng.integers(0, n, size=samples) for n in shape]).reshape(len(shape), -1)
        both: Array = np.concatenate([corners, inner], axis=1)
        at = tuple(both)
        exact, sizes = evaluate_samples(
            kernel, arrays, {}, o.name, np.stack(at, axis=1), scalars, measure=measure
        )
        found[o.name] = _bound_errors(o.dtype, exact, sizes, at, measure, lost)
    return found


def _bound_errors(
    dtype: DType, values: Array, magnitude: Array, at: tuple[Array, ...] | None, measure: Measure, lost: float
) -> Expected:
    """Return the expected values with their error bounds. Numbers below `lost` may become zero."""
    if not dtype.is_float:
        return Expected(values, magnitude, at, not magnitude.any(), dtype, magnitude)
    if measure.exact_below:
        small, nothing = bool(np.all(magnitude < measure.exact_below)), np.zeros(values.shape)
        with np.errstate(over="ignore"):
            rounded = round_to(values, dtype).astype(np.float64)
        return Expected(rounded, nothing, at, small, dtype, nothing)
    computed = measure.scale * magnitude + lost
    rounds = dtype.mantissa_bits < measure.mantissa_bits
    bound = computed + last_place(values, dtype) if rounds else computed
    return Expected(values, bound, at, False, dtype, computed)


def sum_type(kernel: Kernel) -> DType:
    """Return the narrowest float type in which the kernel computes, or the type that it stores without one.

    A value that is cast and stored, `g[j] = bf16(h[j])`, is rounded once, and not computed in that type.
    """
    computed: list[DType] = []
    for s, _ in _trips(kernel):
        target = kernel.operand(s.target.buffer)
        computed += [part.dtype for part in walk(s.value) if isinstance(part, Call)]
        computed += [target.accumulate or target.dtype] if s.op is not None else []
    stored = [o.accumulate or o.dtype for o in kernel.operands if o.role != "in"]
    floats = [t for t in computed if t.is_float] or [t for t in stored if t.is_float]
    return min(floats, key=lambda t: t.mantissa_bits, default=F64)


def last_place(values: Array, dtype: DType) -> Array:
    """Return one unit in the last place of values when rounded to a type."""
    _, exponent = np.frexp(np.abs(values))
    lowest = 2 - (1 << (dtype.exponent_bits - 1))
    exponent = np.where(values == 0, lowest, np.maximum(exponent - 1, lowest))
    return np.ldexp(1.0, exponent - (dtype.mantissa_bits - 1))


# --- what a kernel is made of -----------------------------------------------------------------------------


def has_sequence(kernel: Kernel) -> bool:
    """Return whether the kernel has an ordered loop."""

    def is_ordered(s: Stmt) -> bool:
        return isinstance(s, Loop) and (s.ordered or any(is_ordered(child) for child in s.body))

    return any(is_ordered(s) for s in kernel.body)


def count_iterations(kernel: Kernel) -> int:
    """Return the number of iterations of all statements together."""
    return sum(trips for _, trips in _trips(kernel))


def count_operations(kernel: Kernel) -> int:
    """Return the number of arithmetic operations of a kernel. A multiply-add counts as two.

    An operation counts if its value depends on as many loops as its statement has. Values that can be
    computed ahead for several iterations are preparation: unpacking of weights, a scale of one factor. Bit
    operations, shifts, conversions, comparisons and selections do not count.
    """
    total = 0
    for s, axes in _assignments(kernel):
        names = {name for name, _ in axes}
        depends = symbols(s.value) & names
        done = [e for e in walk(s.value) if isinstance(e, Call) and OPS[e.op].is_arithmetic]
        own = sum(2 if e.op == "fma" else 1 for e in done if symbols(e) & names == depends)
        total += prod(n for _, n in axes) * (own + (s.op is not None))
    return total


def spares_operations(form: Kernel, kernel: Kernel) -> bool:
    """Return whether a variant has so many fewer operations that its price is worth computing."""
    return count_operations(form) < MOST_OPERATIONS_AT_POINTS * count_operations(kernel)


def sums_only(kernel: Kernel) -> bool:
    """Return whether small integers stay integers: the kernel only adds, multiplies, and takes minima or maxima."""
    kept = {
        op.name
        for op in OPS.values()
        if not (op.ulp or op.is_slow) and op.domain in ("number", "float", "any")
    }
    return all(
        calls(s.value) <= kept
        and s.op in (None, "add", "min", "max")
        and all(
            np.isinf(c.value) or float(c.value).is_integer() for c in walk(s.value) if isinstance(c, Const)
        )
        for s, _ in _trips(kernel)
    )


def calls(e: Expr) -> frozenset[str]:
    """Return the operations in an expression except comparisons."""
    found = (part.op for part in walk(e) if isinstance(part, Call))
    return frozenset(op for op in found if OPS[op].result != "bool")


def _trips(kernel: Kernel) -> list[tuple[Assign, int]]:
    return [(assign, prod(n for _, n in axes)) for assign, axes in _assignments(kernel)]


def _assignments(kernel: Kernel) -> list[tuple[Assign, Axes]]:
    """Return all assignments, each with the axes around it and their extents."""
    found: list[tuple[Assign, Axes]] = []

    def visit(s: Stmt, around: Axes) -> None:
        match s:
            case Assign():
                found.append((s, around))
            case Loop(axes, body):
                own: Axes = tuple((axis.name, typical_value(axis.extent, {}) or 0) for axis in axes)
                for child in body:
                    visit(child, around + own)

    for statement in kernel.body:
        visit(statement, ())
    return found
