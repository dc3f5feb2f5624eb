"""Kernels whose programs of Gemmini's words several simulators perform, and what these begin with."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gemmini_by_hand import File
from numpy.typing import NDArray

from isamap.driver.encoded_programs import compile_words, program_kernel
from isamap.driver.inputs import read_kernel
from isamap.driver.request import Request, Size
from isamap.ir import Kernel, interpret
from isamap.run.fills import make_arrays
from isamap.stream.program_file import read_program, write_program

EXAMPLES = Path(__file__).resolve().parents[1] / "docs" / "examples"
CASES: list[tuple[str, dict[str, Size]]] = [
    ("gemm_s8s8", {"M": 16, "N": 16, "K": 16}),
    ("gemm_s8s8", {"M": 37, "N": 20, "K": 70}),
    ("gemm_s8s8", {"M": 64, "N": 48, "K": 33}),
    (str(EXAMPLES / "conv2d_s8.ir"), {"N": 1, "H": 4, "W": 5, "C": 20, "K": 18, "R": 3, "S": 2}),
    (str(EXAMPLES / "gemm_requant.ir"), {"M": 37, "N": 20, "K": 70}),
    (str(EXAMPLES / "conv2d_s8_relu.ir"), {"N": 1, "H": 4, "W": 5, "C": 20, "K": 18, "R": 3, "S": 2}),
]
NAMES = ["tile", "ragged", "wide", "convolution", "scaled", "relu"]


def compiled(name: str, sizes: dict[str, Size]) -> bytes:
    program, _ = compile_words(Request(read_kernel(name), "gemmini", sizes, heuristic="greedy"))
    return write_program(program)


def started(data: bytes, name: str) -> tuple[File, NDArray[Any], dict[str, NDArray[Any]]]:
    """Return the file, main memory before the first command, and what the kernel's interpreter makes of it."""
    kernel: Kernel = program_kernel(read_program(data, "a program"), read_kernel(name))
    arrays = make_arrays(kernel, "random")
    file = File(data)
    return file, file.image(arrays), interpret(kernel, arrays, {})
