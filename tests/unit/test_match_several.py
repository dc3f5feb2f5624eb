"""Instructions of several statements, several outputs, or lanes under a predicate."""

from __future__ import annotations

import pytest
from unit.matching import MEMORIES, kernel

from isamap.ir import Instruction, Kernel, bind
from isamap.match.mappings.groups import GroupMapping, groups_of, patterns_of
from isamap.source import Source
from isamap.syntax import parse_module
from isamap.transform import statements

SUM_AND_DIFFERENCE = """instruction addsub() {
  in a: f32[16] @ reg;  in b: f32[16] @ reg;
  out s: f32[16] @ reg;  out d: f32[16] @ reg;
  for i in 16 { s[i] = a[i] + b[i]; d[i] = a[i] - b[i]; }
}"""

CLEARING = """instruction product() {
  in a: f32[16, 16] @ reg;  in b: f32[16, 16] @ reg;
  out c: f32[16, 16] @ reg;
  for i in 16, j in 16 { c[i, j] = 0; }
  for i in 16, j in 16, k in 16 { c[i, j] += a[i, k] * b[k, j]; }
}"""

CLAMPED = """instruction clamped() {
  in a: f32[16] @ reg;  in b: f32[16] @ reg;
  inout c: f32[16] @ reg;
  out d: f32[16] @ reg;
  for i in 16 { c[i] += a[i] * b[i]; d[i] = max(c[i], 0); }
}"""

PREDICATED = """instruction outer() {
  in p: bool[16] @ reg;  in q: bool[16] @ reg;
  in a: f32[16] @ reg;  in b: f32[16] @ reg;
  inout c: f32[16, 16] @ reg;
  for i in 16, j in 16 { c[i, j] += a[i] * b[j] if p[i] & q[j]; }
}"""

ZEROING = """instruction load() {
  in p: bool[16] @ reg;
  in a: f32[16] @ mem;
  out t: f32[16] @ reg;
  for i in 16 { t[i] = 0; t[i] = a[i] if p[i]; }
}"""

BUTTERFLY = "in X: f32[N]; in Y: f32[N]; out S: f32[N]; out D: f32[N];"
PRODUCT = "in A: f32[M, K]; in B: f32[K, N]; out T: f32[M, N];"


def groups(text: str, routine: Kernel, **sizes: int) -> list[GroupMapping]:
    module = parse_module(Source("instruction.isa", f"{MEMORIES}\n{text}"))
    found = next(d for d in module.declarations if isinstance(d, Instruction))
    bound = bind(routine, sizes) if sizes else routine
    return list(groups_of(found, patterns_of(found), statements(bound)))


def performed(text: str, routine: Kernel, **sizes: int) -> list[tuple[tuple[int, ...], tuple[str, ...]]]:
    """Return the kernel's statements and the unused outputs of each mapping."""
    return [(g.statements, g.unused) for g in groups(text, routine, **sizes)]


def test_two_outputs_perform_two_statements_or_either_one() -> None:
    routine = kernel(BUTTERFLY, "for n in N { S[n] = X[n] + Y[n]; D[n] = X[n] - Y[n]; }", "N")
    assert performed(SUM_AND_DIFFERENCE, routine) == [((0, 1), ()), ((0,), ("d",)), ((1,), ("s",))]


def test_statements_in_nests_of_their_own_are_performed_together() -> None:
    loops = "for n in N { D[n] = X[n] - Y[n]; } for n in N { S[n] = X[n] + Y[n]; }"
    assert performed(SUM_AND_DIFFERENCE, kernel(BUTTERFLY, loops, "N"))[0] == ((1, 0), ())


def test_operands_have_to_stand_for_the_same_in_all_parts() -> None:
    # X + Y is Y + X, but the difference's order decides; with other operands there is no common issue.
    swapped = kernel(BUTTERFLY, "for n in N { S[n] = Y[n] + X[n]; D[n] = X[n] - Y[n]; }", "N")
    assert performed(SUM_AND_DIFFERENCE, swapped)[0] == ((0, 1), ())
    other = kernel(BUTTERFLY + "in Z: f32[N];", "for n in N { S[n] = X[n] + Y[n]; D[n] = X[n] - Z[n]; }", "N")
    assert performed(SUM_AND_DIFFERENCE, other) == [((0,), ("d",)), ((1,), ("s",))]


def test_a_statement_that_touches_what_lies_between_keeps_parts_asunder() -> None:
    loops = "for n in N { S[n] = X[n] + Y[n]; } for n in N { Y[n] = 2; } for n in N { D[n] = X[n] - Y[n]; }"
    routine = kernel(BUTTERFLY.replace("in Y", "inout Y"), loops, "N")
    assert all(len(s) == 1 for s, _ in performed(SUM_AND_DIFFERENCE, routine))


def test_a_product_that_clears_its_result_takes_the_whole_sum_in_one_issue() -> None:
    loops = "for m in M, n in N { T[m, n] = 0; } for m in M, n in N, k in K { T[m, n] += A[m, k] * B[k, n]; }"
    routine = kernel(PRODUCT, loops, "M, N, K")
    assert len(groups(CLEARING, routine, M=64, N=64, K=16)) == 2
    # A loop over k would clear the sum again and again; unknown sizes may need one.
    assert groups(CLEARING, routine, M=64, N=64, K=17) == []
    assert groups(CLEARING, routine) == []


def test_what_is_written_first_and_read_then_is_one_operand() -> None:
    operands = "in A: f32[N]; in B: f32[N]; inout C: f32[N]; in E: f32[N]; out D: f32[N];"
    same = kernel(operands, "for n in N { C[n] += A[n] * B[n]; D[n] = max(C[n], 0); }", "N")
    assert {s for s, _ in performed(CLAMPED, same)} == {(0, 1), (0,)}
    other = kernel(operands, "for n in N { C[n] += A[n] * B[n]; D[n] = max(E[n], 0); }", "N")
    assert {s for s, _ in performed(CLAMPED, other)} == {(0,)}


def test_a_part_waits_for_a_sum_that_loops_around_it_complete() -> None:
    operands = "in A: f32[N, K]; in B: f32[N, K]; inout C: f32[N]; out D: f32[N];"
    loops = "for n in N, k in K { C[n] += A[n, k] * B[n, k]; } for n in N { D[n] = max(C[n], 0); }"
    assert {s for s, _ in performed(CLAMPED, kernel(operands, loops, "N, K"))} == {(0,)}


def test_lanes_under_a_predicate_count_as_lanes() -> None:
    routine = kernel(
        PRODUCT.replace("out T", "inout T"),
        "for m in M, n in N, k in K { T[m, n] += A[m, k] * B[k, n]; }",
        "M, N, K",
    )
    assert [g.parts[0].axes for g in groups(PREDICATED, routine)] == [
        {"i": ("m",), "j": ("n",)},
        {"i": ("n",), "j": ("m",)},
    ]


def test_zeroing_before_a_predicate_is_no_statement_of_its_own() -> None:
    routine = kernel("in X: f32[N]; out S: f32[N];", "for n in N { S[n] = X[n]; }", "N")
    assert performed(ZEROING, routine) == [((0,), ())]


@pytest.mark.parametrize("condition", ["a[i] > 0", "p[i] | q[i]"])
def test_other_conditions_are_not_matched(condition: str) -> None:
    text = PREDICATED.replace("p[i] & q[j]", condition)
    assert groups(text, kernel(PRODUCT, "for m in M, n in N { T[m, n] = 0; }", "M, N, K")) == []
