"""C that gives commands to an accelerator: compiled for RISC-V, run, and held against the file of words.

QEMU has no accelerator, so that each command is an illegal instruction to it; a handler writes down its words
(tests/rocc/record.h). These have to be those of `--emit program`, which others' simulators run.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from words_in_c import given_arrays

from isamap.driver.encoded_programs import compile_words
from isamap.driver.inputs import read_kernel
from isamap.driver.request import Request, Size
from isamap.emit.c import EmittedC, emit_commands
from isamap.machine import Machine, load_machine
from isamap.source import UsageProblem
from isamap.stream.program_file import ProgramFile

ROOT = Path(__file__).resolve().parents[2]
RECORDER = ROOT / "tests" / "rocc"
EXAMPLES = ROOT / "docs" / "examples"
REGISTERS = 0x01FF8F80
IMAGE = 0x555500000000
CASES: list[tuple[str, dict[str, Size]]] = [
    ("gemm_s8s8", {"M": 37, "N": 20, "K": 70}),
    (str(EXAMPLES / "gemm_requant.ir"), {"M": 40, "N": 32, "K": 48}),
    (str(EXAMPLES / "conv2d_s8_relu.ir"), {"N": 1, "H": 4, "W": 5, "C": 20, "K": 18, "R": 3, "S": 2}),
]


@pytest.fixture(scope="module")
def machine() -> Machine:
    return load_machine("gemmini")


def both(name: str, sizes: dict[str, Size], machine: Machine) -> tuple[ProgramFile, EmittedC]:
    program, made = compile_words(Request(read_kernel(name), machine.name, sizes, heuristic="greedy"))
    assert made.program
    return program, emit_commands(made.program, machine)


def caller(program: ProgramFile, emitted: EmittedC, rows_apart: int = 0) -> str:
    """Return a C file that calls the function with arrays where the file of words has them."""
    return f"""#include "{emitted.name}.h"
#include "record.h"
int main(int count, char **words) {{
  if (count != 2) return 4;
  char *image = record(words[1], {program.memories["dram"]});
  {emitted.name}_args args = {given_arrays(program, "image", rows_apart)};
  int status = {emitted.name}(&args, image, NULL);
  return status ? 10 + status : fclose(out);
}}
"""


def run(program: ProgramFile, emitted: EmittedC, folder: Path, rows_apart: int = 0) -> list[int]:
    """Return the words that the C gives, addresses counted from the beginning of the image."""
    for name, text in {**emitted.files(), "main.c": caller(program, emitted, rows_apart)}.items():
        (folder / name).write_text(text, encoding="utf-8")
    flags = ["--target=riscv64-linux-musl", "-O2", "-std=c11", "-Wall", "-Werror", f"-I{RECORDER}"]
    files = [str(folder / name) for name in (f"{emitted.name}.c", "main.c")]
    built, words = folder / "given", folder / "words"
    subprocess.run([sys.executable, "-m", "ziglang", "cc", *flags, *files, "-o", str(built)], check=True)
    subprocess.run(["qemu-riscv64", str(built), str(words)], check=True)
    found: list[int] = np.fromfile(words, np.uint64).tolist()
    size = program.memories["dram"]
    return [word - IMAGE if IMAGE <= word < IMAGE + size else word for word in found]


# They are exhaustive: the C library of RISC-V takes 50 s of processor time.
needs_riscv = pytest.mark.skipif(
    not (shutil.which("qemu-riscv64") and find_spec("ziglang")),
    reason="needs QEMU for riscv64 and the extra `cc`",
)


@needs_riscv
@pytest.mark.exhaustive
@pytest.mark.parametrize(("name", "sizes"), CASES, ids=["ragged", "scaled", "relu"])
def test_the_c_gives_the_words_of_the_file(
    name: str, sizes: dict[str, Size], machine: Machine, tmp_path: Path
) -> None:
    program, emitted = both(name, sizes, machine)
    expected = [w & ~REGISTERS if at % 3 == 0 else w for at, w in enumerate(program.words)]
    assert run(program, emitted, tmp_path) == expected


@needs_riscv
@pytest.mark.exhaustive
def test_strides_that_no_field_holds_are_refused(machine: Machine, tmp_path: Path) -> None:
    program, emitted = both("gemm_s8s8", {"M": 16, "N": 16, "K": 16}, machine)
    with pytest.raises(subprocess.CalledProcessError) as failed:
        run(program, emitted, tmp_path, rows_apart=1 << 32)
    assert failed.value.returncode == 15  # REQUIREMENT_NOT_MET, behind 10


def test_instructions_are_functions_of_what_their_fields_hold(machine: Machine) -> None:
    _, emitted = both("gemm_s8s8", {"M": 16, "N": 16, "K": 16}, machine)
    assert (
        """static inline void mvin(uint64_t x, uint64_t x_stride, uint64_t z, uint64_t R, uint64_t C) {
  if (R == 0 || C == 0) return;
  ROCC(123, 3, 0, UINT64_C(0x3f80000000100101), x_stride);
  ROCC(123, 3, 2, x, (z / 16) | (C << 32) | (R << 48));
}"""
        in emitted.source
    )
    assert "mvin((uintptr_t)A, A_s0, 0, 16, 16);" in emitted.source
    assert emitted.source.count("__asm__") == 2, "the macro and the fence"


def test_a_machine_that_says_not_how_words_are_given_has_none() -> None:
    request = Request(read_kernel("gemm_s8s8"), "edge-npu", {"M": 32, "N": 32, "K": 32}, heuristic="greedy")
    _, made = compile_words(request)
    assert made.program
    assert made.machine
    with pytest.raises(UsageProblem) as refused:
        emit_commands(made.program, made.machine)
    assert (
        refused.value.diagnostics[0].message
        == "edge-npu does not describe how a processor issues its encoded instructions"
    )
