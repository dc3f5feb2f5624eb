"""Operators of ONNX whose results depend on comparisons: of NaN, and of zeros of both signs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx", reason="models of ONNX need the package onnx: pip install 'isamap[onnx]'")

from onnx_models import Described, evaluated, interpreted, make

from isamap.graph.graph import Array
from isamap.graph.operators.elementwise import ELEMENTWISE

N = np.nan
X = np.array(
    [[1, N, 3, -2], [N, 5, 5, 0], [7, 7, 2, N], [N, N, N, N], [-1, -3, 0, 2], [np.inf, N, -np.inf, 1]],
    np.float32,
)
Z = np.array(
    [[N, 1, 0, 2], [0, N, 1, N], [7, 2, 7, 1], [1, N, 2, 3], [0, -3, N, 1], [1, 2, N, N]], np.float32
)
IMAGE = np.concatenate([X, X[::-1], Z]).reshape(1, 3, 6, 4).copy()
WINDOW = {"kernel_shape": [2, 3], "strides": [2, 1], "pads": [1, 0, 1, 1]}


def last(find: Callable[[Array, int], Array], x: Array, axis: int) -> Array:
    """Return the last of equal places instead of the first."""
    return x.shape[axis] - 1 - find(np.flip(x, axis), axis)


def one_at(places: Array, size: int) -> Array:
    return (places[:, None] == np.arange(size)).astype(np.float32)


def windows(x: Array, fill: float) -> tuple[Array, Array]:
    """Return the elements of each window of WINDOW, and where in the image each of them lies."""
    places = np.arange(x.size).reshape(x.shape)
    pads = ((0, 0), (0, 0), (1, 1), (0, 1))
    both = (np.pad(x, pads, constant_values=fill), np.pad(places, pads, constant_values=-1))
    views = (np.lib.stride_tricks.sliding_window_view(a, (2, 3), (2, 3))[:, :, ::2] for a in both)
    values, at = (view.reshape(*view.shape[:4], 6) for view in views)
    return values, at


def place_of_maximum() -> Array:
    values, at = windows(IMAGE, -np.inf)
    return np.take_along_axis(at, np.argmax(values, -1)[..., None], -1)[..., 0]


def clipped(low: float, high: float) -> Array:
    return np.minimum(np.maximum(X, np.float32(low)), np.float32(high))


OF_NAN: dict[str, tuple[Described, dict[str, Any], Array]] = {
    "ArgMax": ([("ArgMax", ["x"], ["y"], {"axis": 1, "keepdims": 0})], {}, np.argmax(X, 1)),
    "ArgMin": ([("ArgMin", ["x"], ["y"], {"axis": 0, "keepdims": 0})], {}, np.argmin(X, 0)),
    "ArgMax, the last": (
        [("ArgMax", ["x"], ["y"], {"axis": 1, "keepdims": 0, "select_last_index": 1})],
        {},
        last(np.argmax, X, 1),
    ),
    "ArgMin, the last": (
        [("ArgMin", ["x"], ["y"], {"axis": 0, "keepdims": 0, "select_last_index": 1})],
        {},
        last(np.argmin, X, 0),
    ),
    "Hardmax": ([("Hardmax", ["x"], ["y"], {"axis": 1})], {}, one_at(np.argmax(X, 1), 4)),
    "ReduceMax": ([("ReduceMax", ["x"], ["y"], {"keepdims": 0})], {}, np.asarray(np.max(X))),
    "ReduceMin": ([("ReduceMin", ["x"], ["y"], {"keepdims": 0})], {}, np.asarray(np.min(X))),
    "Max": ([("Max", ["x", "z", "x"], ["y"], {})], {"z": Z}, np.maximum(X, Z)),
    "Min": ([("Min", ["z", "x"], ["y"], {})], {"z": Z}, np.minimum(X, Z)),
    "MaxPool": ([("MaxPool", ["i"], ["y"], WINDOW)], {}, np.max(windows(IMAGE, -np.inf)[0], -1)),
    "MaxPool, places": ([("MaxPool", ["i"], ["m", "y"], WINDOW)], {}, place_of_maximum()),
    "MaxPool of f16, places": (
        [("Cast", ["i"], ["j"], {"to": 10}), ("MaxPool", ["j"], ["m", "y"], WINDOW)],
        {},
        place_of_maximum(),
    ),
    "GlobalMaxPool": ([("GlobalMaxPool", ["i"], ["y"], {})], {}, np.max(IMAGE, (2, 3), keepdims=True)),
    "Relu": ([("Relu", ["x"], ["y"], {})], {}, np.maximum(X, 0)),
    "LeakyRelu": ([("LeakyRelu", ["x"], ["y"], {"alpha": 0.5})], {}, np.where(X < 0, X * 0.5, X)),
    "Less": ([("Less", ["x", "z"], ["y"], {})], {"z": Z}, X < Z),
    "GreaterOrEqual": ([("GreaterOrEqual", ["x", "z"], ["y"], {})], {"z": Z}, X >= Z),
    "Sign": ([("Sign", ["x"], ["y"], {})], {}, np.sign(X)),
    **{
        f"Clip from {low} to {high}": (
            [("Clip", ["x", "l", "h"], ["y"], {})],
            {"l": low, "h": high},
            clipped(low, high),
        )
        for low, high in ((0, 6), (2, 1), (-1, 0), (N, 1), (0, N))
    },
}
"""Nodes, further operands, and the result: a maximum or minimum of elements with a NaN among them is NaN.

