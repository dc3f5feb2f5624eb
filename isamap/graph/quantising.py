"""Replace DequantizeLinear → operator → QuantizeLinear by one integer operator.

    x8 → DequantizeLinear → Conv → Relu → QuantizeLinear → y8        x8 → QLinearConv → y8
    x8 → DequantizeLinear → Transpose → y                            x8 → Transpose → DequantizeLinear → y
    x8 → DequantizeLinear → Sigmoid → QuantizeLinear → y8            x8 → Lookup in a table of 256 → y8
    x8 → DequantizeLinear → MatMul → y                               x8 → QLinearMatMul without a result scale → y

The operator computes the same as the three nodes, without rounding in between. It multiplies bytes, for which many
machines have instructions, and its sums are exact. Nodes stay as they are where an intermediate value has a second
reader, or where the pattern differs. A new operator needs a row of `_REPLACED`, and one that only moves elements a
row of `_MOVED`. ONNX's own evaluator computes the tables.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from isamap.graph.graph import Array, Attribute, Definitions, FoldingBudget, Graph, Node, names_read
from isamap.graph.operators.elementwise import ELEMENTWISE
from isamap.graph.types import NUMBERS

RUNTIMES = "com.microsoft"
"""The domain of operators that ONNX lacks, and runtimes share."""
OWN = "isamap"
"""The domain of operators that no file has: `Lookup`, for each byte its element of a table; and products of bytes
with a bias in f32, or without a scale of the result, which is in f32 then."""
LEAST_OPSET = 13
"""Earlier versions have no scales along an axis, and some of their operators do not accept bytes."""
LEAST_ROOM = 1 << 20
MOST_SUM = 2**31
"""The sums of an operator of integers stay below it."""
_SAME_SCALES = 1e-6
"""The allowed relative difference of a bias's scale from the product of its factors' scales, which are
rounded."""


@dataclass(frozen=True, slots=True)
class _Scaled:
    """A quantised tensor by names. Its values are (`values` - `zero`) * `scale`."""

    values: str
    scale: str
    zero: str
    axis: int


class _Rewriting:
    """A graph while it is rewritten: the producer of each value, and its number of readers."""

    def __init__(self, graph: Graph, opset: int, definitions: Definitions | None) -> None:
        self.opset, self.definitions = opset, definitions
        self.makers = {name: node for node in graph.nodes for name in node.outputs}
        self.readers = Counter(names_read(graph))
        self.constants: dict[str, Array] = dict(graph.constants)
        self.gone: list[Node] = []
        self.tables: dict[str, tuple[str, Array, int]] = {}
        """For bytes that are a function of other bytes, these, the function as a table, and how long it takes."""
        self._names = {*self.makers, *self.readers, *self.constants, *(port.name for port in graph.inputs)}

    def fresh(self, name: str) -> str:
        """Return a name similar to this one that no value of the graph has."""
        while name in self._names:
            name += "."
        self._names.add(name)
        return name

    def array(self, name: str) -> Array:
        """Return the constant with this name, or an empty array."""
        return self.constants.get(name, np.zeros(0))

    def dequantised(self, name: str) -> _Scaled | None:
        """Return the integers that DequantizeLinear converts to a value, or None if its scales are not constant."""
        node = self.makers.get(name)
        if node is None or not is_scaling(node, "DequantizeLinear"):
            return None
        axis, scales = node.attributes.get("axis", 1), self.array(node.inputs[1])
        if node.attributes.get("block_size") or not isinstance(axis, int) or scales.dtype != np.float32:
            return None
        is_known = scales.ndim < 2 and scales.size and self.array(node.inputs[2]).size == scales.size
        is_known = is_known and np.isfinite(scales).all() and (scales > 0).all()
        values, scale, zero = node.inputs
        return _Scaled(values, scale, zero, axis) if is_known else None

    def bytes_of(self, name: str) -> _Scaled | None:
        """Return the quantised tensor that a value dequantises, or None."""
        found = self.dequantised(name)
        return found if found is not None and is_byte(self.array(found.zero)) else None

    def bytes_of_one_scale(self, name: str) -> _Scaled | None:
        """Return the quantised tensor that a value dequantises by a single scale, or None."""
        found = self.bytes_of(name)
        return found if found is not None and self.array(found.scale).size == 1 else None

    def bytes_of_any_scale(self, name: str) -> _Scaled | None:
        """Return the bytes from which a value is dequantised by one scale, or None. The scale may be computed."""
        found, node = self.bytes_of_one_scale(name), self.makers.get(name)
        if found is not None or node is None or not is_scaling(node, "DequantizeLinear"):
            return found
        values, scale, zero = node.inputs
        return _Scaled(values, scale, zero, 0) if node.attributes.get("bytes") in ("i8", "u8") else None

    def evaluated(self, node: Node, given: Mapping[str, Array]) -> Array | None:
        """Return a node's first result for inputs and constants by name, or None if one is unknown."""
        if any(name and name not in given and name not in self.constants for name in node.inputs):
            return None
        arrays = [given[n] if n in given else self.constants[n] if n else None for n in node.inputs]
        if self.definitions is None or "reciprocal" in node.attributes:
            return _evaluate_node(node, arrays)
        size = sum(array.nbytes for array in arrays if array is not None)
        room = FoldingBudget(LEAST_ROOM + 16 * size, LEAST_ROOM + size)
        found = self.definitions.fold(replace(node, domain=""), arrays, self.opset, room)
        return found[0] if found else None


