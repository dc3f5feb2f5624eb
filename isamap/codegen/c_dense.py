"""Functions in two versions: one for tensors whose rows follow each other, one for any strides.

    static inline void gemm_body(const float *restrict A, ..., int64_t A_s0, ...) { ... }       always inlined
    static void gemm_dense(const float *restrict A, ...) { gemm_body(A, ..., 2048); }
    static void gemm_strided(const float *restrict A, ..., int64_t A_s0, ...) { gemm_body(A, ..., A_s0); }

Strides come with the call. Where they are what the sizes say, they are numbers to the compiler: the rows of a
register block then differ by what an address has room for, and take no registers, of which eight rows of a
product need more than there are (docs/decisions/0004-strides.md).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from isamap.codegen.c_text import identifiers
from isamap.ir import product
from isamap.lower.program import LoweredProgram

_INLINE = "static __attribute__((always_inline)) inline void"
_APART = "static __attribute__((noinline)) void"


@dataclass(frozen=True, slots=True)
class Function:
    """A C function without result, with its parameters as (declaration, identifier).

    `dense` are those that are numbers in its `dense_name` version; without any it has but one version.
    """

    name: str
    parameters: tuple[tuple[str, str], ...]
    dense: tuple[tuple[str, int], ...] = ()
    dense_name: str = ""
    strided_name: str = ""

    def text(self, body: Sequence[str]) -> list[str]:
        """The function and its versions."""
        head = _INLINE if self.dense else "static void"
        lines = [f"{head} {self.name}(\n    {_listed(self.parameters)}) {{", *body, "}"]
        if not self.dense:
            return lines
        numbers = dict(self.dense)
        free = [(declared, name) for declared, name in self.parameters if name not in numbers]
        given = ", ".join(str(numbers.get(name, name)) for _, name in self.parameters)
        every = ", ".join(name for _, name in self.parameters)
        return [
            *lines,
            "",
            f"{_APART} {self.dense_name}(\n    {_listed(free)}) {{",
            f"  {self.name}({given});",
            "}",
            "",
            f"{_APART} {self.strided_name}(\n    {_listed(self.parameters)}) {{",
            f"  {self.name}({every});",
            "}",
        ]

    def call(self, arguments: Sequence[str]) -> list[str]:
        """The statements that call it with arguments in the order of its parameters."""
        every = ", ".join(arguments)
        if not self.dense:
            return [f"{self.name}({every});"]
        by_name = dict(zip((name for _, name in self.parameters), arguments, strict=True))
        numbers = dict(self.dense)
        test = " && ".join(f"{by_name[name]} == {value}" for name, value in self.dense)
        free = ", ".join(argument for name, argument in by_name.items() if name not in numbers)
        return [
            f"if ({test}) {{",
            f"  {self.dense_name}({free});",
            "} else {",
            f"  {self.strided_name}({every});",
            "}",
        ]


def dense_strides(program: LoweredProgram, names: Mapping[str, str]) -> dict[str, int]:
    """The strides of tensors without gaps by the identifiers of their parameters. Units: elements.

    `names` are the identifiers by symbols. Strides that depend on sizes of the call are left out.
    """
    found: dict[str, int] = {}
    for tensor in program.tensors:
        for axis, stride in enumerate(tensor.strides[:-1]):
            dense = product(tensor.shape[axis + 1 :]).value
            own = [names[symbol] for symbol in stride.symbols if symbol in names]
            if dense is not None:
                found |= dict.fromkeys(own, dense)
    return found


def used_in_loops(lines: Sequence[str], passed_on: Collection[str]) -> frozenset[str]:
    """The identifiers of a function with loops, but for lines that only pass them on to others."""
    if not any(line.lstrip().startswith("for (") for line in lines):
        return frozenset()
    return identifiers(line for line in lines if line.strip() not in passed_on)


def _listed(parameters: Sequence[tuple[str, str]]) -> str:
    return ",\n    ".join(declared for declared, _ in parameters) or "void"
