"""Bound rounding errors: convert magnitudes to errors, and account for the roundings of reductions.

With `Measure(scale=4 * 2**-23, growth=0.25)` the error of a float of magnitude m is at most 4·2⁻²³·m. Each
rounding of a sum adds a quarter of the rounded value to the magnitude, which is 2⁻²³ of it as an error.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from isamap.ir.dtypes import DType
from isamap.ir.nodes import Assign, Call, Cast, Const, Expr, IndexValue, Operand, Read, Scalar
from isamap.ir.ops import OPS
from isamap.ir.rounding import Array
from isamap.ir.walk import walk
from isamap.source.records import dataclass


@dataclass(frozen=True, slots=True)
class Measure:
    """The error model. The default computes magnitudes alone, without errors.

    `scale` is the error for each unit of magnitude. `growth` is the part of a rounded value that one
    rounding adds to the magnitude. `cancels` is true if the signs of terms are random. Sums below
    `exact_below` are exact. Floats with fewer than `mantissa_bits` have rounding errors above the scale.
    `given` names the operands that no statement writes. `flushes` is true if subnormal numbers may count as
    zero.
    """

    scale: float = 0.0
    growth: float = 0.0
    cancels: bool = False
    exact_below: float = 0.0
    mantissa_bits: int = 0
    given: frozenset[str] = frozenset()
    flushes: bool = False

    def errors(self, magnitudes: Array) -> Array:
        """Return the largest errors of floats that have these magnitudes."""
        return np.where(magnitudes < self.exact_below, 0.0, self.scale * magnitudes)

    def as_magnitudes(self, errors: Array) -> Array:
        """Return the magnitudes that have these errors."""
        return errors / self.scale if self.scale else np.zeros(errors.shape)

    def may_be_zero(self, magnitudes: Array, values: Array, dtype: DType) -> Array:
        """Return where a value may be 0 in one implementation and nonzero in another."""
        lost = dtype.smallest_normal if self.flushes else dtype.smallest_subnormal
        within = self.scale * np.where(np.isfinite(magnitudes), magnitudes, 0.0)
        return (magnitudes > 0) & (np.abs(values) <= within + lost)

    def beyond(self, magnitudes: Array, values: Array, dtype: DType) -> Array:
        """Return the magnitudes of operands, and infinity where a value may have overflowed in its type.

        The result of an overflow may be an infinity, a NaN or, if both meet a bound, a number.
        """
        if not self.scale:
            return magnitudes
        sizes = size_of(values)
        over = sizes + np.where(np.isfinite(magnitudes), self.scale * magnitudes, 0.0) > dtype.largest
        return np.where(over, np.inf, magnitudes) if over.any() else magnitudes

    def reach(self, op: str, magnitudes: Array, values: Array) -> tuple[Array, Array]:
        """Return the least and the greatest possible values. For `min`, both have the opposite sign.

        The error of a maximum is that of values whose greatest is not below the greatest of all leasts.
        """
        if not self.scale:
            return np.full((), -np.inf), np.full((), np.inf)
        ordered, errors = -values if op == "min" else values, self.errors(magnitudes)
        with np.errstate(invalid="ignore"):
            low, high = ordered - errors, ordered + errors
        return np.where(np.isnan(low), -np.inf, low), np.where(np.isnan(high), np.inf, high)

    def rounding(self, magnitudes: Array, values: Callable[[], Array], dtype: DType) -> Array:
        """Return the errors of rounding to a type. Small integers are exact and have none."""
        if self.exact_below:
            return np.where(magnitudes < 2.0**dtype.mantissa_bits, 0.0, self.exact_below)
        if dtype.mantissa_bits >= self.mantissa_bits:
            return np.zeros(())
        return self.as_magnitudes(2.0**-dtype.mantissa_bits * size_of(values()))

    def storing(self, magnitudes: Array, values: Callable[[], Array], operand: Operand) -> Array:
        """Return the magnitudes that rounding wide sums to their operand's type adds."""
        if operand.accumulate is None or not operand.dtype.is_float:
            return np.zeros(())
        return self.rounding(magnitudes, values, operand.dtype)


PLAIN = Measure()


def size_of(values: Array) -> Array:
    """Return absolute values as float64, with 0 for infinities and NaN, which have no rounding error."""
    sizes = np.abs(values.astype(np.float64))
    return np.where(np.isfinite(sizes), sizes, 0.0)


def count_roundings(e: Expr) -> int:
    """Return how many operations of an expression may round."""
    return sum(2 if part.op == "fma" else 1 for part in walk(e) if isinstance(part, Call))


def is_one_rounding(e: Expr, measure: Measure) -> bool:
    """Return whether an expression has one correct value: an input, or one exactly rounded operation on inputs."""
    match e:
        case Call(op, args) if not (OPS[op].ulp or OPS[op].is_exact):
            return all(is_given(a, measure) for a in args)
        case _:
            return is_given(e, measure)


