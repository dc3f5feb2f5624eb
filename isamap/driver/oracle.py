"""What a result should be and how far it may be off: the interpreter's values, and the rules for errors.

Integers are bit-exact. Floats, on random data: |error| ≤ 4·2⁻²³·Σ|a||b| for sums in f32 (2⁻⁵² for f64, and
so on), on other data K·2⁻²³·Σ|a||b| for K terms; and one unit in the last place of the result where it is
rounded to a narrower type. Where every partial sum is a small integer, floats are bit-exact, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isamap.codegen.fills import shape_of
from isamap.ir import (
    OPS,
    Assign,
    Call,
    Cast,
    DType,
    Expr,
    Kernel,
    Loop,
    Stmt,
    evaluate_samples,
    interpret,
    interpret_magnitude,
    round_to,
)

Array = NDArray[Any]
Axes = tuple[tuple[str, int], ...]
WHOLE_ITERATIONS = 1 << 35
"""Above this many iterations only samples are computed by the oracle."""
SAMPLES = 2048
ORDER_FACTOR = 4


@dataclass(frozen=True, slots=True)
class Expected:
    """The exact values of an output, and the largest error of each that is allowed.

    `at` are the coordinates that were sampled, None where all elements are given. `is_exact` when nothing but
    the very bits will do. `dtype` is the output's type, `computed` the part of the bound that is there before
    a result is rounded to it: what decides whether it overflows.
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
    """What each output should hold after a run on the fill named.

    `samples` asks for that many elements only; by default very large kernels are sampled.
    """
    if samples is None and count_iterations(kernel) > WHOLE_ITERATIONS and not has_sequence(kernel):
        samples = SAMPLES
    outputs = [o for o in kernel.operands if o.role in ("out", "inout")]
    found: dict[str, Expected] = {}
    whole = (
        (interpret(kernel, arrays, {}, scalars, exact=True), interpret_magnitude(kernel, arrays, {}, scalars))
        if samples is None
        else None
    )
    for output in outputs:
        at: tuple[Array, ...] | None = None
        if whole is not None:
            values, magnitude = whole[0][output.name], whole[1][output.name]
        else:
            assert samples is not None
            at = _coordinates(shape_of(output), samples)
            values, magnitude = evaluate_samples(
                kernel, arrays, {}, output.name, np.stack(at, axis=1), scalars
            )
        found[output.name] = _judged(kernel, output.dtype, values, magnitude, at, fill)
    return found


def _judged(
    kernel: Kernel,
    dtype: DType,
    values: Array,
    magnitude: Array,
    at: tuple[Array, ...] | None,
    fill: str,
) -> Expected:
    if not dtype.is_float:
        nothing = np.zeros(values.shape)
        return Expected(values, nothing, at, True, dtype, nothing)
    sums = sum_type(kernel)
    if fill == "integers" and sums_only(kernel) and bool(np.all(magnitude < 2.0**sums.mantissa_bits)):
        nothing = np.zeros(values.shape)
        with np.errstate(over="ignore"):
            rounded = round_to(values, dtype).astype(np.float64)
        return Expected(rounded, nothing, at, True, dtype, nothing)
    unit = 2.0 ** (1 - sums.mantissa_bits)
    # Errors of random terms of both signs cancel; of others they may add up, to γ of as many terms.
    factor = ORDER_FACTOR if fill == "random" else max(ORDER_FACTOR, count_terms(kernel))
    computed = factor * unit * magnitude + smallest_normal(sums)
    rounds = dtype.mantissa_bits < sums.mantissa_bits
    bound = computed + last_place(values, dtype) if rounds else computed
    return Expected(values, bound, at, False, dtype, computed)


def sum_type(kernel: Kernel) -> DType:
    """The narrowest float type in which the kernel computes what it stores."""
    computed = [o for o in kernel.operands if o.role != "in" and o.dtype.is_float]
    return min((o.accumulate or o.dtype for o in computed), key=lambda t: t.mantissa_bits)


