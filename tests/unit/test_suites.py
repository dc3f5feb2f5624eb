"""The shapes of suites: all there, of the operations that their sources count, and read row-major."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

import isamap.suites
from isamap.suites import SUITES, BatchedProduct, Conv, read_suite

FOLDER = Path(isamap.suites.__file__).parent
ROWS = {
    "deepbench-gemm": 248,
    "deepbench-conv": 209,
    "deepbench-rnn": 125,
    "deepbench-sparse": 24,
    "resnet50-conv": 43,
    "mobilenet-conv": 49,
    "transformer-gemm": 112,
}


@pytest.mark.parametrize("name", SUITES)
def test_a_suite_has_all_rows_of_its_source(name: str) -> None:
    shapes = read_suite(name)
    assert len(shapes) == ROWS[name]
    assert [shape.number for shape in shapes] == list(range(len(shapes)))


@pytest.mark.parametrize("name", [name for name in SUITES if name != "deepbench-sparse"])  # which counts none
def test_each_shape_does_the_operations_that_its_source_counts(name: str) -> None:
    with (FOLDER / f"{name.replace('-', '_')}.csv").open(encoding="utf-8", newline="") as text:
        rows = list(csv.DictReader(text))
    counted = next(
        c
        for c in ("flops", "flops_forward", "matmul_flops_forward", "flops_per_image", "flops_each")
        if c in rows[0]
    )
    assert [shape.flops for shape in read_suite(name)] == [int(row[counted]) for row in rows]


def test_a_column_major_product_is_read_row_major() -> None:
    """The first row of DeepBench: m = 1760, n = 16, k = 1760, neither transposed."""
    assert read_suite("deepbench-gemm")[0] == BatchedProduct(0, "training", 16, 1760, 1760, False, False)
    turned = [shape for shape in read_suite("deepbench-gemm") if isinstance(shape, BatchedProduct)]
    assert any(shape.x_transposed for shape in turned)
    assert any(shape.w_transposed for shape in turned)


def test_the_first_layer_of_a_network_is_strided_and_padded() -> None:
    first = read_suite("resnet50-conv")[0]
    assert isinstance(first, Conv)
    assert (first.c, first.k, first.r, first.stride_h, first.pad_w, first.p, first.q) == (
        3,
        64,
        7,
        2,
        3,
        112,
        112,
    )


def test_depthwise_layers_have_as_many_groups_as_channels() -> None:
    layers = [shape for shape in read_suite("mobilenet-conv") if isinstance(shape, Conv)]
    assert sum(shape.groups == shape.c > 1 for shape in layers) == 19


def test_an_unknown_suite_is_no_suite() -> None:
    with pytest.raises(KeyError):
        read_suite("resnet51")
