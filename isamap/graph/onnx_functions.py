"""Expand operators that ONNX defines as functions of other nodes; convert nodes back to protobuf."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from isamap.graph.graph import Attribute, Function, Graph, Node, Reference
from isamap.graph.making import Value
from isamap.graph.onnx_files import read_function
from isamap.graph.sizes import is_open
from isamap.graph.terms import NotTaken
from isamap.graph.types import NUMBERS

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
    """Return how ONNX defines an operator; None for one that it does not have."""
    onnx: Any = import_module("onnx")
    try:
        return onnx.defs.get_schema(op, opset, domain)
    except Exception:  # noqa: BLE001 - its error for an unknown operator is no public class
        return None


def check_node(node: Node, inputs: Sequence[Value | None], opset: int) -> None:
    """Raise NotTaken where a node is not as ONNX defines its operator: attributes, and types of inputs."""
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
            raise NotTaken(f"ONNX has no attribute `{name}` of it")
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


def _check_types(schema: Any, inputs: Sequence[Value | None]) -> None:
    allowed = {one.type_param_str: one.allowed_type_strs for one in schema.type_constraints}
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


def function_of(node: Node, inputs: Sequence[Value | None], opset: int) -> Function | None:
    """Return the function that defines a node's operator; None where there is none.

    Shapes of inputs are known, so that what depends on them is decided.
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
    found = read_function(function, onnx)
    defaults = {name: one.default_value for name, one in schema.attributes.items() if one.default_value.name}
    missing = {name: value for name, value in defaults.items() if name not in node.attributes}
    if missing:
        given = read_attributes(onnx, missing.values())
        found = replace(found, defaults=given)
    return found


def _body(onnx: Any, schema: Any, proto: Any, inputs: Sequence[Value | None], opset: int) -> bytes | None:
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


def _type_proto(onnx: Any, value: Value | None) -> bytes:
    if value is None:
        return onnx.TypeProto().SerializeToString()
    number = NUMBERS.get(value.dtype, 0)
    return onnx.helper.make_tensor_type_proto(
        number, [repr(size) if is_open(size) else size for size in value.shape]
    ).SerializeToString()


def read_attributes(onnx: Any, protos: Any) -> dict[str, Attribute]:
    """Attributes of a schema by name."""
    from isamap.graph.onnx_files import Reader

    reader = Reader(Path("schema"), onnx)
    return {proto.name: reader.attribute(proto, 0) for proto in protos}


def with_attributes(function: Function, node: Node) -> list[Node]:
    """Return the nodes of a function, with attributes of the node that calls it where they name those."""
    given = {**function.defaults, **node.attributes}
    return [_filled(inner, given) for inner in function.nodes]


def _filled(node: Node, given: Any) -> Node:
    attributes: dict[str, Attribute] = {}
    for name, value in node.attributes.items():
        if isinstance(value, Reference):
            if value.name in given:
                attributes[name] = given[value.name]
        elif isinstance(value, Graph):
            attributes[name] = replace(value, nodes=tuple(_filled(n, given) for n in value.nodes))
        else:
            attributes[name] = value
    return replace(node, attributes=attributes)


def to_proto(node: Node, inputs: Sequence[str], outputs: Sequence[str]) -> Any:
    """Return a node as protobuf, under other names of what it reads and writes.

    Raises: NotTaken for an attribute of a kind that is not read.
    """
    onnx: Any = import_module("onnx")
    attributes: dict[str, Any] = {}
    for name, value in node.attributes.items():
        if value is None or isinstance(value, Reference):
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
    """Return a graph inside of a node as protobuf."""
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
