"""The C prototype of a library's function, as its description writes it.

void cblas_saxpy(int n, float alpha, const float *x, int incx, float *y, int incy)
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from isamap.source.records import dataclass

IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_WHOLE = re.compile(r"\s*void\s+([A-Za-z_][A-Za-z0-9_]*)\s*\((.*)\)\s*", re.DOTALL)
_PARAMETER = re.compile(r"(const )?([A-Za-z_][A-Za-z0-9_]*)( ?\*)? ?([A-Za-z_][A-Za-z0-9_]*)?")
WIDTHS = {
    "int": 32, "int8_t": 8, "uint8_t": 8, "int16_t": 16, "uint16_t": 16, "int32_t": 32, "uint32_t": 32,
    "int64_t": 64, "uint64_t": 64, "size_t": 64,
}  # fmt: skip
"""Bits of the types of numbers without a fraction; those with a sign hold one less."""
_OTHERS = ("float", "double", "void")


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter's type: `base`, or a pointer to it, through which nothing is written if it is const."""

    base: str
    is_pointer: bool
    is_const: bool

    @property
    def c_type(self) -> str:
        return f"{'const ' if self.is_const else ''}{self.base}{' *' if self.is_pointer else ''}"

    @property
    def most(self) -> int | None:
        """The largest number that fits; None if it is no integer."""
        if self.is_pointer or self.base not in WIDTHS:
            return None
        signed = not self.base.startswith(("u", "size"))
        return 2 ** (WIDTHS[self.base] - signed) - 1


@dataclass(frozen=True, slots=True)
class Prototype:
    """A function without result. `text` declares it."""

    name: str
    parameters: tuple[Parameter, ...]

    @property
    def text(self) -> str:
        return f"void {self.name}({', '.join(p.c_type for p in self.parameters)});"


def read_prototype(text: str, types: Mapping[str, str]) -> Prototype | str:
    """Return the prototype; `types` resolves the library's own type names. Return the error if there is one."""
    whole = _WHOLE.fullmatch(text)
    if whole is None:
        return "a prototype is `void NAME(TYPE name, …)`"
    found: list[Parameter] = []
    for part in whole[2].split(","):
        written = " ".join(part.split())
        match = _PARAMETER.fullmatch(written)
        base = types.get(match[2], match[2]) if match else ""
        if match is None or base not in (*WIDTHS, *_OTHERS) or (base == "void" and not match[3]):
            return f"`{written}` is no parameter of a known type"
        found.append(Parameter(base, bool(match[3]), bool(match[1])))
    return Prototype(whole[1], tuple(found))
