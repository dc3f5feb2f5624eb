"""A second opinion on each shipped kernel: a function of numpy that computes what the kernel's name says.

    REFERENCES["gemm_f32"].of({"A": a, "B": b, "C": c}, {"M": 2, "N": 3, "K": 4})  ->  {"C": c + a @ b}

The functions take floats as float64 and integers as int64. They share nothing with isamap.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from math import erf
from typing import Any

import numpy as np

Array = Any
Arrays = dict[str, Array]
Sizes = dict[str, int]
Reference = Callable[[Arrays, Sizes], Arrays]
EPS = 1e-5
ZERO = 3.0
SCALE = 0.0625
SCALARS = {"eps": EPS, "zero": ZERO, "scale": SCALE}
"""The scalars that kernels take, by name."""


@dataclass(frozen=True)
class Row:
    """A kernel's reference, and the sizes at which the two are compared: `M=2 N=3` in each text."""

    of: Reference
    at: tuple[str, ...]
    approximated: bool = False
    """Whether the kernel calls a function that is a polynomial of f32, also where nothing is rounded."""

    @property
    def sizes(self) -> list[Sizes]:
        """The sizes as numbers."""
        return [{n: int(v) for n, _, v in (word.partition("=") for word in text.split())} for text in self.at]


# --- products --------------------------------------------------------------------------------------------


def product(subscripts: str, *factors: str, into: str) -> Reference:
    return lambda a, _: {into: a[into] + np.einsum(subscripts, *(a[name] for name in factors))}


def quantised(a: Arrays, _: Sizes) -> Arrays:
    """Scale sums in f32, round them to even, add the zero point and saturate."""
    low, high, zero = (0, 255, ZERO) if "offset" in a else (-128, 127, 0)
    sums = (a.get("offset", 0) + a["A"] @ a["B"]).astype(np.int32).astype(np.float32)
    scale = np.float32(a.get("scale", SCALE))
    return {
        "C": np.clip(np.nan_to_num(np.rint(sums * scale), posinf=np.inf, neginf=-np.inf) + zero, low, high)
    }


def weights_of_4_bits(a: Arrays, _: Sizes) -> Arrays:
    weights = np.stack([a["B"] & 15, a["B"] >> 4], axis=2) - 8.0
    return {"C": a["C"] + np.einsum("mghp,ghpn->mn", a["A"], weights * a["scale"][:, None, None])}


def blocks_of_32(bits: int) -> Reference:
    """Multiply dequantised activations by dequantised weights; the given sums count, whatever A has."""
    middle = 1 << (bits - 1)

    def of(a: Arrays, _: Sizes) -> Arrays:
        codes = np.stack([a["B"] & 15, a["B"] >> 4], axis=2) if bits == 4 else a["B"][:, :, None]
        products = np.einsum(
            "bgpqnk,gmpqk->gmbn", codes, a["A"].reshape(*a["A"].shape[:2], *codes.shape[2:4], 4)
        )
        products = (products - middle * a["sums"][:, :, None, None]).astype(np.int32)  # which wraps
        return {"C": np.einsum("gmbn,gm,bgn->mbn", products, a["A_scale"], a["B_scale"])}

    return of


def blocks_of_256(a: Arrays, _: Sizes) -> Arrays:
    """Multiply activations by weights in blocks of 256, each with eight scales and eight mins of 6 bits."""
    codes = np.stack([a["B"] & 15, a["B"] >> 4], axis=3)
    products = np.einsum("bghpqnk,ghmpqk->bghmn", codes, a["A"], dtype=np.int64)
    scaled = np.einsum("bghmn,bghn->bgmn", products, a["scales"], dtype=np.int64).astype(np.int32)
    lowest = np.einsum("ghm,bghn->bgmn", a["sums"], a["mins"], dtype=np.int64).astype(np.int32)
    values = scaled * a["d"][:, :, None] - lowest * a["dmin"][:, :, None]
    return {"C": np.einsum("bgmn,gm->mbn", values, a["A_scale"])}


def sparse(block: Callable[[Sizes], tuple[int, int]], ends: str, interleaved: bool = False) -> Reference:
    """Multiply by the dense matrix that rows of blocks make, one block after the other."""

    def of(a: Arrays, s: Sizes) -> Arrays:
        rows, columns = block(s)
        found = a["C"].copy()
        for m in range(len(a[ends]) - 1):
            for p in range(a[ends][m], a[ends][m + 1]):
                if interleaved:
                    for r in range(rows):
                        found[rows * m + r] += a["val"][p, r] * a["B"][a["col"][rows * p + r]]
                else:
                    at = columns * a["col"][p]
                    part = np.reshape(a["val"][p], (rows, columns)) @ a["B"][at : at + columns]
                    found[rows * m : rows * (m + 1)] += part
        return {"C": found}

    return of


