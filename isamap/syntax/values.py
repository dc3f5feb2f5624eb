"""Resolve value expressions: names to accesses, with types, without any implicit conversion.

`f32(A[m, k]) * alpha` becomes `Call("mul", (Cast(Read("A", …)), Scalar("alpha")))`. A literal takes the type
of the other operand, so `max(x, 0)` needs no cast.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from math import inf, isfinite
from typing import cast

from isamap.ir.dtypes import BOOL, DTYPES, I64, TYPE_SETS, DType, converts_exactly
from isamap.ir.evaluate import fold_cast
from isamap.ir.facts import inside_conditions
from isamap.ir.functions import MOST_NODES, Function, inline_call
from isamap.ir.index import Index
from isamap.ir.nodes import Call, Cast, CastMode, Const, Expr, IndexValue, Read, Scalar
from isamap.ir.ops import DEFINING, OPS, WORDS, Op
from isamap.source import Edit, Span, TypeProblem, replace
from isamap.syntax import ast
from isamap.syntax.hints import equivalent_of, remark
from isamap.syntax.indices import combine, resolve_index
from isamap.syntax.scope import Scope, problem_at, unknown_name

# --- conversions ----------------------------------------------------------------------------------------

# Casts: which ones are free, which need `wrap_` or `sat_`, and proofs that integer casts keep values.
#
# `i8(x)` of an i32 `x` is refused unless `x`'s values are known to fit, as in `i8(min(max(x, -128), 127))`.
#
# Literals are numbers that take the type of the other operand.
#
# In `max(x, 0)` the 0 has the type of x; in `f32(1)` the cast gives the type.


def cast_target(name: str) -> tuple[DType, CastMode] | None:
    """Return the type and the mode of a cast's name: `f32`, `wrap_i8`, `sat_u8`, or None if it is not a cast."""
    if name in DTYPES:
        return DTYPES[name], "exact"
    mode, _, type_name = name.partition("_")
    if mode in ("wrap", "sat", "bits") and type_name in DTYPES:
        return DTYPES[type_name], cast(CastMode, mode)
    return None


def convert(value: Expr, dtype: DType, mode: CastMode, span: Span) -> Expr:
    """Return `value` converted to `dtype`. A cast to the value's own type is omitted. Raises: TypeProblem."""
    if mode == "bits":
        return fold_cast(Cast(value, dtype, mode, span)) if _may_reinterpret(value, dtype, span) else value
    if mode != "exact" and not dtype.is_integer:
        raise problem_at(
            "bad-cast", f"`{mode}_{dtype}` does not exist: only integers wrap or saturate", span,
            advice=f"write `{dtype}(…)`, which rounds to nearest even",
            edits=(Edit(Span(span.source, span.start, span.start + len(mode) + 1), ""),),
        )  # fmt: skip
    # An operation in its own type has wrapped before `sat_` sees it: kept, so that messages can say so.
    saturates_too_late = mode == "sat" and isinstance(value, Call)
    if value.dtype == dtype:
        return Cast(value, dtype, mode, span) if saturates_too_late else value
    if dtype.is_integer and converts_exactly(value.dtype, dtype):
        mode = "exact"  # a type that holds all values neither wraps nor saturates any
    if dtype == BOOL:
        raise problem_at(
            "bad-cast", f"{value.dtype} does not become bool by a cast", span, advice="write `x != 0`"
        )
    if mode == "exact" and dtype.is_integer and not _keeps_value(value, dtype):
        _refuse(value, dtype, span)
    return fold_cast(Cast(value, dtype, mode, span))


def _may_reinterpret(value: Expr, dtype: DType, span: Span) -> bool:
    """Return whether `bits` may cast a value to a type. False means that it has this type. Raises: TypeProblem."""
    source = value.dtype
    widths_agree = source.bits == dtype.bits and "tf32" not in (source.name, dtype.name)
    if source != dtype and not (widths_agree and {source.is_float, dtype.is_float} == {True, False}):
        advice = (
            f"write `wrap_{dtype}(…)`, which keeps the low bits"
            if source.is_integer and dtype.is_integer
            else "take an integer of the float's width, such as `bits_i32(x)` of an f32"
        )
        raise problem_at(
            "bad-cast",
            f"`bits_{dtype}(…)` takes {'an integer' if dtype.is_float else 'a float'} of {dtype.bits} bits, "
            f"not {source}",
            span,
            advice=advice,
        )
    return source != dtype


