"""Compute facts about a kernel's mappings for reports: utilisation, data movement, cost, and counts.

The search for data movement is slow, so it runs only for the mappings that a report shows.

A statement that only copies or fills (`T[i] = X[i]`, `T[i] = 0`) is performed by moves. Its mappings are
counted for the statement, but not for the kernel, whose count is the number of ways to compute it. A
mapping of several statements counts for each of them, and once for the kernel.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from math import inf

from isamap.formulate.estimate import Estimate, bound_of_utilisation, estimate, moves_ns, number_extents
from isamap.ir import Call, Cast, Expr, Instruction, Kernel
from isamap.machine import Machine
from isamap.match import Mapping as Found
from isamap.match.mappings.groups import GroupMapping
from isamap.match.mappings.mapping import CountMode, is_simple
from isamap.match.moves.chains import Movement
from isamap.match.moves.movement import movements
from isamap.match.moves.variants import MappingVariant, count_groupings, count_variants, variants
from isamap.match.patterns.pattern import pattern_of, patterns_of
from isamap.match.proofs.proof import Proof, prove
from isamap.match.tiles.operand_tiles import move_search_of
from isamap.source import add_up, asdict, dataclass, field, replace
from isamap.transform import Statement, reads, statements


@dataclass(frozen=True, slots=True)
class Tally:
    """Numbers of mappings by kind. Those with a computed operand are counted separately (`composed`)."""

    count: int = 0
    split: int = 0
    degenerate: int = 0
    composed: int = 0

    def __add__(self, other: Tally) -> Tally:
        return Tally(
            self.count + other.count,
            self.split + other.split,
            self.degenerate + other.degenerate,
            self.composed + other.composed,
        )

    def __sub__(self, other: Tally) -> Tally:
        return Tally(
            self.count - other.count,
            self.split - other.split,
            self.degenerate - other.degenerate,
            self.composed - other.composed,
        )

    def __bool__(self) -> bool:
        return self != NONE

    @property
    def plain(self) -> int:
        """The number of mappings that are not composed."""
        return self.count + self.split + self.degenerate

    def as_json(self) -> dict[str, int]:
        return asdict(self)


NONE = Tally()


def tally(mappings: Iterable[Found]) -> Tally:
    """Return the numbers of some mappings by kind."""
    plain = {"whole": 0, "split": 0, "degenerate": 0}
    composed = 0
    for m in mappings:
        if m.composed:
            composed += 1
        else:
            plain[m.kind] += 1
    return Tally(plain["whole"], plain["split"], plain["degenerate"], composed)


def tally_groups(groups: Sequence[GroupMapping]) -> Tally:
    """Return the numbers of some multi-statement mappings by kind, each counted once."""
    kinds = [g.kind for g in groups if not any(p.composed for p in g.parts)]
    composed = sum(any(p.composed for p in g.parts) for g in groups)
    return Tally(kinds.count("whole"), kinds.count("split"), kinds.count("degenerate"), composed)


def by_instruction(mappings: Iterable[Found], groups: Iterable[GroupMapping] = ()) -> dict[str, Tally]:
    """Return the numbers of each instruction in order of occurrence, groups last."""
    grouped: dict[str, list[Found]] = {}
    for m in mappings:
        grouped.setdefault(m.instruction, []).append(m)
    found = {name: tally(own) for name, own in grouped.items()}
    for g in groups:
        found[g.instruction] = found.get(g.instruction, NONE) + tally_groups((g,))
    return found


def total(tallies: Iterable[Tally]) -> Tally:
    """Return the sum of some tallies."""
    found = NONE
    for one in tallies:
        found = found + one
    return found


def is_computing(statement: Statement) -> bool:
    """Return whether a statement does more than copy, convert or fill."""
    return statement.assign.op is not None or not is_simple(statement.assign.value)


def computing_instructions(machine: Machine) -> tuple[str, ...]:
    """Return the instructions that do more than move, permute, convert or fill, in machine order."""
    return tuple(i.name for i in machine.instructions.values() if _computes(i.instruction))


def _computes(instruction: Instruction) -> bool:
    return any(p.statement.assign.op is not None or not _is_moved(p.value) for p in patterns_of(instruction))


def _is_moved(expr: Expr) -> bool:
    """Return whether an expression selects among elements without changing them: `select(h == 0, a[i], b[i])`."""
    match expr:
        case Call("select", (which, first, second)):
            return not reads(which) and _is_moved(first) and _is_moved(second)
        case Cast(value):
            return _is_moved(value)
        case _:
            return is_simple(expr)


KINDS = ("whole", "split", "degenerate")
BESIDES = 2
"""The number of further mappings whose movement is searched while sizes are open."""

COUNTED = 24
"""The number of orders of a mapping in which variants are counted: movement is searched in each."""

CLOSELY = 64
"""The most mappings whose movement is searched, unless all are requested: each takes a search."""

ENOUGH = 2**20  # of iterations along an axis left open: what is cut off its end does not count


@dataclass(frozen=True)
class Matched:
    """The mappings of a kernel onto a machine. Costs are computed for `sizes`, which are {} if open.

    `groups` are the mappings of instructions that perform several statements, or have several outputs.
    """

    kernel: Kernel
    machine: Machine
    mappings: tuple[Found, ...]
    groups: tuple[GroupMapping, ...] = ()
    mode: CountMode = "complete"
    sizes: Mapping[str, int] = field(default_factory=dict[str, int])

    @cached_property
    def statements(self) -> tuple[Statement, ...]:
        return statements(self.kernel)

    @cached_property
    def computing(self) -> frozenset[str]:
        """The instructions of the machine that do more than move."""
        return frozenset(computing_instructions(self.machine))

    @cached_property
    def look(self) -> Look:
        """The cached search for facts about mappings, which all views share."""
        return Look(self)

    def of_statement(self, number: int) -> tuple[Found, ...]:
        return tuple(m for m in self.mappings if m.statement == number)

    @cached_property
    def counts(self) -> Tally:
        """The numbers of the computing statements' mappings."""
        # The kernel's numbers: of all computing statements, or of all statements if none computes.
        kept = {n for n, s in enumerate(self.statements) if is_computing(s)} or set(
            range(len(self.statements))
        )
        together = tally_groups([g for g in self.groups if not kept.isdisjoint(g.statements)])
        return tally(m for m in self.mappings if m.statement in kept) + together

    def counts_of(self, number: int) -> dict[str, Tally]:
        """Return the numbers of one statement's mappings by instruction."""
        groups = (g for g in self.groups if number in g.statements)
        return by_instruction(self.of_statement(number), groups)

    def only(self, instruction: str | None) -> Matched:
        """Return the facts for one instruction's mappings only, or unchanged for None."""
        if instruction is None:
            return self
        return replace(
            self,
            mappings=tuple(m for m in self.mappings if m.instruction == instruction),
            groups=tuple(g for g in self.groups if g.instruction == instruction),
        )

    @cached_property
    def unperformed(self) -> tuple[int, ...]:
        """The statements that no mapping performs, alone or together with others.

        A mapping that only moves results of another instruction does not count.
        """
        performing = (m for m in self.mappings if not m.composed or m.instruction in self.computing)
        done = {m.statement for m in performing} | {n for g in self.groups for n in g.statements}
        return tuple(n for n in range(len(self.statements)) if n not in done)


