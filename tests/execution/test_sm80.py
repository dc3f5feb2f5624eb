"""Kernels for a warp of an NVIDIA GPU: right as a model, and compiled by nvcc to the instructions that were meant.

No GPU is needed. Without nvcc, which CUDA's toolkit and `nvidia-cuda-nvcc-cu12` have, nothing is compiled.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from isamap.driver.request import Request
from isamap.driver.runnable import prepare
from isamap.driver.verifying import verify_case
from isamap.machine import load_machine
from isamap.machine.allowed import devices, headers
from tests.device_kernels import print_files, product, without_vector_products

SM80 = "nvidia-sm80"
ODD = {"M": 19, "N": 35, "K": 41}
PRODUCTS = {"f16": ("f16", "f32", False), "bf16": ("bf16", "f32", True), "bytes": ("i8", "i32", False)}

needs_nvcc = pytest.mark.skipif(
    shutil.which("nvcc") is None, reason="needs nvcc: nothing is compiled for sm_80"
)


@pytest.mark.parametrize("name", PRODUCTS)
def test_lanes_of_a_warp_compute_products_together(name: str, tmp_path: Path) -> None:
    element, total, transposed = PRODUCTS[name]
    kernel = product(element, total, transposed=transposed)
    prepared = prepare(
        Request(
            kernel,
            without_vector_products(SM80, tmp_path),
            ODD,
            heuristic="greedy",
            fixed={"nest0.parallel.m": 2, "nest0.parallel.n": 2},
        )
    )
    assert prepared.ran_on == "model"
    for fill in ("integers", "random"):
        found = verify_case(prepared, ODD, fill)
        assert found.ok, found.problems


@needs_nvcc
@pytest.mark.parametrize("name", PRODUCTS)
def test_nvcc_makes_matrix_instructions_of_kernels_without_spills(name: str, tmp_path: Path) -> None:
    element, total, transposed = PRODUCTS[name]
    kernel = product(element, total, transposed=transposed)
    files = print_files(kernel, without_vector_products(SM80, tmp_path), {"M": 64, "N": 64, "K": 64})
    said = compiled(files["source"], json.loads(files["plan"])["compile"], tmp_path)
    assert re.findall(r"(\d+) bytes stack frame, (\d+) bytes spill stores", said) == [("0", "0")]
    registers, shared = re.findall(r"Used (\d+) registers.* (\d+) bytes smem", said)[0]
    assert int(registers) <= 255
    assert int(shared) == declared_bytes(files["source"]), "what the program stages"
    listed = made_of(tmp_path)
    calls = called(files["source"])
    matrix = {"f16": "HMMA.16816.F32", "bf16": "HMMA.16816.F32.BF16", "bytes": "IMMA.16832.S8.S8"}[name]
    assert listed[matrix] >= calls["mma"] > 0, listed
    assert listed["LDSM"] >= calls["ldmatrix"], listed


@needs_nvcc
def test_every_function_of_the_header_becomes_its_instruction(tmp_path: Path) -> None:
    device, header = devices()["sm_80"], headers()["sm_80.h"]
    kernel = """
__kernel void all(uint16_t *g, float *sums, int32_t *counts, int64_t rows) {
  OWN_OF_BLOCK(uint16_t, s, 1024);
  uint16_t a[8], b[4], t[4];
  copy_async(g, 64, s, 32, rows, 2);
  BARRIER_WITHIN(1);
  BARRIER;
  ldmatrix_a(s, 32, a);
  ldmatrix_b(s, 32, b);
  ldmatrix_b_trans(s, 16, t);
  mma_m16n8k16_f16(a, b, sums);
  mma_m16n8k16_bf16(a, t, sums);
  mma_m16n8k32_i8((const int8_t *)a, (const int8_t *)b, counts);
}
"""
    declared = set(re.findall(r"inline void (\w+)\(", header.text))
    assert declared == set(re.findall(r"\b([a-z]\w*)\(\w+, ", kernel)) | {"mma_m16n8k32_i8"}
    compiled("\n".join(("#define LANES 32", device.prelude, header.text, kernel)), device.compile, tmp_path)
    listed = made_of(tmp_path)
    assert all(
        listed[word] for word in ("HMMA.16816.F32", "HMMA.16816.F32.BF16", "IMMA.16832.S8.S8", "LDGSTS")
    )
    assert listed["LDSM"] == 3


def test_every_call_of_the_description_is_of_the_header() -> None:
    machine = load_machine(SM80)
    declared = set(re.findall(r"inline void (\w+)\(", headers()["sm_80.h"].text))
    emitted = {str(item.emit).split("(")[0] for item in machine.instructions.values()} - {"semantics"}
    assert emitted == declared


def compiled(source: str, command: str, folder: Path) -> str:
    """Return what ptxas says of kernels, which are compiled to `kernels.cubin`."""
    (folder / "kernels.cu").write_text(source, encoding="utf-8")
    words = [*command.split(), "-Xptxas", "-v", "-diag-suppress", "177", "-Werror", "all-warnings"]
    words += ["-o", str(folder / "kernels.cubin"), str(folder / "kernels.cu")]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def made_of(folder: Path) -> Counter[str]:
    """Return how often instructions stand in what was compiled, those of matrices with their types."""
    if (lister := shutil.which("cuobjdump") or "/usr/local/cuda/bin/cuobjdump") and not Path(lister).exists():
        pytest.skip("needs cuobjdump: what nvcc made is not read")
    text = subprocess.run(
        [lister, "-sass", str(folder / "kernels.cubin")], capture_output=True, text=True, check=True
    ).stdout
    words = re.findall(r"\b((?:HMMA|IMMA)\.[A-Z0-9.]+|LDSM|LDGSTS)\b", text)
    return Counter(word.removesuffix(".SAT").removesuffix(".SATFINITE") for word in words)


def declared_bytes(source: str) -> int:
    """Return the bytes of the arrays that a block has of its own."""
    sizes = {"uint16_t": 2, "int8_t": 1, "float": 4, "int32_t": 4}
    arrays = re.findall(r"^  OWN_OF_BLOCK\((\w+), \w+, (\d+)\);", source, re.MULTILINE)
    return sum(sizes[kind] * int(count) for kind, count in arrays)


def called(source: str) -> Counter[str]:
    """Return how often kernels call functions for products and for fragments from shared memory."""
    body = source[source.index("__kernel void product") :]
    return Counter(
        word.split("_")[0] for word in re.findall(r"^ +((?:mma|ldmatrix)_\w+)\(", body, re.MULTILINE)
    )