ONNX's evaluator takes a NaN of a window of MaxPool by where it lies; torch takes it wherever it lies.
"""


@pytest.mark.parametrize("known", [True, False], ids=["constants", "inputs"])
def test_nan_is_the_maximum_and_the_minimum_and_is_found_first(known: bool) -> None:
    wrong: list[str] = []
    for name, (nodes, more, expected) in OF_NAN.items():
        read = {operand for node in nodes for operand in node[1]}
        inputs: dict[str, Array] = {k: v for k, v in {"x": X, "i": IMAGE}.items() if k in read}
        if not known:
            inputs |= {key: np.asarray(value, np.float32) for key, value in more.items()}
        (found,) = interpreted(nodes, inputs, ["y"], **(more if known else {}))
        if not np.array_equal(found, expected.astype(found.dtype), equal_nan=found.dtype.kind == "f"):
            wrong.append(f"{name}: {found.tolist()}, not {expected.tolist()}")
    assert not wrong


ZEROS = np.array([-0.0, 0.0, -0.0, -0.0], np.float32)
TWO = ("Add", "Sub", "Mul", "Div", "Pow", "PRelu")
OF_OTHERS = {
    "And", "BitShift", "BitwiseAnd", "BitwiseNot", "BitwiseOr", "BitwiseXor", "Cast", "CastLike", "Equal",
    "Greater", "GreaterOrEqual", "IsInf", "IsNaN", "Less", "LessOrEqual", "Not", "Or", "Where", "Xor",
}  # fmt: skip
OF_EITHER = {"Max", "Mean", "Min", "Mod", "Sum"}
"""Of two zeros of different signs, the standard does not say which is larger, nor the sign of their sum."""


def signs(x: Array) -> list[bool]:
    """Return which elements are negative; NaN has no sign."""
    return (np.signbit(x) & ~np.isnan(x)).tolist()


def test_zeros_keep_their_sign_where_the_standard_says_so() -> None:
    wrong: list[str] = []
    constants: dict[str, Array] = {
        "s": np.array([2, -3, -1, 0.5], np.float32),
        "l": np.asarray(0, np.float32),
        "h": np.asarray(6, np.float32),
    }
    for op in sorted(ELEMENTWISE.keys() - OF_OTHERS - OF_EITHER):
        names = ["x", *(["s"] if op in TWO else ["l", "h"] if op == "Clip" else [])]
        known = {name: constants[name] for name in names[1:]}
        nodes: Described = [(op, names, ["y"], {})]
        (found,) = interpreted(nodes, {"x": ZEROS}, ["y"], **known)
        model = make(nodes, {"x": ZEROS}, ["y"], known, 24)
        with np.errstate(all="ignore"):  # poles, and numbers that have no logarithm
            expected = evaluated(model, {"x": ZEROS})[0]
        if op in (
            "Relu",
            "PRelu",
        ):  # of which the evaluator makes a maximum, and a product: onnxruntime does not
            expected = ZEROS
        if signs(found) != signs(expected):
            wrong.append(f"{op}: {found}, not {expected}")
    assert not wrong


@pytest.mark.parametrize(("low", "high"), [(0, 6), (-1, 0), (0, 0), (-0.0, 1)])
@pytest.mark.parametrize("known", [True, False], ids=["constants", "inputs"])
def test_a_zero_that_equals_its_bound_keeps_its_sign(low: float, high: float, known: bool) -> None:
    bounds = {"l": np.asarray(low, np.float32), "h": np.asarray(high, np.float32)}
    nodes: Described = [("Clip", ["x", "l", "h"], ["y"], {})]
    more, constants = ({}, bounds) if known else (bounds, {})
    (found,) = interpreted(nodes, {"x": ZEROS, **more}, ["y"], **constants)
    assert signs(found) == signs(ZEROS)