def _evaluate_node(node: Node, arrays: Sequence[Array | None]) -> Array | None:
    """Return the result of a torch node, or of one without an installed standard, or None for others."""
    order, factor = node.attributes.get("perm"), node.attributes.get("reciprocal")
    match node.op, arrays:
        case "Transpose", [np.ndarray() as x] if isinstance(order, tuple):
            return x.transpose([int(axis) for axis in order])
        case "QuantizeLinear", [x, _, np.ndarray() as zero] if isinstance(factor, float) and x is not None:
            known = np.iinfo(zero.dtype)
            found = np.rint(x * np.float32(factor)) + zero.astype(np.float32)
            return found.clip(known.min, known.max).astype(zero.dtype)
        case _:
            return None


def is_scaling(node: Node, op: str) -> bool:
    """Return whether a node is the operator `op`, DequantizeLinear or QuantizeLinear, with a zero point."""
    return node.op == op and node.domain in ("", RUNTIMES) and len(node.inputs) == 3


def is_byte(array: Array) -> bool:
    """Return whether an array has 8-bit integers."""
    return array.dtype.kind in "iu" and array.dtype.itemsize == 1


def with_integer_operators(
    graph: Graph, opset: int, definitions: Definitions | None
) -> tuple[Graph, tuple[Node, ...]]:
    """Return the graph with integer operators, and the nodes that these replace."""
    rewriting = _Rewriting(graph, opset, definitions)
    nodes: list[Node] = []
    for node in graph.nodes:
        made: tuple[Node, ...] = ()
        if is_scaling(node, "QuantizeLinear"):
            made = (
                _compose_lookups(rewriting, node)
                or _of_integers(rewriting, node)
                or _look_up_bytes(rewriting, node)
            )
        elif node.op in _MOVED and not node.domain:
            made = _move_to_bytes(rewriting, node)
        rewriting.makers |= {name: one for one in made for name in one.outputs}
        nodes += made or (node,)
    own = {id(node) for node in graph.nodes}
    gone = {id(node): node for node in rewriting.gone}
    left: list[Node] = []
    for node in nodes:
        made_of = (_in_f32(rewriting, node) or _in_blocks(rewriting, node)) if id(node) not in gone else None
        gone |= {id(node): node} if made_of is not None else {}
        left += [made_of] if made_of is not None else [node] if id(node) not in gone else []
    read, kept = set(names_read(replace(graph, nodes=()))), list[Node]()
    for node in reversed(left):
        was_read = is_scaling(node, "DequantizeLinear") or any(rewriting.readers[n] for n in node.outputs)
        if read.intersection(node.outputs) or (id(node) in own and not was_read):
            kept.append(node)
            read.update(names_read(replace(graph, nodes=(node,), outputs=())))
        else:
            gone[id(node)] = node
    parts = tuple(node for key, node in gone.items() if key in own)
    return replace(graph, nodes=tuple(reversed(kept)), constants=rewriting.constants), parts


# --- signed bytes ---------------------------------------------------------------------------------------------

HALF = 128
"""An unsigned byte less it is a signed one. A zero point moves with its bytes, and differences stay the same."""


