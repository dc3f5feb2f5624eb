"""The C spellings of number types: how an element is stored, in what it is computed, how a literal looks.

bf16 is stored in `uint16_t` and computed in `float`, whose values are rounded after every operation.
"""

from __future__ import annotations

from math import inf, isinf, isnan

import numpy as np

from isamap.ir import DType

_STORED = {
    "f64": "double", "f32": "float", "tf32": "float", "f16": "uint16_t", "bf16": "uint16_t",
    "f8e4m3": "uint8_t", "f8e5m2": "uint8_t", "bool": "uint8_t",
}  # fmt: skip


def storage_type(dtype: DType) -> str:
    """The C type of an element in memory."""
    if dtype.is_integer:
        return f"{'int' if dtype.kind == 'int' else 'uint'}{max(8, dtype.bits)}_t"
    return _STORED[dtype.name]


def compute_type(dtype: DType) -> str:
    """The C type in which values of a type are computed."""
    if dtype.is_float:
        return "double" if dtype.name == "f64" else "float"
    return "int" if dtype.kind == "bool" else storage_type(dtype)


def is_narrow(dtype: DType) -> bool:
    """Whether values are computed in a wider float and rounded."""
    return dtype.is_float and dtype.name not in ("f64", "f32")


def unsigned_type(dtype: DType) -> str:
    """The unsigned C type in which integers of a type are added and multiplied without overflow."""
    return f"uint{max(32, dtype.bits)}_t"


def literal(value: float | bool, dtype: DType) -> str:
    """A constant of a type as C writes it; negative ones have a sign in front."""
    if dtype.is_float:
        return _float_literal(float(value), dtype)
    number = int(value)
    if dtype.kind == "bool":
        return str(number)
    if dtype.bits == 64:
        if number == dtype.low and dtype.kind == "int":
            return "INT64_MIN"
        return f"{'INT64_C' if dtype.kind == 'int' else 'UINT64_C'}({number})"
    if dtype.name == "i32" and number == dtype.low:
        return "INT32_MIN"
    return f"{number}u" if dtype.name == "u32" else str(number)


def _float_literal(value: float, dtype: DType) -> str:
    if isnan(value):
        return "NAN"
    if isinf(value):
        return "INFINITY" if value == inf else "-INFINITY"
    if dtype.name == "f64":
        return repr(value)
    single = float(np.float32(value)) if not is_narrow(dtype) else value
    text = str(np.float32(single))
    return f"{text if any(c in text for c in '.e') else text + '.0'}f"
