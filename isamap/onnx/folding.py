"""What needs no input of the model, computed now by ONNX's reference evaluator."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from importlib import import_module
from math import prod
from typing import Any

from isamap.onnx.functions import to_proto
from isamap.onnx.graph import Array, Graph, Node

MOST_ELEMENTS = 1 << 24
"""A result of more is left to a step: small files may name large arrays."""
MOST_GATHERED = 4096
_NEVER = frozenset(
    (
        "RandomNormal",
        "RandomNormalLike",
        "RandomUniform",
        "RandomUniformLike",
        "Bernoulli",
        "Multinomial",
        "Dropout",
    )
)
_SAFE = frozenset(
    ("Constant", "Identity", "Reshape", "Shape", "Size", "Gather", "Cast", "Squeeze", "Unsqueeze", "Concat")
)


def fold(node: Node, inputs: Sequence[Array | None], opset: int) -> list[Array] | None:
    """The results of a node for inputs that are known; None where it is not to be computed now."""
    if any(isinstance(value, Graph) for value in node.attributes.values()):
        return None
    if (
        node.op in _NEVER
        or node.domain not in ("", "ai.onnx.ml")
        or any(a is not None and a.dtype == object for a in inputs)
    ):
        return None
    onnx: Any = import_module("onnx")
    reference: Any = import_module("onnx.reference")
    is_safe = node.op in _SAFE and (
        node.op != "Gather" or all(a is None or a.size <= MOST_GATHERED for a in inputs)
    )
    names = [f"i{n}" if array is not None else "" for n, array in enumerate(inputs)]
    outputs = [f"o{n}" if name else "" for n, name in enumerate(node.outputs)]
    proto = to_proto(node, names, outputs)
    given = {name: array for name, array in zip(names, inputs, strict=True) if array is not None}
    graph = onnx.helper.make_graph(
        [proto],
        "folded",
        [],
        [onnx.helper.make_empty_tensor_value_info(name) for name in outputs if name],
        [onnx.numpy_helper.from_array(array, name) for name, array in given.items() if array.size < 1024]
        if not is_safe
        else [],
    )
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid(node.domain, opset)])
    if not is_safe and not _is_small(onnx, model, given):
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = reference.ReferenceEvaluator(model).run(None, given)
    except Exception:  # noqa: BLE001 - the evaluator raises whatever numpy does; a step is tried instead
        return None
    import numpy as np

    arrays = [np.asarray(array) for array in found]
    return arrays if all(array.dtype != object for array in arrays) else None


def _is_small(onnx: Any, model: Any, given: dict[str, Array]) -> bool:
    """Whether it is known that the results are not too large."""
    del model.graph.input[:]
    for name, array in given.items():
        if array.size >= 1024:
            number = onnx.helper.np_dtype_to_tensor_dtype(array.dtype)
            model.graph.input.append(onnx.helper.make_tensor_value_info(name, number, array.shape))
    try:
        inferred = onnx.shape_inference.infer_shapes(model, data_prop=True)
    except Exception:  # noqa: BLE001 - of nodes that are wrong it raises errors of several kinds
        return False
    for port in inferred.graph.output:
        tensor = port.type.tensor_type
        if not tensor.HasField("shape") or not all(d.HasField("dim_value") for d in tensor.shape.dim):
            return False
        if prod(d.dim_value for d in tensor.shape.dim) > MOST_ELEMENTS:
            return False
    return True
