"""Statements performed where sums lie: what they start from, and what is computed of them on the way out."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from isamap.driver.encoded_programs import compile_words, program_kernel, verify_program
from isamap.driver.inputs import named_kernel
from isamap.driver.pipeline import compile_kernel
from isamap.driver.request import Request
from isamap.emit.c import EmittedC
from isamap.ir import bind, interpret
from isamap.kernels import kernel_path
from isamap.lower.walk import issued_names
from isamap.machine import load_machine
from isamap.report.lowered import print_program
from isamap.run.runner import run_program
from isamap.run.toolchain import compile_library
from isamap.source import NoMapping, Source
from isamap.stream.command import Command
from isamap.stream.encoding import decode
from isamap.syntax import parse_kernel

REQUANTISED = kernel_path("gemm_s8s8_requant").read_text()
CONSTANT = REQUANTISED.replace(", scalar scale: f32", "").replace("* scale", "* 0.0078125")
COLUMNS = (
    REQUANTISED.replace(", scalar scale: f32", "")
    .replace("  out C", "  in scale: f32[N];\n  out C")
    .replace("* scale,", "* scale[n],")
)
REQUANTISING = "  for m in M, n in N { C[m, n] = sat_i8("
RELU_OF_SUMS = (
    COLUMNS.replace(REQUANTISING, "  for m in M, n in N { s[m, n] = max(s[m, n], 0); }\n" + REQUANTISING)
    .replace("s[m, n] = 0;", "s[m, n] = bias[n];")
    .replace("  out C", "  in bias: i32[N];\n  out C")
)
RELU_OF_BYTES = COLUMNS.replace("= sat_i8(", "= max(sat_i8(").replace("even)); }", "even)), 0); }")
RELU_BEHIND = COLUMNS.rstrip().removesuffix("}") + "  for m in M, n in N { C[m, n] = max(C[m, n], 0); }\n}\n"
BEGUN = """kernel begun(M, N, K) {{
  in A: i8[M, K];
  in B: i8[K, N];
  in bias: i32[N];
  out C: i32[M, N];
  for m in M, n in N {{ C[m, n] = {first}; }}
  for m in M, n in N, k in K {{ C[m, n] += i32(A[m, k]) * i32(B[k, n]); }}
}}
"""


def instructions_of_right_program(
    text: str,
    machine: str,
    sizes: Mapping[str, int],
    fixed: Mapping[str, int] | None = None,
    schedule: str | None = None,
) -> set[str]:
    """Return what a program issues that computes as the interpreter does."""
    source, replay = Source("k.ir", text), Source("s.schedule", schedule) if schedule else None
    asked = Request(
        source, machine, dict(sizes), schedule=replay, heuristic="greedy", fixed=dict(fixed or {})
    )
    made = compile_kernel(asked)
    assert isinstance(made.emitted, EmittedC)
    assert made.machine
    assert made.program
    bound, rng = bind(parse_kernel(source), sizes), np.random.default_rng(1)
    arrays = {
        o.name: rng.integers(-100, 100, tuple(s.value or 1 for s in o.shape)).astype(o.dtype.numpy())
        for o in bound.operands
        if o.role != "temp"
    }
    if "scale" in arrays:
        arrays["scale"] = np.divide(
            arrays["scale"], np.float32(20000)
        )  # most sums become other bytes than the ends
    scalars = {"scale": 0.004} if "scalar" in text else {}
    result = run_program(compile_library(made.emitted, made.machine), arrays, scalars=scalars, guard=True)
    assert result.status == 0, result.meaning
    (output,) = (o.name for o in bound.operands if o.role == "out")
    assert np.array_equal(result.arrays[output], interpret(bound, arrays, {}, scalars)[output])
    return set(issued_names(made.program.body))


def commands_of_right_words(text: str, sizes: Mapping[str, int]) -> list[Command]:
    """Return the commands of a program of words for edge-npu that computes as the interpreter does."""
    npu, source = load_machine("edge-npu"), Source("k.ir", text)
    words = compile_words(Request(source, "edge-npu", dict(sizes), heuristic="greedy"))[0]
    assert verify_program(words, npu, program_kernel(words, source), "random").ok
    return [one.command for one in decode(words.words, npu)]


@pytest.mark.parametrize(("m", "n", "k"), [(1, 1, 1), (64, 64, 64), (70, 50, 45), (300, 33, 90)])
def test_sums_become_bytes_without_a_trip_through_main_memory(m: int, n: int, k: int) -> None:
    used = instructions_of_right_program(REQUANTISED, "edge-npu", {"M": m, "N": n, "K": k})
    array = {"load_weights", "stream_first", *(("stream",) if k > 32 else ())}
    summed = {"multiply_columns_first"} if m == 1 else array
    assert used - {"dma_zeros"} == {"dma_in_i8", "requantise", "dma_out_i8"} | summed


def test_only_rows_that_exist_become_bytes_and_nothing_is_cleared_behind_them() -> None:
    """A tile of sums has 32 rows; the last one has 6. No instruction reads what is behind them."""
    added = "f32(sat_i8(round(f32(s[m, n]) * 0.0078125, even))) * 0.5 + f32(R[m, n]) * 0.25"
    residual = CONSTANT.replace("  out C", "  in R: i8[M, N];\n  out C").replace(
        "f32(s[m, n]) * 0.0078125", added
    )
    commands = commands_of_right_words(residual, {"M": 70, "N": 64, "K": 32})
    rows = {
        name: [dict(c.params)["R"] for c in commands if c.instruction == name]
        for name in ("requantise", "add_bytes", "dma_out_i8")
    }
    assert rows["requantise"] == rows["add_bytes"] == rows["dma_out_i8"] == 2 * [32, 32, 6]
    cleared = [c for c in commands if c.instruction == "dma_zeros"]
    assert len(cleared) == 1, "the product reads all rows of the last tile of A"


def test_parts_of_sums_stay_in_their_scratchpad() -> None:
    sizes, fixed = {"M": 40, "N": 40, "K": 100}, {"nest1.block.k": 32}
    used = instructions_of_right_program(REQUANTISED, "edge-npu", sizes, fixed)
    assert {"requantise", "stream_first", "stream"} <= used
    assert not {"dma_out_i32", "dma_in_i32", "dma_zeros_sums"} & used


PARTS = """isamap schedule 1
kernel gemm_s8s8_requant
machine edge-npu
sizes K = 100, M = 40, N = 40
status MANUAL

