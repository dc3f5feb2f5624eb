"""Small quantised networks, with values drawn for the test, as quantisers write them: QDQ, weights per channel.

network = Network(np.int8)
y = network.conv(network.quantised("x", 0.02), 16, 32, 3, relu=True) …
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from isamap.graph.graph import Array


class Network:
    """A network in the making: each method appends nodes, and returns the name of its result."""

    def __init__(
        self, kind: type[np.generic] = np.int8, points: int = 0, seed: int = 0, scale: float = 0.0
    ) -> None:
        """Begin a network whose activations are of a type, with zero points drawn up to `points`.

        All weights have one scale, if it is given; otherwise each channel has one, which is drawn.
        """
        self.scale = scale
        self.kind, self.points, self.drawn = kind, points, np.random.default_rng(seed)
        self.nodes: list[Any] = []
        self.constants: dict[str, Array] = {}
        self.scales: dict[str, float] = {}

    def node(self, operator: str, inputs: list[str], **attributes: Any) -> str:
        name = f"{operator.lower()}{len(self.nodes)}"
        made = import_module("onnx").helper.make_node(operator, inputs, [f"{name}_y"], name, **attributes)
        self.nodes.append(made)
        return f"{name}_y"

    def constant(self, array: object) -> str:
        name = f"k{len(self.constants)}"
        self.constants[name] = np.asarray(array)
        return name

    def quantised(self, x: str, scale: float, *, like: str = "") -> str:
        """Append a quantisation of a value, and what reads it as a number again."""
        point = int(self.drawn.integers(0, self.points + 1))
        by = self.constant(np.float32(scale)), self.constant(self.kind(point))
        y = self.node("DequantizeLinear", [self.node("QuantizeLinear", [x, *by]), *by])
        self.scales[y] = scale
        return y

    def weights(self, shape: tuple[int, ...], scale: float, axis: int) -> tuple[str, Array]:
        """Return drawn weights as numbers, and their scales."""
        scales = (self.drawn.random(shape[axis]) * 0.01 + 0.001).astype(np.float32)
        scales = np.full_like(scales, self.scale) if self.scale else scales
        w = self.constant(self.drawn.integers(-127, 128, shape).astype(np.int8))
        zero = self.constant(np.zeros(shape[axis], np.int8))
        return self.node(
            "DequantizeLinear", [w, self.constant(scales), zero], axis=axis
        ), scales * np.float32(scale)

    def bias(self, scales: Array) -> str:
        b = self.constant(self.drawn.integers(-3000, 3000, scales.size).astype(np.int32))
        zero = self.constant(np.zeros(scales.size, np.int32))
        return self.node("DequantizeLinear", [b, self.constant(scales), zero], axis=0)

    def conv(self, x: str, inputs: int, outputs: int, size: int, **attributes: Any) -> str:
        """Append a convolution with a bias, as large as the image."""
        w, scales = self.weights(
            (outputs, inputs // attributes.get("group", 1), size, size), self.scales[x], 0
        )
        pads = [size // 2] * 4
        return self.node(
            "Conv", [x, w, self.bias(scales)], kernel_shape=[size, size], pads=pads, **attributes
        )

    def product(self, x: str, inputs: int, outputs: int) -> str:
        """Append a product with weights."""
        w, _ = self.weights((inputs, outputs), self.scales[x], 1)
        return self.node("MatMul", [x, w])

    def save(self, path: Path, inputs: Mapping[str, tuple[int, ...]], result: str) -> Path:
        onnx: Any = import_module("onnx")
        helper, float_ = onnx.helper, onnx.TensorProto.FLOAT
        graph = helper.make_graph(
            self.nodes,
            path.stem,
            [helper.make_tensor_value_info(name, float_, shape) for name, shape in inputs.items()],
            [helper.make_tensor_value_info(result, float_, None)],
            [onnx.numpy_helper.from_array(array, name) for name, array in self.constants.items()],
        )
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), path)
        return path


def two_layers(
    path: Path,
    kind: type[np.generic] = np.int8,
    points: int = 0,
    last: str = "Sin",
    scales: tuple[float, float, float] = (0.02, 0.05, 0.0),
) -> Path:
    """Write a convolution with ReLU, a second one, and an operator on its numbers.

    `scales` are those of the input, of both results, and of all weights, 0 for one that is drawn for each channel.
    """
    first, other, own = scales
    net = Network(kind, points, scale=own)
    y = net.node("Relu", [net.conv(net.quantised("x", first), 16, 32, 3)])
    y = net.conv(net.quantised(y, other), 32, 32, 1)
    return net.save(path, {"x": (1, 16, 8, 8)}, net.node(last, [net.quantised(y, other)]))


def residual(path: Path, kind: type[np.generic] = np.int8, points: int = 0) -> Path:
    """Write two convolutions with a residual sum, a pool, and a mean of each channel."""
    net = Network(kind, points)
    first = net.quantised(net.node("Relu", [net.conv(net.quantised("x", 0.02), 16, 32, 3)]), 0.05)
    second = net.quantised(net.conv(first, 32, 32, 1), 0.05)
    total = net.quantised(net.node("Add", [first, second]), 0.08)
    y = net.node("MaxPool", [total], kernel_shape=[2, 2], strides=[2, 2])
    y = net.node("GlobalAveragePool", [net.quantised(y, 0.08)])
    return net.save(path, {"x": (1, 16, 8, 8)}, net.quantised(y, 0.05))


def inverted_residual(path: Path, kind: type[np.generic] = np.int8, points: int = 0) -> Path:
    """Write a block of MobileNetV2: filters that widen, filters of single channels, filters that narrow, a sum."""
    net = Network(kind, points)
    first = net.quantised("x", 0.02)
    low, high = net.constant(np.float32(0)), net.constant(np.float32(6))
    y = net.quantised(net.node("Clip", [net.conv(first, 32, 64, 1), low, high]), 0.05)
    y = net.quantised(net.node("Clip", [net.conv(y, 64, 64, 3, group=64), low, high]), 0.05)
    y = net.quantised(net.conv(y, 64, 32, 1), 0.05)
    total = net.quantised(net.node("Add", [first, y]), 0.08)
    return net.save(path, {"x": (1, 32, 4, 8)}, total)
