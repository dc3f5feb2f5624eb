"""Gemmini's commands, given by C, on Spike with libgemmini: its authors' simulators, whole and unchanged.

ISAMAP_SPIKE names a `spike` (github.com/riscv-software-src/riscv-isa-sim) that finds libgemmini.so
(github.com/ucb-bar/libgemmini). The C of `--emit commands` is compiled for a processor without an operating
system (tests/spike), runs, and leaves its image of main memory to be compared.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from gemmini_words import CASES, NAMES, started
from words_in_c import given_arrays

from isamap.driver.encoded_programs import compile_words
from isamap.driver.inputs import read_kernel
from isamap.driver.request import Request, Size
from isamap.emit.c import emit_commands
from isamap.machine import load_machine
from isamap.stream.program_file import write_program

BARE = Path(__file__).resolve().parents[1] / "spike"
FLAGS = "--target=riscv64-freestanding-none -mcmodel=medany -O2 -std=c11 -ffreestanding -nostdlib -static"

if "ISAMAP_SPIKE" not in os.environ:
    pytest.skip("ISAMAP_SPIKE names no spike that has libgemmini", allow_module_level=True)
if find_spec("ziglang") is None:
    pytest.skip("needs the extra `cc`", allow_module_level=True)


@pytest.mark.parametrize(("name", "sizes"), CASES, ids=NAMES)
def test_spike_computes_what_the_kernel_says(name: str, sizes: dict[str, Size], tmp_path: Path) -> None:
    program, made = compile_words(Request(read_kernel(name), "gemmini", sizes, heuristic="greedy"))
    assert made.program
    emitted = emit_commands(made.program, load_machine("gemmini"))
    file, memory, expected = started(write_program(program), name)
    (tmp_path / "image").write_bytes(memory.tobytes())
    main = f"""#include "{emitted.name}.h"
extern char begin_signature[];
static {emitted.name}_args args = {given_arrays(program, "begin_signature")};
int main(void) {{ return {emitted.name}(&args, begin_signature, 0); }}
"""
    for file_name, text in {**emitted.files(), "main.c": main}.items():
        (tmp_path / file_name).write_text(text, encoding="utf-8")
    for file_name in ("start.S", "link.ld"):
        shutil.copy(BARE / file_name, tmp_path)
    compiler = [sys.executable, "-m", "ziglang", "cc", *FLAGS.split(), "-Wl,-T,link.ld"]
    files = ["start.S", "main.c", f"{emitted.name}.c"]
    subprocess.run([*compiler, *files, "-o", "program"], check=True, cwd=tmp_path)
    spike = [os.environ["ISAMAP_SPIKE"], "--extension=gemmini", "+signature=left", "+signature-granularity=1"]
    subprocess.run([*spike, "program"], check=True, cwd=tmp_path, timeout=120)
    left = np.array([int(byte, 16) for byte in (tmp_path / "left").read_text().split()], np.uint8)
    for output, values in expected.items():
        assert not np.array_equal(file.output(memory, output), values), "there is something to compute"
        assert np.array_equal(file.output(left, output), values)
