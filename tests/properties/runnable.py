"""Strategies for kernels that can be run: sizes are numbers, every subscript is inside or has a fill."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

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
    DType,
    Expr,
    Index,
    IndexValue,
    Kernel,
    Loop,
    Operand,
    Read,
    Stmt,
)

OUTSIZE = 30
"""Extent of every axis of the outputs, above all that a target's subscript can be."""


@dataclass(frozen=True)
class Case:
    """A kernel and arrays for all its operands."""

    kernel: Kernel
    arrays: dict[str, NDArray[Any]]


@dataclass(frozen=True)
class Form:
    """The type of a kernel's numbers: what its outputs accumulate in, and whether its sums are exact."""

    dtype: DType
    accumulate: DType | None = None
    strict: bool = False
    exact: bool = True


FORMS = (
    *(Form(DTYPES[n]) for n in ("i8", "u8", "i4", "u4", "i16", "i32", "u32", "i64", "u64", "f64")),
    Form(DTYPES["bf16"], accumulate=DTYPES["f32"]),
    Form(DTYPES["i8"], accumulate=DTYPES["i32"]),
    *(Form(DTYPES[n], exact=False) for n in ("bf16", "tf32")),
    Form(DTYPES["f32"], strict=True, exact=False),
)


@st.composite
def runnable_kernels(draw: st.DrawFn, ordered: bool = True) -> Case:
    """Return a kernel over inputs A, B and outputs X, Y of one type and a mask P, with arrays."""
    form = draw(st.sampled_from(FORMS))
    outputs = [Operand(n, "inout", form.dtype, s, accumulate=form.accumulate) for n, s in OUTPUTS.items()]
    inputs = [Operand(n, "in", BOOL if n == "P" else form.dtype, s) for n, s in INPUTS.items()]
    body = tuple(draw(nests(form, n, ordered)) for n in range(draw(st.integers(1, 3))))
    kernel = Kernel("k", (), (*inputs, *outputs), body, strict=form.strict)
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    return Case(kernel, {o.name: _array(o, form, rng) for o in kernel.operands})


INPUTS = {"A": (Index.of(3), Index.of(4)), "B": (Index.of(5),), "P": (Index.of(4),)}
OUTPUTS = {"X": (Index.of(OUTSIZE), Index.of(OUTSIZE)), "Y": (Index.of(OUTSIZE),)}


def _array(o: Operand, form: Form, rng: np.random.Generator) -> NDArray[Any]:
    shape = tuple(int(e.evaluate({})) for e in o.shape)
    if o.dtype == BOOL:
        return rng.integers(0, 2, shape).astype(np.bool_)
    if o.dtype.is_integer and o.name in INPUTS:
        return rng.integers(o.dtype.low, o.dtype.high, shape, o.dtype.numpy(), endpoint=True)
    values = rng.integers(0 if o.dtype.kind == "uint" else -2, 3, shape)
    if form.exact:
        return values.astype(o.dtype.numpy())
    return (values + rng.integers(0, 128, shape) / 128).astype(DTYPES["bf16"].numpy()).astype(o.dtype.numpy())


@st.composite
def nests(draw: st.DrawFn, form: Form, number: int, ordered: bool) -> Stmt:
    """Return one or two loops around an assignment; what it reads was written by other top-level statements."""
    names = [f"{letter}{number}" for letter in "ijk"[: draw(st.integers(1, 3))]]
    axes = {name: draw(st.integers(1, 3)) for name in names}
    cut = draw(st.integers(0, len(names) - 1))
    is_seq = [ordered and draw(st.booleans()) for _ in range(2)]
    is_seq[1] = is_seq[1] and (form.exact or is_seq[0] or cut == 0)
    free = [n for n in names if not is_seq[0 if names.index(n) < cut else 1]]
    statement: Stmt = draw(assignments(form, axes, free))
    for part, seq in ((names[cut:], is_seq[1]), (names[:cut], is_seq[0])):
        if part:
            guard = draw(st.none() | guards(axes)) if part == names[:1] or not cut else None
            own = tuple(Axis(n, Index.of(axes[n])) for n in part)
            statement = Loop(own, (statement,), seq, guard if _within(guard, part, names) else None)
    return statement


def _within(guard: Expr | None, part: list[str], names: list[str]) -> bool:
    """Return a guard may mention only axes that are in scope: those up to the last of `part`."""
    if guard is None:
        return False
    known = set(names[: names.index(part[-1]) + 1])
    return _names(guard) <= known