def _keeps_value(value: Expr, dtype: DType) -> bool:
    if isinstance(value, IndexValue):
        return True  # the verifier knows the ranges of axes and sizes: `isamap.ir.index_casts`
    if converts_exactly(value.dtype, dtype):
        return True
    bounds = integer_bounds(value)
    return bounds is not None and dtype.low <= bounds[0] and bounds[1] <= dtype.high


def _refuse(value: Expr, dtype: DType, span: Span) -> None:
    bounds = integer_bounds(value)
    why = (
        f"{value.dtype} has fractions, and values that {dtype} does not hold"
        if bounds is None
        else f"the value may be {bounds[0]} to {bounds[1]}; {dtype} holds {dtype.low} to {dtype.high}"
    )
    raise problem_at(
        "cast-may-overflow",
        f"`{dtype}(…)` of this {value.dtype} value cannot be proved not to overflow",
        span,
        why,
        advice=f"write `sat_{dtype}(…)` to saturate or `wrap_{dtype}(…)` to keep the low bits",
        edits=(Edit(Span(span.source, span.start, span.start), "sat_"),),
    )


def integer_bounds(e: Expr) -> tuple[int, int] | None:
    """Return the smallest and largest possible value of an integer expression, or None for floats."""
    dtype = e.dtype
    if not dtype.is_integer and dtype != BOOL:
        return None
    whole = (0, 1) if dtype == BOOL else (dtype.low, dtype.high)
    match e:
        case Const(value, _, _):
            return int(value), int(value)
        case IndexValue() | Scalar() | Read():
            return whole
        case Cast(value, _, mode, _):
            inner = integer_bounds(value)
            if inner is None or (mode == "wrap" and not whole[0] <= inner[0] <= inner[1] <= whole[1]):
                return whole
            return max(whole[0], min(inner[0], whole[1])), min(whole[1], max(inner[1], whole[0]))
        case Call(op, args, _, _, _):
            found = [integer_bounds(a) for a in args]
            known = [b for b in found if b is not None]
            computed, interval = None, OPS[op].interval
            if interval is not None and len(known) == len(args):
                computed = interval(tuple(b[0] for b in known), tuple(b[1] for b in known))
            fits = computed is not None and whole[0] <= computed[0] and computed[1] <= whole[1]
            return computed if fits else whole


FUNCTIONS = (*(op.name for op in OPS.values() if op.spelling is None), *WORDS)


def is_known(e: ast.ExprSyntax, scope: Scope) -> bool:
    """Return whether `inf` in the expression is a declared name instead of the literal for infinity."""
    inner = e.operand if isinstance(e, ast.Unary) else e
    return isinstance(inner, ast.Name) and inner.name in scope.names


def literal_value(e: ast.ExprSyntax) -> int | float | None:
    """Return the number of a literal with an optional sign, or None for other expressions."""
    match e:
        case ast.Number(value, _):
            return value
        case ast.Name("inf", _):
            return inf
        case ast.Unary("neg", ast.Number() | ast.Name("inf") as operand, _):
            inner = literal_value(operand)
            return -inner if inner is not None else None
        case _:
            return None


def is_bare(e: ast.ExprSyntax, scope: Scope) -> bool:
    """Return whether an expression has literals as its only values, so that the context decides its type."""
    if literal_value(e) is not None:
        return not is_known(e, scope)
    match e:
        case ast.Unary(_, operand, _):
            return is_bare(operand, scope)
        case ast.Binary(op, left, right, _):
            return OPS[op].result == "same" and is_bare(left, scope) and is_bare(right, scope)
        case ast.Apply(name, args, _) if name.text in FUNCTIONS:
            op = OPS[WORDS.get(name.text, (name.text, ""))[0]]
            values = args[: op.arity][1 if op.name == "select" else 0 :]
            return bool(values) and all(is_bare(a, scope) for a in values)
        case _:
            return False


