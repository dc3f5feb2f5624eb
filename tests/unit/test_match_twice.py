"""Instructions that read an operand at two subscripts: what they perform, and what is said of it."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from unit.matching import counts, instruction, kernel, mappings

from isamap.ir import Kernel, bind, interpret
from isamap.match import Pattern, apply_mapping, prove
from isamap.match.patterns.unify import read_twice, unify, unify_once
from isamap.simulate import Cut, perform
from isamap.source import Source
from isamap.syntax import parse_kernel
from isamap.transform import statements


def reading(value: str) -> Pattern:
    """Return an instruction of eight lanes."""
    return instruction(
        f"instruction near() {{ out c: f32[8] @ reg; in a: f32[16] @ reg; for i in 8 {{ c[i] = {value}; }} }}"
    )


def summing(value: str, extent: int | str = 20) -> Kernel:
    params = "N" if extent == "N" else ""
    text = (
        f"kernel k({params}) {{ in X: f32[3*{extent} + 9]; in Z: f32[3*{extent} + 9];"
        f" inout Y: f32[{extent}]; for n in {extent} {{ Y[n] = {value}; }} }}"
    )
    return parse_kernel(Source("kernel.ir", text))


PAIRS = reading("a[2*i] + a[2*i + 1]")
WINDOW = reading("a[i] + a[i + 1]")
HALVES = reading("a[i] + a[i + 8]")


@pytest.mark.parametrize(
    ("pattern", "value", "complete", "fixed"),
    [
        (PAIRS, "X[2*n] + X[2*n + 1]", (2, 0, 0), (1, 0, 0)),
        (PAIRS, "X[n] + X[n + 1]", (2, 0, 0), (1, 0, 0)),
        (PAIRS, "X[n] + Z[n]", (2, 0, 0), (1, 0, 0)),
        (HALVES, "X[n] + Z[n]", (2, 0, 0), (1, 0, 0)),
        (WINDOW, "X[n] + X[n + 1]", (1, 0, 1), (1, 0, 0)),
        (WINDOW, "X[n + 1] + X[n]", (1, 0, 1), (0, 0, 1)),
        (WINDOW, "X[3*n] + X[3*n + 3]", (1, 0, 1), (1, 0, 0)),
        (WINDOW, "X[2*n] + X[2*n + 1]", (0, 0, 2), (0, 0, 1)),
        (WINDOW, "X[n] + X[n + 2]", (0, 0, 2), (0, 0, 1)),
        (WINDOW, "X[n] + Z[n]", (0, 0, 2), (0, 0, 1)),
        (WINDOW, "(X[n - 1] else 0) + X[n]", (1, 0, 1), (1, 0, 0)),
        (WINDOW, "(X[n - 1] else 0) + (X[n] else 1)", (0, 0, 2), (0, 0, 1)),
        (WINDOW, "X[n] * 2 + X[n + 1] * 2", (1, 0, 1), (1, 0, 0)),
        (WINDOW, "X[n] * 2 + X[n + 1] * 3", (0, 0, 2), (0, 0, 1)),
        (reading("a[i] + a[i]"), "X[n] + X[n + 1]", (0, 0, 0), (0, 0, 0)),
    ],
)
def test_elements_that_two_reads_share_are_one_element_of_the_kernel(
    pattern: Pattern, value: str, complete: tuple[int, int, int], fixed: tuple[int, int, int]
) -> None:
    assert counts(pattern, summing(value)) == complete
    assert counts(pattern, summing(value), mode="fixed") == fixed


def test_halves_whose_length_is_chosen_do_not_meet() -> None:
    scalable = instruction(
        "instruction near(choose L) { out c: f32[L] @ reg; in a: f32[2*L] @ reg;"
        " for i in L { c[i] = a[i] + a[L + i]; } }"
    )
    assert counts(scalable, summing("X[n] + Z[n]", "N")) == (2, 0, 0)


def test_windows_are_found_for_steps_that_are_left_open() -> None:
    text = """kernel k(N, s) { in X: f32[N*s + s]; inout Y: f32[N];
      for n in N { Y[n] = X[n*s] + X[n*s + s]; } }"""
    routine = parse_kernel(Source("kernel.ir", text))
    assert counts(WINDOW, routine)[0] == 1
    assert counts(PAIRS, routine)[0] == 2
    others = parse_kernel(Source("kernel.ir", text.replace("X[n*s + s]", "X[n*s + s - 1]")))
    assert counts(WINDOW, others)[0] == 0


def test_reads_are_named_where_an_operand_has_several() -> None:
    first, second = mappings(PAIRS, summing("X[n] + Z[n]"))
    assert first.ident == "near { i: n } (a[2*i] = X[n], a[2*i + 1] = Z[n])"
    assert second.ident == "near { i: n } (a[2*i] = Z[n], a[2*i + 1] = X[n])"


def test_a_renaming_of_axes_that_leaves_both_reads_makes_no_other_mapping() -> None:
    window = instruction(
        "instruction near() { inout c: f32 @ reg; in a: f32[8] @ reg;"
        " for i in 4, j in 4 { c += a[i + j] * a[i + j + 1]; } }"
    )
    routine = kernel("in X: f32[19]; inout Y: f32;", "for m in 9, n in 9 { Y += X[m + n] * X[m + n + 1]; }")
    assert counts(window, routine)[0] == 1


def test_what_amos_counts_is_read_at_one_subscript() -> None:
    assert counts(PAIRS, summing("X[2*n] + X[2*n + 1]"), mode="amos") == (0, 0, 0)


def test_unifying_once_leaves_out_what_is_read_twice() -> None:
    value = statements(summing("X[n] + Z[n]"))[0].assign.value
    assert {read_twice(b) for b in unify(PAIRS.value, value)} == {("a",)}
    assert list(unify_once(PAIRS.value, value)) == []


@pytest.mark.parametrize(
    ("pattern", "value"), [*product((PAIRS, WINDOW, HALVES), ("X[n] + X[n + 1]", "X[2*n] + Z[n]"))]
)
def test_what_is_found_computes_what_the_kernel_does(pattern: Pattern, value: str) -> None:
    routine = summing(value)
    (statement,) = statements(routine)
    numbers = np.random.default_rng(3)
    arrays = {
        o.name: numbers.integers(-9, 9, [s.value or 1 for s in o.shape]).astype(np.float32)
        for o in routine.operands
    }
    expected = interpret(routine, arrays, {})["Y"]
    found = mappings(pattern, routine)
    for mapping in found:
        done = perform(statement, pattern, mapping, arrays, Cut({}, mapping.groups), {})
        np.testing.assert_array_equal(done, expected, mapping.ident)
    assert len(found) == 2


def test_what_is_not_carried_out_says_so() -> None:
    routine = bind(summing("X[n] + Z[n]", "N"), {"N": 20})
    (statement,) = statements(routine)
    for mapping in mappings(PAIRS, routine):
        assert apply_mapping(statement, mapping, PAIRS, {}) is None
        proof = prove(PAIRS, statement, mapping, routine)
        reason = "a is read at two subscripts, and stands for two expressions"
        assert (proof.status, proof.reason) == ("unproved", reason)
