"""How many mappings there are: of a statement, of an instruction, of a kernel.

A statement that only copies or fills (`T[i] = X[i]`, `T[i] = 0`) is performed by moves. Its mappings are
counted with it, and not with the kernel: what a kernel's count says is in how many ways it is computed. A
mapping of several statements counts with each of them, and once with the kernel.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from isamap.ir import Call, Cast, Expr, Instruction
from isamap.machine import Machine
from isamap.match import GroupMapping, is_simple
from isamap.match import Mapping as Found
from isamap.match.patterns.pattern import patterns_of
from isamap.transform import Statement, reads


@dataclass(frozen=True, slots=True)
class Tally:
    """Numbers of mappings by kind; those in which some operand is itself computed are apart (`composed`)."""

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
        """All but the composed ones."""
        return self.count + self.split + self.degenerate

    def as_json(self) -> dict[str, int]:
        return {
            "count": self.count,
            "split": self.split,
            "degenerate": self.degenerate,
            "composed": self.composed,
        }


NONE = Tally()


def tally(mappings: Iterable[Found]) -> Tally:
    """The numbers of some mappings."""
    plain = {"whole": 0, "split": 0, "degenerate": 0}
    composed = 0
    for m in mappings:
        if m.composed:
            composed += 1
        else:
            plain[m.kind] += 1
    return Tally(plain["whole"], plain["split"], plain["degenerate"], composed)


def tally_groups(groups: Sequence[GroupMapping]) -> Tally:
    """The numbers of some mappings that perform several statements at once, each counted once."""
    kinds = [g.kind for g in groups if not any(p.composed for p in g.parts)]
    composed = sum(any(p.composed for p in g.parts) for g in groups)
    return Tally(kinds.count("whole"), kinds.count("split"), kinds.count("degenerate"), composed)


def by_instruction(mappings: Iterable[Found], groups: Iterable[GroupMapping] = ()) -> dict[str, Tally]:
    """The numbers of each instruction that occurs, in the order in which they do, groups last."""
    grouped: dict[str, list[Found]] = {}
    for m in mappings:
        grouped.setdefault(m.instruction, []).append(m)
    found = {name: tally(own) for name, own in grouped.items()}
    for g in groups:
        found[g.instruction] = found.get(g.instruction, NONE) + tally_groups((g,))
    return found


def total(tallies: Iterable[Tally]) -> Tally:
    """The sum of some numbers."""
    found = NONE
    for one in tallies:
        found = found + one
    return found


def computed(
    statements: Sequence[Statement], mappings: Iterable[Found], groups: Iterable[GroupMapping] = ()
) -> Tally:
    """The kernel's numbers: those of all statements that compute, or of all where none does."""
    kept = {n for n, s in enumerate(statements) if is_computing(s)} or set(range(len(statements)))
    together = tally_groups([g for g in groups if not kept.isdisjoint(g.statements)])
    return tally(m for m in mappings if m.statement in kept) + together


def is_computing(statement: Statement) -> bool:
    """Whether a statement does more than copy, convert or fill."""
    return statement.assign.op is not None or not is_simple(statement.assign.value)


def computing_instructions(machine: Machine) -> tuple[str, ...]:
    """The names of all instructions that do more than move, arrange, convert or fill, in their order."""
    return tuple(i.name for i in machine.instructions.values() if _computes(i.instruction))


def _computes(instruction: Instruction) -> bool:
    return any(p.statement.assign.op is not None or not _is_moved(p.value) for p in patterns_of(instruction))


def _is_moved(expr: Expr) -> bool:
    """Whether an expression is some element as it stands, whichever: `select(h == 0, a[i], b[i])`."""
    match expr:
        case Call("select", (which, first, second)):
            return not reads(which) and _is_moved(first) and _is_moved(second)
        case Cast(value):
            return _is_moved(value)
        case _:
            return is_simple(expr)
