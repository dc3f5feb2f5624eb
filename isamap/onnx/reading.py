"""Files of ONNX read into graphs; what is damaged, too large or reaches outside of its folder is refused.

Protobuf is read by the package `onnx`, which is the extra of that name. Weights may lie in files of their
own: these are looked for inside the folder of the model only.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from isamap.onnx.graph import Array, Attribute, Function, Graph, Model, Node, Reference, Signature
from isamap.onnx.types import SAID, TYPES
from isamap.source import Diagnostic, UsageProblem

MOST_BYTES = (1 << 31) - 1
"""A file of protobuf has at most 2 GiB; weights in files of their own may have more."""
MOST_NODES = 200_000
MOST_DEPTH = 16
"""Graphs in graphs: bodies of `If`, `Loop` and `Scan`."""
MOST_ELEMENTS = 1 << 33
NEWEST_OPSET = 28


def read_model(path: Path) -> Model:
    """The model of a file. Raises: UsageProblem for what is none, MissingTool never."""
    try:
        size = path.stat().st_size
        if size > MOST_BYTES:
            raise _damaged(path, f"it has {size} bytes, more than a file of protobuf may have")
        content = path.read_bytes()
    except OSError as error:
        said = f"{path} cannot be read: {error.strerror}"
        raise UsageProblem(Diagnostic("file-unreadable", said)) from None
    return parse_model(content, path)


def parse_model(content: bytes, path: Path) -> Model:
    """The model of a file's bytes; `path` says where its other files are. Raises: UsageProblem."""
    onnx = onnx_package()
    errors: Any = import_module("google.protobuf.message")
    proto = onnx.ModelProto()
    try:
        proto.ParseFromString(content)
    except errors.DecodeError:
        raise _damaged(path, "its bytes are no protobuf of ONNX") from None
    if not proto.HasField("graph") or not proto.opset_import:
        raise _damaged(path, "it has no graph, or does not say which operators it is written in")
    reader = Reader(path, onnx)
    try:
        opsets = reader.opsets(proto.opset_import)
        functions = {(f.domain, f.name): reader.function(f) for f in proto.functions}
        return Model(reader.graph(proto.graph, 0), opsets, functions)
    except (TypeError, UnicodeError):  # names that are no text come as bytes
        raise _damaged(path, "one of its names is no text") from None


def onnx_package() -> Any:
    """The package `onnx`. Raises: UsageProblem where it is not installed."""
    try:
        return import_module("onnx")
    except ModuleNotFoundError:
        said = "models of ONNX are read by the package `onnx`, which is not installed"
        raise UsageProblem(Diagnostic("onnx-missing", said, help="pip install 'isamap[onnx]'")) from None


def _damaged(path: Path, why: str) -> UsageProblem:
    return UsageProblem(
        Diagnostic(
            "onnx-damaged",
            f"{path} is no model of ONNX that can be read: {why}",
            help="`python -c \"import onnx; onnx.checker.check_model('FILE')\"` says more",
        )
    )


def read_function(proto: Any, onnx: Any) -> Function:
    """A function that ONNX itself defines an operator by."""
    return Reader(Path(proto.name), onnx).function(proto)


