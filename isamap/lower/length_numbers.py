"""Express numbers that differ between vector lengths as expressions of the length.

    length Q        2        4        8
    index         4*n0     8*n0    16*n0    ->  2*Q*n0
    trips           11        6        3    ->  q0, with (11, 6, 3) in a table

An expression stands for the numbers that it was made of and no others: it is evaluated for each length that a
program is made for, and no program runs at another one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from isamap.ir import ZERO, Atom, Element, FloorDiv, Index, MinMax, Mod, index_max, index_min, product
from isamap.lower.program import Lengths

Term = tuple[tuple[Atom, ...], int]
Values = tuple[int, ...]


@dataclass
class Numbers:
    """Joins indices; numbers that are no multiples of the length are kept in tables.

    `name` is what programs call the constant. `fresh` gives names that no program has, `trail` is told what
    is kept. `tables` are numbers by their names, one for each of `values`; 0 where no program asks for it.
    """

    constant: str
    name: str
    values: Values
    fresh: Callable[[str], str]
    trail: list[tuple[dict[str, Any], str]]
    tables: dict[str, Values] = field(default_factory=dict[str, Values])

    @property
    def lengths(self) -> Lengths:
        """What programs of these numbers ask the hardware."""
        return Lengths(self.constant, self.name, self.values, tuple(self.tables.items()))

    def joined(self, indices: Sequence[Index], which: Sequence[int]) -> Index | None:
        """Return one expression for the indices at the lengths of these numbers; None where their forms differ."""
        if all(index == indices[0] for index in indices):
            return indices[0]
        ordered = [_by_form(index) for index in indices]
        forms = dict.fromkeys(form for one in ordered for form in one)
        total = Index.of(0)
        for form in forms:
            found = [one.get(form) for one in ordered]
            if any(term is None for term in found) and not all(isinstance(atom, str) for atom in form[0]):
                return None
            plain = next(term for term in found if term is not None)
            terms = [(plain[0], 0) if term is None else term for term in found]
            factors = self._factors([m for m, _ in terms], which)
            if factors is None:
                return None
            total = total + self._number([c for _, c in terms], which) * factors
        told = [total.substitute(self.lengths.at(n)) for n in which]
        return total if told == list(indices) else None

    def _factors(self, monomials: Sequence[tuple[Atom, ...]], which: Sequence[int]) -> Index | None:
        found: list[Index] = []
        for atoms in zip(*monomials, strict=True):
            atom = self._atom(atoms, which)
            if atom is None:
                return None
            found.append(atom)
        return product(found)

    def _atom(self, atoms: tuple[Atom, ...], which: Sequence[int]) -> Index | None:
        first = atoms[0]
        if isinstance(first, str):
            return Index.of(first)
        one, other = (self.joined([_sides(atom)[n] for atom in atoms], which) for n in (0, 1))
        if one is None or other is None:
            return None
        match first:
            case FloorDiv():
                return one.floordiv(other)
            case Mod():
                return one.mod(other)
            case MinMax(op):
                return index_min(one, other) if op == "min" else index_max(one, other)
            case Element():
                return Index.of(first.with_parts((one, other, first.high, first.count)))

    def _number(self, numbers: Sequence[int], which: Sequence[int]) -> Index:
        """Return the numbers as a multiple of the length and a number, as its square, or out of a table."""
        lengths, length = [self.values[n] for n in which], Index.of(self.name)
        step = (numbers[-1] - numbers[0]) // (lengths[-1] - lengths[0])
        rest = numbers[0] - step * lengths[0]
        if all(number == step * v + rest for number, v in zip(numbers, lengths, strict=True)):
            return length * step + rest
        square = numbers[0] // lengths[0] ** 2
        if all(number == square * v * v for number, v in zip(numbers, lengths, strict=True)):
            return length * length * square
        row = tuple(dict(zip(which, numbers, strict=True)).get(n, 0) for n in range(len(self.values)))
        known = next((name for name, kept in self.tables.items() if kept == row), None)
        if known is None:
            known = self.fresh("q")
            self.tables[known] = row
            self.trail.append((self.tables, known))
        return Index.of(known)


def _sides(atom: Atom) -> tuple[Index, Index]:
    assert not isinstance(atom, str), "terms of one form"
    match atom:
        case MinMax(_, left, right) | FloorDiv(left, right) | Mod(left, right):
            return left, right
        case Element(at=at, low=low):
            return at, low


Form = tuple[tuple[object, ...], int]


def _by_form(index: Index) -> dict[Form, Term]:
    """Return the terms of an index by what they are but for their numbers, and by their order among those."""
    seen: Counter[tuple[object, ...]] = Counter()
    found: dict[Form, Term] = {}
    for term in sorted(index.terms, key=lambda t: [n for atom in t[0] for n in _numbers_in(atom)]):
        form = tuple(_form(atom) for atom in term[0])
        found[form, seen[form]] = term
        seen[form] += 1
    return found


def _form(atom: Atom) -> object:
    """Return an atom without its numbers."""
    if isinstance(atom, str):
        return atom
    kind: object = type(atom).__name__
    if isinstance(atom, MinMax | Element):
        kind = (
            atom.op if isinstance(atom, MinMax) else str(atom.with_parts((ZERO, ZERO, atom.high, atom.count)))
        )
    return kind, *(frozenset(_by_form(side)) for side in _sides(atom))


def _numbers_in(atom: Atom) -> list[int]:
    """Return the numbers of an atom, which grow with the length."""
    if isinstance(atom, str):
        return []
    terms = [term for side in reversed(_sides(atom)) for term in side.terms]
    return [n for m, c in terms for n in (*(k for inner in m for k in _numbers_in(inner)), c)]
