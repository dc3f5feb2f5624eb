"""Hand-written schedules whose iterations work for each other, run and compared with the interpreter."""

from __future__ import annotations

import re

import numpy as np
import pytest

from isamap.driver.pipeline import Compilation, compile_kernel
from isamap.driver.request import Request, Size
from isamap.emit.c import EmittedC
from isamap.ir import bind, interpret
from isamap.kernels import kernel_path
from isamap.run.runner import run_program
from isamap.run.toolchain import compile_library
from isamap.source import Source
from isamap.syntax import parse_kernel

AMX = """isamap schedule 1
kernel gemm_bf16
machine x86-amx
sizes K = {K}, M = {M}, N = {N}
status MANUAL

nest 0 {{
  map tdpbf16ps {{ m: m, n: n, k: k, p: k }} (a = A[m, k], b = B[k, n]);
  choose N = 16, Q = 16, R = 16;
  for n by 64 {{
    stage b{ahead};
    for m by 32 {{
      for n by 32 {{
        stage c;
        {spread}
        hold;
        for k by 32 {{
          unroll m by 16 {{
            unroll n by 16 {{
              issue;
            }}
          }}
        }}
      }}
    }}
  }}
}}
"""
PARTS = """isamap schedule 1
kernel gemm_f32
machine x86-avx2
sizes K = {K}, M = {M}, N = {N}
status MANUAL

nest 0 {{
  map fma_ymm_f32 {{ i: n }} (a = A[m, k], b = B[k, n]);
  par n by 40 {{
    for k by 24 {{
      stage b ahead 1 into {into};
      for m by 6 {{
        for n by 16 {{
          hold;
          for k by 2 {{
            unroll k by 1 {{
              unroll m by 1 {{
                unroll n by 8 {{
                  issue;
                }}
              }}
            }}
          }}
        }}
      }}
    }}
  }}
}}
"""
VECTOR = """isamap schedule 1
kernel gemm_f32
machine x86-avx2
sizes K = {K}, M = {M}, N = {N}
status MANUAL

nest 0 {{
  map fma_ymm_f32 {{ i: n }} (a = A[m, k], b = B[k, n]);
  for k by 6 {{
    stage b ahead 2;
    for m by 4 {{
      stage a ahead 1;
      for n by 16 {{
        stage c;
        spread write c into k;
        hold;
        for k by 1 {{
          unroll m by 1 {{
            unroll n by 8 {{
              issue;
            }}
          }}
        }}
      }}
    }}
  }}
}}
"""
LATE = "spread write c into k;"
WHOLE = {"M": 64, "N": 128, "K": 96}
RAGGED = {"M": 39, "N": 105, "K": 71}
ONE_ITERATION = {"M": 20, "N": 25, "K": 40}


def compiled(text: str, kernel: str, machine: str, sizes: dict[str, Size], **words: str) -> Compilation:
    source = Source(f"{kernel}.ir", kernel_path(kernel).read_text())
    schedule = Source("s.schedule", text.format(**sizes, **words))
    return compile_kernel(Request(source, machine, sizes, schedule=schedule, model=True))


def check(made: Compilation, kernel: str, sizes: dict[str, int], open_sizes: dict[str, int]) -> None:
    """Small integers, whose sums every order rounds alike."""
    assert isinstance(made.emitted, EmittedC)
    assert made.machine
    rng = np.random.default_rng(1)
    bound = bind(parse_kernel(Source("k.ir", kernel_path(kernel).read_text())), sizes)
    arrays = {
        o.name: rng.integers(-2, 3, tuple(s.value or 1 for s in o.shape)).astype(o.dtype.numpy())
        for o in bound.operands
    }
    result = run_program(compile_library(made.emitted, made.machine), arrays, open_sizes, guard=True)
    assert result.status == 0, result.meaning
    expected = interpret(bound, arrays, {})
    assert np.array_equal(
        np.asarray(result.arrays["C"], dtype=np.float64), np.asarray(expected["C"], dtype=np.float64)
    )


DEALT = (
    (WHOLE, " ahead 1"),
    (RAGGED, " ahead 2"),
    (ONE_ITERATION, ""),
    (WHOLE, " ahead 1 into k"),
    (RAGGED, " ahead 2 into k"),
    (ONE_ITERATION, " ahead 1 into k"),
)


@pytest.mark.parametrize(("sizes", "ahead"), DEALT)
def test_tiles_are_converted_and_packed_during_other_turns(sizes: dict[str, int], ahead: str) -> None:
    made = compiled(AMX, "gemm_bf16", "x86-amx", {**sizes}, spread=LATE, ahead=ahead)
    check(made, "gemm_bf16", sizes, {})


@pytest.mark.parametrize("sizes", [WHOLE, RAGGED, ONE_ITERATION])
def test_several_buffers_cross_turns_of_loops_around_each_other(sizes: dict[str, int]) -> None:
    check(compiled(VECTOR, "gemm_f32", "x86-avx2", {**sizes}), "gemm_f32", sizes, {})


@pytest.mark.parametrize("into", ["m", "n", "k"])
@pytest.mark.parametrize("sizes", [WHOLE, RAGGED, ONE_ITERATION])
def test_threads_fill_their_buffers_beside_their_sums(sizes: dict[str, int], into: str) -> None:
    check(compiled(PARTS, "gemm_f32", "x86-avx2", {**sizes}, into=into), "gemm_f32", sizes, {})


