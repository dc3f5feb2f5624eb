"""Sound routines pass the verifier without a word, whatever their sizes."""

from __future__ import annotations

import pytest

from isamap.ir import bind, verify
from isamap.source import Source, TypeProblem
from isamap.syntax import parse_kernel, parse_module

SOUND = {
    "a gemm": """
        kernel k(M, N, K) { in A: f32[M, K]; in B: f32[K, N]; inout C: f32[M, N];
          for m in M, n in N, k in K { C[m, n] += A[m, k] * B[k, n]; } }""",
    "a convolution with stride and padding": """
        kernel k(N, C, H, W, K, R, S, s: 1..4 = 1, pad: 0..8 = 0) where R <= H + 2*pad, S <= W + 2*pad {
          let P = (H + 2*pad - R) / s + 1; let Q = (W + 2*pad - S) / s + 1;
          in X: f32[N, C, H, W]; in F: f32[K, C, R, S]; inout Y: f32[N, K, P, Q];
          for n in N, k in K, p in P, q in Q, c in C, i in R, j in S {
            Y[n, k, p, q] += (X[n, c, p*s + i - pad, q*s + j - pad] else 0) * F[k, c, i, j]; } }""",
    "a strided convolution without padding": """
        kernel k(H, R, s: 1..4) where R <= H { let P = (H - R) / s + 1;
          in X: f32[H]; in F: f32[R]; inout Y: f32[P];
          for p in P, r in R { Y[p] += X[p*s + r] * F[r]; } }""",
    "a dilated convolution": """
        kernel k(N, R, d: 1..4, s: 1..3) where (R - 1)*d + 1 <= N { let P = (N - (R - 1)*d - 1) / s + 1;
          in X: f32[N]; in F: f32[R]; inout Y: f32[P];
          for p in P, r in R { Y[p] += X[p*s + r*d] * F[r]; } }""",
    "a grouped convolution": """
        kernel k(N, G, C, K, H, R) where R <= H { let P = H - R + 1;
          in X: f32[N, G*C, H]; in F: f32[G*K, C, R]; inout Y: f32[N, G*K, P];
          for n in N, g in G, c in C, k in K, p in P, r in R {
            Y[n, g*K + k, p] += X[n, g*C + c, p + r] * F[g*K + k, c, r]; } }""",
    "two stages with a temporary": """
        kernel k(C, K, H, R) where R <= H { let P = H - R + 1;
          in X: f32[C, H]; in D: f32[C, R]; in F: f32[K, C]; out Y: f32[K, P]; temp T: f32[C, P];
          for c in C, p in P { T[c, p] = 0; }
          for c in C, p in P, r in R { T[c, p] += X[c, p + r] * D[c, r]; }
          for k in K, p in P { Y[k, p] = 0; }
          for k in K, p in P, c in C { Y[k, p] += T[c, p] * F[k, c]; } }""",
    "a recurrence in time": """
        kernel k(T, B, H) { in X: f32[T, B, H]; in U: f32[H, H]; inout h: f32[B, H]; temp g: f32[B, H];
          seq t in T {
            for b in B, j in H { g[b, j] = 0; }
            for b in B, j in H, k in H { g[b, j] += h[b, k] * U[j, k]; }
            for b in B, j in H { h[b, j] = tanh(g[b, j] + X[t, b, j]); } } }""",
    "a scan ordered inside": """
        kernel k(N, B) { in X: f32[N, B]; out h: f32[N + 1, B];
          for b in B { h[0, b] = 0; seq i in N { h[i + 1, b] = h[i, b] + X[i, b]; } } }""",
    "a fused index": """
        kernel k(M, K) { in A: f32[M*K]; out B: f32[M, K]; for i in M*K { B[i / K, i % K] = A[i]; } }""",
    "a split by a known divisor": """
        kernel k(M, K) where K % 4 == 0 { in A: f32[M, K]; out B: f32[M, K/4, 4];
          for m in M, q in K/4, r in 4 { B[m, q, r] = A[m, 4*q + r]; } }""",
    "a mask": """
        kernel k(N, L) where L <= N { in A: f32[L]; out B: f32[N];
          for i in N { B[i] = 0; } for i in N if i < L { B[i] = A[i]; } }""",
    "padding by reflection at two ends": """
        kernel k(H, W, p: 1..4) where p < H, p < W { in x: f32[H, W]; out y: f32[H + 2*p, W + 2*p];
          for h in H + 2*p, w in W + 2*p {
            y[h, w] = x[min(max(h - p, p - h), 2 * (H - 1) + p - h),
                        min(max(w - p, p - w), 2 * (W - 1) + p - w)]; } }""",
    "padding by reflection with the edge": """
        kernel k(H, p) where p <= H { in x: f32[H]; out y: f32[H + 2*p];
          for h in H + 2*p { y[h] = x[min(max(h - p, p - h - 1), 2*H - 1 + p - h)]; } }""",
    "padding that repeats the edge": """
        kernel k(H, l, r) { in x: f32[H]; out y: f32[H + l + r];
          for h in H + l + r { y[h] = x[max(0, min(h - l, H - 1))]; } }""",
    "points of one colour of two": """
        kernel k(N, M) { inout x: f32[N + 2, M + 2];
          for i in N, j in M if (i + j) % 2 == 0 {
            x[i + 1, j + 1] = x[i, j + 1] + x[i + 2, j + 1] + x[i + 1, j] + x[i + 1, j + 2]; } }""",
    "points of one colour of four": """
        kernel k(N, M) { inout x: f32[N + 2, M + 2];
          for i in N, j in M if i % 2 == 0 & j % 2 == 1 {
            x[i + 1, j + 1] = x[i, j] + x[i + 2, j + 2] + x[i + 1, j] + x[i, j + 1]; } }""",
    "every third point from its neighbours": """
        kernel k(N) { inout x: f32[N + 2]; for i in N if i % 3 == 1 { x[i + 1] = x[i] + x[i + 2]; } }""",
    "points of one colour, stored side by side": """
        kernel k(N, M) { inout x: f32[N + 2, 2*M + 2];
          for i in N, j in M {
            x[i + 1, 2*j + i % 2 + 1] = x[i, 2*j + i % 2 + 1] + x[i + 2, 2*j + i % 2 + 1]; } }""",
    "points of one colour around a ring": """
        kernel k(N) where N % 2 == 0 { inout x: f32[N];
          for i in N if i % 2 == 0 { x[i] = x[(i + 1) % N] + x[(i + N - 1) % N]; } }""",
    "the other half of a ring": """
        kernel k(N) { inout x: f32[2*N]; for i in 2*N if i < N { x[i] = x[(i + N) % (2*N)]; } }""",
    "partners in blocks of eight": """
        kernel k(N) where N % 8 == 0 { in x: f32[N]; out y: f32[N];
          for i in N { y[i] = x[i] + x[8 * (i / 8) + (i + 4) % 8]; } }""",
    "an interleave": """
        kernel k(N) { in A: f32[N]; in B: f32[N]; out Z: f32[2*N];
          for i in N { Z[2*i] = A[i]; Z[2*i + 1] = B[i]; } }""",
    "a concatenation": """
        kernel k(N) { in A: f32[N]; in B: f32[N]; out Z: f32[2*N];
          for i in N { Z[i] = A[i]; Z[N + i] = B[i]; } }""",
    "a transposed triangle": """
        kernel k(N) { in A: f32[N, N]; out B: f32[N, N] outside undefined;
          for i in N, j in N { B[j, i] = A[i, j] if j <= i; } }""",
    "a window guarded at both ends": """
        kernel k(H, R) { in x: f32[H]; inout y: f32[H];
          for i in H, r in R if i + r >= 1 & i + r < H + 1 { y[i] += x[i + r - 1]; } }""",
    "windows of two axes guarded at both ends": """
        kernel k(H, W, R, S, p: 0..3) { in x: f32[H, W]; inout y: f32[H, W];
          for i in H, j in W, r in R, s in S
              if i + r >= p & i + r < H + p & j + s >= p & j + s < W + p {
            y[i, j] += x[i + r - p, j + s - p]; } }""",
    "a dilated window guarded word for word": """
        kernel k(N, R, d: 1..4) { in x: f32[N]; inout y: f32[N];
          for i in N, r in R if i + r*d < N { y[i] += x[i + r*d]; } }""",
    "a guard by a remainder": """
        kernel k(N, n: 1..4) { in x: f32[n]; inout y: f32[N];
          for i in N if i % 4 < n { y[i] += x[i % 4]; } }""",
    "a transposed convolution by its outputs": """
        kernel k(N, s: 1..4, R: 1..5) { in x: f32[N]; inout y: f32[N*s];
          for i in N*s, r in R if (i - r) % s == 0 & i - r >= 0 { y[i] += x[(i - r) / s]; } }""",
    "a guard that leaves one out": """
        kernel k(N) { in x: f32[N]; inout y: f32[N]; for i in N if i != N - 1 { y[i] += x[i + 1]; } }""",
    "scales of groups of any size": """
        kernel k(M, G: 1..64) where M % G == 0, M % 8 == 0 {
          in s: f32[M / G]; in x: f32[M / G, G]; in t: f32[M / 8]; out y: f32[M];
          for m in M { y[m] = s[m / G] * x[m / G, m % G] * t[m / 8]; } }""",
    "an image enlarged to the nearest": """
        kernel k(H, s: 1..8) where H % s == 0 { in x: f32[H / s]; out y: f32[H];
          for h in H { y[h] = x[h / s]; } }""",
    "padding by reflection": """
        kernel k(N, p: 1..4) where p < N { in x: f32[N]; out y: f32[N + 2*p];
          for i in N + 2*p { y[i] = x[min(max(i - p, p - i), 2*N - 2 - max(i - p, p - i))]; } }""",
    "a rotation": """
        kernel k(N) { in x: f32[N]; out y: f32[N]; for n in N { y[(n + 1) % N] = x[n]; } }""",
    "channels of groups shuffled": """
        kernel k(N, G) { in x: f32[N*G]; out y: f32[N*G]; for i in N*G { y[i % G * N + i / G] = x[i]; } }""",
    "a transpose by lanes": """
        kernel k() { in A: f32[16]; out B: f32[16]; for i in 16 { B[i / 4 + 4*(i % 4)] = A[i]; } }""",
}  # fmt: skip


