"""What the language can say becomes the IR that is meant."""

from __future__ import annotations

from pathlib import Path

import pytest
from lark import Lark

from isamap.ir import (
    DTYPES,
    F32,
    F64,
    I64,
    Assign,
    Call,
    Cast,
    Const,
    ConstantDecl,
    Expr,
    Index,
    IndexValue,
    Instruction,
    Kernel,
    Loop,
    MemoryDecl,
    Module,
    Read,
    Scalar,
    StateDecl,
    print_expr,
)
from isamap.source import Source
from isamap.syntax import parse_expression, parse_kernel, parse_module

GRAMMAR = Path(__file__).resolve().parents[2] / "isamap" / "syntax" / "grammar.lark"
MEMORIES = """
memory mem: addressable();
memory tmm: registers(count = 8, rows = 16, row_bytes = 64, named = immediate);
state cfg per thread { palette: u8; rows: u8[16]; }
machine VL: 16..256 = 64;
"""


def test_the_grammar_has_no_conflict() -> None:
    pytest.importorskip("interegular", reason="lark's strict mode compares terminals with it")
    Lark(GRAMMAR.read_text(encoding="utf-8"), parser="lalr", strict=True, start=["start", "expr"])


def test_a_gemm_is_one_reduction_over_three_axes() -> None:
    kernel = parse("gemm(M, N, K)", "in A: bf16[M, K]; in B: bf16[K, N]; inout C: bf16[M, N] accumulate f32;",
                   "for m in M, n in N, k in K { C[m, n] += f32(A[m, k]) * f32(B[k, n]); }")  # fmt: skip
    (loop,) = kernel.body
    assert isinstance(loop, Loop)
    assert [a.name for a in loop.axes] == ["m", "n", "k"]
    (assign,) = loop.body
    assert isinstance(assign, Assign)
    bf16 = DTYPES["bf16"]
    m, n, k = map(Index.of, "mnk")
    left, right = Cast(Read("A", (m, k), bf16), F32), Cast(Read("B", (k, n), bf16), F32)
    assert assign == Assign(Read("C", (m, n), bf16), "add", Call("mul", (left, right), F32))
    assert kernel.operand("C").accumulate == F32


def test_a_literal_takes_the_type_of_the_other_operand() -> None:
    assert value_of("max(x, 0)") == Call("max", (Scalar("x", F32), Const(0.0, F32)), F32)
    assert value_of("1 - x") == Call("sub", (Const(1.0, F32), Scalar("x", F32)), F32)
    assert value_of("select(x < 1, 2, 3)").dtype == F32
    assert value_of("-inf") == Const(float("-inf"), F32)


def test_axes_and_sizes_in_values_are_one_index_expression() -> None:
    value = value_of("f32(2*M - m)")
    assert value == Cast(IndexValue(2 * Index.of("M") - Index.of("m"), I64), F32)
    compared = value_of("select(m + 1 < M, x, 0)")
    assert isinstance(compared, Call)
    assert compared.args[0] == Call(
        "lt", (IndexValue(Index.of("m") + 1, I64), IndexValue(Index.of("M"), I64)), DTYPES["bool"]
    )


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("((x*x)) + (x)", "x*x + x"),
        ("x - (x - x)", "x - (x - x)"),
        ("(x - x) - x", "x - x - x"),
        ("-(x + 1)", "-(x + 1)"),
        ("f32(x)", "x"),
        ("f32(1) + 2 + x", "1 + 2 + x"),
        ("fma(x, 2.50, 1e-3)", "fma(x, 2.5, 0.001)"),
        ("round(x, even)", "round(x, even)"),
        ("f32(sat_i8(x * 127))", "f32(sat_i8(x * 127))"),
        ("select(~(x < 1) & x != 2 | true, x, 0)", "select(~(x < 1) & x != 2 | true, x, 0)"),
    ],
)
def test_expressions_print_with_the_fewest_parentheses(text: str, printed: str) -> None:
    assert print_expr(value_of(text)).replace(" * ", "*") == printed.replace(" * ", "*")


def test_division_and_remainder_of_an_axis_are_allowed() -> None:
    kernel = parse("k(M)", "in A: f32[M, 4]; out B: f32[4*M];", "for i in 4*M { B[i] = A[i / 4, i % 4]; }")
    (loop,) = kernel.body
    assert isinstance(loop, Loop)
    assert str(loop.body[0]).count("FloorDiv") >= 1


def test_an_integer_cast_is_free_where_the_value_is_known_to_fit() -> None:
    parse("k(M)", "in A: i32[M]; out B: i8[M];", "for i in M { B[i] = i8(min(max(A[i], -128), 127)); }")
    parse("k(M)", "in A: i32[M]; out B: i8[M];", "for i in M { B[i] = i8(A[i] >> 24); }")
    parse("k(M)", "in A: u8[M]; out B: i32[M];", "for i in M { B[i] = i32(A[i]); }")


