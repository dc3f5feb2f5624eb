"""The header of packed tensors in C: written behind their elements, checked before they are read.

    if (memcmp(args->B_packed, "1f0c…", 32) != 0) return gemm_WRONG_LAYOUT;

A buffer that something else has packed, or nothing has, is refused; one that is shorter than what was packed
cannot be recognised, as for any tensor.
"""

from __future__ import annotations

from collections.abc import Callable

from isamap.lower.program import Header, Tensor


def check_lines(
    pointer: str, header: Header, refuse: Callable[[str], list[str]], size: Callable[[str], str]
) -> list[str]:
    """Statements that refuse a tensor packed otherwise. `size` is the C of a run-time size."""
    lines = refuse(f'memcmp({pointer}, "{header.layout}", {Header.DIGITS}) != 0')
    for number, name in enumerate(header.sizes):
        place = f"(const char *){pointer} + {Header.DIGITS + 8 * number}"
        lines += refuse(f"memcmp({place}, &{size(name)}, 8) != 0")
    return lines


def write_lines(pointer: str, header: Header, size: Callable[[str], str]) -> list[str]:
    """Statements that write a header, which come last: what was not packed to its end has none."""
    lines = [f"  memset({pointer}, 0, {header.size_bytes});"]
    lines.append(f'  memcpy({pointer}, "{header.layout}", {Header.DIGITS});')
    for number, name in enumerate(header.sizes):
        place = f"(char *){pointer} + {Header.DIGITS + 8 * number}"
        lines.append(f"  memcpy({place}, &{size(name)}, 8);")
    return lines


def packed_tensor(tensors: tuple[Tensor, ...]) -> Tensor | None:
    """The tensor that a packing program writes; None where it is none."""
    return next((t for t in tensors if t.header is not None and t.role != "in"), None)


def takes_packed(tensors: tuple[Tensor, ...]) -> bool:
    """Whether a program reads packed tensors, whose headers it checks."""
    return any(t.header is not None and t.role == "in" for t in tensors)
