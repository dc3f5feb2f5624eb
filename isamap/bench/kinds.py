"""The kinds of cases that can be benchmarked, each with the libraries that it is compared with."""

from __future__ import annotations

from typing import Any

from isamap.bench import cells, convolutions, products, sparse_products
from isamap.bench.cell_libraries import prepare_onnxruntime_cell, prepare_torch_cell
from isamap.bench.convolution_libraries import prepare_onnxruntime_conv, prepare_torch_conv
from isamap.bench.kind import Kind
from isamap.bench.libraries import prepare_isamap, prepare_mkl, prepare_openblas, prepare_torch
from isamap.bench.sparse_libraries import prepare_mkl_sparse, prepare_scipy_sparse

PRODUCTS = Kind(
    name="product",
    heading="m x n x k",
    case_type=products.GemmCase,
    forms=products.FORMS_OF_DTYPE,
    weights=("B",),
    written="C",
    source=products.product_source,
    values=products.product_values,
    work=products.product_work,
    is_right=products.is_product,
    libraries={
        "isamap": prepare_isamap,
        "torch": prepare_torch,
        "mkl": prepare_mkl,
        "openblas": prepare_openblas,
    },
)
CELLS = Kind(
    name="recurrent layer",
    heading="units x sequences",
    case_type=cells.CellCase,
    forms=cells.FORMS_OF_DTYPE,
    weights=("U", "W"),
    written="Y",
    source=cells.cell_source,
    values=cells.cell_values,
    work=cells.cell_work,
    is_right=cells.is_right,
    libraries={
        "isamap": prepare_isamap,
        "torch": prepare_torch_cell,
        "onnxruntime": prepare_onnxruntime_cell,
    },
)
CONVOLUTIONS = Kind(
    name="convolution",
    heading="images * filters",
    case_type=convolutions.ConvCase,
    forms=convolutions.FORMS_OF_DTYPE,
    weights=("F",),
    written="Y",
    source=convolutions.conv_source,
    values=convolutions.conv_values,
    work=convolutions.conv_work,
    is_right=convolutions.is_convolution,
    libraries={
        "isamap": prepare_isamap,
        "torch": prepare_torch_conv,
        "onnxruntime": prepare_onnxruntime_conv,
    },
)
SPARSE_PRODUCTS = Kind(
    name="sparse product",
    heading="m x n x k",
    case_type=sparse_products.SparseCase,
    forms=sparse_products.FORMS_OF_DTYPE,
    weights=("val",),
    written="C",
    source=sparse_products.sparse_source,
    values=sparse_products.sparse_values,
    work=sparse_products.sparse_work,
    is_right=sparse_products.is_sparse_product,
    libraries={"isamap": prepare_isamap, "scipy": prepare_scipy_sparse, "mkl": prepare_mkl_sparse},
)
KINDS: dict[str, Kind[Any]] = {kind.name: kind for kind in (PRODUCTS, CELLS, CONVOLUTIONS, SPARSE_PRODUCTS)}
"""Each kind by its name, as tasks and rows call it."""
