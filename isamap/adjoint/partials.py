"""Derivatives of one expression: what each element that it reads adds to a result, in reverse mode.

For `tanh(a[i]) * b[i]` with the adjoint `d`, the adjoint of a is `d * b[i] * (1 - tanh(a[i])²)` and that of b
is `d * tanh(a[i])`. If the value is stored unchanged (`h[i] = tanh(u[i])`), the stored value is read instead
of computed again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache

from isamap.ir import BOOL, F32, F64, OPS, Call, Cast, Const, DType, Expr, Read, Scalar
from isamap.ir.walk import walk
from isamap.source import Source as Text
from isamap.source import UsageProblem, dataclass, replace
from isamap.syntax import parse_expression

# --- arithmetic -----------------------------------------------------------------------------------------

# Build simplified expressions of derivatives, without products with 1 and sums with 0.


def adjoint_type(dtype: DType) -> DType:
    """Return the type in which derivatives by values of a type are computed: a float type of at least 32 bits."""
    return F32 if dtype.is_float and dtype.bits < F32.bits else dtype


def number(value: float, like: Expr) -> Const:
    """Return a number of the type of another expression."""
    return Const(value, like.dtype)


def is_fixed(e: Expr) -> bool:
    """Return whether an expression depends on nothing but constants and sizes."""
    return not any(isinstance(part, (Read, Scalar)) for part in walk(e))


def _is(e: Expr, value: float) -> bool:
    return isinstance(e, Const) and not isinstance(e.value, bool) and e.value == value


def add(a: Expr, b: Expr) -> Expr:
    """Return the sum."""
    if _is(a, 0) or _is(b, 0):
        return b if _is(a, 0) else a
    if isinstance(b, Call) and b.op == "neg":
        return sub(a, b.args[0])
    return Call("add", (a, b), a.dtype)


def sub(a: Expr, b: Expr) -> Expr:
    """Return the difference."""
    return a if _is(b, 0) else Call("sub", (a, b), a.dtype)


def mul(a: Expr, b: Expr) -> Expr:
    """Return the product, with any sign moved to the front."""
    for x, y in ((a, b), (b, a)):
        if _is(x, 1):
            return y
        if _is(x, 0):
            return x
        if isinstance(x, Call) and x.op == "neg":
            return neg(mul(x.args[0], y) if x is a else mul(y, x.args[0]))
    return Call("mul", (a, b), a.dtype)


def div(a: Expr, b: Expr) -> Expr:
    """Return the quotient."""
    return a if _is(b, 1) or _is(a, 0) else Call("div", (a, b), a.dtype)


def neg(a: Expr) -> Expr:
    """Return the negated value."""
    if isinstance(a, Call) and a.op == "neg":
        return a.args[0]
    return a if _is(a, 0) else Call("neg", (a,), a.dtype)


def choose(condition: Expr, a: Expr, b: Expr) -> Expr:
    """Return `a` where the condition holds, else `b`."""
    return a if a == b else Call("select", (condition, a, b), a.dtype)


def cast(e: Expr, dtype: DType) -> Expr:
    """Return the value converted to another float type."""
    if e.dtype == dtype:
        return e
    return Const(e.value, dtype) if isinstance(e, Const) else Cast(e, dtype)


def wide(e: Expr) -> Expr:
    """Return a float converted to the type in which derivatives are computed. Other values are unchanged."""
    return cast(e, adjoint_type(e.dtype)) if e.dtype.is_float else e


Source = Read | Scalar
"""The variable of a derivative: an element, or a number that is known when the kernel runs."""


def partials(
    value: Expr, adjoint: Expr, is_active: Callable[[str], bool], stored: Read | None = None
) -> dict[Source, Expr]:
    """Return the adjoint of each active element that `value` reads, from the adjoint of `value`.

    `adjoint` has the adjoint type of the value. `stored` is where the value itself can be read. Raises:
    UsageProblem if an operation has no derivative.
    """
    found: dict[Source, Expr] = {}
    _visit(_Taking(is_active, found), value, adjoint, stored)
    return found


@dataclass(frozen=True, slots=True)
class _Taking:
    is_active: Callable[[str], bool]
    found: dict[Source, Expr]


def _visit(taking: _Taking, e: Expr, adjoint: Expr, stored: Read | None = None) -> None:
    match e:
        case Read(name) | Scalar(name):
            if e.dtype.is_float and taking.is_active(name):
                key = replace(e, span=None)
                known = taking.found.get(key)
                taking.found[key] = adjoint if known is None else add(known, adjoint)
        case Cast(value, dtype):
            if value.dtype.is_float and dtype.is_float and depends(value, taking.is_active):
                _visit(taking, value, cast(adjoint, adjoint_type(value.dtype)))
        case Call(op, args):
            if not e.dtype.is_float or not depends(e, taking.is_active):
                return
            if not OPS[op].derivative:
                advice = "leave its inputs out of --by, or write the value with other operations"
                raise UsageProblem.of("no-gradient", f"`{op}` has no derivative", e.span, help=advice)
            result = wide(stored if stored is not None and stored.dtype == e.dtype else e)
            known = dict(zip("ab", (wide(a) for a in args), strict=False))
            known |= {"c": known["a"], "y": result, "w": adjoint}
            for arg, text in zip(args, OPS[op].derivative, strict=True):
                if text and depends(arg, taking.is_active):
                    _visit(taking, arg, _put_in(_parse(text), known))
        case _:
            pass


def depends(e: Expr, is_active: Callable[[str], bool]) -> bool:
    """Return whether an expression reads an active element as a float operand."""
    for part in walk(e):
        match part:
            case Read(name) | Scalar(name) if part.dtype.is_float and is_active(name):
                return True
            case _:
                pass
    return False


@cache
def _parse(derivative: str) -> Expr:
    """Return the expression that the text of a derivative in the table of operations denotes."""
    return parse_expression(Text("derivative", derivative), {**dict.fromkeys("abyw", F64), "c": BOOL})


_BUILT = {"add": add, "sub": sub, "mul": mul, "div": div, "neg": neg, "select": choose}


def _put_in(e: Expr, known: Mapping[str, Expr]) -> Expr:
    """Return the text of a derivative with operands, result and adjoint substituted."""
    match e:
        case Scalar(name):
            return known[name]
        case Const(value):
            return number(float(value), known["w"])
        case Call("select", (Call("eq", pair), _, other)) if any(is_fixed(_put_in(a, known)) for a in pair):
            return _put_in(other, known)  # a value ties with another value, not with a number of the text
        case Call(op, args):
            given = [_put_in(a, known) for a in args]
            if op in _BUILT:
                return _BUILT[op](*given)
            return Call(op, tuple(given), BOOL if e.dtype == BOOL else known["w"].dtype)
        case _:
            raise AssertionError(e)
