"""DequantizeLinear, an operator and QuantizeLinear are one operator of integers, and compute what ONNX says.

Scales are powers of two, so that ONNX's evaluator rounds only where QuantizeLinear does, ties included.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx", reason="models of ONNX need the package onnx: pip install 'isamap[onnx]'")

from onnx_models import evaluated, imported, make

from isamap.cli import main
from isamap.driver.pipeline import compile_kernel
from isamap.driver.request import Request
from isamap.graph.graph import Array
from isamap.onnx import compile_model
from isamap.onnx.onnx_models import OnnxReference
from isamap.source import Source

U8, S8 = np.uint8, np.int8
Nodes = list[tuple[str, Sequence[str], Sequence[str], Mapping[str, Any]]]


class Written:
    """A model in the making: values by name, each as bytes between two pairs of nodes."""

    def __init__(self, dtype: Any = U8) -> None:
        self.rng = np.random.default_rng(5)
        self.dtype = dtype
        self.nodes: Nodes = []
        self.inputs: dict[str, Array] = {}
        self.constants: dict[str, Array] = {}

    def scales(self, name: str, exponent: Any, zero: int | Sequence[int], dtype: Any) -> list[str]:
        names = [f"{name}.scale", f"{name}.zero"]
        self.constants[names[0]] = np.float32(2) ** np.asarray(exponent, np.float32)
        self.constants[names[1]] = np.broadcast_to(np.asarray(zero, dtype), np.shape(exponent)).copy()
        return names

    def given(self, name: str, shape: Sequence[int], exponent: int = -3, zero: int = 121) -> str:
        """Add an input of bytes, and return what they stand for."""
        low = 0 if self.dtype is U8 else -128
        self.inputs[name] = self.rng.integers(low, low + 256, shape).astype(self.dtype)
        return self.dequantised(
            name, self.scales(name, exponent, zero - (0 if self.dtype is U8 else 128), self.dtype)
        )

    def dequantised(self, name: str, scales: Sequence[str], **attributes: int) -> str:
        self.nodes.append(("DequantizeLinear", [name, *scales], [f"{name}.real"], attributes))
        return f"{name}.real"

    def weights(self, name: str, shape: Sequence[int], axis: int | None = 0, zero: int = 0) -> str:
        """Add known weights with a scale for each place along an axis, or one of all."""
        self.constants[name] = self.rng.integers(-127, 128, shape).astype(S8)
        exponent = -6 if axis is None else self.rng.integers(-8, -4, shape[axis])
        scales = self.scales(name, exponent, zero, S8)
        return self.dequantised(name, scales, **({} if axis is None else {"axis": axis}))

    def bias(self, name: str, of: str, image: str) -> str:
        """Add a bias in the unit of the sums."""
        unit = self.constants[f"{of}.scale"] * self.constants[f"{image}.scale"]
        self.constants[name] = self.rng.integers(-3000, 3000, unit.shape).astype(np.int32)
        self.constants[f"{name}.scale"] = unit
        self.constants[f"{name}.zero"] = np.zeros(unit.shape, np.int32)
        return self.dequantised(name, [f"{name}.scale", f"{name}.zero"], axis=0)

    def add(self, op: str, *inputs: str, **attributes: Any) -> str:
        made = f"t{len(self.nodes)}"
        self.nodes.append((op, inputs, [made], attributes))
        return made

    def quantised(
        self, value: str, name: str, exponent: int, zero: int = 7, scales: Sequence[str] = ()
    ) -> str:
        """Add what makes bytes of a value, and return what they stand for."""
        scales = scales or self.scales(name, exponent, zero - (0 if self.dtype is U8 else 128), self.dtype)
        self.nodes.append(("QuantizeLinear", [value, *scales], [name], {}))
        return self.dequantised(name, scales)


def conv(w: Written, *, bias: bool = True, zero: int = 0, axis: int | None = 0, **attributes: Any) -> None:
    groups, (rows, columns) = attributes.get("group", 1), attributes.pop("window", (3, 3))
    x = w.given("x", (2, 4, 7, 6))
    f = w.weights("w", (8, 4 // groups, rows, columns), axis, zero)
    more = [w.bias("b", "w", "x")] if bias else []
    w.quantised(w.add("Conv", x, f, *more, **attributes), "y", 1)


def chain(w: Written) -> None:
    """Two convolutions, the second of which reads beyond the edges of the first one's result, and a sum."""
    x = w.given("x", (1, 3, 6, 6))
    first = w.add("Relu", w.add("Conv", x, w.weights("w", (8, 3, 1, 1)), w.bias("b", "w", "x")))
    h = w.quantised(first, "h", 0, 3)
    second = w.add("Conv", h, w.weights("v", (8, 8, 3, 3)), pads=[1, 1, 1, 1])
    z = w.quantised(second, "z", 3, 130)
    s = w.quantised(w.add("Add", h, z), "s", 2, 12)
    p = w.quantised(w.add("GlobalAveragePool", s), "p", 1, 9)
    flat = w.quantised(w.add("Flatten", p), "f", 1, scales=["p.scale", "p.zero"])
    w.quantised(w.add("Gemm", flat, w.weights("g", (5, 8)), w.bias("c", "g", "p"), transB=1), "y", 0, 100)


