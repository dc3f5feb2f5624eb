"""Edit a kernel until an instruction performs it: the result of `--fix`.

    in C: bf16[M, N];  C[m, n] += A[m, k] * B[k, n]      for an instruction that widens and sums in f32:
    in C: bf16[M, N] accumulate f32;  C[m, n] += f32(A[m, k]) * f32(B[k, n])

A rejection's edits meet the condition that failed first. They are applied, and the next condition is checked,
until the instruction performs the statement. Edits that do not lead to a mapping are no fix.

It also finds the rewrites of a kernel that give a machine mappings which the kernel as written lacks.

A depthwise-separable convolution as one sum of three factors has no mapping onto a matrix multiplication.
After factorisation, its second statement has 14.
"""

from __future__ import annotations

import difflib
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from operator import le

from isamap.ir import Call, Cast, Expr, Instruction, Kernel, Operand, Range, bind
from isamap.machine import Machine
from isamap.match.mappings.enumerate import find_in_statement, statement_mappings
from isamap.match.mappings.groups import find_groups
from isamap.match.mappings.mapping import CountMode
from isamap.match.mappings.mapping import Mapping as Found
from isamap.match.patterns.pattern import pattern_of
from isamap.match.refusals.refuse import refusal
from isamap.match.refusals.rejection import LACKING, Rejection, changes_result
from isamap.match.refusals.surroundings import OfferedMoves
from isamap.source import Edit, IsamapError, Source, Span, apply_edits, dataclass
from isamap.syntax import parse_kernel
from isamap.transform import Rewrite, Statement, factorisations, reads, rewrites, statements

ROUNDS = 4
_TOKEN = re.compile(r"[A-Za-z0-9_]+|\s+|[^A-Za-z0-9_\s]")

Sizes = Mapping[str, int | Range]


@dataclass(frozen=True, slots=True)
class Fix:
    """The text of an edited kernel. An instruction that was rejected performs the edited statement.

    `edits` are the change of the original text as a whole. `keeps_result` is False if the kernel computes
    something else now; otherwise it computes the same for the sizes that it still allows, perhaps in other
    types. `mapping` is the first that there is.
    """

    rejection: Rejection
    text: str
    edits: tuple[Edit, ...]
    keeps_result: bool
    mapping: Found


def fixes(
    kernel: Kernel, machine: Machine, rejections: Iterable[Rejection], sizes: Sizes | None = None
) -> tuple[Fix, ...]:
    """Return a fix for each rejection that has one, in their order. `sizes` are bound in each fixed kernel."""
    found: list[Fix] = []
    texts: dict[str, Kernel | None] = {}
    for rejection in rejections:
        fix = _fix(kernel, machine, rejection, sizes, texts)
        if fix is not None:
            found.append(fix)
    return tuple(found)


def _fix(
    kernel: Kernel,
    machine: Machine,
    rejection: Rejection,
    sizes: Sizes | None,
    texts: dict[str, Kernel | None],
) -> Fix | None:
    """Return the fix after repeated edits, or None. `texts` caches the kernels of edited texts."""
    if kernel.span is None or not rejection.edits:
        return None
    source = kernel.span.source
    item = machine.instructions[rejection.instruction]
    before = len(statements(kernel))
    text, current, keeps = source.text, rejection, True
    for _ in range(ROUNDS):
        keeps = keeps and not changes_result(current)
        text = apply_edits(text, current.edits)
        if text not in texts:
            texts[text] = _parse_edited(Source(source.name, text), kernel.name, sizes)
        changed = texts[text]
        if changed is None:
            return None
        parts = statements(changed)
        # What initialises stands before what accumulates.
        number = rejection.statement + len(parts) - before
        mappings = tuple(_find_uses(item.instruction, changed, parts[number], number))
        again = refusal(OfferedMoves(changed, machine), item, parts[number], number, mappings)
        whole = next((m for m in mappings if m.kind != "degenerate"), None)
        if whole is not None and (again is None or again.reason in LACKING):
            return Fix(rejection, text, tuple(_changes(source, text)), keeps, whole)
        if again is None or not again.edits:
            return None
        current = again
    return None


def _parse_edited(source: Source, name: str, sizes: Sizes | None) -> Kernel | None:
    try:
        kernel = parse_kernel(source, name)
        return bind(kernel, sizes) if sizes else kernel
    except IsamapError:  # the edit is not allowed here: no fix
        return None


def _find_uses(
    instruction: Instruction, kernel: Kernel, statement: Statement, number: int
) -> Iterator[Found]:
    pattern = pattern_of(instruction)
    if pattern is not None:
        yield from find_in_statement(pattern, statement, number, kernel=kernel)


def _changes(source: Source, text: str) -> Iterator[Edit]:
    """Yield the word-by-word difference of two texts."""
    before, after = _TOKEN.findall(source.text), _TOKEN.findall(text)
    starts = [0]
    for token in before:
        starts.append(starts[-1] + len(token))
    for kind, a, b, c, d in difflib.SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        if kind != "equal":
            yield Edit(Span(source, starts[a], starts[b]), "".join(after[c:d]))


@dataclass(frozen=True, slots=True)
class Gain:
    """An instruction with more mappings onto a rewritten kernel than onto any statement as written.

    `statements` are numbers of the rewritten kernel's. `mappings` counts the whole and split mappings of its
    first statement, `before` the most that a statement as written has onto the instruction.
    """

    instruction: str
    statements: tuple[int, ...]
    mappings: int
    before: int