TURNED = """isamap schedule 1
kernel gemm_nt_f32
machine x86-avx512
sizes K = {K}, M = {M}, N = {N}
status MANUAL

nest 0 {{
  map fma_zmm_f32 {{ i: n }} (a = A[m, k], b = B[n, k]);
  for n by 16 {{
    stage b ahead 1 into k;
    for m by 4 {{
      hold;
      for k by 1 {{
        unroll m by 1 {{
          issue;
        }}
      }}
    }}
  }}
}}
"""


@pytest.mark.parametrize("shape", [(9, 64, 45), (3, 37, 19)])
def test_work_in_several_parts_is_shared_out_part_by_part(shape: tuple[int, int, int]) -> None:
    """Blocks that turn rows into columns, and the columns that they leave over."""
    sizes = dict(zip("MNK", shape, strict=True))
    made = compiled(TURNED, "gemm_nt_f32", "x86-avx512", {**sizes})
    assert isinstance(made.emitted, EmittedC)
    assert re.search(r"if \(work\d+_part == 0\)", made.emitted.source)
    check(made, "gemm_nt_f32", sizes, {})


@pytest.mark.exhaustive
def test_threads_with_sizes_that_only_the_run_knows_fill_buffers_beside_their_sums() -> None:
    made = compiled(PARTS, "gemm_f32", "x86-avx2", dict.fromkeys("MNK", "1..256@100"), into="k")
    for actual in (WHOLE, RAGGED, ONE_ITERATION):
        check(made, "gemm_f32", actual, actual)


@pytest.mark.exhaustive
def test_sizes_that_only_the_run_knows_are_shared_out_too() -> None:
    sizes: dict[str, Size] = dict.fromkeys("MNK", "1..256@100")
    for text, kernel, machine in ((AMX, "gemm_bf16", "x86-amx"), (VECTOR, "gemm_f32", "x86-avx2")):
        made = compiled(text, kernel, machine, sizes, spread=LATE, ahead=" ahead 1 into k")
        for actual in (WHOLE, RAGGED, ONE_ITERATION):
            check(made, kernel, actual, actual)


def test_a_share_of_the_conversion_stands_in_the_summing_loop() -> None:
    made = compiled(AMX, "gemm_bf16", "x86-amx", {**WHOLE}, spread=LATE, ahead="")
    assert isinstance(made.emitted, EmittedC)
    opened = r"for \(int64_t (k\d+) = 0; .*\n *\{ /\* write c of the iteration before back"
    counter = re.search(opened, made.emitted.source)
    assert counter
    source = made.emitted.source
    inside = source[source.index(counter[0]) :]
    # 32 rows of two tiles in three iterations of the summing loop: 10, 11 and 11, by counters that go on.
    assert re.search(r"int64_t work(\d+)_now = 10;", inside)
    assert re.search(r"if \(\(work(\d+)_due \+= 2\) >= 3\) { work\1_due -= 3; work\1_now\+\+; }", inside)
    assert "/ 3" not in inside


SWEEP = """isamap schedule 1
kernel gemm_f32
machine x86-avx2
sizes K = {K}, M = {M}, N = {N}
status MANUAL

nest 0 {{
  map fma_ymm_f32 {{ i: n }} (a = A[m, k], b = B[k, n]);
  for k by 8 {{
    {hint}
    for m by 2 {{
      for n by 16 {{
        hold;
        unroll k by 1 {{
          unroll m by 1 {{
            unroll n by 8 {{
              issue;
            }}
          }}
        }}
      }}
    }}
  }}
}}
"""


@pytest.mark.exhaustive(fast=5)
@pytest.mark.parametrize("hint", ["", "prefetch b ahead 1 into l2;", "prefetch b ahead 2 into l1;"])
@pytest.mark.parametrize("shape", [(1, 96, 64), (2, 131, 29), (3, 16, 8), (5, 700, 7), (1, 9, 17)])
def test_rows_are_read_side_by_side_to_their_ends(shape: tuple[int, int, int], hint: str) -> None:
    sizes = dict(zip("MNK", shape, strict=True))
    check(compiled(SWEEP, "gemm_f32", "x86-avx2", {**sizes}, hint=hint), "gemm_f32", sizes, {})


def test_the_turns_that_read_rows_ask_for_the_next_ones_though_a_loop_around_them_runs_once() -> None:
    made = compiled(
        SWEEP, "gemm_f32", "x86-avx2", {"M": 1, "N": 160, "K": 64}, hint="prefetch b ahead 1 into l2;"
    )
    assert isinstance(made.emitted, EmittedC)
    before, inside = made.emitted.source.split("for (int64_t n0 ")
    assert "/* prefetch b into l2 */" in inside
    assert "/* prefetch" not in before
    # Eight rows of ten lines in ten iterations.
    assert re.search(r"for \(int64_t share\d+ = 0; share\d+ < 8; ", inside)


def test_sizes_that_only_the_run_knows_are_asked_for_too() -> None:
    sizes: dict[str, Size] = dict.fromkeys("MNK", "1..256@100")
    made = compiled(SWEEP, "gemm_f32", "x86-avx2", sizes, hint="prefetch b ahead 1 into l2;")
    for actual in (WHOLE, RAGGED, ONE_ITERATION):
        check(made, "gemm_f32", actual, actual)