def clipped(w: Written, low: float, high: float) -> None:
    x = w.given("x", (1, 3, 4, 4))
    for name, value in (("low", low), ("high", high)):
        w.constants[name] = np.asarray(value, np.float32)
    w.quantised(w.add("Clip", w.add("Conv", x, w.weights("w", (2, 3, 1, 1))), "low", "high"), "y", 0, 20)


def pooled(w: Written) -> None:
    x = w.given("x", (1, 3, 6, 6))
    y = w.add("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2], pads=[1, 0, 0, 1])
    w.quantised(w.add("Transpose", w.quantised(y, "p", 0, scales=["x.scale", "x.zero"]), perm=[0, 2, 3, 1]), "y", 0,
                scales=["x.scale", "x.zero"])  # fmt: skip


def products(w: Written) -> None:
    a, b = w.given("a", (2, 3, 6)), w.given("b", (2, 6, 5), -4, 100)
    w.quantised(
        w.add("Mul", w.quantised(w.add("MatMul", a, b), "m", 3, 50), w.given("c", (5,), -5, 77)), "y", 4, 128
    )


def same(w: Written, value: str, name: str) -> str:
    """Quantise a value by the scale of `x`."""
    return w.quantised(value, name, 0, scales=["x.scale", "x.zero"])


def sized(w: Written, **arrays: Any) -> None:
    w.constants |= {name: np.asarray(array) for name, array in arrays.items()}


def joined(w: Written) -> None:
    """Bytes of one scale are joined as they are; of several, each is looked up."""
    x = w.given("x", (1, 3, 4, 4))
    one = same(w, w.add("Concat", x, w.given("v", (1, 1, 4, 4), zero=121), axis=1), "one")
    other = w.add("Concat", one, w.given("z", (1, 2, 4, 4), -4, 90), axis=1)
    w.quantised(w.add("Relu", other), "y", -3, 60)


def moves(w: Written) -> None:
    """Nothing quantises what lies between: elements move as bytes all the same."""
    sized(w, starts=[1, 5], ends=[3, 0], axes=[1, 3], steps=[1, -2], pads=[0, 0, 1, 2, 0, 0, 0, 1],
    fill=np.float32(2.5),
          whole=[0, 0, 1, 1, 0, 0, 1, 0], rows=[1, 0, -1], zoom=np.asarray([1, 1, 2, 2], np.float32), two=[1,
          1], axis=[0],
          chosen=np.asarray([[[True]], [[False]]]))  # fmt: skip
    x = w.given("x", (1, 4, 5, 6))
    cut = w.add("Slice", x, "starts", "ends", "axes", "steps")
    wide = w.add("Pad", w.add("Pad", cut, "pads", "fill"), "whole", mode="reflect")
    large = w.add("Resize", w.add("Gather", wide, "rows", axis=2), "", "zoom", mode="nearest")
    first = f"t{len(w.nodes)}"
    w.nodes.append(("Split", [large, "two"], [first, f"{first}.b"], {"axis": 1}))
    part = w.add("Where", "chosen", first, w.add("Transpose", f"{first}.b", perm=[0, 1, 2, 3]))
    w.quantised(
        w.add("Tanh", w.add("Squeeze", w.add("MaxPool", part, kernel_shape=[2, 2]), "axis")), "y", -6, 100
    )


def single(
    w: Written, op: str, *more: float, exponent: int = -5, zero: int = 100, **attributes: float
) -> None:
    """An operator of one value, and of numbers, between bytes of two scales."""
    x = w.given("x", (3, 7, 5), -4, 140)
    names = [f"c{n}" for n in range(len(more))]
    sized(w, **{name: np.float32(number) for name, number in zip(names, more, strict=True)})
    w.quantised(w.add(op, x, *names, **attributes), "y", exponent, zero)


def several(w: Written) -> None:
    sized(w, three=np.float32(3), six=np.float32(6), low=np.float32(0), high=np.float32(6))
    x = w.given("x", (2, 3, 5), -3, 120)
    limited = w.add("Clip", w.add("Add", x, "three"), "low", "high")
    w.quantised(w.add("Div", w.add("Mul", limited, "three"), "six"), "y", -6, 3)


def composed(w: Written) -> None:
    """A hard swish in four steps, each between bytes, of which the first is read twice: a function of one byte."""
    sized(w, three=np.asarray(96, w.dtype), low=np.float32(0), high=np.float32(6), six=np.float32(6))
    three = w.dequantised("three", w.scales("three", -5, 0, w.dtype))
    x = w.given("x", (2, 3, 5), -3, 120)
    moved = same(w, w.add("Mul", x, three), "moved")
    gate = w.quantised(w.add("Clip", w.add("Add", moved, three), "low", "high"), "gate", -5, 128)
    w.quantised(w.add("Div", w.quantised(w.add("Mul", moved, gate), "wide", -1, 60), "six"), "y", -3, 20)


def averages(w: Written) -> None:
    """Means of 6 and of 28 elements, where halves come out exactly."""
    x = w.given("x", (1, 3, 7, 4))
    one = w.add("AveragePool", x, kernel_shape=[3, 2], pads=[1, 1, 1, 0], strides=[2, 1])
    other = w.add(
        "AveragePool", same(w, one, "one"), kernel_shape=[2, 3], pads=[0, 1, 1, 1], count_include_pad=1
    )
    sized(w, axes=[2, -1])
    parts = [
        same(w, w.add("ReduceMean", x, "axes", keepdims=1), "whole"),
        same(w, w.add("ReduceMean", same(w, other, "other"), "axes"), "mean"),
        same(w, w.add("GlobalAveragePool", x), "global"),
    ]
    same(w, w.add("Concat", *parts, axis=1), "y")


def turned_weights(w: Written) -> None:
    """Filters that are known are turned when the model is imported, with their scales."""
    x = w.given("x", (3, 6))
    turned = w.add("Transpose", w.weights("w", (5, 6), 0), perm=[1, 0])
    w.quantised(w.add("MatMul", x, turned), "y", 1, 100)


MODELS: dict[str, Callable[[Written], None]] = {
    "joined": joined,
    "moves": moves,
    "averages": averages,
    "composed": composed,
    "several": several,
    "turned weights": turned_weights,
    "LeakyRelu": lambda w: single(w, "LeakyRelu", alpha=0.25),
    "Sigmoid": lambda w: single(w, "Sigmoid", exponent=-8, zero=0),
    "HardSwish": lambda w: single(w, "HardSwish"),
    "Relu of the same scale": lambda w: single(w, "Relu", exponent=-4, zero=140),
    "Clip of another scale": lambda w: single(w, "Clip", -1.5, 3.0),
    "conv": lambda w: conv(w, pads=[1, 1, 1, 1]),
    "strided": lambda w: conv(w, bias=False, strides=[2, 2], pads=[0, 1, 1, 0]),
    "depthwise": lambda w: conv(w, group=4, pads=[1, 1, 1, 1]),
    "one scale, weights with a zero point": lambda w: conv(w, axis=None, zero=3, bias=False),
    "pointwise": lambda w: conv(w, window=(1, 1)),
    "chain": chain,
    "clipped on both sides": lambda w: clipped(w, -7.0, 31.5),
    "clipped by infinity": lambda w: clipped(w, -3.0, np.inf),
    "pooled": pooled,
    "products": products,
}


@pytest.mark.exhaustive(fast=28)
@pytest.mark.parametrize("dtype", [U8, S8], ids=["u8", "s8"])
@pytest.mark.parametrize("machine", ["generic-c", "x86-avx2"])
@pytest.mark.parametrize("name", MODELS)
def test_integers_are_what_onnx_says(name: str, machine: str, dtype: Any) -> None:
    w = Written(dtype)
    MODELS[name](w)
    model = make(w.nodes, w.inputs, ["y"], w.constants)
    found = imported(model)
    assert not {t.node.op for t in found.taken if t.where == "kernel"} & {
        "DequantizeLinear",
        "QuantizeLinear",
        "Relu",
    }
    computed = compile_model(found, machine, jobs=1, heuristic="greedy")(w.inputs)["y"]
    (expected,) = evaluated(model, w.inputs)
    assert len(np.unique(expected)) > 3
    np.testing.assert_array_equal(computed, expected)


@pytest.mark.parametrize("name", MODELS)
def test_signed_bytes_in_the_place_of_unsigned_ones_compute_the_same(name: str) -> None:
    w = Written()
    MODELS[name](w)
    model = make(w.nodes, w.inputs, ["y"], w.constants)
    found = imported(model, signed=True)
    computed = compile_model(found, "generic-c", jobs=1, heuristic="greedy")(w.inputs)["y"]
    (expected,) = evaluated(model, w.inputs)
    assert computed.dtype == expected.dtype == U8
    np.testing.assert_array_equal(computed, expected)


@pytest.mark.parametrize("opset", [13, 17])
@pytest.mark.parametrize("name", ["Sigmoid", "several", "chain", "pooled", "joined"])
def test_earlier_versions_of_onnx_are_read_as_later_ones(tmp_path: Path, name: str, opset: int) -> None:
    """ONNX's evaluator has DequantizeLinear since 19, and exporters write 17."""
    w = Written()
    MODELS[name](w)
    earlier, later = (make(w.nodes, w.inputs, ["y"], w.constants, version) for version in (opset, 21))
    one, other = imported(earlier), imported(later)
    assert [(t.node.op, t.where) for t in one.taken] == [(t.node.op, t.where) for t in other.taken]
    assert one.whole().kernels == other.whole().kernels
    (tmp_path / "made.onnx").write_bytes(earlier.SerializeToString())
    tensors = {port.passed.tensor: w.inputs[port.name] for port in one.whole().inputs}
    (result,) = (port.passed.tensor for port in one.whole().outputs)
    (expected,) = evaluated(later, w.inputs)
    tensors[result] = np.zeros_like(expected)
    judged = OnnxReference(tmp_path / "made.onnx", {}).evaluate(w.inputs, one.trace, tensors)
    np.testing.assert_array_equal(judged[result].values.reshape(expected.shape), expected)


@pytest.mark.parametrize(
    ("name", "expected"), [("composed", ["Lookup"]), ("single", ["QLinearMul", "QLinearAdd"])]
)
def test_many_steps_of_one_byte_are_a_table_and_a_few_are_computed(name: str, expected: list[str]) -> None:
    w = Written()
    if name == "composed":
        composed(w)
    else:
        w.constants["c"] = np.asarray(40, U8)
        c = w.dequantised("c", w.scales("c", -5, 0, U8))
        x = w.given("x", (2, 3, 5), -3, 120)
        w.quantised(w.add("Add", w.quantised(w.add("Mul", x, c), "m", -2, 90), c), "y", -2, 80)
    found = imported(make(w.nodes, w.inputs, ["y"], w.constants))
    assert [t.node.op for t in found.taken if t.where == "kernel"] == expected


def test_products_that_nothing_quantises_are_sums_of_bytes() -> None:
    """A convolution with a bias in i32, and products without one and with one in f32."""
    w = Written()
    image = w.given("x", (1, 4, 5, 5))
    filters = w.weights("w", (6, 4, 3, 3))
    sums = w.add("Conv", image, filters, w.bias("b", "w", "x"))
    rows = w.add("MatMul", w.given("a", (2, 3, 8)), w.weights("m", (8, 5), 1))
    w.constants["c"] = (w.rng.integers(-64, 64, 7) / 32).astype(np.float32)
    last = w.add("Gemm", w.given("d", (3, 6)), w.weights("g", (7, 6)), "c", transB=1)
    model = make(w.nodes, w.inputs, [sums, rows, last], w.constants)
    found = imported(model)
    products = [t.node.op for t in found.taken if t.where == "kernel"]
    assert products == ["QLinearConv", "QLinearMatMul", "QGemm"]
    computed = compile_model(found, "generic-c", jobs=1, heuristic="greedy")(w.inputs)
    for name, expected in zip((sums, rows, last), evaluated(model, w.inputs), strict=True):
        assert computed[name].dtype == np.float32
        np.testing.assert_array_equal(computed[name], expected)


@pytest.mark.parametrize(
    ("dtype", "depth", "size", "has_points"),
    [("int4", 48, 16, True), ("uint4", 40, 32, False), ("uint4", 48, 16, True), ("int8", 64, 32, False)],
)
def test_blocks_of_rows_stay_bytes_in_a_product(dtype: str, depth: int, size: int, has_points: bool) -> None:
    rng = np.random.default_rng(11)
    kind = np.dtype(getattr(pytest.importorskip("ml_dtypes"), dtype, dtype))
    low = (-8 if dtype == "int4" else 0) if dtype != "int8" else -128
    codes, points = (
        rng.integers(low, low + (256 if dtype == "int8" else 16), (rows, 66)).astype(np.int16).astype(kind)
        for rows in (depth, -(-depth // size))
    )
    constants = {"w": codes, "s": np.abs(rng.standard_normal(points.shape)).astype(np.float32), "z": points}
    given = ["w", "s", "z"] if has_points else ["w", "s"]
    nodes: Nodes = [
        ("DequantizeLinear", given, ["d"], {"axis": 0, "block_size": size}),
        ("MatMul", ["x", "d"], ["y"], {}),
    ]
    inputs = {"x": rng.standard_normal((2, depth)).astype(np.float32)}
    model = make(nodes, inputs, ["y"], {name: constants[name] for name in given})
    found = imported(model)
    assert [t.node.op for t in found.taken if t.where == "kernel"] == ["MatMulNBits"]
    assert all(
        array.dtype == U8 or array.size <= 2 * points.size for array in found.whole().constants.values()
    )
    (computed,) = compile_model(found, "generic-c", jobs=1, heuristic="greedy")(inputs).values()
    (expected,) = evaluated(model, inputs)
    np.testing.assert_allclose(computed, expected, rtol=0, atol=1e-5 * np.abs(expected).max())


def test_zero_points_of_blocks_that_are_inputs_are_not_dropped() -> None:
    rng = np.random.default_rng(12)
    scales = np.abs(rng.standard_normal((2, 5))).astype(np.float32)
    nodes: Nodes = [
        ("DequantizeLinear", ["w", "s", "z"], ["d"], {"axis": 0, "block_size": 16}),
        ("MatMul", ["x", "d"], ["y"], {}),
    ]
    inputs = {
        "x": rng.standard_normal((2, 32)).astype(np.float32),
        "z": rng.integers(1, 255, (2, 5)).astype(U8),
    }
    model = make(nodes, inputs, ["y"], {"w": rng.integers(0, 256, (32, 5)).astype(U8), "s": scales})
    (computed,) = compile_model(imported(model), "generic-c", jobs=1, heuristic="greedy")(inputs).values()
    (expected,) = evaluated(model, inputs)
    np.testing.assert_allclose(computed, expected, rtol=0, atol=1e-5 * np.abs(expected).max())


def test_bytes_that_others_read_stay_unsigned() -> None:
    w = Written()
    x = w.given("x", (1, 3, 4, 4))
    sized(w, shape=[1, 48])
    first = w.quantised(w.add("Relu", w.add("Conv", x, w.weights("w", (8, 3, 1, 1)))), "first", 0, 3)
    w.nodes.append(("Cast", ["first"], ["number"], {"to": 6}))
    w.nodes.append(("Reshape", ["x", "shape"], ["flat"], {}))
    w.nodes.append(("Reshape", ["flat", "sizes"], ["again"], {}))
    sized(w, sizes=[1, 3, 4, 4])
    w.nodes.append(("DequantizeLinear", ["again", "x.scale", "x.zero"], ["read"], {}))
    w.quantised(w.add("Conv", first, w.weights("v", (8, 8, 1, 1))), "y", 3, 130)
    results = ["y", "first", "number", "read"]
    model = make(w.nodes, w.inputs, results, w.constants)
    computed = compile_model(imported(model, signed=True), "generic-c", jobs=1, heuristic="greedy")(w.inputs)
    for name, expected in zip(results, evaluated(model, w.inputs), strict=True):
        assert computed[name].dtype == expected.dtype
        np.testing.assert_array_equal(computed[name], expected)


def test_operators_of_a_file_that_take_zero_points_read_signed_bytes() -> None:
    rng = np.random.default_rng(3)
    x, f = rng.integers(0, 256, (1, 4, 5, 5)).astype(U8), rng.integers(0, 256, (8, 4, 3, 3)).astype(U8)
    constants = {
        "f": f,
        "s": np.float32(0.25),
        "xz": U8(121),
        "fz": U8(130),
        "ys": np.float32(32),
        "yz": U8(9),
    }
    nodes: Nodes = [
        ("QLinearConv", ["x", "s", "xz", "f", "s", "fz", "ys", "yz"], ["c"], {"pads": [1, 1, 1, 1]}),
        ("Transpose", ["c"], ["p"], {"perm": [0, 2, 3, 1]}),
        ("Concat", ["p", "p"], ["y"], {"axis": 1}),
    ]
    model = make(nodes, {"x": x}, ["y"], {n: np.asarray(c) for n, c in constants.items()})
    found = imported(model, signed=True)
    assert any("in a1: i8[" in text for text in found.whole().kernels.values())
    (expected,) = evaluated(model, {"x": x})
    np.testing.assert_array_equal(compile_model(found, "generic-c", jobs=1)({"x": x})["y"], expected)


@pytest.mark.parametrize("zeros", [(255, -128), (0, 127), (137, 0)])
def test_two_computed_factors_with_zero_points_are_multiplied_in_vectors(zeros: tuple[int, int]) -> None:
    """A byte less a zero point is a number of 16 bits, of which machines sum pairs. In 32 bits it was scalar."""
    rng = np.random.default_rng(8)
    a, b = rng.integers(0, 256, (3, 16, 20)).astype(U8), rng.integers(-128, 128, (3, 20, 32)).astype(S8)
    a[:, 0], b[:, :, 0] = 255 - zeros[0], -zeros[1] - (zeros[1] == -128)
    constants = {"az": np.asarray(zeros[0], U8), "bz": np.asarray(zeros[1], S8)}
    model = make([("MatMulInteger", ["a", "b", "az", "bz"], ["y"], {})], {"a": a, "b": b}, ["y"], constants)
    found = imported(model)
    (text,) = found.whole().kernels.values()
    request = Request(Source("k.ir", text), "x86-avx2", {}, heuristic="greedy")
    schedule = compile_kernel(request, "schedule").schedule
    assert schedule
    assert [nest.mapping.partition(" ")[0] for nest in schedule.nests] == ["dot2_ymm_i16"]
    (computed,) = compile_model(found, "generic-c", jobs=1)({"a": a, "b": b}).values()
    (expected,) = evaluated(model, {"a": a, "b": b})
    np.testing.assert_array_equal(computed, expected)


def test_import_says_which_nodes_are_part_of_operators_of_integers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    w = Written()
    chain(w)
    (tmp_path / "made.onnx").write_bytes(make(w.nodes, w.inputs, ["y"], w.constants).SerializeToString())
    assert main(["import", str(tmp_path / "made.onnx"), "-o", str(tmp_path / "graph")]) == 0
    said = capsys.readouterr().out
    assert "Relu                         1 part of operators of integers" in said
    assert "QLinearConv                  2 by kernels" in said


def test_scales_of_rows_and_of_columns_are_not_mistaken_for_each_other() -> None:
    rng = np.random.default_rng(3)
    a, b = rng.integers(0, 256, (4, 6)).astype(U8), rng.integers(-127, 128, (6, 4)).astype(S8)
    rows, columns = (np.float32(2) ** rng.integers(-7, -3, 4).astype(np.float32) for _ in range(2))
    zeros = rng.integers(90, 160, 4).astype(U8)
    constants = {"as": rows, "az": zeros, "b": b, "bs": columns, "bz": np.zeros(4, S8),
                 "ys": np.float32(2), "yz": U8(128)}  # fmt: skip
    nodes: Nodes = [("QLinearMatMul", ["a", "as", "az", "b", "bs", "bz", "ys", "yz"], ["y"], {})]
    found = compile_model(
        imported(make(nodes, {"a": a}, ["y"], {n: np.asarray(c) for n, c in constants.items()})), "generic-c"
    )
    sums = (a.astype(int) - zeros.astype(int)[:, None]) @ b.astype(int)
    expected = np.clip(np.rint(sums * rows[:, None] * columns / 2) + 128, 0, 255).astype(U8)
    np.testing.assert_array_equal(found({"a": a})["y"], expected)


def test_sums_beyond_32_bits_are_exact() -> None:
    a, b = np.full((1, 40_000), 255, U8), np.full((40_000, 2), 255, U8)
    one = {"s": np.asarray(1, np.float32), "z": np.asarray(0, U8), "big": np.asarray(2**25, np.float32)}
    nodes: Nodes = [("QLinearMatMul", ["a", "s", "z", "b", "s", "z", "big", "z"], ["y"], {})]
    model = make(nodes, {"a": a, "b": b}, ["y"], one)
    found = compile_model(imported(model), "generic-c", heuristic="greedy")({"a": a, "b": b})["y"]
    assert found.tolist() == [[round(255 * 255 * 40_000 / 2**25)] * 2]


def test_a_clip_whose_limits_cross_stays_as_it_is() -> None:
    w = Written()
    clipped(w, 5.0, 3.0)
    found = imported(make(w.nodes, w.inputs, ["y"], w.constants))
    assert "QuantizeLinear" in {t.node.op for t in found.taken if t.where == "kernel"}


@pytest.mark.parametrize(
    ("op", "inputs", "attributes"),
    [
        ("Pad", ["x.real", "pads", "third"], {}),
        ("Pad", ["x.real", "pads", "far"], {}),
        ("Resize", ["x.real", "", "zoom"], {"mode": "linear"}),
        ("Concat", ["x.real", "z.real"], {"axis": 1}),
        ("Mul", ["x.real", "row"], {}),
    ],
)
def test_operators_without_a_result_in_bytes_stay_as_they_are(
    op: str, inputs: list[str], attributes: dict[str, Any]
) -> None:
    w = Written()
    w.given("x", (1, 2, 3, 4))
    w.given("z", (1, 2, 3, 4), -4)
    sized(w, pads=[0, 0, 1, 1, 0, 0, 0, 0], third=np.float32(0.3), far=np.float32(99), row=drawn(4),
          zoom=np.asarray([1, 1, 2, 2], np.float32))  # fmt: skip
    y = w.add(op, *inputs, **attributes)
    if op == "Mul":
        w.quantised(y, "y", -3)
    model = make(w.nodes, w.inputs, ["y" if op == "Mul" else y], w.constants)
    found = imported(model)
    assert {"DequantizeLinear", op} <= {t.node.op for t in found.taken if t.where in ("kernel", "move")}
    (wanted,) = evaluated(model, w.inputs)
    (computed,) = compile_model(found, "generic-c", jobs=1, heuristic="greedy")(w.inputs).values()
    np.testing.assert_allclose(computed, wanted, rtol=1e-5, atol=1e-6)


def drawn(*shape: int) -> Array:
    return np.random.default_rng(3).standard_normal(shape).astype(np.float32)


def test_made_names_are_none_of_the_graphs() -> None:
    w = Written()
    clipped(w, -7.0, 31.5)
    w.constants["y.low"] = np.asarray(200, U8)
    w.constants["y.high"] = np.asarray(201, U8)
    model = make(w.nodes, w.inputs, ["y"], w.constants)
    (expected,) = evaluated(model, w.inputs)
    computed = compile_model(imported(model), "generic-c", jobs=1, heuristic="greedy")(w.inputs)["y"]
    np.testing.assert_array_equal(computed, expected)


@pytest.mark.parametrize("scales", [(0.02, 0.05, 0.08), (0.03, 0.07, 0.11), (0.5, 2.0, 0.25)])
def test_a_sum_differs_from_exact_numbers_only_next_to_a_half(scales: tuple[float, float, float]) -> None:
    """Compare all pairs of bytes. 0.05 / 0.08 of f32 exceeds 0.625 by 2.3e-8, which a factor in f32 cannot tell."""
    x, y = (part.reshape(-1) for part in np.meshgrid(np.arange(-128, 128), np.arange(-128, 128)))
    inputs: dict[str, Array] = {"a": x.astype(S8), "b": y.astype(S8)}
    known: dict[str, Array] = {"zero": np.asarray(0, S8)}
    known |= {f"s{n}": np.asarray(scale, np.float32) for n, scale in enumerate(scales)}
    nodes: Nodes = [("DequantizeLinear", [n, f"s{k}", "zero"], [f"{n}r"], {}) for k, n in enumerate("ab")]
    nodes += [("Add", ["ar", "br"], ["t"], {}), ("QuantizeLinear", ["t", "s2", "zero"], ["y"], {})]
    library = compile_model(imported(make(nodes, inputs, ["y"], known)), "generic-c", jobs=1)
    found = library(inputs)["y"].astype(int)
    a, b, c = (
        int(Fraction(float(np.float32(scale))) * 2**60) for scale in scales
    )  # exact: scales are above 2^-36
    places: list[int] = []
    for n, (i, j) in enumerate(zip(x.tolist(), y.tolist(), strict=True)):
        exact = Fraction(i * a + j * b, c)
        if found[n] != min(max(round(exact), -128), 127):
            places.append(n)
            apart = abs(abs(exact - math.floor(exact)) - Fraction(1, 2))
            assert apart <= (Fraction(abs(i) * a + abs(j) * b, c)) / 2**22, (i, j)
            assert abs(int(found[n]) - exact) < 0.5001
    assert bool(places) == (scales[0] == 0.02)
