"""Statements without a sum, performed in scratchpads: elementwise ones, copies, transposes, constants."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from isamap.driver.api import verify
from isamap.driver.encoded_programs import compile_words, program_kernel, verify_program
from isamap.driver.pipeline import compile_kernel
from isamap.driver.request import Request
from isamap.emit.c import EmittedC
from isamap.ir import Index
from isamap.kernels import kernel_path
from isamap.machine import load_machine
from isamap.match import MoveSearch
from isamap.match.moves import scratch_buffers
from isamap.match.moves.scratch_buffers import Dma
from isamap.match.moves.transfers import Copy
from isamap.match.patterns.pattern import Pattern
from isamap.source import NoMapping, Source
from isamap.stream.encoding import decode

MACHINES = Path(__file__).parents[1] / "data" / "machines"
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


def names_of_right_words(
    text: str, sizes: Mapping[str, int], machine: str = "edge-npu", heuristic: str = "greedy"
) -> list[str]:
    """Return the instructions, in order, of a program of words that computes as the interpreter does."""
    described, source = load_machine(machine), Source("k.ir", text)
    words = compile_words(Request(source, machine, dict(sizes), heuristic=heuristic))[0]
    assert verify_program(words, described, program_kernel(words, source), "random").ok
    return [one.command.instruction for one in decode(words.words, described)]


@pytest.mark.parametrize(
    ("dtype", "value", "used"),
    [
        ("i32", "a[i, j] + b[i, j]", {"dma_in_i32", "add_sums", "dma_out_i32"}),
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


def test_a_residual_takes_the_instruction_that_does_it_all() -> None:
    text = ELEMENTWISE.format(dtype="i8", value=RESIDUAL)
    names = names_of_right_words(text, {"M": 45, "N": 70}, heuristic="cpsat")
    assert set(names) == {"dma_in_i8", "add_bytes", "dma_out_i8", "dma_zeros"}


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


SOFTMAX = kernel_path("softmax_f32").read_text()
POOLED = """kernel pool(P, Q, C) {
  in x: i8[2*P, 2*Q, C];
  out y: i8[P, Q, C];
  for p in P, q in Q, c in C { y[p, q, c] = -128; }
  for p in P, q in Q, c in C, r in 2, s in 2 { y[p, q, c] max= x[2*p + r, 2*q + s, c]; }
}
"""
MEAN = """kernel mean(P, C) {
  in x: i8[P, C];
  out y: i8[C];
  temp t: i32[C];
  for c in C { t[c] = 0; }
  for p in P, c in C { t[c] += i32(x[p, c]); }
  for c in C { y[c] = sat_i8(round(f32(t[c]) * 0.0204, even)); }
}
"""


@pytest.mark.parametrize(
    ("dtype", "value", "used"),
    [
        ("i8", "sat_i8(round(f32(a[i, j]) * 0.5 + f32(b[i, j]) * 0.25 + 3.0, even))", "shift_floats"),
        ("f32", "max(a[i, j] * b[i, j], 0.0) / (a[i, j] + 1.0)", "divide_floats"),
        ("f32", "1 / exp(a[i, j])", "fill_floats"),
        ("f32", "a[i, j] * a[i, j] - b[i, 0]", "subtract_floats"),
        ("f32", "a[0, j] + b[i, j]", "add_floats"),
    ],
)
def test_several_instructions_compute_a_value_in_buffers(dtype: str, value: str, used: str) -> None:
    for m, n in ((1, 1), (45, 70)):
        names = names_of_right_words(ELEMENTWISE.format(dtype=dtype, value=value), {"M": m, "N": n})
        assert used in names, (m, n)
        arrays = len({name for name in "ab" if f"{name}[" in value})
        rows = -(-m // 32) * -(-n // 32)
        assert sum(name.startswith("dma_out") for name in names) <= rows * arrays, (
            "nothing is stored in between"
        )


@pytest.mark.parametrize(
    ("text", "sizes", "used"),
    [
        (SOFTMAX, {"M": 5, "N": 64}, {"max_rows", "exp_floats", "sum_rows"}),
        (POOLED, {"P": 2, "Q": 3, "C": 40}, {"fill_bytes", "max_into_bytes"}),
        (MEAN, {"P": 9, "C": 40}, {"add_into_sums", "requantise"}),
    ],
)
def test_reductions_along_rows_and_along_windows_are_performed(
    text: str, sizes: dict[str, int], used: set[str]
) -> None:
    assert used <= set(names_of_right_words(text, sizes))


def test_a_value_that_no_instructions_compute_is_refused_with_the_nearest() -> None:
    text = ELEMENTWISE.format(dtype="i32", value="a[i, j] * b[i, j] + a[i, j]")
    with pytest.raises(NoMapping) as refused:
        names_of_right_words(text, {"M": 32, "N": 32})
    (note,) = refused.value.diagnostics[0].notes
    assert note == (
        "add_sums cannot load or store x: edge-npu has no instruction that writes `a[i, j] * b[i, j]` to acc, "
        "where add_sums reads it"
    )


BEHIND_REGISTERS = """
kernel behind_registers(M, N) {{
  in a: i32[M, N];
  out c: {dtype}[M, N];
  for i in M, j in N {{ c[i, j] = {value}; }}
}}
"""


@pytest.mark.parametrize(
    ("dtype", "value", "used"),
    [
        ("i32", "max(a[i, j], 0)", {"load_w", "relu_w", "store_w", "dma_out_i32"}),
        (
            "i8",
            "sat_i8(round(f32(max(a[i, j], 0)) * 0.25, even))",
            {"load_w", "relu_w", "requantise", "store_v", "dma_out_i8"},
        ),
    ],
)
def test_registers_that_load_from_a_scratchpad_compute_elementwise(
    dtype: str, value: str, used: set[str]
) -> None:
    """A DMA brings the array as it is, and what is stored in the scratchpad is computed behind the load."""
    source = Source("k.ir", BEHIND_REGISTERS.format(dtype=dtype, value=value))
    for m, n in ((1, 1), (5, 130)):
        sizes = {"M": m, "N": n}
        words = compile_words(Request(source, "vector-dsp", {**sizes}, heuristic="greedy"))[0]
        machine = load_machine("vector-dsp")
        assert verify_program(words, machine, program_kernel(words, source), "random").ok
        made = compile_kernel(Request(source, "vector-dsp", {**sizes}, heuristic="greedy"))
        assert isinstance(made.emitted, EmittedC)
        called = {name for name in machine.instructions if f" {name}(" in made.emitted.source}
        assert called - {"dma_zeros_i32", "dma_zeros_i8"} == {*used, "dma_in_i32"}, (m, n)


def test_registers_compute_a_value_of_several_arrays_in_a_scratchpad() -> None:
    text = BEHIND_REGISTERS.format(dtype="i8", value="sat_i8(round(f32(max(a[i, j], 0)) * s[j], even))")
    text = text.replace("  out c", "  in s: f32[N];\n  out c")
    for m, n in ((1, 1), (5, 130)):
        source = Source("k.ir", text)
        words = compile_words(Request(source, "vector-dsp", {"M": m, "N": n}, heuristic="greedy"))[0]
        machine = load_machine("vector-dsp")
        assert verify_program(words, machine, program_kernel(words, source), "random").ok, (m, n)
        assert all(case.ok for case in verify(text, "vector-dsp", {"M": m, "N": n}, heuristic="greedy"))


def test_norms_and_softmax_are_performed_by_registers_that_load_from_a_scratchpad() -> None:
    """Instructions of `rows` have names of the kernels' arrays, such as `total`."""
    for kernel, sizes in (("softmax_f32", {"M": 3, "N": 32}), ("layer_norm_f32", {"M": 2, "N": 64})):
        assert all(case.ok for case in verify(kernel, MACHINES / "rows.yaml", sizes)), kernel


