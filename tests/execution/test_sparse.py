"""Sparse products performed: on machines of several widths, and refused where indices are wrong."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

import isamap
from isamap.driver.api import verify
from isamap.driver.runnable import CompiledKernel
from isamap.machine import load_machine, missing_features
from isamap.source import UsageProblem

KERNELS = {
    "csr_f32": {"M": 20, "N": 19, "K": 30, "NNZ": 100},
    "sell_f32": {"M": 24, "N": 5, "K": 30, "P": 40, "R": 4},
    "bsr_f32": {"M": 16, "N": 35, "K": 32, "NNZB": 9, "R": 8, "S": 8},
}
COLUMN = {"M": 20, "N": 1, "K": 30, "NNZ": 200}


def test_a_column_is_gathered_where_lanes_go_along_a_row() -> None:
    assert all(case.ok for case in verify("csr_f32", "generic-c", COLUMN))


@pytest.mark.parametrize("kernel", KERNELS)
def test_products_of_each_format_are_right(kernel: str) -> None:
    assert all(case.ok for case in verify(kernel, "generic-c", KERNELS[kernel]))


@pytest.mark.parametrize("machine", ["x86-avx2", "x86-avx512"])
@pytest.mark.parametrize("kernel", KERNELS)
def test_products_of_each_format_are_right_in_vectors(kernel: str, machine: str) -> None:
    if missing_features(load_machine(machine)):
        pytest.skip("this processor lacks what the machine has")
    assert all(case.ok for case in verify(kernel, machine, KERNELS[kernel]))


@pytest.mark.skipif(shutil.which("qemu-aarch64") is None, reason="needs qemu-aarch64 (Debian's qemu-user)")
def test_a_sparse_product_is_right_in_vectors_of_another_architecture() -> None:
    assert all(case.ok for case in verify("csr_f32", "aarch64-neon", KERNELS["csr_f32"]))


def test_one_program_serves_matrices_of_any_number_of_elements() -> None:
    assert all(case.ok for case in verify("csr_f32", "generic-c", {**COLUMN, "NNZ": "1..500@100"}))


@pytest.fixture(scope="module")
def csr() -> CompiledKernel:
    return isamap.compile("csr_f32", "generic-c", {"M": 3, "N": 2, "K": 4, "NNZ": 5})


@pytest.mark.parametrize(
    ("name", "values", "said"),
    [
        ("col", [0, 1, 4, 3, 2], "`col[2]` is 4: its values are from 0 to 3"),
        ("col", [0, 1, -1, 3, 2], "`col[2]` is -1: its values are from 0 to 3"),
        ("row", [0, 2, 1, 5], "`row` is ascending, but 2 at 1 is followed by 1"),
        ("row", [0, 2, 3, 6], "`row[3]` is 6: its values are from 0 to 5"),
    ],
)
def test_wrong_indices_are_refused_before_anything_is_written(
    csr: CompiledKernel, name: str, values: list[int], said: str
) -> None:
    arrays = {
        "row": np.array([0, 2, 3, 5], np.int32),
        "col": np.array([0, 1, 2, 3, 2], np.int32),
        "val": np.ones(5, np.float32),
        "B": np.ones((4, 2), np.float32),
        "C": np.zeros((3, 2), np.float32),
    }
    assert csr(**arrays)["C"].tolist() == [[2, 2], [1, 1], [2, 2]]
    arrays["C"][...] = 0
    arrays[name] = np.array(values, np.int32)
    with pytest.raises(UsageProblem) as called:
        csr(**arrays)
    with pytest.raises(UsageProblem) as bound:
        csr.bind(**arrays)()
    assert said in called.value.render()
    assert said in bound.value.render()
    assert not arrays["C"].any()
