"""What a message of the language advises works: its edit is made, or the text that it leads to is right.

A finding of `language/` with a `help` that names code has an edit, which is made here; or the text that the
advice leads to stands below; or the reason why there is none.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from isamap.source import Diagnostic, IsamapError, Source, apply_edits
from isamap.syntax import parse_module
from isamap.syntax.hints import read_other_languages

FILES = sorted((Path(__file__).parent / "language").glob("*.txt"))
HEAD = "kernel k(M) { in A: f32[M]; inout C: f32[M]; "
REGISTERS = "memory r: registers(count = 4, bytes = 64); "
FOLLOWED = {
    "bad-divisor": "kernel k(M, s: 1..3) { inout C: f32[M]; for i in M { C[i / s] += 1; } }",
    "bad-domain": """kernel k(M) { in A: i32[M] values 0..9; in B: f32[10]; inout C: f32[M];
        for i in M { C[i] += B[A[i]]; } }""",
    "bad-domain-of-two-axes": """kernel k(M, N, L) { in Q: i32[M*N] values 0..L - 1; in A: f32[L];
        inout C: f32[M, N]; for i in M, j in N { C[i, j] += A[Q[N*i + j]]; } }""",
    "bad-parameter": "kernel k(M) { inout C: f32[M]; for i in M { C[i] = 0; } }",
    "bad-range": "kernel k(M, pad: 0..64 = 0) { inout C: f32[M]; for i in M { C[i] = 0; } }",
    "cannot-infer-type": "kernel k() { out C: f32; C = select(f32(1) < 2, 1, 0); }",
    "conditional-operator": HEAD + "for i in M { C[i] = select(A[i] > 0, A[i], 0); } }",
    "duplicate-write": """kernel k(M, N) { in A: f32[M, N]; inout C: f32[M];
        for i in M, j in N { C[i] += A[i, j]; } }""",
    "extent-varies": "kernel k(M) { inout C: f32[M, M]; for i in M, j in M if j < i { C[i, j] += 1; } }",
    "function-of-a-size": "function f(N: f32) { return N; } kernel k(M) { out C: f32; C = f(2); }",
    "function-too-large": """function f(x: f32) { return x * x; }
        kernel k(M) { inout C: f32[M]; temp a: f32[M]; for i in M { a[i] = f(C[i]); C[i] = f(a[i]); } }""",
    "if-statement": "kernel k(M) { inout C: f32[M]; C[0] = 1 if M > 3; }",
    "independence-unproved": """kernel k(N) { in x: f32[2*N + 1]; inout y: f32[2*N + 1];
        seq n in 2*N + 1 { y[4*n % (2*N + 1)] = x[n]; } }""",
    "independence-unproved-of-guards": """kernel k(N) { in x: f32[N]; inout y: f32[N];
        seq n in N { y[n / 2] = x[n] if n % 2 == 0; } }""",
    "index-unproved-whole-blocks": """kernel k(N, K) where K % 64 == 0 {
        in S: f32[N, K/64]; in x: f32[K]; inout y: f32[N];
        for n in N, k in K { y[n] += S[n, k/64] * x[k]; } }""",
    "loop-carried": "kernel k(N) { inout h: f32[N + 1]; seq i in N { h[i + 1] = h[i]; } }",
    "loop-carried-by-colour": """kernel k(N) { inout x: f32[N + 3];
        seq i in N if i % 2 == 0 { x[i + 1] = x[i] + x[i + 3]; } }""",
    "loop-carried-unproved": """kernel k(N, K) where K >= 2 { inout y: f32[K*N + 1];
        seq n in N { y[K*n] = y[K * (n / 3) + 1]; } }""",
    "mask-too-long": REGISTERS
    + """instruction f(scalar L: 1..17) where L <= 16 {
        in a: f32[16] @ r; out z: f32[16] @ r outside keep; for i in L { z[i] = a[i]; } }""",
    "memory-missing": REGISTERS + "instruction f() { inout c: f32[4] @ r; for i in 4 { c[i] = 0; } }",
    "minus-equals": "kernel k(M) { inout C: f32[M]; for i in M { C[i] += -1; } }",
    "never-written": """kernel k(M) { in A: f32[M]; in C: f32[M]; inout D: f32[M];
        for i in M { D[i] = A[i]; } }""",
    "parameter-without-kind": REGISTERS
    + "instruction f(choose L) { inout c: f32[4] @ r; for i in 4 { c[i] = 0; } }",
    "partly-written": """kernel k(M) { in A: f32[M]; out C: f32[2*M] outside zero;
        for i in M { C[2*i] = A[i]; } }""",
    "position-in-a-cache": """kernel k(N, D, pos_1) where pos_1 <= N { in x: f32[D]; inout K: f32[N, D];
        for d in D { K[pos_1 - 1, d] = x[d]; } }""",
    "power-sign": HEAD + "for i in M { C[i] = A[i]*A[i]; } for i in M { C[i] = exp(2 * log(A[i])); } }",
    "read-before-write": "kernel k(M) { in A: f32[M]; out C: f32; C = 0; for i in M { C += A[i]; } }",
    "reduction-read-too-early": """kernel k(M, N) { in A: f32[M, N]; inout C: f32[M]; inout D: f32[M];
        for i in M, j in N { C[i] += A[i, j]; } for i in M { D[i] += C[i]; } }""",
    "scalar-temporary": """kernel k(M) { in A: f32[M]; out B: f32[M]; temp t: f32[M];
        for i in M { t[i] = A[i]; B[i] = t[i]*t[i]; } }""",
    "statement-at-top": "kernel copy(M) { in A: f32[M]; out B: f32[M]; for m in M { B[m] = A[m]; } }",
    "temporary-used-before": """kernel k(M) { in A: f32[M]; out B: f32[M]; temp t: f32[M];
        for i in M { t[i] = A[i]; } for i in M { B[i] = t[i]; } }""",
    "transposed-subscripts": """kernel k(M, N) where M <= N, N <= M { in A: f32[M, N]; out B: f32[N, M];
        for i in M, j in N { B[i, j] = A[i, j]; } }""",
    "write-to-input": "kernel k(M) { out A: f32[M]; for i in M { A[i] = 0; } }",
}
OPEN = {
    "bad-cast-of-bits": "which of the two types changes is the writer's choice",
    "function-arguments": "how x * 2**n is said depends on the type of x",
    "unknown-function-of-definitions": "how x * 2**n is said depends on the type of x",
    "extent-of-data-unordered": "the loop is ordered; what else its values say is the writer's choice",
    "data-dependent": "which values an input has is the writer's choice",
    "c-comment": "where the comment ends is not known",
    "hyphen-in-name": "the new name is the writer's choice",
    "keyword-as-name": "the new name is the writer's choice",
    "missing-brace": "where the block ends is not known",
    "nested-too-deeply": "how the text is divided is the writer's choice",
    "operator-chain": "how the text is divided is the writer's choice",
}
FURTHER = {
    "many-findings": "`sqrt` of a size, once it is spelt right",
    "single-equals": "the text has no statement",
}


def found(text: str) -> tuple[Diagnostic, ...]:
    try:
        parse_module(Source("wrong.ir", text))
    except IsamapError as error:
        return error.diagnostics
    return ()


def advised() -> Iterator[tuple[str, str, Diagnostic]]:
    for path in FILES:
        text = path.read_text(encoding="utf-8").partition("=== ")[0]
        yield from ((path.stem, text, d) for d in found(text) if d.help and "`" in d.help)


CASES = list(advised())


@pytest.mark.parametrize(("name", "text", "finding"), CASES, ids=[f"{n}-{d.code}" for n, _, d in CASES])
def test_advice_leads_to_something_that_works(name: str, text: str, finding: Diagnostic) -> None:
    if finding.edits:
        left = {(d.code, d.message) for d in found(apply_edits(text, finding.edits))}
        assert (finding.code, finding.message) not in left
        assert name in FURTHER or left <= {(d.code, d.message) for d in found(text)}, "nothing new is wrong"
    elif name not in FOLLOWED:
        assert name in OPEN, "say here what the advice leads to, or why that is the writer's choice"


@pytest.mark.parametrize("name", FOLLOWED)
def test_a_text_that_follows_the_advice_is_right(name: str) -> None:
    assert name in [n for n, _, _ in CASES]
    assert found(FOLLOWED[name]) == ()


@pytest.mark.parametrize("name", read_other_languages().functions)
def test_a_function_of_another_language_has_an_edit_that_is_right(name: str) -> None:
    arity = read_other_languages().functions[name][0]
    first = "x[i] > 0" if name == "where" else "x[i] + 1"
    args = ", ".join([first, "x[i] - 2", "x[i] * 3"][:arity])
    dtype, call = ("i32" if name == "int" else "f64" if name == "double" else "f32"), f"{name}({args})"
    scaled = call if name in ("int", "double") else f"2 / {call}"
    text = f"kernel k(M) {{ in x: f32[M]; out y: {dtype}[M]; for i in M {{ y[i] = {scaled}; }} }}"
    (finding,) = found(text)
    assert found(apply_edits(text, finding.edits)) == ()


def test_most_names_and_signs_of_other_languages_have_an_edit() -> None:
    assert sum(bool(d.edits) for _, _, d in CASES) >= 25
