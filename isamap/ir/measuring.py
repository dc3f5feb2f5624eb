"""The magnitudes of a statement's results, computed box by box together with the values.

Of `s[m] += x[m, n] * x[m, n]` each box adds its products to the magnitudes of `s` and to their tally. After
all boxes, `isamap.ir.error_bounds` adds the rounding errors of the sum itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import permutations
from math import isfinite, prod

import numpy as np

from isamap.ir.buffers import load
from isamap.ir.contraction import factors_of, sum_of_products
from isamap.ir.dtypes import BOOL, F64, DType
from isamap.ir.error_bounds import Contributions, Measure, count_roundings, size_of, split_factors
from isamap.ir.evaluate import Env, evaluate_expr
from isamap.ir.index import Index
from isamap.ir.magnitude import anything, evaluate_magnitude
from isamap.ir.nodes import Assign, Cast, Const, Expr, Operand, Read, Routine
from isamap.ir.rounding import Array
from isamap.ir.updates import Cells, full_rank, reduce_values, update
from isamap.source.records import dataclass, replace


@dataclass(frozen=True, slots=True)
class MeasuredMagnitudes:
    """The magnitudes of all arrays, changed in place, and the errors of their inputs."""

    routine: Routine
    magnitudes: Mapping[str, Array]
    measure: Measure


def measure_box(
    s: Assign,
    env: Env,
    cells: Cells,
    mask: Array | None,
    by_products: bool,
    measured: MeasuredMagnitudes,
    tally: Contributions | None,
) -> None:
    """Add the terms of one box to the magnitudes of the statement's target and to its tally."""
    home = measured.magnitudes[s.target.buffer]
    within = cells.reduced() if by_products else cells
    if tally is None:
        sizes, op = _measure_write(s, env, cells, mask, by_products, measured)
        update(home, within, op, sizes, mask, F64, _as_is)
        return
    update(tally.touched, cells, "or", np.asarray(True), mask, BOOL, _as_is)
    sizes = _sizes(s, env, cells, by_products, measured)
    if s.op == "mul":
        factors, relative = split_factors(evaluate_expr(s.value, env), sizes)
        update(tally.terms, cells, "mul", factors, mask, F64, _as_is)
        update(tally.relative, cells, "add", relative, mask, F64, _as_is)
        return
    update(home, within, "add", sizes, mask, F64, _as_is)
    terms = sizes if _is_given(s.value, measured.measure) else _terms(s, env, cells, by_products)
    update(tally.terms, within, "add", terms, mask, F64, _as_is)


def _as_is(values: Array) -> Array:
    return values


def most_hits(index: tuple[Index, ...], axes: Mapping[str, int]) -> int:
    """Return how often at most a statement writes one element, from the target's subscripts and the axes' extents.

    A subscript settles one of its axes once the others are known: the longest of those in no other subscript.
    """
    left = {i: frozenset(s for s in subscript.symbols if s in axes) for i, subscript in enumerate(index)}
    plain = {i: _linear(subscript) for i, subscript in enumerate(index)}
    settled: set[str] = set()
    while (single := next((i for i, n in left.items() if len(n - settled) == 1), None)) is not None:
        settled |= left.pop(single) & plain[single]
    for i, names in left.items():
        others = frozenset[str]().union(*(n for j, n in left.items() if j != i))
        own = (names & plain[i]) - settled - others
        if own:
            settled.add(max(own, key=lambda name: axes[name]))
    return prod(n for name, n in axes.items() if name not in settled)


def _linear(subscript: Index) -> frozenset[str]:
    """Return the symbols that occur in a subscript only as an integer multiple, apart from the other terms."""
    single = ((m[0], c) for m, c in subscript.terms if len(m) == 1 and isinstance(m[0], str))
    return frozenset(name for name, c in single if name not in (subscript - Index.of(name) * c).symbols)


def fill_magnitude(fill: Const) -> float:
    """Return the magnitude of the constant that a read outside an operand returns."""
    size = abs(float(fill.value))
    return size if fill.dtype.is_float and isfinite(size) else 0.0


def with_roundings(magnitudes: Array, e: Expr, values: Array, measure: Measure) -> Array:
    """Return the magnitudes of a result with the rounding errors of its operations."""
    roundings = count_roundings(e) if e.dtype.is_float else 0
    if not measure.growth or not roundings:
        return magnitudes
    return magnitudes + measure.growth * roundings * size_of(values)


def with_storage(magnitudes: Array, load: Callable[[], Array], operand: Operand, measure: Measure) -> Array:
    """Return the magnitudes of read elements with the errors of rounding wide sums to the operand's type.

    Subnormal numbers are included if they may be flushed to zero.
    """
    if not operand.dtype.is_float:
        return magnitudes
    if measure.flushes:
        sizes = size_of(load())
        lost = np.where(sizes < operand.dtype.smallest_normal, sizes, 0.0)
        if lost.any():
            magnitudes = magnitudes + measure.as_magnitudes(lost)
    return magnitudes + measure.storing(magnitudes, load, operand)


# --- what one box gives -----------------------------------------------------------------------------------


