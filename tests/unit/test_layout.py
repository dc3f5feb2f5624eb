"""Canonical layout: spacing, short loops on one line, long lines broken where brackets are fewest."""

from __future__ import annotations

import pytest

from isamap.ir import layout


@pytest.mark.parametrize(
    ("text", "laid_out"),
    [
        ("C[m,n]+=2*A [ m ]*B[k]-  -1;", "C[m, n] += 2 * A[m] * B[k] - -1;\n"),
        ("C[m,n]+=2*k*x*f32 (A[m]);", "C[m, n] += 2*k*x * f32(A[m]);\n"),
        ("for m in M{C[m]=0;}", "for m in M { C[m] = 0; }\n"),
        ("for m in M{C[m]=0;D[m]=0;}", "for m in M {\n  C[m] = 0;\n  D[m] = 0;\n}\n"),
        ("state s{a:u8;}", "state s {\n  a: u8;\n}\n"),
        ("in A:f32[M]@mem strides( any,1 );", "in A: f32[M] @ mem strides(any, 1);\n"),
        ("requires cfg . rows[c]==R;", "requires cfg.rows[c] == R;\n"),
        ("machine VL:1 .. 4=2;", "machine VL: 1..4 = 2;\n"),
        ("x=a else-inf;y=-a*-b;", "x = a else -inf;\ny = -a * -b;\n"),
        ("a=1;# why\n\n\n\n# next\nb=2;", "a = 1;  # why\n\n# next\nb = 2;\n"),
        (
            "# top\nkernel k(M){ # opened\n\n in A:f32;\n\n}",
            "# top\nkernel k(M) {  # opened\n  in A: f32;\n}\n",
        ),
        ("a = b # half\n + c;", "a = b  # half\n    + c;\n"),
        ("", ""),
    ],
)
def test_layout(text: str, laid_out: str) -> None:
    assert layout(text) == laid_out
    assert layout(laid_out) == laid_out


def test_a_long_head_breaks_before_where() -> None:
    text = f"kernel k({', '.join(f'size{i}' for i in range(10))}) where size0 <= size1, size2 <= size3 {{ }}"
    assert layout(text).splitlines()[1].startswith("    where ")


def test_a_long_expression_breaks_outside_brackets() -> None:
    text = f"x = {' + '.join(f'f({n}, alpha, beta)' for n in range(9))};"
    first, *rest = layout(text).splitlines()
    assert first.endswith("+")
    assert all(line.startswith("    ") and len(line) <= 100 for line in rest)
