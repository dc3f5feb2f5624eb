"""Compute the magnitude of each value: the sum of the absolute values of its terms.

Rounding errors are measured against magnitudes. For `C[m, n] += A[m, k] * B[k, n]` the magnitude is |C[m,
n]| + Σ |A[m, k]|·|B[k, n]|. If each operation has relative error u, the error of the result is a small
multiple of u times the magnitude, in any order of operations.

The magnitude of an integer is the largest difference that it may have: 0 unless a float was rounded to it.
If `x` is within 0.3 of 7.4, `sat_i8(round(x, even))` is 7 or 8, and its magnitude is 1.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import assert_never

import numpy as np

from isamap.ir.dtypes import F64, DType
from isamap.ir.error_bounds import PLAIN, Measure, is_given, is_one_rounding, size_of
from isamap.ir.evaluate import Env, Loader, evaluate_expr
from isamap.ir.nodes import Call, Cast, Const, Expr, IndexValue, Read, Scalar
from isamap.ir.ops import OPS
from isamap.ir.rounding import Array, convert, round_to
from isamap.source.records import dataclass, field, replace


def evaluate_magnitude(
    e: Expr, env: Env, load_magnitude: Loader, measure: Measure = PLAIN, *, summed: bool = False
) -> Array:
    """Return the magnitudes of an expression at all points as float64, at least the absolute values of floats.

    `env` gives the values and `load_magnitude` the magnitudes of the elements read. Elementwise functions
    pass an error on by the size of their derivative, to first order; a rounding to integers by the
    number of integers within the error. The magnitude is infinite if the float may be anything because an
    operand may have overflowed. `summed` says that a sum or a product reads the float, which is then such an
    operand.
    """
    work = _Work(env, load_magnitude, measure)
    if not e.dtype.is_float:
        return work.integers(e)
    return work.operand(e) if summed else work.floats(e)


@dataclass(frozen=True, slots=True)
class _Work:
    """The inputs and cached results of one expression's evaluation."""

    env: Env
    load: Loader
    measure: Measure
    known: dict[int, Array] = field(default_factory=dict[int, Array])

    def value(self, e: Expr) -> Array:
        if id(e) not in self.known:  # expressions outlive the work on them
            self.known[id(e)] = evaluate_expr(e, self.env).astype(np.float64)
        return self.known[id(e)]

    # --- floats -------------------------------------------------------------------------------------------

    def floats(self, e: Expr) -> Array:
        """Return the magnitudes of a float expression."""
        match e:
            case Const() | IndexValue() | Scalar():
                return size_of(self.value(e))
            case Read():
                return self.load(e).astype(np.float64, copy=False)
            case Cast(value, _, "bits", _):
                size, vague = np.abs(self.value(e)), self.integers(value) != 0
                return np.where(vague, np.inf, np.where(np.isfinite(size), size, 0.0))
            case Cast(value, dtype, _, _):
                if not value.dtype.is_float:
                    return np.abs(self.value(value)) + self.measure.as_magnitudes(self.integers(value))
                wider = dtype.exponent_bits > value.dtype.exponent_bits
                given = self.operand(value) if wider else self.floats(value)
                return self._round_narrow(e, given, dtype.mantissa_bits < value.dtype.mantissa_bits)
            case Call():
                op = OPS[e.op]
                take = self.floats if op.saturates else self.operand
                args = [np.zeros(()) if a.dtype.kind == "bool" else take(a) for a in e.args]
                if e.op in ("add", "sub") and not all(np.isfinite(a).all() for a in args):
                    args = self._addends(e, args)
                return self._round_narrow(
                    e, self._settle_special(e, self._call(e, args), args), not op.is_exact
                )
            case _:
                assert_never(e)

    def operand(self, e: Expr) -> Array:
        """Return the magnitudes of a float operand, infinite where it may have overflowed. Inputs have not."""
        if is_given(e, self.measure):
            return self.floats(e)
        return self.measure.beyond(self.floats(e), self.value(e), e.dtype)

    def _addends(self, e: Call, args: list[Array]) -> list[Array]:
        """Return the magnitudes of two addends, finite where only their sum overflows.

        What reads the sum finds that it may be an infinity, and `exp` has one result for all such numbers.
        """
        sums = self.measure.beyond(self.floats(e.args[0]) + self.floats(e.args[1]), self.value(e), e.dtype)
        return [np.where(np.isinf(sums), self.floats(a), m) for a, m in zip(e.args, args, strict=True)]

    def _settle_special(self, e: Call, magnitude: Array, args: list[Array]) -> Array:
        """Return the magnitude of a result, with 0 where the result is certainly infinite or NaN."""
        odd = ~np.isfinite(self.value(e))
        vague = self._is_vague(e, args)
        if not odd.any() and not vague.any() and np.isfinite(magnitude).all():
            return magnitude
        certain = odd & ~vague
        for a in args:
            certain = certain & np.isfinite(a)
        return np.where(certain, 0.0, np.where(odd | vague | np.isnan(magnitude), np.inf, magnitude))

    def _is_vague(self, e: Call, args: list[Array]) -> Array:
        """Return where it is uncertain whether the result of an operation is infinite or NaN.

        Examples are quotients by a possible 0, products of such a value and infinity, functions near the ends
        of their domain, and overflows of f64, in which values are computed.
        """

        def zero(number: int, end: float = 0) -> Array:
            value = self.value(e.args[number]) - end
            return self.measure.may_be_zero(args[number], value, e.args[number].dtype)

        def infinite(number: int) -> Array:
            return np.isinf(self.value(e.args[number]))

        ends = [end for end in OPS[e.op].takes if np.isfinite(end)]
        found = np.zeros((), np.bool_)
        match e.op:
            case "div":
                found = zero(1) | (zero(0) & (self.value(e.args[1]) == 0))
            case "mul" | "fma":
                found = (infinite(0) & zero(1)) | (zero(0) & infinite(1))
            case _:
                for end in ends:
                    found = found | zero(0, end)
        if e.dtype.name == "f64":
            given = [np.isfinite(self.value(a)) for a in e.args if a.dtype.is_float]
            overflown = np.isinf(self.value(e)) & np.logical_and.reduce(np.broadcast_arrays(*given))
            for pole in (0,) if e.op == "div" else ends:  # an infinity there is no overflow
                overflown &= self.value(e.args[-1]) != pole
            return found | overflown
        return found

    def _round_narrow(self, e: Expr, magnitude: Array, rounds: bool) -> Array:
        """Return the magnitude plus the rounding errors of a type that is narrower than the measure's."""
        return (
            magnitude + self.measure.rounding(magnitude, lambda: self.value(e), e.dtype)
            if rounds
            else magnitude
        )

    def _call(self, e: Call, args: list[Array]) -> Array:
        match e.op, args:
            case "add" | "sub", [a, b]:
                return a + b
            case "mul", [a, b]:
                return self._product(e.args[0], e.args[1], a, b)
            case "fma", [a, b, c]:
                return self._product(e.args[0], e.args[1], a, b) + c
            case "min" | "max" as op, [a, b]:
                own = zip(args, e.args, strict=True)
                (low_a, high_a), (low_b, high_b) = (self.measure.reach(op, m, self.value(x)) for m, x in own)
                return np.maximum(np.where(high_a >= low_b, a, 0.0), np.where(high_b >= low_a, b, 0.0))
            case "select", [_, a, b]:
                return np.where(evaluate_expr(e.args[0], self.env), a, b)
            case "neg" | "abs", [a]:
                return a
            case "round", [a]:
                return np.maximum(a, np.abs(self.value(e))) + self.measure.as_magnitudes(self._steps(e))
            case "div", [a, b]:
                numerator, divisor = (np.abs(self.value(x)) for x in e.args)
                return (a + numerator * (b / divisor)) / divisor
            case _:
                return self._function(e, args)

    def _product(self, left: Expr, right: Expr, a: Array, b: Array) -> Array:
        """Return two upper bounds of a product's magnitude: by the terms, and by the errors of both factors.

        The first is smaller for inputs, the second for computed values.
        """
        x, y = np.abs(self.value(left)), np.abs(self.value(right))
        return np.minimum(a * b, x * b + a * y + self.measure.scale * a * b)

    def _function(self, e: Call, args: list[Array]) -> Array:
        """Return |f(x)| plus, for each operand x, its magnitude times the largest |f'| within the error of x.

        Where f has a range it is off by no more than that: an error that a loop passes on and on ends there.
        """
        op, values, errors = (
            OPS[e.op],
            [self.value(x) for x in e.args],
            [self.measure.scale * a for a in args],
        )
        assert op.slope is not None, e.op
        passed_on = np.zeros(())
        slopes = op.slope(values, errors) if op.arity > 1 else (op.slope(values[0], errors[0]),)
        for a, slope in zip(args, slopes, strict=True):
            passed_on = passed_on + np.where(a == 0, 0.0, slope * a)
        width = op.image[1] - op.image[0]
        if np.isfinite(width) and self.measure.scale:
            vague = np.logical_or.reduce(np.broadcast_arrays(*map(np.isinf, args)))
            passed_on = np.where(vague, np.inf, np.minimum(passed_on, width / self.measure.scale))
        return np.abs(self.value(e)) + passed_on

    # --- floats that become whole numbers -----------------------------------------------------------------

    def _steps(self, e: Expr) -> Array:
        """Return the largest distance from a float to the ends of its error interval."""
        low, high = self._ends(e)
        value = self._declared_values(e)
        steps = np.maximum(high - value, value - low)
        return np.where(np.isfinite(steps), steps, 0.0)  # an infinity has no neighbours

    def _ends(self, e: Expr) -> tuple[Array, Array]:
        """Return the lowest and the highest possible value of a float. They are integers for sums of integers."""
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
            case Call("add", (a, b)):
                (low, high), (other_low, other_high) = self._ends(a), self._ends(b)
                ends, around = (low + other_low, high + other_high), self._interval_ends(e)
                parts = (low, high, other_low, other_high, *ends)
                exact = [(x == np.rint(x)) & (np.abs(x) < 2.0**e.dtype.mantissa_bits) for x in parts]
                whole = np.logical_and.reduce(np.broadcast_arrays(*exact))
                return np.where(whole, ends[0], around[0]), np.where(whole, ends[1], around[1])
            case _:
                return self._interval_ends(e)

    def _interval_ends(self, e: Expr) -> tuple[Array, Array]:
        """Return the two ends of a float's error interval."""
        value = self._declared_values(e)
        if not self.measure.scale or is_one_rounding(e, self.measure):
            return value, value
        errors = self.measure.errors(self.floats(e))
        return value - errors, value + errors

    def _declared_values(self, e: Expr) -> Array:
        """Return the values of a float expression, rounded to the declared types."""
        return evaluate_expr(e, replace(self.env, exact=False)).astype(np.float64)

    # --- integers -----------------------------------------------------------------------------------------

    def integers(self, e: Expr) -> Array:
        """Return the largest deviation of an integer expression."""
        match e:
            case Const() | IndexValue() | Scalar():
                return np.zeros(())
            case Read():
                return self.load(e).astype(np.float64, copy=False)
            case Cast(value, _, mode, _):
                if value.dtype.kind == "bool":
                    return np.zeros(())
                if not value.dtype.is_float:
                    return self._deviation(value, lambda x: convert(x, value.dtype, e.dtype, mode), e.dtype)
                source = value.dtype if mode == "bits" else F64
                low, high, exact = (
                    convert(round_to(x, source), source, e.dtype, mode).astype(np.float64)
                    for x in (*self._ends(value), self._declared_values(value))
                )
                ends = low, high
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
                return self._deviation(e.args[0], self._bind_second(e), e.dtype)
            case _:
                return anything(np.sum(np.broadcast_arrays(*args), axis=0), e.dtype)

    def _bind_second(self, e: Call) -> Callable[[Array], Array]:
        """Return an operation as a function of its first operand, with the second operand constant."""
        second = evaluate_expr(e.args[1], self.env).astype(np.int64)
        more = () if e.mode is None else (e.mode,)
        return lambda x: np.asarray(OPS[e.op].compute(x, second, *more))

    def _deviation(self, e: Expr, function: Callable[[Array], Array], dtype: DType) -> Array:
        """Return the largest deviation of a monotone integer function, or the whole range of a type that wraps."""
        radius = self.integers(e)
        if not radius.any():
            return np.zeros(())
        value = evaluate_expr(e, self.env).astype(np.int64)
        by = np.minimum(radius, 2.0**62).astype(np.int64)
        low, exact, high = (function(x).astype(np.float64) for x in (value - by, value, value + by))
        return np.where(low > high, float(dtype.high - dtype.low), np.maximum(high - exact, exact - low))


def anything(radius: Array, dtype: DType) -> Array:
    """Return the width of the type's range for each integer with a deviation, and 0 for the others."""
    return np.where(radius > 0, float(dtype.high - dtype.low), 0.0)


def _holds(wide: DType, narrow: DType) -> bool:
    return wide.mantissa_bits >= narrow.mantissa_bits and wide.exponent_bits >= narrow.exponent_bits
