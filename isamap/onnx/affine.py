"""What is done to each channel of a convolution's result, folded into its filters and its bias.

    c = Conv(x, w, b); d = Sub(c, mean); e = Mul(d, rate)     e = Conv(x, w * rate, (b - mean) * rate)

Factors and summands are known before the model runs, f32 or f64, and nothing else reads what lies between:
filters of fewer digits would be rounded once more. So norms of batches cost nothing when the model runs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np

from isamap.onnx.graph import Array, Graph, Node

_WIDE = (np.dtype(np.float32), np.dtype(np.float64))
Step = tuple[Array, Array]
"""A factor and a summand of each channel, in f64."""


def with_folded_channels(graph: Graph) -> tuple[Graph, tuple[Node, ...]]:
    """The graph with fewer nodes, and those that are gone; filters that have changed are new constants."""
    readers = Counter(_read(graph))
    constants: dict[str, Array] = dict(graph.constants)
    nodes: list[Node | None] = []
    gone: list[Node] = []
    makers: dict[str, int] = {}
    for node in graph.nodes:
        image = next((name for name in node.inputs if name in makers and readers[name] == 1), "")
        made = _folded(nodes[makers[image]], node, image, constants) if image else None
        if made is not None:
            nodes[makers[image]] = None
            gone.append(node)
        nodes.append(made or node)
        if (
            (made or node).op == "Conv"
            and not node.domain
            and len(node.outputs) == 1
            and len(node.inputs) > 1
        ):
            makers[node.outputs[0]] = len(nodes) - 1
    left = tuple(node for node in nodes if node is not None)
    return replace(graph, nodes=left, constants=constants), tuple(gone)


def _read(graph: Graph) -> Iterator[str]:
    """What a graph, and the graphs inside, read and give back."""
    yield from (port.name for port in graph.outputs)
    for node in graph.nodes:
        yield from node.inputs
        for value in node.attributes.values():
            if isinstance(value, Graph):
                yield from _read(value)


def _folded(maker: Node | None, node: Node, image: str, constants: dict[str, Array]) -> Node | None:
    """A convolution that gives what a node does of another's result; None where no filters do."""
    assert maker is not None, "only what is there makes a value"
    x, weights, *biases = maker.inputs
    if f"{node.outputs[0] if node.outputs else ''}.filters" in constants:
        return None
    bias = biases[0] if biases and biases[0] else ""
    if weights not in constants or (bias and bias not in constants):
        return None
    filters = constants[weights]
    step = _step(node, image, constants, filters) if filters.dtype in _WIDE and filters.ndim > 2 else None
    if step is None:
        return None
    factor, summand = step
    start = constants[bias].astype(np.float64) if bias else np.zeros(len(filters))
    result = node.outputs[0]
    names = f"{result}.filters", f"{result}.bias"
    scaled = filters * factor.reshape(-1, *(1 for _ in filters.shape[1:]))
    for name, array in zip(names, (scaled, start * factor + summand), strict=True):
        constants[name] = array.astype(filters.dtype)
    return replace(maker, inputs=(x, *names), outputs=(result,))


def _step(node: Node, image: str, constants: Mapping[str, Array], filters: Array) -> Step | None:
    """What a node does to each channel of an image; None where it is more than a factor and a summand."""
    others = [name for name in node.inputs if name != image]
    if node.domain or len(node.outputs) != 1 or not all(name in constants for name in others):
        return None
    if node.op == "BatchNormalization" and len(others) == 4 and node.inputs[0] == image:
        if node.attributes.get("training_mode") or node.attributes.get("spatial", 1) != 1:
            return None
        gain, shift, mean, variance = (constants[name].astype(np.float64) for name in others)
        eps = node.attributes.get("epsilon", 1e-5)
        if not isinstance(eps, float) or any(
            a.shape != filters.shape[:1] for a in (gain, shift, mean, variance)
        ):
            return None
        factor = gain / np.sqrt(variance + eps)
        return factor, shift - mean * factor
    if node.op not in ("Add", "Sub", "Mul", "Div") or len(others) != 1:
        return None
    of_channel = _by_channel(constants[others[0]], filters)
    if of_channel is None:
        return None
    one, none = np.ones(len(filters)), np.zeros(len(filters))
    is_first = node.inputs[0] == image
    match node.op:
        case "Add":
            return one, of_channel
        case "Sub":
            return (one, -of_channel) if is_first else (-one, of_channel)
        case "Mul":
            return of_channel, none
        case _:
            return (1 / of_channel, none) if is_first and of_channel.all() else None


def _by_channel(array: Array, filters: Array) -> Array | None:
    """A number for each channel, of an array that is repeated over images."""
    sizes = (1,) * (filters.ndim - array.ndim) + array.shape
    if array.dtype != filters.dtype or len(sizes) != filters.ndim:
        return None
    if sizes[0] != 1 or sizes[1] not in (1, len(filters)) or any(size != 1 for size in sizes[2:]):
        return None
    return np.broadcast_to(array.astype(np.float64).reshape(-1), (len(filters),))