@dataclass(frozen=True, slots=True)
class Improvement:
    """A rewrite with its gain in mappings."""

    rewrite: Rewrite
    gains: tuple[Gain, ...]


Counts = dict[str, int]
"""Whole and split mappings by instruction."""


def improving_rewrites(
    kernel: Kernel, machine: Machine, mode: CountMode = "complete"
) -> tuple[Improvement, ...]:
    """Return the rewrites and factorisations that give some instruction more mappings.

    Rewrites come first if an instruction without any mapping gets one; then those with fewer steps, in the
    order of `factorisations` and `rewrites`. A rewrite is left out if an earlier one gains as much and leaves as
    many sums with no fewer terms.
    """
    counted, candidates = _Counted(machine, mode, {}), (*factorisations(kernel), *rewrites(kernel))
    if not candidates:
        return ()
    before = _most(counted.of(kernel, s) for s in statements(kernel))
    groups = _group_statements(kernel, machine, mode)
    found: list[Improvement] = []
    for r in candidates:
        gains = (
            *counted.gains(r.kernel, before),
            *_group_gains(groups, _group_statements(r.kernel, machine, mode)),
        )
        if gains:
            found.append(Improvement(r, gains))
    kept: list[Improvement] = []
    for candidate in sorted(found, key=_rank):
        if not any(_covers(other, candidate) for other in kept):
            kept.append(candidate)
    return tuple(kept)


def _rank(found: Improvement) -> tuple[int, int]:
    enabled = {g.instruction for g in found.gains if g.before == 0}
    return -len(enabled), len(found.rewrite.steps)


def _covers(found: Improvement, other: Improvement) -> bool:
    """Return whether an improvement gains as much as another, and its sums are neither more nor larger."""
    mine, its = _count_gained(found), _count_gained(other)
    for instruction, required in its.items():
        there = mine.get(instruction, [])
        if len(there) < len(required) or any(a < b for a, b in zip(there, required, strict=False)):
            return False
    ours, theirs = _sums(found.rewrite.kernel), _sums(other.rewrite.kernel)
    return len(ours) < len(theirs) or (len(ours) == len(theirs) and all(map(le, ours, theirs)))


def _count_gained(found: Improvement) -> dict[str, list[int]]:
    """Return the numbers of gained mappings by instruction, largest first."""
    counts: dict[str, list[int]] = {}
    for g in sorted(found.gains, key=lambda g: -g.mappings):
        counts.setdefault(g.instruction, []).append(g.mappings)
    return counts


def _sums(kernel: Kernel) -> list[Counter[str]]:
    """Return the extents of the axes of each sum. Open sizes cannot be compared."""
    sums = (s for s in statements(kernel) if s.is_reduction and s.reduction_axes)
    return sorted((Counter(str(a.extent) for a in s.axes) for s in sums), key=lambda c: -c.total())


@dataclass(frozen=True, slots=True)
class _Counted:
    """Cached mapping counts of statements. A rewrite leaves most statements unchanged."""

    machine: Machine
    mode: CountMode
    known: dict[tuple[object, ...], Counts]

    def of(self, kernel: Kernel, s: Statement) -> Counts:
        """Return the numbers of whole and split mappings of a computing statement, by instruction."""
        if not _computes(s):
            return {}
        key = (s.axes, s.assign, s.accumulator, _operands(kernel, s))
        if key not in self.known:
            found = statement_mappings(s, 0, self.machine, self.mode, kernel)
            counted = (m for m in found if m.kind != "degenerate" and not m.composed)
            self.known[key] = Counter(m.instruction for m in counted)
        return self.known[key]

    def gains(self, kernel: Kernel, before: Counts) -> Iterable[Gain]:
        """Return the gains of a rewritten kernel, by statement and instruction."""
        for number, s in enumerate(statements(kernel)):
            for instruction, count in self.of(kernel, s).items():
                if count > before.get(instruction, 0):
                    yield Gain(instruction, (number,), count, before.get(instruction, 0))


def _computes(s: Statement) -> bool:
    """Return whether a statement reduces over an axis, or applies an operation."""
    return bool(s.is_reduction and s.reduction_axes) or _operates(s.assign.value)


def _operates(e: Expr) -> bool:
    return isinstance(e, Call) or (isinstance(e, Cast) and _operates(e.value))


def _operands(kernel: Kernel, s: Statement) -> tuple[Operand, ...]:
    names = dict.fromkeys(r.buffer for r in (s.assign.target, *reads(s.assign.value)))
    return tuple(kernel.operand(n) for n in names)


def _most(given: Iterable[Counts]) -> Counts:
    found: Counts = {}
    for counts in given:
        for name, count in counts.items():
            found[name] = max(found.get(name, 0), count)
    return found


# --- instructions of several statements -------------------------------------------------------------------


def _group_statements(kernel: Kernel, machine: Machine, mode: CountMode) -> dict[str, list[tuple[int, ...]]]:
    """Return the statements that instructions of several statements perform together, for each mapping."""
    found: dict[str, list[tuple[int, ...]]] = {}
    for m in find_groups(kernel, machine, mode):
        if m.kind != "degenerate":
            found.setdefault(m.instruction, []).append(m.statements)
    return found


def _group_gains(
    before: dict[str, list[tuple[int, ...]]], after: dict[str, list[tuple[int, ...]]]
) -> Iterable[Gain]:
    for instruction, groups in after.items():
        old, new = Counter(before.get(instruction, [])), Counter(groups)
        most = max(old.values(), default=0)
        for numbers, count in new.items():
            if count > most:
                yield Gain(instruction, numbers, count, most)
