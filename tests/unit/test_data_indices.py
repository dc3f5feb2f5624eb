"""Indices made of data: what is said of an array, what is proved by it, and what it means."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from fuzz.readers import seeds
from fuzz.run import dictionary
from numpy.typing import NDArray

from isamap.driver.inputs import named_kernel
from isamap.driver.pipeline import compile_kernel
from isamap.driver.request import Request
from isamap.ir import Element, Facts, Index, Kernel, interpret, is_nonnegative, print_routine, typical_value
from isamap.ir.domains import drawn_values, largest_value
from isamap.kernels import kernel_path
from isamap.source import IsamapError, Source, UsageProblem
from isamap.syntax import parse_kernel

Array = NDArray[Any]


def load(name: str) -> Kernel:
    return parse_kernel(Source(f"{name}.ir", kernel_path(name).read_text(encoding="utf-8")))


def refused(text: str) -> str:
    with pytest.raises(IsamapError) as found:
        parse_kernel(Source("wrong.ir", text))
    return found.value.diagnostics[0].code


def of_row(at: Index | str) -> Index:
    count, high = Index.of("M") + 1, Index.of("NNZ")
    return Index.of(Element("row", Index.of(at), Index.of(0), high, count, ascending=True))


M = Index.of("m")
LENGTH = of_row(M + 1) - of_row(M)

# --- what is proved ---------------------------------------------------------------------------------------


def test_an_element_is_in_its_range() -> None:
    facts = Facts({"m": Index.of("M")}, {"NNZ": 1, "M": 1})
    assert is_nonnegative(of_row(M), facts)
    assert is_nonnegative(Index.of("NNZ") - of_row(M), facts)
    assert not is_nonnegative(Index.of("NNZ") - 1 - of_row(M), facts)


def test_an_element_further_on_is_no_smaller() -> None:
    facts = Facts({"m": Index.of("M")}, {"NNZ": 1, "M": 1})
    assert is_nonnegative(LENGTH, facts)
    assert not is_nonnegative(-LENGTH, facts)
    assert not is_nonnegative(LENGTH - 1, facts)


def test_a_loop_that_data_bounds_stays_inside_of_its_array() -> None:
    facts = Facts({"m": Index.of("M"), "p": LENGTH}, {"NNZ": 1, "M": 1})
    place = of_row(M) + Index.of("p")
    assert is_nonnegative(place, facts)
    assert is_nonnegative(Index.of("NNZ") - 1 - place, facts)
    assert not is_nonnegative(Index.of("NNZ") - 2 - place, facts)


def test_costs_take_rows_of_equal_length_and_buffers_the_longest_there_can_be() -> None:
    assert typical_value(LENGTH, {"M": 10, "NNZ": 250}) == 25
    assert typical_value(LENGTH, {}) == 0
    assert largest_value(LENGTH) == Index.of("NNZ")
    assert largest_value(LENGTH.floordiv(8)) == Index.of("NNZ").floordiv(8)
    assert largest_value(LENGTH.mod(8)) == Index.of(7)


# --- what is refused --------------------------------------------------------------------------------------

HEAD = "kernel k(N, M) { in A: f32[N]; inout C: f32[M]; in P: i32[M] values 0..N - 1;"


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("for i in M { C[P[i]] += 1; } }", "data-dependent"),
        ("for i in M { for j in P[i] { C[i] += 1; } } }", "extent-varies"),
        ("for i in M { C[i] += A[P[i] + 1]; } }", "index-out-of-range"),
        ("for i in M { C[i] += A[P[i + 1]]; } }", "index-out-of-range"),
        ("seq i in M { for j in P[i]..N { C[i] += A[j + 1]; } } }", "index-out-of-range"),
        ("in Q: f32[M] values 0..3; for i in M { C[i] += 1; } }", "bad-domain"),
        ("in Q: i32[M, M] values 0..3; for i in M { C[i] += 1; } }", "bad-domain"),
        ("out Q: i32[M] values 0..3; for i in M { C[i] += 1; } }", "clause-misplaced"),
        ("for i in M { C[i] += A[P[i] else 0]; } }", "not-an-index"),
        ("in Q: i32[M]; for i in M { C[i] += A[Q[i]]; } }", "data-dependent"),
    ],
)
def test_what_data_cannot_say_is_refused(text: str, code: str) -> None:
    assert refused(HEAD + text) == code


@pytest.mark.parametrize("shape", [("M", "N"), ("M + 1", "N", "2")])
@pytest.mark.parametrize("values", [" values 0..L - 1", ""], ids=["declared", "undeclared"])
def test_data_along_several_axes_is_refused_with_a_text_that_is_taken(
    shape: tuple[str, ...], values: str
) -> None:
    axes = [f"i{n}" for n in range(len(shape))]
    declared, element = f"in Q: i32[{', '.join(shape)}]{values};", f"Q[{', '.join(axes)}]"
    loops = ", ".join(f"{axis} in {size}" for axis, size in zip(axes, shape, strict=True))
    body = f"for {loops} {{ C[0] += A[{element}]; }}"
    text = f"kernel k(M, N, L) {{ {declared} in A: f32[L]; inout C: f32[1]; {body} }}"
    with pytest.raises(IsamapError) as found:
        parse_kernel(Source("wrong.ir", text))
    (diagnostic,) = found.value.diagnostics
    assert diagnostic.code == ("bad-domain" if values else "data-dependent")
    pasted = re.fullmatch(r"write `(.*)`, and `(.*)` for `(.*)`", diagnostic.help or "")
    assert pasted is not None
    assert pasted[3] == element
    right = text.replace(declared, pasted[1].replace("HIGH", "L - 1")).replace(element, pasted[2])
    made = parse_kernel(Source("right.ir", right))
    sizes = {"M": 2, "N": 3, "L": 5}
    count = {2: 6, 3: 18}[len(shape)]
    q, a = np.arange(count, dtype=np.int32) * 3 % 5, np.arange(5, dtype=np.float32)
    given = {"Q": q, "A": a, "C": np.zeros(1, np.float32)}
    assert interpret(made, given, sizes)["C"].tolist() == [a[q].sum()]


# --- what it means ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["csr_f32", "sell_f32", "bsr_f32"])
def test_a_printed_kernel_is_the_same_kernel(name: str) -> None:
    kernel = load(name)
    assert parse_kernel(Source("printed.ir", print_routine(kernel))) == kernel


def random_rows(rng: np.random.Generator, rows: int, count: int) -> Array:
    ends = np.sort(rng.integers(0, count, rows - 1, endpoint=True))
    return np.concatenate([[0], ends, [count]]).astype(np.int32)


def sparse_case() -> tuple[dict[str, Array], dict[str, int]]:
    rng, sizes = np.random.default_rng(0), {"M": 9, "N": 5, "K": 7, "NNZ": 20}
    arrays = {
        "row": random_rows(rng, sizes["M"], sizes["NNZ"]),
        "col": rng.integers(0, sizes["K"], sizes["NNZ"]).astype(np.int32),
        "val": rng.integers(-4, 5, sizes["NNZ"]).astype(np.float32),
        "B": rng.integers(-4, 5, (sizes["K"], sizes["N"])).astype(np.float32),
        "C": rng.integers(-4, 5, (sizes["M"], sizes["N"])).astype(np.float32),
    }
    return arrays, sizes


def test_rows_that_are_compressed_are_a_matrix() -> None:
    arrays, sizes = sparse_case()
    dense = np.zeros((sizes["M"], sizes["K"]))
    for m in range(sizes["M"]):
        for p in range(arrays["row"][m], arrays["row"][m + 1]):
            dense[m, arrays["col"][p]] += arrays["val"][p]
    found = interpret(load("csr_f32"), arrays, sizes)["C"]
    np.testing.assert_array_equal(found, arrays["C"] + dense @ arrays["B"])


def test_interleaved_rows_are_a_matrix() -> None:
    rng, sizes = np.random.default_rng(1), {"M": 6, "N": 3, "K": 5, "P": 7, "R": 2}
    arrays: dict[str, Array] = {
        "slice": random_rows(rng, 3, 7),
        "col": rng.integers(0, 5, 14).astype(np.int32),
        "val": rng.integers(-4, 5, (7, 2)).astype(np.float32),
        "B": rng.integers(-4, 5, (5, 3)).astype(np.float32),
        "C": np.zeros((6, 3), np.float32),
    }
    dense = np.zeros((6, 5))
    for m in range(6):
        for p in range(arrays["slice"][m // 2], arrays["slice"][m // 2 + 1]):
            dense[m, arrays["col"][2 * p + m % 2]] += arrays["val"][p, m % 2]
    np.testing.assert_array_equal(interpret(load("sell_f32"), arrays, sizes)["C"], dense @ arrays["B"])


def test_rows_of_blocks_are_a_matrix() -> None:
    rng, sizes = np.random.default_rng(2), {"M": 6, "N": 3, "K": 8, "NNZB": 5, "R": 2, "S": 4}
    arrays: dict[str, Array] = {
        "row": random_rows(rng, 3, 5),
        "col": rng.integers(0, 2, 5).astype(np.int32),
        "val": rng.integers(-4, 5, (5, 2, 4)).astype(np.float32),
        "B": rng.integers(-4, 5, (8, 3)).astype(np.float32),
        "C": np.zeros((6, 3), np.float32),
    }
    dense = np.zeros((6, 8))
    for m in range(3):
        for p in range(arrays["row"][m], arrays["row"][m + 1]):
            at = 4 * arrays["col"][p]
            dense[2 * m : 2 * m + 2, at : at + 4] += arrays["val"][p]
    np.testing.assert_array_equal(interpret(load("bsr_f32"), arrays, sizes)["C"], dense @ arrays["B"])


def test_arrays_that_hold_what_they_may_not_are_refused() -> None:
    arrays, sizes = sparse_case()
    for name, at, value, said in (
        ("col", 3, 7, "`col[3]` is 7: its values are from 0 to 6"),
        ("col", 0, -1, "`col[0]` is -1: its values are from 0 to 6"),
        ("row", 9, 21, "`row[9]` is 21: its values are from 0 to 20"),
        ("row", 0, 20, "`row` is ascending, but 20 at 0 is followed by"),
    ):
        wrong = arrays[name].copy()
        wrong[at] = value
        with pytest.raises(UsageProblem) as found:
            interpret(load("csr_f32"), {**arrays, name: wrong}, sizes)
        assert said in found.value.render()


def test_drawn_values_obey_their_declaration_and_reach_its_ends() -> None:
    row = load("csr_f32").operand("row").domain
    assert row is not None
    bound = type(row)(Index.of(0), Index.of(40), row.ascending)
    values = drawn_values((12,), bound, np.random.default_rng(3))
    assert values[0] == 0
    assert values[-1] == 40
    assert (np.diff(values) >= 0).all()


def test_fuzzing_starts_from_texts_and_words_of_declared_values() -> None:
    kernels = seeds("kernel", 8000)
    assert sum(b" ascending;" in text for text in kernels) >= 3
    assert {'"values"', '"ascending"'} <= set(dictionary(kernels).splitlines())


@pytest.mark.parametrize("columns", [2, 4])
def test_rows_of_few_columns_are_not_copied_into_whole_vectors(columns: int) -> None:
    """A copy fills the lanes that have no column as well, which costs more than loads under a mask."""
    sizes = {"M": 7860, "N": columns, "K": 2560, "P": 300000, "R": 4}
    made = compile_kernel(Request(named_kernel("sell_f32"), "x86-avx512", sizes), "schedule")
    assert made.schedule is not None
    (nest,) = made.schedule.nests
    assert "fma" in nest.mapping
    assert nest.stages == ()