def make_const(value: int | float, dtype: DType | None, span: Span) -> Const:
    """Return a literal of a type. Raises: TypeProblem if the type is unknown or does not hold the value."""
    if dtype is None:
        raise problem_at(
            "cannot-infer-type",
            f"the type of {number_text(value)} is not determined",
            span,
            advice=f"write a cast, as in `f32({number_text(value)})`",
        )
    if dtype.is_float:
        return Const(_as_float(value, dtype, span), dtype, span)
    if dtype == BOOL:
        raise problem_at("literal-type", "a bool is written `true` or `false`", span)
    if isinstance(value, float):
        raise problem_at(
            "literal-type", f"{number_text(value)} is not {dtype}: it has a fraction or an exponent", span
        )
    if not dtype.low <= value <= dtype.high:
        raise problem_at(
            "literal-out-of-range",
            f"{number_text(value)} is not a value of {dtype}",
            span,
            f"{dtype} holds {dtype.low} to {dtype.high}",
        )
    return Const(value, dtype, span)


def _as_float(value: int | float, dtype: DType, span: Span) -> float:
    limit = 2.0 ** (2 ** (dtype.exponent_bits - 1)) if dtype.exponent_bits < 11 else inf
    try:
        number = float(value)
    except OverflowError:
        number = inf
    too_large = not isfinite(number) if not isinstance(value, float) or value not in (inf, -inf) else False
    if too_large or (isfinite(number) and abs(number) >= limit):
        raise problem_at("literal-out-of-range", f"{number_text(value)} is too large for {dtype}", span)
    return number


def number_text(value: int | float) -> str:
    """Return a number for a message, shortened if it is long."""
    text = repr(value)
    return text if len(text) <= 40 else text[:37] + "..."


_INDEX_OPS = frozenset(("add", "sub", "mul", "div", "rem", "min", "max"))
_DOMAINS = {"number": "numbers", "float": "floats", "integer": "integers", "logical": "integers or bool"}


def resolve_value(e: ast.ExprSyntax, scope: Scope, expected: DType | None = None, place: str = "") -> Expr:
    """Return the typed expression of a syntax node, of type `expected` if given. Raises: TypeProblem."""
    value = _type_expression(e, scope, expected)
    if expected is not None and value.dtype != expected:
        raise problem_at(
            "type-mismatch",
            f"{place or 'this'} must be {expected}, but the expression is {value.dtype}",
            e.span,
            advice=_cast_help(value.dtype, expected, e),
            edits=(Edit(e.span, _cast_text(value.dtype, expected, e)),),
        )
    return value


def _type_expression(e: ast.ExprSyntax, scope: Scope, expected: DType | None) -> Expr:
    """Return the typed expression. `expected` only decides the type of literals."""
    if (number := literal_value(e)) is not None and not is_known(e, scope):
        return make_const(number, expected, e.span)
    match e:
        case ast.Flag(value, span):
            return Const(value, BOOL, span)
        case ast.Name(name, span):
            return _type_name(ast.Ident(name, span), scope)
        case ast.Access(name, subscripts, fill, span):
            # An element with the value after `else` for places outside the array.
            read = resolve_access(name, subscripts, span, scope)
            if fill is None:
                return read
            number = literal_value(fill)
            if number is not None and not is_known(fill, scope):
                return replace(read, fill=make_const(number, read.dtype, fill.span))
            value = resolve_value(fill, scope, read.dtype, f"the value of `else` for `{name.text}`")
            inside = _inside(read, scope)
            if inside is None:
                return read
            nothing = 0.0 if read.dtype.is_float else read.dtype != BOOL and 0
            guarded = replace(read, fill=Const(nothing, read.dtype, fill.span))
            return Call("select", (inside, guarded, value), read.dtype, None, span)
        case ast.Unary(op, operand, span):
            return operation(OPS[op], [operand], None, e, span, scope, expected)
        case ast.Binary(op, left, right, span):
            return operation(OPS[op], [left, right], None, e, span, scope, expected)
        case ast.Apply(name, args, span):
            return _apply(name, args, e, span, scope, expected)
        case ast.Number():
            raise AssertionError("a number is a literal")


# --- names and accesses -----------------------------------------------------------------------------------


def _type_name(name: ast.Ident, scope: Scope) -> Expr:
    if name.text in scope.indices:
        return IndexValue(scope.symbol(name.text), I64, name.span)
    if name.text in scope.scalars:
        return Scalar(name.text, scope.scalars[name.text], name.span)
    if name.text in scope.operands:
        return resolve_access(name, (), span=name.span, scope=scope)
    raise scope.unknown(name)


