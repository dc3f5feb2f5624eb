"""The operations of expressions: one table row each, with all facts that other modules need.

    Op("tanh", 1, "float", np.tanh, ulp=4, image=(-1, 1), derivative=("w * (1 - y*y)",), onnx=("Tanh",), …)

The type checker, the interpreter, error bounds, gradients, costs, C, and the importers of ONNX and torch read
the rows. A function that is added here needs a definition in `kernels/functions`, and instructions.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from math import inf, nan, pi
from typing import Any, Literal

import numpy as np

from isamap.source.records import dataclass

Result = Literal["same", "bool"]
Domain = Literal["number", "float", "integer", "logical", "any"]


Bounds = tuple[Any, ...]
"""Two numbers between which a value lies, both included; or one end of several values."""


@dataclass(frozen=True, slots=True)
class Op:
    """One operation.

    `domain` is the operand types it takes, `result` the result type: that of the operands, or bool.
    `spelling` is the infix symbol, or None for `name(a, b)`. `identity` of an associative operation is the
    value that padded iterations contribute. `ulp` is the declared accuracy in units in the last place of the
    C implementation, 0 for exactly rounded operations.

    `derivative` has a text of the language for each operand: the adjoint that it gets from the operands `a`
    and `b`, the condition `c`, the result `y` and the adjoint `w` of the result. An empty text is no adjoint.
    An operation without texts has no derivative. `slope` is the largest |derivative| near `x`, within the
    error `e`; with several operands it takes and returns one for each. `takes` and `image` bound the domain
    and the results of a function of floats. `interval` bounds the result, given the lowest and the highest
    values of all operands; for a monotone function the bounds follow.

    `is_exact` says that the operation does not round. `is_slow` says that it takes many times as long as an
    addition. `is_arithmetic` says that it counts in the peak of a processor. `saturates` says that an
    infinity has the same result as all numbers beyond the largest. `reach` is the absolute value up to which
    tests cover all cases of the operation: inf for the whole exponent range.

    `c` is the function of C's library, or an expression of `x` if it has none. `onnx` and `aten` are the
    names of operators, one for each mode where the operation has modes.
    """

    name: str
    arity: int
    domain: Domain
    compute: Callable[..., Any]
    result: Result = "same"
    spelling: str | None = None
    precedence: int = 100
    commutative: bool = False
    identity: float | Literal["lowest", "highest", "all_ones"] | None = None
    ulp: float = 0.0
    modes: tuple[str, ...] = ()
    derivative: tuple[str, ...] = ()
    slope: Callable[[Any, Any], Any] | None = None
    interval: Callable[[Bounds, Bounds], Bounds | None] | None = None
    takes: tuple[float, float] = (-inf, inf)
    image: tuple[float, float] = (-inf, inf)
    monotone: Literal["rising", "falling"] | None = None
    is_exact: bool = False
    is_slow: bool = False
    is_arithmetic: bool = True
    saturates: bool = False
    reach: float = 0.0
    c: str = ""
    onnx: tuple[str, ...] = ()
    aten: tuple[str, ...] = ()

    def text(self, mode: str = "") -> str:
        """Return the operation as text of its operands `{0}`, `{1}`, …."""
        if self.spelling is not None:
            return f"({self.spelling}{{0}})" if self.arity == 1 else f"({{0}} {self.spelling} {{1}})"
        args = [f"{{{n}}}" for n in range(self.arity)]
        return f"{self.name}({', '.join([*args, mode] if mode else args)})"

    def texts(self, names: tuple[str, ...]) -> dict[str, str]:
        """Return the operation's text for each operator in `onnx` or `aten`, by the operator's name."""
        return {name: self.text(mode) for name, mode in zip(names, self.modes or ("",), strict=False) if name}


# Their stubs lose the types of what they are given.
_where: Any = np.where
_shift_right: Any = np.right_shift


def _sigmoid(x: Any) -> Any:
    result: Any = 1 / (1 + np.exp(-x))
    return result


def _erf(x: Any) -> Any:
    from math import erf

    return np.vectorize(erf, otypes=[np.float64])(x)


def _softplus(x: Any) -> Any:
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


def _fma(a: Any, b: Any, c: Any) -> Any:
    return a * b + c


def _scale(x: Any, n: Any) -> Any:
    return np.ldexp(x, np.asarray(n).astype(np.int64))


def _exponent(x: Any) -> Any:
    return np.frexp(x)[1] - 1.0


def _divide(a: Any, b: Any) -> Any:
    """Return C's division: floats divide, integers truncate towards zero."""
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
    """Return x / 2**n of integers, rounded by `mode`: the scaling of requantisation. An n below 0 counts as 0."""
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
    """Return the number of one bits of an unsigned integer."""
    return np.bitwise_count(x).astype(np.int64)