@pytest.mark.parametrize("text", SOUND.values(), ids=SOUND.keys())
def test_a_sound_kernel_has_no_findings(text: str) -> None:
    assert verify(parse_kernel(Source("sound.ir", text))) == ()


@pytest.mark.parametrize("text", SOUND.values(), ids=SOUND.keys())
def test_a_sound_kernel_stays_sound_when_its_sizes_are_bound(text: str) -> None:
    kernel = parse_kernel(Source("sound.ir", text))
    sizes = {p.name: 8 if p.low is None else 1 for p in kernel.params}
    assert verify(bind(kernel, sizes | {n: 3 for n in ("R", "S") if n in sizes})) == ()


def test_a_proof_that_leads_in_circles_ends_unproved() -> None:
    """Each guard bounds i by r and r by i, and none of them says enough."""
    text = """
        kernel k(H, R) { in x: f32[H]; inout y: f32[H];
          for i in H, r in R, s in R
              if 3*i - 2*r + s >= 1 & 3*r - 2*i + s >= 0 & i - 2*s + r >= 0 & s <= 2*i + r {
            y[i] += x[i + r - 3*s]; } }"""
    with pytest.raises(TypeProblem) as error:
        parse_kernel(Source("circles.ir", text))
    assert {d.code for d in error.value.diagnostics} == {"index-out-of-range"}