def _names(e: Expr) -> set[str]:
    match e:
        case Call(_, args, _, _, _):
            return {n for a in args for n in _names(a)}
        case IndexValue(index, _, _):
            return set(index.symbols)
        case Read(_, index, _, _, _):
            return {s for i in index for s in i.symbols}
        case _:
            return set()


@st.composite
def assignments(draw: st.DrawFn, form: Form, axes: dict[str, int], free: list[str]) -> Assign:
    """Return an assignment whose iterations are independent, or a reduction."""
    name = draw(st.sampled_from(list(OUTPUTS)))
    acc = form.accumulate or form.dtype
    ops = [op for op in REDUCTIONS.values() if acc.is_integer or OPS[op].domain != "logical"]
    ops = [op for op in ops if op != "mul" or acc.is_integer]
    op = draw(st.none() | st.sampled_from(ops))
    rank = len(OUTPUTS[name])
    if op is None:
        index = draw(distinct_subscripts(rank, free))
        dtype = form.dtype
    else:
        index = tuple(draw(subscripts(axes)) + 9 for _ in range(rank))
        dtype = acc
    value = draw(values(form.dtype, axes, 2, {name}))
    if dtype != form.dtype:
        value = Cast(value, dtype)
    target = Read(name, index, form.dtype)
    return Assign(target, op, value, draw(st.none() | st.none() | guards(axes)))


@st.composite
def distinct_subscripts(draw: st.DrawFn, rank: int, free: list[str]) -> tuple[Index, ...]:
    """Subscripts that differ wherever the unordered axes do, as numbers whose digits are axes (below 3)."""
    order = draw(st.permutations(free))
    places = [draw(st.integers(0, rank - 1)) for _ in order]
    index: list[Index] = []
    for place in range(rank):
        mine = [n for n, p in zip(order, places, strict=True) if p == place]
        weights = [2] if len(mine) == 1 else [9, 3, 1]
        digits = [Index.of(n) * w for n, w in zip(mine, weights[-len(mine) :] if mine else [], strict=True)]
        total = Index.of(draw(st.integers(0, 3)))
        for digit in digits:
            total = total + digit
        index.append(total)
    return tuple(index)


@st.composite
def subscripts(draw: st.DrawFn, axes: dict[str, int]) -> Index:
    """Return a small combination of axes, between -9 and 14."""
    total = Index.of(draw(st.integers(-1, 2)))
    for name in draw(st.lists(st.sampled_from(sorted(axes)), max_size=2, unique=True)):
        total = total + Index.of(name) * draw(st.sampled_from((-1, 1, 2)))
    if draw(st.integers(0, 3)) == 0:
        return (total + 4).floordiv(2) if draw(st.booleans()) else (total + 4).mod(3)
    return total


@st.composite
def values(draw: st.DrawFn, dtype: DType, axes: dict[str, int], depth: int, without: set[str]) -> Expr:
    """Return an expression of operations that are exact, or correctly rounded, in every type."""
    if depth == 0 or draw(st.integers(0, 2)) == 0:
        buffers = [n for n in ("A", "B", "X", "Y") if n not in without]
        name = draw(st.sampled_from(buffers))
        rank = len({**INPUTS, **OUTPUTS}[name])
        index = tuple(draw(subscripts(axes)) for _ in range(rank))
        return Read(name, index, dtype, Const(draw(st.integers(0, 2)), dtype))
    names = ["add", "sub", "mul", "mul", "mul", "min", "max", "neg", "abs", "select"]
    names += ["and", "or", "xor", "not"] if dtype.is_integer else ["fma"]
    op = OPS[draw(st.sampled_from(names))]
    conditions = [draw(guards(axes))] if op.name == "select" else []
    count = op.arity - len(conditions)
    args = [draw(values(dtype, axes, depth - 1, without)) for _ in range(count)]
    return Call(op.name, (*conditions, *args), dtype)


@st.composite
def guards(draw: st.DrawFn, axes: dict[str, int]) -> Expr:
    """Return a condition on axes or on the mask P."""
    if draw(st.booleans()):
        return Read("P", (draw(subscripts(axes)),), BOOL, Const(draw(st.booleans()), BOOL))
    op = draw(st.sampled_from(("lt", "le", "eq", "ne")))
    left, right = draw(subscripts(axes)), draw(st.integers(-2, 4))
    return Call(op, (IndexValue(left, I64), Const(right, I64)), BOOL)
