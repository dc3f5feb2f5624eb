"""ONNX's own operator definitions: check nodes, expand functions, fold constants.

    DEFINITIONS.fold(Node("Add", …), [2, 3], 20, room)     [5], by ONNX's reference evaluator

Models that come from ONNX carry `DEFINITIONS`, so that `isamap.graph` needs neither files nor protobuf.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib import import_module
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from isamap.graph.graph import (
    WORK_OF_NODE,
    Array,
    AttributeReference,
    Definitions,
    FoldingBudget,
    Graph,
    GraphFunction,
    Node,
    Typed,
)
from isamap.graph.sizes import is_open
from isamap.graph.terms import NotTaken
from isamap.graph.types import NUMBERS
from isamap.onnx.onnx_files import OnnxReader

MOST_ELEMENTS = 1 << 24
"""The most elements of a result computed at import: small files may declare large arrays."""
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
_KINDS: dict[str, type | tuple[type, ...]] = {
    "INT": int,
    "FLOAT": float,
    "STRING": str,
    "GRAPH": Graph,
    "TENSOR": np.ndarray,
    "INTS": tuple,
    "FLOATS": tuple,
    "STRINGS": tuple,
}
_ELEMENTS = {"INTS": int, "FLOATS": float, "STRINGS": str}
"""Values of attributes by the types that ONNX gives them, and the elements of lists."""
_SPELLED = {"f16": "float16", "f32": "float", "f64": "double", "bf16": "bfloat16", "bool": "bool"} | {
    f"{word[0]}{bits}": f"{word}{bits}" for word in ("int", "uint") for bits in (4, 8, 16, 32, 64)
}


@cache
def _schema(op: str, opset: int, domain: str) -> Any:
    """Return ONNX's schema of an operator, or None."""
    onnx: Any = import_module("onnx")
    try:
        return onnx.defs.get_schema(op, opset, domain)
    except Exception:  # noqa: BLE001 - its error for an unknown operator is not a public class
        return None


def _newest() -> int:
    return import_module("onnx").defs.onnx_opset_version()


def check_node(node: Node, inputs: Sequence[Typed | None], opset: int) -> None:
    """Check a node's attributes and input types against ONNX's schema. Raises: NotTaken."""
    for name, value in node.attributes.items():
        if value is None:
            raise NotTaken(f"its attribute `{name}` is of a kind that no operator here takes")
    schema = _schema(node.op, opset, node.domain)
    if schema is None:
        return
    for what, there, least, most in (
        ("inputs", len(inputs), schema.min_input, schema.max_input),
        ("results", len(node.outputs), schema.min_output, schema.max_output),
    ):
        if not least <= there <= most:
            raise NotTaken(f"{there} {what}, where ONNX has {least} to {most}")
    for name, value in node.attributes.items():
        known = schema.attributes.get(name)
        if known is None:
            later = _schema(node.op, _newest(), node.domain)
            is_later = node.domain == "" and later is not None and name in later.attributes
            more = f" before a later version than {opset}: write the model by onnx.version_converter in version 17"
            raise NotTaken(f"ONNX has no attribute `{name}` of it{more if is_later else ''}")
        kind = known.type.name
        elements: tuple[Any, ...] = value if kind in _ELEMENTS and isinstance(value, tuple) else ()
        if not isinstance(value, _KINDS.get(kind, object)) or not all(
            isinstance(one, _ELEMENTS[kind]) for one in elements
        ):
            raise NotTaken(f"its attribute `{name}` is not of the type {kind}")
    missing = [
        name for name, one in schema.attributes.items() if one.required and name not in node.attributes
    ]
    if missing:
        raise NotTaken(f"it lacks the attribute `{missing[0]}`")
    _check_types(schema, inputs)


def _check_types(schema: Any, inputs: Sequence[Typed | None]) -> None:
    """Check input types against all versions of an operator. Raises: NotTaken."""
    newest = _schema(schema.name, _newest(), schema.domain) or schema
    versions = [one for version in (newest, schema) for one in version.type_constraints]
    allowed: dict[str, set[str]] = {}
    for one in versions:  # exporters write types of later versions
        allowed.setdefault(one.type_param_str, set()).update(one.allowed_type_strs)
    bound: dict[str, str] = {}
    for number, value in enumerate(inputs):
        said = schema.inputs[min(number, len(schema.inputs) - 1)]
        spelled = _SPELLED.get(value.dtype) if value is not None else None
        if spelled is None:
            continue
        found = f"tensor({spelled})"
        if found not in allowed.get(said.type_str, (said.type_str,)):
            raise NotTaken(f"its input {number} is {found}")
        if bound.setdefault(said.type_str, found) != found and said.is_homogeneous:
            raise NotTaken(f"its inputs are {bound[said.type_str]} and {found}, which have to be one type")


def function_of(node: Node, inputs: Sequence[Typed | None], opset: int) -> GraphFunction | None:
    """Return the function that defines a node's operator, or None.

    Shapes of inputs are known, so the function may depend on them.
    """
    onnx: Any = import_module("onnx")
    schema = _schema(node.op, opset, node.domain)
    if schema is None:
        return None
    proto = to_proto(node, list(node.inputs), list(node.outputs))
    content = _body(onnx, schema, proto, inputs, opset)
    if content is None:
        return None
    function = onnx.FunctionProto()
    function.ParseFromString(content)
    found = OnnxReader(Path(function.name), onnx).function(function)
    defaults = {name: one.default_value for name, one in schema.attributes.items() if one.default_value.name}
    missing = {name: value for name, value in defaults.items() if name not in node.attributes}
    if missing:
        reader = OnnxReader(Path("schema"), onnx)
        found = replace(found, defaults={p.name: reader.attribute(p, 0) for p in missing.values()})
    return found


