"""ONNX's number types: their names here, and the layout of their arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from isamap.graph.graph import Array
from isamap.ir import DTYPES, DType

TYPES = {
    1: "f32",
    2: "u8",
    3: "i8",
    4: "u16",
    5: "i16",
    6: "i32",
    7: "i64",
    9: "bool",
    10: "f16",
    11: "f64",
    12: "u32",
    13: "u64",
    16: "bf16",
    17: "f8e4m3",
    18: "f8e4m3fnuz",
    19: "f8e5m2",
    20: "f8e5m2fnuz",
    21: "u4",
    22: "i4",
    23: "f4e2m1",
    24: "f8e8m0",
    25: "u2",
    26: "i2",
}
"""By the numbers of `TensorProto.DataType`; all others are of no kernel."""
NUMBERS = {name: number for number, name in TYPES.items()}

SAID = {0: "no type", 8: "string", 14: "complex64", 15: "complex128"}
"""The names of the other types."""

CODED = {
    "f8e4m3fnuz": "float8_e4m3fnuz",
    "f8e5m2fnuz": "float8_e5m2fnuz",
    "f4e2m1": "float4_e2m1fn",
    "f8e8m0": "float8_e8m0fnu",
    "u2": "uint2",
    "i2": "int2",
}
"""Types that the language does not have, with numpy's names: kernels read and write their bytes."""
_SPELLED = {"int4": "i4", "uint4": "u4"} | {name: dtype for dtype, name in CODED.items()}


def type_of(array: Array) -> str:
    """Return the name of an array's type, or "" if no kernel computes with it."""
    return _type_of(array.dtype)


def _type_of(dtype: np.dtype[Any]) -> str:
    if dtype.name in _SPELLED:
        return _SPELLED[dtype.name]
    for name, known in DTYPES.items():
        if name not in ("tf32", "i4", "u4") and known.numpy() == dtype:
            return name
    return ""


def stored_type(dtype: str) -> str:
    """Return the type in which kernels store elements of a type."""
    return ("i8" if dtype == "i2" else "u8") if dtype in CODED else dtype


def convert_stored(array: Array) -> Array:
    """Return an array in the type in which kernels store its elements."""
    dtype = _SPELLED.get(array.dtype.name, "")
    if dtype in ("i2", "u2"):
        return array.astype(DTYPES[stored_type(dtype)].numpy())
    return array.view(np.uint8) if dtype in CODED else array


def in_type(array: Array, dtype: str) -> Array:
    """Return an array converted to a type. Floats are rounded to nearest, and other values must be exact.

    Raises: ValueError with the first number that the type does not have.
    """
    if not type_of(array):
        raise ValueError(f"an array of {array.dtype} holds no numbers of the language")
    with np.errstate(all="ignore"):
        made = array.astype(DTYPES[dtype].numpy())
        fits = _fits(array, made, DTYPES[dtype])
    if not fits.all():
        raise ValueError(f"{array[~fits].flat[0]} is not a value of {dtype}")
    return made


def _fits(array: Array, made: Array, expected: DType) -> NDArray[np.bool_]:
    """Return a mask of the elements that `made` represents exactly."""
    is_whole = array.dtype.kind in "iub"
    wide, back = array.astype(np.float64), made.astype(np.float64)
    if expected.is_float and is_whole:
        beyond = 2.0 ** (8 * array.dtype.itemsize - (array.dtype.kind == "i"))
        inside = (abs(back) < beyond) | (back == -beyond)
        return inside & (np.where(inside, back, 0).astype(array.dtype) == array)
    if expected.is_float:
        same = (back == wide) | (np.isnan(back) & np.isnan(wide))
        return same | (np.isfinite(back) & np.isfinite(wide) & (back != 0))
    low, high = (expected.low, expected.high) if expected.is_integer else (0, 1)
    if is_whole:
        return (array >= low) & (array <= high)
    return (wide == np.floor(wide)) & (wide >= low) & (wide < float(high + 1))


def make_dense(array: Array, dtype: str) -> Array:
    """Return the array in the form of kernels: row-major, with a byte for each number of less than 8 bits."""
    return np.ascontiguousarray(convert_stored(array), dtype=DTYPES[stored_type(dtype)].numpy()).reshape(
        array.shape
    )


def size_bytes(dtype: str, shape: tuple[int, ...]) -> int:
    """Return the bytes that an array occupies."""
    total = DTYPES[stored_type(dtype)].size_bytes
    for size in shape:
        total *= size
    return total
