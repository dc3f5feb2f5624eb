"""Statements without a sum, performed in scratchpads: elementwise ones, copies, transposes, constants."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from isamap.driver.encoded_programs import compile_words, program_kernel, verify_program
from isamap.driver.request import Request
from isamap.machine import load_machine
from isamap.source import Source
from isamap.stream.encoding import decode

ELEMENTWISE = """kernel k(M, N) {{
  in a: {dtype}[M, N];
  in b: {dtype}[M, N];
  out c: {dtype}[M, N];
  for i in M, j in N {{ c[i, j] = {value}; }}
}}
"""
RESIDUAL = "sat_i8(round(f32(a[i, j]) * 0.5 + f32(b[i, j]) * 0.25, even))"
TRANSPOSED = """kernel t(M, N) {
  in x: i8[N, M];
  out y: i8[M, N];
  for m in M, n in N { y[m, n] = x[n, m]; }
}
"""


def names_of_right_words(text: str, sizes: Mapping[str, int], machine: str = "edge-npu") -> list[str]:
    """Return the instructions, in order, of a program of words that computes as the interpreter does."""
    described, source = load_machine(machine), Source("k.ir", text)
    words = compile_words(Request(source, machine, dict(sizes), heuristic="greedy"))[0]
    assert verify_program(words, described, program_kernel(words, source), "random").ok
    return [one.command.instruction for one in decode(words.words, described)]


@pytest.mark.parametrize(
    ("dtype", "value", "used"),
    [
        ("i32", "a[i, j] + b[i, j]", {"dma_in_i32", "add_sums", "dma_out_i32"}),
        ("i8", RESIDUAL, {"dma_in_i8", "add_bytes", "dma_out_i8"}),
        ("i8", "min(b[i, j], a[i, j])", {"dma_in_i8", "min_bytes", "dma_out_i8"}),
        ("f32", "exp(a[i, j])", {"dma_in_f32", "exp_floats", "dma_out_f32"}),
        ("f32", "a[i, j] * 1.5", {"dma_in_f32", "scale_floats", "dma_out_f32"}),
        ("i8", "a[i, j]", {"dma_in_i8", "dma_out_i8"}),
    ],
)
def test_one_instruction_performs_an_elementwise_statement(dtype: str, value: str, used: set[str]) -> None:
    for m, n in ((1, 1), (45, 70)):
        names = names_of_right_words(ELEMENTWISE.format(dtype=dtype, value=value), {"M": m, "N": n})
        assert set(names) - {"dma_zeros", "dma_zeros_sums", "dma_zeros_scales"} == used, (m, n)


def test_a_transpose_takes_a_dma_in_and_a_dma_out() -> None:
    names = names_of_right_words(TRANSPOSED, {"M": 45, "N": 70})
    assert set(names) == {"dma_in_transposed", "dma_out_i8"}


def test_rows_of_a_vector_fill_the_rows_of_a_tile() -> None:
    text = ELEMENTWISE.replace("M, N", "M").replace("i in M, j in N", "i in M")
    value = "a[i] + b[i]"
    for size in (1, 300, 1500):
        made = text.replace("(M)", "(M)").replace("c[i, j]", "c[i]").format(dtype="i32", value=value)
        assert "add_sums" in names_of_right_words(made, {"M": size})


def test_an_issue_covers_no_more_rows_than_are_left() -> None:
    text = ELEMENTWISE.format(dtype="i32", value="a[i, j] + b[i, j]")
    source, npu = Source("k.ir", text), load_machine("edge-npu")
    words = compile_words(Request(source, "edge-npu", {"M": 45, "N": 32}, heuristic="greedy"))[0]
    added = [c.command for c in decode(words.words, npu) if c.command.instruction == "add_sums"]
    assert [dict(command.params)["R"] for command in added] == [32, 13]
