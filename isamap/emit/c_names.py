"""The C types of number types: for storage, for computation, and the spelling of literals.

bf16 is stored in `uint16_t` and computed in `float`, whose values are rounded after every operation.

C identifiers for names of the language are unique in their file, and no words of C or of a header.

`CNames().take("for")` is `for_`; asking for `m.1` and then `m_1` gives `m_1` and `m_1_2`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from math import inf, isinf, isnan
from pathlib import Path

import numpy as np

from isamap.ir import DType
from isamap.source import is_device, is_digits

_WORDS = Path(__file__).with_name("reserved_names.txt").read_text(encoding="utf-8")
"""Reserved names: words of C, of the emitted text, and of C's headers (`immintrin.h` includes `stdlib.h`)."""
RESERVED = frozenset(word + of for word in _WORDS.split() for of in ("", "f", "l"))


class CNames:
    """The identifiers of one scope. They avoid those of outer scopes, of scopes inside that exist, and in `taken`."""

    def __init__(self, outer: CNames | None = None, taken: Iterable[str] = ()) -> None:
        self._outer = outer
        self._given: dict[str, str] = {}
        self._taken: set[str] = set(taken)
        self._inside: set[str] = set()

    def take(self, preferred: str) -> str:
        """Return a new identifier similar to `preferred`, and reserve it in this scope."""
        base = spell(preferred)
        name, number = base, 1
        while name in self._inside or self._is_taken(name):
            number += 1
            name = f"{base}_{number}"
        self._taken.add(name)
        self._given[preferred] = name
        scope = self._outer
        while scope is not None:
            scope._inside.add(name)
            scope = scope._outer
        return name

    def of(self, name: str) -> str:
        """Return the identifier of a name reserved here or in an outer scope."""
        found = self._given.get(name)
        if found is None:
            assert self._outer is not None, f"{name} has no identifier"
            return self._outer.of(name)
        return found

    def has(self, name: str) -> bool:
        """Return whether the name is reserved in this scope or an outer one."""
        return name in self._given or (self._outer is not None and self._outer.has(name))

    def inside(self) -> CNames:
        """Return a scope inside this one."""
        return CNames(self)

    def _is_taken(self, name: str) -> bool:
        return name in self._taken or (self._outer is not None and self._outer._is_taken(name))


def spell(preferred: str) -> str:
    """Return an identifier similar to `preferred` that is no word of C, of a header, or of a device language."""
    name = re.sub(r"[^A-Za-z0-9_]+", "_", preferred).rstrip("_") or "x"
    if is_digits(name[0]) or name[0] == "_":
        name = f"x{name}"  # C reserves names that begin with an underscore
    return f"{name}_" if name in RESERVED or name.endswith("_t") or is_device(name) else name


def storage_type(dtype: DType) -> str:
    """Return the C type of an element in memory. Floats of at most 16 bits are stored as integers."""
    if dtype.is_float and dtype.bits > 16:
        return "double" if dtype.bits == 64 else "float"
    return f"{'int' if dtype.kind == 'int' else 'uint'}{max(8, dtype.bits)}_t"


def compute_type(dtype: DType) -> str:
    """Return the C type in which values of a type are computed."""
    if dtype.is_float:
        return "double" if dtype.name == "f64" else "float"
    return "int" if dtype.kind == "bool" else storage_type(dtype)


def is_narrow(dtype: DType) -> bool:
    """Return whether values are computed in a wider float and rounded."""
    return dtype.is_float and dtype.name not in ("f64", "f32")


def unsigned_type(dtype: DType) -> str:
    """Return the unsigned C type in which integers of a type are added and multiplied without overflow."""
    return f"uint{max(32, dtype.bits)}_t"


def literal(value: float | bool, dtype: DType) -> str:
    """Return a constant of a type as C writes it. Negative ones have a sign in front."""
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
