"""Sizes as they are written on a command line, as numbers and ranges."""

from __future__ import annotations

from collections.abc import Mapping

from isamap.driver.request import Size
from isamap.ir import Kernel, Range


def read_size(value: Size) -> int | Range:
    """The size that a number or the text of a range stands for."""
    if isinstance(value, int):
        return value
    low, _, rest = value.partition("..")
    high, _, profile = rest.partition("@")
    return Range(int(low), int(high), int(profile) if profile else None)


def complete_sizes(kernel: Kernel, sizes: Mapping[str, Size]) -> dict[str, int | Range]:
    """The sizes given, and the defaults of the others."""
    defaults = {p.name: p.default for p in kernel.params if p.default is not None and p.dtype is None}
    return {**defaults, **{name: read_size(value) for name, value in sizes.items()}}
