"""What the verifier proves holds: compared with all values of small sizes and all pairs of iterations."""

from __future__ import annotations

from itertools import product

from hypothesis import given
from hypothesis import strategies as st
from properties.routines import indices

from isamap.ir import (
    F32,
    Assign,
    Axis,
    Const,
    Facts,
    Index,
    Kernel,
    Loop,
    Operand,
    Read,
    is_nonnegative,
    verify,
)

SIZES = ("M", "N", "K")
AXES = ("i", "j")


@given(
    indices((*AXES, *SIZES), 3),
    st.lists(indices(SIZES, 1), max_size=2),
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
            if any(f.evaluate(env) < 0 for f in stated):
                continue
            ranges = [range(x.evaluate(env)) for x in axes.values()]
            values = [e.evaluate({**env, "i": i, "j": j}) for i, j in product(*ranges)]
        except ZeroDivisionError:
            continue
        assert all(v >= 0 for v in values), (str(e), [str(f) for f in stated], env)


@st.composite
def subscripts(draw: st.DrawFn) -> tuple[Index, ...]:
    """One or two subscripts of digits, divisions and remainders of two axes."""
    return tuple(draw(st.lists(indices(AXES, 2), min_size=1, max_size=2).filter(_is_concrete)))


def _is_concrete(found: list[Index]) -> bool:
    return all(i.symbols <= set(AXES) for i in found)


@given(subscripts(), subscripts(), st.integers(1, 6), st.integers(1, 6), st.booleans())
def test_iterations_that_pass_as_independent_are(
    write: tuple[Index, ...], read: tuple[Index, ...], rows: int, columns: int, reads: bool
) -> None:
    one = Const(1.0, F32)
    shape = (Index.of(1000),) * len(write)
    target = Read("C", write, F32)
    same_rank = len(write) == len(read)
    value = Read("C", read, F32) if reads and same_rank else one
    loop = Loop((Axis("i", Index.of(rows)), Axis("j", Index.of(columns))), (Assign(target, None, value),))
    kernel = Kernel("k", (), (Operand("C", "inout", F32, shape),), (loop,))
    codes = {d.code for d in verify(kernel)}
    points = [{"i": i, "j": j} for i in range(rows) for j in range(columns)]
    written = [tuple(x.evaluate(p) for x in write) for p in points]
    clash = len(set(written)) < len(written)
    if isinstance(value, Read):
        touched = [tuple(x.evaluate(p) for x in read) for p in points]
        clash |= any(a == b for n, a in enumerate(written) for m, b in enumerate(touched) if n != m)
    assert clash == bool(codes & {"duplicate-write", "loop-carried"})