def _product_bounds(low: Bounds, high: Bounds) -> Bounds:
    """Return the bounds of a product. They are NaN if 0 may be multiplied by infinity."""
    corners = [x * y for x in (low[0], high[0]) for y in (low[1], high[1])]
    return (nan, nan) if any(x != x for x in corners) else (min(corners), max(corners))


def _abs_bounds(low: Bounds, high: Bounds) -> Bounds:
    sizes = abs(low[0]), abs(high[0])
    return 0 if low[0] <= 0 <= high[0] else min(sizes), max(sizes)


def _and_bounds(low: Bounds, high: Bounds) -> Bounds | None:
    highs = [h for least, h in zip(low, high, strict=True) if least >= 0]
    return (0, min(highs)) if highs else None


def _shift_bounds(low: Bounds, high: Bounds) -> Bounds | None:
    if not 0 <= low[1] <= high[1] < 64:
        return None
    by = low[1], high[1]
    return min(low[0] >> n for n in by), max(high[0] >> n for n in by)


def _least_size(x: Any, e: Any) -> Any:
    """Return the smallest absolute value within the error of x, where most functions are steepest."""
    return np.maximum(np.abs(x) - e, 0.0)


def _slope_of_tangent(x: Any, e: Any) -> Any:
    """Return the derivative of tan, or infinity if a pole lies within the error of x."""
    return 1 / np.maximum(np.abs(np.cos(x)) - e, 0.0) ** 2


def _slopes_of_arc(given: Any, errors: Any) -> Any:
    """Return the partial derivatives of atan2, infinite where y may change its sign and x is negative."""
    (y, x), (ey, ex) = given, errors
    size = _least_size(y, ey) ** 2 + _least_size(x, ex) ** 2
    cut = (np.abs(y) <= ey) & (x - ex <= 0)
    return np.where(cut, np.inf, np.abs(x) / size), np.where(cut & (ey > 0), np.inf, np.abs(y) / size)


ROUNDING = ("even", "away", "zero", "up", "down")

