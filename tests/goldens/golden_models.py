"""Ten small ONNX models with random weights: the models among the goldens (outputs.py)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from onnx_models import Described, make

Array = np.ndarray[Any, Any]
Built = tuple[Described, Mapping[str, Array], Mapping[str, Array]]
"""Nodes, inputs, and constants of a model whose output is `y`."""


def write_models(folder: Path) -> None:
    """Write each model to FOLDER as NAME.onnx."""
    for name, build in MODELS.items():
        nodes, inputs, constants = build(np.random.default_rng(len(name)))
        (folder / f"{name}.onnx").write_bytes(make(nodes, inputs, ["y"], constants).SerializeToString())


def _f32(rng: np.random.Generator, *shape: int) -> Array:
    return (rng.standard_normal(shape) / np.sqrt(shape[-1])).astype(np.float32)


def _dense(rng: np.random.Generator) -> Built:
    nodes: Described = [
        ("Gemm", ["x", "w0", "b0"], ["h"], {"transB": 1}),
        ("Relu", ["h"], ["r"], {}),
        ("Gemm", ["r", "w1", "b1"], ["y"], {"transB": 1}),
    ]
    constants = {"w0": _f32(rng, 48, 32), "b0": _f32(rng, 48), "w1": _f32(rng, 10, 48), "b1": _f32(rng, 10)}
    return nodes, {"x": _f32(rng, 3, 32)}, constants


def _convolutions(rng: np.random.Generator) -> Built:
    nodes: Described = [
        ("Conv", ["x", "w0", "b0"], ["c"], {"pads": [1, 1, 1, 1]}),
        ("Relu", ["c"], ["r"], {}),
        ("MaxPool", ["r"], ["p"], {"kernel_shape": [2, 2], "strides": [2, 2]}),
        ("Conv", ["p", "w1"], ["d"], {"strides": [2, 2]}),
        ("GlobalAveragePool", ["d"], ["g"], {}),
        ("Flatten", ["g"], ["y"], {}),
    ]
    constants = {"w0": _f32(rng, 8, 3, 3, 3), "b0": _f32(rng, 8), "w1": _f32(rng, 16, 8, 1, 1)}
    return nodes, {"x": _f32(rng, 1, 3, 14, 14)}, constants


def _residual(rng: np.random.Generator) -> Built:
    nodes: Described = [
        ("Conv", ["x", "w0"], ["c"], {"pads": [1, 1, 1, 1]}),
        ("BatchNormalization", ["c", "s", "b", "m", "v"], ["n"], {}),
        ("Add", ["n", "x"], ["a"], {}),
        ("Relu", ["a"], ["y"], {}),
    ]
    constants = {
        "w0": _f32(rng, 8, 8, 3, 3),
        "s": _f32(rng, 8),
        "b": _f32(rng, 8),
        "m": _f32(rng, 8),
        "v": _f32(rng, 8) ** 2 + np.asarray(0.5, np.float32),
    }
    return nodes, {"x": _f32(rng, 1, 8, 9, 9)}, constants


def _separable(rng: np.random.Generator) -> Built:
    nodes: Described = [
        ("Conv", ["x", "w0"], ["c"], {"pads": [1, 1, 1, 1], "group": 8}),
        ("Clip", ["c", "low", "high"], ["r"], {}),
        ("Conv", ["r", "w1"], ["y"], {}),
    ]
    constants = {
        "w0": _f32(rng, 8, 1, 3, 3),
        "w1": _f32(rng, 12, 8, 1, 1),
        "low": np.asarray(0, np.float32),
        "high": np.asarray(6, np.float32),
    }
    return nodes, {"x": _f32(rng, 1, 8, 10, 10)}, constants


def _attention(rng: np.random.Generator) -> Built:
    nodes: Described = [
        ("MatMul", ["x", "wq"], ["q"], {}),
        ("MatMul", ["x", "wk"], ["k"], {}),
        ("MatMul", ["x", "wv"], ["v"], {}),
        ("Transpose", ["k"], ["kt"], {"perm": [0, 2, 1]}),
        ("MatMul", ["q", "kt"], ["s"], {}),
        ("Softmax", ["s"], ["p"], {"axis": -1}),
        ("MatMul", ["p", "v"], ["y"], {}),
    ]
    return nodes, {"x": _f32(rng, 2, 9, 16)}, {name: _f32(rng, 16, 16) for name in ("wq", "wk", "wv")}


def _normalised(rng: np.random.Generator) -> Built:
    nodes: Described = [
        ("LayerNormalization", ["x", "s", "b"], ["n"], {"axis": -1}),
        ("MatMul", ["n", "w"], ["m"], {}),
        ("Gelu", ["m"], ["g"], {}),
        ("Add", ["g", "x"], ["y"], {}),
    ]
    return nodes, {"x": _f32(rng, 5, 24)}, {"s": _f32(rng, 24), "b": _f32(rng, 24), "w": _f32(rng, 24, 24)}


def _recurrent(rng: np.random.Generator) -> Built:
    nodes: Described = [
        ("LSTM", ["x", "w", "r"], ["h", "", ""], {"hidden_size": 8}),
        ("Squeeze", ["h", "axis"], ["y"], {}),
    ]
    constants = {"w": _f32(rng, 1, 32, 6), "r": _f32(rng, 1, 32, 8), "axis": np.asarray([1], np.int64)}
    return nodes, {"x": _f32(rng, 4, 2, 6)}, constants


def _gated(rng: np.random.Generator) -> Built:
    nodes: Described = [
        ("GRU", ["x", "w", "r"], ["", "h"], {"hidden_size": 8, "linear_before_reset": 1}),
        ("Squeeze", ["h", "axis"], ["f"], {}),
        ("Gemm", ["f", "v"], ["y"], {}),
    ]
    constants = {
        "w": _f32(rng, 1, 24, 6),
        "r": _f32(rng, 1, 24, 8),
        "v": _f32(rng, 8, 3),
        "axis": np.asarray([0], np.int64),
    }
    return nodes, {"x": _f32(rng, 4, 2, 6)}, constants


def _quantised(rng: np.random.Generator) -> Built:
    nodes: Described = [
        ("QuantizeLinear", ["x", "sx", "zx"], ["q"], {}),
        ("QLinearMatMul", ["q", "sx", "zx", "w", "sw", "zw", "sy", "zy"], ["p"], {}),
        ("DequantizeLinear", ["p", "sy", "zy"], ["y"], {}),
    ]
    constants = {
        "sx": np.asarray(0.02, np.float32),
        "zx": np.asarray(128, np.uint8),
        "w": rng.integers(-100, 100, (32, 24)).astype(np.int8),
        "sw": np.asarray(0.01, np.float32),
        "zw": np.asarray(0, np.int8),
        "sy": np.asarray(0.05, np.float32),
        "zy": np.asarray(120, np.uint8),
    }
    return nodes, {"x": _f32(rng, 5, 32)}, constants


def _reshaped(rng: np.random.Generator) -> Built:
    nodes: Described = [
        ("Concat", ["x", "z"], ["c"], {"axis": 1}),
        ("Transpose", ["c"], ["t"], {"perm": [0, 2, 1]}),
        ("Slice", ["t", "start", "stop", "axis"], ["s"], {}),
        ("ReduceMean", ["s", "last"], ["m"], {}),
        ("Sub", ["s", "m"], ["d"], {}),
        ("Tanh", ["d"], ["y"], {}),
    ]
    constants = {
        "start": np.asarray([1], np.int64),
        "stop": np.asarray([7], np.int64),
        "axis": np.asarray([1], np.int64),
        "last": np.asarray([2], np.int64),
    }
    return nodes, {"x": _f32(rng, 2, 3, 9), "z": _f32(rng, 2, 5, 9)}, constants


MODELS: Mapping[str, Callable[[np.random.Generator], Built]] = {
    "dense": _dense,
    "convolutions": _convolutions,
    "residual": _residual,
    "separable": _separable,
    "attention": _attention,
    "normalised": _normalised,
    "recurrent": _recurrent,
    "gated": _gated,
    "quantised": _quantised,
    "reshaped": _reshaped,
}
