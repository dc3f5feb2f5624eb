"""Operators of com.microsoft compute what onnxruntime does; means of bytes, what exact arithmetic does."""

from __future__ import annotations

import re
from collections.abc import Mapping
from fractions import Fraction
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx", reason="models of ONNX need the package onnx: pip install 'isamap[onnx]'")

from onnx_models import RUNTIMES, imported, make, run_by_onnxruntime

from isamap.graph import making
from isamap.graph.graph import Array
from isamap.graph.operators import OPERATORS
from isamap.onnx import compile_model

RNG = np.random.default_rng(7)
U8, S8, I32, F32 = np.uint8, np.int8, np.int32, np.float32
Case = tuple[str, list[str], dict[str, Any], dict[str, Array], dict[str, Any]]
"""Operator, results, attributes; inputs and constants by name, in the order of the operator's; "" is left out."""


def drawn(*shape: int) -> Array:
    return RNG.standard_normal(shape).astype(F32)


def bytes_of(dtype: Any, *shape: int) -> Array:
    low = int(np.iinfo(dtype).min)
    return RNG.integers(low, low + 256, shape).astype(dtype)


def case(
    op: str,
    order: str,
    inputs: Mapping[str, Array],
    constants: Mapping[str, Any] | None = None,
    results: Any = "y",
    **attributes: Any,
) -> Case:
    """Return a case; `order` names inputs and constants as the operator takes them, "-" for one left out."""
    arrays = {name: np.asarray(value) for name, value in (constants or {}).items()}
    return op, order.split(), {"results": results.split(), **attributes}, dict(inputs), arrays


def named(words: list[str]) -> list[str]:
    return ["" if word == "-" else word for word in words]


def model_of(of: Case) -> Any:
    op, order, attributes, inputs, constants = of
    given = {name: value for name, value in attributes.items() if name != "results"}
    results = named(attributes["results"])
    op = op if op.startswith("Simplified") else f"{RUNTIMES}.{op}"
    return make([(op, named(order), results, given)], inputs, [r for r in results if r], constants)


X = drawn(2, 3, 8)
COS, SIN = drawn(16, 8), drawn(16, 8)
IDS = RNG.integers(0, 11, (2, 3)).astype(I32)
TABLES = {"w": drawn(11, 8), "p": drawn(5, 8), "k": drawn(2, 8), "g": drawn(8), "b": drawn(8)}
ROW_MASK = np.asarray([[1, 1, 0], [1, 0, 1]], I32)


def fused_matmul(a_turned: int, b_turned: int, a_batch: int, b_batch: int) -> Case:
    a, b = drawn(2, 3, 4, 5), drawn(2, 3, 5, 6)
    a, b = (x.swapaxes(-1, -2) if turned else x for x, turned in ((a, a_turned), (b, b_turned)))
    a, b = (np.moveaxis(x, -2, 0) if batch else x for x, batch in ((a, a_batch), (b, b_batch)))
    inputs = {"a": np.ascontiguousarray(a), "b": np.ascontiguousarray(b)}
    return case("FusedMatMul", "a b", inputs, transA=a_turned, transB=b_turned, transBatchA=a_batch,
                transBatchB=b_batch, alpha=0.5)  # fmt: skip


def fused_conv(activation: str, *numbers: float) -> Case:
    more = {"activation_params": numbers} if numbers else {}
    return case("FusedConv", "x w b z", {"x": drawn(1, 3, 5, 5), "z": drawn(1, 9, 5, 5)},
                {"w": drawn(9, 3, 3, 3), "b": drawn(9)}, activation=activation, pads=[1] * 4, **more)  # fmt: skip


def fused_gemm(activation: str, **numbers: float) -> Case:
    return case("FusedGemm", "x w b", {"x": drawn(3, 5)}, {"w": drawn(7, 5), "b": drawn(7)},
                activation=activation, transB=1, alpha=0.5, **numbers)  # fmt: skip


