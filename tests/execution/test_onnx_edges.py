"""Models at the edges of what ONNX says compute what the standard means."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx", reason="models of ONNX need the package onnx: pip install 'isamap[onnx]'")

from onnx_edges import EDGES, OF_ONNXRUNTIME, Edge
from onnx_models import evaluated, imported, make

from isamap.graph.graph import Array
from isamap.onnx import compile_model

MACHINE = "generic-c"


@pytest.mark.exhaustive(fast=8)
@pytest.mark.parametrize("name", EDGES)
def test_an_edge_is_what_the_standard_says(name: str) -> None:
    edge = EDGES[name]
    model = make(edge.nodes, edge.inputs, edge.outputs, edge.constants, edge.opset)
    model.ir_version = 4 if edge.opset < 9 else 8
    expected = by_onnxruntime(model, edge) if name in OF_ONNXRUNTIME else evaluated(model, edge.inputs)
    found = compile_model(imported(model), MACHINE, jobs=1)(edge.inputs)
    for name_, array in zip(found, expected, strict=True):
        ours = found[name_]
        assert (ours.dtype, ours.shape) == (array.dtype, array.shape)
        np.testing.assert_allclose(ours.astype(float), array.astype(float), rtol=1e-4, atol=1e-5)


def by_onnxruntime(model: Any, edge: Edge) -> list[Array]:
    """Return what onnxruntime computes, where it is installed."""
    runtime: Any = pytest.importorskip("onnxruntime", reason="ONNX's own evaluator does not know this one")
    onnx: Any = import_module("onnx")
    session = runtime.InferenceSession(
        onnx.shape_inference.infer_shapes(model).SerializeToString(), providers=["CPUExecutionProvider"]
    )
    return [np.asarray(found) for found in session.run(None, edge.inputs)]