class Reader:
    """Reads one file, and the files of weights beside it."""

    def __init__(self, path: Path, onnx: Any) -> None:
        self.path = path
        self.onnx = onnx
        self.nodes = 0

    def fail(self, why: str) -> UsageProblem:
        return _damaged(self.path, why)

    def opsets(self, given: Iterable[Any]) -> dict[str, int]:
        found = {_domain(o.domain): int(o.version) for o in given}
        if found.get("", 1) > NEWEST_OPSET:
            raise self.fail(f"it is written in opset {found['']}; known are those up to {NEWEST_OPSET}")
        return found

    def function(self, proto: Any) -> Function:
        defaults = {a.name: self.attribute(a, 0) for a in proto.attribute_proto}
        nodes = tuple(self.node(n, 0) for n in proto.node)
        opsets = self.opsets(proto.opset_import)
        return Function(tuple(proto.input), tuple(proto.output), nodes, opsets, defaults)

    def graph(self, proto: Any, depth: int) -> Graph:
        if depth > MOST_DEPTH:
            raise self.fail(f"graphs lie in graphs more than {MOST_DEPTH} deep")
        constants = {t.name: self.tensor(t) for t in proto.initializer}
        for sparse in proto.sparse_initializer:
            constants[sparse.values.name] = self.sparse(sparse)
        inputs = tuple(_signature(i) for i in proto.input if i.name not in constants)
        nodes = tuple(self.node(n, depth) for n in proto.node)
        outputs = tuple(_signature(o) for o in proto.output)
        for name, what in ((i.name, "inputs") for i in inputs):
            if not name:
                raise self.fail(f"one of its {what} has no name")
        return Graph(proto.name, nodes, inputs, outputs, constants)

    def node(self, proto: Any, depth: int) -> Node:
        self.nodes += 1
        if self.nodes > MOST_NODES:
            raise self.fail(f"it has more than {MOST_NODES} nodes")
        attributes = {a.name: self.attribute(a, depth) for a in proto.attribute}
        return Node(
            proto.op_type,
            _domain(proto.domain),
            proto.name,
            tuple(proto.input),
            tuple(proto.output),
            attributes,
        )

    def attribute(self, proto: Any, depth: int) -> Attribute:
        kinds = self.onnx.AttributeProto
        if proto.ref_attr_name:
            return Reference(proto.ref_attr_name)
        match proto.type:
            case kinds.INT:
                return int(proto.i)
            case kinds.FLOAT:
                return float(proto.f)
            case kinds.STRING:
                return proto.s.decode(errors="replace")
            case kinds.TENSOR:
                return self.tensor(proto.t)
            case kinds.GRAPH:
                return self.graph(proto.g, depth + 1)
            case kinds.INTS:
                return tuple(int(i) for i in proto.ints)
            case kinds.FLOATS:
                return tuple(float(f) for f in proto.floats)
            case kinds.STRINGS:
                return tuple(s.decode(errors="replace") for s in proto.strings)
            case _:
                return None

    # --- weights ---

    def tensor(self, proto: Any) -> Array:
        """The array of a tensor that is stored. Raises: UsageProblem."""
        shape, count = tuple(proto.dims), 1
        for size in shape:
            count *= size
            if size < 0 or count > MOST_ELEMENTS:
                raise self.fail(f"the sizes of `{proto.name}` are none: {list(shape)}")
        if proto.data_location == self.onnx.TensorProto.EXTERNAL:
            self._bring(proto)
        try:
            array: Array = self.onnx.numpy_helper.to_array(proto)
        except (ValueError, TypeError, KeyError, IndexError, AttributeError, OverflowError) as error:
            raise self.fail(f"the numbers of `{proto.name}` do not fill its sizes: {error}") from None
        if array.shape != shape:
            raise self.fail(f"the numbers of `{proto.name}` do not fill its sizes")
        return array

    def sparse(self, proto: Any) -> Array:
        """The array of a tensor of which the elements that are not 0 are stored."""
        values, places = self.tensor(proto.values), self.tensor(proto.indices)
        shape = tuple(proto.dims)
        dense = np.zeros(shape, values.dtype)
        try:
            if places.ndim == 1:
                dense.reshape(-1)[places] = values
            else:
                dense[tuple(places.T)] = values
        except (IndexError, ValueError):
            raise self.fail(f"elements of `{proto.values.name}` lie outside of its sizes") from None
        return dense

    def _bring(self, proto: Any) -> None:
        """Reads the bytes of a tensor that lie in another file of the folder."""
        where = {entry.key: entry.value for entry in proto.external_data}
        folder = self.path.resolve().parent
        location = where.get("location", "")
        file = (folder / location).resolve()
        if not location or not file.is_relative_to(folder) or file == folder:
            raise self.fail(f"the weights `{proto.name}` are said to lie outside of its folder: {location!r}")
        offset, length = _number(where, "offset"), _number(where, "length")
        try:
            with file.open("rb") as stream:
                stream.seek(offset or 0)
                content = stream.read() if length is None else stream.read(min(length, MOST_ELEMENTS))
        except (OSError, ValueError, OverflowError):
            raise self.fail(f"the file `{location}` of the weights `{proto.name}` cannot be read") from None
        if (offset is not None and offset < 0) or (length is not None and len(content) != length):
            raise self.fail(f"the file `{location}` is too short for the weights `{proto.name}`")
        proto.data_location = self.onnx.TensorProto.DEFAULT
        proto.raw_data = content


def _number(where: Mapping[str, str], name: str) -> int | None:
    word = where.get(name)
    return int(word) if word is not None and word.isascii() and word.isdigit() and len(word) < 20 else None


def _domain(name: str) -> str:
    return "" if name == "ai.onnx" else name


def _signature(proto: Any) -> Signature:
    """What a graph says of an input or a result."""
    kind = proto.type.WhichOneof("value")
    if kind != "tensor_type":
        return Signature(proto.name, "", None, str(kind or "no type").replace("_type", ""))
    tensor = proto.type.tensor_type
    number = tensor.elem_type
    dtype, said = TYPES.get(number, ""), SAID.get(number, f"type {number}")
    if not tensor.HasField("shape"):
        return Signature(proto.name, dtype, None, said)
    name = re.sub(r"[^A-Za-z0-9_]", "_", proto.name)
    sizes = tuple(
        int(d.dim_value)
        if d.HasField("dim_value") and d.dim_value >= 0
        else d.dim_param
        if d.dim_param.isascii() and d.dim_param.isidentifier()
        else f"{name}_{n}"
        for n, d in enumerate(tensor.shape.dim)
    )
    return Signature(proto.name, dtype, sizes, said)
