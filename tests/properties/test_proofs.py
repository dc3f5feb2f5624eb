"""What the verifier proves holds: compared with all values of small sizes and all pairs of iterations."""

from __future__ import annotations

from functools import reduce
from itertools import product

from hypothesis import given
from hypothesis import strategies as st
from properties.routines import indices

from isamap.ir import (
    BOOL,
    F32,
    I64,
    Assign,
    Axis,
    Call,
    Const,
    Expr,
    Facts,
    Index,
    IndexValue,
    Kernel,
    Loop,
    Operand,
    Read,
    is_nonnegative,
    verify,
)
from isamap.ir.equal_axes import never_meet
from isamap.ir.facts import AxisAt, FreeSizes, Site

SIZES = ("M", "N", "K")
AXES = ("i", "j")


@given(
    indices((*AXES, *SIZES), 3),
    st.lists(indices((*AXES, *SIZES), 2), max_size=3),
    st.lists(indices(SIZES, 1), min_size=2, max_size=2),
)
def test_what_is_proved_nonnegative_is(e: Index, stated: list[Index], extents: list[Index]) -> None:
    axes: dict[str, Index] = dict(zip(AXES, extents, strict=True))
    facts = Facts(lows={"M": 1, "N": 0, "K": 2}, nonnegative=tuple(stated)).with_axes(axes)
    if not is_nonnegative(e, facts):
        return
    for m, n, k in product(range(1, 5), range(4), range(2, 5)):
        env = {"M": m, "N": n, "K": k}
        try:
            ranges = [range(x.evaluate(env)) for x in axes.values()]
            points = [{**env, "i": i, "j": j} for i, j in product(*ranges)]
            held = [p for p in points if all(f.evaluate(p) >= 0 for f in stated)]
            values = [e.evaluate(p) for p in held]
        except ZeroDivisionError:
            continue
        assert all(v >= 0 for v in values), (str(e), [str(f) for f in stated], env)


@st.composite
def subscripts(draw: st.DrawFn) -> tuple[Index, ...]:
    """Return one or two subscripts of digits, divisions and remainders of two axes."""
    return tuple(draw(st.lists(indices(AXES, 2), min_size=1, max_size=2).filter(_is_concrete)))


def _is_concrete(found: list[Index]) -> bool:
    return all(i.symbols <= set(AXES) for i in found)


GUARDS = st.lists(indices(AXES, 1).filter(lambda i: i.symbols <= set(AXES)), max_size=2)


@given(subscripts(), subscripts(), st.integers(1, 6), st.integers(1, 6), st.booleans(), GUARDS)
def test_iterations_that_pass_as_independent_are(
    write: tuple[Index, ...],
    read: tuple[Index, ...],
    rows: int,
    columns: int,
    reads: bool,
    guards: list[Index],
) -> None:
    one = Const(1.0, F32)
    shape = (Index.of(1000),) * len(write)
    target = Read("C", write, F32)
    same_rank = len(write) == len(read)
    value = Read("C", read, F32) if reads and same_rank else one
    assign = Assign(target, None, value, _guard(guards))
    loop = Loop((Axis("i", Index.of(rows)), Axis("j", Index.of(columns))), (assign,))
    kernel = Kernel("k", (), (Operand("C", "inout", F32, shape),), (loop,))
    codes = {d.code for d in verify(kernel)}
    points = [{"i": i, "j": j} for i in range(rows) for j in range(columns)]
    written = [tuple(x.evaluate(p) for x in write) for p in points]
    clash = len(set(written)) < len(written)
    if isinstance(value, Read):
        runs = [all(g.evaluate(p) >= 0 for g in guards) for p in points]
        touched = [tuple(x.evaluate(p) for x in read) for p in points]
        clash |= any(
            a == b and n != m and runs[n] and runs[m]
            for n, a in enumerate(written)
            for m, b in enumerate(touched)
        )
    found = codes & {"duplicate-write", "loop-carried"}
    assert clash == bool(found | codes & {"independence-unproved"})
    runs = [p for p in points if all(g.evaluate(p) >= 0 for g in guards)]
    met = [tuple(x.evaluate(p) for x in write) for p in runs]
    meets = len(set(met)) < len(met)
    if isinstance(value, Read):
        read_at = [tuple(x.evaluate(p) for x in read) for p in runs]
        meets |= any(a == b and n != m for n, a in enumerate(met) for m, b in enumerate(read_at))
    assert meets == bool(found), "what is said to be found is there, and what is there is found"


def _guard(terms: list[Index]) -> Expr | None:
    """Return whether every term is >= 0."""
    holds = [Call("ge", (IndexValue(t, I64), Const(0, I64)), BOOL) for t in terms]
    return reduce(lambda left, right: Call("and", (left, right), BOOL), holds) if holds else None


@st.composite
def linear(draw: st.DrawFn) -> Index:
    """Axes once or twice each, the size once, and a small number: what mirrors, folds and triangles read."""
    slopes = {name: draw(st.integers(-2, 2)) for name in AXES}
    whole = draw(st.integers(-3, 3)) + Index.of("N") * draw(st.integers(0, 1))
    return sum((Index.of(name) * slope for name, slope in slopes.items()), start=whole)


LINEAR = st.lists(linear(), min_size=2, max_size=2)
ONE_AXIS = [[Index.of("i"), Index.of("j")], [Index.of("j"), Index.of("i")]]


@given(
    LINEAR | st.sampled_from(ONE_AXIS),
    LINEAR | st.sampled_from(ONE_AXIS),
    st.lists(linear(), min_size=1, max_size=2),
)
def test_iterations_that_guards_keep_apart_never_meet(
    write: list[Index], read: list[Index], guards: list[Index]
) -> None:
    size, one = Index.of("N"), Const(1.0, F32)
    f, g = (Read("C", tuple(index), F32) for index in (write, read))
    axes = tuple(AxisAt(name, size, False, 1) for name in AXES)
    site = Site(Assign(f, None, one), axes, tuple(guards), 0)
    apart = {
        axis for axis in AXES if never_meet(f, g, site, site, axis, (), FreeSizes(Facts(lows={"N": 1}), {}))
    }
    for n in range(1, 6) if apart else ():
        points = [{"i": i, "j": j, "N": n} for i in range(n) for j in range(n)]
        runs = [p for p in points if all(x.evaluate(p) >= 0 for x in guards)]
        for p, q in product(runs, runs):
            if all(x.evaluate(p) == y.evaluate(q) for x, y in zip(write, read, strict=True)):
                assert all(p[axis] == q[axis] for axis in apart), (p, q)
