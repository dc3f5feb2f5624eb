"""Small models of ONNX for tests, and what ONNX's own evaluator says of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from isamap.onnx.graph import Array
from isamap.onnx.importing import Imported, lower_model
from isamap.onnx.reading import parse_model

Described = Sequence[tuple[str, Sequence[str], Sequence[str], Mapping[str, Any]]]
"""Nodes: operator, inputs, outputs, attributes."""


def make(
    nodes: Described,
    inputs: Mapping[str, Array],
    outputs: Sequence[str],
    constants: Mapping[str, Array] | None = None,
    opset: int = 21,
) -> Any:
    """Return the model of such nodes, whose results have no sizes of their own yet."""
    onnx: Any = import_module("onnx")
    helper = onnx.helper
    graph = helper.make_graph(
        [helper.make_node(op, i, o, name=f"n{k}", **a) for k, (op, i, o, a) in enumerate(nodes)],
        "made",
        [
            helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
            for name, array in inputs.items()
        ],
        [helper.make_empty_tensor_value_info(name) for name in outputs],
        [onnx.numpy_helper.from_array(array, name) for name, array in (constants or {}).items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)


def evaluated(model: Any, inputs: Mapping[str, Array]) -> list[Array]:
    """Return what ONNX's evaluator computes."""
    reference: Any = import_module("onnx.reference")
    return [np.asarray(found) for found in reference.ReferenceEvaluator(model).run(None, dict(inputs))]


def imported(model: Any, constants: Mapping[str, Array] | None = None) -> Imported:
    """Return a model that was made, imported."""
    return lower_model(parse_model(model.SerializeToString(), Path("made.onnx")), "made", {}, constants or {})