nest 1 {
  map stream { m: m, n: n, k: k } (a = A[m, k], b = B[k, n]);
  choose M = 64;
  stage a in spad at 0;
  stage b in spad at 8192;
  for k by 32 { for m by 64 { for n by 32 { stage c in acc at 0; hold; fuse 0, 2; issue; } } }
}
"""


def test_parts_of_sums_go_through_main_memory_by_hand_and_only_whole_ones_become_bytes() -> None:
    used = instructions_of_right_program(
        REQUANTISED, "edge-npu", {"M": 40, "N": 40, "K": 100}, schedule=PARTS
    )
    assert {"dma_out_i32", "dma_in_i32", "requantise"} <= used


@pytest.mark.parametrize(("m", "n", "k"), [(64, 64, 64), (70, 50, 45)])
def test_what_else_is_read_is_brought_beside_the_sums(m: int, n: int, k: int) -> None:
    used = instructions_of_right_program(COLUMNS, "edge-npu", {"M": m, "N": n, "K": k})
    assert {"dma_in_f32", "requantise_columns"} <= used
    assert ("dma_zeros_scales" in used) == (n % 32 > 0)
    assert not {"dma_in_i32", "dma_out_i32"} & used


def test_whole_tiles_of_what_else_is_read_need_no_zeros() -> None:
    """No instruction writes i32 zeros in the scratchpad of the bias."""
    data = Path(__file__).parents[1] / "data" / "epilogue"
    sizes = {"N": 1, "H": 18, "W": 18, "C": 16, "K": 16, "R": 3, "S": 3}
    used = instructions_of_right_program((data / "convb.ir").read_text(), str(data / "tiny2.yaml"), sizes)
    assert "requantise_columns_bias" in used
    assert "store_i32" not in used


@pytest.mark.parametrize(
    ("machine", "requantise"), [("edge-npu", "requantise_columns"), ("vector-dsp", "requantise_lanes")]
)
def test_a_convolution_adds_its_bias_and_scales_its_channels_where_its_sums_lie(
    machine: str, requantise: str
) -> None:
    text = (Path(__file__).parents[2] / "docs" / "examples" / "conv2d_s8_requant.ir").read_text()
    sizes = {"N": 1, "H": 6, "W": 7, "C": 9, "K": 33, "R": 3, "S": 2}
    used = instructions_of_right_program(text, machine, sizes)
    assert {"dma_in_i32", "dma_in_f32", requantise} <= used
    assert "dma_out_i32" not in used


@pytest.mark.parametrize(("m", "n", "k"), [(1, 1, 1), (8, 64, 70), (5, 70, 33)])
@pytest.mark.parametrize("text", [REQUANTISED, COLUMNS], ids=["one scale", "columns"])
def test_sums_in_registers_leave_as_bytes_through_a_scratchpad(text: str, m: int, n: int, k: int) -> None:
    fixed = {"nest1.block.k": k} if k > 1 else {}
    used = instructions_of_right_program(text, "vector-dsp", {"M": m, "N": n, "K": k}, fixed)
    assert {
        "mac",
        "store_v",
        "dma_out_i8",
        "requantise" if text == REQUANTISED else "requantise_lanes",
    } <= used
    assert ("dma_in_f32" in used) == (text == COLUMNS)
    assert not {"dma_in_i32", "dma_out_i32"} & used
    assert not {"dma_zeros_i32", "load_w", "store_w"} & used, (
        "registers hold sums from the first to the last product"
    )


def test_parts_of_sums_in_registers_rest_in_their_scratchpad_and_whole_ones_leave_from_registers() -> None:
    sizes, fixed = {"M": 6, "N": 70, "K": 100}, {"nest1.block.k": 32}
    used = instructions_of_right_program(REQUANTISED, "vector-dsp", sizes, fixed)
    assert {"load_w", "store_w", "requantise", "store_v", "dma_out_i8"} <= used
    assert not {"dma_in_i32", "dma_out_i32"} & used


def test_scales_of_channels_are_brought_once_for_all_tiles() -> None:
    commands = commands_of_right_words(COLUMNS, {"M": 512, "N": 80, "K": 32})
    used = [command.instruction for command in commands]
    assert used.count("dma_in_f32") == 3, "32 of 80 at a time"
    assert used.count("requantise_columns") == 16 * 3, "32 rows of 512 at a time"


TWO_OUTPUTS = COLUMNS.replace("  out C", "  in other: f32[N];\n  out D: i8[M, N];\n  out C").replace(
    REQUANTISING,
    "  for m in M, n in N { D[m, n] = sat_i8(round(f32(s[m, n]) * other[n], even)); }\n" + REQUANTISING,
)


def test_scales_of_two_results_do_not_share_their_bytes() -> None:
    commands = commands_of_right_words(TWO_OUTPUTS, {"M": 70, "N": 50, "K": 45})
    assert {"requantise_columns", "dma_in_f32"} <= {command.instruction for command in commands}


@pytest.mark.parametrize(("m", "n", "k"), [(64, 64, 32), (40, 70, 45)])
@pytest.mark.parametrize(
    ("text", "machine", "relu"),
    [
        (RELU_OF_SUMS, "edge-npu", "relu_sums"),
        (RELU_OF_SUMS, "vector-dsp", "relu_w"),
        (RELU_OF_BYTES, "edge-npu", "relu_bytes"),
        (RELU_BEHIND, "edge-npu", "relu_bytes"),
    ],
)
def test_several_instructions_compute_what_leaves_one_behind_the_other(
    text: str, machine: str, relu: str, m: int, n: int, k: int
) -> None:
    used = instructions_of_right_program(text, machine, {"M": m, "N": n, "K": k})
    assert {relu, "dma_in_f32", "dma_out_i8"} <= used
    assert "dma_out_i32" not in used
    assert ("dma_in_i32" in used) == ("bias" in text)


def test_words_of_a_chain_say_the_same_in_its_order() -> None:
    commands = commands_of_right_words(RELU_OF_SUMS, {"M": 32, "N": 32, "K": 32})
    used = [command.instruction for command in commands]
    behind = used[used.index("stream") + 1 :]
    chain = [name for name in behind if name != "dma_in_f32"]
    assert chain == ["relu_sums", "requantise_columns", "dma_out_i8"]


@pytest.mark.parametrize("text", [CONSTANT, COLUMNS], ids=["constant", "columns"])
def test_words_say_the_same(text: str) -> None:
    commands = commands_of_right_words(text, {"M": 70, "N": 50, "K": 45})
    assert not {"dma_in_i32", "dma_out_i32"} & {c.instruction for c in commands}
    rows = {dict(c.params)["R"] for c in commands if "R" in dict(c.params) and c.instruction != "dma_in_f32"}
    assert rows == {32, 13, 6}, "as many as one takes, and what is left of 70 and of 45"
    scales = {dict(c.params)["scale"] for c in commands if c.instruction == "requantise"}
    assert scales == ({0x3C000000} if text == CONSTANT else set())


@pytest.mark.parametrize("machine", ["gemmini", "systolic-16", "edge-npu"])
@pytest.mark.parametrize("first", ["0", "bias[n]"])
def test_sums_begin_in_their_scratchpad(first: str, machine: str) -> None:
    used = instructions_of_right_program(BEGUN.format(first=first), machine, {"M": 20, "N": 33, "K": 17})
    brought = {"mvin_sums", "mvin_row", "dma_in_i32"} & used
    assert bool(brought) == (first == "bias[n]")
    overwrites = machine == "edge-npu" and first == "0"
    assert ("stream_first" in used) == overwrites
    assert not (overwrites and "dma_zeros_sums" in used)


def test_a_statement_that_no_sum_can_take_along_is_refused() -> None:
    with pytest.raises(NoMapping, match=r"systolic-16 cannot perform `C\[m, n\] = 1;`"):
        instructions_of_right_program(BEGUN.format(first="1"), "systolic-16", {"M": 16, "N": 16, "K": 16})


DEPTHWISE = """kernel depthwise(H, W, C, R, S) where H >= R, W >= S {
  in x: i8[H, W, C];
  in w: i8[R, S, C];
  out y: i32[H - R + 1, W - S + 1, C];
  for p in H - R + 1, q in W - S + 1, c in C { y[p, q, c] = 0; }
  for p in H - R + 1, q in W - S + 1, c in C, r in R, s in S {
    y[p, q, c] += i32(x[p + r, q + s, c]) * i32(w[r, s, c]);
  }
}
"""
VECTOR = """kernel vector(M, K) {
  in A: i8[M, K];
  in x: i8[K];
  out y: i32[M];
  for m in M { y[m] = 0; }
  for m in M, k in K { y[m] += i32(A[m, k]) * i32(x[k]); }
}
"""
TPU_LIKE = str(Path(__file__).parents[2] / "docs" / "examples" / "energy" / "tpu-like.yaml")


@pytest.mark.parametrize(
    ("text", "sizes", "machine"),
    [
        *(
            (VECTOR, {"M": 5, "K": 40}, machine)
            for machine in (TPU_LIKE, "gemmini", "systolic-16", "edge-npu")
        ),
        # gemmini has no instruction that moves one element, and the taps of one channel are far apart
        *(
            (DEPTHWISE, {"H": 5, "W": 6, "C": 3, "R": 3, "S": 3}, m)
            for m in (TPU_LIKE, "systolic-16", "edge-npu")
        ),
    ],
    ids=lambda value: Path(value).stem if isinstance(value, str) and value.endswith(".yaml") else None,
)
def test_an_axis_that_no_loop_uses_is_one_column(text: str, sizes: dict[str, int], machine: str) -> None:
    """A column is loaded at any distance of its elements: the rows of a register need not be whole."""
    instructions_of_right_program(text, machine, sizes)


def test_a_last_row_is_stored_as_whole_tiles_are() -> None:
    """33 rows in tiles of 16: the row that is left went through a buffer, one element at a time."""
    request = Request(
        named_kernel("gemm_s8s8"), "opencl-simt", {"M": 33, "N": 20, "K": 9}, model=True, heuristic="greedy"
    )
    program = compile_kernel(request).program
    assert program is not None
    assert "buffer c_" not in print_program(program)