@dataclass(frozen=True, slots=True)
class MappingFacts:
    """One mapping with its facts.

    While sizes are open (`is_open`) the estimate is for long axes, and only good for comparison. `bound` then
    limits the share of busy lanes. `movements` is None if it was not searched. Units: `moves_ns` of all
    tiles, None if an operand cannot be moved.
    """

    mapping: Found
    estimate: Estimate | None
    is_open: bool
    bound: float | None
    proof: Proof
    order: tuple[str, ...]
    movements: tuple[Movement, ...] | None = None
    moves_ns: float | None = None

    @property
    def utilisation(self) -> float | None:
        return None if self.is_open or self.estimate is None else self.estimate.utilisation

    @property
    def cost_ns(self) -> float | None:
        """The estimated time. It is None while sizes are open, or if the mapping cannot be executed."""
        known = not self.is_open and self.estimate is not None and self.moves_ns is not None
        return self.comparable_ns if known else None

    @property
    def comparable_ns(self) -> float:
        """The time by which mappings of one statement are ranked."""
        if self.estimate is None or (self.movements is not None and self.moves_ns is None):
            return inf
        return self.estimate.compute_ns + (self.moves_ns or 0.0)


class Look:
    """A cached search for facts about the mappings of a kernel."""

    def __init__(self, matched: Matched) -> None:
        self._matched = matched
        self._search = move_search_of(matched.kernel, matched.machine)
        self._close: dict[Found, MappingFacts] = {}

    def at(self, mapping: Found) -> MappingFacts:
        """Return all facts about a mapping except its data movement."""
        matched = self._matched
        pattern = pattern_of(matched.machine.instructions[mapping.instruction].instruction)
        assert pattern is not None, "what maps is a pattern"
        given = matched.statements[mapping.statement]
        exact = number_extents(given, matched.sizes)
        statement = exact or number_extents(given, matched.sizes, ENOUGH)
        assert statement is not None, "no extent is left open"
        found = estimate(statement, mapping, pattern, matched.machine)
        proof = prove(pattern, given, mapping, matched.kernel)
        bound = bound_of_utilisation(mapping, pattern)
        order = tuple(a.name for a in pattern.axes)
        return MappingFacts(mapping, found, exact is None, bound, proof, order)

    def closely(self, facts: MappingFacts) -> MappingFacts:
        """Return the facts, completed by the movement of each operand and its time."""
        matched, mapping = self._matched, facts.mapping
        if mapping in self._close:
            return self._close[mapping]
        statement = matched.statements[mapping.statement]
        found = movements(matched.kernel, statement, mapping, matched.machine, search=self._search)
        cost = None
        if facts.estimate is not None and all(m.kind != "none" for m in found):
            cost = add_up(moves_ns(m, statement, mapping, facts.estimate, matched.machine) for m in found)
        self._close[mapping] = replace(facts, movements=found, moves_ns=cost)
        return self._close[mapping]

    def reasons_against(self, number: int) -> dict[str, str]:
        """Return, by instruction, why its mappings of a statement cannot be executed, or {} if one may be."""
        matched = self._matched
        own, found = matched.of_statement(number), dict[str, str]()
        if len(own) > CLOSELY:
            return {}
        for facts in sorted((self.at(m) for m in own), key=self._key):
            moved = self.closely(facts).movements or ()
            missing = next((m for m in moved if m.kind == "none"), None)
            if missing is None:
                return {}
            found.setdefault(facts.mapping.instruction, missing.why)
        return found

    def variants(self, mapping: Found) -> Iterator[MappingVariant]:
        """Yield all variants of a mapping."""
        matched = self._matched
        statement = matched.statements[mapping.statement]
        return variants(matched.kernel, statement, mapping, matched.machine, search=self._search)

    def count_variants(self, mapping: Found) -> int | None:
        """Return the number of variants of a mapping, or None if it has too many orders to check."""
        if count_groupings(mapping) > COUNTED:
            return None
        matched = self._matched
        statement = matched.statements[mapping.statement]
        return count_variants(matched.kernel, statement, mapping, matched.machine, search=self._search)

    def ranked(self, mappings: Iterable[Found], few: int | None) -> list[MappingFacts]:
        """Return the facts about mappings, the best first, with movement for the best `few`, or for all.

        Movement is searched in the order of computing costs until no other mapping can be among the best few,
        because moves cost at least nothing; and only up to a limit. Before it is known, mappings with few
        fused axes come first: fused axes gather.
        """
        found = sorted((self.at(m) for m in mappings), key=self._key)
        if few is None:
            return sorted((self.closely(f) for f in found), key=self._key)
        if not few:
            return found
        limit = few + BESIDES if any(f.is_open for f in found) else CLOSELY
        looked: list[MappingFacts] = []
        for facts in found[:limit]:
            if len(looked) >= few and self._key(looked[few - 1])[:3] <= self._key(facts)[:3]:
                break
            looked = sorted((*looked, self.closely(facts)), key=self._key)
        return looked + found[len(looked) :]

    def _key(self, facts: MappingFacts) -> tuple[bool, bool, float, int, int]:
        """Return the sort key: simple before composed mappings, computing before moving ones, then by cost."""
        m = facts.mapping
        moves = m.instruction not in self._matched.computing
        fused = sum(len(g.kernel_axes) - 1 for g in m.groups)
        return m.composed, moves, facts.comparable_ns, KINDS.index(m.kind), fused
