"""Replace DequantizeLinear → operator → QuantizeLinear by one operator of integers.

    x8 → DequantizeLinear → Conv → Relu → QuantizeLinear → y8        x8 → QLinearConv → y8

The operator computes the same as the three nodes, without rounding in between. It multiplies bytes, for which many
machines have instructions, and its sums are exact. Nodes stay as they are where an intermediate value has a second
reader, or where the pattern differs. A new operator needs a row of `_REPLACED`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from isamap.graph.graph import Array, Graph, Node, names_read

RUNTIMES = "com.microsoft"
"""The domain of operators that ONNX lacks, and runtimes share."""
LEAST_OPSET = 13
"""Earlier versions have no scales along an axis, and some of their operators do not accept bytes."""
MOST_SUM = 2**31
"""The sums of an operator of integers stay below it."""
_SAME_SCALES = 1e-6
"""The allowed relative difference of a bias's scale from the product of its factors' scales, which are
rounded."""


@dataclass(frozen=True, slots=True)
class _Scaled:
    """Bytes with what they stand for, by names: `values` less `zero`, times `scale`."""

    values: str
    scale: str
    zero: str
    axis: int


class _Rewriting:
    """A graph while it is rewritten: the node that makes each value, and how many read it."""

    def __init__(self, graph: Graph) -> None:
        self.makers = {name: node for node in graph.nodes for name in node.outputs}
        self.readers = Counter(names_read(graph))
        self.constants: dict[str, Array] = dict(graph.constants)
        self.gone: list[Node] = []
        self._names = {*self.makers, *self.readers, *self.constants, *(port.name for port in graph.inputs)}

    def fresh(self, name: str) -> str:
        """Return a name like this one that no value of the graph has."""
        while name in self._names:
            name += "."
        self._names.add(name)
        return name

    def array(self, name: str) -> Array:
        """Return the constant of this name, or an empty array if there is none."""
        return self.constants.get(name, np.zeros(0))

    def dequantised(self, name: str) -> _Scaled | None:
        """Return the integers from which DequantizeLinear computes a value; None unless scales are constants."""
        node = self.makers.get(name)
        if node is None or node.op != "DequantizeLinear" or node.domain or len(node.inputs) != 3:
            return None
        axis, scales = node.attributes.get("axis", 1), self.array(node.inputs[1])
        if node.attributes.get("block_size") or not isinstance(axis, int) or scales.dtype != np.float32:
            return None
        is_known = scales.ndim < 2 and scales.size and self.array(node.inputs[2]).size == scales.size
        is_known = is_known and np.isfinite(scales).all() and (scales > 0).all()
        return _Scaled(*node.inputs, axis) if is_known else None

    def bytes_of(self, name: str) -> _Scaled | None:
        """Return the bytes that a value stands for; None where it is not made of bytes."""
        found = self.dequantised(name)
        return found if found is not None and is_byte(self.array(found.zero)) else None

    def bytes_of_one_scale(self, name: str) -> _Scaled | None:
        """Return the bytes that a value stands for by one scale."""
        found = self.bytes_of(name)
        return found if found is not None and self.array(found.scale).size == 1 else None


def is_byte(array: Array) -> bool:
    """Return whether an array is of integers of eight bits."""
    return array.dtype.kind in "iu" and array.dtype.itemsize == 1


def with_integer_operators(graph: Graph) -> tuple[Graph, tuple[Node, ...]]:
    """Return the graph with operators of integers, and the nodes that are part of one now."""
    rewriting = _Rewriting(graph)
    nodes: list[Node] = []
    for node in graph.nodes:
        is_last = node.op == "QuantizeLinear" and not node.domain and len(node.inputs) == 3
        nodes += (_of_integers(rewriting, node) if is_last else ()) or (node,)
    gone = {id(node): node for node in rewriting.gone}
    left = [node for node in nodes if id(node) not in gone]
    read = set(names_read(replace(graph, nodes=tuple(left))))
    gone |= {
        id(node): node
        for node in left
        if node.op == "DequantizeLinear" and not node.domain and not read.intersection(node.outputs)
    }
    left = [node for node in left if id(node) not in gone]
    return replace(graph, nodes=tuple(left), constants=rewriting.constants), tuple(gone.values())


def _of_integers(graph: _Rewriting, last: Node) -> tuple[Node, ...]:
    """Return the nodes that replace QuantizeLinear and what it quantises; none where they are of another form."""
    name, scale, zero = last.inputs
    step, point = graph.array(scale), graph.array(zero)
    if step.size != 1 or step.dtype != np.float32 or point.size != 1 or not is_byte(point):
        return ()
    if not (np.isfinite(step).all() and (step > 0).all()):
        return ()
    limiting: list[Node] = []
    node = graph.makers.get(name)
    while node is not None and graph.readers[name] == 1 and node.op in ("Relu", "Clip") and not node.domain:
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
    whole, *names = (graph.fresh(f"{last.outputs[0]}.{word}") for word in ("whole", "low", "high"))
    for limit, value in zip(names, bounds, strict=True):
        graph.constants[limit] = np.asarray(value, point.dtype)
    clip = Node("Clip", "", last.name, (whole, *names), last.outputs, {})
    return replace(made, name=node.name, outputs=(whole,)), clip


def _bounds(
    graph: _Rewriting, limiting: Iterable[Node], step: np.float32, point: Array
) -> tuple[int, int] | None:
    """Return the integers between which Relu and Clip leave a result; None where their limits are not known."""
    at = int(point.reshape(-1)[0])
    known = np.iinfo(point.dtype)
    low, high = int(known.min), int(known.max)
    for node in limiting:
        names = node.inputs[1:]
        if any(name and graph.array(name).size != 1 for name in names) or node.attributes:
            return None
        ends = [float(graph.array(name).reshape(-1)[0]) if name else None for name in names]
        ends = [0.0] if node.op == "Relu" else ends
        if any(end is not None and np.isnan(end) for end in ends):
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


def _moved(graph: _Rewriting, node: Node, scale: str, zero: str) -> Node | None:
    """Return the same operator of integers; None unless scale and zero point are equal before and after it."""
    x = graph.bytes_of_one_scale(node.inputs[0])
    if x is None or graph.array(x.zero).dtype != graph.array(zero).dtype:
        return None
    is_same = all(
        np.array_equal(graph.array(one).reshape(-1), graph.array(other).reshape(-1))
        for one, other in ((x.scale, scale), (x.zero, zero))
    )
    return replace(node, inputs=(x.values, *node.inputs[1:])) if is_same else None


def _conv(graph: _Rewriting, node: Node, scale: str, zero: str) -> Node | None:
    factors, bias = _sums(graph, node, 0)
    if factors is None or bias is None:
        return None
    return Node("QLinearConv", "", "", (*_listed(*factors), scale, zero, *bias), (), node.attributes)


def _gemm(graph: _Rewriting, node: Node, scale: str, zero: str) -> Node | None:
    factors, bias = _sums(graph, node, 0 if node.attributes.get("transB") else 1)
    if factors is None or bias is None or any(node.attributes.get(n, 1) != 1 for n in ("alpha", "beta")):
        return None
    attributes = {name: value for name, value in node.attributes.items() if name in ("transA", "transB")}
    return Node("QGemm", RUNTIMES, "", (*_listed(*factors), *(bias or ("",)), scale, zero), (), attributes)


def _matmul(graph: _Rewriting, node: Node, scale: str, zero: str) -> Node | None:
    factors, _ = _sums(graph, node, -1)
    if factors is None:
        return None
    return Node("QLinearMatMul", "", "", (*_listed(*factors), scale, zero), (), {})


def _pointwise(op: str) -> Replaced:
    def made(graph: _Rewriting, node: Node, scale: str, zero: str) -> Node | None:
        one, other = (graph.bytes_of_one_scale(name) for name in node.inputs)
        if one is None or other is None:
            return None
        return Node(op, RUNTIMES, "", (*_listed(one, other), scale, zero), (), {})

    return made


def _average(graph: _Rewriting, node: Node, scale: str, zero: str) -> Node | None:
    x = graph.bytes_of_one_scale(node.inputs[0])
    if x is None:
        return None
    return Node("QLinearGlobalAveragePool", RUNTIMES, "", (*_listed(x), scale, zero), (), {})


def _listed(*values: _Scaled) -> tuple[str, ...]:
    """Return values as operators of integers take them: each with its scale and its zero point."""
    return tuple(name for value in values for name in (value.values, value.scale, value.zero))


def _sums(
    graph: _Rewriting, node: Node, axis: int
) -> tuple[tuple[_Scaled, _Scaled] | None, tuple[str, ...] | None]:
    """Return both factors of a product and its bias, which has the scale of the sums; () stands for no bias.

    The second factor may have scales along `axis`. The factors are None if they are not supported, or if their
    sums may exceed 32 bits. The bias is None if it is not supported.
    """
    first, second = graph.bytes_of_one_scale(node.inputs[0]), graph.bytes_of(node.inputs[1])
    if first is None or second is None:
        return None, None
    weights, scales = graph.array(second.values), graph.array(second.scale).reshape(-1).astype(np.float64)
    if weights.ndim < 2 and (scales.size > 1 or weights.size):
        return None, None
    if scales.size > 1 and second.axis % weights.ndim != axis % weights.ndim:
        return None, None
    largest = 0
    if weights.size:
        points = graph.array(second.zero).astype(np.int64).reshape(-1)
        rows = np.abs(np.moveaxis(weights, axis, 0).astype(np.int64)).reshape(weights.shape[axis], -1)
        largest = int(rows.sum(axis=1).max()) + int(np.abs(points).max()) * rows.shape[1]
    names = [name for name in node.inputs[2:] if name]
    if not names:
        return ((first, second) if 512 * largest < MOST_SUM else None), ()
    bias = graph.dequantised(names[0])
    begun = graph.array(bias.values) if bias is not None else np.zeros(0)
    if bias is None or begun.dtype != np.int32 or graph.array(bias.zero).any():
        return (first, second), None
    units = graph.array(bias.scale).reshape(-1).astype(np.float64)
    expected = float(graph.array(first.scale).reshape(-1)[0]) * scales
    if units.size not in (1, expected.size) or not np.allclose(units, expected, rtol=_SAME_SCALES, atol=0):
        return (first, second), None
    largest = 512 * largest + int(np.abs(begun.astype(np.int64)).max(initial=0))
    return ((first, second) if largest < MOST_SUM else None), (bias.values,)


Replaced = Callable[[_Rewriting, Node, str, str], Node | None]

_REPLACED: Mapping[str, tuple[tuple[int, ...], Replaced]] = {
    "Add": ((2,), _pointwise("QLinearAdd")),
    "Conv": ((2, 3), _conv),
    "Flatten": ((1,), _moved),
    "Gemm": ((2, 3), _gemm),
    "GlobalAveragePool": ((1,), _average),
    "MatMul": ((2,), _matmul),
    "MaxPool": ((1,), _moved),
    "Mul": ((2,), _pointwise("QLinearMul")),
    "Reshape": ((2,), _moved),
    "Squeeze": ((1, 2), _moved),
    "Transpose": ((1,), _moved),
    "Unsqueeze": ((2,), _moved),
}
"""For each operator the allowed numbers of inputs, and the function that makes its integer operator."""
