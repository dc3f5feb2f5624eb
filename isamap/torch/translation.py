"""A graph of torch.fx as a model of ONNX's operators, which one library performs (docs/onnx.md).

    convolution(x, w, b, …), hardtanh(c, 0, 6)      Conv(x, w, b), Clip(c, low, high)

What weights alone make is known before, and a constant of the model. One operation that is not taken leaves
the whole graph to kernels of its groups.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from isamap.models.terms import NotTaken
from isamap.onnx.graph import Graph, Model, Signature
from isamap.torch.graph import is_result, lying, name_of
from isamap.torch.layer_operators import LAYERS
from isamap.torch.operators import OPERATIONS, PARTS, Translation

OPSET = 20
_PARTS = {**PARTS, **LAYERS}


def translated(graph: Any, known: Mapping[Any, Any], name: str) -> Model:
    """The model of a graph; `known` are tensors by node. Raises: NotTaken."""
    made = Translation(known)
    (output,) = (n for n in graph.nodes if n.op == "output")
    inputs: list[Signature] = []
    for node in graph.nodes:
        if node in known or node is output:
            continue
        if node.op == "placeholder":
            inputs.append(_signature(node))
        elif is_result(node) and name_of(node.args[0]) not in _PARTS:
            if node.args[1] != 0:
                raise NotTaken("a result that no operator has")
            made.names[node] = made.name(node.args[0])
        elif is_result(node):
            _PARTS[name_of(node.args[0])](made, node)
        elif name_of(node) not in _PARTS:
            OPERATIONS[name_of(node)](made, node)
    outputs = tuple(_signature(node, made.name(node)) for node in given_back(output))
    found = Graph(name, tuple(made.nodes), tuple(inputs), outputs, made.constants)
    return Model(found, {"": OPSET}, {})


def given_back(output: Any) -> list[Any]:
    """The nodes that a graph gives back, in order. Raises: NotTaken."""
    found: Any = output.args[0]
    if type(found) not in (tuple, list):
        raise NotTaken("its result is no list")
    return list(found)


def is_translated(node: Any) -> bool:
    """Whether there is a way to say a node, which may still say no for its arguments."""
    name = name_of(node)
    return is_result(node) or name in OPERATIONS or name in _PARTS


def _signature(node: Any, name: str = "") -> Signature:
    value = node.meta.get("val")
    if not import_module("torch").is_tensor(value) or not value.is_contiguous():
        raise NotTaken("an input or a result that is no dense tensor")
    return Signature(name or node.name, lying(node).dtype, tuple(value.shape))