def _body(onnx: Any, schema: Any, proto: Any, inputs: Sequence[Typed | None], opset: int) -> bytes | None:
    if schema.has_context_dependent_function:
        types = [_type_proto(onnx, value) for value in inputs]
        versions = [v for v in schema.context_dependent_function_opset_versions if v <= opset]
        for version in sorted(versions, reverse=True):
            try:
                return schema.get_context_dependent_function_with_opset_version(
                    version, proto.SerializeToString(), types
                )
            except Exception:  # noqa: BLE001 - what it is not defined for raises errors of several kinds
                continue
        return None
    if schema.has_function:
        versions = [v for v in schema.function_opset_versions if v <= opset]
        if versions:
            return schema.get_function_with_opset_version(max(versions))
    return None


def _type_proto(onnx: Any, value: Typed | None) -> bytes:
    if value is None:
        return onnx.TypeProto().SerializeToString()
    number = NUMBERS.get(value.dtype, 0)
    return onnx.helper.make_tensor_type_proto(
        number, [repr(size) if is_open(size) else size for size in value.shape]
    ).SerializeToString()


def to_proto(node: Node, inputs: Sequence[str], outputs: Sequence[str]) -> Any:
    """Return a node as protobuf, with other names for its inputs and results.

    Raises: NotTaken for an attribute of an unsupported kind.
    """
    onnx: Any = import_module("onnx")
    attributes: dict[str, Any] = {}
    for name, value in node.attributes.items():
        if value is None or isinstance(value, AttributeReference):
            raise NotTaken(f"its attribute `{name}` is of a kind that no operator here takes")
        if isinstance(value, Graph):
            attributes[name] = _graph_proto(onnx, value)
        else:
            attributes[name] = onnx.numpy_helper.from_array(value) if hasattr(value, "dtype") else value
    proto = onnx.helper.make_node(node.op, inputs, outputs, name=node.name, domain=node.domain)
    for name, value in attributes.items():
        kind = onnx.AttributeProto.FLOATS if value == () else None
        proto.attribute.append(onnx.helper.make_attribute(name, value, attr_type=kind))
    return proto


def _graph_proto(onnx: Any, graph: Graph) -> Any:
    """Return a nested graph of a node as protobuf."""
    helper = onnx.helper
    ports = [
        [
            helper.make_tensor_value_info(port.name, NUMBERS[port.dtype], port.sizes)
            if port.dtype
            else helper.make_empty_tensor_value_info(port.name)
            for port in which
        ]
        for which in (graph.inputs, graph.outputs)
    ]
    nodes = [to_proto(node, node.inputs, node.outputs) for node in graph.nodes]
    constants = [onnx.numpy_helper.from_array(array, name) for name, array in graph.constants.items()]
    return helper.make_graph(nodes, graph.name or "inside", *ports, constants)


def _has_room(node: Node, inputs: Sequence[Array | None], results: int, room: FoldingBudget) -> bool:
    """Return whether the results are small enough to be computed at import. Raises: NotTaken for too much work."""
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


def fold(node: Node, inputs: Sequence[Array | None], opset: int, room: FoldingBudget) -> list[Array] | None:
    """Return the results of a node with known inputs, or None if it is not folded."""
    if any(isinstance(value, Graph) for value in node.attributes.values()):
        return None
    if (
        node.op in _NEVER
        or node.domain not in ("", "ai.onnx.ml")
        or any(a is not None and a.dtype == object for a in inputs)
    ):
        return None
    onnx: Any = import_module("onnx")
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
            found = evaluator_of(model).run(None, given)
    except Exception:  # noqa: BLE001 - the evaluator raises whatever numpy does; a step is tried instead
        return None
    arrays = [np.asarray(array) for array in found]
    room.size_bytes -= sum(array.nbytes for array in arrays)
    return arrays if all(array.dtype != object for array in arrays) else None


_EVALUATED_SINCE = {"DequantizeLinear": 19}
"""Operators that ONNX's evaluator lacks in versions before this one, which mean the same for fewer types."""


def evaluator_of(model: Any) -> Any:
    """Return ONNX's reference evaluator of a model. Raises: RuntimeError for an operator that it lacks."""
    reference, ops = (import_module(f"onnx.reference{word}") for word in ("", ".ops"))
    opset = next((one.version for one in model.opset_import if one.domain in ("", "ai.onnx")), 0)
    later = [
        type(op, (ops.load_op("", op),), {"op_domain": ""})
        for op, since in _EVALUATED_SINCE.items()
        if opset < since
    ]
    return reference.ReferenceEvaluator(model, new_ops=later)


def _count(onnx: Any, model: Any, given: dict[str, Array]) -> int | None:
    """Return the number of result elements, or None if it is unknown or above the limit."""
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


@dataclass(frozen=True, slots=True)
class _OnnxDefinitions:
    check_node = staticmethod(check_node)
    function_of = staticmethod(function_of)
    fold = staticmethod(fold)


DEFINITIONS: Definitions = _OnnxDefinitions()
