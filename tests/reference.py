"""A second interpreter, slow and obviously right: one iteration after the other, in integers and fractions.

It shares no code with `isamap.ir.interpret`, which it is there to check.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import product
from math import prod
from random import Random
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isamap.ir import (
    Assign,
    Call,
    Cast,
    Const,
    DType,
    Expr,
    Index,
    IndexValue,
    Loop,
    Read,
    Routine,
    Scalar,
    Stmt,
)
from isamap.ir.index import Atom, Element, FloorDiv, MinMax, Mod

Number = int | Fraction
Place = tuple[int, ...]
Buffer = dict[Place, Number]


@dataclass
class Run:
    """The state of one run: buffers by name, running sums of operands that accumulate in another type.

    With a `shuffle`, iterations of `for` come in a random order, as the language allows.
    """

    routine: Routine
    buffers: dict[str, Buffer]
    shuffle: Random | None = None
    sums: dict[str, Buffer] = field(default_factory=dict[str, Buffer])


def run_reference(
    routine: Routine, arrays: Mapping[str, NDArray[Any]], shuffle: Random | None = None
) -> dict[str, Buffer]:
    """Return all buffers after a routine without parameters has run, each a mapping from elements to numbers."""
    buffers = {name: to_buffer(a, routine.operand(name).dtype) for name, a in arrays.items()}
    run = Run(routine, buffers, shuffle)
    for statement in routine.body:
        _statement(statement, {}, run)
        for name, sums in run.sums.items():
            operand = routine.operand(name)
            assert operand.accumulate is not None
            run.buffers[name].update(
                {e: fit(fit(v, operand.accumulate), operand.dtype) for e, v in sums.items()}
            )
        run.sums.clear()
    return run.buffers


def to_buffer(array: NDArray[Any], dtype: DType) -> Buffer:
    """Return an array's elements as exact numbers."""
    number: Callable[[Any], Number] = (lambda v: Fraction(float(v))) if dtype.is_float else int
    return {index: number(array[index]) for index in np.ndindex(*array.shape)}


def fit(value: Number, dtype: DType) -> Number:
    """Return the value in a type: the nearest float (ties to even, no overflow), or the low bits of an integer."""
    if dtype.kind == "bool":
        return int(bool(value))
    if dtype.is_integer:
        low_bits = int(value) % (1 << dtype.bits)
        return low_bits - (1 << dtype.bits) if low_bits > dtype.high else low_bits
    return round_fraction(Fraction(value), dtype.mantissa_bits, 2 - (1 << (dtype.exponent_bits - 1)))


def round_fraction(value: Fraction, digits: int, smallest_exponent: int) -> Fraction:
    """Return the nearest number of `digits` binary digits, subnormals below 2**smallest_exponent included."""
    if value == 0:
        return value
    exponent = 0
    while abs(value) >= Fraction(2) ** (exponent + 1):
        exponent += 1
    while abs(value) < Fraction(2) ** exponent and exponent > smallest_exponent:
        exponent -= 1
    unit = Fraction(2) ** (exponent - digits + 1)
    return round(value / unit) * unit  # Python rounds fractions half to even


# --- statements -------------------------------------------------------------------------------------------


def _statement(s: Stmt, axes: Mapping[str, int], run: Run) -> None:
    match s:
        case Loop(own, body, ordered, guard, _):
            points = list(product(*(range(_index(a.extent, axes, run)) for a in own)))
            if run.shuffle is not None and not ordered:
                run.shuffle.shuffle(points)
            for point in points:
                inner = {**axes, **dict(zip((a.name for a in own), point, strict=True))}
                if guard is None or _value(guard, inner, run):
                    for child in body:
                        _statement(child, inner, run)
        case Assign(target, op, value, guard, _):
            if guard is not None and not _value(guard, axes, run):
                return
            operand = run.routine.operand(target.buffer)
            element = tuple(_index(i, axes, run) for i in target.index)
            buffer = run.buffers[target.buffer]
            term = _value(value, axes, run)
            if op is None:
                buffer[element] = term
            elif operand.accumulate is None:
                buffer[element] = fit(_combine(op, [buffer[element], term]), operand.dtype)
            else:
                sums = run.sums.setdefault(target.buffer, {})
                sums[element] = _combine(op, [sums.get(element, buffer[element]), term])


def _index(index: Index, axes: Mapping[str, int], run: Run) -> int:
    total = 0
    for monomial, coefficient in index.terms:
        total += coefficient * prod(_atom(atom, axes, run) for atom in monomial)
    return total


def _atom(atom: Atom, axes: Mapping[str, int], run: Run) -> int:
    match atom:
        case str():
            return axes[atom]
        case FloorDiv(value, divisor):
            return _index(value, axes, run) // _index(divisor, axes, run)
        case Mod(value, divisor):
            return _index(value, axes, run) % _index(divisor, axes, run)
        case MinMax(op, left, right):
            return (min if op == "min" else max)(_index(left, axes, run), _index(right, axes, run))
        case Element():
            return int(run.buffers[atom.buffer][_index(atom.at, axes, run),])


# --- expressions ------------------------------------------------------------------------------------------


def _value(e: Expr, axes: Mapping[str, int], run: Run) -> Number:
    match e:
        case Const(value, dtype, _):
            return fit(Fraction(value), dtype)
        case IndexValue(index, _, _):
            return _index(index, axes, run)
        case Scalar():
            raise AssertionError("generated kernels have no scalars")
        case Read(buffer, index, dtype, fill, _):
            element = tuple(_index(i, axes, run) for i in index)
            if element in run.buffers[buffer]:
                return run.buffers[buffer][element]
            assert fill is not None, f"{buffer}{element} does not exist"
            return fit(Fraction(fill.value), dtype)
        case Cast(value, dtype, mode, _):
            found = _value(value, axes, run)
            if dtype.is_integer and mode == "sat":
                return max(dtype.low, min(dtype.high, int(found)))
            return fit(found, dtype)
        case Call(op, args, dtype, _, _):
            found = _combine(op, [_value(a, axes, run) for a in args])
            return fit(found, dtype)


def _combine(op: str, args: list[Number]) -> Number:
    return OPERATIONS[op](*args)


def _fma(a: Number, b: Number, c: Number) -> Number:
    return a * b + c


def _select(condition: Number, a: Number, b: Number) -> Number:
    return a if condition else b


OPERATIONS: dict[str, Callable[..., Any]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "fma": _fma,
    "neg": operator.neg,
    "abs": abs,
    "min": min,
    "max": max,
    "and": int.__and__,
    "or": int.__or__,
    "xor": int.__xor__,
    "not": operator.invert,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
    "eq": operator.eq,
    "ne": operator.ne,
    "select": _select,
}


def differences(found: NDArray[Any], expected: Buffer, dtype: DType) -> Iterator[str]:
    """Elements in which an array is not what it should be."""
    for element, value in to_buffer(found, dtype).items():
        if value != expected[element]:
            yield f"{element}: {value} instead of {expected[element]}"
