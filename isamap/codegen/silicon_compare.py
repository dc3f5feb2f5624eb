"""Whether what an instruction gave is what its semantics say: bit by bit, or within what its words allow.

Not-a-numbers are equal whatever their payload. `numerics` words of an instruction, and functions that are
only accurate to some units in the last place, widen what is accepted; nothing else does.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isamap.codegen.silicon_cases import Case
from isamap.ir import OPS, REORDERING, Assign, Call, Cast, DType, Expr, Instruction, Loop, Operand, Stmt
from isamap.ir.interpret import bind_all, execute_bound, interpret_magnitude

Array = NDArray[Any]

# Section 7 of the design: 4 units of f32's last place, of the sum of the absolute values of all terms.
_SUM_FACTOR = 4.0


def is_tame(instruction: Instruction) -> bool:
    """Whether only numbers of moderate size make sense: sums rounded differently overflow elsewhere."""
    return bool(REORDERING.intersection(instruction.numerics))


def difference(
    instruction: Instruction, encoded: Mapping[str, int], case: Case, found: Mapping[str, Array]
) -> str | None:
    """The first wrong element, in words; None when all outputs are what the semantics say."""
    sizes = {**encoded, **dict(case.counts)}
    scalars = dict(case.scalars)
    bound = bind_all(instruction, sizes)
    arrays = case.arrays
    if "flush_inputs" in instruction.numerics:
        arrays = {name: _flushed(values, instruction.operand(name).dtype) for name, values in arrays.items()}

    def perform(seed: int) -> dict[str, Array]:
        found = execute_bound(bound, arrays, scalars, rng=np.random.default_rng(seed))
        if "flush_results" not in instruction.numerics:
            return found
        return {name: _flushed(values, instruction.operand(name).dtype) for name, values in found.items()}

    with np.errstate(all="ignore"):
        wanted = perform(1)
        for name, expected in wanted.items():
            operand = instruction.operand(name)
            wrong = ~_equal(found[name], expected, operand.dtype)
            if not wrong.any():
                continue
            # What the semantics leave undefined comes out differently when drawn again.
            wrong &= _equal(expected, perform(2)[name], operand.dtype)
            if wrong.any() and operand.dtype.is_float:
                allowed = _tolerance(instruction, operand, sizes, arrays, scalars, expected)
                gap = np.abs(found[name].astype(np.float64) - expected.astype(np.float64))
                wrong &= ~(gap <= allowed)
            if wrong.any():
                return _describe(name, wrong, found[name], expected, case)
    return None


def _flushed(values: Array, dtype: DType) -> Array:
    """Values with subnormal ones replaced by a zero of their sign."""
    if not dtype.is_float:
        return values
    wide = values.astype(np.float64)
    return np.where(np.abs(wide) < dtype.smallest_normal, np.copysign(0.0, wide), wide).astype(values.dtype)


def _equal(a: Array, b: Array, dtype: DType) -> Array:
    if not dtype.is_float:
        return np.asarray(a == b)
    bits = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}[a.dtype.itemsize]
    same: Array = np.ascontiguousarray(a).view(bits) == np.ascontiguousarray(b).view(bits)
    both: Array = np.isnan(a) & np.isnan(b)
    return np.asarray(same | both).reshape(a.shape)


def _tolerance(
    instruction: Instruction,
    operand: Operand,
    sizes: Mapping[str, int],
    arrays: Mapping[str, Array],
    scalars: Mapping[str, Any],
    expected: Array,
) -> Array:
    """How far from the expected value each element may lie, float64."""
    dtype = operand.dtype
    unit = 2.0 ** (1 - dtype.mantissa_bits)
    bias = (1 << (dtype.exponent_bits - 1)) - 1
    smallest = 2.0 ** (1 - bias)
    size = np.abs(expected.astype(np.float64))
    allowed = np.zeros(expected.shape)
    words = frozenset(instruction.numerics)
    operations = {name for stmt in instruction.body for name in _operations(stmt)}
    ulp = max((OPS[name].ulp for name in operations), default=0.0)
    if not words and not ulp and not _chooses(instruction):
        return np.full(expected.shape, -1.0)  # not even zeros of different signs
    if words & REORDERING:
        magnitude = interpret_magnitude(instruction, arrays, sizes, scalars)[operand.name]
        wide = operand.accumulate or dtype
        allowed = allowed + _SUM_FACTOR * 2.0 ** (1 - min(wide.mantissa_bits, 53)) * magnitude
        allowed = allowed + (unit * size if operand.accumulate is not None else 0.0)
    return allowed + ulp * np.maximum(unit * size, smallest * unit)


def _chooses(instruction: Instruction) -> bool:
    """Whether it takes the smaller or larger of two values."""
    return any(name in ("min", "max") for stmt in instruction.body for name in _operations(stmt))


def _operations(stmt: Stmt) -> Iterator[str]:
    match stmt:
        case Assign(_, op, value, _, _):
            yield from (op,) if op is not None else ()
            yield from _inside(value)
        case Loop(_, body, _, _, _):
            for inner in body:
                yield from _operations(inner)


def _inside(e: Expr) -> Iterator[str]:
    match e:
        case Call(op, args, _, _, _):
            yield op
            for a in args:
                yield from _inside(a)
        case Cast(value, _, _, _):
            yield from _inside(value)
        case _:
            return


def _describe(name: str, wrong: Array, found: Array, expected: Array, case: Case) -> str:
    at = tuple(int(i) for i in np.argwhere(wrong)[0]) if wrong.ndim else ()
    place = f"{name}[{', '.join(map(str, at))}]" if at else name
    counts = ", ".join(f"{n} = {v}" for n, v in case.counts)
    given = "; ".join(
        f"{n} = {a.reshape(-1)[:8].tolist()}" for n, a in case.arrays.items() if n != name or a.size
    )
    with_counts = f" with {counts}" if counts else ""
    return f"{place} is {found[at]}, its semantics say {expected[at]}{with_counts}; {given}"[:600]
