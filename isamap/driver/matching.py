"""A kernel's text and a machine → every mapping, with the sizes that costs are for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from isamap.driver.request import Size
from isamap.driver.sizes import complete_sizes
from isamap.ir import Kernel, Range, bind
from isamap.machine import Machine
from isamap.match import CountMode, find_groups, find_mappings
from isamap.report.facts import Matched
from isamap.source import Source
from isamap.syntax import parse_kernel
from isamap.transform import make_guards_explicit


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


def match_compiled(matched: Matched) -> Matched | None:
    """The mappings of what compilation makes of guarded statements, which have none as they stand.

    None where no statement lacks a mapping for its guard alone. Raises: NoMapping where open sizes say how
    far a fill reaches.
    """
    if not any(matched.statements[n].assign.guard for n in matched.unperformed):
        return None
    kernel = make_guards_explicit(matched.kernel)
    found, groups = (find(kernel, matched.machine, matched.mode) for find in (find_mappings, find_groups))
    compiled = replace(matched, kernel=kernel, mappings=found, groups=groups)
    return None if compiled.unperformed else compiled


def _profile(value: int | Range) -> int:
    return value if isinstance(value, int) else (value.profile or value.high)
