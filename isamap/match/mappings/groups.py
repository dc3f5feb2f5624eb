"""Instructions of several statements or outputs: all ways to perform kernel statements with one issue.

    instruction   for i in 16 { s[i] = a[i] + b[i]; d[i] = a[i] - b[i]; }
    kernel        S[n] = X[n] + Y[n];  D[n] = X[n] - Y[n];

Each statement of the instruction performs a statement of the kernel by a mapping of its own, a *part*. The
parts must agree on the expression of each operand, on the kernel axes of each instruction axis, and on the
surrounding loops. Outputs that no statement of the kernel needs may stay unused. A statement cannot be
repeated by the loops of another, so that an axis that is not common to all parts must fit into one issue.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from math import prod

from isamap.ir import Expr, Index, Instruction, Kernel
from isamap.machine import Machine
from isamap.match.mappings.enumerate import find_in_statement
from isamap.match.mappings.mapping import CountMode, Kind, Mapping, image, symmetries
from isamap.match.patterns.pattern import Pattern, pattern_of, patterns_of
from isamap.source.records import dataclass
from isamap.transform import Statement, reads, statements


@dataclass(frozen=True, slots=True)
class GroupMapping:
    """A mapping of several statements, or of some outputs of one instruction, onto one issue.

    `parts` are in the order of the instruction's statements. `unused` are outputs whose value is not used.
    """

    instruction: str
    parts: tuple[Mapping, ...]
    unused: tuple[str, ...]

    @property
    def statements(self) -> tuple[int, ...]:
        """The kernel's statements, counted from 0, in the order of the instruction's."""
        return tuple(p.statement for p in self.parts)

    @property
    def kind(self) -> Kind:
        """The lowest kind of all parts."""
        kinds = {p.kind for p in self.parts}
        return next(k for k in ("degenerate", "split", "whole") if k in kinds)

    @property
    def ident(self) -> str:
        """Canonical name, unique within a kernel."""
        parts = "; ".join(f"{p.statement}: {p.ident}" for p in self.parts)
        return f"{parts} (unused: {', '.join(self.unused)})" if self.unused else parts


@dataclass(frozen=True, slots=True)
class _Part:
    """A mapping of one part with the two statements that it joins."""

    pattern: Pattern
    statement: Statement
    mapping: Mapping

    @property
    def operands(self) -> dict[str, frozenset[tuple[tuple[Index, ...], Expr]]]:
        """The expression of each operand by subscript, in reads and writes. The output is included."""
        bindings, target = self.mapping.bindings, self.pattern.target
        found = {
            n: frozenset((b.pattern, b.subject) for b in bindings if b.name == n)
            for n in {b.name for b in bindings}
        }
        return found | {target.buffer: frozenset(((target.index, self.statement.assign.target),))}

    @property
    def loops(self) -> dict[str, Index]:
        """Kernel axes that are loops around the issue, with their extents. Unit axes need none."""
        placed = {k for ks in self.mapping.axes.values() for k in ks}
        return {a.name: a.extent for a in self.statement.axes if a.name not in placed and a.extent.value != 1}


def find_groups(kernel: Kernel, machine: Machine, mode: CountMode = "complete") -> tuple[GroupMapping, ...]:
    """Return all mappings of instructions with several statements or outputs, by instruction."""
    found: list[GroupMapping] = []
    for item in machine.instructions.values():
        if pattern_of(item.instruction) is None:
            found += groups_of(item.instruction, patterns_of(item.instruction), statements(kernel), mode)
    return tuple(found)


def groups_of(
    instruction: Instruction,
    patterns: tuple[Pattern, ...],
    kernel: tuple[Statement, ...],
    mode: CountMode = "complete",
) -> Iterator[GroupMapping]:
    """Yield all mappings of one instruction of several statements, each once."""
    found: dict[object, GroupMapping] = {}
    options = [
        [_Part(p, s, m) for n, s in enumerate(kernel) for m in find_in_statement(p, s, n, mode)]
        for p in patterns
    ]
    for chosen in _useful(instruction, patterns):
        required = {patterns[c].target.buffer for c in chosen}
        outputs = (o.name for o in instruction.operands if o.role in ("out", "inout"))
        unused = tuple(o for o in outputs if o not in required)
        for parts in _join([options[c] for c in chosen], ()):
            if _common_loops(parts) and _order_holds(parts, kernel):
                mapping = GroupMapping(instruction.name, tuple(p.mapping for p in parts), unused)
                found.setdefault(_canonical_key(instruction, chosen, mapping), mapping)
    yield from found.values()


def _canonical_key(instruction: Instruction, chosen: tuple[int, ...], mapping: GroupMapping) -> object:
    """Return the smallest key of a mapping under the symmetries of the instruction's required statements."""
    return mapping.unused, min(
        tuple((p.statement, image(p, axes, operands)) for p in mapping.parts)
        for axes, operands in symmetries(instruction, chosen)
    )


