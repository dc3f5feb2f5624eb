"""Match a kernel's text with a machine: all mappings, with the sizes for which they are priced.

Match a kernel's legal rewrites, and compare how many instructions perform each of them.

`Y[n, k, p] += X[n, c, p + r] * F[c, r] * G[k, c]` matches nothing; as two statements, the second is a matrix
product.

Edit a kernel's text until an instruction performs it, starting from the nearest refusal with edits.
"""

from __future__ import annotations

from collections.abc import Mapping

from isamap.driver.oracle import spares_operations
from isamap.driver.request import Size, complete_sizes
from isamap.ir import Kernel, Range, bind, typical_size
from isamap.machine import Machine
from isamap.match.mappings.enumerate import find_mappings
from isamap.match.mappings.groups import find_groups
from isamap.match.mappings.mapping import CountMode
from isamap.match.refusals.refuse import refusals
from isamap.match.refusals.rejection import Rejection
from isamap.match.refusals.remedies import Fix, Gain, fixes, improving_rewrites
from isamap.report.kernel_forms import KernelVariant
from isamap.report.mapping_facts import Matched
from isamap.source import Source, dataclass, replace
from isamap.syntax import parse_kernel
from isamap.transform import Rewrite, factorisations, rewrites, winograd_forms


def match_kernel(
    source: Source, machine: Machine, sizes: Mapping[str, Size] | None = None, mode: CountMode = "complete"
) -> Matched:
    """Return all mappings of a kernel. Raises: IsamapError if its text or its sizes are wrong."""
    kernel = parse_kernel(source)
    if not sizes:
        return match_parsed(kernel, machine, {}, mode)
    values = complete_sizes(kernel, sizes)
    return match_parsed(bind(kernel, values), machine, values, mode)


def match_parsed(
    kernel: Kernel, machine: Machine, sizes: Mapping[str, int | Range], mode: CountMode = "complete"
) -> Matched:
    """Return all mappings of a kernel whose sizes are bound."""
    found, groups = find_mappings(kernel, machine, mode), find_groups(kernel, machine, mode)
    profile = {name: typical_size(value) for name, value in sizes.items()}
    return Matched(kernel, machine, found, groups, mode, profile)


def forms_of(
    source: Source,
    machine: Machine,
    sizes: Mapping[str, Size] | None = None,
    mode: CountMode = "complete",
    instruction: str | None = None,
) -> tuple[KernelVariant, ...]:
    """Return the kernel as written, then its rewrites, those first that more instructions can perform.

    Raises: IsamapError if the kernel's text or a size is wrong.
    """
    kernel = parse_kernel(source)
    values = complete_sizes(kernel, sizes) if sizes else {}

    def form(rewrite: Rewrite, gains: tuple[Gain, ...]) -> KernelVariant:
        bound = bind(rewrite.kernel, values) if values else rewrite.kernel
        matched = match_parsed(bound, machine, values, mode).only(instruction)
        return KernelVariant(rewrite.kernel, rewrite.steps, gains, matched, rewrite.rounded)

    gained = {i.rewrite.kernel: i for i in improving_rewrites(kernel, machine, mode)}
    better: list[KernelVariant] = []
    for improvement in gained.values():
        own = tuple(g for g in improvement.gains if instruction in (None, g.instruction))
        if own:
            better.append(form(improvement.rewrite, own))
    seen = {kernel, *(f.kernel for f in better)}
    others: list[KernelVariant] = []
    for rewrite in (*factorisations(kernel), *rewrites(kernel), *forms_at_points(kernel, values)):
        if rewrite.kernel not in seen:
            seen.add(rewrite.kernel)
            others.append(form(rewrite, ()))
    return (form(Rewrite(kernel, ()), ()), *better, *others)


def forms_at_points(kernel: Kernel, sizes: Mapping[str, int | Range]) -> tuple[Rewrite, ...]:
    """Return the Winograd variants of a convolution with constant sizes, with the kernel's own parameters."""
    if any(isinstance(size, Range) for size in sizes.values()) or any(
        p.dtype is None and p.name not in sizes for p in kernel.params
    ):
        return ()
    bound = bind(kernel, sizes)
    return tuple(
        replace(form, kernel=replace(form.kernel, params=kernel.params))
        for form in winograd_forms(bound)
        if spares_operations(form.kernel, bound)
    )


MOST = 32
"""Refusals with edits whose edits are tried, the nearest first."""


@dataclass(frozen=True, slots=True)
class Fixed:
    """The chosen fix, and the matches of the fixed kernel."""

    fix: Fix
    matched: Matched


def fix_kernel(
    source: Source,
    machine: Machine,
    sizes: Mapping[str, Size] | None = None,
    mode: CountMode = "complete",
    instruction: str | None = None,
) -> Fixed | None:
    """Return the kernel after a fix of the nearest refusal of an instruction, or of any, or None.

    Statements that nothing performs come first, and edits that keep the result come before others. Raises:
    IsamapError if the kernel's text is wrong.
    """
    matched = match_kernel(source, machine, sizes, mode)
    found = _first_fix(matched, _candidates(matched, instruction), sizes or {})
    if found is None:
        return None
    return Fixed(found, match_kernel(Source(source.name, found.text), machine, sizes, mode))


def _candidates(matched: Matched, instruction: str | None) -> list[Rejection]:
    """Return the refusals that have edits, with statements that no instruction performs first."""
    found = refusals(matched.kernel, matched.machine, matched.mappings)
    own = [r for r in found if r.edits and instruction in (None, r.instruction)]
    return sorted(own, key=lambda r: r.statement not in matched.unperformed)[:MOST]


def _first_fix(matched: Matched, candidates: list[Rejection], sizes: Mapping[str, Size]) -> Fix | None:
    """Return the first fix that keeps the result, else the first fix, or None."""
    values = complete_sizes(matched.kernel, sizes) if sizes else None
    other: Fix | None = None
    for candidate in candidates:
        for fix in fixes(matched.kernel, matched.machine, (candidate,), values):
            if fix.keeps_result:
                return fix
            other = other or fix
    return other
