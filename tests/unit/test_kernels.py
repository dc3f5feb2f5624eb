"""Every shipped kernel means what its name says: the interpreter against numpy, by another road."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from isamap.ir import DTYPES, Kernel, bind, interpret, interpret_magnitude
from isamap.ir.buffers import shape_of
from isamap.kernels import kernel_path, list_kernels
from isamap.source import Source
from isamap.syntax import parse_kernel
from isamap.syntax.parser import format_source

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


def test_stride_and_padding_have_defaults() -> None:
    sizes = sizes_of("N C K W R", (1, 1, 1, 5, 3))
    arrays = {"X": np.ones((1, 1, 5)), "F": np.ones((1, 1, 3)), "Y": np.zeros((1, 1, 3))}
    assert interpret(load("conv1d"), arrays, sizes)["Y"].tolist() == [[[3.0, 3.0, 3.0]]]


# --- all of them ------------------------------------------------------------------------------------------


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
