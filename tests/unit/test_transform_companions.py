"""Which elementwise statements a sum can take along, and what it then writes."""

from __future__ import annotations

import pytest

from isamap.ir import Kernel, print_expr
from isamap.source import Source
from isamap.syntax import parse_kernel
from isamap.transform import make_guards_explicit
from isamap.transform.companions import companions, fused_result, why_apart

INPUTS = "in A: f32[M, K]; in B: f32[K, N]; in R: f32[M, N]; in S: f32[M, M]; in b: f32[N];"
ARRAYS = {"C": "C: f32[M, N];", "D": "D: f32[M, N];", "E": "E: f32[N, M];"}
SUM = "for m in M, n in N, k in K { T[m, n] += A[m, k] * B[k, n]; }"
START = "for m in M, n in N { T[m, n] = b[n]; }"
PLAIN = "for m in M, n in N { C[m, n] = T[m, n]; }"


def kernel(*body: str) -> Kernel:
    """Return a kernel of these statements; T is a temporary, what else is written an output."""
    lines = "\n  ".join(body)
    written = [f"inout {shape}" for name, shape in ARRAYS.items() if f"{{ {name}[" in lines]
    temp = ["temp T: f32[M, N];"] if "T[" in lines else []
    head = "\n  ".join(["kernel k(M, N, K) {", INPUTS, *written, *temp])
    return make_guards_explicit(parse_kernel(Source("k.ir", f"{head}\n  {lines}\n}}")))


def taken(number: int, *body: str) -> list[tuple[int, ...]]:
    """Numbers of the companions, each with what it needs."""
    return [(c.number, *c.needs) for c in companions(kernel(*body), number)]


def test_a_start_and_a_chain_of_followers_come_along() -> None:
    body = (
        START,
        SUM,
        "for i in M, j in N { T[i, j] += R[i, j]; }",
        "for m in M, n in N { C[m, n] = max(T[m, n], 0); }",
    )
    assert taken(1, *body) == [(0,), (2,), (3, 2)]
    made = fused_result(kernel(*body), 1, (0, 2, 3))
    assert made.first is not None
    assert print_expr(made.first) == "b[n]"
    # T is read nowhere else: only C is written, from the sum itself.
    assert [t.buffer for t, _ in made.writes] == ["C"]
    assert print_expr(made.writes[0][1]) == "max($ held + R[m, n], 0)"


def test_an_array_that_others_read_is_written_all_the_same() -> None:
    body = (
        START,
        SUM,
        "for m in M, n in N { C[m, n] = max(T[m, n], 0); }",
        "for m in M, n in N { E[n, m] = T[m, n]; }",
    )
    assert taken(1, *body) == [(0,), (2,), (3,)]
    assert [t.buffer for t, _ in fused_result(kernel(*body), 1, (2,)).writes] == ["T", "C"]
    assert [t.buffer for t, _ in fused_result(kernel(*body), 1, (2, 3)).writes] == ["C", "E"]


def test_transposed_and_renamed_axes_are_followed() -> None:
    body = (
        START,
        SUM,
        "for x in N, y in M { E[x, y] = T[y, x]; }",
        "for m in M, n in N { D[m, n] = E[n, m] + 1; }",
    )
    assert taken(1, *body) == [(0,), (2,), (3, 2)]
    assert print_expr(fused_result(kernel(*body), 1, (2, 3)).writes[1][1]) == "$ held + 1"


@pytest.mark.parametrize(
    "later",
    [
        # other elements of the sum are needed
        "for m in M, n in N { C[m, n] = T[m, n] + T[m, 0]; }",
        # a sum itself
        "for m in M, n in N, i in M { C[m, n] += T[m, n] * S[m, i]; }",
        # nothing of the sum
        "for m in M, n in N { C[m, n] = R[m, n]; }",
    ],
)
def test_what_is_not_elementwise_stays(later: str) -> None:
    zero = "for m in M, n in N { C[m, n] = 0; }"
    assert all(number != 3 for number, *_ in taken(2, zero, START, SUM, later))