def resolve_access(name: ast.Ident, subscripts: tuple[ast.ExprSyntax, ...], span: Span, scope: Scope) -> Read:
    """Return an element of an operand. Raises: TypeProblem."""
    operand = scope.operand(name)
    if len(subscripts) != len(operand.shape):
        shape = f"[{', '.join(map(str, operand.shape))}]"
        raise problem_at(
            "wrong-rank",
            f"`{name.text}` has {_count(len(operand.shape), 'axis', 'axes')}, but {len(subscripts)} "
            f"{'subscript is' if len(subscripts) == 1 else 'subscripts are'} given",
            span,
            *([f"`{name.text}` is {operand.dtype}{shape}"] if operand.shape else []),
        )
    index = tuple(resolve_index(s, scope, f"a subscript of `{name.text}`") for s in subscripts)
    return Read(name.text, index, operand.dtype, None, span)


def _inside(read: Read, scope: Scope) -> Expr | None:
    """Return the condition that all subscripts are in bounds, or None if the loops' extents imply it."""
    shape = scope.operands[read.buffer].shape
    conditions = [
        condition
        for index, extent, both in zip(read.index, shape, inside_conditions(read, shape), strict=True)
        if scope.extents.get(str(index)) != extent
        for condition in both
    ]
    return reduce(lambda a, b: Call("and", (a, b), BOOL), conditions) if conditions else None


def _count(n: int, one: str, many: str) -> str:
    return f"{n} {one if n == 1 else many}"


# --- operations -------------------------------------------------------------------------------------------


def _apply(
    name: ast.Ident,
    args: tuple[ast.ExprSyntax, ...],
    e: ast.ExprSyntax,
    span: Span,
    scope: Scope,
    expected: DType | None,
) -> Expr:
    target = cast_target(name.text)
    if target is not None:
        dtype, mode = target
        if len(args) != 1:
            raise problem_at(
                "argument-count", f"the cast `{name.text}` takes one value, not {len(args)}", span
            )
        if mode == "exact" and is_bare(args[0], scope):
            return resolve_value(args[0], scope, dtype)
        return convert(_type_expression(args[0], scope, None), dtype, mode, span)
    if name.text in DEFINING and scope.defines:
        return operation(DEFINING[name.text], args, None, e, span, scope, expected)
    if name.text not in FUNCTIONS and (function := scope.functions.get(name.text)) is not None:
        return _call(function, args, span, scope)
    if name.text not in FUNCTIONS:
        if name.text in scope.operands:
            raise problem_at(
                "unknown-function", f"`{name.text}` is an operand", span, advice="write subscripts in `[ ]`"
            )
        raise _unknown_function(name, args, span, scope)
    word, mode_name = WORDS.get(name.text, (name.text, None))
    op = OPS[word]
    if op.modes and mode_name is None:
        last = args[-1] if len(args) == op.arity + 1 else None
        if not isinstance(last, ast.Name):
            shown = ", ".join(["x", "n"][: op.arity])
            raise problem_at(
                "argument-count", f"`{op.name}` is written `{op.name}({shown}, MODE)`", span,
                f"MODE is one of {', '.join(op.modes)}",
            )  # fmt: skip
        if last.name not in op.modes:
            raise unknown_name("unknown-mode", "rounding mode", ast.Ident(last.name, last.span), op.modes)
        mode_name, args = last.name, args[:-1]
    if len(args) != op.arity:
        raise problem_at("argument-count", f"`{name.text}` takes {op.arity} values, not {len(args)}", span)
    return operation(op, args, mode_name, e, span, scope, expected)


def _call(function: Function, args: tuple[ast.ExprSyntax, ...], span: Span, scope: Scope) -> Expr:
    """Return the result of a function with the arguments substituted. Raises: TypeProblem."""
    if len(args) != len(function.params):
        shown = f"{function.name}({', '.join(p.name for p in function.params)})"
        said = f"`{shown}` takes {_count(len(function.params), 'value', 'values')}, not {len(args)}"
        raise problem_at("argument-count", said, span)
    values = [
        resolve_value(a, scope, p.dtype, f"`{p.name}` of `{function.name}`")
        for p, a in zip(function.params, args, strict=True)
    ]
    found = inline_call(function, values, span)
    if found is None:
        raise problem_at(
            "function-too-large",
            f"`{function.name}` written out here has more than {MOST_NODES} operations",
            span,
            "a name that `let` gives is written out wherever it is used",
            advice="keep steps that are used several times in a `temp` of the kernel",
        )
    return found


