"""Fold constants: compute nodes that need no input of the model with ONNX's reference evaluator."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from math import prod
from typing import Any

from isamap.graph.graph import Array, Graph, Model, Node
from isamap.graph.onnx_functions import to_proto
from isamap.graph.terms import NotTaken

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


LEAST_BYTES = 1 << 26
LEAST_WORK = 1 << 20
WORK_OF_NODE = 50
ELEMENTS_OF_WORK = 1 << 10
"""Elements that numpy passes over in a unit of work, some ten microseconds, in which Python reaches one."""
_BY_NUMPY = frozenset(
    """
    Abs Add And Cast CastLike Ceil Clip Concat ConstantOfShape CumSum DequantizeLinear Div Equal
    Exp Expand EyeLike Flatten Floor Gather Greater GreaterOrEqual Identity Less LessOrEqual Log
    Max Mean Min Mod Mul Neg Not Or Pad Pow QuantizeLinear Range Reciprocal ReduceMax ReduceMean
    ReduceMin ReduceProd ReduceSum Relu Reshape Round Sigmoid Sign Slice Split Sqrt Squeeze Sub
    Sum Tanh Tile Transpose Trilu Unsqueeze Where Xor Constant Shape Size
    """.split()  # noqa: SIM905 - a list of so many words is no easier to read
)


@dataclass(slots=True)
class Room:
    """The remaining budget of constant folding, in proportion to the model's nodes and weights."""

    size_bytes: int
    work: int

    @staticmethod
    def of(model: Model) -> Room:
        """Return the budget of a model, with room for some widened and transposed copies of its weights."""
        size = sum(array.nbytes for array in model.graph.constants.values())
        nodes = sum(1 for _ in _nodes(model.graph))
        return Room(LEAST_BYTES + 16 * size, LEAST_WORK + WORK_OF_NODE * nodes + size // 16)


def _nodes(graph: Graph) -> Iterator[Node]:
    for node in graph.nodes:
        yield node
        for value in node.attributes.values():
            if isinstance(value, Graph):
                yield from _nodes(value)


def _has_room(node: Node, inputs: Sequence[Array | None], results: int, room: Room) -> bool:
    """Return whether so many elements may be computed of inputs. Raises: NotTaken beyond the work allowed."""
    read = sum(array.size for array in inputs if array is not None)
    work = WORK_OF_NODE + (read + results) // ELEMENTS_OF_WORK
    if node.op in ("MatMul", "Gemm") and inputs[0] is not None:
        work += results * max(inputs[0].shape, default=1) // ELEMENTS_OF_WORK
    elif node.op not in _BY_NUMPY:
        lists = [value for value in node.attributes.values() if isinstance(value, tuple)]
        sizes = (abs(n) for value in lists for n in value if isinstance(n, int) and n)
        work += max(read, 1) * max(results, 1) * prod(sizes)
    if room.work < WORK_OF_NODE:
        raise NotTaken("constant folding would take too long")
    if work > room.work or 8 * results > room.size_bytes:
        return False
    room.work -= work
    return True


def fold(node: Node, inputs: Sequence[Array | None], opset: int, room: Room) -> list[Array] | None:
    """Return the results of a node for inputs that are known; None where it is not to be computed now."""
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
    if is_safe:
        sizes = [array.size for array in inputs if array is not None]
        results: int | None = prod(sizes) if node.op == "Gather" else sum(sizes)
    else:
        results = _count(onnx, model, given)
    if results is None or not _has_room(node, inputs, results, room):
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = reference.ReferenceEvaluator(model).run(None, given)
    except Exception:  # noqa: BLE001 - the evaluator raises whatever numpy does; a step is tried instead
        return None
    import numpy as np

    arrays = [np.asarray(array) for array in found]
    room.size_bytes -= sum(array.nbytes for array in arrays)
    return arrays if all(array.dtype != object for array in arrays) else None


def _count(onnx: Any, model: Any, given: dict[str, Array]) -> int | None:
    """Return how many elements the results have; None where that is not known, or too many."""
    count = 0
    del model.graph.input[:]
    for name, array in given.items():
        if array.size >= 1024:
            number = onnx.helper.np_dtype_to_tensor_dtype(array.dtype)
            model.graph.input.append(onnx.helper.make_tensor_value_info(name, number, array.shape))
    try:
        inferred = onnx.shape_inference.infer_shapes(model, data_prop=True)
    except Exception:  # noqa: BLE001 - of nodes that are wrong it raises errors of several kinds
        return None
    for port in inferred.graph.output:
        tensor = port.type.tensor_type
        if not tensor.HasField("shape") or not all(d.HasField("dim_value") for d in tensor.shape.dim):
            return None
        count += prod(d.dim_value for d in tensor.shape.dim)
    return count if count <= MOST_ELEMENTS else None
