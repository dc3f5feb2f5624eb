"""Strategies that build routines in the form in which the resolver leaves them."""

from __future__ import annotations

from hypothesis import strategies as st

from isamap.ir import (
    BOOL,
    DTYPES,
    I64,
    OPS,
    REDUCTIONS,
    Assign,
    Axis,
    Call,
    Cast,
    Const,
    Constraint,
    DType,
    Expr,
    Index,
    IndexValue,
    Kernel,
    Let,
    Loop,
    Operand,
    Param,
    Read,
    Scalar,
    Stmt,
    converts_exactly,
    index_max,
    index_min,
)
from isamap.ir.evaluate import fold_cast

SIZES = ("M", "N", "K")
AXES = ("i", "j", "k")
TYPES = [DTYPES[name] for name in ("f64", "f32", "bf16", "i32", "i8", "u8", "i64", "bool")]


@st.composite
def indices(draw: st.DrawFn, names: tuple[str, ...], depth: int = 2) -> Index:
    """Return an index expression; divisors are positive numbers or sizes, products have one axis at most."""
    leaf = st.sampled_from([Index.of(n) for n in names]) | st.integers(-9, 40).map(Index.of)
    if depth == 0:
        return draw(leaf)
    inner = indices(names, depth - 1)
    match draw(st.sampled_from(("leaf", "add", "scale", "size", "div", "rem", "min", "max"))):
        case "add":
            return draw(inner) + draw(inner)
        case "scale":
            return draw(inner) * draw(st.integers(-5, 5))
        case "size":
            return draw(inner) * draw(st.sampled_from(SIZES).map(Index.of))
        case "div":
            return draw(inner).floordiv(draw(divisors()))
        case "rem":
            return draw(inner).mod(draw(divisors()))
        case "min":
            return index_min(draw(inner), draw(inner))
        case "max":
            return index_max(draw(inner), draw(inner))
        case _:
            return draw(leaf)


def divisors() -> st.SearchStrategy[Index]:
    """Return what an index may be divided by."""
    return st.integers(1, 9).map(Index.of) | st.sampled_from(SIZES).map(Index.of)


def constants(dtype: DType) -> st.SearchStrategy[Expr]:
    """Return a literal of a type."""
    if dtype == BOOL:
        return st.booleans().map(lambda v: Const(v, BOOL))
    if dtype.is_integer:
        return st.integers(dtype.low, dtype.high).map(lambda v: Const(v, dtype))
    limit = 1e300 if dtype.name == "f64" else 1e30
    finite = st.floats(-limit, limit, allow_nan=False) | st.integers(-100, 100).map(float)
    return (finite | st.just(float("inf"))).map(lambda v: Const(v, dtype))


def operand_of(dtype: DType) -> Operand:
    """Return the input of that type which every generated routine declares."""
    return Operand(f"in_{dtype.name}", "in", dtype, (Index.of("M"), Index.of("N")))


@st.composite
def leaves(draw: st.DrawFn, dtype: DType) -> Expr:
    """Return a literal, a scalar parameter, an element, or a converted index."""
    choice = draw(st.sampled_from(("const", "read", "scalar", "index")))
    if choice == "read":
        fill = draw(st.none() | constants(dtype)) if dtype != BOOL else None
        assert fill is None or isinstance(fill, Const)
        return Read(f"in_{dtype.name}", (draw(indices(AXES)), draw(indices(AXES + SIZES))), dtype, fill)
    if choice == "scalar":
        return Scalar(f"s_{dtype.name}", dtype)
    index = draw(indices(AXES + SIZES))
    if choice == "index" and index.value is None and dtype.name in ("f64", "f32", "i32"):
        return Cast(IndexValue(index, I64), dtype)
    return draw(constants(dtype))


@st.composite
def expressions(draw: st.DrawFn, dtype: DType, depth: int = 3) -> Expr:
    """Return a typed expression as the resolver makes them: no idle cast, none of a number, no negated literal."""
    if depth == 0:
        return draw(leaves(dtype))
    if draw(st.booleans()):
        return draw(leaves(dtype))
    if dtype == BOOL and draw(st.booleans()):
        return draw(comparisons(depth))
    if draw(st.integers(0, 3)) == 0 and dtype != BOOL:
        return draw(casts(dtype, depth))
    op = OPS[draw(st.sampled_from(_operations(dtype)))]
    args = [
        draw(expressions(BOOL if op.name == "select" and n == 0 else dtype, depth - 1))
        for n in range(op.arity)
    ]
    if op.name == "neg" and isinstance(args[0], Const) and args[0].value >= 0:
        return args[0]
    mode = draw(st.sampled_from(op.modes)) if op.modes else None
    return Call(op.name, tuple(args), dtype, mode)