SQUARES = """kernel squares(M, N) {{
  in a: f32[M, N];
  out y: f32[M];
  for i in M {{ y[i] = 0; }}
  for i in M, j in N {{ y[i] += {value}; }}
}}"""


def test_sums_of_computed_values_end_within_a_tile_if_zeros_add_nothing(tmp_path: Path) -> None:
    rows, kernel = MACHINES / "rows.yaml", tmp_path / "k.ir"
    kernel.write_text(SQUARES.format(value="a[i, j] * a[i, j]"))
    assert all(case.ok for case in verify(kernel, rows, {"M": 3, "N": 37}))
    assert all(case.ok for case in verify("layer_norm_f32", rows, {"M": 2, "N": 40}))
    kernel.write_text(SQUARES.format(value="a[i, j] * -1.0"))
    assert all(case.ok for case in verify(kernel, rows, {"M": 3, "N": 37}))


@pytest.mark.parametrize(
    ("value", "sizes", "said"),
    [
        (
            "exp(a[i, j])",
            {"M": 3, "N": 37},
            "`exp(a[i, j])` of zeros is not 0, and the last tile of the sum is",
        ),
        (
            "a[i, j] * a[i, j]",
            {"M": 3, "N": "1..64"},
            "the sum's size is open, and its last tile is computed whole: give",
        ),
    ],
)
def test_a_sum_that_cannot_end_within_a_tile_says_why(
    value: str, sizes: dict[str, int | str], said: str
) -> None:
    source, rows = Source("k.ir", SQUARES.format(value=value)), str(MACHINES / "rows.yaml")
    with pytest.raises(NoMapping) as refused:
        compile_kernel(Request(source, rows, sizes, heuristic="greedy"), "schedule")
    (note,) = refused.value.diagnostics[0].notes
    assert note.startswith(f"total cannot load or store x: {said}")


def test_an_operation_that_registers_lack_is_named() -> None:
    text = BEHIND_REGISTERS.format(dtype="i32", value="max(a[i, j], 0) + b[j]")
    source = Source("k.ir", text.replace("  out c", "  in b: i32[N];\n  out c"))
    with pytest.raises(NoMapping) as refused:
        compile_kernel(Request(source, "vector-dsp", {"M": 5, "N": 130}, heuristic="greedy"), "schedule")
    assert refused.value.diagnostics[0].notes == (
        "`store_w` would store it, but no instruction computes `max(a[i, j], 0) + b[j]` in registers",
    )


def test_only_instructions_between_the_memories_of_a_copy_are_laid_over_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Laying one over takes its addresses: on a machine of 39 instructions it was most of the time of refusals."""
    laid_over, fits = scratch_buffers.lay_over_copy, list[bool]()

    def watched(
        copy: Copy,
        counts: Mapping[str, Index],
        pattern: Pattern,
        counters: dict[str, str],
        search: MoveSearch,
    ) -> Dma | None:
        fits.append(search.lies_in(copy.target.buffer, pattern.output.memory))
        return laid_over(copy, counts, pattern, counters, search)

    monkeypatch.setattr(scratch_buffers, "lay_over_copy", watched)
    source = Source("k.ir", ELEMENTWISE.format(dtype="i8", value=RESIDUAL))
    sizes = {"M": 45, "N": 70}
    compile_kernel(Request(source, "edge-npu", {**sizes}, heuristic="greedy", cache=False), "schedule")
    assert fits
    assert all(fits)
