"""The operations of expressions: one row each, read by the type checker, the interpreter, the matcher and C.

A row says how many operands an operation takes, which algebra it obeys, what its result's type is and how
numpy computes it. `spelling` is the infix symbol, or None for `name(a, b)`.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

Result = Literal["same", "bool", "bitwise"]
Domain = Literal["number", "float", "integer", "logical", "any"]


@dataclass(frozen=True, slots=True)
class Op:
    """One operation.

    `domain` is the operand types it takes, `result` the result type: that of the operands, or bool.
    `identity` of an associative operation is the value that padded iterations contribute; a callable of a
    dtype's lowest and highest value where it depends on the type. `ulp` is the declared accuracy in units in
    the last place of the C implementation, 0 for exactly rounded operations.
    """

    name: str
    arity: int
    domain: Domain
    compute: Callable[..., Any]
    result: Result = "same"
    spelling: str | None = None
    precedence: int = 100
    commutative: bool = False
    associative: bool = False
    identity: float | Literal["lowest", "highest", "all_ones"] | None = None
    ulp: float = 0.0
    modes: tuple[str, ...] = ()


# Their stubs lose the types of what they are given.
_where: Any = np.where
_shift_right: Any = np.right_shift


def _sigmoid(x: Any) -> Any:
    result: Any = 1 / (1 + np.exp(-x))
    return result


def _erf(x: Any) -> Any:
    from math import erf

    return np.vectorize(erf, otypes=[np.float64])(x)


def _fma(a: Any, b: Any, c: Any) -> Any:
    return a * b + c


def _scale(x: Any, n: Any) -> Any:
    return np.ldexp(x, np.asarray(n).astype(np.int64))


def _exponent(x: Any) -> Any:
    return np.frexp(x)[1] - 1.0


def _divide(a: Any, b: Any) -> Any:
    """C's division: floats divide, integers truncate towards zero."""
    if np.issubdtype(np.result_type(a, b), np.floating):
        return a / b
    divisor: Any = b + (b == 0)  # what a division by zero gives is not defined, but it gives something
    floor: Any = a // divisor
    return floor + ((a - floor * divisor != 0) & ((a < 0) != (divisor < 0)))


def _round(x: Any, mode: str) -> Any:
    match mode:
        case "even":
            return np.rint(x)
        case "down":
            return np.floor(x)
        case "up":
            return np.ceil(x)
        case "zero":
            return np.trunc(x)
        case "away":
            whole = np.trunc(x)
            return whole + np.copysign(np.abs(x - whole) >= 0.5, x)
        case _:
            raise AssertionError(mode)


def _rounding_shift(x: Any, n: Any, mode: str) -> Any:
    """x / 2**n of integers, rounded by `mode`: the scaling of requantisation. An n below 0 counts as 0."""
    # Shifts by 63 and more do not exist: what lies below is folded into the last bit, which no rounding mode
    # tells from the bits themselves.
    n = np.clip(n, 0, 125)
    far = np.where(n > 62, n, 62) - 62  # n may be unsigned
    whole = _shift_right(x, far)
    x, n = whole | (np.left_shift(whole, far) != x), n - far
    half = np.where(n > 0, np.left_shift(1, np.maximum(n - 1, 0)), 0)
    floor: Any = _shift_right(x, n)
    rest = x - np.left_shift(floor, n)
    match mode:
        case "down":
            return floor
        case "up":
            return floor + (rest > 0)
        case "zero":
            return floor + ((rest > 0) & (x < 0))
        case "away":
            upward: Any = _where(x >= 0, rest >= half, rest > half)
            return floor + upward * (n > 0)
        case "even":
            return floor + ((rest > half) | ((rest == half) & (floor % 2 == 1))) * (n > 0)
        case _:
            raise AssertionError(mode)


def _popcount(x: Any) -> Any:
    """Return how many bits of a pattern without a sign are 1."""
    return np.bitwise_count(x).astype(np.int64)


