"""Small models of ONNX with random weights, each of one kind of layer, for benchmarks/graphs.py."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


class Layers:
    """A model in the making: nodes are added one behind the other; the last result is the model's."""

    def __init__(self, name: str, *shape: int) -> None:
        self.name, self.shape = name, shape
        self.random = np.random.default_rng(0)
        self.nodes: list[Any] = []
        self.weights: list[Any] = []

    def add(self, op: str, *inputs: str, **attributes: Any) -> str:
        """Return a node; the name of its result."""
        result = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, list(inputs), [result], name=f"{op}_{result}", **attributes))
        return result

    def constant(self, *shape: int, value: Any = None) -> str:
        """Random numbers of such sizes, or a value, by its name."""
        name = f"w{len(self.weights)}"
        scale = (shape[-2] if len(shape) > 1 else 4) ** -0.5
        array = self.random.normal(0, scale, shape).astype(np.float32) if value is None else np.asarray(value)
        self.weights.append(numpy_helper.from_array(array, name))
        return name

    def number(self, value: float) -> str:
        """Return a constant of one element."""
        return self.constant(value=np.float32(value))

    def dense(self, x: str, inputs: int, outputs: int) -> str:
        """Return a product with a bias."""
        return self.add("Add", self.add("MatMul", x, self.constant(inputs, outputs)), self.constant(outputs))

    def relu(self, x: str) -> str:
        """max(x, 0)."""
        return self.add("Relu", x)

    def silu(self, x: str) -> str:
        """x · sigmoid(x)."""
        return self.add("Mul", x, self.add("Sigmoid", x))

    def gelu(self, x: str) -> str:
        """By tanh, as exporters write it."""
        cube = self.add("Mul", self.add("Mul", x, x), x)
        inner = self.add("Add", x, self.add("Mul", cube, self.number(0.044715)))
        root = self.add("Tanh", self.add("Mul", inner, self.number(0.7978845608)))
        return self.add("Mul", self.add("Mul", x, self.number(0.5)), self.add("Add", root, self.number(1.0)))

    def norm(self, x: str, size: int) -> str:
        """Return the norm of rows, as exporters wrote it before there was one operator for it."""
        mean = self.add("ReduceMean", x, axes=[-1], keepdims=1)
        away = self.add("Sub", x, mean)
        square = self.add("ReduceMean", self.add("Mul", away, away), axes=[-1], keepdims=1)
        root = self.add("Sqrt", self.add("Add", square, self.number(1e-5)))
        scaled = self.add("Mul", self.add("Div", away, root), self.constant(size))
        return self.add("Add", scaled, self.constant(size))

    def attention(self, x: str, rows: int, size: int) -> str:
        """Return one head."""
        q, k, v = (self.dense(x, size, size) for _ in range(3))
        scores = self.add("MatMul", q, self.add("Transpose", k, perm=[1, 0]))
        masked = self.add("Add", self.add("Mul", scores, self.number(size**-0.5)), self.constant(rows, rows))
        return self.dense(self.add("MatMul", self.add("Softmax", masked, axis=-1), v), size, size)

    def conv(self, x: str, inputs: int, outputs: int, window: int = 3, groups: int = 1) -> str:
        """Return a convolution of stride 1 with a bias, of the same sizes."""
        filters = self.constant(outputs, inputs // groups, window, window)
        pads, sizes = [window // 2] * 4, [window] * 2
        return self.add(
            "Conv", x, filters, self.constant(outputs), kernel_shape=sizes, pads=pads, group=groups
        )

    def done(self, x: str) -> onnx.ModelProto:
        """Return the model with this result."""
        given = helper.make_tensor_value_info("x", TensorProto.FLOAT, self.shape)
        nodes = [*self.nodes, helper.make_node("Identity", [x], ["y"])]
        graph = helper.make_graph(
            nodes,
            self.name,
            [given],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
            self.weights,
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        return onnx.shape_inference.infer_shapes(model)


def _mlp(act: str) -> onnx.ModelProto:
    net = Layers(f"mlp_{act}", 64, 256)
    x = "x"
    for _ in range(3):
        y = net.dense(x, 256, 256)
        x = {"silu": net.silu, "gelu": net.gelu, "relu": net.relu}[act](y)
    return net.done(x)


def _norms() -> onnx.ModelProto:
    net = Layers("residual_norms", 256, 512)
    x = "x"
    for _ in range(3):
        x = net.norm(net.add("Add", x, net.silu(x)), 512)
    return net.done(x)


def _attention(rows: int) -> onnx.ModelProto:
    net = Layers(f"attention_{rows}", rows, 128)
    return net.done(net.add("Add", "x", net.attention("x", rows, 128)))


def _transformer() -> onnx.ModelProto:
    net = Layers("transformer", 64, 128)
    x = net.add("Add", "x", net.attention(net.norm("x", 128), 64, 128))
    y = net.dense(net.gelu(net.dense(net.norm(x, 128), 128, 512)), 512, 128)
    return net.done(net.add("Add", x, y))


def _gated(size: int) -> onnx.ModelProto:
    net = Layers(f"swiglu_{size}", 64, size)
    gate, up = net.dense("x", size, 2 * size), net.dense("x", size, 2 * size)
    return net.done(net.add("Add", "x", net.dense(net.add("Mul", net.silu(gate), up), 2 * size, size)))


def _chain(count: int, rows: int) -> onnx.ModelProto:
    net = Layers(f"chain_{count}_{rows}", rows, 1024)
    x = "x"
    for n in range(count):
        x = net.add(
            ("Mul", "Add", "Sub")[n % 3], net.add(("Tanh", "Abs", "Neg")[n % 3], x), net.constant(1024)
        )
    return net.done(x)


def _shared(rows: int) -> onnx.ModelProto:
    """Values that several operations read: what the greedy rule leaves in memory."""
    net = Layers(f"shared_{rows}", rows, 1024)
    x = "x"
    for _ in range(4):
        y = net.add("Add", net.add("Mul", x, net.constant(1024)), net.constant(1024))
        x = net.add("Max", net.add("Mul", y, net.add("Abs", y)), net.add("Sub", y, x))
    return net.done(x)


def _lstm(steps: int) -> onnx.ModelProto:
    """Return an LSTM, unrolled: gates from one product, split."""
    net, size = Layers(f"lstm_{steps}", 16, 128), 128
    weights, hidden, cell = net.constant(size, 4 * size), "x", "x"
    bias = net.constant(4 * size)
    for _ in range(steps):
        gates = net.add("Add", net.add("MatMul", hidden, weights), bias)
        parts = [
            net.add(
                "Slice",
                gates,
                *(net.constant(value=np.array([v], np.int64)) for v in (n * size, (n + 1) * size, 1)),
            )
            for n in range(4)
        ]
        i, f, o = (net.add("Sigmoid", part) for part in parts[:3])
        cell = net.add("Add", net.add("Mul", f, cell), net.add("Mul", i, net.add("Tanh", parts[3])))
        hidden = net.add("Mul", o, net.add("Tanh", cell))
    return net.done(hidden)


def _convs(act: str, groups: int) -> onnx.ModelProto:
    net = Layers(f"conv_{act}_{groups}", 1, 32, 28, 28)
    x = "x"
    for _ in range(2):
        y = net.conv(x, 32, 32, 3, groups)
        y = net.silu(y) if act == "silu" else net.add("Relu", y)
        x = net.add("Add", x, net.conv(y, 32, 32, 1))
    return net.done(x)


def _excited() -> onnx.ModelProto:
    """Return a squeeze and excitation block: a mean of each channel scales it."""
    net = Layers("squeeze_excite", 1, 64, 28, 28)
    y = net.silu(net.conv("x", 64, 64, 1))
    s = net.silu(net.conv(net.add("GlobalAveragePool", y), 64, 16, 1))
    scale = net.add("Sigmoid", net.conv(s, 16, 64, 1))
    return net.done(net.add("Add", "x", net.add("Mul", y, scale)))


def _softmaxes() -> onnx.ModelProto:
    net = Layers("scaled_softmax", 256, 512)
    x = "x"
    for _ in range(2):
        y = net.add("Add", net.add("Mul", x, net.number(0.125)), net.constant(512))
        x = net.add("Mul", net.add("Softmax", y, axis=-1), x)
    return net.done(x)


def _gru(steps: int) -> onnx.ModelProto:
    """Return a gated recurrent unit, unrolled."""
    net, size = Layers(f"gru_{steps}", 16, 128), 128
    weights = [(net.constant(size, size), net.constant(size)) for _ in range(6)]

    def dense(x: str, number: int) -> str:
        return net.add("Add", net.add("MatMul", x, weights[number][0]), weights[number][1])

    hidden = "x"
    for _ in range(steps):
        reset, update = (
            net.add("Sigmoid", net.add("Add", dense("x", n), dense(hidden, n + 1))) for n in (0, 2)
        )
        new = net.add("Tanh", net.add("Add", dense("x", 4), net.add("Mul", reset, dense(hidden, 5))))
        kept = net.add("Mul", update, net.add("Sub", hidden, new))
        hidden = net.add("Add", new, kept)
    return net.done(hidden)


def _rms() -> onnx.ModelProto:
    """Rows by the roots of their mean squares, and a gated product behind."""
    net = Layers("rms_gated", 128, 256)
    x = "x"
    for _ in range(2):
        square = net.add("ReduceMean", net.add("Mul", x, x), axes=[-1], keepdims=1)
        root = net.add("Sqrt", net.add("Add", square, net.number(1e-5)))
        y = net.add("Mul", net.add("Div", x, root), net.constant(256))
        x = net.add("Add", x, net.add("Mul", net.silu(y), net.add("Tanh", y)))
    return net.done(x)


def _rotary() -> onnx.ModelProto:
    """Pairs of a row's halves, turned by angles."""
    net, rows, half = Layers("rotary", 256, 256), 256, 128
    parts = [
        net.add("Slice", "x", *(net.constant(value=np.array([v], np.int64)) for v in (at, at + half, 1)))
        for at in (0, half)
    ]
    cos, sin = net.constant(rows, half), net.constant(rows, half)
    first = net.add("Sub", net.add("Mul", parts[0], cos), net.add("Mul", parts[1], sin))
    second = net.add("Add", net.add("Mul", parts[1], cos), net.add("Mul", parts[0], sin))
    return net.done(net.add("Concat", first, second, axis=1))


def _batch_norms() -> onnx.ModelProto:
    """Batch norms written out, with activations between them."""
    net = Layers("batch_norms", 1, 64, 28, 28)
    x = "x"
    for _ in range(4):
        y = net.add("Mul", net.add("Sub", x, net.constant(64, 1, 1)), net.constant(64, 1, 1))
        x = net.add("Add", x, net.silu(net.add("Add", y, net.constant(64, 1, 1))))
    return net.done(x)


def _mixer() -> onnx.ModelProto:
    """Return an MLP over rows, and one over columns."""
    net = Layers("mixer", 64, 128)
    turned = net.add("Transpose", net.norm("x", 128), perm=[1, 0])
    mixed = net.dense(net.gelu(net.dense(turned, 64, 128)), 128, 64)
    x = net.add("Add", "x", net.add("Transpose", mixed, perm=[1, 0]))
    y = net.dense(net.gelu(net.dense(net.norm(x, 128), 128, 256)), 256, 128)
    return net.done(net.add("Add", x, y))


def cart_pole(steps: int, carts: int = 2048) -> onnx.ModelProto:
    """Carts with poles, so many steps of Euler's; the force is a function of the state."""
    net = Layers(f"cart_pole_{steps}", 4, carts)
    bounds = [[net.constant(value=np.array([v], np.int64)) for v in (n, n + 1, 0)] for n in range(4)]
    x, speed, angle, turn = (net.add("Slice", "x", *bound) for bound in bounds)

    def scaled(value: str, factor: float) -> str:
        return net.add("Mul", value, net.number(factor))

    for _ in range(steps):
        force = scaled(net.add("Tanh", net.add("Add", angle, turn)), 10.0)
        cos, sin = net.add("Cos", angle), net.add("Sin", angle)
        pushed = net.add("Add", force, net.add("Mul", scaled(net.add("Mul", turn, turn), 0.05), sin))
        pushed = scaled(pushed, 1 / 1.1)
        above = net.add("Sub", scaled(sin, 9.8), net.add("Mul", cos, pushed))
        below = net.add("Sub", net.number(4 / 3), scaled(net.add("Mul", cos, cos), 0.1 / 1.1))
        spin = net.add("Div", scaled(above, 2.0), below)
        push = net.add("Sub", pushed, scaled(net.add("Mul", spin, cos), 0.05 / 1.1))
        x, angle = net.add("Add", x, scaled(speed, 0.02)), net.add("Add", angle, scaled(turn, 0.02))
        speed, turn = net.add("Add", speed, scaled(push, 0.02)), net.add("Add", turn, scaled(spin, 0.02))
    return net.done(net.add("Concat", x, speed, angle, turn, axis=0))


def _towers() -> onnx.ModelProto:
    """Return two encoders of the same rows, side by side, and their product."""
    net = Layers("towers", 64, 256)
    ends: list[str] = []
    for _ in range(2):
        x = "x"
        for _ in range(3):
            x = net.gelu(net.dense(x, 256, 256))
        ends.append(net.norm(x, 256))
    return net.done(net.add("MatMul", ends[0], net.add("Transpose", ends[1], perm=[1, 0])))


def _inverted() -> onnx.ModelProto:
    """Return an inverted residual: wider, by channel, narrower."""
    net = Layers("inverted_residual", 1, 24, 28, 28)
    y = net.add("Clip", net.conv("x", 24, 144, 1), net.number(0.0), net.number(6.0))
    y = net.add("Clip", net.conv(y, 144, 144, 3, 144), net.number(0.0), net.number(6.0))
    return net.done(net.add("Add", "x", net.conv(y, 144, 24, 1)))


NETWORKS: dict[str, Callable[[], onnx.ModelProto]] = {
    "mlp_relu": lambda: _mlp("relu"),
    "mlp_silu": lambda: _mlp("silu"),
    "mlp_gelu": lambda: _mlp("gelu"),
    "residual_norms": _norms,
    "attention_64": lambda: _attention(64),
    "attention_256": lambda: _attention(256),
    "transformer": _transformer,
    "swiglu_128": lambda: _gated(128),
    "swiglu_256": lambda: _gated(256),
    "chain_6_16": lambda: _chain(6, 16),
    "chain_6_1024": lambda: _chain(6, 1024),
    "chain_12_128": lambda: _chain(12, 128),
    "shared_32": lambda: _shared(32),
    "shared_1024": lambda: _shared(1024),
    "lstm_2": lambda: _lstm(2),
    "lstm_8": lambda: _lstm(8),
    "conv_relu_1": lambda: _convs("relu", 1),
    "conv_silu_1": lambda: _convs("silu", 1),
    "conv_relu_32": lambda: _convs("relu", 32),
    "squeeze_excite": _excited,
    "scaled_softmax": _softmaxes,
    "gru_2": lambda: _gru(2),
    "rms_gated": _rms,
    "rotary": _rotary,
    "batch_norms": _batch_norms,
    "mixer": _mixer,
    "cart_pole_2": lambda: cart_pole(2),
    "inverted_residual": _inverted,
    "towers": _towers,
}
