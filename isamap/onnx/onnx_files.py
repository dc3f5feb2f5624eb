"""Read ONNX files into graphs. Refuse files that are damaged, too large, or refer outside their folder.

Protobuf is read by the package `onnx`, which is the extra of that name. Weights may lie in files of their
own: these are looked for inside the folder of the model only.
"""

from __future__ import annotations

import errno
import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from importlib import import_module
from math import prod
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from isamap.graph.graph import Array, Attribute, AttributeReference, Graph, GraphFunction, Node, Signature
from isamap.graph.lowering import NEWEST_OPSET
from isamap.graph.types import SAID, TYPES
from isamap.source import LeavesFolder, UsageProblem, map_file, open_in_folder, read_part

MOST_BYTES = (1 << 31) - 1
"""A file of protobuf has at most 2 GiB; weights in files of their own may have more."""
MOST_NODES = 200_000
MOST_DEPTH = 16
"""Graphs in graphs: bodies of `If`, `Loop` and `Scan`."""
MOST_ELEMENTS = 1 << 33
MOST_AXES = 32
MOST_SPARSE = 1 << 24
"""Elements of all sparse tensors together, which become dense ones: a small file may name large sizes."""
LEAST_HOLED_BYTES = 1 << 20
"""The least size of weights that must not be in holes of a sparse file: these cost memory without content."""

_FIELDS = ("float_data", "int32_data", "string_data", "int64_data", "raw_data", "double_data", "uint64_data")
"""The fields in which a tensor may store its numbers."""
_BITS = {21: 4, 22: 4, 23: 4, 25: 2, 26: 2, 27: 6, 28: 6}
"""Of types whose elements share bytes, by the numbers of `TensorProto.DataType`."""
_VALUES = {
    "FLOAT": "f",
    "INT": "i",
    "STRING": "s",
    "TENSOR": "t",
    "GRAPH": "g",
    "SPARSE_TENSOR": "sparse_tensor",
    "TYPE_PROTO": "tp",
    "FLOATS": "floats",
    "INTS": "ints",
    "STRINGS": "strings",
    "TENSORS": "tensors",
    "GRAPHS": "graphs",
    "SPARSE_TENSORS": "sparse_tensors",
    "TYPE_PROTOS": "type_protos",
}
"""The field that has an attribute's value, by the attribute's type."""


LEAST_MAPPED = 1 << 20
"""Weights of so many bytes stay in their file, which is mapped: parsed by protobuf, they would be copied twice."""
NONE_APART: Mapping[int, memoryview] = {}


def onnx_package() -> Any:
    """Return the package `onnx`. Raises: UsageProblem if it is not installed."""
    try:
        return import_module("onnx")
    except ModuleNotFoundError:
        said = "models of ONNX are read by the package `onnx`, which is not installed"
        raise UsageProblem.of("onnx-missing", said, help="pip install 'isamap[onnx]'") from None


def damaged_model(path: Path, why: str) -> UsageProblem:
    """Return the error that a file is no readable model."""
    return UsageProblem.of(
        "onnx-damaged",
        f"{path} is not a model of ONNX that can be read: {why}",
        help="`python -c \"import onnx; onnx.checker.check_model('FILE')\"` has the details",
    )