def _unknown_function(
    name: ast.Ident, args: tuple[ast.ExprSyntax, ...], span: Span, scope: Scope
) -> TypeProblem:
    if name.text in DEFINING:
        shown = {"scale": "x * bits_f32((n + 127) << 23)", "exponent": "((bits_i32(x) >> 23) & 255) - 127"}
        raise problem_at(
            "unknown-function",
            f"`{name.text}` is for the definitions of elementary functions alone",
            name.span,
            advice=f"of an f32 that is not subnormal, write `{shown[name.text]}`",
        )
    text = equivalent_of(name.text, args)
    if text is None:
        known = (*FUNCTIONS, *scope.functions, *DTYPES)
        return unknown_name("unknown-function", "function or cast", name, known, most=len(known))
    return problem_at(
        "unknown-function", f"there is no function or cast called `{name.text}`", name.span,
        advice=f"write `{_short(text)}`{remark(name.text)}", edits=(Edit(span, text),),
    )  # fmt: skip


def operation(
    op: Op,
    args: Sequence[ast.ExprSyntax],
    mode: str | None,
    e: ast.ExprSyntax,
    span: Span,
    scope: Scope,
    expected: DType | None,
) -> Expr:
    """Return an operation on operands of one type (except the condition of `select`). Raises: TypeProblem."""
    conditions = [resolve_value(args[0], scope, BOOL, "the condition")] if op.name == "select" else []
    values = _unify(op, args[len(conditions) :], scope, expected if op.result == "same" else None, span)
    dtype = values[0].dtype
    _check_domain(op, values)
    folded = _fold_index(op, values, e, span, scope)
    if folded is not None:
        return folded
    return Call(op.name, (*conditions, *values), BOOL if op.result == "bool" else dtype, mode, span)


def _unify(
    op: Op, args: Sequence[ast.ExprSyntax], scope: Scope, expected: DType | None, span: Span
) -> list[Expr]:
    """Return operands of one type. Literals get the type of the others."""
    typed = [None if is_bare(a, scope) else _type_expression(a, scope, None) for a in args]
    dtype = next((v.dtype for v in typed if v is not None), expected)
    values = [
        v if v is not None else resolve_value(a, scope, dtype) for v, a in zip(typed, args, strict=True)
    ]
    for value, arg in zip(values[1:], args[1:], strict=True):
        if value.dtype != values[0].dtype:
            shown = op.spelling or op.name
            casts = [f"`{t}({_short(e.span.text)})`" for e, t in _common_type(args[0], values[0], arg, value)]
            raise problem_at(
                "type-mismatch",
                f"`{shown}` takes operands of one type, not {values[0].dtype} and {value.dtype}",
                span,
                f"`{_short(args[0].span.text)}` is {values[0].dtype}",
                f"`{_short(arg.span.text)}` is {value.dtype}",
                advice=(f"write {' and '.join(casts)}" if casts else "cast both to one type"),
                edits=_to_common_type(args[0], values[0], arg, value),
            )
    return values


def _check_domain(op: Op, values: Sequence[Expr]) -> None:
    for value in values:
        dtype = value.dtype
        if dtype not in TYPE_SETS[op.domain]:
            shown = op.spelling or op.name
            raise problem_at(
                "wrong-operand-type", f"`{shown}` works on {_DOMAINS[op.domain]}, not on {dtype}", value.span
            )


def _fold_index(op: Op, values: Sequence[Expr], e: ast.ExprSyntax, span: Span, scope: Scope) -> Expr | None:
    """Return an operation on index expressions and literals as one index expression, or None."""
    indices = [_as_index(v) for v in values]
    if any(i is None for i in indices) or not any(isinstance(v, IndexValue) for v in values):
        return None
    found = [i for i in indices if i is not None]
    if op.name == "neg":
        index = -found[0]
    elif op.name in _INDEX_OPS:
        index = combine(op.name, found[0], found[1], e, scope)
    else:
        return None
    return IndexValue(index, I64, span) if index.value is None else Const(index.value, I64, span)