def with_signed_bytes(graph: Graph, definitions: Definitions) -> Graph:
    """Return the graph with signed bytes instead of unsigned ones, for machines that read only signed bytes.

    Operators that subtract a known zero point compute the same: 130 - 100 = 2 - (-28). Inputs and results of
    the graph, and bytes that other operators read, stay unsigned, and nodes convert them.
    """
    rewriting, signed, nodes = _Rewriting(graph, 0, definitions), dict[str, str](), list[Node]()
    constants = rewriting.constants

    def take(name: str) -> str:
        """Return the name of a value's signed bytes. A conversion node is added if no node produces them."""
        if name not in signed:
            signed[name] = rewriting.fresh(f"{name}.signed")
            if name in constants:
                constants[signed[name]] = (constants[name].astype(np.int16) - HALF).astype(np.int8)
            else:
                nodes.extend(_shift_bytes(rewriting, name, signed[name], -HALF))
        return signed[name]

    unsigned = set(names_read(replace(graph, nodes=())))
    for node in graph.nodes:
        places = {*_moved_bytes(node), *(value for value, _ in _points_of(rewriting, node)[0])}
        unsigned.update(name for n, name in enumerate(node.inputs) if n not in places)
        unsigned.update(names_read(replace(graph, nodes=(replace(node, inputs=()),), outputs=())))
    for node in graph.nodes:
        inputs, outputs, after = list(node.inputs), list(node.outputs), list[Node]()
        (pairs, result), moved = _points_of(rewriting, node), _moved_bytes(node)
        moved = moved if any(inputs[n] in signed for n in moved) else ()
        for place in (*(n for pair in pairs for n in pair), *(() if result is None else (result,)), *moved):
            inputs[place] = take(node.inputs[place])
        for n, name in enumerate(outputs if moved or result is not None else ()):
            outputs[n] = signed[name] = rewriting.fresh(f"{name}.signed") if name in unsigned else name
            after += _shift_bytes(rewriting, outputs[n], name, HALF) if name in unsigned else ()
        nodes += replace(node, inputs=tuple(inputs), outputs=tuple(outputs)), *after
    inside = tuple(port for port in graph.inside if port.name not in signed)
    return replace(graph, nodes=tuple(nodes), constants=constants, inside=inside)


def _points_of(graph: _Rewriting, node: Node) -> tuple[tuple[tuple[int, int], ...], int | None]:
    """Return the inputs with unsigned bytes and their zero points, and the zero point of an unsigned result."""
    pairs, result = _POINTS.get(node.op, ((), None)) if node.domain in ("", RUNTIMES) else ((), None)
    known = {n for n, name in enumerate(node.inputs) if name and graph.array(name).dtype == np.uint8}
    return tuple(pair for pair in pairs if pair[1] in known), result if result in known else None


def _moved_bytes(node: Node) -> tuple[int, ...]:
    """Return the inputs whose elements a node moves unchanged, or () if it computes."""
    if node.op not in _MOVED or node.domain or node.op in ("Pad", "Resize"):
        return ()
    is_pool_with_places = node.op == "MaxPool" and len(node.outputs) > 1
    return () if is_pool_with_places else _MOVED[node.op] or tuple(range(len(node.inputs)))


def _shift_bytes(graph: _Rewriting, source: str, result: str, by: int) -> tuple[Node, ...]:
    """Return nodes that add a number to bytes, which converts between signed and unsigned."""
    wide, more, number = (graph.fresh(f"{result}.{word}") for word in ("wide", "sum", "number"))
    graph.constants[number] = np.asarray(by, np.int32)
    return (
        Node("Cast", "", "", (source,), (wide,), {"to": NUMBERS["i32"]}),
        Node("Add", "", "", (wide, number), (more,), {}),
        Node("Cast", "", "", (more,), (result,), {"to": NUMBERS["u8" if by > 0 else "i8"]}),
    )


def _of_integers(graph: _Rewriting, last: Node) -> tuple[Node, ...]:
    """Return the integer nodes that replace QuantizeLinear and the nodes before it, or ()."""
    name, scale, zero = last.inputs
    step, point = graph.array(scale), graph.array(zero)
    if not _is_byte_of_one_scale(step, point):
        return ()
    limiting: list[Node] = []
    node = graph.makers.get(name)
    while node is not None and graph.readers[name] == 1 and _is_limit(node):
        limiting.append(node)
        name = node.inputs[0] if node.inputs else ""
        node = graph.makers.get(name)
    if node is None or node.domain or graph.readers[name] != 1 or len(node.outputs) != 1:
        return ()
    bounds = _bounds(graph, limiting, step.reshape(-1)[0], point)
    counts, replaced = _REPLACED.get(node.op, ((), None))
    if bounds is None or replaced is None or len(node.inputs) not in counts:
        return ()
    made = replaced(graph, node, scale, zero)
    if made is None:
        return ()
    graph.gone += [node, *limiting]
    low, high = bounds
    if (low, high) == (np.iinfo(point.dtype).min, np.iinfo(point.dtype).max):
        return (replace(made, name=node.name, outputs=last.outputs),)
    whole = graph.fresh(f"{last.outputs[0]}.whole")
    return replace(made, name=node.name, outputs=(whole,)), _clip(graph, last, whole, low, high, point.dtype)