def test_what_the_sum_itself_reads_is_not_overwritten_early() -> None:
    body = (
        "for m in M, n in N { D[m, n] = R[m, n]; }",
        "for m in M, n in N { C[m, n] = 0; }",
        "for m in M, n in N, i in M { C[m, n] += S[m, i] * D[i, n]; }",
        "for m in M, n in N { D[m, n] = C[m, n]; }",
    )
    assert taken(2, *body) == [(1,)]


def test_a_statement_in_between_that_depends_on_the_order_keeps_it() -> None:
    body = (
        START,
        SUM,
        "for m in M, n in N { D[m, n] = R[m, n]; }",
        "for m in M, n in N { D[m, n] = D[m, n] + T[m, n]; }",
    )
    assert taken(1, *body) == [(0,)]


def test_what_reads_an_array_that_was_rewritten_in_turns_stays() -> None:
    body = (
        START,
        SUM,
        "for m in M, n in N { C[m, n] = T[m, n] + D[m, n]; }",
        "for m in M, n in N { D[m, n] = T[m, n]; }",
        "for m in M, n in N { C[m, n] = C[m, n] * 2; }",
    )
    zero = "for m in M, n in N { D[m, n] = 1; }"
    # Doubled, C would read D a second time, when D is new already.
    assert taken(2, zero, *body) == [(1,), (3,), (4, 3)]


def test_nothing_lies_between_a_start_and_its_sum_that_reads_it() -> None:
    use = "for m in M, n in N { C[m, n] = T[m, n]; }"
    assert taken(2, START, use, SUM) == []


def test_a_sum_over_nothing_takes_nothing_along() -> None:
    text = """kernel k(M, N, H, R) where R <= H + 1 {
      in A: f32[H, N];  out C: f32[N];
      for n in N { C[n] = 1; }
      for n in N, i in H - R + 1 { C[n] += A[i, n]; }
      for n in N { C[n] = max(C[n], 0); }
    }"""
    assert companions(make_guards_explicit(parse_kernel(Source("k.ir", text))), 1) == ()


# --- in ordered loops -------------------------------------------------------------------------------------


def in_turns(operands: str, *body: str, before: str = "") -> Kernel:
    """Return a kernel whose statements stand in one ordered loop."""
    lines = " ".join(body)
    head = "in A: f32[T, M, K]; in B: f32[K, N]; out Y: f32[T, M, N];"
    text = f"kernel k(T, M, N, K) {{ {head} {operands} {before} seq t in T {{ {lines} }} }}"
    return make_guards_explicit(parse_kernel(Source("k.ir", text)))


def written(routine: Kernel, number: int, chosen: tuple[int, ...]) -> list[str]:
    return [target.buffer for target, _ in fused_result(routine, number, chosen).writes]


ADDED = "for m in M, n in N, k in K { S[m, n] += A[t, m, k] * B[k, n]; }"
LIMIT = "for m in M, n in N { Y[t, m, n] = max(S[m, n], 0); }"
ZERO = "for m in M, n in N { S[m, n] = 0; }"


def test_a_sum_that_goes_on_in_the_next_turn_is_kept() -> None:
    text = """kernel k(T, M, N, K) {
      in A: f32[T, M, K];  in B: f32[K, N];  out Y: f32[T, M, N];  temp S: f32[M, N];
      for m in M, n in N { S[m, n] = 0; }
      seq t in T {
        for m in M, n in N, k in K { S[m, n] += A[t, m, k] * B[k, n]; }
        for m in M, n in N { Y[t, m, n] = max(S[m, n], 0); }
      }
    }"""
    carried = make_guards_explicit(parse_kernel(Source("k.ir", text)))
    assert written(carried, 1, (2,)) == ["S", "Y"]
    begun_anew = in_turns("temp S: f32[M, N];", ZERO, ADDED, LIMIT)
    assert written(begun_anew, 1, (0, 2)) == written(begun_anew, 1, (2,)) == ["Y"]


STATE = "for m in M, n in N { h[t + 1, m, n] = tanh(S[m, n]); }"
FED_BACK = "for m in M, n in N, k in N { S[m, n] += h[t, m, k] * R[k, n]; }"
RECURRENT = "in R: f32[N, N]; temp S: f32[M, N]; inout h: f32[T + 1, M, N];"