# --- images ----------------------------------------------------------------------------------------------


def slide(
    x: Array,
    f: Array,
    strides: Sequence[int],
    dilations: Sequence[int] | None = None,
    margins: Sequence[tuple[int, ...]] = (),
) -> Array:
    """Convolve x [n, c, …] with f [k, c, …] in any number of dimensions, one tap after the other."""
    taps, dims = f.shape[2:], range(len(f.shape) - 2)
    dilations = dilations or [1] * len(taps)
    padded = np.pad(x, ((0, 0), (0, 0), *margins))
    counts = [(padded.shape[2 + d] - dilations[d] * (taps[d] - 1) - 1) // strides[d] + 1 for d in dims]
    found = np.zeros((x.shape[0], f.shape[0], *counts))
    for tap in np.ndindex(*taps):
        window = tuple(
            slice(t * dilations[d], t * dilations[d] + (counts[d] - 1) * strides[d] + 1, strides[d])
            for d, t in enumerate(tap)
        )
        found += np.einsum("nc...,kc->nk...", padded[:, :, *window], f[:, :, *tap])
    return found


def convolution(dims: int) -> Reference:
    def of(a: Arrays, s: Sizes) -> Arrays:
        margins, dilation = [(s.get("pad", 0),) * 2] * dims, [s.get("dilation", 1)] * dims
        return {"Y": a["Y"] + slide(a["X"], a["F"], [s.get("stride", 1)] * dims, dilation, margins)}

    return of


def with_channels_last(a: Arrays, s: Sizes) -> Arrays:
    p = s.get("pad", 0)
    margins = [(s.get(b, p), s.get(e, p)) for b, e in (("top", "bottom"), ("left", "right"))]
    strides, dilations = (
        [s.get(f"{what}_h", s.get(what, 1)), s.get(f"{what}_w", s.get(what, 1))]
        for what in ("stride", "dilation")
    )
    x, f = np.moveaxis(a["X"], 3, 1), a["F"].transpose(3, 2, 0, 1)
    return {"Y": a["Y"] + np.moveaxis(slide(x, f, strides, dilations, margins), 1, 3)}


def in_groups(split: Callable[[Array, Array, int], tuple[Array, Array]], groups: str) -> Reference:
    """Convolve each group by itself, and stack the results behind the batch."""

    def of(a: Arrays, s: Sizes) -> Arrays:
        found = [
            slide(*split(a["X"], a["F"], g), [s.get("stride", 1)] * 2, None, [(s.get("pad", 0),) * 2] * 2)
            for g in range(s[groups])
        ]
        return {"Y": a["Y"] + np.reshape(np.stack(found, axis=1), a["Y"].shape)}

    return of


def separable(a: Arrays, s: Sizes) -> Arrays:
    each = in_groups(lambda x, f, g: (x[:, [g]], f[None, [g]]), "C")
    shape = (a["X"].shape[0], s["C"], *a["Y"].shape[2:])
    return {"Y": a["Y"] + np.einsum("ncpq,kc->nkpq", each({**a, "Y": np.zeros(shape)}, s)["Y"], a["G"])}


def spread(a: Arrays, s: Sizes) -> Arrays:
    """Add every pixel times every filter where it goes, and cut the margins off."""
    (n, _, h, w), (_, k, r, t) = a["X"].shape, a["F"].shape
    step, pad = s.get("stride", 1), s.get("pad", 0)
    y = np.zeros((n, k, (h - 1) * step + r, (w - 1) * step + t))
    for i, j in np.ndindex(h, w):
        part = np.einsum("nc,ckrs->nkrs", a["X"][:, :, i, j], a["F"])
        y[:, :, i * step : i * step + r, j * step : j * step + t] += part
    return {"Y": a["Y"] + y[:, :, pad : y.shape[2] - pad, pad : y.shape[3] - pad]}


# --- rows ------------------------------------------------------------------------------------------------


def sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def gelu(y: Array) -> Array:
    return y / 2 * (1 + np.vectorize(erf)(y / np.sqrt(2)))


def silu(y: Array) -> Array:
    return y * sigmoid(y)


def soften(x: Array) -> Array:
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def layer_norm(a: Arrays, _: Sizes) -> Arrays:
    x = a["x"] - a["x"].mean(axis=1, keepdims=True)
    return {"y": x / np.sqrt((x * x).mean(axis=1, keepdims=True) + EPS) * a["gamma"] + a["beta"]}


def rms_norm(a: Arrays, _: Sizes) -> Arrays:
    return {"y": a["x"] / np.sqrt((a["x"] ** 2).mean(axis=1, keepdims=True) + EPS) * a["gamma"]}


def linear(after: Callable[[Array, Arrays], Array]) -> Reference:
    return lambda a, _: {"y": after(a["x"] @ a["W"].T + a["b"], a)}


def gated(act: Callable[[Array], Array]) -> Reference:
    return lambda a, _: {"y": act(a["x"] @ a["W"].T) * (a["x"] @ a["V"].T)}


def attention(a: Arrays, s: Sizes) -> Arrays:
    scores = np.einsum("lhmd,lhnd->lhmn", a["Q"], a["K"]) / np.sqrt(s["D"])
    seen = np.tri(s["M"], s["N"], s["N"] - s["M"], dtype=bool) | (s.get("causal", 0) == 0)
    return {"O": np.einsum("lhmn,lhnd->lhmd", soften(np.where(seen, scores, -np.inf)), a["V"])}


# --- cells -----------------------------------------------------------------------------------------------


def gru(X: Array, W: Array, U: Array, b: Array, d: Array, h0: Array) -> Arrays:
    """Return the reset gate on the product, as cuDNN, oneDNN and PyTorch have it."""
    h, found = h0, list[Array]()
    for x in X:
        r, z = (sigmoid(x @ W[i] + b[i] + h @ U[i] + d[i]) for i in range(2))
        h = (1 - z) * np.tanh(x @ W[2] + b[2] + r * (h @ U[2] + d[2])) + z * h
        found.append(h)
    return {"Y": np.stack(found), "h": h}


def gru_reset_first(X: Array, W: Array, U: Array, b: Array, h0: Array) -> Arrays:
    """Return the reset gate on the state, as Cho et al. (2014) have it."""
    h, found = h0, list[Array]()
    for x in X:
        r, z = (sigmoid(x @ W[i] + b[i] + h @ U[i]) for i in range(2))
        h = (1 - z) * np.tanh(x @ W[2] + b[2] + (r * h) @ U[2]) + z * h
        found.append(h)
    return {"Y": np.stack(found), "h": h}


def lstm(X: Array, W: Array, U: Array, b: Array, h0: Array, c0: Array) -> Arrays:
    h, c, found = h0, c0, list[Array]()
    for x in X:
        i, f, g, o = (x @ W[a] + h @ U[a] + b[a] for a in range(4))
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
        found.append(h)
    return {"Y": np.stack(found), "h": h, "c": c}


def rnn(X: Array, W: Array, U: Array, b: Array, h0: Array, act: Callable[[Array], Array]) -> Arrays:
    h, found = h0, list[Array]()
    for x in X:
        h = act(x @ W + h @ U + b)
        found.append(h)
    return {"Y": np.stack(found), "h": h}


def both(cell: Callable[..., Arrays], X: Array, **of_ways: Array) -> Arrays:
    """Return the way forward, and beside it the way back."""
    given = ({name: array[way] for name, array in of_ways.items()} for way in range(2))
    there, back = (cell(X=x, **own) for x, own in zip((X, X[::-1]), given, strict=True))
    states = {name: np.stack([there[name], back[name]]) for name in there if name != "Y"}
    return {"Y": np.concatenate([there["Y"], back["Y"][::-1]], axis=2)} | states


def in_bytes(x: Array, largest: Array) -> Array:
    """Return the 127ths of the largest value that are next to x, as values."""
    return np.clip(np.nan_to_num(np.rint(127 * x / largest)), -128, 127) * largest / 127


def gru_s8(X: Array, W: Array, U: Array, p: Array, q: Array, b: Array, d: Array, h0: Array) -> Arrays:
    w, u = W * p[:, None] / 127, U * q[:, None] / 127
    h, found = h0, list[Array]()
    for x in in_bytes(X, np.maximum(np.abs(X).max(2, keepdims=True), 1e-30)):
        s = in_bytes(h, 1)
        r, z = (sigmoid(x @ w[i] + b[i] + s @ u[i] + d[i]) for i in range(2))
        h = (1 - z) * np.tanh(x @ w[2] + b[2] + r * (s @ u[2] + d[2])) + z * h
        found.append(h)
    return {"Y": np.stack(found), "h": h}


def lstm_s8(X: Array, W: Array, U: Array, p: Array, q: Array, b: Array, h0: Array, c0: Array) -> Arrays:
    w, u = W * p[:, None] / 127, U * q[:, None] / 127
    h, c, found = h0, c0, list[Array]()
    for x in in_bytes(X, np.maximum(np.abs(X).max(2, keepdims=True), 1e-30)):
        s = in_bytes(h, 1)
        i, f, g, o = (x @ w[a] + s @ u[a] + b[a] for a in range(4))
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
        found.append(h)
    return {"Y": np.stack(found), "h": h, "c": c}


ONE_WAY: dict[str, Callable[..., Arrays]] = {
    "gru": gru,
    "gru_reset_first": gru_reset_first,
    "lstm": lstm,
    "rnn_relu": partial(rnn, act=lambda x: np.maximum(x, 0)),
    "rnn_tanh": partial(rnn, act=np.tanh),
}
TWO_WAYS = {f"{name}_bidirectional": partial(both, ONE_WAY[name]) for name in ("gru", "lstm", "rnn_tanh")}
FLOATS = ONE_WAY | TWO_WAYS
CELLS = (
    FLOATS | {f"{name}_bf16": cell for name, cell in FLOATS.items()} | {"gru_s8": gru_s8, "lstm_s8": lstm_s8}
)
"""Functions of a cell's inputs by name: its states after each step, and those after the last."""

# --- the table -------------------------------------------------------------------------------------------


def _gemms() -> dict[str, Row]:
    forms = {"": "mk,kn->mn", "nt_": "mk,nk->mn", "tn_": "km,kn->mn"}
    types = ("f32", "f64", "bf16", "bf16_f32", "u8s8", "s8s8")
    at = ("M=1 N=7 K=1", "M=3 N=5 K=7", "M=5 N=17 K=33")
    return {
        f"gemm_{form}{t}": Row(product(s, "A", "B", into="C"), at) for form, s in forms.items() for t in types
    }


def _both_types(name: str, of: Reference, *at: str, approximated: bool = False) -> dict[str, Row]:
    return {f"{name}_{dtype}": Row(of, at, approximated) for dtype in ("f32", "bf16")}


IMAGE = "N=2 C=3 K=5 H=6 W=7 R=3 S=2"
AT = (IMAGE, f"{IMAGE} stride=2", f"{IMAGE} stride=2 pad=1", "N=1 C=1 K=2 H=5 W=4 R=1 S=4 pad=2")
ROWS = ("M=1 N=1", "M=3 N=17")
LAYERS = ("M=1 N=1 K=1", "M=3 N=5 K=9")
HEADS = ("L=1 H=1 M=1 N=1 D=1", "L=2 H=3 M=4 N=6 D=5")

REFERENCES: dict[str, Row] = {
    **_gemms(),
    "gemm_f16": Row(product("mk,kn->mn", "A", "B", into="C"), LAYERS),
    "gemm_bias_relu_f32": Row(lambda a, _: {"C": np.maximum(a["A"] @ a["B"] + a["bias"], 0)}, LAYERS),
    "gemm_u8s8_requant": Row(quantised, LAYERS),
    "gemm_s8s8_requant": Row(quantised, LAYERS),
    "gemm_q4_0": Row(blocks_of_32(4), ("M=2 N=1 G=3", "M=1 N=2 G=1")),
    "gemm_q4_k": Row(blocks_of_256, ("M=2 N=1 G=3", "M=1 N=2 G=1")),
    "gemm_q8_0": Row(blocks_of_32(8), ("M=2 N=1 G=3", "M=1 N=2 G=1")),
    "gemm_w4_f32": Row(weights_of_4_bits, ("M=2 N=3 G=2 H=4", "M=1 N=5 G=3")),
    **_both_types("gemv", product("mk,k->m", "A", "x", into="y"), "M=1 K=1", "M=5 K=17"),
    "bmm_f32": Row(product("lmk,lkn->lmn", "A", "B", into="C"), ("L=2 M=3 N=5 K=7",)),
    "three_gates": Row(product("ghd,bd->gbh", "W", "X", into="Y"), ("B=2 H=5 D=7",)),
    "contraction_abcde": Row(product("aebd,dce->abc", "X", "Y", into="Z"), ("A=2 B=3 C=4 D=5 E=6",)),
    "csr_f32": Row(sparse(lambda _: (1, 1), "row"), ("M=5 N=3 K=7 NNZ=11", "M=1 N=1 K=1 NNZ=1")),
    "sell_f32": Row(sparse(lambda s: (s["R"], 1), "slice", interleaved=True), ("M=6 N=3 K=5 P=7 R=2",)),
    "bsr_f32": Row(sparse(lambda s: (s["R"], s["S"]), "row"), ("M=6 N=3 K=8 NNZB=5 R=2 S=4",)),
    "conv1d": Row(convolution(1), ("N=2 C=3 K=4 W=9 R=3", "N=1 C=2 K=3 W=8 R=2 stride=2 pad=1")),
    "conv3d": Row(
        convolution(3),
        ("N=1 C=2 K=3 D=4 H=3 W=5 T=2 R=1 S=3", "N=2 C=1 K=2 D=4 H=3 W=5 T=3 R=2 S=1 stride=2 pad=1"),
    ),
    **dict.fromkeys(("conv2d_nchw", "conv2d_nchw_bf16"), Row(convolution(2), AT)),
    "conv2d_dilated": Row(convolution(2), (f"{IMAGE} dilation=1", f"{IMAGE} dilation=2 stride=2 pad=1")),
    **dict.fromkeys(("conv2d_nhwc", "conv2d_nhwc_bf16", "conv2d_nhwc_u8s8"), Row(with_channels_last, AT)),
    "conv2d_nhwc_pads": Row(
        with_channels_last,
        (
            f"{IMAGE} top=1 right=2",
            f"{IMAGE} stride_h=2 stride_w=3 dilation_h=2 top=1 left=3 bottom=2",
            f"{IMAGE} stride_w=2 dilation_w=3 left=1",
        ),
    ),
    "conv2d_grouped": Row(in_groups(lambda x, f, g: (x[:, g], f[g]), "G"), tuple(f"G=2 {s}" for s in AT)),
    "depthwise": Row(
        in_groups(lambda x, f, g: (x[:, [g]], f[None, [g]]), "C"),
        ("N=2 C=3 H=6 W=7 R=3 S=2 stride=2 pad=1", "N=1 C=2 H=5 W=5 R=1 S=3"),
    ),
    "depthwise_multiplier": Row(
        in_groups(lambda x, f, g: (x[:, [g]], f[g, :, None]), "C"),
        ("N=2 C=3 M=2 H=6 W=7 R=3 S=2 stride=2 pad=1", "N=1 C=2 M=3 H=5 W=5 R=1 S=3"),
    ),
    **dict.fromkeys(("depthwise_separable", "depthwise_separable_fused"), Row(separable, AT)),
    "pointwise": Row(product("nchw,kc->nkhw", "X", "F", into="Y"), ("N=2 C=3 K=5 H=4 W=3",)),
    "conv2d_transposed": Row(spread, (IMAGE, f"{IMAGE} pad=1")),
    "conv2d_transposed_strided": Row(spread, tuple(f"{IMAGE} stride={n}" for n in (1, 2, 3))),
    **_both_types("softmax", lambda a, _: {"y": soften(a["x"])}, *ROWS),
    **_both_types("layer_norm", layer_norm, *ROWS),
    **_both_types("rms_norm", rms_norm, *ROWS),
    **_both_types("linear_gelu", linear(lambda y, _: gelu(y)), *LAYERS, approximated=True),
    **_both_types("linear_silu", linear(lambda y, _: silu(y)), *LAYERS),
    **_both_types("linear_residual", linear(lambda y, a: y + a["r"]), *LAYERS),
    **_both_types("swiglu", gated(silu), *LAYERS),
    **_both_types("geglu", gated(gelu), *LAYERS, approximated=True),
    "attention": Row(attention, (*HEADS, f"{HEADS[1]} causal=1")),
    "attention_scores": Row(
        lambda a, s: {"S": np.einsum("lhmd,lhnd->lhmn", a["Q"], a["K"]) / np.sqrt(s["D"])}, HEADS
    ),
    "attention_scores_mqa": Row(
        lambda a, s: {"S": np.einsum("lhmd,lnd->lhmn", a["Q"], a["K"]) / np.sqrt(s["D"])}, HEADS
    ),
    "attention_context": Row(lambda a, _: {"O": np.einsum("lhmn,lhnd->lhmd", a["P"], a["V"])}, HEADS),
    **{
        name: Row(lambda a, _, cell=cell: cell(**a), ("T=1 N=1 C=1 H=1", "T=4 N=3 C=7 H=6"))
        for name, cell in CELLS.items()
    },
}
"""Each shipped kernel. Kernels that share a formula share a function, not a row."""
