"""Number types: widths, ranges and exact conversions are defined here only.

`DTYPES["bf16"]` is `DType("bf16", "float", 16, 8, 8, numpy_name="bfloat16")`. Intervals, conversions and their C
follow from the row.

The module also has the words with which an instruction states how its floating-point results differ from
those of its loops.

The loops of an instruction mean: every operation rounds to nearest even, sums run in the order of the text,
subnormal numbers are numbers. Hardware that does otherwise says so: `numerics reordered, flush_inputs;`.
Kernels that are not `strict` allow all of them. A `strict` kernel allows only `one_nan`, because no
comparison distinguishes NaNs. The words also widen the bounds of a check against the hardware. The
interpreter ignores them.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Literal

import numpy as np

from isamap.source.records import dataclass

Kind = Literal["float", "int", "uint", "bool"]
CastMode = Literal["exact", "wrap", "sat", "bits"]


@dataclass(frozen=True, slots=True)
class DType:
    """A number type.

    Units: `bits` is the storage width. `mantissa_bits` counts the implicit leading one. A float without infinity
    has numbers in its largest exponent, too, and one NaN. `numpy_name` is the name in numpy or in ml_dtypes,
    if it is not the kind with the bits.
    """

    name: str
    kind: Kind
    bits: int
    mantissa_bits: int = 0
    exponent_bits: int = 0
    has_infinity: bool = True
    numpy_name: str = ""

    @property
    def is_float(self) -> bool:
        return self.kind == "float"

    @property
    def is_integer(self) -> bool:
        return self.kind in ("int", "uint")

    @property
    def size_bytes(self) -> int:
        """Bytes of one element when stored alone (sub-byte types take one byte in arrays)."""
        return max(1, self.bits // 8)

    @property
    def low(self) -> int:
        """The smallest value of an integer type."""
        return -(1 << (self.bits - 1)) if self.kind == "int" else 0

    @property
    def high(self) -> int:
        """The largest value of an integer type."""
        return (1 << (self.bits - (self.kind == "int"))) - 1

    @property
    def largest(self) -> float:
        """The largest finite value of a float type. Source: IEEE 754, and OCP 8-bit floating point, 2023."""
        last = 2.0 ** (1 - self.mantissa_bits)
        bias = (1 << (self.exponent_bits - 1)) - 1
        return (2 - last) * 2.0**bias if self.has_infinity else (2 - 2 * last) * 2.0 ** (bias + 1)

    @property
    def smallest_normal(self) -> float:
        """The smallest positive normal number of a float type."""
        return 2.0 ** (2 - (1 << (self.exponent_bits - 1)))

    @property
    def smallest_subnormal(self) -> float:
        """The smallest positive number of a float type. All numbers of the type are multiples of it."""
        return self.smallest_normal * 2.0 ** (1 - self.mantissa_bits)

    def numpy(self) -> np.dtype[np.generic]:
        """Return the numpy type that stores it (sub-byte integers in one byte, tf32 in a float32)."""
        return _numpy_dtype(self.name)

    def __str__(self) -> str:
        return self.name


DTYPES: dict[str, DType] = {
    d.name: d
    for d in (
        DType("f64", "float", 64, 53, 11),
        DType("f32", "float", 32, 24, 8),
        DType("tf32", "float", 32, 11, 8, numpy_name="float32"),
        DType("f16", "float", 16, 11, 5),
        DType("bf16", "float", 16, 8, 8, numpy_name="bfloat16"),
        DType("f8e4m3", "float", 8, 4, 4, has_infinity=False, numpy_name="float8_e4m3fn"),
        DType("f8e5m2", "float", 8, 3, 5, numpy_name="float8_e5m2"),
        *(DType(f"i{b}", "int", b) for b in (64, 32, 16, 8, 4)),
        *(DType(f"u{b}", "uint", b) for b in (64, 32, 16, 8, 4)),
        DType("bool", "bool", 8, numpy_name="bool"),
    )
}

TYPE_SETS: dict[str, tuple[DType, ...]] = {
    "any": tuple(DTYPES.values()),
    "number": tuple(d for d in DTYPES.values() if d.kind != "bool"),
    "float": tuple(d for d in DTYPES.values() if d.is_float),
    "integer": tuple(d for d in DTYPES.values() if d.is_integer),
    "logical": tuple(d for d in DTYPES.values() if d.is_integer or d.kind == "bool"),
    "signed": tuple(d for d in DTYPES.values() if d.kind == "int"),
    "unsigned": tuple(d for d in DTYPES.values() if d.kind == "uint"),
}
"""Sets of types by the words of the language: the operand types of operations, and the ranges of families."""

F64, F32, BF16, BOOL, I64 = (DTYPES[n] for n in ("f64", "f32", "bf16", "bool", "i64"))


@cache
def _numpy_dtype(name: str) -> np.dtype[np.generic]:
    dtype = DTYPES[name]
    spelled = dtype.numpy_name or f"{dtype.kind}{max(8, dtype.bits)}"
    if hasattr(np, spelled):
        return np.dtype(spelled)
    import ml_dtypes  # heavy and needed for narrow floats only

    return np.dtype(getattr(ml_dtypes, spelled))


def converts_exactly(source: DType, target: DType) -> bool:
    """Return whether every value of `source` is a value of `target`, so that a cast is exact."""
    if source == target:
        return True
    if source.kind == "bool":
        return target.kind != "bool"
    if source.is_float:
        return (
            target.is_float
            and target.mantissa_bits >= source.mantissa_bits
            and target.exponent_bits >= source.exponent_bits
        )
    if target.is_float:
        return target.mantissa_bits >= source.bits - (source.kind == "int") and target.exponent_bits >= 8
    return target.is_integer and target.low <= source.low and source.high <= target.high


def first_cast(source: DType, between: DType, target: DType, mode: CastMode) -> CastMode | None:
    """Return the mode of the first of two casts, through `between`, that equal one cast, or None if they do not.

    An exact cast may come first: i8 to f32 through i32. The second one rounds and wraps the original number.
    Numbers may be saturated or wrapped twice: f32 to i8 through i16 if that saturates, too, i32 to u8 through i16.
    """
    if between == target or mode == "bits":
        return None
    if converts_exactly(source, between):
        return "exact"
    narrows = between.is_integer and target.is_integer and (source.is_float or between.bits < source.bits)
    if mode == "sat" and narrows and converts_exactly(target, between):
        return "sat"
    return (
        "wrap" if mode == "wrap" and narrows and source.is_integer and target.bits <= between.bits else None
    )


NUMERICS: dict[str, str] = {
    "flush_inputs": "subnormal inputs count as zero",
    "flush_results": "subnormal results become zero",
    "reordered": "sums run in an order of the hardware's own",
    "unrounded": "products and partial sums keep more digits than their type; the result is rounded",
    "round_to_odd": "sums are rounded to odd instead of nearest even",
    "truncated": "sums are cut off instead of rounded to nearest even",
    "one_nan": "every NaN that is produced is the default NaN",
}
"""Each word with its meaning."""

REORDERING = frozenset(("reordered", "unrounded", "round_to_odd", "truncated"))
"""The words that say how sums differ: in their order, or in their rounding."""
FLUSHING = frozenset(("flush_inputs", "flush_results"))
"""The words that say how subnormal numbers are lost."""


def strict_forbids(words: Iterable[str]) -> tuple[str, ...]:
    """Return the words of an instruction that a `strict` kernel does not allow, in alphabetical order."""
    return tuple(sorted((REORDERING | FLUSHING).intersection(words)))
