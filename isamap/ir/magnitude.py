"""How large the terms behind a value are: what rounding errors are measured against.

The magnitude of a float is the sum of the absolute values of what was added up to get it. For
`C[m, n] += A[m, k] * B[k, n]` it is |C[m, n]| + Σ |A[m, k]|·|B[k, n]|: a computation whose operations have
relative error u, in any order, is off by a small multiple of u times this.

The magnitude of an integer is by how much it may differ: 0 unless a float was rounded to it. `x` within
0.3 of 7.4 makes `sat_i8(round(x, even))` 7 or 8: it differs by up to 1.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import assert_never

import numpy as np

from isamap.ir.dtypes import F64, DType
from isamap.ir.evaluate import Env, Loader, evaluate_expr
from isamap.ir.measure import PLAIN, Measure, is_one_rounding
from isamap.ir.nodes import Call, Cast, Const, Expr, IndexValue, Read, Scalar
from isamap.ir.ops import OPS
from isamap.ir.rounding import Array, convert

_EXACT = ("neg", "abs", "min", "max", "select", "round")
"""Float operations that add no rounding error of their own."""


def evaluate_magnitude(e: Expr, env: Env, load_magnitude: Loader, measure: Measure = PLAIN) -> Array:
    """The magnitudes of an expression at all points, float64; of floats never below finite absolute values.

    `env` gives the values and `load_magnitude` the magnitudes of what is read. Elementwise functions pass an
    error on by the size of their derivative, to first order; a rounding to whole numbers by as many of them
    as lie within it.
    """
    work = _Work(env, load_magnitude, measure)
    return work.floats(e) if e.dtype.is_float else work.integers(e)


@dataclass(frozen=True, slots=True)
class _Work:
    """What stays the same within one expression."""

    env: Env
    load: Loader
    measure: Measure

    def value(self, e: Expr) -> Array:
        return evaluate_expr(e, self.env).astype(np.float64)

    # --- floats -------------------------------------------------------------------------------------------

    def floats(self, e: Expr) -> Array:
        """Sums of absolute values."""
        match e:
            case Const() | IndexValue() | Scalar():
                found = np.abs(self.value(e))
                # Nothing rounds an infinity: a maximum that begins with one is as exact as what it is of.
                return np.where(np.isinf(found), 0.0, found)
            case Read():
                return self.load(e).astype(np.float64, copy=False)
            case Cast(value, dtype, _, _):
                if not value.dtype.is_float:
                    return np.abs(self.value(value)) + self.measure.as_magnitudes(self.integers(value))
                return self._rounded(e, self.floats(value), dtype.mantissa_bits < value.dtype.mantissa_bits)
            case Call():
                args = [np.zeros(()) if a.dtype.kind == "bool" else self.floats(a) for a in e.args]
                return self._rounded(e, self._call(e, args), e.op not in _EXACT)
            case _:
                assert_never(e)

    def _rounded(self, e: Expr, magnitude: Array, rounds: bool) -> Array:
        """The magnitude with the rounding of a type that is narrower than the measure's."""
        bits = e.dtype.mantissa_bits
        if rounds and self.measure.exact_below:
            return np.where(magnitude < 2.0**bits, magnitude, np.maximum(magnitude, self.measure.exact_below))
        if not rounds or bits >= self.measure.mantissa_bits:
            return magnitude
        return magnitude + self.measure.as_magnitudes(2.0**-bits * np.abs(self.value(e)))

    def _call(self, e: Call, args: list[Array]) -> Array:
        match e.op, args:
            case "add" | "sub", [a, b]:
                return a + b
            case "mul", [a, b]:
                return self._product(e.args[0], e.args[1], a, b)
            case "fma", [a, b, c]:
                return self._product(e.args[0], e.args[1], a, b) + c
            case "min" | "max", [a, b]:
                return np.maximum(a, b)
            case "select", [_, a, b]:
                return np.where(evaluate_expr(e.args[0], self.env), a, b)
            case "neg" | "abs", [a]:
                return a
            case "round", [a]:
                return np.maximum(a, np.abs(self.value(e))) + self.measure.as_magnitudes(self._steps(e))
            case "div", [a, b]:
                numerator, divisor = (np.abs(self.value(x)) for x in e.args)
                return (a + numerator * (b / divisor)) / divisor
            case _, [a]:
                return self._function(e, a)
            case _:
                raise AssertionError(e.op)

    def _product(self, left: Expr, right: Expr, a: Array, b: Array) -> Array:
        """Two bounds: products of terms, and errors passed on by the other factor's value.

        The first is the smaller one for what is read, the second for what was computed, step after step.
        """
        x, y = np.abs(self.value(left)), np.abs(self.value(right))
        return np.minimum(a * b, x * b + a * y)

    def _function(self, e: Call, a: Array) -> Array:
        """|f(x)| plus the magnitude of x times |f'(x)|, at the steepest within the error of x.

        Where f has a range it is off by no more than that: an error that a loop passes on and on ends there.
        """
        x, y = self.value(e.args[0]), np.abs(self.value(e))
        nearest = np.maximum(np.abs(x) - self.measure.scale * a, 0.0)  # to 0, where most are steepest
        bounded = e.op in ("tanh", "sigmoid", "erf", "sin", "cos")
        match e.op:
            case "exp":
                slope = y
            case "log":
                slope = 1 / np.abs(x)
            case "sqrt":
                slope = 0.5 / np.maximum(y, np.finfo(np.float64).tiny)
            case "tanh":
                slope = 1 - np.tanh(nearest) ** 2
            case "sigmoid":
                slope = 1 / (2 + 2 * np.cosh(np.minimum(nearest, 700.0)))
            case "sin" | "cos":
                slope = np.ones(())
            case "erf":
                slope = 2 / np.sqrt(np.pi) * np.exp(-(nearest**2))
            case _:
                raise AssertionError(e.op)
        passed_on = slope * a
        if bounded and self.measure.scale:
            passed_on = np.minimum(passed_on, 2 / self.measure.scale)
        return y + passed_on

    # --- floats that become whole numbers -----------------------------------------------------------------

    def _steps(self, e: Expr) -> Array:
        """By how much a float differs from the ends of what it may be."""
        low, high = self._ends(e)
        value = self._declared(e)
        steps = np.maximum(high - value, value - low)
        return np.where(np.isfinite(steps), steps, 0.0)  # an infinity has no neighbours

    def _ends(self, e: Expr) -> tuple[Array, Array]:
        """The lowest and the highest that a float may be; whole numbers stay whole."""
        match e:
            case Call("round", (value,), _, mode):
                low, high = self._ends(value)
                return OPS["round"].compute(low, mode), OPS["round"].compute(high, mode)
            case Call("min" | "max" as op, (a, b)):
                (low, high), (other_low, other_high) = self._ends(a), self._ends(b)
                choose = np.minimum if op == "min" else np.maximum
                return choose(low, other_low), choose(high, other_high)
            case Call("neg", (value,)):
                low, high = self._ends(value)
                return -high, -low
            case Cast(value, dtype) if value.dtype.is_float and _holds(dtype, value.dtype):
                return self._ends(value)
            case _:
                value = self._declared(e)
                if not self.measure.scale or is_one_rounding(e, self.measure):
                    return value, value
                errors = self.measure.errors(self.floats(e))
                return value - errors, value + errors

    def _declared(self, e: Expr) -> Array:
        """The values of floats, rounded as their types say."""
        return evaluate_expr(e, replace(self.env, exact=False)).astype(np.float64)

    # --- integers -----------------------------------------------------------------------------------------

    def integers(self, e: Expr) -> Array:
        """By how much integers may differ, whole numbers."""
        match e:
            case Const() | IndexValue() | Scalar():
                return np.zeros(())
            case Read():
                return self.load(e).astype(np.float64, copy=False)
            case Cast(value, _, mode, _):
                if value.dtype.kind == "bool":
                    return np.zeros(())
                if not value.dtype.is_float:
                    return self._passed_on(value, lambda x: convert(x, value.dtype, e.dtype, mode), e.dtype)
                low, high = self._ends(value)
                exact = convert(self._declared(value), F64, e.dtype, mode).astype(np.float64)
                ends = [convert(x, F64, e.dtype, mode).astype(np.float64) for x in (low, high)]
                return np.maximum(np.abs(ends[0] - exact), np.abs(ends[1] - exact))
            case Call():
                return np.zeros(()) if e.dtype.kind == "bool" else self._integer_call(e)
            case _:
                assert_never(e)

    def _integer_call(self, e: Call) -> Array:
        args = [np.zeros(()) if a.dtype.kind == "bool" else self.integers(a) for a in e.args]
        if not any(a.any() for a in args):
            return np.zeros(())
        match e.op, args:
            case "add" | "sub", [a, b]:
                return a + b
            case "mul", [a, b]:
                x, y = (np.abs(self.value(arg)) for arg in e.args)
                return x * b + a * y + a * b
            case "neg" | "abs", [a]:
                return a
            case "min" | "max", [a, b]:
                return np.maximum(a, b)
            case "select", [_, a, b]:
                return np.where(evaluate_expr(e.args[0], self.env), a, b)
            case "shr" | "rounding_shift" | "div", [_, b] if not b.any():
                return self._passed_on(e.args[0], self._partly(e), e.dtype)
            case _:
                return anything(np.sum(np.broadcast_arrays(*args), axis=0), e.dtype)

    def _partly(self, e: Call) -> Callable[[Array], Array]:
        """An operation of two integers as a function of the first."""
        second = evaluate_expr(e.args[1], self.env).astype(np.int64)
        more = () if e.mode is None else (e.mode,)
        return lambda x: np.asarray(OPS[e.op].compute(x, second, *more))

    def _passed_on(self, e: Expr, function: Callable[[Array], Array], dtype: DType) -> Array:
        """By how much a monotone function of an integer may differ; where it wraps around, by all it may."""
        radius = self.integers(e)
        if not radius.any():
            return np.zeros(())
        value = evaluate_expr(e, self.env).astype(np.int64)
        by = np.minimum(radius, 2.0**62).astype(np.int64)
        low, exact, high = (function(x).astype(np.float64) for x in (value - by, value, value + by))
        return np.where(low > high, float(dtype.high - dtype.low), np.maximum(high - exact, exact - low))


def anything(radius: Array, dtype: DType) -> Array:
    """Where an integer may differ, by all that its type allows."""
    return np.where(radius > 0, float(dtype.high - dtype.low), 0.0)


def _holds(wide: DType, narrow: DType) -> bool:
    return wide.mantissa_bits >= narrow.mantissa_bits and wide.exponent_bits >= narrow.exponent_bits
