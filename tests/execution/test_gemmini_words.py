"""Programs of Gemmini's words: performed by us, by a simulator written from the manual, and by Gemmini's own.

libgemmini, the functional simulator of Gemmini's authors, is built where ISAMAP_LIBGEMMINI names a folder
with its sources (github.com/ucb-bar/libgemmini), with the few names of Spike that it asks for
(tests/libgemmini).
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from corrupted_words import corrupted
from gemmini_by_hand import Gemmini
from gemmini_words import CASES, EXAMPLES, NAMES, compiled, started
from own_reading import check_own_reading

from isamap.driver.encoded_programs import compile_words, program_kernel, verify_program
from isamap.driver.inputs import read_kernel
from isamap.driver.request import Request, Size
from isamap.lower.walk import issued_names
from isamap.machine import Machine, load_machine
from isamap.source import NoMapping, Source
from isamap.stream.execute import count_instructions
from isamap.stream.program_file import read_program, write_program
from isamap.stream.timing import stream_time

SHIM = Path(__file__).resolve().parents[1] / "libgemmini"


@pytest.fixture(scope="module")
def machine() -> Machine:
    return load_machine("gemmini")


@pytest.mark.parametrize(("name", "sizes"), CASES, ids=NAMES)
def test_words_do_what_the_kernel_says_by_our_reading_and_by_the_manual(
    name: str, sizes: dict[str, Size], machine: Machine
) -> None:
    data = compiled(name, sizes)
    check_own_reading(data, read_kernel(name), machine)
    file, memory, expected = started(data, name)
    Gemmini(memory).run(file.words)
    assert all(np.array_equal(file.output(memory, output), values) for output, values in expected.items())


def test_first_products_overwrite_and_results_leave_as_bytes(machine: Machine) -> None:
    data = compiled(str(EXAMPLES / "gemm_requant.ir"), {"M": 32, "N": 16, "K": 48})
    counts = count_instructions(read_program(data, "a program"), machine)
    assert counts == {"mvin": 9, "matmul": 4, "matmul_first": 2, "mvout_scaled": 2}


@pytest.mark.parametrize("kernel", ["gemm_nt_s8s8", "gemm_tn_s8s8"])
def test_columns_that_no_row_address_reaches_are_refused(kernel: str) -> None:
    with pytest.raises(NoMapping) as refused:
        compiled(kernel, {"M": 32, "N": 16, "K": 48})
    operand, array = ("w", "B") if kernel == "gemm_nt_s8s8" else ("a", "A")
    assert refused.value.diagnostics[0].notes[0] == (
        f"matmul cannot load or store {operand}: gemmini has no instruction that copies i8[16, 16] of {array} "
        "into spad, where all that is moved begins at multiples of 16 bytes"
    )


@pytest.mark.skipif("ISAMAP_LIBGEMMINI" not in os.environ, reason="ISAMAP_LIBGEMMINI names no libgemmini")
def test_the_simulator_of_its_authors_runs_the_words(tmp_path: Path) -> None:
    folder = Path(os.environ["ISAMAP_LIBGEMMINI"])
    compiler = shutil.which("g++") or shutil.which("clang++")
    assert compiler, "libgemmini is C++"
    sources = [str(folder / "gemmini.cc"), str(SHIM / "run.cc")]
    command = [compiler, "-O1", "-w", "-fpermissive", "-std=c++17", f"-I{SHIM}", *sources]
    subprocess.run([*command, "-o", str(tmp_path / "run")], check=True)
    for name, sizes in CASES:
        file, memory, expected = started(compiled(name, sizes), name)
        (tmp_path / "image").write_bytes(memory.tobytes())
        (tmp_path / "words").write_bytes(file.body)
        subprocess.run([tmp_path / "run", tmp_path / "image", tmp_path / "words"], check=True)
        memory = np.fromfile(tmp_path / "image", np.uint8)
        assert all(np.array_equal(file.output(memory, output), values) for output, values in expected.items())


def test_single_fields_that_are_corrupted_are_caught(machine: Machine) -> None:
    program = read_program(compiled("gemm_s8s8", {"M": 32, "N": 32, "K": 32}), "a program")
    kernel = program_kernel(program, read_kernel("gemm_s8s8"))
    assert verify_program(program, machine, kernel, "random").ok
    missed = list[str]()
    for seed in range(30):
        said, wrong = corrupted(program, machine, seed)
        read = read_program(write_program(wrong), "a program")
        if verify_program(read, machine, kernel, "random").ok:
            missed.append(said)
    assert missed == []


BIASED = Source(
    "biased.ir",
    """kernel biased(M, N, K) {
      in A: i8[M, K];
      in B: i8[K, N];
      in bias: i32[N];
      out C: i8[M, N];
      temp S: i32[M, N];
      for m in M, n in N { S[m, n] = bias[n]; }
      for m in M, n in N, k in K { S[m, n] += i32(A[m, k]) * i32(B[k, n]); }
      for m in M, n in N { C[m, n] = sat_i8(round(f32(S[m, n]) * 0.01, even)); }
    }""",
)


def test_a_row_that_is_written_several_times_crosses_the_link_once() -> None:
    """The price is that of the words: a bias of all rows was priced as if each row were read."""
    program, made = compile_words(
        Request(BIASED, "gemmini", {"M": 128, "N": 256, "K": 64}, heuristic="greedy")
    )
    assert made.machine
    assert made.schedule
    assert made.program
    assert "mvin_row" in issued_names(made.program.body)
    time = stream_time(program, made.machine)
    assert time is not None
    assert made.schedule.cost_ns == pytest.approx(time.total_ns, rel=0.08)