def _in_f32(graph: _Rewriting, node: Node) -> Node | None:
    """Return a product of bytes with a result in f32, or None if the node is no product of dequantised values."""
    counts, replaced = (
        _REPLACED.get(node.op, ((), None)) if node.op in _PRODUCTS and not node.domain else ((), None)
    )
    weights = graph.bytes_of(node.inputs[1]) if replaced is not None and len(node.inputs) in counts else None
    if replaced is None or weights is None or not graph.array(weights.values).size:
        return None
    made = replaced(graph, node, "", "")
    return None if made is None else replace(made, name=node.name, outputs=node.outputs)


def _in_blocks(graph: _Rewriting, node: Node) -> Node | None:
    """Return a product with blocked weights, or None if the node does not multiply dequantised blocks."""
    maker = graph.makers.get(node.inputs[1]) if node.op == "MatMul" and not node.domain else None
    if maker is None or maker.op != "DequantizeLinear" or maker.domain:
        return None
    if any(name and name not in graph.constants for name in maker.inputs[2:3]):
        return None  # the zero point is not known before the call
    codes, scales, points = map(graph.array, (*maker.inputs, "")[:3])
    size, axis, kind = maker.attributes.get("block_size"), maker.attributes.get("axis", 1), codes.dtype.name
    bits = {"int2": 2, "int4": 4, "int8": 8}.get(kind.removeprefix("u"), 0)
    is_blocked = isinstance(size, int) and bits and codes.ndim == 2 and axis in (0, -2) and scales.size
    if not is_blocked or not isinstance(size, int) or size < 1 or size % (8 // bits):
        return None
    (depth, columns), blocks = codes.shape, -(-len(codes) // size)
    if scales.dtype != np.float32 or scales.shape != (blocks, columns) or points.size not in (0, scales.size):
        return None
    offset = 1 << bits - 1 if kind.startswith("i") else 0
    wide = np.zeros((blocks * size, columns), np.uint8)
    wide[:depth] = codes.astype(np.int16) + offset
    point = (points.astype(np.int16) if points.size else np.zeros((blocks, columns), np.int16)) + offset
    rows = np.pad(point.astype(np.uint8).T, ((0, 0), (0, -blocks % (8 // bits))))
    given = {
        "codes": join_bits(wide.T.reshape(columns, blocks, size), bits),
        "scales": scales.T.reshape(-1),
        "points": join_bits(rows, bits),
    }
    names = {graph.fresh(f"{node.inputs[1]}.{word}"): array for word, array in given.items()}
    graph.constants.update(names)
    how = {"K": depth, "N": columns, "bits": bits, "block_size": size}
    return Node("MatMulNBits", RUNTIMES, node.name, (node.inputs[0], *names), node.outputs, how)


def join_bits(numbers: Array, bits: int) -> Array:
    """Return numbers of few bits along the last axis in bytes, the first ones in the lowest bits."""
    parts = numbers.reshape(*numbers.shape[:-1], -1, 8 // bits) << np.arange(0, 8, bits, dtype=np.uint8)
    return np.bitwise_or.reduce(parts, axis=-1)


def _is_limit(node: Node) -> bool:
    """Return whether a node clamps elements: Relu or Clip, or torch's, with limits as attributes."""
    is_of_torch = node.domain == "aten" and len(node.inputs) == 1 and node.op.partition(".")[0] in _LIMITS
    return is_of_torch or (node.op in ("Relu", "Clip") and not node.domain)


def _ends(graph: _Rewriting, node: Node) -> list[float | None] | None:
    """Return the limits of a node (None for a missing one), or None if they are unknown."""
    if node.domain:
        found = [node.attributes.get(name) for name in ("min", "max")]
        return [
            None if end is None else float(end)
            for end in found
            if end is None or isinstance(end, int | float)
        ]
    names = node.inputs[1:]
    if any(name and graph.array(name).size != 1 for name in names) or node.attributes:
        return None
    return (
        [0.0] if node.op == "Relu" else [float(graph.array(n).reshape(-1)[0]) if n else None for n in names]
    )


def _is_byte_of_one_scale(step: Array, point: Array) -> bool:
    """Return whether a scale and a zero point are known, and one number each for all bytes."""
    is_one = step.size == 1 and step.dtype == np.float32 and point.size == 1 and is_byte(point)
    return is_one and bool(np.isfinite(step).all() and (step > 0).all())


def _clip(graph: _Rewriting, last: Node, source: str, low: int, high: int, dtype: np.dtype[Any]) -> Node:
    names = tuple(graph.fresh(f"{last.outputs[0]}.{word}") for word in ("low", "high"))
    for limit, value in zip(names, (low, high), strict=True):
        graph.constants[limit] = np.asarray(value, dtype)
    return Node("Clip", "", last.name, (source, *names), last.outputs, {})


def _look_up_bytes(graph: _Rewriting, last: Node) -> tuple[Node, ...]:
    """Return the nodes that replace elementwise operations on (concatenated) bytes by a table look-up.

    The operations read one value, and known single numbers.
    """
    if not _is_byte_of_one_scale(graph.array(last.inputs[1]), graph.array(last.inputs[2])):
        return ()
    name, chain = last.inputs[0], [last]
    while (node := graph.makers.get(name)) is not None and graph.readers[name] == 1:
        others = [n for n in node.inputs if n and n not in graph.constants]
        is_single = node.op in ELEMENTWISE and not node.domain and len(node.outputs) == len(others) == 1
        if not is_single or any(graph.array(n).shape for n in node.inputs if n and n not in others):
            break
        chain.append(node)
        (name,) = others
    if node is not None and node.op == "Concat" and graph.readers[name] == 1 and not node.domain:
        names = [graph.fresh(f"{part}.bytes") for part in node.inputs]
        parts = [_of_table(graph, x, chain, y) for x, y in zip(node.inputs, names, strict=True)]
        found = [part for part in parts if part is not None]
        if len(found) < len(parts):
            return ()
        graph.gone += [node, *chain[1:]]
        return *found, replace(node, inputs=tuple(names), outputs=last.outputs)
    made = _of_table(graph, name, chain, last.outputs[0])
    if made is None:
        return ()
    graph.gone += chain[1:]
    return (replace(made, name=chain[-1].name),)


def _compose_lookups(graph: _Rewriting, last: Node) -> tuple[Node, ...]:
    """Return the look-up that replaces several conversions of one byte to a float and back, or ().

    Notes what a few make of it: they are computed, unless more follow.
    """
    step, point = graph.array(last.inputs[1]), graph.array(last.inputs[2])
    nodes, leaves = dict[str, Node](), dict[str, _Scaled]()
    if not _is_byte_of_one_scale(step, point) or not _reaches_bytes(graph, last.inputs[0], nodes, leaves):
        return ()
    inner = {x.values: graph.tables[x.values] for x in leaves.values() if x.values in graph.tables}
    roots = {inner[x.values][0] if x.values in inner else x.values for x in leaves.values()}
    if len(roots) != 1:
        return ()
    arrays: dict[str, Array] = {}
    for name, x in leaves.items():
        codes = inner[x.values][1] if x.values in inner else _codes(graph.array(x.zero))
        nodes = {name: replace(graph.makers[name], inputs=(name, x.scale, x.zero)), **nodes}
        arrays[name] = codes
    for name, node in (*nodes.items(), (last.outputs[0], last)):
        found = graph.evaluated(node, arrays)
        if found is None:
            return ()
        arrays[name] = found
    root, table = roots.pop(), arrays[last.outputs[0]]
    steps = (1 if nodes.keys() - leaves else 0) + sum(steps for _, _, steps in inner.values())
    graph.tables[last.outputs[0]] = root, table, steps
    return (_lookup(graph, root, table, last),) if steps >= LOOKUP_STEPS and (nodes.keys() - leaves) else ()


MOST_COMPOSED = 32
"""Nodes between bytes that become one table."""
LOOKUP_STEPS = 3
"""Sums and products of bytes that take as long as a table, on x86-avx512: each is quantised, behind a product."""


def _reaches_bytes(graph: _Rewriting, name: str, nodes: dict[str, Node], leaves: dict[str, _Scaled]) -> bool:
    """Return whether elementwise operations compute a value from bytes of one scale and single numbers.

    Adds the operations in their order, and the bytes by what they stand for.
    """
    node = graph.makers.get(name)
    if name in nodes or name in leaves or graph.array(name).size == 1:
        return True
    if node is None or node.domain or len(node.outputs) != 1 or len(nodes) > MOST_COMPOSED:
        return False
    if (x := graph.bytes_of_one_scale(name)) is not None and x.values not in graph.constants:
        leaves[name] = x
        return True
    is_single = node.op in ELEMENTWISE or (x is not None and graph.array(x.values).size == 1)
    if not is_single or not all(_reaches_bytes(graph, n, nodes, leaves) for n in node.inputs if n):
        return False
    nodes[name] = node
    return True


def _codes(zero: Array) -> Array:
    """Return all 256 bytes of the type that a zero point has."""
    known = np.iinfo(zero.dtype)
    return np.arange(known.min, known.max + 1).astype(known.dtype)


def _lookup(graph: _Rewriting, values: str, table: Array, last: Node) -> Node:
    """Return a table look-up of bytes in place of a quantising node."""
    stored = graph.fresh(f"{last.outputs[0]}.table")
    graph.constants[stored] = table
    root, whole, _ = graph.tables.get(last.outputs[0], (values, table, 0))
    graph.tables[last.outputs[0]] = root, whole, LOOKUP_STEPS
    return Node("Lookup", OWN, last.name, (values, stored), last.outputs, {})


def _of_table(graph: _Rewriting, name: str, chain: Sequence[Node], result: str) -> Node | None:
    """Return the look-up that performs a chain of nodes on bytes, or None. The chain is given backwards."""
    x, maker, last = graph.bytes_of_one_scale(name), graph.makers.get(name), chain[0]
    if x is None or maker is None:
        return None
    codes = _codes(graph.array(x.zero))
    known = np.iinfo(codes.dtype)
    start = next(n for n in chain[-1].inputs if n and n not in graph.constants)
    arrays = {x.values: codes}
    for node, result_of in (maker, start), *((node, node.outputs[0]) for node in reversed(chain)):
        found = graph.evaluated(node, arrays)
        if found is None:
            return None
        arrays[result_of] = found
    table = arrays[last.outputs[0]]
    low, high = int(table.min()), int(table.max())
    made = replace(last, outputs=(result,))
    if table.dtype == codes.dtype and np.array_equal(table, codes.clip(low, high)):
        if (low, high) == (known.min, known.max):
            return Node("Identity", "", last.name, (x.values,), made.outputs, {})
        return _clip(graph, made, x.values, low, high, codes.dtype)
    return _lookup(graph, x.values, table, made)


def _move_to_bytes(graph: _Rewriting, node: Node) -> tuple[Node, ...]:
    """Return the node on bytes, with DequantizeLinear after it, or () if its inputs differ in scale."""
    places = _MOVED[node.op] or range(len(node.inputs))
    of_axis = node.op == "Transpose"
    inputs = list(node.inputs)
    found = [(graph.bytes_of if of_axis else graph.bytes_of_one_scale)(inputs[n]) for n in places]
    values = [value for value in found if value is not None]
    if len(values) < len(found) or not values or not all(_is_same(graph, values[0], v) for v in values):
        return ()
    first, attributes = values[0], dict[str, Attribute]()
    for place, value in zip(places, values, strict=True):
        inputs[place] = value.values
    match node.op:
        case "Transpose" if graph.array(first.scale).size > 1:
            order = node.attributes.get("perm")
            if not isinstance(order, tuple) or first.axis % len(order) not in order:
                return ()
            attributes = {"axis": order.index(first.axis % len(order))}
        case "Pad" if node.attributes.get("mode", "constant") == "constant":
            fill = _fill(graph, node, first)
            if not fill:
                return ()
            inputs[2:3] = [fill]
        case "Resize" if node.attributes.get("mode", "nearest") != "nearest" or (
            node.attributes.get("coordinate_transformation_mode") == "tf_crop_and_resize"
        ):
            return ()
        case "MaxPool" if len(node.outputs) > 1:
            return ()
        case _:
            pass
    names = tuple(name and graph.fresh(f"{name}.bytes") for name in node.outputs)
    moved = replace(node, inputs=tuple(inputs), outputs=names)
    back = tuple(
        Node("DequantizeLinear", "", node.name, (name, first.scale, first.zero), (output,), attributes)
        for name, output in zip(names, node.outputs, strict=True)
        if name
    )
    known = graph.evaluated(moved, {}) if len(names) == 1 else None
    if known is None:
        return moved, *back
    graph.constants[names[0]] = known
    graph.gone.append(node)
    return back


def _is_same(graph: _Rewriting, one: _Scaled, other: _Scaled) -> bool:
    """Return whether two quantised tensors have equal scales and zero points."""
    pairs = (
        (graph.array(one.scale), graph.array(other.scale)),
        (graph.array(one.zero), graph.array(other.zero)),
    )
    return all(a.dtype == b.dtype and np.array_equal(a.reshape(-1), b.reshape(-1)) for a, b in pairs)


def _fill(graph: _Rewriting, node: Node, of: _Scaled) -> str:
    """Return the name of the byte for a Pad's fill, or "" if no byte represents it exactly."""
    name = node.inputs[2] if len(node.inputs) > 2 else ""
    value = graph.array(name) if name else np.zeros((), np.float32)
    scale, zero = (graph.array(n).reshape(-1)[0] for n in (of.scale, of.zero))
    if value.size != 1 or value.dtype != np.float32 or not np.isfinite(value).all():
        return ""
    code = np.rint(value.reshape(-1)[0] / scale)
    known = np.iinfo(zero.dtype)
    if code * scale != value.reshape(-1)[0] or not known.min <= code + int(zero) <= known.max:
        return ""
    made = graph.fresh(f"{node.outputs[0]}.fill")
    graph.constants[made] = np.asarray(code + int(zero)).astype(zero.dtype)
    return made


def _bounds(
    graph: _Rewriting, limiting: Iterable[Node], step: np.float32, point: Array
) -> tuple[int, int] | None:
    """Return the limits to which Relu and Clip restrict the integers of a result, or None if unknown."""
    at = int(point.reshape(-1)[0])
    known = np.iinfo(point.dtype)
    low, high = int(known.min), int(known.max)
    for node in limiting:
        ends = _ends(graph, node)
        if ends is None or any(end is not None and np.isnan(end) for end in ends):
            return None
        with np.errstate(over="ignore"):
            whole = [
                None if e is None else float(np.rint(np.float32(e) / step)) + at for e in (*ends, None, None)
            ]
        if whole[0] is not None and whole[1] is not None and whole[0] > whole[1]:
            return None
        low = low if whole[0] is None else int(min(max(low, whole[0]), high))
        high = high if whole[1] is None else int(max(min(high, whole[1]), low))
    return low, high


# --- operators by name ------------------------------------------------------------------------------------


def _conv(graph: _Rewriting, node: Node, scale: str, zero: str) -> Node | None:
    found = _sums(graph, node, 0, scale)
    if found is None:
        return None
    factors, bias, domain = found
    given = (*_list_scaled(*factors), scale, zero, *([bias] if bias else []))
    return Node("QLinearConv", domain, "", given, (), node.attributes)


def _gemm(graph: _Rewriting, node: Node, scale: str, zero: str) -> Node | None:
    found = _sums(graph, node, 0 if node.attributes.get("transB") else 1, scale)
    if found is None or any(node.attributes.get(n, 1) != 1 for n in ("alpha", "beta")):
        return None
    factors, bias, domain = found
    attributes = {name: value for name, value in node.attributes.items() if name in ("transA", "transB")}
    return Node("QGemm", domain or RUNTIMES, "", (*_list_scaled(*factors), bias, scale, zero), (), attributes)


def _matmul(graph: _Rewriting, node: Node, scale: str, zero: str) -> Node | None:
    found = _sums(graph, node, -1, scale)
    return found and Node("QLinearMatMul", found[2], "", (*_list_scaled(*found[0]), scale, zero), (), {})


def _pointwise(op: str) -> Replaced:
    def make(graph: _Rewriting, node: Node, scale: str, zero: str) -> Node | None:
        one, other = (graph.bytes_of_one_scale(name) for name in node.inputs)
        if one is None or other is None:
            return None
        return Node(op, RUNTIMES, "", (*_list_scaled(one, other), scale, zero), (), {})

    return make


def _average(op: str, *names: str) -> Replaced:
    """Return the rule that replaces an average by the quantised operator `op`."""

    def make(graph: _Rewriting, node: Node, scale: str, zero: str) -> Node | None:
        x, attributes = graph.bytes_of_one_scale(node.inputs[0]), dict(node.attributes)
        dilations = attributes.pop("dilations", ())
        if (
            attributes.pop("noop_with_empty_axes", 0)
            or not isinstance(dilations, tuple)
            or {*dilations} - {1}
        ):
            return None
        if len(node.inputs) > 1 and node.inputs[1]:
            attributes["axes"] = tuple(int(axis) for axis in graph.array(node.inputs[1]))
        if x is None or not attributes.keys() <= {*names} or attributes.get("axes") == ():
            return None
        return Node(op, RUNTIMES, "", (*_list_scaled(x), scale, zero), (), attributes)

    return make


def _list_scaled(*values: _Scaled) -> tuple[str, ...]:
    """Return values as inputs of integer operators: each with its scale and its zero point."""
    return tuple(name for value in values for name in (value.values, value.scale, value.zero))


def _sums(
    graph: _Rewriting, node: Node, axis: int, scale: str
) -> tuple[tuple[_Scaled, _Scaled], str, str] | None:
    """Return both factors of a product, its bias ("": none), and the domain of the operator for them.

    The second factor may have scales along `axis`. A bias is i32, of the scale of the sums, or f32; without a
    `scale` of the result, the first factor's may be computed. None if one of them is not supported, or where
    sums may exceed 32 bits.
    """
    first = graph.bytes_of_one_scale(node.inputs[0]) if scale else graph.bytes_of_any_scale(node.inputs[0])
    second = graph.bytes_of(node.inputs[1])
    if first is None or second is None:
        return None
    weights, scales = graph.array(second.values), graph.array(second.scale).reshape(-1).astype(np.float64)
    if weights.ndim < 2 and (scales.size > 1 or weights.size):
        return None
    if scales.size > 1 and second.axis % weights.ndim != axis % weights.ndim:
        return None
    largest = 0
    if weights.size:
        points = graph.array(second.zero).astype(np.int64).reshape(-1)
        rows = np.abs(np.moveaxis(weights, axis, 0).astype(np.int64)).reshape(weights.shape[axis], -1)
        largest = 512 * (int(rows.sum(axis=1).max()) + int(np.abs(points).max()) * rows.shape[1])
    bias = next((name for name in node.inputs[2:] if name), "")
    if bias and graph.array(bias).dtype == np.float32 and weights.size:
        is_row = graph.array(bias).shape in ((), (weights.shape[axis],))
        return ((first, second), bias, OWN) if is_row and largest < MOST_SUM else None
    domain = "" if scale else OWN
    if bias:
        known = graph.dequantised(bias)
        begun = graph.array(known.values) if known is not None else np.zeros(0)
        unit = graph.array(first.scale).reshape(-1).astype(np.float64)
        if known is None or begun.dtype != np.int32 or graph.array(known.zero).any() or not unit.size:
            return None
        units, expected = graph.array(known.scale).reshape(-1).astype(np.float64), float(unit[0]) * scales
        if units.size not in (1, expected.size) or not np.allclose(
            units, expected, rtol=_SAME_SCALES, atol=0
        ):
            return None
        bias, largest = known.values, largest + int(np.abs(begun.astype(np.int64)).max(initial=0))
    return ((first, second), bias, domain) if largest < MOST_SUM else None


Replaced = Callable[[_Rewriting, Node, str, str], Node | None]

_REPLACED: Mapping[str, tuple[tuple[int, ...], Replaced]] = {
    "Add": ((2,), _pointwise("QLinearAdd")),
    "AveragePool": (
        (1,),
        _average(
            "QLinearAveragePool",
            "auto_pad",
            "ceil_mode",
            "count_include_pad",
            "kernel_shape",
            "pads",
            "strides",
        ),
    ),
    "Conv": ((2, 3), _conv),
    "Gemm": ((2, 3), _gemm),
    "GlobalAveragePool": ((1,), _average("QLinearGlobalAveragePool")),
    "MatMul": ((2,), _matmul),
    "Mul": ((2,), _pointwise("QLinearMul")),
    "ReduceMean": ((1, 2), _average("QLinearReduceMean", "axes", "keepdims")),
}
"""For each operator the allowed numbers of inputs, and the function that makes its integer operator."""
_PRODUCTS = frozenset(("Conv", "Gemm", "MatMul"))
"""Operators whose result may also be in f32."""
_LIMITS = frozenset(("clamp", "clamp_max", "clamp_min", "hardtanh", "relu"))
"""Operations of torch that limit single elements."""

_MOVED: Mapping[str, tuple[int, ...]] = {
    **dict.fromkeys(
        """DepthToSpace Expand Flatten Gather GatherElements GatherND Identity MaxPool Pad ReduceMax ReduceMin Reshape
        Resize ReverseSequence Slice SpaceToDepth Split Squeeze Tile Transpose Unsqueeze""".split(),  # noqa: SIM905 - so many
        (0,),
    ),
    "Concat": (),
    "Where": (1, 2),
}
"""Operators whose results are elements of their inputs, with these inputs; () for all of them."""

_POINTS: Mapping[str, tuple[tuple[tuple[int, int], ...], int | None]] = {
    "ConvInteger": (((0, 2), (1, 3)), None),
    "DequantizeLinear": (((0, 2),), None),
    "MatMulInteger": (((0, 2), (1, 3)), None),
    "QGemm": (((0, 2), (3, 5)), 8),
    "QLinearAdd": (((0, 2), (3, 5)), 7),
    "QLinearAveragePool": (((0, 2),), 4),
    "QLinearConv": (((0, 2), (3, 5)), 7),
    "QLinearGlobalAveragePool": (((0, 2),), 4),
    "QLinearMatMul": (((0, 2), (3, 5)), 7),
    "QLinearMul": (((0, 2), (3, 5)), 7),
    "QLinearReduceMean": (((0, 2),), 4),
    "QuantizeLinear": ((), 2),
}
"""For each operator the places of bytes and of their zero points, and the place of the zero point of its result."""