def _useful(instruction: Instruction, patterns: tuple[Pattern, ...]) -> Iterator[tuple[int, ...]]:
    """Yield the sets of an instruction's statements that may be used without the others, largest first.

    All that write one output go together. The others' outputs must be free to be overwritten and unread.
    """
    for size in range(len(patterns), 0, -1):
        for chosen in combinations(range(len(patterns)), size):
            left = [p for c, p in enumerate(patterns) if c not in chosen]
            lost = {p.target.buffer for p in left}
            kept = [patterns[c] for c in chosen]
            needed = {p.target.buffer for p in kept} | {r.buffer for p in kept for r in reads(p.value)}
            if not lost & needed and all(instruction.operand(o).role == "out" for o in lost):
                yield chosen


def _join(options: list[list[_Part]], parts: tuple[_Part, ...]) -> Iterator[tuple[_Part, ...]]:
    """Yield each combination of one mapping per part in which all parts agree."""
    if len(parts) == len(options):
        yield parts
        return
    for option in options[len(parts)]:
        if all(_agree(p, option) for p in parts):
            yield from _join(options, (*parts, option))


def _agree(one: _Part, other: _Part) -> bool:
    """Return whether two parts perform different statements, in the same ordered loops, with the same operands."""
    if one.mapping.statement == other.mapping.statement:
        return False
    if one.statement.ordered_loops != other.statement.ordered_loops:
        return False
    mine, theirs = one.operands, other.operands
    if any(mine[name] != theirs[name] for name in mine.keys() & theirs.keys()):
        return False
    axes, others = one.mapping.axes, other.mapping.axes
    return all(
        axes[j] == others[j]
        and all(one.statement.axis(k).extent == other.statement.axis(k).extent for k in axes[j])
        for j in axes.keys() & others.keys()
    )


def _common_loops(parts: tuple[_Part, ...]) -> bool:
    """Return whether the same loops surround all parts, apart from axes that need no loop in their part."""
    if any(p.loops != parts[0].loops for p in parts):
        return False
    common = frozenset(a.name for a in parts[0].pattern.axes)
    for part in parts:
        common &= {a.name for a in part.pattern.axes}
    return all(
        common.issuperset(group.instruction_axes) or _fits(part, group.instruction_axes, group.kernel_axes)
        for part in parts
        for group in part.mapping.groups
    )


def _fits(part: _Part, instruction_axes: tuple[str, ...], kernel_axes: tuple[str, ...]) -> bool:
    """Return whether the instruction's axes are long enough for the kernel's fused axes. Unknown counts as no."""
    required = [part.statement.axis(k).extent.value for k in kernel_axes]
    lengths = [_longest(part.pattern, a) for a in instruction_axes]
    if None in required or None in lengths:
        return False
    return prod(w for w in required if w is not None) <= prod(n for n in lengths if n is not None)


def _longest(pattern: Pattern, axis: str) -> int | None:
    extent = next(a.extent for a in pattern.axes if a.name == axis)
    highest = {p.name: p.high for p in pattern.instruction.params if p.high is not None}
    return extent.substitute({s: highest[s] for s in extent.symbols if s in highest}).value


def _order_holds(parts: tuple[_Part, ...], kernel: tuple[Statement, ...]) -> bool:
    """Return whether performing the parts in sequence within one issue gives the kernel's result.

    Two parts may share a written tensor only element by element and in the kernel's order. A statement
    between them in the kernel that is not a part must neither access the tensors that they write nor write
    those they read.
    """
    numbers = [p.mapping.statement for p in parts]
    for (a, one), (b, other) in combinations(list(zip(numbers, parts, strict=True)), 2):
        if not _independent(one.statement, other.statement) and (
            a > b or not _same_elements(one.statement, other.statement)
        ):
            return False
    between = [kernel[n] for n in range(min(numbers), max(numbers)) if n not in numbers]
    return all(_independent(s, p.statement) for s in between for p in parts)


def _independent(one: Statement, other: Statement) -> bool:
    """Return whether neither statement accesses a tensor that the other writes."""
    return not (
        one.assign.target.buffer in _touched_axes(other) or other.assign.target.buffer in _touched_axes(one)
    )


def _touched_axes(statement: Statement) -> set[str]:
    return {r.buffer for r in (*reads(statement.assign.value), statement.assign.target)}


def _same_elements(one: Statement, other: Statement) -> bool:
    """Return whether two statements access each written tensor at the same subscripts only."""
    written = {s.assign.target.buffer: s.assign.target.index for s in (one, other)}
    accesses = [r for s in (one, other) for r in (*reads(s.assign.value), s.assign.target)]
    return all(r.index == written[r.buffer] for r in accesses if r.buffer in written)
