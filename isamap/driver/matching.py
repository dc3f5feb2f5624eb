"""A kernel's text and a machine → every mapping, with the sizes that costs are for."""

from __future__ import annotations

from collections.abc import Mapping

from isamap.driver.request import Size
from isamap.driver.sizes import complete_sizes
from isamap.ir import Kernel, Range, bind
from isamap.machine import Machine
from isamap.match import CountMode, find_groups, find_mappings
from isamap.report.facts import Matched
from isamap.source import Source
from isamap.syntax import parse_kernel


def match_kernel(
    source: Source, machine: Machine, sizes: Mapping[str, Size] | None = None, mode: CountMode = "complete"
) -> Matched:
    """All mappings of a kernel. Raises: IsamapError where its text or its sizes are wrong."""
    kernel = parse_kernel(source)
    if not sizes:
        return match_parsed(kernel, machine, {}, mode)
    values = complete_sizes(kernel, sizes)
    return match_parsed(bind(kernel, values), machine, values, mode)


def match_parsed(
    kernel: Kernel, machine: Machine, sizes: Mapping[str, int | Range], mode: CountMode = "complete"
) -> Matched:
    """All mappings of a kernel whose sizes are bound."""
    found, groups = find_mappings(kernel, machine, mode), find_groups(kernel, machine, mode)
    profile = {name: _profile(value) for name, value in sizes.items()}
    return Matched(kernel, machine, found, groups, mode, profile)


def _profile(value: int | Range) -> int:
    return value if isinstance(value, int) else (value.profile or value.high)
