"""Integer sets for proofs: index expressions written for isl, and questions that it answers.

    a[2*k + p] with p in 2     { (k, p, k', p') : 2k + p = 2k' + p' and 0 <= p, p' < 2 and k != k' } is empty

isl knows sums, numbers times variables, and quotients and rests by numbers. A product of two symbols is none
of these: `Affine.text` gives None for it, and the caller says what may be left out. Every question has a
limit of operations; one that is too hard is answered by None.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING

from isamap.ir import Constraint, Index
from isamap.ir.index import Atom, FloorDiv, MinMax, Mod

if TYPE_CHECKING:
    import islpy

MOST_OPERATIONS = 100_000
"""About 0.1 s."""


@dataclass
class Names:
    """Symbols as isl may read them, each the same wherever it occurs."""

    known: dict[str, str] = field(default_factory=dict[str, str])

    def of(self, symbol: str) -> str:
        return self.known.setdefault(symbol, f"v{len(self.known)}")

    def text(self, index: Index) -> str | None:
        """An index expression; None when it is not affine."""
        parts: list[str] = []
        for monomial, coefficient in index.terms:
            if len(monomial) > 1:
                return None
            factor = self._atom(monomial[0]) if monomial else "1"
            if factor is None:
                return None
            parts.append(f"{coefficient}*{factor}")
        return " + ".join(parts) or "0"

    def _atom(self, atom: Atom) -> str | None:
        match atom:
            case str():
                return self.of(atom)
            case FloorDiv(value, divisor) if divisor.value:
                inner = self.text(value)
                return None if inner is None else f"floor(({inner})/{divisor.value})"
            case Mod(value, divisor) if divisor.value:
                inner = self.text(value)
                return None if inner is None else f"(({inner}) mod {divisor.value})"
            case MinMax() | FloorDiv() | Mod():
                return None


def is_empty(names: Names, conditions: Iterable[str]) -> bool | None:
    """Whether no integers meet all conditions; None when that is too hard to say."""
    return _is_empty(tuple(names.known.values()), tuple(conditions))


@lru_cache(maxsize=65536)
def _is_empty(variables: tuple[str, ...], conditions: tuple[str, ...]) -> bool | None:
    import islpy

    context = _context()
    context.reset_operations()
    text = f"{{ [{', '.join(variables)}] : {' and '.join(f'({c})' for c in conditions) or '1 = 1'} }}"
    try:
        return islpy.Set.read_from_str(context, text).is_empty()
    except islpy.Error:  # isl says "syntax error" where it reaches the limit while it reads
        return None


@lru_cache(maxsize=1)
def _context() -> islpy.Context:
    import islpy

    context = islpy.Context()
    context.set_max_operations(MOST_OPERATIONS)
    return context


@lru_cache(maxsize=4096)
def covers_once(lengths: tuple[int, ...]) -> bool | None:
    """Whether blocks of lanes of these lengths reach every point of any extent, and each of them once.

    The extent E is a parameter: { [block, lanes] -> [point] : 0 <= point < E } is one to one and onto.
    """
    import islpy

    context = _context()
    context.reset_operations()
    lanes = [f"a{n}" for n in range(len(lengths))]
    point = f"b*{_product(lengths)}"
    for n, lane in enumerate(lanes):
        point += f" + {_product(lengths[n + 1 :])}*{lane}"
    within = " and ".join(f"0 <= {a} < {n}" for a, n in zip(lanes, lengths, strict=True))
    relation = f"[E] -> {{ [{', '.join(('b', *lanes))}] -> [{point}] : b >= 0 and {within} and {point} < E }}"
    try:
        found = islpy.Map.read_from_str(context, relation)
        everything = islpy.Set.read_from_str(context, "[E] -> { [f] : 0 <= f < E }")
        return found.is_injective() and found.range().is_equal(everything)
    except islpy.Error:
        return None


@lru_cache(maxsize=4096)
def counts_once(extents: tuple[int, ...]) -> bool | None:
    """Whether numbering the points of a box in the order of its axes names each of them once."""
    import islpy

    context = _context()
    context.reset_operations()
    axes = [f"x{n}" for n in range(len(extents))]
    number = " + ".join(f"{_product(extents[n + 1 :])}*{x}" for n, x in enumerate(axes))
    within = " and ".join(f"0 <= {x} < {n}" for x, n in zip(axes, extents, strict=True))
    try:
        found = islpy.Map.read_from_str(context, f"{{ [{', '.join(axes)}] -> [{number}] : {within} }}")
        everything = islpy.Set.read_from_str(context, f"{{ [f] : 0 <= f < {_product(extents)} }}")
        return found.is_injective() and found.range().is_equal(everything)
    except islpy.Error:
        return None


def divides(length: int, extent: Index, facts: Sequence[Constraint]) -> bool:
    """Whether an extent is a whole number of lengths, for all sizes that meet the facts."""
    if length == 1 or (extent.value is not None and extent.value % length == 0):
        return True
    names = Names()
    text = names.text(extent)
    if text is None or extent.value is not None:
        return False
    return is_empty(names, (f"({text}) mod {length} != 0", *affine_facts(names, facts))) is True


def affine_facts(names: Names, facts: Sequence[Constraint]) -> list[str]:
    """The facts that are affine; the others are left out, which only allows more."""
    found: list[str] = []
    for fact in facts:
        left, right = names.text(fact.left), names.text(fact.right)
        if left is not None and right is not None:
            comparison = "=" if fact.comparison == "==" else fact.comparison
            found.append(f"{left} {comparison} {right}")
    return found


def determined(
    subscripts: Sequence[Index], extents: Mapping[str, Index], wanted: Iterable[str]
) -> bool | None:
    """Whether equal subscripts mean equal axes `wanted`, all that is not in `extents` being the same.

    `extents` says how far axes run; a symbol in it is some size of at least 1. Terms without such axes are
    equal on both sides and drop out. A subscript that is not affine says nothing.
    """
    names, asked = Names(), list(wanted)
    used = [a for a in extents if any(a in i.symbols for i in subscripts)]
    if not set(asked) <= set(used):
        return False
    conditions = [f"{names.of(a)} != {names.of(primed(a))}" for a in asked]
    pairs: dict[str, Index | int] = {a: Index.of(primed(a)) for a in extents}
    for subscript in subscripts:
        text = names.text(moving(subscript, extents) - moving(subscript, extents).substitute(pairs))
        conditions += [f"{text} = 0"] if text is not None else []
    common = within(names, used, extents)
    if any(c is None for c in common):
        return None
    verdicts = [
        is_empty(names, (question, *conditions[len(asked) :], *map(str, common)))
        for question in conditions[: len(asked)]
    ]
    return None if None in verdicts else all(verdicts)


def primed(axis: str) -> str:
    """The same axis at the other of two points."""
    return f"{axis}'"


def moving(index: Index, axes: Iterable[str]) -> Index:
    """The terms that depend on some of the axes."""
    chosen = set(axes)
    return Index(tuple((m, c) for m, c in index.terms if any(Index.of(a).symbols & chosen for a in m)))


def within(names: Names, axes: Iterable[str], extents: Mapping[str, Index]) -> list[str | None]:
    """That axes and the same primed are in their ranges; an extent that is not affine is any number."""
    found: list[str | None] = []
    for axis in axes:
        extent = names.text(extents[axis])
        if extent is None:
            extent = names.of(f"extent of {axis}")
        found += [f"0 <= {names.of(axis)} < {extent}", f"0 <= {names.of(primed(axis))} < {extent}"]
    return found


def _product(numbers: Iterable[int]) -> int:
    total = 1
    for n in numbers:
        total *= n
    return total
