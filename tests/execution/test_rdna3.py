"""Kernels for the lanes of an AMD GPU: right as a model, compiled by clang, and right in an emulator.

ISAMAP_TINYGRAD=~/tinygrad python -m pytest tests/execution/test_rdna3.py --tier all -rs
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from isamap.driver.request import Request
from isamap.driver.runnable import prepare
from isamap.driver.verifying import verify_case
from isamap.emit.c_names import CNames
from isamap.emit.lane_functions import build_lane_function
from isamap.machine import load_machine
from isamap.source import Source
from tests.device_kernels import (
    EMULATOR,
    KERNELS,
    amdgcn_compiler,
    compile_for_amdgcn,
    emulate,
    launch_in_emulator,
    print_files,
    product,
    shipped,
    without_vector_products,
)
from tests.instruction_trials import write_trials

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
def test_lanes_compute_products_together(name: str, tmp_path: Path) -> None:
    element, total, transposed = PRODUCTS[name]
    kernel = product(element, total, transposed=transposed)
    prepared = prepare(
        Request(kernel, without_vector_products(RDNA3, tmp_path), ODD, heuristic="greedy", fixed=FIXED)
    )
    assert prepared.ran_on == "model"
    for fill in ("integers", "random"):
        found = verify_case(prepared, ODD, fill)
        assert found.ok, found.problems


@needs_clang
@pytest.mark.parametrize("name", PRODUCTS)
def test_clang_makes_matrix_instructions_of_kernels_without_spills(name: str, tmp_path: Path) -> None:
    element, total, transposed = PRODUCTS[name]
    sizes = {"M": 64, "N": 64, "K": 64}
    files = print_files(
        product(element, total, transposed=transposed), without_vector_products(RDNA3, tmp_path), sizes
    )
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
    assert not re.findall(r"v_cmpx_[gl]e_u32_e64 s\d+, ", text), "clang 19 exchanges their operands"


def prepare_cases(folder: Path) -> dict[Path, tuple[Source, Mapping[str, int]]]:
    """Return kernels of all kinds with their sizes, each compiled into a folder of its own."""
    matrices = without_vector_products(RDNA3, folder)
    made = {
        f"product of {name}": (product(*given[:2], transposed=given[2]), ODD)
        for name, given in PRODUCTS.items()
    }
    made |= {
        name: (k if isinstance(k, Source) else shipped(k), sizes) for name, (k, sizes) in KERNELS.items()
    }
    cases: dict[Path, tuple[Source, Mapping[str, int]]] = {}
    for name, (kernel, sizes) in made.items():
        is_product = name.startswith("product of ")
        fixed: dict[str, Any] = FIXED if is_product else {}
        files = print_files(kernel, matrices if is_product else RDNA3, sizes, **fixed)
        own = folder / name.replace(" ", "-")
        own.mkdir()
        compile_for_amdgcn(files, own)
        cases[own] = kernel, sizes
    return cases


@needs_clang
@needs_emulator
@pytest.mark.exhaustive(fast=0)
def test_kernels_of_all_kinds_are_right_in_the_emulator(tmp_path: Path) -> None:
    cases = emulate(prepare_cases(tmp_path), "random")
    assert len(cases) == len(PRODUCTS) + len(KERNELS)
    assert not [(folder.name, case.problems) for folder, case in cases.items() if not case.ok]


@needs_clang
@needs_emulator
@pytest.mark.exhaustive(fast=0)
def test_every_instruction_alone_does_in_the_emulator_what_its_description_says(tmp_path: Path) -> None:
    machine = load_machine(RDNA3)
    trials = write_trials(machine, tmp_path)
    read = (tmp_path / "trials.json").read_text(encoding="utf-8")
    compile_for_amdgcn(
        {"source": (tmp_path / "trials.cl").read_text(encoding="utf-8"), "plan": read}, tmp_path
    )
    before = {f"{t.name}.{name}": array for t in trials for name, array in t.before.items()}
    found = launch_in_emulator({tmp_path: before})[tmp_path]
    wrong = [said for t in trials if (said := t.difference({n: found[f"{t.name}.{n}"] for n in t.after}))]
    assert {t.instruction for t in trials} == set(machine.instructions)
    assert not wrong, wrong


@pytest.mark.parametrize(("name", "shown"), [("wmma_f32_f16", ["a", "b"]), ("load_f32", [])])
def test_lanes_show_others_the_registers_that_these_read(name: str, shown: list[str]) -> None:
    machine = load_machine(RDNA3)
    text = build_lane_function(machine.instructions[name], machine, CNames(), model=True).text
    assert re.findall(r"SHOW\(\d, (\w+)\)", text) == shown
    assert text.count("TOGETHER(32);") == (2 if shown else 0), (
        "before others read them, and before they change"
    )


def test_lanes_behind_those_of_a_placement_repeat_them() -> None:
    machine = load_machine(RDNA3)
    text = build_lane_function(machine.instructions["load_rows_shared_f16"], machine, CNames()).text
    assert "const int64_t i = lane % 16;" in text