def heads(order: str, keys: int = 5, past: int = 0, results: str = "y", **attributes: Any) -> Case:
    """MultiHeadAttention of 2 heads of 4: bias b, masks m (rows), n (ends), o (each), a (added); past c, d."""
    arrays = {"q": drawn(2, 3, 8), "k": drawn(2, keys, 8), "v": drawn(2, keys, 8), "K": drawn(2, 2, keys, 4),
              "V": drawn(2, 2, keys, 4), "c": drawn(2, 2, past, 4), "d": drawn(2, 2, past, 4),
              "m": np.asarray([[1, 1, 1, 0, 0], [1, 0, 1, 1, 1]], I32), "n": np.asarray([3, 5], I32),
              "o": RNG.integers(0, 2, (2, 3, 5)).astype(I32), "a": drawn(1, 2, 3, keys)}  # fmt: skip
    inputs = {name: array for name, array in arrays.items() if name in order.split()}
    return case("MultiHeadAttention", order, inputs, {"b": drawn(24)} if "b" in order else {}, results,
                num_heads=2, **attributes)  # fmt: skip


def attention(order: str, results: str = "y", **attributes: Any) -> Case:
    """Attention of 2 heads of 4: masks m (rows), n (ends), e (ends and starts), o (each); past p, added a."""
    arrays = {"x": drawn(2, 3, 6), "p": drawn(2, 2, 2, 4, 4), "a": drawn(2, 2, 3, 3), "m": ROW_MASK,
              "n": np.asarray([2, 3], I32), "e": np.asarray([2, 3, 0, 1], I32),
              "o": RNG.integers(0, 2, (2, 3, 3)).astype(I32),
              "l": RNG.integers(0, 2, (2, 7)).astype(I32)}  # fmt: skip
    width = sum(attributes.get("qkv_hidden_sizes", (24,)))
    inputs = {name: array for name, array in arrays.items() if name in order.split()}
    return case("Attention", order, inputs, {"w": drawn(6, width), "b": drawn(width)}, results,
                num_heads=2, **attributes)  # fmt: skip


def grouped(
    order: str,
    length: int,
    total: int,
    filled: list[int],
    past: int = 0,
    turns: bool = True,
    **attributes: Any,
) -> Case:
    """GroupQueryAttention of 4 heads of 16 over 2 of keys."""
    q, k, v = drawn(2, length, 64), drawn(2, length, 32), drawn(2, length, 32)
    arrays = {"q": q, "k": k, "v": v, "j": np.concatenate([q, k, v], -1), "c": drawn(2, 2, past, 16),
              "d": drawn(2, 2, past, 16), "l": np.asarray(filled, I32), "p": np.asarray([[3], [4]]),
              "a": drawn(1, 1, length, total)}  # fmt: skip
    inputs = {name: array for name, array in arrays.items() if name in order.split()}
    constants = {"t": np.asarray(total, I32), **({"cos": COS, "sin": SIN} if turns else {})}
    return case("GroupQueryAttention", order, inputs, constants, "y r s", num_heads=4, kv_num_heads=2,
                do_rotary=int(turns), **attributes)  # fmt: skip


def packed(codes: Array, bits: int) -> Array:
    flags = (codes[..., None] >> np.arange(bits) & 1).astype(U8)
    return np.packbits(flags.reshape(*codes.shape[:-1], -1), axis=-1, bitorder="little")


