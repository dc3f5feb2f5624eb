"""Statements in one loop over blocks: what shares one, which temporaries shrink, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from isamap.ir import Assign, Index, Kernel, Loop, Stmt, bind, print_routine
from isamap.ir.substitute import substitute_stmt
from isamap.source import Source, UsageProblem
from isamap.syntax import parse_kernel
from isamap.transform import Blocks, in_blocks, make_guards_explicit, shared_blocks
from isamap.transform.block_check import check_blocks

PAIR = """kernel pair(C, K, H) {
  in X: f32[C, H];
  in F: f32[C, 3];
  in G: f32[K, C];
  temp T: f32[C, H];
  inout Y: f32[K, H];
  for c in C, p in H { T[c, p] = 0; }
  for c in C, p in H, r in 3 { T[c, p] += (X[c, p + r - 1] else 0) * F[c, r]; }
  for k in K, p in H, c in C { Y[k, p] += T[c, p] * G[k, c]; }
}"""
IN_BLOCKS = """kernel pair() {
  in X: f32[2, 9];
  in F: f32[2, 3];
  in G: f32[5, 2];
  temp T: f32[2, 3];
  inout Y: f32[5, 9];
  temp X_padded: f32[2, 5];
  for c in 2, p in 3 { T[c, p] = 0; }
  for i0 in 2, i1 in 5 { X_padded[i0, i1] = 0; }
  for i0 in 2, i1 in 4 { X_padded[i0, i1 + 1] = X[i0, i1]; }
  for c in 2, p in 3, r in 3 { T[c, p] += X_padded[c, p + r] * F[c, r]; }
  for k in 5, p in 3, c in 2 { Y[k, p] += T[c, p] * G[k, c]; }
  for c in 2, p in 3 { T[c, p] = 0; }
  for i0 in 2, i1 in 5 { X_padded[i0, i1] = 0; }
  for i0 in 2, i1 in 5 { X_padded[i0, i1] = X[i0, i1 + 2]; }
  for c in 2, p in 3, r in 3 { T[c, p] += X_padded[c, p + r] * F[c, r]; }
  for k in 5, p in 3, c in 2 { Y[k, p + 3] += T[c, p] * G[k, c]; }
  for c in 2, p in 3 { T[c, p] = 0; }
  for i0 in 2, i1 in 5 { X_padded[i0, i1] = 0; }
  for i0 in 2, i1 in 4 { X_padded[i0, i1] = X[i0, i1 + 5]; }
  for c in 2, p in 3, r in 3 { T[c, p] += X_padded[c, p + r] * F[c, r]; }
  for k in 5, p in 3, c in 2 { Y[k, p + 6] += T[c, p] * G[k, c]; }
}
"""


def canonical(text: str, **sizes: int) -> Kernel:
    return make_guards_explicit(bind(parse_kernel(Source("test", text)), sizes))


def test_edges_of_an_image_are_blocks_of_their_own() -> None:
    kernel = canonical(PAIR, C=2, K=5, H=9)
    assert print_routine(in_blocks(kernel, [Blocks("p", 3)])) == IN_BLOCKS


def test_blocks_alike_are_one_loop_and_the_rest_stands_apart() -> None:
    found = in_blocks(canonical(PAIR, C=2, K=5, H=23), [Blocks("p", 4)])
    loops = [s for s in found.body if isinstance(s, Loop) and s.ordered]
    assert [(str(a.extent), a.name) for s in loops for a in s.axes] == [("4", "p_block")]
    assert [str(e) for e in found.operand("X_padded").shape] == ["2", "6"]
    assert "for k in 5, p in 3, c in 2 { Y[k, p + 20] += T[c, p] * G[k, c]; }" in print_routine(found)


def test_a_block_as_long_as_the_axis_is_none() -> None:
    kernel = canonical(PAIR, C=2, K=5, H=9)
    assert in_blocks(kernel, [Blocks("p", 9)]) == kernel


def test_several_axes_are_cut_one_inside_the_other() -> None:
    text = """kernel twice(L, M, N) {
      in x: f32[L, M, N]; out y: f32[L, M]; temp t: f32[L, M, N];
      for l in L, m in M, n in N { t[l, m, n] = x[l, m, n] * x[l, m, n]; }
      for l in L, m in M { y[l, m] = 0; }
      for l in L, m in M, n in N { y[l, m] += t[l, m, n]; } }"""
    found = in_blocks(canonical(text, L=2, M=5, N=7), [Blocks("l", 1), Blocks("m", 2)])
    assert (
        print_routine(found)
        == """kernel twice() {
  in x: f32[2, 5, 7];
  out y: f32[2, 5];
  temp t: f32[1, 2, 7];
  seq l_block in 2 {
    seq m_block in 2 {
      for m in 2, n in 7 {
        t[0, m, n] = x[l_block, m + 2*m_block, n] * x[l_block, m + 2*m_block, n];
      }
      for m in 2 { y[l_block, m + 2*m_block] = 0; }
      for m in 2, n in 7 { y[l_block, m + 2*m_block] += t[0, m, n]; }
    }
    for n in 7 { t[0, 0, n] = x[l_block, 4, n] * x[l_block, 4, n]; }
    y[l_block, 4] = 0;
    for n in 7 { y[l_block, 4] += t[0, 0, n]; }
  }
}
"""
    )


def test_what_fills_a_temporary_may_read_rows_that_a_block_has_written() -> None:
    text = """kernel softmax(M, N) {
      in x: f32[M, N]; out y: f32[M, N]; temp total: f32[M];
      for m in M, n in N { y[m, n] = exp(x[m, n]); }
      for m in M { total[m] = 0; }
      for m in M, n in N { total[m] += y[m, n]; }
      for m in M, n in N { y[m, n] = y[m, n] / total[m]; } }"""
    found = print_routine(in_blocks(canonical(text, M=4, N=7), [Blocks("m", 2)]))
    assert "temp total: f32[2];" in found
    assert "for m in 2, n in 7 { total[m] += y[m + 2*m_block, n]; }" in found


HEAD = "kernel k(N, M) {{ in x: f32[N, M]; inout y: f32[N, M]; temp t: f32[N, M]; temp u: f32[M]; {} }}"
FILL = "for n in N, m in M { t[n, m] = x[n, m]; } "
PASS_ON = "for n in N, m in M { y[n, m] = t[n, m]; } "
ACROSS = (
    "for n in N, m in 1 { y[n, m] = x[n, m]; } for n in N, m in M { y[n, m] = t[n, m] + y[n, 0] if m > 0; }"
)
BETWEEN = "for m in M { u[m] = x[0, m] * y[0, 0]; } for n in N, m in M { y[n, m] = u[m] * t[n, m]; }"
SUMS = "for n in N, m in M { y[n, m] = x[n, m]; } for n in N, m in M { t[n, m] += y[n, m]; } "
HALO = "for n in N, m in M { y[n, m] = t[n, m] + (t[n, m - 1] else 0); }"
LEFT = "for n in N, m in M { t[n, m] = x[n, m] if m >= s; } for n in N, m in M { y[n, m] = t[n, m]; }"
REFUSED = {
    "no statement has a loop over `q` that is free of order": ("q", FILL + PASS_ON),
    "no temporary shrinks to blocks of `n`": ("n", "for n in N, m in M { y[n, m] = x[n, m]; }"),
    "`n` has 20000 iterations; the limit is 16384": ("n", FILL + PASS_ON),
    "`y[n, m] = select(m > 0, t[n, m] + y[n, 0], y[n, m])` may need what a later block does to `y`": (
        "m",
        FILL + ACROSS,
    ),
    "`t[n, m] += y[n, m]` may need what a later block does to `y`": ("m", FILL + SUMS + HALO),
    "`u[m] = x[0, m] * y[0, 0]` needs `y[n, m] = t[n, m]` as a whole": ("n", FILL + PASS_ON + BETWEEN),
    "`t` may hold what an earlier iteration of the loop around left in it": ("m", f"seq s in 3 {{ {LEFT} }}"),
}


@pytest.mark.parametrize(("why", "case"), REFUSED.items(), ids=[str(n) for n in range(len(REFUSED))])
def test_what_is_refused_says_which_condition_does_not_hold(why: str, case: tuple[str, str]) -> None:
    axis, body = case
    kernel = canonical(HEAD.format(body), N=20000 if "20000" in why else 8, M=6)
    assert shared_blocks(kernel, Blocks(axis, 2)) == why
    with pytest.raises(UsageProblem, match="blocks-refused"):
        in_blocks(kernel, [Blocks(axis, 2)])


def test_open_sizes_have_no_blocks() -> None:
    kernel = make_guards_explicit(parse_kernel(Source("test", PAIR)))
    assert shared_blocks(kernel, Blocks("p", 2)) == "how long `p` is has to be known"


# --- the judge --------------------------------------------------------------------------------------------

ROWS = {"T": 1, "X_padded": 1, "Y": 1}


def changed(kernel: Kernel, number: int, change: Callable[[Stmt], Stmt | None]) -> Kernel:
    body = [change(s) if n == number else s for n, s in enumerate(kernel.body)]
    return replace(kernel, body=tuple(s for s in body if s is not None))


def shorter(kernel: Kernel, name: str, by: int) -> Kernel:
    cut = (
        replace(o, shape=(*o.shape[:-1], o.shape[-1] - by)) if o.name == name else o for o in kernel.operands
    )
    return replace(kernel, operands=tuple(cut))


def moved(axis: str, by: int) -> Callable[[Stmt], Stmt]:
    def change(s: Stmt) -> Stmt:
        assert isinstance(s, Loop)
        inner = substitute_stmt(s.body[0], {axis: Index.of(axis) + by})
        assert isinstance(inner, Assign)
        return replace(s, body=(inner,))

    return change


def moved_target(s: Stmt, by: int) -> Stmt:
    assert isinstance(s, Loop)
    (assign,) = s.body
    assert isinstance(assign, Assign)
    target = replace(assign.target, index=(*assign.target.index[:-1], assign.target.index[-1] + by))
    return replace(s, body=(replace(assign, target=target),))


Change = Callable[[Kernel], Kernel]
WRONG: dict[str, tuple[Change, str]] = {
    "a filling is left out": (
        lambda k: changed(k, 5, lambda _: None),
        "row 3 of `Y` is computed otherwise",
    ),
    "a first one is left out": (
        lambda k: changed(k, 0, lambda _: None),
        "`T` is used in row 0 before it is filled",
    ),
    "a row is read beside": (
        lambda k: changed(k, 8, moved("r", 1)),
        "`X_padded` is used in row 5, and has 5",
    ),
    "a block is done elsewhere": (
        lambda k: changed(k, 9, lambda s: moved_target(s, 3)),
        "row 3 of `Y` is computed otherwise",
    ),
    "what is read is filled later": (
        lambda k: replace(k, body=(*k.body[:3], k.body[4], k.body[3], *k.body[5:])),
        "row 0 of `Y` is computed otherwise",
    ),
    "a temporary is too short": (
        lambda k: shorter(k, "T", 1),
        "`T` is used in row 2, and has 2",
    ),
}


@pytest.mark.parametrize(("change", "said"), WRONG.values(), ids=WRONG.keys())
def test_the_judge_finds_what_is_computed_otherwise(change: Change, said: str) -> None:
    kernel = canonical(PAIR, C=2, K=5, H=9)
    after = in_blocks(kernel, [Blocks("p", 3)])
    assert check_blocks(kernel, after, ROWS) == ()
    assert check_blocks(kernel, change(after), ROWS) == (said,)