# One row each, to be read as a table.
# fmt: off
_ROWS = (
    Op("add", 2, "number", operator.add,
       spelling="+", precedence=60, commutative=True, identity=0,
       derivative=("w", "w"), interval=lambda low, high: (sum(low), sum(high)),
       onnx=("Add",), aten=("add",)),
    Op("sub", 2, "number", operator.sub, spelling="-", precedence=60,
       derivative=("w", "-w"), interval=lambda low, high: (low[0] - high[1], high[0] - low[1]),
       onnx=("Sub",), aten=("sub",)),
    Op("mul", 2, "number", operator.mul,
       spelling="*", precedence=70, commutative=True, identity=1,
       derivative=("w * b", "w * a"), interval=_product_bounds, onnx=("Mul",), aten=("mul",)),
    Op("div", 2, "number", _divide, spelling="/", precedence=70, is_slow=True,
       derivative=("w / b", "-(w / b * y)"), onnx=("Div",), aten=("div",)),
    Op("rem", 2, "integer", np.fmod, spelling="%", precedence=70, is_slow=True),
    Op("neg", 1, "number", operator.neg, spelling="-", precedence=80, is_exact=True, saturates=True,
       derivative=("-w",), interval=lambda low, high: (-high[0], -low[0]), onnx=("Neg",), aten=("neg",)),
    Op("and", 2, "logical", np.bitwise_and, is_arithmetic=False,
       spelling="&", precedence=45, commutative=True, identity="all_ones",
       interval=_and_bounds, onnx=("And",), aten=("bitwise_and",)),
    Op("xor", 2, "logical", np.bitwise_xor, is_arithmetic=False,
       spelling="^", precedence=43, commutative=True, identity=0,
       onnx=("Xor",), aten=("bitwise_xor",)),
    Op("or", 2, "logical", np.bitwise_or, is_arithmetic=False,
       spelling="|", precedence=41, commutative=True, identity=0,
       onnx=("Or",), aten=("bitwise_or",)),
    Op("not", 1, "logical", operator.invert, spelling="~", precedence=80, is_arithmetic=False,
       onnx=("Not",), aten=("bitwise_not",)),
    Op("shl", 2, "integer", np.left_shift, spelling="<<", precedence=55, is_arithmetic=False),
    Op("shr", 2, "integer", np.right_shift, spelling=">>", precedence=55, is_arithmetic=False,
       interval=_shift_bounds),
    Op("lt", 2, "number", operator.lt, result="bool", spelling="<", precedence=50, is_arithmetic=False,
       onnx=("Less",), aten=("lt",)),
    Op("le", 2, "number", operator.le, result="bool", spelling="<=", precedence=50, is_arithmetic=False,
       onnx=("LessOrEqual",), aten=("le",)),
    Op("gt", 2, "number", operator.gt, result="bool", spelling=">", precedence=50, is_arithmetic=False,
       onnx=("Greater",), aten=("gt",)),
    Op("ge", 2, "number", operator.ge, result="bool", spelling=">=", precedence=50, is_arithmetic=False,
       onnx=("GreaterOrEqual",), aten=("ge",)),
    Op("eq", 2, "any", operator.eq, result="bool", is_arithmetic=False,
       spelling="==", precedence=47, commutative=True, onnx=("Equal",), aten=("eq",)),
    Op("ne", 2, "any", operator.ne, result="bool", is_arithmetic=False,
       spelling="!=", precedence=47, commutative=True, aten=("ne",)),
    # Of two equal values each gets half, and nothing where the other is a number of the text.
    Op("min", 2, "number", np.minimum, is_exact=True, saturates=True,
       commutative=True, identity="highest",
       derivative=("select(a < b, w, select(a == b, 0.5*w, 0))",
                   "select(b < a, w, select(b == a, 0.5*w, 0))"),
       interval=lambda low, high: (min(low), min(high)), onnx=("Min",), aten=("minimum",)),
    Op("max", 2, "number", np.maximum, is_exact=True, saturates=True,
       commutative=True, identity="lowest",
       derivative=("select(a > b, w, select(a == b, 0.5*w, 0))",
                   "select(b > a, w, select(b == a, 0.5*w, 0))"),
       interval=lambda low, high: (max(low), max(high)), onnx=("Max",), aten=("maximum",)),
    Op("abs", 1, "number", np.abs, is_exact=True, saturates=True, image=(0, inf),
       derivative=("select(a > 0, w, select(a < 0, -w, 0))",),
       interval=_abs_bounds, c="fabs", onnx=("Abs",), aten=("abs",)),
    Op("sqrt", 1, "float", np.sqrt, is_slow=True, takes=(0, inf), image=(0, inf), monotone="rising",
       derivative=("0.5*w / y",), slope=lambda x, e: 0.5 / np.sqrt(x),
       c="sqrt", onnx=("Sqrt",), aten=("sqrt",)),
    Op("exp", 1, "float", np.exp, ulp=2, saturates=True, image=(0, inf), monotone="rising", reach=inf,
       derivative=("w * y",), slope=lambda x, e: np.exp(x), c="exp", onnx=("Exp",), aten=("exp",)),
    Op("log", 1, "float", np.log, ulp=2, takes=(0, inf), monotone="rising",
       derivative=("w / a",), slope=lambda x, e: 1 / np.abs(x), c="log", onnx=("Log",), aten=("log",)),
    Op("expm1", 1, "float", np.expm1, ulp=2, saturates=True, image=(-1, inf), monotone="rising", reach=inf,
       derivative=("w * (y + 1)",), slope=lambda x, e: np.exp(x), c="expm1", aten=("expm1",)),
    Op("log1p", 1, "float", np.log1p, ulp=2, takes=(-1, inf), monotone="rising",
       derivative=("w / (1 + a)",), slope=lambda x, e: 1 / np.abs(1 + x), c="log1p", aten=("log1p",)),
    Op("tanh", 1, "float", np.tanh, ulp=4, saturates=True, image=(-1, 1), monotone="rising", reach=inf,
       derivative=("w * (1 - y*y)",), slope=lambda x, e: 1 - np.tanh(_least_size(x, e)) ** 2,
       c="tanh", onnx=("Tanh",), aten=("tanh",)),
    Op("sigmoid", 1, "float", _sigmoid, ulp=4, saturates=True, image=(0, 1), monotone="rising", reach=inf,
       derivative=("w * (y * (1 - y))",),
       slope=lambda x, e: 1 / (2 + 2 * np.cosh(np.minimum(_least_size(x, e), 700.0))),
       c="1.0 / (1.0 + exp(-x))", onnx=("Sigmoid",), aten=("sigmoid",)),
    Op("erf", 1, "float", _erf, ulp=4, saturates=True, image=(-1, 1), monotone="rising", reach=8,
       derivative=("1.1283791670955126*w * exp(-(a*a))",),
       slope=lambda x, e: 2 / np.sqrt(pi) * np.exp(-(_least_size(x, e) ** 2)),
       c="erf", onnx=("Erf",), aten=("erf",)),
    Op("sin", 1, "float", np.sin, ulp=2, image=(-1, 1), reach=1000,
       derivative=("w * cos(a)",), slope=lambda x, e: np.ones(()), c="sin", onnx=("Sin",), aten=("sin",)),
    Op("cos", 1, "float", np.cos, ulp=2, image=(-1, 1), reach=1000,
       derivative=("-(w * sin(a))",), slope=lambda x, e: np.ones(()), c="cos", onnx=("Cos",), aten=("cos",)),
    Op("tan", 1, "float", np.tan, ulp=4, reach=1000, derivative=("w * (1 + y*y)",), slope=_slope_of_tangent,
       c="tan", onnx=("Tan",), aten=("tan",)),
    Op("sinh", 1, "float", np.sinh, ulp=4, saturates=True, monotone="rising", reach=inf,
       derivative=("w * cosh(a)",), slope=lambda x, e: np.cosh(np.abs(x) + e),
       c="sinh", onnx=("Sinh",), aten=("sinh",)),
    Op("cosh", 1, "float", np.cosh, ulp=4, saturates=True, image=(1, inf), reach=inf,
       derivative=("w * sinh(a)",), slope=lambda x, e: np.sinh(np.abs(x) + e),
       c="cosh", onnx=("Cosh",), aten=("cosh",)),
    Op("asin", 1, "float", np.arcsin, ulp=4, takes=(-1, 1), image=(-pi / 2, pi / 2), monotone="rising", reach=2,
       derivative=("w / sqrt((1 - a) * (1 + a))",),
       slope=lambda x, e: 1 / np.sqrt(np.maximum(1 - (np.abs(x) + e) ** 2, 0)),
       c="asin", onnx=("Asin",), aten=("asin",)),
    Op("acos", 1, "float", np.arccos, ulp=4, takes=(-1, 1), image=(0, pi), monotone="falling", reach=2,
       derivative=("-(w / sqrt((1 - a) * (1 + a)))",),
       slope=lambda x, e: 1 / np.sqrt(np.maximum(1 - (np.abs(x) + e) ** 2, 0)),
       c="acos", onnx=("Acos",), aten=("acos",)),
    Op("atan", 1, "float", np.arctan, ulp=4, saturates=True, image=(-pi / 2, pi / 2), monotone="rising", reach=8,
       derivative=("w / (1 + a*a)",), slope=lambda x, e: 1 / (1 + _least_size(x, e) ** 2),
       c="atan", onnx=("Atan",), aten=("atan",)),
    Op("atan2", 2, "float", np.arctan2, ulp=4, saturates=True, image=(-pi, pi), reach=8,
       derivative=("w * b / (a*a + b*b)", "-(w * a) / (a*a + b*b)"), slope=_slopes_of_arc,
       c="atan2", aten=("atan2",)),
    Op("softplus", 1, "float", _softplus, ulp=4, saturates=True, image=(0, inf), monotone="rising", reach=inf,
       derivative=("w * sigmoid(a)",), slope=lambda x, e: _sigmoid(x + e),
       c="(x > 0.0 ? x : 0.0) + log1p(exp(-fabs(x)))", onnx=("Softplus",), aten=("softplus",)),
    Op("fma", 3, "float", _fma, derivative=("w * b", "w * a", "w"), c="fma"),
    Op("select", 3, "any", np.where, is_exact=True, is_arithmetic=False, saturates=True,
       derivative=("", "select(c, w, 0)", "select(c, 0, w)"),
       interval=lambda low, high: (min(low[1:]), max(high[1:])), onnx=("Where",), aten=("where",)),
    Op("round", 1, "float", _round, modes=ROUNDING, is_exact=True, is_arithmetic=False, monotone="rising",
       derivative=("",), reach=8,
       onnx=("Round", "", "", "Ceil", "Floor"), aten=("round", "", "trunc", "ceil", "floor")),
    Op("popcount", 1, "integer", _popcount, is_arithmetic=False, interval=lambda low, high: (0, 64)),
    Op("rounding_shift", 2, "integer", _rounding_shift, modes=ROUNDING, is_arithmetic=False),
)
# fmt: on
OPS: dict[str, Op] = {op.name: op for op in _ROWS}

WORDS: dict[str, tuple[str, str]] = {
    word: (op.name, mode)
    for op in _ROWS
    for word, mode in zip(op.aten, op.modes, strict=False)
    if word not in ("", op.name)
}
"""Words for an operation in one of its modes: `floor(x)` is `round(x, down)`."""

DEFINING: dict[str, Op] = {
    op.name: op for op in (Op("scale", 2, "float", _scale), Op("exponent", 1, "float", _exponent))
}
"""Operations of definitions only: x * 2**n for a whole |n| <= 250, and the n of 2**n <= |x| < 2**(n + 1)."""

REDUCTIONS: dict[str, str] = {
    "+": "add", "*": "mul", "max": "max", "min": "min", "&": "and", "|": "or", "^": "xor",
}  # fmt: skip
"""The operators that may precede `=` in a statement, with the reduction that each denotes."""
