"""A kernel's text edited until an instruction performs it: the nearest refusal that has such edits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from isamap.driver.matching import match_kernel
from isamap.driver.request import Size
from isamap.driver.sizes import complete_sizes
from isamap.machine import Machine
from isamap.match import CountMode, Fix, Rejection, fixes, refusals
from isamap.report.facts import Matched
from isamap.source import Source

MOST = 32
"""Refusals with edits whose edits are tried, the nearest first."""


@dataclass(frozen=True, slots=True)
class Fixed:
    """The fix that was chosen, and what matches the kernel now."""

    fix: Fix
    matched: Matched


def fix_kernel(
    source: Source,
    machine: Machine,
    sizes: Mapping[str, Size] | None = None,
    mode: CountMode = "complete",
    instruction: str | None = None,
) -> Fixed | None:
    """The kernel with the nearest refusal answered, of one instruction or of any; None without a known edit.

    Statements that nothing performs come first, and edits that leave the result what it is before others.
    Raises: IsamapError where the kernel's text is wrong.
    """
    matched = match_kernel(source, machine, sizes, mode)
    found = _first_fix(matched, _candidates(matched, instruction), sizes or {})
    if found is None:
        return None
    return Fixed(found, match_kernel(Source(source.name, found.text), machine, sizes, mode))


def _candidates(matched: Matched, instruction: str | None) -> list[Rejection]:
    """Refusals with edits, those of statements that nothing performs first, else in their order."""
    found = refusals(matched.kernel, matched.machine, matched.mappings)
    own = [r for r in found if r.edits and instruction in (None, r.instruction)]
    return sorted(own, key=lambda r: r.statement not in matched.unperformed)[:MOST]


def _first_fix(matched: Matched, candidates: list[Rejection], sizes: Mapping[str, Size]) -> Fix | None:
    """The first fix that keeps the result, or else the first."""
    values = complete_sizes(matched.kernel, sizes) if sizes else None
    other: Fix | None = None
    for candidate in candidates:
        for fix in fixes(matched.kernel, matched.machine, (candidate,), values):
            if fix.keeps_result:
                return fix
            other = other or fix
    return other