def is_given(e: Expr, measure: Measure) -> bool:
    """Return whether an expression is an input, whose value is exact in its type."""
    match e:
        case Read(buffer):
            return buffer in measure.given
        case Cast(value, dtype):
            exact = value.dtype.is_integer or value.dtype.mantissa_bits <= dtype.mantissa_bits
            return dtype.is_float and exact and is_given(value, measure)
        case Const() | Scalar() | IndexValue():
            return True
        case _:
            return False


# --- reductions -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Contributions:
    """The contributions to each element of a reduction's target, as arrays of the target's shape.

    For a sum, `terms` is the sum of the absolute values of its terms. For a product it is the product of
    the absolute values of its factors, and `relative` is the sum of their relative errors in units of the
    scale. `stored` holds the magnitudes of the errors made when earlier values were rounded to the
    operand's type.
    """

    terms: Array
    relative: Array
    touched: Array
    stored: Array


def is_tallied(s: Assign, measure: Measure, again: bool = False) -> bool:
    """Return whether the errors of a statement are tallied: it is a float reduction that rounds."""
    return s.value.dtype.is_float and (s.op == "mul" or (s.op == "add" and (again or measure.growth > 0)))


def begin_tally(op: str, values: Array, magnitudes: Array, stored: Array) -> Contributions:
    """Return the tally of elements that hold these values before a reduction."""
    touched = np.zeros(values.shape, np.bool_)
    if op == "mul":
        return Contributions(*split_factors(values, magnitudes + stored), touched, stored)
    return Contributions(np.array(size_of(values)), np.zeros(values.shape), touched, stored)


def split_factors(values: Array, magnitudes: Array) -> tuple[Array, Array]:
    """Return absolute values of factors, and the relative error of each beyond one rounding.

    The error of a product is the sum of the latter, to first order. The product of magnitudes would be wider
    by a power of their ratio. For a factor that is 0 only within its error, the error replaces the value.
    """
    sizes = size_of(values)
    excess = np.maximum(magnitudes - sizes, 0.0)
    vague = (sizes == 0) & (excess > 0)
    factors = np.where(vague, excess, sizes)
    return factors, np.where(factors > 0, excess / np.where(factors > 0, factors, 1.0), 0.0)


@dataclass(frozen=True, slots=True)
class FloatReduction:
    """A float reduction: its operation, the number of values per element, and the roundings in each value.

    `ordered` when the statement runs again for the same elements, in order. `largest` is the largest number
    of the type that it runs in.
    """

    op: str
    count: int
    roundings: int
    ordered: bool
    largest: float = np.inf


def finish_tally(
    r: FloatReduction, tally: Contributions, totals: Array, magnitudes: Array, measure: Measure
) -> Array:
    """Return the magnitudes of the elements after a reduction, with the errors of its own roundings.

    A sum of n terms to nearest, in any order, blocked or not, is off by at most n·u·Σ|t| (Rump, "Error
    estimation of floating-point summation and dot product", BIT 52, 2012: for all n). This bound applies to
    sums whose signs are not random. If they are, partial sums grow like √n and so does the bound that does
    not depend on n: but only as far as the signs cancel. The part of |Σt| beyond √(8/n)·Σ|t|, about two
    deviations of random signs, is one-sided and has the factor n. With 8u·Σ|t| for the magnitude itself and
    2u for each growth, terms of one sign have 8u·Σ + 2n·u·(1 - √(8/n))·Σ, which is n·u·Σ + (√n - √8)²·u·Σ:
    never below the bound for any order.

    A product of n factors is off by n·u of itself, whatever the signs.

    If Σ|t| exceeds the largest number and the sum does not, partial sums overflow in some orders only. If the
    terms of both signs exceed it, either infinity is possible.
    """
    if r.op == "mul":
        roundings = measure.growth * r.count * (1 + r.roundings)
        grown = tally.terms * (1 + tally.relative + roundings)
    elif not measure.cancels:
        grown = magnitudes + measure.growth * (r.count + r.roundings) * tally.terms
    else:
        sided = size_of(totals)
        if not r.ordered:
            sided = np.maximum(sided - np.sqrt(8 / max(1, r.count)) * tally.terms, 0.0)
        grown = magnitudes + measure.growth * r.count * sided
    if r.op == "add":
        sizes = size_of(totals)
        opposite = (tally.terms - sizes) / 2
        is_open = (tally.terms > r.largest) & (sizes <= r.largest) | (opposite > r.largest)
        grown = np.where(is_open, np.inf, grown)
    return np.where(tally.touched, grown + (tally.stored if r.op == "add" else 0.0), magnitudes)