def _sizes(s: Assign, env: Env, cells: Cells, by_products: bool, measured: MeasuredMagnitudes) -> Array:
    """Return the magnitudes of the values of a statement. Those of a sum of products are already summed."""

    def load_magnitude(read: Read) -> Array:
        source = measured.magnitudes[read.buffer]
        bare = replace(read, fill=Const(fill_magnitude(read.fill), F64)) if read.fill is not None else read
        found = np.abs(load(source, bare, cells.box, env.symbols))
        operand = measured.routine.operand(read.buffer)
        return with_storage(found, lambda: evaluate_expr(read, env), operand, measured.measure)

    def measured_expr(e: Expr) -> Array:
        summed = s.op in ("add", "mul")
        return evaluate_magnitude(e, env, load_magnitude, measured.measure, summed=summed)

    if not by_products:
        return measured_expr(s.value)
    rank = len(cells.box.names)
    factors = [full_rank(measured_expr(f), rank) for f in factors_of(s.value)]
    if s.value.dtype.is_float:
        values = [full_rank(evaluate_expr(f, env), rank) for f in factors_of(s.value)]
        sums = sum_of_products(factors, cells.box.counts, cells.kept)
        if any((m > size_of(v)).any() for m, v in zip(factors, values, strict=True)):
            sums = np.minimum(sums, _passed_on(values, factors, cells, measured.measure))
        vague = np.isnan(sums) | _vague_products(values, factors, s.value.dtype, cells, measured.measure)
        return np.where(vague, np.inf, sums)  # NaN: infinity times 0
    if not any(f.any() for f in factors):
        return np.zeros((1,) * rank)
    # Σ (|a| + r)·(|b| + q) - Σ |a|·|b|: by how much a sum of products of integers differs.
    exact = [np.abs(full_rank(evaluate_expr(f, env), rank).astype(np.float64)) for f in factors_of(s.value)]
    wide = [a + b for a, b in zip(exact, factors, strict=True)]
    return sum_of_products(wide, cells.box.counts, cells.kept) - sum_of_products(
        exact, cells.box.counts, cells.kept
    )


def _passed_on(values: list[Array], magnitudes: list[Array], cells: Cells, measure: Measure) -> Array:
    """Return the exact magnitudes of sums of products of inexact factors: Σ (Π (|x| + s·m) - Π |x|) / s.

    For computed factors it is far less than the sums of products of magnitudes.
    """
    total, sizes = np.zeros(()), [size_of(v) for v in values]
    wide = [x + measure.scale * m for x, m in zip(sizes, magnitudes, strict=True)]
    for i, own in enumerate(magnitudes):
        total = total + sum_of_products([*sizes[:i], own, *wide[i + 1 :]], cells.box.counts, cells.kept)
    return total


def _vague_products(
    values: list[Array], sizes: list[Array], dtype: DType, cells: Cells, measure: Measure
) -> Array:
    """Return where a term is infinity times a possible 0. The sum may then have any value."""
    found, infinite = np.zeros((), np.bool_), [np.isinf(v) for v in values]
    if any(i.any() for i in infinite):
        near = [measure.may_be_zero(m, v, dtype) for m, v in zip(sizes, values, strict=True)]
        for one, other in permutations(range(len(values)), 2):
            marks = [np.ones_like(m) for m in sizes]
            marks[one], marks[other] = infinite[one] * 1.0, marks[other] * near[other]
            found = found | (sum_of_products(marks, cells.box.counts, cells.kept) > 0)
    return found


def _terms(s: Assign, env: Env, cells: Cells, by_products: bool) -> Array:
    """Return the absolute values of the terms of a sum."""
    if not by_products:
        return size_of(evaluate_expr(s.value, env))
    rank = len(cells.box.names)
    factors = [size_of(full_rank(evaluate_expr(f, env), rank)) for f in factors_of(s.value)]
    return sum_of_products(factors, cells.box.counts, cells.kept)


def _measure_write(
    s: Assign, env: Env, cells: Cells, mask: Array | None, by_products: bool, measured: MeasuredMagnitudes
) -> tuple[Array, str | None]:
    """Return the magnitudes that a statement without a tally writes, and the operation that reduces them."""
    sizes = _sizes(s, env, cells, by_products, measured)
    if s.op is None:
        return with_roundings(sizes, s.value, evaluate_expr(s.value, env), measured.measure), None
    if s.op in ("min", "max"):
        if s.value.dtype.is_float:
            low, high = measured.measure.reach(s.op, sizes, evaluate_expr(s.value, env))
            sizes = np.where(high >= reduce_values("max", low, mask, F64, cells), sizes, 0.0)
        return sizes, "max"
    if s.op == "add":
        return sizes, "add"
    if measured.magnitudes[s.target.buffer].any():
        sizes = np.ones(())
    return anything(sizes, s.value.dtype), "max"


def _is_given(value: Expr, measure: Measure) -> bool:
    """Return whether a value is a product of inputs, whose magnitude is its absolute value."""

    def bare(e: Expr) -> Expr:
        return bare(e.value) if isinstance(e, Cast) and e.value.dtype.is_float else e

    return all(isinstance(r := bare(f), Read) and r.buffer in measure.given for f in factors_of(value))