def test_guards_stand_on_loops_and_on_statements() -> None:
    kernel = parse(
        "k(M)", "in A: f32[M]; in p: bool[M]; inout B: f32[M];",
        "for i in M if p[i] { B[i] += A[i]; } for i in M { B[i] = 0 if i + 1 < M & p[i]; }",
    )  # fmt: skip
    first, second = kernel.body
    assert isinstance(first, Loop)
    assert isinstance(second, Loop)
    assert first.guard == Read("p", (Index.of("i"),), DTYPES["bool"])
    assert isinstance(second.body[0], Assign)
    assert second.body[0].guard is not None


def test_lets_name_expressions_and_stay_symbols() -> None:
    kernel = parse(
        "c(H, R, pad: 0..4 = 0) where R <= H + 2*pad",
        "let P = H + 2*pad - R + 1; in X: f32[H]; inout Y: f32[P];",
        "for p in P, r in R { Y[p] += X[p + r - pad] else 0; }",
    )
    assert [let.name for let in kernel.lets] == ["P"]
    assert kernel.operand("Y").shape == (Index.of("P"),)


def test_instructions_have_memories_states_and_parameters() -> None:
    module = parse_module(
        Source(
            "amx.ir",
            MEMORIES
            + """
            instruction tile(choose R: 1..16, imm s: 0..3, scalar alpha: f32) where align(a) % 64 == 0 {
              inout c: f32[R, 16] @ tmm; in a: f32[R, 16] @ mem strides(any, 1);
              requires cfg.rows[c] == R; requires cfg.palette == 1;
              for m in R, n in 16 { c[m, n] += alpha * a[m, n]; }
            }
            instruction configure() { sets cfg; clobbers tmm; }
            instruction release() { releases cfg; }
            instruction reverse() {
              in a: f32[VL] @ mem; out z: f32[VL] @ tmm; for i in VL { z[i] = a[VL - 1 - i]; }
            }
            """,
        )
    )
    kinds = [type(d) for d in module.declarations]
    assert kinds == [MemoryDecl, MemoryDecl, StateDecl, ConstantDecl, *[Instruction] * 4]
    tile = module.declarations[4]
    assert isinstance(tile, Instruction)
    assert [p.kind for p in tile.params] == ["choose", "imm", "scalar"]
    assert tile.requires[0].field.index == "c"
    assert tile.operand("a").strides == (None, Index.of(1))
    assert str(tile.where[0].left) == "align(a) % 64"


def test_known_declarations_can_be_mentioned() -> None:
    known = parse_module(Source("memories.ir", MEMORIES))
    text = "instruction f() { in a: f32[16] @ mem; out z: f32[16] @ tmm; for i in 16 { z[i] = a[i]; } }"
    assert len(parse_module(Source("f.ir", text), known).declarations) == 1


def test_views_and_placements_give_coordinates() -> None:
    module = parse_module(
        Source(
            "v.ir",
            """
            memory za: registers(count = 1, rows = 64, row_bytes = 64);
            view za32 of za: registers(count = 4, rows = 16, row_bytes = 64)
              placed [tile, row, byte] at row: 4*row + tile, byte: byte;
            instruction f() {
              inout c: f32[16, 8] @ za placed [i, j] at lane: 4*(i % 8) + j / 2, register: 2*(i / 8) + j % 2;
              for i in 16, j in 8 { c[i, j] = 0; }
            }
            """,
        )
    )
    view, f = module.declarations[1:]
    assert isinstance(view, MemoryDecl)
    assert view.base == "za"
    assert view.placement is not None
    assert view.placement.indices == ("tile", "row", "byte")
    assert isinstance(f, Instruction)
    assert f.operand("c").placement is not None


def test_expressions_parse_alone() -> None:
    cost = parse_expression(Source("cost", "0.5 * R + max(R, 4)"), {"R": F64})
    assert cost.dtype == F64


def test_spans_point_at_what_they_stand_for() -> None:
    kernel = parse("k(M)", "in A: f32[M]; out B: f32[M];", "for i in M { B[i] = A[i] + 1; }")
    (loop,) = kernel.body
    assert isinstance(loop, Loop)
    (assign,) = loop.body
    assert isinstance(assign, Assign)
    assert assign.value.span is not None
    assert assign.value.span.text == "A[i] + 1"
    assert assign.target.span is not None
    assert assign.target.span.text == "B[i]"


def parse(head: str, declarations: str, body: str) -> Kernel:
    return parse_kernel(Source("test.ir", f"kernel {head} {{ {declarations} {body} }}"))


def value_of(text: str) -> Expr:
    """Return the typed value of an expression over `scalar x: f32`, size M and axis m."""
    kernel = parse("k(M, scalar x: f32)", "out B: f32[M];", f"for m in M {{ B[m] = {text}; }}")
    (loop,) = kernel.body
    assert isinstance(loop, Loop)
    (assign,) = loop.body
    assert isinstance(assign, Assign)
    return assign.value


def test_an_empty_text_is_an_empty_module() -> None:
    assert parse_module(Source("empty.ir", "# nothing\n")) == Module(())
