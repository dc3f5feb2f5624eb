"""Inputs that indices are made of, looked through before anything is computed.

    if (!gemm_within_u16(args->col, 4096, 0, 2559)) return gemm_BAD_INDEX;

One comparison in the type of the elements tells whether one is in its range: compilers make vectors of it,
where they are allowed to, so that the check takes no longer than reading the array once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from isamap.codegen.c_names import storage_type
from isamap.ir import DType, Index
from isamap.ir.nodes import Domain
from isamap.lower.program import Tensor

_CHUNK = 4096  # elements between two looks at what was found: small enough to stop early


def domain_test(name: str, t: Tensor, domain: Domain, pointer: str, text: Callable[[Index], str]) -> str:
    """The C that is true where a tensor holds a value that it may not."""
    bounds = ", ".join(text(i) for i in (t.shape[0], domain.low, domain.high))
    return f"!{_function(name, t.dtype, ascending=domain.ascending)}({pointer}, {bounds})"


def domain_texts(name: str, tensors: Iterable[Tensor]) -> list[str]:
    """The functions that look through such tensors, one for each type and order."""
    wanted = dict.fromkeys((t.dtype, t.domain.ascending) for t in tensors if t.domain is not None)
    return [line for dtype, ascending in wanted for line in _text(name, dtype, ascending=ascending)]


def _function(name: str, dtype: DType, *, ascending: bool) -> str:
    return f"{name}_{'ascending' if ascending else 'within'}_{dtype.name}"


def _text(name: str, dtype: DType, *, ascending: bool) -> list[str]:
    element, unsigned = storage_type(dtype), f"uint{8 * dtype.size_bytes}_t"
    falls = " | (i + j > 0 && x[i + j] < x[i + j - 1])" if ascending else ""
    return [
        "#if defined(__GNUC__) && !defined(__clang__)",
        '__attribute__((optimize("tree-loop-vectorize")))',
        "#endif",
        f"static int {_function(name, dtype, ascending=ascending)}(",
        f"    const {element} *x, int64_t count, int64_t low, int64_t high) {{",
        f"  low = low < {_number(dtype.low)} ? {_number(dtype.low)} : low;",
        f"  high = high > {_number(dtype.high)} ? {_number(dtype.high)} : high;",
        "  if (count > 0 && low > high) return 0;",
        f"  const {unsigned} first = ({unsigned})low, width = ({unsigned})(high - low);",
        f"  for (int64_t i = 0; i < count; i += {_CHUNK}) {{",
        f"    const int64_t some = count - i < {_CHUNK} ? count - i : {_CHUNK};",
        f"    {unsigned} bad = 0;",
        "    for (int64_t j = 0; j < some; j++) {",
        f"      bad |= (({unsigned})(({unsigned})x[i + j] - first) > width){falls};",
        "    }",
        "    if (bad) return 0;",
        "  }",
        "  return 1;",
        "}",
        "",
    ]


def _number(value: int) -> str:
    """A limit of a type as an int64_t: of u64, what an index may be."""
    value = min(value, 2**63 - 1)
    return "INT64_MIN" if value == -(2**63) else f"INT64_C({value})"
