"""Check that integer inputs used as indices have the values that their declarations promise.

`in row: i32[M + 1] values 0..NNZ ascending` is refused where one is above NNZ, or below the one before.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType

import numpy as np

from isamap.ir import index as ir
from isamap.ir.nodes import Domain, Operand, Routine
from isamap.ir.rounding import Array
from isamap.source import UsageProblem

NO_SIZES: Mapping[str, int] = MappingProxyType({})
NO_AXES: Mapping[str, ir.Index] = MappingProxyType({})


def index_values(routine: Routine, arrays: Mapping[str, Array]) -> dict[str, Array]:
    """Return the inputs of a bound routine that have a domain, as int64.

    Raises: UsageProblem if one holds a value that its declaration excludes.
    """
    found: dict[str, Array] = {}
    for operand, domain in with_domains(routine):
        values = np.asarray(arrays[operand.name]).astype(np.int64)
        check_domain(operand.name, domain, values)
        found[operand.name] = values
    return found


def largest_value(index: ir.Index, ordered: Mapping[str, ir.Index] = NO_AXES) -> ir.Index:
    """Return an upper bound of an index for all data and for all iterations of ordered loops with these extents."""
    return _end_of(index, ordered, upper=True)


def _end_of(index: ir.Index, ordered: Mapping[str, ir.Index], *, upper: bool) -> ir.Index:
    if not ir.has_elements(index) and not index.symbols & ordered.keys():
        return index
    total = ir.ZERO
    for monomial, coefficient in index.terms:
        ends = [_end_of_atom(atom, ordered, upper=upper == (coefficient > 0)) for atom in monomial]
        total = total + ir.product(ends) * coefficient
    return total


def _end_of_atom(atom: ir.Atom, ordered: Mapping[str, ir.Index], *, upper: bool) -> ir.Index:
    match atom:
        case str() if atom in ordered:
            return ordered[atom] - 1 if upper else ir.ZERO
        case str():
            return ir.Index.of(atom)
        case ir.Element(low=low, high=high):
            return high if upper else low
        case ir.FloorDiv(value, divisor):
            return _end_of(value, ordered, upper=upper).floordiv(divisor)
        case ir.Mod(value, divisor):
            return divisor - 1 if upper else ir.ZERO
        case ir.MinMax(op, left, right):
            ends = _end_of(left, ordered, upper=upper), _end_of(right, ordered, upper=upper)
            return ir.index_min(*ends) if op == "min" else ir.index_max(*ends)


def with_domains(routine: Routine) -> Iterator[tuple[Operand, Domain]]:
    """Yield the operands with a declared domain, which index expressions may read."""
    for operand in routine.operands:
        if operand.domain is not None:
            yield operand, operand.domain


def check_domain(name: str, domain: Domain, values: Array, sizes: Mapping[str, int] = NO_SIZES) -> None:
    """Raise UsageProblem when a value is out of its range, or below the one before it."""
    low, high = int(domain.low.evaluate(sizes)), int(domain.high.evaluate(sizes))
    outside = np.flatnonzero((values < low) | (values > high))
    if outside.size:
        at = int(outside[0])
        raise UsageProblem.of(
            "index-values",
            f"`{name}[{at}]` is {int(values[at])}: its values are from {low} to {high}",
            help=f"correct the array, or the range that `{name}` declares",
        )
    falling = np.flatnonzero(np.diff(values) < 0) if domain.ascending else np.zeros(0, np.int64)
    if falling.size:
        at = int(falling[0])
        raise UsageProblem.of(
            "index-values",
            f"`{name}` is ascending, but {int(values[at])} at {at} is followed by {int(values[at + 1])}",
            help="sort the array, or declare it without `ascending`",
        )


def drawn_values(
    shape: tuple[int, ...], domain: Domain, rng: np.random.Generator, sizes: Mapping[str, int] = NO_SIZES
) -> Array:
    """Return random int64 values that the declaration allows. Ascending values include both ends of the range."""
    low, high = int(domain.low.evaluate(sizes)), int(domain.high.evaluate(sizes))
    values = rng.integers(low, high, size=shape, dtype=np.int64, endpoint=True)
    if not domain.ascending:
        return values
    values = np.sort(values)
    values[:1], values[-1:] = low, high
    return values