def _operations(dtype: DType) -> list[str]:
    domains = {"any"}
    domains |= {"logical"} if dtype.is_integer or dtype == BOOL else set()
    domains |= {"integer"} if dtype.is_integer else set()
    domains |= {"float"} if dtype.is_float else set()
    domains |= {"number"} if dtype != BOOL else set()
    return [op.name for op in OPS.values() if op.domain in domains and op.result == "same"]


@st.composite
def comparisons(draw: st.DrawFn, depth: int) -> Expr:
    """Return a comparison, of values or of index expressions."""
    op = draw(st.sampled_from(("lt", "le", "gt", "ge", "eq", "ne")))
    left, right = draw(indices(AXES + SIZES)), draw(indices(AXES + SIZES))
    if left.value is None and draw(st.booleans()):
        other = Const(right.value, I64) if right.value is not None else IndexValue(right, I64)
        return Call(op, (IndexValue(left, I64), other), BOOL)
    dtype = draw(st.sampled_from([t for t in TYPES if t != BOOL]))
    values = tuple(draw(expressions(dtype, depth - 1)) for _ in range(2))
    return Call(op, values, BOOL)


@st.composite
def casts(draw: st.DrawFn, dtype: DType, depth: int) -> Expr:
    """Return a conversion that needs no proof."""
    source = draw(st.sampled_from([t for t in TYPES if t != dtype]))
    value = draw(expressions(source, depth - 1))
    if dtype.is_integer and not converts_exactly(source, dtype):
        return fold_cast(Cast(value, dtype, draw(st.sampled_from(("wrap", "sat")))))
    return fold_cast(Cast(value, dtype))


@st.composite
def assignments(draw: st.DrawFn) -> Stmt:
    """Return an assignment or a reduction."""
    dtype = draw(st.sampled_from(TYPES))
    target = Read(f"out_{dtype.name}", (draw(indices(AXES)),), dtype)
    op = draw(st.none() | st.sampled_from(_reductions(dtype)))
    guard = draw(st.none() | expressions(BOOL, 2))
    return Assign(target, op, draw(expressions(dtype)), guard)


def _reductions(dtype: DType) -> list[str]:
    names = [name for name in REDUCTIONS.values() if name in _operations(dtype)]
    return [n for n in names if not (dtype.is_float and OPS[n].domain == "logical")]


@st.composite
def kernels(draw: st.DrawFn) -> Kernel:
    """Return a kernel whose types are right; its subscripts and dependences are not."""
    body = draw(st.lists(assignments(), min_size=1, max_size=2))
    axes = tuple(Axis(name, draw(indices(SIZES, 1).filter(_is_open))) for name in AXES)
    loop = Loop(axes, tuple(body), draw(st.booleans()), draw(st.none() | comparisons(1)))
    where = draw(
        st.lists(
            st.builds(
                Constraint,
                indices(SIZES),
                st.sampled_from(("==", "!=", "<=", "<", ">=", ">")),
                indices(SIZES),
            ),
            max_size=2,
        )
    )
    low = draw(st.integers(-4, 4))
    params = (
        Param("M"),
        Param("N", low=Index.of(low), high=Index.of(low + 4), default=low + draw(st.integers(0, 4))),
        Param("K"),
        *(Param(f"s_{t.name}", "scalar", dtype=t) for t in TYPES),
    )
    outputs = tuple(Operand(f"out_{t.name}", "inout", t, (Index.of("K"),)) for t in TYPES)
    inputs = tuple(operand_of(t) for t in TYPES)
    lets = (Let("P", draw(indices(SIZES))),)
    return Kernel("k", params, (*inputs, *outputs), (loop,), lets, tuple(where), draw(st.booleans()))


def _is_open(index: Index) -> bool:
    return index.value is None