ROUNDING = ("even", "away", "zero", "up", "down")

# One row each, to be read as a table.
# fmt: off
OPS: dict[str, Op] = {
    op.name: op
    for op in (
        Op("add", 2, "number", operator.add,
           spelling="+", precedence=60, commutative=True, associative=True, identity=0),
        Op("sub", 2, "number", operator.sub, spelling="-", precedence=60),
        Op("mul", 2, "number", operator.mul,
           spelling="*", precedence=70, commutative=True, associative=True, identity=1),
        Op("div", 2, "number", _divide, spelling="/", precedence=70),
        Op("rem", 2, "integer", np.fmod, spelling="%", precedence=70),
        Op("neg", 1, "number", operator.neg, spelling="-", precedence=80),
        Op("and", 2, "logical", np.bitwise_and,
           spelling="&", precedence=45, commutative=True, associative=True, identity="all_ones"),
        Op("xor", 2, "logical", np.bitwise_xor,
           spelling="^", precedence=43, commutative=True, associative=True, identity=0),
        Op("or", 2, "logical", np.bitwise_or,
           spelling="|", precedence=41, commutative=True, associative=True, identity=0),
        Op("not", 1, "logical", operator.invert, spelling="~", precedence=80),
        Op("shl", 2, "integer", np.left_shift, spelling="<<", precedence=55),
        Op("shr", 2, "integer", np.right_shift, spelling=">>", precedence=55),
        Op("lt", 2, "number", operator.lt, result="bool", spelling="<", precedence=50),
        Op("le", 2, "number", operator.le, result="bool", spelling="<=", precedence=50),
        Op("gt", 2, "number", operator.gt, result="bool", spelling=">", precedence=50),
        Op("ge", 2, "number", operator.ge, result="bool", spelling=">=", precedence=50),
        Op("eq", 2, "any", operator.eq, result="bool",
           spelling="==", precedence=47, commutative=True),
        Op("ne", 2, "any", operator.ne, result="bool",
           spelling="!=", precedence=47, commutative=True),
        Op("min", 2, "number", np.minimum,
           commutative=True, associative=True, identity="highest"),
        Op("max", 2, "number", np.maximum,
           commutative=True, associative=True, identity="lowest"),
        Op("abs", 1, "number", np.abs),
        Op("sqrt", 1, "float", np.sqrt),
        Op("exp", 1, "float", np.exp, ulp=2),
        Op("log", 1, "float", np.log, ulp=2),
        Op("expm1", 1, "float", np.expm1, ulp=2),
        Op("log1p", 1, "float", np.log1p, ulp=2),
        Op("tanh", 1, "float", np.tanh, ulp=4),
        Op("sigmoid", 1, "float", _sigmoid, ulp=4),
        Op("erf", 1, "float", _erf, ulp=4),
        Op("sin", 1, "float", np.sin, ulp=2),
        Op("cos", 1, "float", np.cos, ulp=2),
        Op("fma", 3, "float", _fma),
        Op("select", 3, "any", np.where),
        Op("round", 1, "float", _round, modes=ROUNDING),
        Op("popcount", 1, "integer", _popcount),
        Op("rounding_shift", 2, "integer", _rounding_shift, modes=ROUNDING),
    )
}
# fmt: on

DEFINING: dict[str, Op] = {
    op.name: op
    for op in (
        Op("scale", 2, "float", _scale),
        Op("exponent", 1, "float", _exponent),
    )
}
"""Operations of definitions only: x * 2**n for a whole |n| <= 250, and the n of 2**n <= |x| < 2**(n + 1)."""

REDUCTIONS: dict[str, str] = {
    "+": "add", "*": "mul", "max": "max", "min": "min", "&": "and", "|": "or", "^": "xor",
}  # fmt: skip
"""The operators that may precede `=` in a statement, with the reduction that each denotes."""
