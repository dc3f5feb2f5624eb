"""The operations of expressions: one row each, read by the type checker, the interpreter, the matcher and C.

A row says how many operands an operation takes, which algebra it obeys, what its result's type is and how
numpy computes it. `spelling` is the infix symbol, or None for `name(a, b)`.
"""

from __future__ import annotations

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


def _sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def _erf(x: Any) -> Any:
    from math import erf

    return np.vectorize(erf, otypes=[np.float64])(x)


def _divide(a: Any, b: Any) -> Any:
    """C's division: floats divide, integers truncate towards zero."""
    if np.issubdtype(np.result_type(a, b), np.floating):
        return a / b
    quotient = np.abs(a) // np.where(b == 0, 1, np.abs(b))
    return np.where((a < 0) != (b < 0), -quotient, quotient)


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
            return np.copysign(np.floor(np.abs(x) + 0.5), x)
        case _:
            raise AssertionError(mode)


def _rounding_shift(x: Any, n: Any, mode: str) -> Any:
    """x / 2**n of integers, rounded by `mode`: the scaling of requantisation."""
    half = np.where(n > 0, np.left_shift(1, np.maximum(n - 1, 0)), 0)
    floor = np.right_shift(x, n)
    rest = x - np.left_shift(floor, n)
    match mode:
        case "down":
            return floor
        case "up":
            return floor + (rest > 0)
        case "zero":
            return floor + ((rest > 0) & (x < 0))
        case "away":
            return floor + np.where(x >= 0, rest >= half, rest > half) * (n > 0)
        case "even":
            return floor + ((rest > half) | ((rest == half) & (floor % 2 == 1))) * (n > 0)
        case _:
            raise AssertionError(mode)


ROUNDING = ("even", "away", "zero", "up", "down")

OPS: dict[str, Op] = {
    op.name: op
    for op in (
        Op("add", 2, "number", lambda a, b: a + b, spelling="+", precedence=60, commutative=True, associative=True, identity=0),
        Op("sub", 2, "number", lambda a, b: a - b, spelling="-", precedence=60),
        Op("mul", 2, "number", lambda a, b: a * b, spelling="*", precedence=70, commutative=True, associative=True, identity=1),
        Op("div", 2, "number", _divide, spelling="/", precedence=70),
        Op("rem", 2, "integer", lambda a, b: np.fmod(a, b), spelling="%", precedence=70),
        Op("neg", 1, "number", lambda a: -a, spelling="-", precedence=80),
        Op("and", 2, "logical", lambda a, b: a & b, spelling="&", precedence=45, commutative=True, associative=True, identity="all_ones"),
        Op("xor", 2, "logical", lambda a, b: a ^ b, spelling="^", precedence=43, commutative=True, associative=True, identity=0),
        Op("or", 2, "logical", lambda a, b: a | b, spelling="|", precedence=41, commutative=True, associative=True, identity=0),
        Op("not", 1, "logical", lambda a: ~a, spelling="~", precedence=80),
        Op("shl", 2, "integer", lambda a, b: np.left_shift(a, b), spelling="<<", precedence=55),
        Op("shr", 2, "integer", lambda a, b: np.right_shift(a, b), spelling=">>", precedence=55),
        Op("lt", 2, "number", lambda a, b: a < b, result="bool", spelling="<", precedence=50),
        Op("le", 2, "number", lambda a, b: a <= b, result="bool", spelling="<=", precedence=50),
        Op("gt", 2, "number", lambda a, b: a > b, result="bool", spelling=">", precedence=50),
        Op("ge", 2, "number", lambda a, b: a >= b, result="bool", spelling=">=", precedence=50),
        Op("eq", 2, "any", lambda a, b: a == b, result="bool", spelling="==", precedence=47, commutative=True),
        Op("ne", 2, "any", lambda a, b: a != b, result="bool", spelling="!=", precedence=47, commutative=True),
        Op("min", 2, "number", lambda a, b: np.minimum(a, b), commutative=True, associative=True, identity="highest"),
        Op("max", 2, "number", lambda a, b: np.maximum(a, b), commutative=True, associative=True, identity="lowest"),
        Op("abs", 1, "number", lambda a: np.abs(a)),
        Op("sqrt", 1, "float", lambda a: np.sqrt(a)),
        Op("exp", 1, "float", lambda a: np.exp(a), ulp=2),
        Op("log", 1, "float", lambda a: np.log(a), ulp=2),
        Op("tanh", 1, "float", lambda a: np.tanh(a), ulp=4),
        Op("sigmoid", 1, "float", _sigmoid, ulp=4),
        Op("erf", 1, "float", _erf, ulp=4),
        Op("sin", 1, "float", lambda a: np.sin(a), ulp=2),
        Op("cos", 1, "float", lambda a: np.cos(a), ulp=2),
        Op("fma", 3, "float", lambda a, b, c: a * b + c),
        Op("select", 3, "any", lambda p, a, b: np.where(p, a, b)),
        Op("round", 1, "float", _round, modes=ROUNDING),
        Op("rounding_shift", 2, "integer", _rounding_shift, modes=ROUNDING),
    )
}

REDUCTIONS: dict[str, str] = {"+": "add", "*": "mul", "max": "max", "min": "min", "&": "and", "|": "or", "^": "xor"}
"""What may stand before `=` in a statement, and the operation that it means."""

SPELLED: dict[tuple[str, int], str] = {
    (op.spelling, op.arity): op.name for op in OPS.values() if op.spelling is not None
}
