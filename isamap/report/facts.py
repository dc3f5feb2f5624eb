"""What is known about the mappings of a kernel, for the views: how busy an instruction is, what it costs.

Facts are looked for one mapping at a time, when a view asks: a listing of thousands needs few of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import inf

from isamap.ir import Kernel
from isamap.machine import Machine
from isamap.match import CountMode, Pattern, pattern_of
from isamap.match import Mapping as Found
from isamap.plan.estimate import Estimate, bound_of_utilisation, estimate, numbered
from isamap.report.tally import computing_instructions
from isamap.transform import Statement, statements

KINDS = ("whole", "split", "degenerate")
ENOUGH = 2**20  # of iterations along an axis left open: what is cut off its end does not count


@dataclass(frozen=True, slots=True)
class Matched:
    """A kernel's mappings onto a machine. `sizes` are the values that costs are for, {} where left open."""

    kernel: Kernel
    machine: Machine
    mappings: tuple[Found, ...]
    mode: CountMode = "complete"
    sizes: Mapping[str, int] = field(default_factory=dict[str, int])

    @property
    def statements(self) -> tuple[Statement, ...]:
        return statements(self.kernel)

    @property
    def computing(self) -> frozenset[str]:
        """Instructions of the machine that do more than move."""
        return frozenset(computing_instructions(self.machine))

    def of_statement(self, number: int) -> tuple[Found, ...]:
        return tuple(m for m in self.mappings if m.statement == number)


@dataclass(frozen=True, slots=True)
class Facts:
    """One mapping with what was found out about it.

    `estimate` is None while sizes are open; `bound` is then what the share of busy lanes cannot exceed.
    """

    mapping: Found
    estimate: Estimate | None
    bound: float | None

    @property
    def cost_ns(self) -> float | None:
        return None if self.estimate is None else self.estimate.compute_ns


def facts_of(matched: Matched, mapping: Found) -> Facts:
    """The facts of a mapping."""
    pattern = pattern_in(matched.machine, mapping)
    statement = numbered(matched.statements[mapping.statement], matched.sizes)
    found = estimate(statement, mapping, pattern, matched.machine) if statement else None
    return Facts(mapping, found, bound_of_utilisation(mapping, pattern))


def ranked(matched: Matched, mappings: Iterable[Found]) -> list[Facts]:
    """Facts of mappings, the best first: by cost, or while sizes are open by speed where lanes are full."""
    found = [(facts_of(matched, m), m) for m in mappings]
    computing = matched.computing
    found.sort(
        key=lambda f: (
            f[1].composed,
            f[1].instruction not in computing,
            _cost(matched, f[0]),
            KINDS.index(f[1].kind),
        )
    )
    return [facts for facts, _ in found]


def _cost(matched: Matched, facts: Facts) -> float:
    if facts.cost_ns is not None:
        return facts.cost_ns
    statement = numbered(matched.statements[facts.mapping.statement], matched.sizes, ENOUGH)
    assert statement is not None, "no extent is left open"
    pattern = pattern_in(matched.machine, facts.mapping)
    found = estimate(statement, facts.mapping, pattern, matched.machine)
    return inf if found is None else found.compute_ns


def pattern_in(machine: Machine, mapping: Found) -> Pattern:
    """The pattern that a mapping is of."""
    pattern = pattern_of(machine.instructions[mapping.instruction].instruction)
    assert pattern is not None, "what maps is a pattern"
    return pattern