def _as_index(value: Expr) -> Index | None:
    match value:
        case IndexValue(index, _, _):
            return index
        case Const(number, _, _) if isinstance(number, int) and value.dtype == I64:
            return Index.of(number)
        case _:
            return None


def _cast_help(found: DType, required: DType, e: ast.ExprSyntax) -> str:
    if required == BOOL:
        return "write a comparison, such as `x != 0`"
    text = _short(e.span.text)
    if isinstance(e, ast.Binary) and required.is_float and found.is_float:
        op = OPS[e.op].spelling
        left, right = _short(e.left.span.text), _short(e.right.span.text)
        return f"cast the operands, as in `{required}({left}) {op} {required}({right})`, or the result"
    if _computed_narrow(found, required, e):
        return f"write `{_spell_widened(e, required)}`: an {found} result may wrap before it is widened"
    if required.is_float or found == BOOL or converts_exactly(found, required):
        return f"write `{required}({text})`"
    return f"write `{required}({text})`, `sat_{required}(…)` or `wrap_{required}(…)`"


_GROWING = frozenset(("add", "sub", "mul"))
"""Operations whose results may need more bits than their operands."""


def _computed_narrow(found: DType, required: DType, e: ast.ExprSyntax) -> bool:
    """Return whether integers would be computed in a type that is too narrow and widened too late."""
    wider = converts_exactly(found, required) or required.is_float
    return isinstance(e, ast.Binary) and e.op in _GROWING and not found.is_float and found != BOOL and wider


def _spell_widened(e: ast.ExprSyntax, required: DType) -> str:
    """Return the arithmetic expression with its operands cast instead of its result, as text."""
    if not isinstance(e, ast.Binary) or e.op not in _GROWING:
        return e.span.text if literal_value(e) is not None else f"{required}({e.span.text})"
    left, right = _side(e.left, required, bound=e.op == "mul"), _side(e.right, required, bound=e.op != "add")
    return f"{left} {OPS[e.op].spelling} {right}"


def _side(e: ast.ExprSyntax, required: DType, *, bound: bool) -> str:
    text = _spell_widened(e, required)
    return f"({text})" if bound and isinstance(e, ast.Binary) and e.op in ("add", "sub") else text


def _cast_text(found: DType, required: DType, e: ast.ExprSyntax) -> str:
    """Return the expression converted to the expected type, as text for `_cast_help`."""
    if required == BOOL:
        return f"({e.span.text}) != 0"
    if _computed_narrow(found, required, e):
        return _spell_widened(e, required)
    fits = required.is_float or found == BOOL or converts_exactly(found, required)
    return f"{'' if fits else 'sat_'}{required}({e.span.text})"


def _to_common_type(left: ast.ExprSyntax, a: Expr, right: ast.ExprSyntax, b: Expr) -> tuple[Edit, ...]:
    casts = _common_type(left, a, right, b)
    return tuple(Edit(e.span, f"{target}({e.span.text})") for e, target in casts)


def _common_type(
    left: ast.ExprSyntax, a: Expr, right: ast.ExprSyntax, b: Expr
) -> list[tuple[ast.ExprSyntax, DType]]:
    """Return lossless casts of two types to a common one, or [] without any.

    An index takes the type of the data with which it is combined.
    """
    for value, other, e in ((a, b, left), (b, a, right)):
        if isinstance(value, IndexValue) and other.dtype != BOOL:
            return [(e, other.dtype)]
    for source, target, e in ((a.dtype, b.dtype, left), (b.dtype, a.dtype, right)):
        if converts_exactly(source, target) or (source == I64 and target.is_float):
            return [(e, target)]
    wide = [t for t in DTYPES.values() if converts_exactly(a.dtype, t) and converts_exactly(b.dtype, t)]
    if not wide:
        return []
    target = min(wide, key=lambda t: (t.kind not in (a.dtype.kind, b.dtype.kind), max(t.bits, 32)))
    return [(left, target), (right, target)]


def _short(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= 40 else flat[:37] + "..."
