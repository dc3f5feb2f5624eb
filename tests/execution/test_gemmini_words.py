"""Programs of Gemmini's words: performed by us, by a simulator written from the manual, and by Gemmini's own.

libgemmini, the functional simulator of Gemmini's authors, is built where ISAMAP_LIBGEMMINI names a folder
with its sources (github.com/ucb-bar/libgemmini), with the few names of Spike that it asks for
(tests/libgemmini).
"""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gemmini_by_hand import File, Gemmini
from numpy.typing import NDArray

from isamap.codegen.fills import make_arrays
from isamap.driver.inputs import read_kernel
from isamap.driver.request import Request
from isamap.driver.streams import compile_words, program_kernel, verify_program
from isamap.ir import Kernel, interpret
from isamap.machine import Machine, load_machine
from isamap.source import UsageProblem
from isamap.stream.program_file import ProgramFile, read_program, write_program
from isamap.stream.words import decode

SHIM = Path(__file__).resolve().parents[1] / "libgemmini"
SIZES = [(16, 16, 16), (37, 20, 70), (64, 48, 33)]


@pytest.fixture(scope="module")
def machine() -> Machine:
    return load_machine("gemmini")


def compiled(name: str, **sizes: int) -> bytes:
    program, _ = compile_words(Request(read_kernel(name), "gemmini", sizes, heuristic="greedy"))
    return write_program(program)


def wanted(data: bytes, name: str) -> tuple[dict[str, NDArray[Any]], NDArray[Any]]:
    """Arrays, and what the kernel's interpreter makes of them."""
    kernel: Kernel = program_kernel(read_program(data, "a program"), read_kernel(name))
    arrays = make_arrays(kernel, "random")
    return arrays, interpret(kernel, arrays, {})["C"]


@pytest.mark.parametrize(("m", "n", "k"), SIZES)
def test_words_do_what_the_kernel_says_by_our_reading_and_by_the_manual(
    m: int, n: int, k: int, machine: Machine
) -> None:
    data = compiled("gemm_s8s8", M=m, N=n, K=k)
    program = read_program(data, "a program")
    case = verify_program(program, machine, program_kernel(program, read_kernel("gemm_s8s8")), "random")
    assert case.ok, case.problems
    arrays, c = wanted(data, "gemm_s8s8")
    file = File(data)
    memory = file.image(arrays)
    Gemmini(memory).run(file.words)
    assert np.array_equal(file.output(memory, "C"), c)


@pytest.mark.parametrize("kernel", ["gemm_nt_s8s8", "gemm_tn_s8s8"])
def test_columns_that_no_row_address_reaches_are_refused(kernel: str) -> None:
    with pytest.raises(UsageProblem, match=r"`row` of `mvin` cannot hold `z.address` = 1"):
        compiled(kernel, M=32, N=16, K=48)


@pytest.mark.skipif("ISAMAP_LIBGEMMINI" not in os.environ, reason="ISAMAP_LIBGEMMINI names no libgemmini")
def test_the_simulator_of_its_authors_runs_the_words(tmp_path: Path) -> None:
    folder = Path(os.environ["ISAMAP_LIBGEMMINI"])
    compiler = shutil.which("g++") or shutil.which("clang++")
    assert compiler, "libgemmini is C++"
    sources = [str(folder / "gemmini.cc"), str(SHIM / "run.cc")]
    command = [compiler, "-O1", "-w", "-fpermissive", "-std=c++17", f"-I{SHIM}", *sources]
    subprocess.run([*command, "-o", str(tmp_path / "run")], check=True)
    for m, n, k in SIZES:
        data = compiled("gemm_s8s8", M=m, N=n, K=k)
        arrays, c = wanted(data, "gemm_s8s8")
        file = File(data)
        (tmp_path / "image").write_bytes(file.image(arrays).tobytes())
        (tmp_path / "words").write_bytes(file.body)
        subprocess.run([tmp_path / "run", tmp_path / "image", tmp_path / "words"], check=True)
        memory = np.fromfile(tmp_path / "image", np.uint8)
        assert np.array_equal(file.output(memory, "C"), c)


CORRUPTIONS = 30


def corrupted(program: ProgramFile, machine: Machine, seed: int) -> tuple[str, ProgramFile]:
    """The program with another number in one field of one instruction, and which that is."""
    rng = np.random.default_rng(seed)
    placed = decode(program.words, machine)
    one = placed[int(rng.integers(len(placed)))]
    encoding = machine.instructions[one.command.instruction].encoding
    assert encoding is not None
    fields = [(at, f) for at, word in enumerate(encoding.words) for f in word]
    at, field = fields[int(rng.integers(len(fields)))]
    words = list(program.words)
    old = field.get(words[one.at + at])
    new = old
    while new == old:  # as a slip would have it: a number nearby, or one bit
        new = int(old + rng.integers(-2, 3)) if rng.integers(2) else old ^ 1 << int(rng.integers(12))
        new %= field.limit
    words[one.at + at] ^= field.put(old ^ new)
    said = f"{one.command.instruction}.{field.name} at word {one.at + at}: {old} to {new}"
    return said, replace(program, words=tuple(words))


def test_single_fields_that_are_corrupted_are_caught(machine: Machine) -> None:
    program = read_program(compiled("gemm_s8s8", M=32, N=32, K=32), "a program")
    kernel = program_kernel(program, read_kernel("gemm_s8s8"))
    assert verify_program(program, machine, kernel, "random").ok
    missed = list[str]()
    for seed in range(CORRUPTIONS):
        said, wrong = corrupted(program, machine, seed)
        read = read_program(write_program(wrong), "a program")
        if verify_program(read, machine, kernel, "random").ok:
            missed.append(said)
    assert missed == []
