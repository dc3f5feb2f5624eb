"""Parse sizes of a command line as numbers and ranges."""

from __future__ import annotations

from collections.abc import Mapping

from isamap.driver.request import Size
from isamap.ir import Kernel, Range
from isamap.source import Diagnostic, UsageProblem


def read_size(value: Size) -> int | Range:
    """Return the size for a number or the text of a range. Raises: UsageProblem for several profile values."""
    if isinstance(value, int):
        return value
    low, high, profiles = read_profiles(value)
    if len(profiles) > 1:
        raise UsageProblem(
            Diagnostic(
                "several-profiles",
                f"`{value}` has {len(profiles)} profile values, and one schedule is asked for",
                help=f"write `{low}..{high}@{profiles[-1]}`; `compile`, `run` and `verify` take several",
            )
        )
    return Range(low, high, profiles[0] if profiles else None)


def read_profiles(value: str) -> tuple[int, int, tuple[int, ...]]:
    """Return the lowest and highest value of a range, and its profile values as they are written."""
    low, _, rest = value.partition("..")
    high, _, profiles = rest.partition("@")
    return int(low), int(high), tuple(int(word) for word in profiles.split(",") if word)


def has_versions(sizes: Mapping[str, Size]) -> bool:
    """Return whether some size has several profile values: a schedule for each is asked for."""
    return any(isinstance(value, str) and "," in value for value in sizes.values())


def whole_sizes(sizes: Mapping[str, Size]) -> dict[str, Size]:
    """Return the same ranges, each with the largest of its profile values."""
    whole: dict[str, Size] = {}
    for name, value in sizes.items():
        whole[name] = value
        if isinstance(value, str) and "," in value:
            low, high, profiles = read_profiles(value)
            whole[name] = f"{low}..{high}@{max(profiles)}"
    return whole


def complete_sizes(kernel: Kernel, sizes: Mapping[str, Size]) -> dict[str, int | Range]:
    """Return the sizes given, and the defaults of the others."""
    defaults = {p.name: p.default for p in kernel.params if p.default is not None and p.dtype is None}
    return {**defaults, **{name: read_size(value) for name, value in sizes.items()}}