def test_a_state_is_written_beside_the_sum_that_reads_the_one_before() -> None:
    last = "for m in M, n in N { Y[t, m, n] = h[t + 1, m, n]; }"
    routine = in_turns(RECURRENT, ZERO, FED_BACK, STATE, last)
    assert [(c.number, *c.needs) for c in companions(routine, 1)] == [(0,), (2,), (3, 2)]
    operands, begin = RECURRENT.replace("inout h", "temp h"), "for m in M, n in N { h[0, m, n] = 0; }"
    inside = in_turns(operands, ZERO, FED_BACK, STATE, last, before=begin)
    assert written(inside, 2, (1, 3, 4)) == ["h", "Y"], "the next turn's sum reads it"


def test_a_state_that_other_tiles_of_the_sum_still_read_is_not_overwritten() -> None:
    in_place = in_turns(
        RECURRENT.replace("T + 1, M", "M"),
        ZERO,
        FED_BACK.replace("h[t, ", "h["),
        STATE.replace("h[t + 1, ", "h["),
        "for m in M, n in N { Y[t, m, n] = h[m, n]; }",
    )
    assert [c.number for c in companions(in_place, 1)] == [0]


def test_gates_of_which_others_need_other_elements_are_not_kept() -> None:
    gate = "for m in M, n in N, k in K { u[G, m, n] += A[t, m, k] * B[k, n]; }"
    zero = "for m in M, n in N { u[G, m, n] = 0; }"
    body = [
        *(s.replace("G", "0") for s in (zero, gate)),
        "for m in M, n in N { r[m, n] = sigmoid(u[0, m, n]); }",
        *(s.replace("G", "1") for s in (zero, gate)),
        "for m in M, n in N { Y[t, m, n] = r[m, n] * u[1, m, n]; }",
    ]
    routine = in_turns("temp u: f32[2, M, N]; temp r: f32[M, N];", *body)
    assert written(routine, 1, (0, 2)) == ["r"]
    body[-1] = body[-1].replace("r[m, n]", "u[0, m, n]")
    assert written(in_turns("temp u: f32[2, M, N]; out r: f32[M, N];", *body), 1, (0, 2)) == ["u", "r"]


APART = {
    "for m in M, n in N { C[m, n] = max(T[m, n], 0); }": "",
    "for m in M, n in N { D[m, 0] += T[m, n]; }": "it reduces over `n`, and needs elements of several tiles",
    "for m in M, n in N, k in K { E[n, m] += T[m, n] * B[k, n]; }": "it reduces over `k`, and needs elements",
    "for m in M, n in N { C[m, n] = T[m, n / 2]; }": "its iterations are not one for each element of `T`",
    "for m in M, n in N { C[m, n] = T[m, n] if n < 3; }": "",
    "for m in M, n in N { C[m, n] = T[m, n] + T[0, n]; }": "a statement in between, or this one, accesses the same",
    f"seq i in M {{ {PLAIN} }}": "an ordered loop is around one of them alone",
}


@pytest.mark.parametrize("body", APART)
def test_a_statement_that_no_sum_fuses_has_a_reason(body: str) -> None:
    made = kernel(START, SUM, body)
    why = why_apart(made, 1, 2)
    assert why.startswith(APART[body])
    assert (why == "") == (APART[body] == "") == (2 in [c.number for c in companions(made, 1)])


def test_a_sum_with_two_axes_in_a_subscript_has_a_reason() -> None:
    text = "kernel k(M) { in A: f32[M, 3]; out C: f32[2 * M]; temp T: f32[2 * M];\n"
    text += "for i in 2 * M { T[i] = 0; }\nfor m in M, p in 2, k in 3 { T[2 * m + p] += A[m, k]; }\n"
    made = make_guards_explicit(parse_kernel(Source("k.ir", f"{text}for i in 2 * M {{ C[i] = T[i]; }}\n}}")))
    assert why_apart(made, 1, 2) == "`T` has no axis of statement 1 for each subscript"