def test_a_machine_constant_is_a_size_of_its_range() -> None:
    text = """
        memory r: registers(count = 32, bytes = 256);
        machine VL: 4..64;
        instruction f() { in a: f32[VL] @ r; out z: f32[4] @ r; for i in 4 { z[i] = a[i]; } }"""
    assert len(parse_module(Source("vl.isa", text)).declarations) == 3


def _codes(text: str) -> list[str]:
    try:
        parse_kernel(Source("k.ir", text))
    except TypeProblem as error:
        return sorted(d.code for d in error.diagnostics)
    return []


def test_a_sound_routine_vouches_for_none_with_other_accesses_guards_or_roles() -> None:
    text = """kernel k(N) { in A: f32[N]; out B: f32[N]; for i in N { B[i] = A[i]; } }"""
    assert _codes(text) == []
    assert _codes(text.replace("f32", "i8")) == []
    assert _codes(text.replace("= A[i]", "= A[i + 1]")) == ["index-out-of-range"]
    assert _codes(text.replace("B[i] =", "B[0] =")) == ["duplicate-write", "partly-written"]
    assert _codes(text.replace("in N {", "in N if i < N - 1 {")) == ["partly-written"]
    assert _codes(text.replace("B[i] = A", "B[i] += A")) == ["read-before-write"]
    assert _codes(text.replace("in A", "temp A")) == ["read-before-write"]


def test_a_routine_with_findings_keeps_its_own_places() -> None:
    text = """kernel k(N) { in A: f32[N]; out B: f32[N]; for i in N { B[i] = A[i + 1]; } }"""
    for before in ("", "\n\n"):
        with pytest.raises(TypeProblem) as caught:
            parse_kernel(Source("k.ir", before + text))
        assert [d.span.line for d in caught.value.diagnostics if d.span] == [1 + len(before)]
