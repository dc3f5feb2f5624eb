"""Every shipped kernel means what its name says: the interpreter against numpy, by another road."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from isamap.ir import DTYPES, Kernel, bind, interpret, interpret_magnitude
from isamap.ir.buffers import shape_of
from isamap.kernels import kernel_path, list_kernels
from isamap.source import Source
from isamap.syntax import format_source, parse_kernel

Array = NDArray[Any]
Arrays = dict[str, Array]
Sizes = dict[str, int]

PRODUCTS = ((1, 1, 1), (1, 7, 1), (17, 1, 13), (3, 5, 7), (16, 16, 16), (31, 17, 127))
TYPES = ("f32", "f64", "bf16", "bf16_f32", "u8s8", "s8s8")


def load(name: str) -> Kernel:
    return parse_kernel(Source(f"{name}.ir", kernel_path(name).read_text(encoding="utf-8")))


def small_integers(kernel: Kernel, sizes: Sizes, seed: int = 0) -> Arrays:
    """Arrays of small integers, of which sums are exact in every type and order."""
    rng = np.random.default_rng(seed)
    bound = bind(kernel, sizes)
    return {
        o.name: rng.integers(0 if o.dtype.kind == "uint" else -3, 4, shape_of(o)).astype(o.dtype.numpy())
        for o in bound.operands
        if o.role in ("in", "inout")
    }


def wide(arrays: Arrays) -> Arrays:
    return {name: a.astype(np.float64) for name, a in arrays.items()}


def sizes_of(names: str, values: tuple[int, ...]) -> Sizes:
    return dict(zip(names.split(), values, strict=True))


# --- products ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("types", TYPES)
@pytest.mark.parametrize(("form", "subscripts"), [("", "mk,kn"), ("nt_", "mk,nk"), ("tn_", "km,kn")])
def test_a_gemm_is_a_matrix_product(form: str, subscripts: str, types: str) -> None:
    kernel = load(f"gemm_{form}{types}")
    for values in PRODUCTS:
        sizes = sizes_of("M N K", values)
        arrays = small_integers(kernel, sizes)
        w = wide(arrays)
        expected = w["C"] + np.einsum(f"{subscripts}->mn", w["A"], w["B"])
        found = interpret(kernel, arrays, sizes)["C"]
        assert found.dtype == kernel.operand("C").dtype.numpy()
        # bf16 holds integers up to 256 only: round the expected sums once
        assert np.array_equal(found, expected.astype(np.float32).astype(found.dtype))


def test_byte_products_reach_their_extremes() -> None:
    sizes = sizes_of("M N K", (2, 3, 65))
    a = np.full((2, 65), 255, np.uint8)
    b = np.full((65, 3), -128, np.int8)
    c = np.full((2, 3), -7, np.int32)
    found = interpret(load("gemm_u8s8"), {"A": a, "B": b, "C": c}, sizes)["C"]
    assert (found == -7 - 255 * 128 * 65).all()


def test_32_bit_sums_wrap_around() -> None:
    sizes = sizes_of("M N K", (1, 1, 2))
    arrays = {
        "A": np.full((1, 2), -128, np.int8),
        "B": np.full((2, 1), -128, np.int8),
        "C": np.full((1, 1), 2**31 - 1, np.int32),
    }
    assert interpret(load("gemm_s8s8"), arrays, sizes)["C"] == -(2**31) + 2**15 - 1


def test_bfloat16_sums_are_rounded_once() -> None:
    sizes = sizes_of("M N K", (1, 1, 1000))
    bf16 = DTYPES["bf16"].numpy()
    arrays = {"A": np.ones((1, 1000), bf16), "B": np.ones((1000, 1), bf16), "C": np.full((1, 1), 4, bf16)}
    assert interpret(load("gemm_bf16"), arrays, sizes)["C"] == np.float32(1004).astype(bf16)


CASES: dict[str, tuple[str, tuple[tuple[int, ...], ...], Callable[[Arrays, Sizes], Array]]] = {
    "gemm_bias_relu_f32": (
        "M N K",
        PRODUCTS,
        lambda a, s: np.maximum(a["A"] @ a["B"] + a["bias"], 0),
    ),
    "gemv_f32": ("M K", ((1, 1), (5, 1), (17, 131)), lambda a, s: a["y"] + a["A"] @ a["x"]),
    "gemv_bf16": ("M K", ((1, 1), (5, 1), (17, 31)), lambda a, s: a["y"] + a["A"] @ a["x"]),
    "bmm_f32": (
        "L M N K",
        ((1, 1, 1, 1), (3, 5, 1, 7), (2, 13, 11, 17)),
        lambda a, s: a["C"] + a["A"] @ a["B"],
    ),
    "pointwise": (
        "N C K H W",
        ((1, 1, 1, 1, 1), (2, 3, 5, 7, 1), (1, 13, 4, 5, 5)),
        lambda a, s: a["Y"] + np.einsum("nchw,kc->nkhw", a["X"], a["F"]),
    ),
    "attention_scores": (
        "L H M N D",
        ((1, 1, 1, 1, 1), (2, 3, 5, 7, 16), (1, 2, 3, 1, 64)),
        lambda a, s: np.einsum("lhmd,lhnd->lhmn", a["Q"], a["K"]) / np.sqrt(s["D"]),
    ),
    "attention_context": (
        "L H M N D",
        ((1, 1, 1, 1, 1), (2, 3, 5, 7, 16), (1, 2, 3, 1, 64)),
        lambda a, s: np.einsum("lhmn,lhnd->lhmd", a["P"], a["V"]),
    ),
    "attention_scores_mqa": (
        "L H M N D",
        ((1, 1, 1, 1, 1), (2, 3, 5, 7, 16), (1, 2, 3, 1, 64)),
        lambda a, s: np.einsum("lhmd,lnd->lhmn", a["Q"], a["K"]) / np.sqrt(s["D"]),
    ),
    "three_gates": (
        "B H D",
        ((1, 1, 1), (5, 7, 3), (2, 16, 33)),
        lambda a, s: a["Y"] + a["X"] @ a["W"].transpose(0, 2, 1),
    ),
    "contraction_abcde": (
        "A B C D E",
        ((1, 1, 1, 1, 1), (2, 3, 5, 7, 11), (4, 1, 3, 2, 5)),
        lambda a, s: a["Z"] + np.einsum("aebd,dce->abc", a["X"], a["Y"]),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_a_contraction_is_its_einsum(name: str) -> None:
    names, all_sizes, reference = CASES[name]
    kernel = load(name)
    for values in all_sizes:
        sizes = sizes_of(names, values)
        arrays = small_integers(kernel, sizes)
        (found,) = interpret(kernel, arrays, sizes).values()
        expected = reference(wide(arrays), sizes)
        assert np.array_equal(found, expected.astype(np.float32).astype(found.dtype))


# --- convolutions -----------------------------------------------------------------------------------------


def convolve(x: Array, f: Array, stride: int, pad: int) -> Array:
    """Grouped by nothing: x [n, c, h, w], f [k, c, r, s], by sliding windows over the padded image."""
    padded = np.pad(x, ((0, 0), (0, 0), (pad, pad), (pad, pad)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, f.shape[2:], axis=(2, 3))
    return np.einsum("ncpqrs,kcrs->nkpq", windows[:, :, ::stride, ::stride], f)


def convolve_each(x: Array, f: Array, stride: int, pad: int) -> Array:
    """One filter per channel: x [n, c, h, w], f [c, r, s]."""
    channels = [convolve(x[:, [c]], f[None, [c]], stride, pad) for c in range(x.shape[1])]
    return np.concatenate(channels, axis=1)


def nhwc(a: Arrays, stride: int, pad: int) -> Array:
    y = convolve(a["X"].transpose(0, 3, 1, 2), a["F"].transpose(3, 2, 0, 1), stride, pad)
    return a["Y"] + y.transpose(0, 2, 3, 1)


def convolve_groups(x: Array, f: Array, stride: int, pad: int) -> Array:
    """Group by group: x [n, g, c, h, w], f [g, k, c, r, s]."""
    return np.stack([convolve(x[:, g], f[g], stride, pad) for g in range(x.shape[1])], axis=1)


def mix(a: Arrays, stride: int, pad: int) -> Array:
    """Each channel convolved by a filter of its own, then all of them mixed."""
    return np.einsum("ncpq,kc->nkpq", convolve_each(a["X"], a["F"], stride, pad), a["G"])


CONVOLUTIONS: dict[str, tuple[str, Callable[[Arrays, int, int], Array]]] = {
    "conv2d_nchw": ("N C K H W R S", lambda a, t, p: a["Y"] + convolve(a["X"], a["F"], t, p)),
    "conv2d_nhwc": ("N C K H W R S", nhwc),
    "conv2d_nhwc_u8s8": ("N C K H W R S", nhwc),
    "depthwise": ("N C H W R S", lambda a, t, p: a["Y"] + convolve_each(a["X"], a["F"], t, p)),
    "depthwise_separable": ("N C K H W R S", lambda a, t, p: a["Y"] + mix(a, t, p)),
    "depthwise_separable_fused": ("N C K H W R S", lambda a, t, p: a["Y"] + mix(a, t, p)),
    "depthwise_multiplier": (
        "N C M H W R S",
        lambda a, t, p: a["Y"] + convolve_groups(a["X"][:, :, None], a["F"][:, :, None], t, p),
    ),
    "conv2d_grouped": (
        "N G C K H W R S",
        lambda a, t, p: a["Y"] + convolve_groups(a["X"], a["F"], t, p),
    ),
}


@pytest.mark.parametrize("causal", [0, 1])
def test_attention_weighs_values_by_the_softmax_of_products(causal: int) -> None:
    kernel = load("attention")
    for values in ((1, 1, 1, 1, 1), (2, 3, 5, 7, 16), (1, 2, 4, 4, 64)):
        sizes = sizes_of("L H M N D", values) | {"causal": causal}
        arrays = small_integers(kernel, sizes)
        w = wide(arrays)
        scores = np.einsum("lhmd,lhnd->lhmn", w["Q"], w["K"]) / np.sqrt(sizes["D"])
        seen = np.tri(sizes["M"], sizes["N"], sizes["N"] - sizes["M"], dtype=bool) | (causal == 0)
        weights = np.exp(np.where(seen, scores, -np.inf))
        expected = np.einsum("lhmn,lhnd->lhmd", weights / weights.sum(axis=-1, keepdims=True), w["V"])
        assert np.allclose(interpret(kernel, arrays, sizes)["O"], expected, atol=1e-5)


IMAGES = ((1, 1, 1, 1, 1, 1, 1), (2, 3, 5, 7, 6, 3, 3), (1, 4, 2, 5, 11, 5, 1), (3, 2, 7, 8, 8, 2, 4))


@pytest.mark.parametrize("name", CONVOLUTIONS)
@pytest.mark.parametrize(("stride", "pad"), [(1, 0), (1, 1), (2, 0), (2, 1), (3, 2)])
def test_a_convolution_slides_its_filters(name: str, stride: int, pad: int) -> None:
    names, reference = CONVOLUTIONS[name]
    kernel = load(name)
    for values in IMAGES:
        all_sizes = sizes_of("N C K H W R S", values) | {"G": 3, "M": 2}
        sizes = {n: all_sizes[n] for n in names.split()} | {"stride": stride, "pad": pad}
        arrays = small_integers(kernel, sizes)
        assert np.array_equal(interpret(kernel, arrays, sizes)["Y"], reference(wide(arrays), stride, pad))


@pytest.mark.parametrize(("stride", "pad"), [(1, 0), (1, 2), (3, 1)])
def test_a_convolution_over_one_dimension_slides_too(stride: int, pad: int) -> None:
    kernel = load("conv1d")
    for values in ((1, 1, 1, 1, 1), (2, 3, 5, 17, 3), (1, 4, 2, 6, 6)):
        sizes = sizes_of("N C K W R", values) | {"stride": stride, "pad": pad}
        arrays = small_integers(kernel, sizes)
        w = wide(arrays)
        padded = np.pad(w["X"], ((0, 0), (0, 0), (pad, pad)))
        windows = np.lib.stride_tricks.sliding_window_view(padded, sizes["R"], axis=2)[:, :, ::stride]
        expected = w["Y"] + np.einsum("ncpr,kcr->nkp", windows, w["F"])
        assert np.array_equal(interpret(kernel, arrays, sizes)["Y"], expected)


@pytest.mark.parametrize(("stride", "pad"), [(1, 0), (1, 1), (2, 2)])
def test_a_convolution_of_volumes_slides_in_three_dimensions(stride: int, pad: int) -> None:
    kernel = load("conv3d")
    for values in ((1, 1, 1, 1, 1, 1, 1, 1, 1), (2, 3, 2, 4, 5, 6, 3, 2, 1), (1, 2, 3, 5, 3, 4, 1, 3, 2)):
        sizes = sizes_of("N C K D H W T R S", values) | {"stride": stride, "pad": pad}
        arrays = small_integers(kernel, sizes)
        w = wide(arrays)
        padded = np.pad(w["X"], ((0, 0), (0, 0), *[(pad, pad)] * 3))
        windows = np.lib.stride_tricks.sliding_window_view(padded, w["F"].shape[2:], axis=(2, 3, 4))
        steps = windows[:, :, ::stride, ::stride, ::stride]
        expected = w["Y"] + np.einsum("ncopqtrs,kctrs->nkopq", steps, w["F"])
        assert np.array_equal(interpret(kernel, arrays, sizes)["Y"], expected)


@pytest.mark.parametrize("dilation", [1, 2, 3])
@pytest.mark.parametrize(("stride", "pad"), [(1, 0), (2, 1), (1, 4)])
def test_a_dilated_convolution_has_zeros_between_its_filters_numbers(
    dilation: int, stride: int, pad: int
) -> None:
    kernel = load("conv2d_dilated")
    for values in ((1, 1, 1, 1, 1, 1, 1), (2, 3, 5, 9, 7, 3, 3), (1, 4, 2, 8, 11, 2, 4)):
        sizes = sizes_of("N C K H W R S", values) | {"dilation": dilation, "stride": stride, "pad": pad}
        arrays = small_integers(kernel, sizes)
        w = wide(arrays)
        r, s = (dilation * (sizes[n] - 1) + 1 for n in "RS")
        spread = np.zeros((*w["F"].shape[:2], r, s))
        spread[:, :, ::dilation, ::dilation] = w["F"]
        expected = w["Y"] + convolve(w["X"], spread, stride, pad)
        assert np.array_equal(interpret(kernel, arrays, sizes)["Y"], expected)


def spread_pixels(x: Array, f: Array, stride: int) -> Array:
    """Every pixel times every filter, one pixel after the other: x [n, c, h, w], f [c, k, r, s]."""
    (n, _, h, w), (_, k, r, s) = x.shape, f.shape
    y = np.zeros((n, k, (h - 1) * stride + r, (w - 1) * stride + s))
    for i, j in np.ndindex(h, w):
        y[:, :, i * stride : i * stride + r, j * stride : j * stride + s] += np.einsum(
            "nc,ckrs->nkrs", x[:, :, i, j], f
        )
    return y


@pytest.mark.parametrize("pad", [0, 1, 2])
def test_a_transposed_convolution_spreads_its_pixels(pad: int) -> None:
    kernel = load("conv2d_transposed")
    for values in ((1, 2, 3, 4, 5, 3, 3), (2, 3, 5, 6, 4, 2, 5), (1, 1, 1, 5, 5, 1, 1)):
        sizes = sizes_of("N C K H W R S", values) | {"pad": pad}
        arrays = small_integers(kernel, sizes)
        w = wide(arrays)
        whole = spread_pixels(w["X"], w["F"], 1)
        expected = w["Y"] + whole[:, :, pad : whole.shape[2] - pad, pad : whole.shape[3] - pad]
        assert np.array_equal(interpret(kernel, arrays, sizes)["Y"], expected)


@pytest.mark.parametrize("stride", [1, 2, 3])
def test_a_strided_transposed_convolution_sums_where_pixels_overlap(stride: int) -> None:
    kernel = load("conv2d_transposed_strided")
    for values in (
        (1, 1, 1, 1, 1, 1, 1),
        (1, 2, 3, 4, 5, 3, 3),
        (2, 3, 5, 6, 4, 2, 5),
        (1, 1, 2, 5, 5, 1, 2),
    ):
        sizes = sizes_of("N C K H W R S", values) | {"stride": stride}
        arrays = small_integers(kernel, sizes)
        w = wide(arrays)
        expected = w["Y"] + spread_pixels(w["X"], w["F"], stride)
        assert np.array_equal(interpret(kernel, arrays, sizes)["Y"], expected)


def test_stride_and_padding_have_defaults() -> None:
    sizes = sizes_of("N C K W R", (1, 1, 1, 5, 3))
    arrays = {"X": np.ones((1, 1, 5)), "F": np.ones((1, 1, 3)), "Y": np.zeros((1, 1, 3))}
    assert interpret(load("conv1d"), arrays, sizes)["Y"].tolist() == [[[3.0, 3.0, 3.0]]]


# --- the recurrent unit -----------------------------------------------------------------------------------


@pytest.mark.parametrize("values", [(1, 1, 1, 1), (5, 2, 3, 4), (7, 1, 5, 3)])
def test_a_gru_runs_through_time(values: tuple[int, ...]) -> None:
    kernel, sizes = load("gru"), sizes_of("T N C H", values)
    rng = np.random.default_rng(1)
    bound = bind(kernel, sizes)
    arrays = {o.name: rng.normal(size=shape_of(o)) for o in bound.operands if o.role == "in"}
    found = interpret(kernel, arrays, sizes, exact=True)["Y"]
    rounded = wide({name: a.astype(np.float32) for name, a in arrays.items()})
    assert np.allclose(found, run_gru(**rounded), rtol=1e-12, atol=1e-12)
    assert np.allclose(interpret(kernel, arrays, sizes)["Y"], found, rtol=1e-5, atol=1e-6)


def run_gru(X: Array, W: Array, U: Array, b: Array, d: Array, h0: Array) -> Array:
    def sigmoid(v: Array) -> Array:
        return 1 / (1 + np.exp(-v))

    h, outputs = h0, list[Array]()
    for x in X:
        r = sigmoid(x @ W[0] + b[0] + h @ U[0] + d[0])
        z = sigmoid(x @ W[1] + b[1] + h @ U[1] + d[1])
        v = np.tanh(x @ W[2] + b[2] + r * (h @ U[2] + d[2]))
        h = (1 - z) * v + z * h
        outputs.append(h)
    return np.stack(outputs)


# --- all of them ------------------------------------------------------------------------------------------


def test_all_kernels_of_the_plan_are_there() -> None:
    gemms = {f"gemm_{form}{types}" for form in ("", "nt_", "tn_") for types in TYPES}
    transposed = {"conv2d_transposed", "conv2d_transposed_strided"}
    more = {"conv2d_nchw_bf16", "conv2d_nhwc_bf16", "conv2d_nhwc_pads", "gemm_f16"}
    others = {*CASES, *CONVOLUTIONS, *transposed, *more, "attention", "conv1d", "conv2d_dilated", "conv3d"}
    layers = (
        "softmax",
        "layer_norm",
        "rms_norm",
        "linear_gelu",
        "linear_silu",
        "linear_residual",
        "swiglu",
        "geglu",
    )
    rows = {f"{name}_{t}" for name in layers for t in ("f32", "bf16")}  # these: test_kernels_of_rows.py
    cells = ("gru", "gru_reset_first", "lstm", "rnn_relu", "rnn_tanh")
    both_ways = tuple(f"{c}_bidirectional" for c in ("gru", "lstm", "rnn_tanh"))
    recurrent = {f"{c}{form}" for c in (*cells, *both_ways) for form in ("", "_bf16")}
    of_bytes = {"gemm_s8s8_requant", "gemm_u8s8_requant", "gemm_w4_f32", "gru_s8", "lstm_s8"}
    sparse = {"csr_f32", "sell_f32", "bsr_f32"}  # these: test_data_indices.py
    assert set(list_kernels()) == gemms | others | rows | recurrent | of_bytes | sparse


@pytest.mark.parametrize("name", list_kernels())
def test_a_kernel_file_is_canonical_and_says_what_it_is(name: str) -> None:
    text = kernel_path(name).read_text(encoding="utf-8")
    assert format_source(Source(name, text)) == text
    assert text.startswith("# ")
    assert load(name).name == name
    assert max(map(len, text.splitlines())) <= 110


def test_an_unknown_kernel_is_a_key_error() -> None:
    with pytest.raises(KeyError, match="gem_f32"):
        kernel_path("gem_f32")


def test_the_magnitude_of_a_product_is_the_product_of_magnitudes() -> None:
    sizes = sizes_of("M N K", (5, 7, 11))
    rng = np.random.default_rng(2)
    arrays = {"A": rng.normal(size=(5, 11)), "B": rng.normal(size=(11, 7)), "C": rng.normal(size=(5, 7))}
    a, b, c = (np.abs(arrays[n].astype(np.float32).astype(np.float64)) for n in "ABC")
    found = interpret_magnitude(load("gemm_f32"), arrays, sizes)["C"]
    assert np.allclose(found, c + a @ b, rtol=1e-14)