class OnnxReader:
    """A reader of one model file and of the weight files next to it."""

    def __init__(self, path: Path, onnx: Any, apart: Mapping[int, memoryview] = NONE_APART) -> None:
        """Read a file. The weights numbered in `apart` are left out of its protobuf."""
        self.path = path
        self.onnx = onnx
        self.apart = apart
        self.nodes = 0
        self.sparse_elements = 0
        self.read_bytes: dict[str, int] = {}
        self.parts: dict[tuple[str, int, int], bytes | memoryview] = {}

    def fail(self, why: str) -> UsageProblem:
        return damaged_model(self.path, why)

    def check_once(self, names: Iterable[str], what: str) -> set[str]:
        """Return the nonempty names. Raises: UsageProblem if one is repeated."""
        seen: set[str] = set()
        for name in names:
            if name in seen:
                raise self.fail(f"{what} `{name}`")
            seen |= {name} if name else set()
        return seen

    def opsets(self, given: Iterable[Any]) -> dict[str, int]:
        found: dict[str, int] = {}
        for domain, version in ((_domain(o.domain), int(o.version)) for o in given):
            if found.setdefault(domain, version) != version:
                raise self.fail(f"it names two versions of the operators of the domain `{domain}`")
            if version < 1:
                raise self.fail(f"it is written in opset {version}, which there is none of")
        if found.get("", 1) > NEWEST_OPSET:
            raise self.fail(f"it is written in opset {found['']}; supported are those up to {NEWEST_OPSET}")
        return found

    def function(self, proto: Any) -> GraphFunction:
        defaults = {a.name: self.attribute(a, 0) for a in proto.attribute_proto}
        nodes = tuple(self.node(n, 0) for n in proto.node)
        opsets = self.opsets(proto.opset_import)
        function = GraphFunction(tuple(proto.input), tuple(proto.output), nodes, opsets, defaults)
        self._check_values((), function.inputs, function.outputs, nodes)
        return function

    def graph(self, proto: Any, depth: int) -> Graph:
        if depth > MOST_DEPTH:
            raise self.fail(f"graphs lie in graphs more than {MOST_DEPTH} deep")
        stored = [t.name for t in proto.initializer] + [s.values.name for s in proto.sparse_initializer]
        if not all(stored):
            raise self.fail("weights have no name")
        if not all(i.name for i in proto.input):
            raise self.fail("one of its inputs has no name")
        apart = self.apart if depth == 0 else NONE_APART
        constants = {t.name: self.tensor(t, apart.get(n)) for n, t in enumerate(proto.initializer)}
        for sparse in proto.sparse_initializer:
            constants[sparse.values.name] = self.sparse(sparse)
        nodes = tuple(self.node(n, depth) for n in proto.node)
        inputs, outputs, inside = (
            tuple(self.signature(port) for port in ports)
            for ports in (proto.input, proto.output, proto.value_info)
        )
        self._check_values(stored, [i.name for i in inputs], [o.name for o in outputs], nodes)
        inputs = tuple(i for i in inputs if i.name not in constants)
        return Graph(proto.name, nodes, inputs, outputs, constants, inside)

    def _check_values(
        self, stored: Iterable[str], inputs: Iterable[str], outputs: Iterable[str], nodes: Iterable[Node]
    ) -> None:
        """Check that each name denotes one value. Raises: UsageProblem."""
        given = self.check_once(stored, "two tensors of weights are called")
        given |= self.check_once(inputs, "two inputs are called")
        self.check_once(outputs, "two results are called")
        for name in self.check_once((n for node in nodes for n in node.outputs), "two nodes write"):
            if name in given:
                raise self.fail(f"a node writes `{name}`, which is an input or a tensor of weights")

    def node(self, proto: Any, depth: int) -> Node:
        self.nodes += 1
        if self.nodes > MOST_NODES:
            raise self.fail(f"it has more than {MOST_NODES} nodes")
        self.check_once((a.name for a in proto.attribute), f"a node of {proto.op_type} has two attributes")
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
        """Return the value of an attribute. Raises: UsageProblem if it differs from its declared type."""
        kinds = self.onnx.AttributeProto
        names = {number: name for name, number in kinds.AttributeType.items()}
        field = _VALUES.get(names.get(proto.type, ""))
        there = {one.name for one, _ in proto.ListFields()} & set(_VALUES.values())
        if proto.ref_attr_name and not there:
            return AttributeReference(proto.ref_attr_name)
        if field is None:
            raise self.fail(f"the attribute `{proto.name}` has no type that there is: {proto.type}")
        if not there <= {field} or proto.ref_attr_name:
            raise self.fail(f"the attribute `{proto.name}` holds more than its type, {names[proto.type]}")
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

    def signature(self, proto: Any) -> Signature:
        """Return the type that a graph declares for a value."""
        kind = proto.type.WhichOneof("value")
        if kind != "tensor_type":
            return Signature(proto.name, "", None, str(kind or "no type").replace("_type", ""))
        tensor = proto.type.tensor_type
        number = tensor.elem_type
        dtype, said = TYPES.get(number, ""), SAID.get(number, f"type {number}")
        if not tensor.HasField("shape"):
            return Signature(proto.name, dtype, None, said)
        if len(tensor.shape.dim) > MOST_AXES:
            raise self.fail(f"`{proto.name}` has {len(tensor.shape.dim)} axes, more than {MOST_AXES}")
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

    # --- weights ---

    def tensor(self, proto: Any, content: bytes | memoryview | None = None) -> Array:
        """Return the array of a tensor, whose bytes may be separate from its protobuf. Raises: UsageProblem."""
        shape = self._sizes(proto)
        is_apart = proto.data_location == self.onnx.TensorProto.EXTERNAL
        fields = [field for field in _FIELDS if len(getattr(proto, field))]
        fields += ["raw_data"] if content is not None else []
        if len(fields) + is_apart > 1 or proto.HasField("segment"):
            raise self.fail(f"`{proto.name}` holds its numbers at several places, or in parts")
        helper = self.onnx.helper
        try:
            dtype = np.dtype(helper.tensor_dtype_to_np_dtype(proto.data_type))
            whole = 8 * dtype.itemsize
            own_field = str(helper.tensor_dtype_to_field(proto.data_type))
        except (KeyError, ValueError, TypeError):
            raise self.fail(f"`{proto.name}` is of a type that there is none of: {proto.data_type}") from None
        bits = _BITS.get(int(proto.data_type), whole)
        if is_apart:
            content = self._part(proto, -(-prod(shape) * bits // 8))
            proto.data_location = self.onnx.TensorProto.DEFAULT
        elif not {*fields} <= {"raw_data", own_field}:
            raise self.fail(f"`{proto.name}` holds its numbers as {fields[0]}, which is not of its type")
        is_plain = bits == whole and dtype != np.bool_ and sys.byteorder == "little"
        if is_plain and isinstance(content, memoryview) and len(content) == prod(shape) * dtype.itemsize:
            return np.frombuffer(content, np.uint8).view(dtype).reshape(shape)
        if content is not None:
            proto.raw_data = bytes(content)
        try:
            self._check_count(proto, prod(shape), bits, own_field)
            array: Array = self.onnx.numpy_helper.to_array(proto)
        except Exception as error:  # noqa: BLE001 - it raises whatever numpy does
            raise self.fail(f"the numbers of `{proto.name}` do not fill its sizes: {error}") from None
        if array.shape != shape:
            raise self.fail(f"the numbers of `{proto.name}` do not fill its sizes")
        return np.asarray(array.view(np.uint8) != 0) if array.dtype == np.bool_ else array

    def _sizes(self, proto: Any) -> tuple[int, ...]:
        shape, count = tuple(int(size) for size in proto.dims), 1
        if len(shape) > MOST_AXES:
            raise self.fail(f"`{_name(proto)}` has {len(shape)} axes, more than {MOST_AXES}")
        for size in shape:
            count *= max(size, 1)
            if size < 0 or count > MOST_ELEMENTS:
                raise self.fail(f"the sizes of `{_name(proto)}` are none: {list(shape)}")
        return shape

    def _check_count(self, proto: Any, count: int, bits: int, field: str) -> None:
        """Check that a tensor has the right number of values of its type. Raises: ValueError."""
        if proto.HasField("raw_data"):
            there, needed = len(proto.raw_data), -(-count * bits // 8)
        else:
            in_one = 8 // bits if bits in (2, 4) else 1
            is_complex = proto.data_type in (
                self.onnx.TensorProto.COMPLEX64,
                self.onnx.TensorProto.COMPLEX128,
            )
            there, needed = len(getattr(proto, field)), -(-count * (2 if is_complex else 1) // in_one)
            if there and bits < 64 and field in ("int32_data", "uint64_data") and not is_complex:
                numbers = np.asarray(getattr(proto, field))
                name = TYPES.get(proto.data_type, "")
                width = 1 if name == "bool" else 8 if in_one > 1 else bits
                least, most = (
                    (-(1 << width - 1), (1 << width - 1) - 1) if name in _SIGNED else (0, (1 << width) - 1)
                )
                if numbers.min() < least or numbers.max() > most:
                    raise ValueError(f"one of them is beyond {least} … {most}")
        if there != needed:
            raise ValueError(f"{there} where {needed} are needed")

    def sparse(self, proto: Any) -> Array:
        """Return the array of a tensor that stores only nonzero elements. Raises: UsageProblem."""
        values, places, name = self.tensor(proto.values), self.tensor(proto.indices), proto.values.name
        shape = self._sizes(proto)
        self.sparse_elements += prod(shape)
        if self.sparse_elements > MOST_SPARSE:
            raise self.fail(f"sparse tensors, as `{name}`, have more than {MOST_SPARSE} elements together")
        is_flat = places.ndim == 1
        if places.dtype != np.int64 or places.shape not in ((values.size,), (values.size, len(shape))):
            raise self.fail(f"the places of the elements of `{name}` are not one for each")
        columns = (
            places.reshape(values.size, -1).T if values.size else places.reshape(1 if is_flat else -1, 0)
        )
        limits = (prod(shape),) if is_flat else shape
        if any(np.any((c < 0) | (c >= most)) for c, most in zip(columns, limits, strict=True)):
            raise self.fail(f"elements of `{name}` lie outside of its sizes")
        at = columns[0] if is_flat else sum(c * prod(shape[n + 1 :]) for n, c in enumerate(columns))
        if values.ndim != 1 or np.any(np.diff(at) <= 0):
            raise self.fail(f"the elements of `{name}` are not in their order, each once")
        dense = np.zeros(prod(shape), values.dtype)
        dense[at] = values
        return dense.reshape(shape)

    def _part(self, proto: Any, size_bytes: int) -> bytes | memoryview:
        """Return the bytes of a tensor in another file of the folder, with the size that its shape implies."""
        self.check_once(
            (entry.key for entry in proto.external_data), f"the weights `{proto.name}` have two of"
        )
        where = {entry.key: entry.value for entry in proto.external_data}
        location = where.get("location", "")
        start = self._number(proto.name, where, "offset", 0)
        if self._number(proto.name, where, "length", size_bytes) != size_bytes:
            raise self.fail(
                f"the numbers of `{proto.name}` do not fill its sizes: it takes {size_bytes} bytes"
            )
        key = location, start, size_bytes
        if key in self.parts:
            return self.parts[key]
        try:
            with open_in_folder(self.path.resolve().parent, location) as file:
                self._check_part(file, *key)
                is_mapped = size_bytes >= LEAST_MAPPED
                content = map_file(file)[start:][:size_bytes] if is_mapped else read_part(file, *key[1:])
                self.parts[key] = content
        except LeavesFolder as error:
            said = f"the weights `{proto.name}` are said to lie outside of its folder: {location!r}"
            raise self.fail(f"{said}, {error.strerror}") from None
        except OSError as error:
            said = f"the file `{location}` of the weights `{proto.name}` cannot be read"
            raise self.fail(f"{said}: {error.strerror}") from None
        return content

    def _check_part(self, file: BinaryIO, location: str, start: int, size_bytes: int) -> None:
        """Check a tensor's range in a file: overlapping ranges and holes are refused. Raises: OSError."""
        there = os.fstat(file.fileno()).st_size
        self.read_bytes[location] = self.read_bytes.get(location, 0) + size_bytes
        if start + size_bytes > there:
            raise OSError(errno.EINVAL, f"it is too short: {there} bytes")
        if self.read_bytes[location] > there:
            raise OSError(errno.EINVAL, "weights in it overlap")
        is_looked_at = size_bytes >= LEAST_HOLED_BYTES and hasattr(os, "SEEK_HOLE")
        if is_looked_at and os.lseek(file.fileno(), start, os.SEEK_HOLE) < start + size_bytes:
            raise OSError(errno.EINVAL, "it has holes: copy it by `cp --sparse=never`")

    def _number(self, name: str, where: Mapping[str, str], key: str, default: int) -> int:
        word = where.get(key)
        if word is None:
            return default
        if not (word.isascii() and word.isdigit() and len(word) < 20):
            raise self.fail(f"the weights `{name}` have no {key} that is a number: {word!r}")
        return int(word)


_SIGNED = frozenset(("i8", "i16", "i32"))


def _name(proto: Any) -> str:
    """Return the name of a tensor, or of the values of a sparse one."""
    return str(proto.name if hasattr(proto, "name") else proto.values.name)


def _domain(name: str) -> str:
    return "" if name == "ai.onnx" else name


# Weights of a file of protobuf, found in its bytes and left out of what protobuf parses.
#
#     ModelProto: … graph 7: GraphProto: … initializer 5: TensorProto: … raw_data 9: bytes …


_GRAPH, _INITIALIZER, _RAW_DATA = 7, 5, 9
_BYTES = 2
"""The wire type of fields with a length in front."""


def without_weights(content: memoryview) -> tuple[bytes | memoryview, dict[int, memoryview]]:
    """Return a model's protobuf without its large weights, and these by their tensor number in the graph.

    Bytes that are no protobuf, or have the graph in several parts, are returned as they are.
    """
    if len(content) < LEAST_MAPPED:
        return content, {}
    apart: dict[int, memoryview] = {}
    try:
        fields = list(_fields(content))
        graphs = [n for n, (number, *_) in enumerate(fields) if number == _GRAPH]
        if len(graphs) != 1:
            return content, {}
        _, _, first, end = fields[graphs[0]]
        tensors = 0
        parts: list[bytes | memoryview] = []
        for number, start, inside, behind in _fields(content[first:end]):
            field = content[first:end][start:behind]
            if number == _INITIALIZER:
                tensor = field[inside - start :]
                raw = [one for one in _fields(tensor) if one[0] == _RAW_DATA]
                if len(raw) == 1 and raw[0][3] - raw[0][2] >= LEAST_MAPPED:
                    _, at, data, last = raw[0]
                    apart[tensors] = tensor[data:last]
                    field = _field(_INITIALIZER, bytes(tensor[:at]) + bytes(tensor[last:]))
                tensors += 1
            parts.append(field)
    except (IndexError, ValueError):
        return content, {}
    around = [content[start:end] for n, (_, start, _, end) in enumerate(fields) if n != graphs[0]]
    return b"".join((*around, _field(_GRAPH, b"".join(parts)))), apart


def _fields(message: memoryview) -> Iterator[tuple[int, int, int, int]]:
    """Yield, for each field, its number, its start, the start of its content, and its end.

    Raises: IndexError and ValueError for what is not a protobuf.
    """
    at = 0
    while at < len(message):
        tag, inside = _varint(message, at)
        match tag & 7:
            case 0:
                end = _varint(message, inside)[1]
            case 1:
                end = inside + 8
            case 2:
                size, inside = _varint(message, inside)
                end = inside + size
            case 5:
                end = inside + 4
            case _:
                raise ValueError(f"a field of the kind {tag & 7}")
        if end > len(message):
            raise ValueError("a field is cut off")
        yield tag >> 3 if tag & 7 == _BYTES else -1, at, inside, end
        at = end


def _varint(message: memoryview, at: int) -> tuple[int, int]:
    """Return a varint (seven bits per byte) and its end position."""
    number = 0
    for shift in range(0, 70, 7):
        byte = message[at]
        number, at = number | (byte & 127) << shift, at + 1
        if byte < 128:
            return number, at
    raise ValueError("a number of more than 64 bits")


def _field(number: int, content: bytes) -> bytes:
    """Return a length-prefixed field."""
    found, size = [number << 3 | _BYTES], len(content)
    while size > 127:
        found.append(size & 127 | 128)
        size >>= 7
    return bytes((*found, size)) + content
