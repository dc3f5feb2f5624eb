"""Print value expressions as C with the semantics of their types: wrapping integers, rounded narrow floats.

`c + f32(a)*f32(b)` with bf16 operands is `c + bf16_to_f32(a[i]) * bf16_to_f32(b[i])`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import assert_never

from isamap.emit.c_names import compute_type, is_narrow, literal, storage_type, unsigned_type
from isamap.emit.c_text import PREFIX, CText, Namer, call, cast, choice, index_text, infix, prefix
from isamap.ir import OPS as OPERATIONS
from isamap.ir import Call, Cast, Const, DType, Expr, IndexValue, Read, Scalar
from isamap.kernels import list_functions
from isamap.source.records import dataclass, field

_DEFINED = frozenset(list_functions())
_ROUNDINGS = {"even": "rint", "down": "floor", "up": "ceil", "zero": "trunc", "away": "round"}


@dataclass(frozen=True, slots=True)
class CScope:
    """The meaning of names in an expression. `used` collects the helper functions that it calls.

    `load` returns the stored element that an access reads, as a C expression.
    """

    name: Namer
    load: Callable[[Read], CText]
    used: set[str] = field(default_factory=set[str])

    def helper(self, name: str, *args: CText) -> CText:
        """Return a call of a helper function."""
        self.used.add(name)
        return call(name, *args)

    def math(self, name: str, dtype: DType, *args: CText) -> CText:
        """Return a call of a function of math.h."""
        self.used.add("math.h")
        return call(name if dtype.name == "f64" else f"{name}f", *args)


def value_text(e: Expr, scope: CScope) -> CText:
    """Return the value of an expression, of its compute type, rounded to its dtype."""
    found = _write_unrounded(e, scope)
    rounds = isinstance(e, Call | Cast) and is_narrow(e.dtype) and not _is_exact(e)
    return scope.helper(f"round_{e.dtype.name}", found) if rounds else found


def stored_text(e: Expr, scope: CScope) -> CText:
    """Return the value of an expression as it is stored in an element of its dtype."""
    if isinstance(e, Read):
        return _rounded_element(scope.load(e), e.dtype, scope)
    if is_narrow(e.dtype):
        return scope.helper(*_store_helpers(e.dtype), _write_unrounded(e, scope))
    if e.dtype.kind == "bool" and not isinstance(e, Const):
        return cast("uint8_t", value_text(e, scope))
    return value_text(e, scope)


def stored_value(value: CText, dtype: DType, scope: CScope) -> CText:
    """Return a stored element of a dtype as a value of its compute type."""
    if is_narrow(dtype) and dtype.name != "tf32":
        return scope.helper(f"{dtype.name}_to_f32", value)
    return _rounded_element(value, dtype, scope)


def _rounded_element(value: CText, dtype: DType, scope: CScope) -> CText:
    """Return a stored element in the precision of its type. The 4 bytes of a tf32 may contain any f32."""
    return scope.helper("round_tf32", value) if dtype.name == "tf32" else value


def _store_helpers(dtype: DType) -> tuple[str]:
    return ("round_tf32",) if dtype.name == "tf32" else (f"f32_to_{dtype.name}",)


def _is_exact(e: Call | Cast) -> bool:
    """Return whether an operation on values of a narrow type is exact in that type."""
    if isinstance(e, Cast):
        return e.value.dtype == e.dtype
    return OPERATIONS[e.op].is_exact


def _write_unrounded(e: Expr, scope: CScope) -> CText:
    match e:
        case Const(value, dtype, _):
            text = literal(value, dtype)
            if text.endswith(("INFINITY", "NAN")):
                scope.used.add("math.h")
            return CText(text, PREFIX) if text.startswith("-") else CText(text)
        case IndexValue(index, _, _):
            return index_text(index, scope.name, scope.used, wide=True)
        case Scalar(name, _, _):
            return CText(scope.name(name))
        case Read(_, _, dtype, _, _):
            return stored_value(scope.load(e), dtype, scope)
        case Call():
            return _integer_call(e, scope) if e.args[-1].dtype.is_integer else _other_call(e, scope)
        case Cast():
            return _cast(e, scope)
        case _:
            assert_never(e)


# --- casts ------------------------------------------------------------------------------------------------


def _cast(e: Cast, scope: CScope) -> CText:
    source, target = e.value.dtype, e.dtype
    value = value_text(e.value, scope)
    if source == target:
        return value
    if e.mode == "bits":
        # The bits of a float as an integer of equal width, or the reverse.
        kind = source if source.is_float else target
        name = {"f32": "float", "f64": "double"}.get(kind.name)
        if source.is_float:
            return cast(
                storage_type(target), scope.helper(f"{name}_bits" if name else f"f32_to_{kind}", value)
            )
        pattern = cast(unsigned_type(source), value)
        return scope.helper(f"{name}_from_bits" if name else f"{kind}_to_f32", pattern)
    if target.is_float:
        if is_narrow(target) and (source.name == "f64" or (source.is_integer and source.bits > 16)):
            if source.is_integer and source.bits == 64:
                value = scope.helper(f"{source.name}_to_f64", value)
            elif source.is_integer:
                value = cast("double", value)
            return scope.helper("f64_to_odd_f32", value)
        c_type = compute_type(target)
        return value if compute_type(source) == c_type else cast(c_type, value)
    if source.is_float:
        return _float_to_integer(e, value, scope)
    if e.mode == "sat":
        return _saturate(value, source, target)
    return _wrap(value, target)


def _float_to_integer(e: Cast, value: CText, scope: CScope) -> CText:
    target = e.dtype
    if e.mode == "sat":
        return scope.helper(f"saturate_{target.name}", value)
    if e.mode == "wrap":
        return _wrap(scope.helper("wrap_float", value), target)
    return cast(storage_type(target), value)


def _saturate(value: CText, source: DType, target: DType) -> CText:
    low, high = max(source.low, target.low), min(source.high, target.high)
    found = value
    if high < source.high:
        bound = CText(literal(high, source))
        found = choice(infix(found, ">", bound), bound, found)
    if low > source.low:
        bound = CText(literal(low, source), PREFIX if low < 0 else CText("").precedence)
        found = choice(infix(value, "<", bound), bound, found)
    return cast(storage_type(target), found)


def _wrap(value: CText, target: DType) -> CText:
    """Return an integer reduced to the bits of a type."""
    stored = storage_type(target)
    if target.bits >= 8:
        return cast(stored, value)
    if target.kind == "uint":
        return cast(stored, infix(value, "&", CText(hex(target.high))))
    shift = CText(str(8 - target.bits))
    up = cast("int8_t", infix(cast("uint8_t", value), "<<", shift))
    return cast(stored, infix(up, ">>", shift))


# --- operations -------------------------------------------------------------------------------------------


def _integer_call(e: Call, scope: CScope) -> CText:
    dtype = e.args[-1].dtype
    op = OPERATIONS[e.op]
    match e.op:
        case "add" | "sub" | "mul" | "neg":
            return _wrap(_modular(e, dtype, scope), dtype)
        case "min" | "max":
            a, b = (value_text(x, scope) for x in e.args)
            return choice(infix(a, "<" if e.op == "min" else ">", b), a, b)
        case "not":
            return _wrap(prefix("~", value_text(e.args[0], scope)), dtype)
        case "div" | "rem" | "shl" | "shr" | "abs" | "popcount":
            return _write_checked(e, dtype, scope)
        case "rounding_shift":
            wide = "_wide" if dtype.bits == 64 else ""
            args = (value_text(x, scope) for x in e.args)
            return _wrap(scope.helper(f"rounding_shift_{e.mode}{wide}", *args), dtype)
        case "select":
            condition, a, b = (value_text(x, scope) for x in e.args)
            return choice(condition, a, b)
        case _:
            assert op.spelling is not None, e.op
            a, b = (value_text(x, scope) for x in e.args)
            found = infix(a, op.spelling, b)
            return found if op.result == "bool" or dtype.bits >= 32 else cast(storage_type(dtype), found)


def _modular(e: Expr, dtype: DType, scope: CScope) -> CText:
    """Return the value modulo 2**bits in an unsigned type, because signed overflow is undefined in C."""
    unsigned = unsigned_type(dtype)
    match e:
        case Call("add" | "sub" | "mul" as op, (left, right), own, _, _) if own == dtype:
            sign = OPERATIONS[op].spelling
            assert sign is not None
            return infix(_modular(left, dtype, scope), sign, _modular(right, dtype, scope))
        case Call("neg", (value,), own, _, _) if own == dtype:
            return infix(CText("0u"), "-", _modular(value, dtype, scope))
        case Cast(value, own, "exact" | "wrap", _) if (
            own == dtype and value.dtype.is_integer and own.bits >= 32
        ):
            return cast(unsigned, value_text(value, scope))
        case Const(value, _, _) if value >= 0 and dtype.bits <= 32:
            return CText(f"{int(value)}u")
        case _:
            found = value_text(e, scope)
            return found if storage_type(dtype) == unsigned else cast(unsigned, found)


def _write_checked(e: Call, dtype: DType, scope: CScope) -> CText:
    """Return an operation that C may leave undefined: plain if its operands are safe, else a function call."""
    last = e.args[-1]
    if isinstance(last, Const) and len(e.args) == 2:
        number = int(last.value)
        left, right = value_text(e.args[0], scope), CText(str(number), PREFIX if number < 0 else PREFIX + 1)
        if e.op in ("div", "rem") and number > 0:
            return _narrow(infix(left, "/" if e.op == "div" else "%", right), dtype)
        if e.op == "shr" and 0 <= number < dtype.bits:
            return _narrow(infix(left, ">>", right), dtype)
        if e.op == "shl" and 0 <= number < dtype.bits:
            return _wrap(infix(cast(unsigned_type(dtype), left), "<<", right), dtype)
    found = scope.helper(f"{e.op}_{dtype.name}", *(value_text(x, scope) for x in e.args))
    return _wrap(found, dtype) if dtype.bits < 8 else found


def _narrow(value: CText, dtype: DType) -> CText:
    """Return a value that C computed in `int`, converted back to its type."""
    return value if dtype.bits >= 32 else cast(storage_type(dtype), value)


def _other_call(e: Call, scope: CScope) -> CText:
    """Return the C of operations on floats and on bool."""
    dtype = e.args[-1].dtype
    args = [value_text(x, scope) for x in e.args]
    spelling = OPERATIONS[e.op].spelling
    if e.op == "not":
        return prefix("!", args[0])
    if e.op == "neg":
        return prefix("-", args[0])
    if spelling is not None:
        return infix(args[0], spelling, args[1])
    kind = "f64" if dtype.name == "f64" else "f32"
    match e.op:
        case "min" | "max":
            return _extreme(e, args, kind, scope)
        case "fma" if is_narrow(dtype):
            return scope.helper("fma_to_odd_f32", *args)
        case "select":
            return choice(*args)
        case "round":
            return scope.math(_ROUNDINGS[e.mode or "even"], dtype, *args)
        case op if "(" in OPERATIONS[op].c or (op in _DEFINED and kind == "f32"):
            scope.used.add("math.h")
            return scope.helper(f"{op}_{kind}", *args)
        case op:
            return scope.math(OPERATIONS[op].c, dtype, *args)


def _extreme(e: Call, args: list[CText], kind: str, scope: CScope) -> CText:
    """Return the C of a minimum or maximum that propagates NaN. Constants need fewer comparisons."""
    if e.args[1].dtype.kind == "bool":
        return infix(args[0], "&" if e.op == "min" else "|", args[1])
    a, b = args
    if isinstance(e.args[0], Const):
        a, b = b, a
    if any(isinstance(x, Const) for x in e.args):
        unlike = infix(a, ">=" if e.op == "min" else "<=", b)
        return choice(prefix("!", unlike), a, b)
    return scope.helper(f"{e.op}_{kind}", a, b)