def nbits(order: str, bits: int, size: int, depth: int, columns: int = 5, rows: int = 6, **more: Any) -> Case:
    blocks = -(-depth // size)
    points = RNG.integers(0, 1 << bits, (columns, blocks))
    constants = {"w": packed(RNG.integers(0, 1 << bits, (columns, blocks, size)), bits),
                 "s": np.abs(drawn(columns * blocks)), "z": packed(points, bits),
                 "f": points.astype(F32), "g": RNG.integers(0, blocks, depth).astype(I32),
                 "b": drawn(columns)}  # fmt: skip
    constants = {name: array for name, array in constants.items() if name in order.split()}
    x = drawn(2 if rows > 1 else 1, -(-rows // 2), depth)
    return case(
        "MatMulNBits", order, {"x": x}, constants, bits=bits, block_size=size, K=depth, N=columns, **more
    )


def of_bytes(op: str, order: str, dtype: Any, shape: tuple[int, ...], step: float, **more: Any) -> Case:
    low = int(np.iinfo(dtype).min)
    inputs = {"x": bytes_of(dtype, *shape), "w": bytes_of(dtype, *shape), "c": RNG.integers(0, 2, shape) > 0}
    inputs = {name: array for name, array in inputs.items() if name in order.split()}
    constants = {"xs": F32(0.05), "xz": dtype(low + 100), "ys": F32(step), "yz": dtype(low + 90),
                 "ws": F32(0.07), "wz": dtype(low + 7)}  # fmt: skip
    return case(op, order, inputs, {n: c for n, c in constants.items() if n in order.split()}, **more)


def lstm(turns: int, direction: str, columns: bool) -> Case:
    size, shape = 5, (turns, 20) if columns else (turns,)
    constants = {"w": RNG.integers(-127, 128, (turns, 3, 20)).astype(S8),
                 "r": RNG.integers(-127, 128, (turns, size, 20)).astype(S8), "b": drawn(turns, 40),
                 **{n: (np.abs(drawn(*shape)) * 0.01).astype(F32) for n in ("ws", "rs")},
                 "z": np.zeros(shape, S8)}  # fmt: skip
    inputs = {"x": drawn(4, 2, 3), "h": drawn(turns, 2, size), "c": drawn(turns, 2, size)}
    return case("DynamicQuantizeLSTM", "x w r b - h c - ws z rs z", inputs, constants, "y last cell",
                hidden_size=size, direction=direction)  # fmt: skip


WEIGHTS = {"w": RNG.integers(-127, 128, (8, 5)).astype(S8), "s": np.abs(drawn(5)), "z": np.arange(5, dtype=S8),
           "b": drawn(5)}  # fmt: skip

CASES: dict[str, Case] = {
    "Gelu": case("Gelu", "x", {"x": X}),
    "BiasGelu": case("BiasGelu", "x b", {"x": X}, {"b": drawn(8)}),
    "FastGelu": case("FastGelu", "x b", {"x": X}, {"b": drawn(8)}),
    "FastGelu without a bias": case("FastGelu", "x", {"x": X}),
    "QuickGelu": case("QuickGelu", "x", {"x": X}, alpha=1.3),
    **{
        f"FusedMatMul {flags}": fused_matmul(*flags)
        for flags in [(0, 0, 0, 0), (1, 0, 0, 0), (0, 1, 1, 0), (1, 1, 0, 1), (1, 1, 1, 1)]
    },
    "FusedConv and Relu": fused_conv("Relu"),
    "FusedConv and LeakyRelu": fused_conv("LeakyRelu", 0.2),
    "FusedConv and Clip": fused_conv("Clip", -0.5, 0.7),
    "FusedConv and HardSigmoid": fused_conv("HardSigmoid", 0.3, 0.4),
    "FusedGemm and LeakyRelu": fused_gemm("LeakyRelu", activation_alpha=0.3),
    "FusedGemm and HardSigmoid": fused_gemm("HardSigmoid", activation_alpha=0.3, activation_beta=0.4),
    "FusedGemm and Tanh": fused_gemm("Tanh"),
    "SkipLayerNormalization": case("SkipLayerNormalization", "x s g b c", {"x": X, "s": drawn(2, 3, 8)},
                                   {n: drawn(8) for n in "gbc"}, "y - - t", epsilon=1e-5),
    "SkipLayerNormalization of one summand": case("SkipLayerNormalization", "x s g", {"x": X, "s": drawn(3, 8)},
                                                  {"g": drawn(8)}),
    "SkipSimplifiedLayerNormalization": case("SkipSimplifiedLayerNormalization", "x s g c", {"x": X,
        "s": drawn(2, 3, 8)},
                                             {n: drawn(8) for n in "gc"}, "y - - t"),
    "SimplifiedLayerNormalization": case("SimplifiedLayerNormalization", "x g", {"x": X}, {"g": drawn(8)}, axis=-1),
    "EmbedLayerNormalization": case("EmbedLayerNormalization", "i s w p k g b", {"i": IDS, "s": IDS % 2},
        TABLES, "y n t"),
    "EmbedLayerNormalization with a mask": case("EmbedLayerNormalization", "i s w p k g b m",
                                                {"i": IDS, "s": IDS % 2, "m": ROW_MASK}, TABLES, "y n"),
    "EmbedLayerNormalization of positions": case("EmbedLayerNormalization", "i - w p - g b - q", {"i": IDS,
        "q": IDS % 5},
                                                 {n: TABLES[n] for n in "wpgb"}, "y n"),
    **{
        f"RotaryEmbedding of {kind}, interleaved {woven}": case("RotaryEmbedding", "x p c s", {"x": x, "p": at},
                                                {"c": COS[:, :2], "s": SIN[:, :2]}, interleaved=woven, **more)
        for woven in (0, 1)
        for kind, x, at, more in (("rows", drawn(2, 3, 16), IDS.astype(int), {}),
                                  ("heads from a position on", drawn(2, 4, 3, 4), np.asarray([2]), {}),
                                  ("a part", drawn(2, 3, 16), IDS.astype(int),
                                   {"num_heads": 2, "rotary_embedding_dim": 4}))
    },
    "MultiHeadAttention": heads("q k v b m"),
    "MultiHeadAttention with ends": heads("q k v - n"),
    "MultiHeadAttention with a mask for each row": heads("q k v - o"),
    "MultiHeadAttention with a summand": heads("q k v - - a", scale=0.3),
    "MultiHeadAttention of what is before": heads("q k v b - - c d", 3, 4, "y r s"),
    "MultiHeadAttention, causal": heads("q k v - - - c d", 3, 4, "y r s", unidirectional=1),
    "MultiHeadAttention of keys by head": heads("q K V b"),
    "Attention": attention("x w b"),
    "Attention, causal": attention("x w b m", unidirectional=1),
    "Attention with ends": attention("x w b n"),
    "Attention with starts": attention("x w b e"),
    "Attention with a mask for each row": attention("x w b o"),
    "Attention of what is before": attention("x w b l p", "y z", unidirectional=1),
    "Attention with a summand": attention("x w b - - a"),
    "Attention of other sizes": attention("x w b", qkv_hidden_sizes=[8, 8, 6]),
    "GroupQueryAttention of a prompt": grouped("q k v - - l t cos sin", 3, 3, [2, 2]),
    "GroupQueryAttention of joined rows": grouped("j - - - - l t cos sin", 3, 3, [2, 2], scale=0.2,
        rotary_interleaved=1),
    "GroupQueryAttention of one more": grouped("q k v c d l t cos sin", 1, 6, [5, 5], 5),
    "GroupQueryAttention of a window": grouped("j - - c d l t", 1, 10, [9, 9], 9, False, local_window_size=4,
        softcap=2.5),
    "GroupQueryAttention at positions": grouped("q k v c d l t cos sin p a", 1, 6, [5, 5], 5),
    "MatMulNBits of 4": nbits("x w s", 4, 16, 48),
    "MatMulNBits of 4, an odd row": nbits("x w s z", 4, 32, 40),
    "MatMulNBits of 8": nbits("x w s z", 8, 32, 64),
    "MatMulNBits of 2": nbits("x w s z", 2, 16, 48),
    "MatMulNBits with zero points in f32": nbits("x w s f", 4, 16, 32),
    "MatMulNBits with groups and a bias": nbits("x w s - g b", 4, 16, 32),
    "MatMulNBits with a bias, panels and a part": nbits("x w s - - b", 4, 32, 64, 70),
    "MatMulNBits of a row": nbits("x w s z - b", 4, 16, 48, 70, 1),
    **{
        f"MatMulNBits of 2 rows, {bits} bits, blocks of {size}, {order}": nbits(order, bits, size, depth, columns, 2)
        for bits, size, depth, columns, order in (
            (4, 16, 48, 5, "x w s z"), (4, 32, 40, 66, "x w s"), (8, 32, 64, 64, "x w s z"),
            (2, 128, 128, 5, "x w s z"), (4, 256, 512, 5, "x w s f"),
        )
    },
    **{
        f"{op} of {dtype.__name__}": of_bytes(op, order, dtype, (2, 3, 5), step, **more)
        for dtype in (U8, S8)
        for op, order, step, more in (
            ("QLinearSigmoid", "x xs xz ys yz", 1 / 256, {}),
            ("QLinearLeakyRelu", "x xs - ys -", 0.04, {"alpha": 0.2}),
            ("QLinearSoftmax", "x xs xz ys yz", 1 / 256, {"opset": 11, "axis": 1}),
            ("QLinearConcat", "ys yz x xs xz w ws wz", 0.06, {"axis": 1}),
            ("QLinearWhere", "c x xs xz w ws wz ys yz", 0.06, {}),
            ("DequantizeLinear", "x xs xz", 1, {}),
        )
    },
    "QuantizeLinear": case("QuantizeLinear", "x s z", {"x": X},
                           {"s": np.abs(drawn(3)), "z": np.asarray([1, 100, 200], U8)}, axis=1),
    "DynamicQuantizeMatMul": case("DynamicQuantizeMatMul", "x w s z b", {"x": X}, WEIGHTS),
    "MatMulIntegerToFloat": case("MatMulIntegerToFloat", "x w xs s xz z b", {"x": bytes_of(U8, 2, 3, 8)},
                                 {**WEIGHTS, "xs": F32(0.1), "xz": U8(100)}),
    "QAttention": case("QAttention", "x w b xs ws m xz wz", {"x": bytes_of(U8, 2, 3, 8), "m": ROW_MASK},
                       {"w": bytes_of(S8, 8, 24), "b": drawn(24), "xs": F32(0.02), "ws": F32(0.01), "xz": U8(120),
                        "wz": S8(0)}, num_heads=2),
    "QEmbedLayerNormalization": case("QEmbedLayerNormalization", "i t w p k g b - ws ps ks gs bs wz pz kz gz bz",
                                     {"i": IDS, "t": IDS % 2},
                                     {**{n: bytes_of(U8, *a.shape) for n, a in TABLES.items()},
                                      **{f"{n}s": F32(0.01 + 0.01 * k) for k, n in enumerate("wpkgb")},
                                      **{f"{n}z": U8(100 + k) for k, n in enumerate("wpkgb")}}, "y n"),
    "DynamicQuantizeLSTM": lstm(1, "forward", False),
    "DynamicQuantizeLSTM, backwards": lstm(1, "reverse", True),
    "DynamicQuantizeLSTM, in both directions": lstm(2, "bidirectional", True),
}  # fmt: skip


def check(of: Case, machine: str) -> None:
    model = model_of(of)
    computed = compile_model(imported(model), machine, jobs=1, heuristic="greedy")(of[3]).values()
    for found, wanted in zip(computed, run_by_onnxruntime(model, of[3]), strict=True):
        assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
        largest = float(np.abs(wanted.astype(float)).max(initial=1))
        np.testing.assert_allclose(found.astype(float), wanted.astype(float), rtol=0, atol=1e-4 * largest)


FIRST = {of[0]: name for name, of in reversed(CASES.items())}
"""A case of each operator."""


@cache
def saturates_pairs() -> bool:
    """Return whether onnxruntime adds two products of bytes in 16 bits here, as on x86 without VNNI."""
    a, b = np.full((1, 64), 255, np.uint8), np.full((64, 16), 127, np.int8)
    model = make([("MatMulInteger", ["a", "b"], ["y"], {})], {"a": a}, ["y"], {"b": b})
    return bool(np.any(run_by_onnxruntime(model, {"a": a})[0] != 255 * 127 * 64))


INEXACT = ("DynamicQuantizeMatMul", "MatMulIntegerToFloat")
"""Operators whose cases have bytes that are large enough to saturate."""


def compare(name: str, machine: str) -> None:
    pytest.importorskip("onnxruntime", reason="the other side of the comparison: pip install onnxruntime")
    if name.startswith(INEXACT) and saturates_pairs():
        pytest.skip("onnxruntime's own products saturate on this processor")
    check(CASES[name], machine)


@pytest.mark.parametrize("name", FIRST.values())
def test_an_operator_of_runtimes_is_what_onnxruntime_computes(name: str) -> None:
    compare(name, "generic-c")


@pytest.mark.exhaustive
@pytest.mark.parametrize("machine", ["generic-c", "x86-avx2"])
@pytest.mark.parametrize("name", CASES)
def test_each_variant_is_what_onnxruntime_computes(name: str, machine: str) -> None:
    compare(name, machine)


@pytest.mark.parametrize("rows", [1, 6])
@pytest.mark.parametrize(
    ("bits", "size", "order"), [(4, 32, "x w s"), (4, 16, "x w s z"), (8, 32, "x w s z")]
)
def test_rows_are_quantised_by_block_where_the_file_allows_it(
    bits: int, size: int, order: str, rows: int
) -> None:
    of = nbits(order, bits, size, 2 * size, 70, rows, accuracy_level=4)
    x, weights = of[3]["x"].astype(float), {name: array for name, array in of[4].items() if name != "x"}
    (found,) = compile_model(imported(model_of(of)), "generic-c", jobs=1, heuristic="greedy")(of[3]).values()
    parts = (weights["w"][..., None] >> np.arange(0, 8, bits) & (1 << bits) - 1).reshape(70, 2, size)
    points = np.full((70, 2), 1 << bits - 1)
    if "z" in weights:
        points = (weights["z"][..., None] >> np.arange(0, 8, bits) & (1 << bits) - 1).reshape(70, -1)[:, :2]
    real = (parts - points[..., None].astype(float)) * weights["s"].reshape(70, 2, 1)
    blocks = x.reshape(*x.shape[:2], 2, size)
    step = np.abs(blocks).max(-1, keepdims=True) / 127
    exact, rounded = (np.einsum("abgk,ngk->abn", b, real) for b in (blocks, np.rint(blocks / step) * step))
    np.testing.assert_allclose(found, rounded, rtol=0, atol=1e-5 * np.abs(exact).max())
    assert np.abs(found - exact).max() > 1e-4 * np.abs(exact).max()


@pytest.mark.parametrize("of", [{"rows": 2}, {"rows": 6}, {"rows": 2, "accuracy_level": 4}])
def test_weights_of_few_bits_stay_bytes_whatever_the_limit_of_tables(
    of: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(making, "MOST_NUMBERS", 1000)
    program = imported(model_of(nbits("x w s z", 4, 32, 256, 128, **of))).whole()
    assert sum(array.nbytes for array in program.constants.values()) == 128 * 256 // 2 + 128 * 8 * (4 + 1)


def test_the_page_lists_the_operators_of_runtimes() -> None:
    page = (Path(__file__).parents[2] / "docs" / "onnx.md").read_text(encoding="utf-8")
    table = page.partition("Files may hold these operators of `com.microsoft`")[2].partition(
        "They are computed"
    )[0]
    assert {*re.findall(r"`(\w+)`", table)} == {*OPERATORS[RUNTIMES], "SimplifiedLayerNormalization"}


POOLS: dict[str, dict[str, Any]] = {
    "beyond the image": {"kernel_shape": [3, 2], "pads": [1, 1, 1, 1]},
    "counted beyond the image": {"kernel_shape": [2, 2], "strides": [2, 2], "count_include_pad": 1, "pads": [1,
        0, 0, 1]},
    "of ceiled sizes": {"kernel_shape": [2, 3], "strides": [2, 2], "ceil_mode": 1},
}  # fmt: skip


def rounded(total: int, count: int, ratio: Fraction, point: int, dtype: Any) -> int:
    """Return a mean, requantised, in exact arithmetic."""
    known = np.iinfo(dtype)
    return int(min(max(round(Fraction(total, count) * ratio) + point, known.min), known.max))


def requantised(x: Array, windows: Any, low: int, ratio: Fraction, dtype: Any) -> Array:
    """Return the means of windows, by a function of an array of integers that yields totals and counts."""
    totals, counts = windows(x.astype(int) - (low + 100))
    flat = [
        rounded(int(t), int(c), ratio, low + 90, dtype) for t, c in zip(totals.flat, counts.flat, strict=True)
    ]
    return np.asarray(flat, dtype).reshape(totals.shape)


@pytest.mark.parametrize("dtype", [U8, S8], ids=["u8", "s8"])
@pytest.mark.parametrize("step", [0.05, 0.1], ids=["one scale", "half the steps"])
def test_means_of_bytes_are_exact_where_halves_are_rounded(dtype: Any, step: float) -> None:
    low = int(np.iinfo(dtype).min)
    x = bytes_of(dtype, 1, 3, 7, 4)  # means of 28: halves that a factor of 1/28 in f32 does not keep
    x[0, 0], x[0, 1] = low + 151, low + 152
    x[0, :2].reshape(2, -1)[:, ::2] += dtype(1)
    constants = {"xs": F32(0.05), "xz": dtype(low + 100), "ys": F32(step), "yz": dtype(low + 90)}
    wanted: dict[str, Array] = {}
    nodes: list[Any] = []
    ratio = Fraction(1, round(step / 0.05))

    def summed(axes: tuple[int, ...], keep: bool) -> Any:
        def found(values: Array) -> tuple[Array, Array]:
            totals: Array = values.sum(axis=axes, keepdims=keep)
            return totals, np.full(totals.shape, values.size // max(totals.size, 1))

        return found

    def add(op: str, windows: Any, **attributes: Any) -> None:
        name = f"y{len(nodes)}"
        nodes.append((f"{RUNTIMES}.{op}", ["x", "xs", "xz", "ys", "yz"], [name], attributes))
        wanted[name] = requantised(x, windows, low, ratio, dtype)

    add("QLinearGlobalAveragePool", summed((2, 3), True))
    add("QLinearReduceMean", summed((2, 3), False), axes=[2, -1], keepdims=0)
    add("QLinearReduceMean", summed((1,), True), axes=[1])
    for attributes in POOLS.values():
        add("QLinearAveragePool", partial(pooled, attributes), **attributes)
    model = make(nodes, {"x": x}, list(wanted), {n: np.asarray(c) for n, c in constants.items()})
    computed = compile_model(imported(model), "generic-c", jobs=1, heuristic="greedy")({"x": x})
    for name, array in wanted.items():
        np.testing.assert_array_equal(computed[name], array)


def pooled(attributes: dict[str, Any], values: Array) -> tuple[Array, Array]:
    """Return the sums of windows and how many elements each counts."""
    window, strides = attributes["kernel_shape"], attributes.get("strides", [1, 1])
    before, behind = np.split(np.asarray(attributes.get("pads", [0] * 4)), 2)
    room = np.asarray(values.shape[2:]) + before + behind - window
    sizes = [
        int(np.ceil(r / s) if attributes.get("ceil_mode") else r // s) + 1
        for r, s in zip(room, strides, strict=True)
    ]
    wide = [(int(b), int(e) + max(window) + max(strides)) for b, e in zip(before, behind, strict=True)]
    counted = [(int(b), int(e)) for b, e in zip(before, behind, strict=True)]
    there = np.pad(
        np.ones(values.shape, int),
        [(0, 0), (0, 0), *counted],
        constant_values=attributes.get("count_include_pad", 0),
    )
    rest = [(0, w[1] - c[1]) for w, c in zip(wide, counted, strict=True)]
    there = np.pad(there, [(0, 0), (0, 0), *rest])
    values = np.pad(values, [(0, 0), (0, 0), *wide])
    totals, counts = np.zeros((*values.shape[:2], *sizes), int), np.zeros((*values.shape[:2], *sizes), int)
    for p, q in np.ndindex(*sizes):
        place = (
            ...,
            slice(p * strides[0], p * strides[0] + window[0]),
            slice(q * strides[1], q * strides[1] + window[1]),
        )
        totals[:, :, p, q], counts[:, :, p, q] = values[place].sum((2, 3)), there[place].sum((2, 3))
    return totals, counts


@pytest.mark.parametrize(
    ("of", "said"),
    [
        (case("GroupQueryAttention", "q k v - - l t", dict.fromkeys("qkv", X) | {"l": np.zeros(2, I32),
            "t": np.asarray(3, I32)},
              num_heads=2, kv_num_heads=2), "`t` decides sizes or steps"),
        (case("MatMulNBits", "x w s", {"x": X, "w": bytes_of(U8, 3, 1, 4)}, {"s": drawn(3)}, K=8, N=3, bits=4,
            block_size=8),
         "`w` decides sizes or steps"),
        (nbits("x w s", 4, 16, 48, weight_prepacked=1), "or prepacked ones, have no kernel here"),
        (case("MatMulNBits", "x w s", {"x": X}, {"w": bytes_of(U8, 3, 1, 8), "s": drawn(3)}, K=16, N=3, bits=4,
            block_size=16),
         "rows of [2, 3, 8] for weights of 16 rows"),
        (case("RotaryEmbedding", "x p c s", {"x": X, "p": IDS.astype(int)}, {"c": COS, "s": SIN}, scale=2.0),
         "its attribute `scale` of 2.0"),
        (case("MultiHeadAttention", "q", {"q": X}, num_heads=2), "no key, or no value"),
        (case("MultiHeadAttention", "q k v - m", {"q": X, "k": X, "v": X, "m": np.zeros(8, I32)}, num_heads=2),
         "a mask of the sizes [8] for 3 rows and 3 keys"),
        (case("QMoE", "x", {"x": X}), "the operator QMoE of the domain `com.microsoft` has no kernel here"),
    ],
    ids=range(8),
)  # fmt: skip
def test_what_is_not_computed_is_refused_with_its_cause(of: Case, said: str) -> None:
    (finding, *_) = imported(model_of(of)).findings
    assert f"`n0` ({RUNTIMES}.{of[0]}) is not taken: " in finding.message
    assert said in finding.message