def last_place(values: Array, dtype: DType) -> Array:
    """One unit in the last place of values when rounded to a type."""
    _, exponent = np.frexp(np.abs(values))
    lowest = 2 - (1 << (dtype.exponent_bits - 1))
    exponent = np.where(values == 0, lowest, np.maximum(exponent - 1, lowest))
    return np.ldexp(1.0, exponent - (dtype.mantissa_bits - 1))


def smallest_normal(dtype: DType) -> float:
    """Smaller results may be flushed to 0."""
    return 2.0 ** (2 - (1 << (dtype.exponent_bits - 1)))


def _coordinates(shape: tuple[int, ...], samples: int) -> tuple[Array, ...]:
    """Random elements of an array, and those at its corners."""
    rng = np.random.default_rng(1)
    corners = np.array(np.meshgrid(*[[0, n - 1] for n in shape])).reshape(len(shape), -1)
    inner = np.array([rng.integers(0, n, size=samples) for n in shape]).reshape(len(shape), -1)
    both: Array = np.concatenate([corners, inner], axis=1)
    return tuple(both)


# --- what a kernel is made of -----------------------------------------------------------------------------


def has_sequence(kernel: Kernel) -> bool:
    """Whether a loop of the kernel runs in order."""

    def ordered(s: Stmt) -> bool:
        return isinstance(s, Loop) and (s.ordered or any(ordered(child) for child in s.body))

    return any(ordered(s) for s in kernel.body)


def count_iterations(kernel: Kernel) -> int:
    """How often the statements of a kernel run, together."""
    return sum(trips for _, trips in _trips(kernel))


def count_operations(kernel: Kernel) -> int:
    """How many arithmetic operations a kernel performs, a multiplication and an addition being two."""
    return sum(
        trips * (_operations(s.value) + (s.op is not None and trips > 0)) for s, trips in _trips(kernel)
    )


def count_terms(kernel: Kernel) -> int:
    """How many roundings there may be on the way to one element of an output."""
    found = 0
    for assign, axes in _assignments(kernel):
        own = frozenset(s for i in assign.target.index for s in i.symbols)
        found += prod(n for name, n in axes if name not in own) + _operations(assign.value)
    return found


def sums_only(kernel: Kernel) -> bool:
    """Whether small integers stay integers: additions, products, minima and maxima."""
    exact = {"add", "sub", "mul", "fma", "min", "max", "neg", "abs", "select"}
    return all(calls(s.value) <= exact and s.op in (None, "add", "min", "max") for s, _ in _trips(kernel))


def calls(e: Expr) -> frozenset[str]:
    """The operations in an expression, comparisons left out."""
    match e:
        case Call(op, args):
            own = frozenset[str]() if OPS[op].result == "bool" else frozenset((op,))
            return own.union(*(calls(a) for a in args))
        case Cast(value):
            return calls(value)
        case _:
            return frozenset()


def _operations(e: Expr) -> int:
    match e:
        case Call(op, args):
            return (2 if op == "fma" else 1) + sum(_operations(a) for a in args)
        case Cast(value):
            return _operations(value)
        case _:
            return 0


def _trips(kernel: Kernel) -> list[tuple[Assign, int]]:
    return [(assign, prod(n for _, n in axes)) for assign, axes in _assignments(kernel)]


def _assignments(kernel: Kernel) -> list[tuple[Assign, Axes]]:
    """All assignments with the axes around them and their extents."""
    found: list[tuple[Assign, Axes]] = []

    def visit(s: Stmt, around: Axes) -> None:
        match s:
            case Assign():
                found.append((s, around))
            case Loop(axes, body):
                own: Axes = tuple((axis.name, int(axis.extent.evaluate({}))) for axis in axes)
                for child in body:
                    visit(child, around + own)

    for statement in kernel.body:
        visit(statement, ())
    return found
