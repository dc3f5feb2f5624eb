"""Models of ONNX at the edges of what operators say, as people have reported them of importers.

Each has its nodes, inputs, results, constants and the version of the operators. `OF_ONNXRUNTIME` are those of
which ONNX's own evaluator says something else than the standard, or fails; onnxruntime is asked instead.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from onnx_models import Described

from isamap.graph.graph import Array


class Edge(NamedTuple):
    """A model and what it is given."""

    nodes: Described
    inputs: dict[str, Array]
    outputs: Sequence[str]
    constants: dict[str, Array]
    opset: int


EDGES: dict[str, Edge] = {}
_RNG = np.random.default_rng(7)


def f(*shape: int) -> Array:
    return _RNG.standard_normal(shape).astype(np.float32)


def i64(*values: int) -> Array:
    return np.asarray(values, np.int64)


def sc(value: float, dtype: Any = np.float32) -> Array:
    return np.asarray(value, dtype)


def whole(low: int, high: int, shape: tuple[int, ...], dtype: Any) -> Array:
    return _RNG.integers(low, high, shape).astype(dtype)


def case(
    name: str,
    nodes: Described,
    inputs: dict[str, Array],
    outputs: Sequence[str] = ("y",),
    constants: Mapping[str, Array] | None = None,
    opset: int = 21,
) -> None:
    EDGES[name] = Edge(nodes, inputs, outputs, dict(constants or {}), opset)


# A table, a model a row or two.
# fmt: off
# convolutions and pools
case("conv asymmetric pads", [("Conv", ["x", "w"], ["y"], {"pads": [0, 2, 1, 0]})], {"x": f(1, 2, 5, 6)},
     constants={"w": f(3, 2, 3, 3)})
case("conv SAME_UPPER even kernel stride 2",
     [("Conv", ["x", "w"], ["y"], {"auto_pad": "SAME_UPPER", "strides": [2, 2]})], {"x": f(1, 2, 7, 8)},
     constants={"w": f(3, 2, 4, 2)})
case("conv SAME_LOWER dilated",
     [("Conv", ["x", "w"], ["y"], {"auto_pad": "SAME_LOWER", "dilations": [2, 1]})], {"x": f(1, 2, 7, 8)},
     constants={"w": f(3, 2, 2, 3)})
case("conv VALID", [("Conv", ["x", "w", "b"], ["y"], {"auto_pad": "VALID"})], {"x": f(2, 2, 7, 8)},
     constants={"w": f(3, 2, 2, 3), "b": f(3)})
case("conv1d dilated grouped", [("Conv", ["x", "w"], ["y"], {"dilations": [3], "group": 4, "pads": [2, 1]})],
     {"x": f(2, 4, 11)}, constants={"w": f(8, 1, 3)})
case("conv3d strided", [("Conv", ["x", "w"], ["y"], {"strides": [1, 2, 1], "pads": [1, 0, 1, 0, 1, 0]})],
     {"x": f(1, 2, 4, 5, 4)}, constants={"w": f(2, 2, 2, 2, 3)})
case("conv weights as input", [("Conv", ["x", "w"], ["y"], {})], {"x": f(1, 2, 5, 5), "w": f(2, 2, 3, 3)})
case("conv transpose output_padding, dilations",
     [("ConvTranspose", ["x", "w"], ["y"],
         {"strides": [2, 3], "dilations": [2, 1], "output_padding": [1, 2], "pads": [1, 0, 0, 1]})],
     {"x": f(1, 2, 3, 4)}, constants={"w": f(2, 3, 2, 3)})
case("conv transpose output_shape SAME_UPPER",
     [("ConvTranspose", ["x", "w"], ["y"],
         {"strides": [2, 2], "output_shape": [7, 8], "auto_pad": "SAME_UPPER"})],
     {"x": f(1, 2, 4, 4)}, constants={"w": f(2, 1, 3, 3)})
case("conv transpose grouped", [("ConvTranspose", ["x", "w", "b"], ["y"], {"group": 2, "strides": [2, 1]})],
     {"x": f(1, 4, 3, 4)}, constants={"w": f(4, 3, 2, 3), "b": f(6)})
case("max pool ceil, pads, dilation",
     [("MaxPool", ["x"], ["y"],
         {"kernel_shape": [2, 3], "strides": [2, 2], "pads": [1, 1, 0, 1], "ceil_mode": 1, "dilations": [2,
         1]})],
     {"x": f(1, 2, 7, 8)})
case("max pool of all negative with pads",
     [("MaxPool", ["x"], ["y"], {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]})],
     {"x": -np.abs(f(1, 1, 3, 3)) - 1})
case("average pool excludes pads, ceil",
     [("AveragePool", ["x"], ["y"],
         {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1], "ceil_mode": 1})],
     {"x": f(1, 2, 6, 6)})
case("average pool includes pads, ceil",
     [("AveragePool", ["x"], ["y"],
         {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1], "ceil_mode": 1,
         "count_include_pad": 1})],
     {"x": f(1, 2, 6, 6)})
case("max pool bytes", [("MaxPool", ["x"], ["y"], {"kernel_shape": [2, 2]})],
     {"x": whole(-128, 127, (1, 1, 4, 4), np.int8)})
case("max pools of f16",
     [("MaxPool", ["x"], ["y"], {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}),
      ("GlobalMaxPool", ["x"], ["z"], {})],
     {"x": (-np.abs(f(1, 2, 5, 4)) - 1).astype(np.float16)}, ["y", "z"])
case("global pools", [("GlobalMaxPool", ["x"], ["a"], {}), ("GlobalAveragePool", ["x"], ["b"], {})],
     {"x": f(2, 3, 4, 5)}, ["a", "b"])
case("lp pool p 3", [("LpPool", ["x"], ["y"], {"kernel_shape": [2, 2], "p": 3, "strides": [1, 2]})],
     {"x": f(1, 2, 4, 5)})
case("global lp pools",
     [("GlobalLpPool", ["x"], ["a"], {}), ("GlobalLpPool", ["x"], ["b"], {"p": 1})],
     {"x": f(2, 3, 4, 5)}, ["a", "b"])
# softmax etc
case("old softmax, two axes together", [("Softmax", ["x"], ["y"], {"axis": 1})], {"x": f(2, 3, 4)}, opset=11)
case("old log softmax of axis 0", [("LogSoftmax", ["x"], ["y"], {"axis": 0})], {"x": f(2, 3)}, opset=7)
case("softmax with infinities", [("Softmax", ["x"], ["y"], {"axis": -1})],
     {"x": np.asarray([[-np.inf, 0, 1], [-np.inf, -np.inf, 3], [50, -80, 100]], np.float32)})
case("hardmax with ties", [("Hardmax", ["x"], ["y"], {"axis": 0})],
     {"x": np.asarray([[1, 2, 2], [3, 2, 1]], np.float32)})
case("argmax ties last", [("ArgMax", ["x"], ["y"], {"axis": 1, "select_last_index": 1, "keepdims": 0})],
     {"x": np.asarray([[1, 2, 2], [3, 3, 1]], np.float32)})
case("argmin ties first", [("ArgMin", ["x"], ["y"], {"axis": -1})],
     {"x": np.asarray([[1, 1, 2], [3, 0, 0]], np.float32)})
case("topk smallest with ties, unsorted axis 0",
     [("TopK", ["x", "k"], ["v", "i"], {"axis": 0, "largest": 0})],
     {"x": np.asarray([[3, 1], [1, 1], [2, 0], [1, 4]], np.float32)}, ["v", "i"], {"k": i64(3)})
for largest in (0, 1):
    case(f"topk of NaN, largest {largest}",
         [("TopK", ["x", "k"], ["v", "i"], {"axis": 0, "largest": largest})],
         {"x": np.asarray([1, np.nan, 5, -2, 3, np.nan], np.float32)}, ["v", "i"], {"k": i64(4)})
# reductions
case("reduce with empty axes does nothing", [("ReduceSum", ["x", "a"], ["y"], {"noop_with_empty_axes": 1})],
     {"x": f(2, 3)}, constants={"a": np.asarray([], np.int64)})
case("reduce with no axes takes all", [("ReduceMax", ["x"], ["y"], {"keepdims": 0})], {"x": f(2, 3)})
case("reduce negative axes", [("ReduceMean", ["x", "a"], ["y"], {"keepdims": 0})], {"x": f(2, 3, 4)},
     constants={"a": i64(-1, -3)})
case("reduce of integers", [("ReduceSum", ["x", "a"], ["y"], {})], {"x": whole(-9, 9, (3, 4), np.int32)},
     constants={"a": i64(1)})
case("reduce mean of integers", [("ReduceMean", ["x", "a"], ["y"], {})],
     {"x": whole(-9, 9, (3, 4), np.int32)}, constants={"a": i64(1)})
case("reduce prod, l2, logsumexp", [("ReduceProd", ["x"], ["a"], {}), ("ReduceL2", ["x", "k"], ["b"], {}),
     ("ReduceLogSumExp", ["x", "k"], ["c"], {})], {"x": f(2, 3) * 30}, ["a", "b", "c"], {"k": i64(1)})
case("cumsum reverse exclusive", [("CumSum", ["x", "a"], ["y"], {"reverse": 1, "exclusive": 1})],
     {"x": f(3, 4)}, constants={"a": sc(-1, np.int64)})
# slicing and layout
case("slice negative steps", [("Slice", ["x", "s", "e", "a", "t"], ["y"], {})], {"x": f(5, 6)},
     constants={"s": i64(-1, 10), "e": i64(-100, 0), "a": i64(0, 1), "t": i64(-2, -1)})
case("slice clamped beyond the end", [("Slice", ["x", "s", "e"], ["y"], {})], {"x": f(5, 6)},
     constants={"s": i64(2, -100), "e": i64(1000, np.iinfo(np.int64).max)})
case("slice to nothing", [("Slice", ["x", "s", "e"], ["z"], {}), ("Concat", ["z", "x"], ["y"], {"axis": 0})],
     {"x": f(3, 2)}, constants={"s": i64(2), "e": i64(2)})
case("negative pads crop", [("Pad", ["x", "p", "v"], ["y"], {})], {"x": f(4, 5)},
     constants={"p": i64(-1, 2, 1, -2), "v": sc(3.0)})
case("pad reflect", [("Pad", ["x", "p"], ["y"], {"mode": "reflect"})], {"x": f(4, 5)},
     constants={"p": i64(2, 1, 3, 4)})
case("pad edge with axes", [("Pad", ["x", "p", "", "a"], ["y"], {"mode": "edge"})], {"x": f(4, 5)},
     constants={"p": i64(1, 2), "a": i64(-1)})
case("pad wrap", [("Pad", ["x", "p"], ["y"], {"mode": "wrap"})], {"x": f(4, 5)},
     constants={"p": i64(1, 2, 3, 1)})
case("split uneven", [("Split", ["x"], ["a", "b"], {"num_outputs": 2, "axis": 1})], {"x": f(2, 5)},
     ["a", "b"])
case("split with a zero part", [("Split", ["x", "s"], ["a", "b", "c"], {"axis": 0})], {"x": f(4, 2)},
     ["a", "c"], {"s": i64(1, 0, 3)})
case("transpose reversed by default", [("Transpose", ["x"], ["y"], {})], {"x": f(2, 3, 4)})
case("expand of a scalar and both ways", [("Expand", ["x", "s"], ["y"], {})], {"x": f(3, 1)},
     constants={"s": i64(2, 1, 4)})
case("reshape with 0 and -1", [("Reshape", ["x", "s"], ["y"], {})], {"x": f(2, 3, 4)},
     constants={"s": i64(0, -1)})
case("reshape allowzero", [("Reshape", ["x", "s"], ["z"], {"allowzero": 1}), ("ReduceSum", ["z"], ["y"], {})],
     {"x": np.zeros((0, 3), np.float32)}, constants={"s": i64(3, 0)})
case("squeeze all, unsqueeze negative", [("Squeeze", ["x"], ["a"], {}), ("Unsqueeze", ["a", "k"], ["y"], {})],
     {"x": f(1, 3, 1)}, constants={"k": i64(-1, 0)})
case("flatten axis 0 and negative", [("Flatten", ["x"], ["a"], {"axis": 0}),
     ("Flatten", ["x"], ["b"], {"axis": -1})], {"x": f(2, 3, 4)}, ["a", "b"])
case("depth to space CRD", [("DepthToSpace", ["x"], ["y"], {"blocksize": 2, "mode": "CRD"})],
     {"x": f(1, 8, 2, 3)})
case("tile", [("Tile", ["x", "r"], ["y"], {})], {"x": f(2, 3)}, constants={"r": i64(2, 3)})
case("gather negative indices, scalar index", [("Gather", ["x", "i"], ["y"], {"axis": -1})], {"x": f(2, 5)},
     constants={"i": sc(-2, np.int64)})
case("gather elements negative", [("GatherElements", ["x", "i"], ["y"], {"axis": 1})], {"x": f(2, 3)},
     constants={"i": np.asarray([[-1, 0], [1, -3]], np.int64)})
case("gather nd with batch dims", [("GatherND", ["x", "i"], ["y"], {"batch_dims": 1})], {"x": f(2, 3, 4)},
     constants={"i": np.asarray([[1], [2]], np.int64)})
case("scatter elements add, twice the same",
     [("ScatterElements", ["x", "i", "u"], ["y"], {"axis": 0, "reduction": "add"})],
     {"x": f(3, 2), "u": f(2, 2)}, constants={"i": np.asarray([[1, 1], [1, -1]], np.int64)})
case("scatter nd", [("ScatterND", ["x", "i", "u"], ["y"], {})], {"x": f(4, 2), "u": f(2, 2)},
     constants={"i": np.asarray([[3], [0]], np.int64)})
case("one hot with negative indices", [("OneHot", ["x", "d", "v"], ["y"], {"axis": 0})], {"x": i64(1, -1, 7)},
     constants={"d": sc(4, np.int64), "v": np.asarray([-1.0, 5.0], np.float32)})
case("trilu with k, not square", [("Trilu", ["x", "k"], ["y"], {"upper": 0})], {"x": f(2, 3, 5)},
     constants={"k": sc(1, np.int64)})
case("eye like", [("EyeLike", ["x"], ["y"], {"k": 1, "dtype": 1})], {"x": f(3, 4)})
# resize
for mode, to, near in (
    ("nearest", "asymmetric", "floor"),
    ("nearest", "half_pixel", "round_prefer_ceil"),
    ("nearest", "half_pixel", "round_prefer_floor"),
    ("nearest", "align_corners", "ceil"),
    ("linear", "half_pixel", ""),
    ("linear", "align_corners", ""),
    ("linear", "pytorch_half_pixel", ""),
    ("cubic", "half_pixel", ""),
):
    attributes = {"mode": mode, "coordinate_transformation_mode": to, "cubic_coeff_a": -0.5}
    attributes |= {"nearest_mode": near} if near else {}
    scales = np.asarray([1, 1, 1.5, 0.6], np.float32)
    case(
        f"resize {mode} {to} {near}".strip(),
        [("Resize", ["x", "", "s"], ["y"], attributes)],
        {"x": f(1, 1, 4, 5)},
        constants={"s": scales},
    )
case("resize sizes, antialias", [("Resize", ["x", "", "", "z"], ["y"], {"mode": "linear", "antialias": 1})],
     {"x": f(1, 2, 6, 8)}, constants={"z": i64(1, 2, 3, 5)})
case("resize of integers of two sizes",
     [("Resize", ["x", "", "s"], ["y"], {"mode": "linear"}), ("Resize", ["z", "", "s"], ["w"], {"mode": "cubic"})],
     {"x": whole(0, 255, (1, 1, 4, 5), np.uint8), "z": whole(-99, 99, (1, 1, 4, 5), np.int32)}, ["y", "w"],
     {"s": np.asarray([1, 1, 2, 2], np.float32)}, opset=19)
case("upsample of opset 9", [("Upsample", ["x", "s"], ["y"], {"mode": "nearest"})], {"x": f(1, 1, 2, 3)},
     constants={"s": np.asarray([1, 1, 2, 3], np.float32)}, opset=9)
# arithmetic
case("integer division rounds to zero", [("Div", ["x", "k"], ["y"], {})],
     {"x": np.asarray([-7, 7, -8, 5], np.int32)}, constants={"k": np.asarray([2, -2, 3, -3], np.int32)})
case("mod by sign of divisor, and fmod",
     [("Mod", ["x", "k"], ["a"], {}), ("Mod", ["x", "k"], ["b"], {"fmod": 1})],
     {"x": np.asarray([-7, 7, -8, 5], np.int32)}, ["a", "b"], {"k": np.asarray([2, -2, 3, -3], np.int32)})
case("fmod of floats", [("Mod", ["x", "k"], ["y"], {"fmod": 1})],
     {"x": np.asarray([-7.5, 7.5, -8, 5], np.float32)},
     constants={"k": np.asarray([2, -2, 3, -3], np.float32)})
case("round half to even", [("Round", ["x"], ["y"], {})],
     {"x": np.asarray([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 0.49999997], np.float32)})
case("max of NaN, variadic", [("Max", ["x", "k", "l"], ["y"], {})],
     {"x": np.asarray([1, np.nan, 3], np.float32)},
     constants={"k": np.asarray([2, 2, np.nan], np.float32), "l": sc(0.0)})
case("sign, isinf, isnan", [("Sign", ["x"], ["a"], {}), ("IsInf", ["x"], ["b"], {"detect_negative": 0}),
     ("IsNaN", ["x"], ["c"], {})], {"x": np.asarray([-0.0, np.inf, -np.inf, np.nan, -3], np.float32)},
     ["a", "b", "c"])
case("cast float to int truncates, to bool",
     [("Cast", ["x"], ["a"], {"to": 6}), ("Cast", ["x"], ["b"], {"to": 9})],
     {"x": np.asarray([-1.9, 1.9, 0, -0.0, 0.3], np.float32)}, ["a", "b"])
case("cast to u8 of whole numbers wraps", [("Cast", ["x"], ["y"], {"to": 2})],
     {"x": np.asarray([-1, 256, 300, 7], np.int32)})
case("bit shift, and, xor", [("BitShift", ["x", "k"], ["a"], {"direction": "LEFT"}),
     ("BitwiseXor", ["x", "k"], ["b"], {}), ("BitwiseNot", ["x"], ["c"], {})],
     {"x": np.asarray([1, 200, 7], np.uint8)}, ["a", "b", "c"], {"k": np.asarray([1, 1, 3], np.uint8)})
case("where broadcast", [("Greater", ["x", "k"], ["g"], {}), ("Where", ["g", "x", "k"], ["y"], {})],
     {"x": f(3, 1)}, constants={"k": f(1, 4)})
case("clip without a lower bound, min over max",
     [("Clip", ["x", "", "h"], ["a"], {}), ("Clip", ["x", "h", "l"], ["b"], {})], {"x": f(5)}, ["a", "b"],
     {"h": sc(0.5), "l": sc(-0.5)})
case("old clip of attributes", [("Clip", ["x"], ["y"], {"min": -0.1, "max": 0.2})], {"x": f(5)}, opset=6)
case("pow int base float exponent", [("Pow", ["x", "k"], ["y"], {})], {"x": np.asarray([1, 2, 3], np.int32)},
     constants={"k": np.asarray([2.0, 0.5, -1], np.float32)})
case("gelu tanh, mish, hard swish, selu, celu", [("Gelu", ["x"], ["a"], {"approximate": "tanh"}),
     ("Mish", ["x"], ["b"], {}), ("HardSwish", ["x"], ["c"], {}), ("Selu", ["x"], ["d"], {}),
     ("Celu", ["x"], ["e"], {"alpha": 0.7})], {"x": f(9) * 3}, ["a", "b", "c", "d", "e"])
case("prelu per channel", [("PRelu", ["x", "s"], ["y"], {})], {"x": f(1, 3, 4)}, constants={"s": f(3, 1)})
case("softplus of large values", [("Softplus", ["x"], ["y"], {})],
     {"x": np.asarray([-200, -1, 0, 1, 100], np.float32)})
# products
case("gemm transposed, alpha, beta, row of C",
     [("Gemm", ["a", "b", "c"], ["y"], {"transA": 1, "transB": 1, "alpha": 0.5, "beta": 2.0})],
     {"a": f(4, 3)}, constants={"b": f(5, 4), "c": f(5)})
case("matmul of vectors", [("MatMul", ["x", "k"], ["y"], {})], {"x": f(4)}, constants={"k": f(4)})
case("matmul batched broadcast, vector",
     [("MatMul", ["x", "k"], ["a"], {}), ("MatMul", ["x", "v"], ["b"], {})], {"x": f(2, 1, 3, 4)}, ["a", "b"],
     {"k": f(5, 4, 2), "v": f(4)})
case("einsum with a diagonal and a sum", [("Einsum", ["x", "k"], ["y"], {"equation": "bij,jk->bik"})],
     {"x": f(2, 3, 4)}, constants={"k": f(4, 5)})
case("matmul integer with zero points a column", [("MatMulInteger", ["x", "k", "za", "zb"], ["y"], {})],
     {"x": whole(0, 255, (3, 4), np.uint8)}, constants={"k": whole(-128, 127, (4, 5), np.int8),
     "za": sc(3, np.uint8), "zb": whole(-5, 5, (5,), np.int8)})
case("conv integer", [("ConvInteger", ["x", "w", "zx"], ["y"], {"pads": [1, 1, 1, 1]})],
     {"x": whole(0, 255, (1, 1, 4, 4), np.uint8)}, constants={"w": whole(0, 255, (1, 1, 3, 3), np.uint8),
     "zx": sc(7, np.uint8)})
# quantisation
case("quantize saturates, half to even", [("QuantizeLinear", ["x", "s", "z"], ["y"], {})],
     {"x": np.asarray([-1000, -0.25, 0.25, 0.75, 1000, 1.25], np.float32)},
     constants={"s": sc(0.5), "z": sc(10, np.uint8)})
case("quantize per axis", [("QuantizeLinear", ["x", "s", "z"], ["y"], {"axis": 0})], {"x": f(3, 4) * 100},
     constants={"s": np.asarray([0.5, 1, 2], np.float32), "z": np.asarray([0, 3, -4], np.int8)})
case("dequantize in blocks", [("DequantizeLinear", ["x", "s", "z"], ["y"], {"axis": 1, "block_size": 2})],
     {"x": whole(-128, 127, (2, 5), np.int8)}, constants={"s": np.abs(f(2, 3)) + 0.1,
     "z": whole(-3, 3, (2, 3), np.int8)})
_QDQ = {"xs": sc(0.25), "xz": sc(121, np.uint8), "ws": np.asarray([0.5, 0.25], np.float32),
        "wz": np.zeros(2, np.int8),
        "w": whole(-127, 127, (2, 3, 3, 3), np.int8), "b": whole(-99, 99, (2,), np.int32),
        "bs": np.asarray([0.125, 0.0625], np.float32), "bz": np.zeros(2, np.int32),
        "ys": sc(16), "yz": sc(9, np.uint8)}
case("quantised convolution with a border of its zero point",
     [("DequantizeLinear", ["x", "xs", "xz"], ["r"], {}), ("DequantizeLinear", ["w", "ws", "wz"], ["f"], {"axis": 0}),
      ("DequantizeLinear", ["b", "bs", "bz"], ["c"], {"axis": 0}),
      ("Conv", ["r", "f", "c"], ["t"], {"pads": [1, 1, 0, 0]}),
      ("Relu", ["t"], ["u"], {}), ("QuantizeLinear", ["u", "ys", "yz"], ["y"], {})],
     {"x": whole(0, 256, (1, 3, 5, 5), np.uint8)}, constants=_QDQ)
case("quantised sum and average",
     [("DequantizeLinear", ["x", "xs", "xz"], ["r"], {}), ("DequantizeLinear", ["z", "ys", "yz"], ["s"], {}),
      ("Add", ["r", "s"], ["t"], {}), ("QuantizeLinear", ["t", "ys", "yz"], ["u"], {}),
      ("DequantizeLinear", ["u", "ys", "yz"], ["v"], {}), ("GlobalAveragePool", ["v"], ["p"], {}),
      ("QuantizeLinear", ["p", "ys", "yz"], ["y"], {})],
     {n: whole(0, 256, (1, 3, 4, 4), np.uint8) for n in "xz"},
     constants={n: _QDQ[n] for n in ("xs", "xz", "ys", "yz")})
case("dynamic quantize of positive values", [("DynamicQuantizeLinear", ["x"], ["y", "s", "z"], {})],
     {"x": np.abs(f(6)) + 1}, ["y", "s", "z"])
case("dynamic quantize of zeros, whose range has no extent", [("DynamicQuantizeLinear", ["x"], ["y", "s", "z"], {})],
     {"x": np.zeros(5, np.float32)}, ["y", "s", "z"])
case("dynamic quantize of one negative number", [("DynamicQuantizeLinear", ["x"], ["y", "s", "z"], {})],
     {"x": np.array(-3, np.float32)}, ["y", "s", "z"])
case("dynamic quantize of nothing else than a row of zeros and a product", [
      ("DynamicQuantizeLinear", ["x"], ["q", "s", "z"], {}), ("MatMulInteger", ["q", "w", "z"], ["m"], {}),
      ("Cast", ["m"], ["c"], {"to": 1}), ("Mul", ["c", "s"], ["y"], {})],
     {"x": np.zeros((2, 4), np.float32)}, constants={"w": whole(0, 256, (4, 3), np.uint8)})
# norms
case("layer norm over two axes, no bias, mean given",
     [("LayerNormalization", ["x", "s"], ["y", "m"], {"axis": 1})], {"x": f(2, 3, 4)}, ["y", "m"],
     {"s": f(3, 4)})
case("group norm", [("GroupNormalization", ["x", "s", "b"], ["y"], {"num_groups": 2})], {"x": f(2, 4, 3)},
     constants={"s": f(4), "b": f(4)})
case("batch norm", [("BatchNormalization", ["x", "s", "b", "m", "v"], ["y"], {"epsilon": 0.01})],
     {"x": f(2, 3, 4)}, constants={"s": f(3), "b": f(3), "m": f(3), "v": np.abs(f(3))})
case("instance norm", [("InstanceNormalization", ["x", "s", "b"], ["y"], {})], {"x": f(2, 3, 5)},
     constants={"s": f(3), "b": f(3)})
case("mean variance normalization, lp norm", [("MeanVarianceNormalization", ["x"], ["a"], {"axes": [0, 2]}),
     ("LpNormalization", ["x"], ["b"], {"axis": 1, "p": 1})], {"x": f(2, 3, 4)}, ["a", "b"])
# recurrent
HIDDEN = 3
case("gru linear before reset, reverse, clip",
     [("GRU", ["x", "w", "r", "b"], ["y", "h"],
         {"hidden_size": HIDDEN, "linear_before_reset": 1, "direction": "reverse", "clip": 0.8})],
     {"x": f(4, 2, 5)}, ["y", "h"], {"w": f(1, 3 * HIDDEN, 5), "r": f(1, 3 * HIDDEN, HIDDEN),
     "b": f(1, 6 * HIDDEN)})
case("gru not linear, bidirectional, lengths, state",
     [("GRU", ["x", "w", "r", "b", "l", "h0"], ["y", "h"],
         {"hidden_size": HIDDEN, "direction": "bidirectional"})],
     {"x": f(4, 2, 5), "h0": f(2, 2, HIDDEN)}, ["y", "h"], {"w": f(2, 3 * HIDDEN, 5),
     "r": f(2, 3 * HIDDEN, HIDDEN), "b": f(2, 6 * HIDDEN), "l": np.asarray([4, 2], np.int32)})
case("lstm with other activations",
     [("LSTM", ["x", "w", "r"], ["y", "h", "c"],
         {"hidden_size": HIDDEN, "activations": ["HardSigmoid", "Relu", "Tanh"], "activation_alpha": [0.3],
         "activation_beta": [0.4]})],
     {"x": f(4, 2, 5)}, ["y", "h", "c"], {"w": f(1, 4 * HIDDEN, 5), "r": f(1, 4 * HIDDEN, HIDDEN)})
case("rnn relu, reverse",
     [("RNN", ["x", "w", "r", "b"], ["y", "h"],
         {"hidden_size": HIDDEN, "activations": ["Relu"], "direction": "reverse"})],
     {"x": f(4, 2, 5)}, ["y", "h"], {"w": f(1, HIDDEN, 5), "r": f(1, HIDDEN, HIDDEN), "b": f(1, 2 * HIDDEN)})
# shapes
case("shape, size, range, constant of shape", [("Shape", ["x"], ["s"], {"start": -2}),
     ("ConstantOfShape", ["s"], ["a"], {}), ("Size", ["x"], ["b"], {})], {"x": f(2, 3, 4)}, ["a", "b"])
case("0-d in and out", [("Add", ["x", "k"], ["y"], {})], {"x": sc(2.0)}, constants={"k": sc(3.0)})
case("an output that is an input", [("Identity", ["x"], ["y"], {}), ("Neg", ["x"], ["z"], {})], {"x": f(3)},
     ["y", "z"])
case("names with spaces, dots, keywords of C and Python", [("Add", ["for", "class.1"], ["a b"], {}),
     ("Mul", ["a b", "while"], ["return"], {})], {"for": f(3), "class.1": f(3), "while": f(3)}, ["return"])
case("names that differ in case and punctuation only",
     [("Add", ["a.b", "a/b"], ["a_b"], {}), ("Mul", ["a_b", "A_B"], ["a:b"], {})],
     {"a.b": f(3), "a/b": f(3), "A_B": f(3)}, ["a:b"])
# sequences and optional values
case("parts of a tensor by a sequence",
     [("SplitToSequence", ["x"], ["s"], {"axis": 1, "keepdims": 0}), ("SequenceAt", ["s", "last"], ["a"], {}),
      ("SequenceLength", ["s"], ["n"], {}), ("ConcatFromSequence", ["s"], ["y"], {"axis": -1, "new_axis": 1})],
     {"x": f(2, 3)}, ["y", "a", "n"], {"last": sc(-1, np.int64)})
case("a sequence of uneven parts",
     [("SplitToSequence", ["x", "two"], ["s"], {"axis": 1}), ("SplitToSequence", ["x", "k"], ["t"], {"axis": -1}),
      ("SequenceAt", ["s", "two"], ["y"], {}), ("SequenceAt", ["t", "back"], ["z"], {})],
     {"x": f(2, 5)}, ["y", "z"], {"two": sc(2, np.int64), "k": i64(1, 4), "back": sc(-2, np.int32)})
case("a sequence that grows before its last element",
     [("SequenceConstruct", ["x", "z"], ["s"], {}), ("SequenceInsert", ["s", "a", "place"], ["t"], {}),
      ("SequenceInsert", ["t", "x"], ["u"], {}), ("ConcatFromSequence", ["u"], ["y"], {"axis": 1})],
     {"x": f(2, 3), "z": f(2, 1), "a": f(2, 2)}, ["y"], {"place": sc(-1, np.int64)})
case("an optional value", [("Optional", ["x"], ["o"], {}), ("OptionalHasElement", ["o"], ["h"], {}),
     ("OptionalGetElement", ["o"], ["y"], {})], {"x": f(2, 3)}, ["y", "h"])
case("dropout and its mask", [("Dropout", ["x"], ["y", "m"], {})], {"x": f(4)}, ["y", "m"])
case("reverse sequence", [("ReverseSequence", ["x", "l"], ["y"], {"batch_axis": 1, "time_axis": 0})],
     {"x": f(4, 3)}, constants={"l": i64(1, 2, 4)})
case("space to depth, roll by concat", [("SpaceToDepth", ["x"], ["y"], {"blocksize": 2})],
     {"x": f(1, 2, 4, 6)})
case("cast like, bf16 and back", [("Cast", ["x"], ["h"], {"to": 16}), ("Cast", ["h"], ["y"], {"to": 1})],
     {"x": f(7) * 100})
case("f16 arithmetic rounds to f16", [("Cast", ["x"], ["h"], {"to": 10}), ("Add", ["h", "h"], ["g"], {}),
     ("Mul", ["g", "h"], ["m"], {}), ("Cast", ["m"], ["y"], {"to": 1})], {"x": f(7) * 100})
case("grid sample border",
     [("GridSample", ["x", "g"], ["y"], {"mode": "linear", "padding_mode": "border", "align_corners": 1})],
     {"x": f(1, 1, 4, 5), "g": _RNG.uniform(-1.3, 1.3, (1, 3, 3, 2)).astype(np.float32)})
# fmt: on

OF_ONNXRUNTIME = frozenset(
    {
        "an optional value",
        "conv transpose grouped",
        "global lp pools",
        "max pool bytes",
        "old softmax, two axes together",
        "old log softmax of axis 0",
        "negative pads crop",
        "mean variance normalization, lp norm",
        "gru linear before reset, reverse, clip",
        "gru not linear, bidirectional, lengths, state",
        "lstm with other activations",
        "rnn relu, reverse",
    }
)
