"""DeepBench's sparse products: rows, both forms of the matrix, what libraries compute, and what is kept."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from isamap.bench.campaign import Campaign, run_campaign
from isamap.bench.cases import F32
from isamap.bench.kinds import SPARSE_PRODUCTS, prepare_mkl_sparse, prepare_scipy_sparse
from isamap.bench.libraries import NotOffered
from isamap.bench.ring import Array, Mapped, Shared, Task
from isamap.bench.sparse_products import (
    SparseCase,
    compress_rows,
    is_sparse_product,
    slices,
    sparse_cases,
    sparse_source,
    sparse_values,
)
from isamap.ir import interpret
from isamap.syntax import parse_kernel

WIDE = replace(sparse_cases()[3], m=24, n=9, k=20, nonzeros=70)
NARROW = [replace(WIDE, n=n) for n in (1, 2, 4)]
CASES = [WIDE, *NARROW]
LIBRARIES = {"scipy": prepare_scipy_sparse, "mkl": prepare_mkl_sparse}


def product(case: SparseCase, b: Array) -> Array:
    a, dense = compress_rows(case), np.zeros((case.m, case.k))
    dense[np.repeat(np.arange(case.m), np.diff(a["row"])), a["col"]] = a["val"]
    assert np.count_nonzero(dense) == case.nonzeros
    return dense @ b


def test_all_rows_of_the_suite_are_there() -> None:
    rows = sparse_cases()
    assert len(rows) == 24
    assert rows[3].label == "7680x1500x2560, 95% zeros"
    assert rows[3].operations == 2 * 983040 * 1500
    assert sparse_cases(("training",)) == ()


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.n)
def test_the_kernel_of_a_row_multiplies_its_matrix(case: SparseCase) -> None:
    values = {name: array for name, (_, array) in sparse_values(case, F32).items()}
    found = interpret(parse_kernel(sparse_source(case, F32, 1)), values, dict(case.bindings))["C"]
    np.testing.assert_allclose(found, values["C"] + product(case, values["B"]), rtol=1e-5, atol=1e-5)


def test_slices_are_filled_up_with_zeros_and_columns_are_short() -> None:
    case = NARROW[1]
    made = slices(case)
    assert np.count_nonzero(made["val"]) == case.nonzeros
    assert made["col"].dtype == np.uint16
    assert "in col: u16" in sparse_source(case, F32, 1).text
    longer = replace(case, k=1 << 17)
    assert slices(longer)["col"].dtype == np.int32
    assert "in col: i32" in sparse_source(longer, F32, 1).text


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.n)
@pytest.mark.parametrize("library", LIBRARIES)
def test_libraries_add_the_product_to_what_is_there(library: str, case: SparseCase) -> None:
    values = sparse_values(case, F32)
    arrays = {name: [array.copy()] for name, (_, array) in values.items()}
    try:
        ready = LIBRARIES[library](Mapped(Task(SPARSE_PRODUCTS.name, case, "f32", {}, ""), arrays), 1)
    except NotOffered:
        pytest.skip(f"{library} is not installed")
    assert ready.time(1, 0) > 0
    expected = values["C"][1] + product(case, values["B"][1])
    np.testing.assert_allclose(arrays["C"][0], expected, rtol=1e-5, atol=1e-5)


class Writing:
    """A contender that adds some matrix to C."""

    name = "isamap"

    def __init__(self, shared: Shared, added: Array) -> None:
        self.shared, self.added = shared, added

    def time(self, calls: int, first: int = 0) -> int:
        self.shared.arrays["C"][0][...] += self.added
        return 1


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.n)
def test_one_wrong_element_is_seen(case: SparseCase) -> None:
    values = sparse_values(case, F32)
    added = product(case, values["B"][1]).astype(np.float32)
    with Shared(values, "C", 1) as shared:
        assert is_sparse_product(Writing(shared, added), case, F32, 1, shared)
        wrong = added.copy()
        wrong[case.m - 1, case.n - 1] += 1e-2
        assert not is_sparse_product(Writing(shared, wrong), case, F32, 1, shared)


def test_a_row_is_measured_and_kept(tmp_path: Path) -> None:
    campaign = Campaign(
        SPARSE_PRODUCTS, [WIDE], [F32], "generic-c", (), seconds=0.01, limit_s=1, folder=tmp_path
    )
    (row,), _ = run_campaign(campaign)
    assert (row.left_out, row.verified) == ("", {"isamap": True})
    assert row.operations == 2 * 70 * 9
    again, _ = run_campaign(replace(campaign, resume=True))
    assert again == (row,)
