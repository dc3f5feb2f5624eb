"""Statements in one loop over blocks: what shares one, which temporaries shrink, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from isamap.ir import Assign, Index, Kernel, Loop, Stmt, bind, print_routine
from isamap.ir.substitute import substitute_stmt
from isamap.source import Source, UsageProblem
from isamap.syntax import parse_kernel
from isamap.transform import Blocks, in_blocks, make_guards_explicit, share_blocks
from isamap.transform.block_check import Samples, check_blocks

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
BEFORE = "for n in N, m in M { y[n, m] = t[n, m] + (t[n - 1, m] else 0); }"
LEFT = "for n in N, m in M { t[n, m] = x[n, m] if 2*m >= s; } for n in N, m in M { y[n, m] = t[n, m]; }"
REFUSED = {
    "no statement has a loop over `q` that is free of order": ("q", FILL + PASS_ON),
    "no temporary shrinks to blocks of `n`": ("n", "for n in N, m in M { y[n, m] = x[n, m]; }"),
    "`n` has 20000 blocks; the limit is 16384": ("n", FILL + PASS_ON),
    "`n` has 40000 iterations; the limit is 16384": ("n", FILL + BEFORE),
    "`y[n, m] = select(m > 0, t[n, m] + y[n, 0], y[n, m])` may read a later block's result in `y`": (
        "m",
        FILL + ACROSS,
    ),
    "`t[n, m] += y[n, m]` may read a later block's result in `y`": ("m", FILL + SUMS + HALO),
    "`u[m] = x[0, m] * y[0, 0]` needs `y[n, m] = t[n, m]` as a whole": ("n", FILL + PASS_ON + BETWEEN),
    "`t` may hold a value from an earlier iteration of the loop around": ("m", f"seq s in 3 {{ {LEFT} }}"),
}


@pytest.mark.parametrize(("why", "case"), REFUSED.items(), ids=[str(n) for n in range(len(REFUSED))])
def test_what_is_refused_says_which_condition_does_not_hold(why: str, case: tuple[str, str]) -> None:
    axis, body = case
    kernel = canonical(HEAD.format(body), N=40000 if "limit" in why else 8, M=6)
    assert share_blocks(kernel, Blocks(axis, 2)) == why
    with pytest.raises(UsageProblem, match="blocks-refused"):
        in_blocks(kernel, [Blocks(axis, 2)])


def test_open_sizes_have_no_blocks() -> None:
    kernel = make_guards_explicit(parse_kernel(Source("test", PAIR)))
    assert share_blocks(kernel, Blocks("p", 2)) == "how long `c` is has to be known"


STEPS = """kernel steps(T, N) {
  in push: f32[T, N];
  inout x: f32[N];
  inout v: f32[N];
  temp a: f32[N];
  seq t in T {
    for n in N { a[n] = push[t, n] - x[n]; }
    for n in N { v[n] = v[n] + a[n]; }
    for n in N { x[n] = x[n] + v[n]; }
  }
}"""
IN_STRIPS = """kernel steps() {
  in push: f32[5, 11];
  inout x: f32[11];
  inout v: f32[11];
  temp a: f32[4];
  seq n_block in 2, t in 5 {
    for n in 4 { a[n] = push[t, n + 4*n_block] - x[n + 4*n_block]; }
    for n in 4 { v[n + 4*n_block] = v[n + 4*n_block] + a[n]; }
    for n in 4 { x[n + 4*n_block] = x[n + 4*n_block] + v[n + 4*n_block]; }
  }
  seq t in 5 {
    for n in 3 { a[n] = push[t, n + 8] - x[n + 8]; }
    for n in 3 { v[n + 8] = v[n + 8] + a[n]; }
    for n in 3 { x[n + 8] = x[n + 8] + v[n + 8]; }
  }
}
"""


def test_blocks_of_independent_rows_stand_around_the_ordered_loops_of_the_kernel() -> None:
    kernel = canonical(STEPS, T=5, N=11)
    assert print_routine(in_blocks(kernel, [Blocks("n", 4)])) == IN_STRIPS


def test_state_that_no_temporary_passes_on_has_blocks_around_ordered_loops_alone() -> None:
    text = "kernel k(T, N) { inout x: f32[N]; seq t in T { for n in N { x[n] = x[n] * x[n]; } } }"
    found = print_routine(in_blocks(canonical(text, T=5, N=8), [Blocks("n", 4)]))
    assert "seq n_block in 2, t in 5 {" in found
    assert share_blocks(canonical(text, T=5, N=8), Blocks("n", 4)) == "no temporary shrinks to blocks of `n`"


def test_rows_that_need_their_neighbours_in_the_next_turn_stay_inside_of_ordered_loops() -> None:
    text = STEPS.replace("- x[n]", "- (x[n + 1] else 0)")
    kernel = canonical(text, T=5, N=11)
    assert share_blocks(kernel, Blocks("n", 4), frozenset("t")) == (
        "`x[n] = x[n] + v[n]` may read a later block's result in `x`"
    )


def test_two_axes_of_state_are_cut_around_ordered_loops_one_inside_the_other() -> None:
    text = STEPS.replace("[N]", "[M, N]").replace("[T, N]", "[T, M, N]").replace("(T, N)", "(T, M, N)")
    text = text.replace("for n", "for m in M, n").replace("[n]", "[m, n]").replace("[t, n]", "[t, m, n]")
    found = print_routine(in_blocks(canonical(text, T=5, M=3, N=8), [Blocks("m", 1), Blocks("n", 4)]))
    assert "seq m_block in 3, n_block in 2, t in 5 {" in found


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


def test_of_independent_rows_the_first_and_the_last_blocks_are_looked_at() -> None:
    kernel = canonical(STEPS, T=5, N=400)
    after = in_blocks(kernel, [Blocks("n", 9)])
    samples = Samples(frozenset((*range(18), *range(387, 400))), frozenset((0, 1, 43)))
    rows = {"a": 0, "x": 0, "v": 0}
    assert check_blocks(kernel, after, rows, samples) == ()
    loop = after.body[0]
    assert isinstance(loop, Loop)
    swapped = replace(loop, body=(loop.body[1], loop.body[0], loop.body[2]))
    wrong = check_blocks(kernel, replace(after, body=(swapped, *after.body[1:])), rows, samples)
    assert wrong == ("`a` is used in row 0 before it is filled",)
    short = replace(loop, axes=(replace(loop.axes[0], extent=Index.of(43)), *loop.axes[1:]))
    wrong = check_blocks(kernel, replace(after, body=(short, *after.body[1:])), rows, samples)
    assert wrong == ("row 387 of `v` is computed otherwise",)


def test_statements_may_count_a_dimension_by_one_axis_or_by_two() -> None:
    text = """kernel k(H, R, T) {
      in X: f32[H*R, T]; out O: f32[H*R, T]; temp S: f32[H*R, T];
      for h in H, r in R, i in T { S[h*R + r, i] = X[h*R + r, i]; }
      for h in H*R, i in T { S[h, i] = exp(S[h, i]); }
      for h in H, r in R, i in T { O[h*R + r, i] = S[h*R + r, i] * X[h*R + r, i]; } }"""
    found = in_blocks(canonical(text, H=2, R=2, T=9), [Blocks("i", 2)])
    assert [str(e) for e in found.operand("S").shape] == ["4", "2"]
