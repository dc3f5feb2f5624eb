"""The matcher beside trying everything, on one instruction and one kernel given as texts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace

from brute_force import Answer, Found, all_mappings
from unit.matching import instruction, mappings

from isamap.ir import Index, Instruction, Kernel, bind, substitute_expr
from isamap.match import CountMode, Mapping
from isamap.match.patterns.unify import Binding
from isamap.source import Source
from isamap.syntax import parse_kernel

MODES: tuple[CountMode, ...] = ("complete", "fixed")
Everything = Callable[[Instruction, Kernel], tuple[Answer, Answer]]


@dataclass(frozen=True)
class Compared:
    """What one side alone has found, or the matcher twice, with the mode; and how many there are in each."""

    missing: list[tuple[CountMode, Found]]
    extra: list[tuple[CountMode, Found]]
    twice: list[tuple[CountMode, Found]]
    counts: tuple[int, ...]
    kinds: Counter[str]


def compare(instruction_text: str, kernel_text: str, everything: Everything = all_mappings) -> Compared:
    """Return both sides, complete and fixed. Raises: TypeProblem for texts that mean nothing."""
    pattern, kernel = instruction(instruction_text), parse_kernel(Source("kernel.ir", kernel_text))
    result = Compared([], [], [], (), Counter())
    counts: list[int] = []
    for mode, expected in zip(MODES, everything(pattern.instruction, kernel), strict=True):
        found = Counter(as_found(m).images(pattern.instruction) for m in mappings(pattern, kernel, mode=mode))
        result.missing.extend((mode, _one(m)) for m in expected - found.keys())
        result.extra.extend((mode, _one(m)) for m in found.keys() - expected)
        result.twice.extend((mode, _one(m)) for m, times in found.items() if times > 1)
        counts.append(len(expected))
        result.kinds.update(_one(m).kind for m in expected if mode == "complete")
    return Compared(result.missing, result.extra, result.twice, tuple(counts), result.kinds)


def found_without_sizes(
    instruction_text: str, kernel_text: str, sizes: dict[str, int]
) -> tuple[set[frozenset[Found]], Answer]:
    """Return what the matcher finds while sizes are open, and what there is for these sizes; nothing degenerate.

    An axis that is empty because some size might not allow anything there may be filled for another one.
    Raises: TypeProblem for texts that mean nothing.
    """
    pattern, kernel = instruction(instruction_text), parse_kernel(Source("kernel.ir", kernel_text))
    found = [
        replace(m, bindings=_bound(m, sizes)) for m in mappings(pattern, kernel) if m.kind != "degenerate"
    ]
    there = all_mappings(pattern.instruction, bind(kernel, sizes))[0]
    images = {as_found(m).images(pattern.instruction) for m in found}
    return images, {m for m in there if _one(m).kind != "degenerate"}


def _bound(mapping: Mapping, sizes: dict[str, int]) -> tuple[Binding, ...]:
    indices = {n: Index.of(v) for n, v in sizes.items()}
    return tuple(replace(b, subject=substitute_expr(b.subject, indices)) for b in mapping.bindings)


def as_found(mapping: Mapping) -> Found:
    """Return what the matcher says, in the words of the definition."""
    return Found(
        mapping.kind,
        frozenset((b.name, b.pattern, b.subject) for b in mapping.bindings),
        frozenset((frozenset(g.instruction_axes), frozenset(g.kernel_axes)) for g in mapping.groups),
        frozenset(mapping.empty),
    )


def _one(images: frozenset[Found]) -> Found:
    return min(images, key=repr)
