"""Kernels for the lanes of an AMD GPU: right as a model, compiled by clang, and right in an emulator.

ISAMAP_TINYGRAD=~/tinygrad python -m pytest tests/execution/test_rdna3.py --tier all -rs
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from isamap.driver.request import Request
from isamap.driver.runnable import prepare
from isamap.driver.verifying import verify_case
from isamap.emit.c_names import Names
from isamap.emit.lane_functions import build_lane_function
from isamap.machine import load_machine
from tests.device_kernels import (
    EMULATOR,
    amdgcn_compiler,
    compile_for_amdgcn,
    emulate,
    print_files,
    product,
)

RDNA3 = "amd-rdna3"
ODD = {"M": 19, "N": 35, "K": 21}
PRODUCTS = {"f16": ("f16", "f32", False), "bf16": ("bf16", "f32", True), "bytes": ("i8", "i32", False)}
FIXED = {"nest0.parallel.m": 2}

needs_clang = pytest.mark.skipif(
    amdgcn_compiler() is None, reason="needs clang and lld for amdgcn: nothing is compiled for RDNA3"
)
needs_emulator = pytest.mark.skipif(
    not EMULATOR, reason="needs ISAMAP_TINYGRAD, a checkout of tinygrad (tests/rdna3): nothing runs on RDNA3"
)


@pytest.mark.parametrize("name", PRODUCTS)
def test_lanes_compute_products_together(name: str) -> None:
    element, total, transposed = PRODUCTS[name]
    kernel = product(element, total, transposed=transposed)
    prepared = prepare(Request(kernel, RDNA3, ODD, heuristic="greedy", fixed=FIXED))
    assert prepared.ran_on == "model"
    for fill in ("integers", "random"):
        found = verify_case(prepared, ODD, fill)
        assert found.ok, found.problems


@needs_clang
@pytest.mark.parametrize("name", PRODUCTS)
def test_clang_makes_matrix_instructions_of_kernels_without_spills(name: str, tmp_path: Path) -> None:
    element, total, transposed = PRODUCTS[name]
    sizes = {"M": 64, "N": 64, "K": 64}
    files = print_files(product(element, total, transposed=transposed), RDNA3, sizes)
    compile_for_amdgcn(files, tmp_path)
    found = amdgcn_compiler()
    assert found is not None
    words = re.sub(r"-fuse-ld=\S+|-nostdlib", "", files["plan"].split('"compile": "clang ')[1].split('"')[0])
    text = subprocess.run(
        [found[0], *words.split(), "-S", "-o", "-", str(tmp_path / "kernels.cl")],
        capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    called = {"f16": "f32_16x16x16_f16", "bf16": "f32_16x16x16_bf16", "bytes": "i32_16x16x16_iu8"}[name]
    assert f"v_wmma_{called}" in text
    assert set(re.findall(r"\.vgpr_spill_count:\s*(\d+)", text)) == {"0"}
    assert set(re.findall(r"\.private_segment_fixed_size:\s*(\d+)", text)) == {"0"}
    assert "buffer_gl0_inv" not in text, "the emulator has none"


@needs_clang
@needs_emulator
@pytest.mark.exhaustive(fast=1)
@pytest.mark.parametrize("name", PRODUCTS)
def test_products_are_right_in_the_emulator(name: str, tmp_path: Path) -> None:
    element, total, transposed = PRODUCTS[name]
    kernel = product(element, total, transposed=transposed)
    files = print_files(kernel, RDNA3, ODD, **FIXED)
    compile_for_amdgcn(files, tmp_path)
    found = emulate(kernel, files, ODD, "random", tmp_path)
    assert found.ok, found.problems


@pytest.mark.parametrize(("name", "shown"), [("wmma_f32_f16", ["a", "b"]), ("load_f32", [])])
def test_lanes_show_others_the_registers_that_these_read(name: str, shown: list[str]) -> None:
    machine = load_machine(RDNA3)
    text = build_lane_function(machine.instructions[name], machine, Names(), model=True).text
    assert re.findall(r"SHOW\(\d, (\w+)\)", text) == shown
    assert text.count("TOGETHER;") == (2 if shown else 0), "before others read them, and before they change"


def test_lanes_behind_those_of_a_placement_repeat_them() -> None:
    machine = load_machine(RDNA3)
    text = build_lane_function(machine.instructions["load_rows_lds_f16"], machine, Names()).text
    assert "const int64_t i = lane % 16;" in text
