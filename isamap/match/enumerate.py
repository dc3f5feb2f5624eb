"""Every mapping of a statement onto an instruction, by signatures of axes.

A kernel axis may run on an instruction axis when the instruction axis indexes every input operand that the
kernel axis indexes, and the output exactly when the kernel axis does. Axes of the instruction with one
signature form a class; a class takes its kernel axes apart (whole) or together, cut over all of it (split).
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from isamap.ir import Assign, Index
from isamap.match.instructions import Pattern
from isamap.match.mapping import AxisGroup, CountMode, Kind, Mapping
from isamap.match.symmetry import canonical_key
from isamap.match.unify import Binding, Bindings, unify
from isamap.match.validity import elements_agree
from isamap.transform import Statement, symbols

Signature = tuple[frozenset[str], bool]


def find_in_statement(
    pattern: Pattern, statement: Statement, number: int, mode: CountMode = "complete"
) -> Iterator[Mapping]:
    """All whole, split and degenerate mappings of one instruction, each once, in a fixed order."""
    for mapping in find_candidates(pattern, statement, number, mode):
        if elements_agree(pattern, statement, mapping):
            yield mapping


def find_candidates(
    pattern: Pattern, statement: Statement, number: int, mode: CountMode = "complete"
) -> Iterator[Mapping]:
    """All that would be mappings if their elements belonged together."""
    if not heads_agree(pattern, statement):
        return
    seen: set[object] = set()
    for bindings in unify(pattern.value, statement.assign.value):
        for mapping in _assignments(pattern, statement, number, bindings):
            key = canonical_key(pattern, mapping)
            if key not in seen:
                seen.add(key)
                yield mapping
        if mode == "fixed":
            return


def heads_agree(pattern: Pattern, statement: Statement) -> bool:
    """Whether operation and result type of the two statements are the same."""
    mine, theirs = pattern.statement.assign, statement.assign
    wanted = theirs.target.dtype if theirs.op is None else statement.accumulator
    return mine.op == theirs.op and mine.target.dtype == wanted and mine.value.dtype == theirs.value.dtype


def kernel_signature(axis: str, target: Assign, bindings: Bindings) -> Signature:
    """Which operands a kernel axis indexes, and whether it indexes the output."""
    inputs = frozenset(b.name for b in bindings if axis in symbols(b.subject))
    return inputs, any(axis in i.symbols for i in target.target.index)


def instruction_signature(axis: str, pattern: Pattern, bindings: Bindings) -> Signature:
    """Which operands an instruction axis indexes, and whether it indexes the output."""
    inputs = frozenset(b.name for b in bindings if any(axis in i.symbols for i in b.pattern))
    return inputs, any(axis in i.symbols for i in pattern.target.index)


def may_run_on(kernel_axis: Signature, instruction_axis: Signature) -> bool:
    """The rule of §5: operands of the kernel axis within those of the instruction axis, outputs alike."""
    return kernel_axis[0] <= instruction_axis[0] and kernel_axis[1] == instruction_axis[1]


def _assignments(
    pattern: Pattern, statement: Statement, number: int, bindings: Bindings
) -> Iterator[Mapping]:
    classes = _classes(pattern, bindings)
    kernel_axes = [a.name for a in statement.axes if a.extent.value != 1]
    options: list[list[tuple[int | None, str | None]]] = []
    for axis in kernel_axes:
        signature = kernel_signature(axis, statement.assign, bindings)
        places: list[tuple[int | None, str | None]] = [(None, None)]
        for position, (class_signature, members) in enumerate(classes):
            if may_run_on(signature, class_signature):
                places += [(position, m) for m in members]
                if len(members) > 1:
                    places.append((position, None))  # anywhere in the class: it is cut over all members
        options.append(places)
    reachable = {p for places in options for p, _ in places if p is not None}
    for chosen in product(*options):
        mapping = _mapping(pattern, number, bindings, classes, kernel_axes, chosen, reachable)
        if mapping is not None:
            yield mapping


def _classes(pattern: Pattern, bindings: Bindings) -> list[tuple[Signature, tuple[str, ...]]]:
    """Instruction axes by signature, each class ordered by the steps its axes take in the operands."""
    found: dict[Signature, list[str]] = {}
    for axis in pattern.axes:
        found.setdefault(instruction_signature(axis.name, pattern, bindings), []).append(axis.name)
    return [(s, tuple(sorted(members, key=lambda a: -_step(a, bindings)))) for s, members in found.items()]


def _step(axis: str, bindings: tuple[Binding, ...]) -> int:
    """The largest step that an axis takes in a subscript where other axes step too: k in `2*k + p`."""

    def step(index: Index) -> int:
        c = index.coefficient(axis) if axis in index.symbols and len(index.symbols) > 1 else None
        return c.value or 0 if c is not None else 0

    return max((step(i) for b in bindings for i in b.pattern), default=0)


def _mapping(
    pattern: Pattern,
    number: int,
    bindings: Bindings,
    classes: list[tuple[Signature, tuple[str, ...]]],
    kernel_axes: list[str],
    chosen: tuple[tuple[int | None, str | None], ...],
    reachable: set[int],
) -> Mapping | None:
    """The mapping of one choice of places, or None when an instruction axis stays empty without need."""
    groups: list[AxisGroup] = []
    empty: list[str] = []
    kind: Kind = "whole"
    for position, (_, members) in enumerate(classes):
        together = tuple(a for a, c in zip(kernel_axes, chosen, strict=True) if c == (position, None))
        apart = {
            m: tuple(a for a, c in zip(kernel_axes, chosen, strict=True) if c == (position, m))
            for m in members
        }
        if position not in reachable:
            empty += members
            kind = "degenerate"
        elif together:
            if any(apart.values()):
                return None
            groups.append(AxisGroup(members, together))
            kind = "split" if kind == "whole" else kind
        elif all(apart.values()):
            groups += [AxisGroup((m,), axes) for m, axes in apart.items()]
        else:
            return None
    return Mapping(pattern.name, number, bindings, tuple(groups), tuple(empty), kind)
