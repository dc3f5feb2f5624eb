"""Integer index expressions: polynomials with integer coefficients over symbols and atoms such as `e / c`.

`Index.of("p") * Index.of("s") + Index.of("r") - 1` prints as `p*s + r - 1`. Equal polynomials are equal
objects, whatever order they were written in. `2*(x / 2) + x % 2` is `x`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache, reduce
from itertools import product as combinations
from typing import Any, TypeVar

from isamap.source.records import dataclass, field, replace


@dataclass(frozen=True, slots=True)
class _Division:
    """A division. The divisor is a positive constant or a polynomial of sizes."""

    value: Index
    divisor: Index
    _hash: int = field(default=0, init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_hash", hash((type(self).__name__, self.value, self.divisor)))

    def __hash__(self) -> int:
        return self._hash


class FloorDiv(_Division):
    """`value / divisor` rounded towards negative infinity."""

    __slots__ = ()

    def __str__(self) -> str:
        return f"{_factor(self.value)} / {_factor(self.divisor)}"


class Mod(_Division):
    """`value % divisor`, with the sign of the divisor."""

    __slots__ = ()

    def __str__(self) -> str:
        return f"{_factor(self.value)} % {_factor(self.divisor)}"


@dataclass(frozen=True, slots=True)
class MinMax:
    """The minimum or maximum of two index expressions, such as the bound of a remainder loop."""

    op: str  # "min" | "max"
    left: Index
    right: Index

    def __str__(self) -> str:
        return f"{self.op}({self.left}, {self.right})"


@dataclass(frozen=True, slots=True)
class Element:
    """An element of an integer input that an index reads, with the declared facts about it.

    It is between `low` and `high`, both included. There are `count` elements; if they are `ascending`, none
    is smaller than the previous one. Each call checks these facts before it computes.
    """

    buffer: str
    at: Index
    low: Index
    high: Index
    count: Index
    ascending: bool = False

    @property
    def parts(self) -> tuple[Index, ...]:
        """The expressions inside: the subscript first, then the bounds and the value."""
        return self.at, self.low, self.high, self.count

    def with_parts(self, parts: tuple[Index, ...]) -> Element:
        """Return the element with other `parts`."""
        at, low, high, count = parts
        return replace(self, at=at, low=low, high=high, count=count)

    def evaluate(self, env: Mapping[str, Any]) -> Any:
        """Return the element's value from `env`, else a value that satisfies all declared facts.

        Values of `env` are numbers or numpy arrays.
        """
        at = self.at.evaluate(env)
        if self.buffer in env:
            return env[self.buffer][at]
        low, high, last = self.low.evaluate(env), self.high.evaluate(env), self.count.evaluate(env) - 1
        if self.ascending:
            return low + (high - low) * at // (last + (last < 1) * (1 - last))
        return low + at * _SCATTERED % (high - low + 1)

    def __str__(self) -> str:
        return f"{self.buffer}[{self.at}]"


_SCATTERED = 7919
"""A prime that scatters the representative of unknown subscripts over their range."""


def _factor(index: Index) -> str:
    text = str(index)
    bare = (str, MinMax, Element)
    plain = len(index.terms) <= 1 and all(isinstance(a, bare) for m, _ in index.terms for a in m)
    return text if plain and "*" not in text and not text.startswith("-") else f"({text})"


N = TypeVar("N")


Atom = str | FloorDiv | Mod | MinMax | Element
Monomial = tuple[Atom, ...]


def _atom_key(atom: Atom) -> tuple[int, str]:
    return (0, atom) if isinstance(atom, str) else (1, _atom_text(atom))


@lru_cache(maxsize=1 << 16)
def _atom_text(atom: FloorDiv | Mod | MinMax | Element) -> str:
    """Return the text of an atom, which is its sort key. It is cached."""
    return str(atom)


@dataclass(frozen=True, slots=True)
class Index:
    """A polynomial: sorted pairs (monomial, coefficient) without zero coefficients. () is the constant monomial."""

    terms: tuple[tuple[Monomial, int], ...] = ()
    _hash: int = field(default=0, init=False, compare=False, repr=False)
    _symbols: frozenset[str] | None = field(default=None, init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_hash", hash(self.terms))

    def __hash__(self) -> int:
        return self._hash

    @staticmethod
    def of(value: Index | int | Atom) -> Index:
        """Return an index for a number, a symbol's name, an atom, or an index."""
        return value if isinstance(value, Index) else _index_of(value)

    def __add__(self, other: Index | int) -> Index:
        terms = Index.of(other).terms
        if not terms or not self.terms:  # adding nothing is by far the most frequent sum
            return self if not terms else Index.of(other)
        return _collect((*self.terms, *terms))

    def __radd__(self, other: int) -> Index:
        return self + other

    def __neg__(self) -> Index:
        return Index(tuple((m, -c) for m, c in self.terms))

    def __sub__(self, other: Index | int) -> Index:
        return self + -Index.of(other)

    def __rsub__(self, other: int) -> Index:
        return Index.of(other) - self

    def __mul__(self, other: Index | int) -> Index:
        other = Index.of(other)
        for factor, rest in ((self, other), (other, self)):
            if not factor.terms:
                return ZERO
            if len(factor.terms) == 1 and not factor.terms[0][0]:
                number = factor.terms[0][1]
                return rest if number == 1 else Index(tuple([(m, c * number) for m, c in rest.terms]))
        return _collect(
            (tuple(sorted((*m1, *m2), key=_atom_key)) if m1 and m2 else m1 or m2, c1 * c2)
            for m1, c1 in self.terms
            for m2, c2 in other.terms
        )

    def __rmul__(self, other: int) -> Index:
        return self * other

    def floordiv(self, divisor: Index | int) -> Index:
        """Return `self / divisor` rounded down, simplified if possible."""
        return _floordiv(self, Index.of(divisor))

    def mod(self, divisor: Index | int) -> Index:
        """Return `self % divisor`, simplified if possible."""
        return _mod(self, Index.of(divisor))

    def ceildiv(self, divisor: Index | int) -> Index:
        """Return `self / divisor` rounded up."""
        return (self + Index.of(divisor) - 1).floordiv(divisor)

    def divide_exactly(self, divisor: Index) -> Index | None:
        """Return `self / divisor` if the division has no remainder for any values of the symbols, else None."""
        if len(divisor.terms) != 1:
            return Index.of(1) if self == divisor and self.terms else None
        mono, coefficient = divisor.terms[0]
        terms: list[tuple[Monomial, int]] = []
        for m, c in self.terms:
            rest = list(m)
            for atom in mono:
                if atom not in rest:
                    return None
                rest.remove(atom)
            if c % coefficient:
                return None
            terms.append((tuple(rest), c // coefficient))
        return _collect(terms)

    @property
    def value(self) -> int | None:
        """The constant value, or None if there are symbols."""
        if not self.terms:
            return 0
        if len(self.terms) == 1 and self.terms[0][0] == ():
            return self.terms[0][1]
        return None

    @property
    def constant(self) -> int:
        """The constant term."""
        return next((c for m, c in self.terms if m == ()), 0)

    @property
    def symbols(self) -> frozenset[str]:
        """All names in the index, also inside `/` and `%`."""
        if self._symbols is None:
            found = frozenset(s for m, _ in self.terms for atom in m for s in _atom_symbols(atom))
            object.__setattr__(self, "_symbols", found)
            return found
        return self._symbols

    def coefficient(self, symbol: str) -> Index | None:
        """Return the coefficient of `symbol`, or None if it does not occur linearly."""
        found: list[tuple[Monomial, int]] = []
        for m, c in self.terms:
            count = m.count(symbol)
            nested = any(symbol in _atom_symbols(a) for a in m if not isinstance(a, str))
            if count > 1 or nested:
                return None
            if count:
                rest = list(m)
                rest.remove(symbol)
                found.append((tuple(rest), c))
        return _collect(found)

    def is_affine_in(self, symbols: Iterable[str]) -> bool:
        """Return whether it is linear in each of `symbols`, and no product of two of them occurs."""
        expected = set(symbols)
        inside = ([a for a in m if not expected.isdisjoint(_atom_symbols(a))] for m, _ in self.terms)
        return all(not found or (len(found) == 1 and isinstance(found[0], str)) for found in inside)

    def substitute(self, bindings: Mapping[str, Index | int]) -> Index:
        """Return the expression with symbols replaced."""
        if not (self.symbols & bindings.keys()):
            return self
        terms: list[tuple[Monomial, int]] = []
        for m, c in self.terms:
            if _is_bound(m, bindings):
                product = Index.of(c)
                for atom in m:
                    product = product * _substitute_atom(atom, bindings)
                terms += product.terms
            else:
                terms.append((m, c))
        return _collect(terms)

    def evaluate(self, env: Mapping[str, N], number: Callable[[int], N] | None = None) -> N:
        """Return the value for numbers or numpy arrays bound to the symbols. Raises: KeyError if one is missing."""
        total: Any = number(0) if number else 0
        for m, c in self.terms:
            factor: Any = number(c) if number else c
            for atom in m:
                factor = factor * _evaluate_atom(atom, env)
            total = total + factor
        return total

    def __str__(self) -> str:
        if not self.terms:
            return "0"
        ordered = sorted(self.terms, key=lambda t: (t[0] == (), t[1] < 0))
        text = ""
        for m, c in ordered:
            sign = "-" if c < 0 else "+"
            body = _monomial_text(m, abs(c))
            if not text and c < 0 and ("/" in body or "%" in body):
                body = f"({body})"  # else the sign would bind tighter than the division
            text += (("-" if c < 0 else "") + body) if not text else f" {sign} {body}"
        return text


@lru_cache(maxsize=1 << 16)
def _index_of(value: int | Atom) -> Index:
    """Return the index of a number or a symbol. It is cached."""
    if isinstance(value, int):
        return Index((((), int(value)),)) if value else ZERO
    return Index((((value,), 1),))


@lru_cache(maxsize=1 << 16)
def _floordiv(index: Index, divisor: Index) -> Index:
    if divisor.value == 1:
        return index
    if index.value is not None and divisor.value:
        return Index.of(index.value // divisor.value)
    quotient = index.divide_exactly(divisor)
    if quotient is not None:
        return quotient
    whole, rest = _split_multiples(index, divisor.value)
    return whole + rest.floordiv(divisor) if whole.terms else Index.of(FloorDiv(index, divisor))


@lru_cache(maxsize=1 << 16)
def _mod(index: Index, divisor: Index) -> Index:
    if divisor.value == 1 or index.divide_exactly(divisor) is not None:
        return ZERO
    if index.value is not None and divisor.value:
        return Index.of(index.value % divisor.value)
    whole, rest = _split_multiples(index, divisor.value)
    return rest.mod(divisor) if whole.terms else Index.of(Mod(index, divisor))


ZERO = Index()
ONE = Index((((), 1),))


def index_min(left: Index | int, right: Index | int) -> Index:
    """Return the minimum of two indices, folded when both are numbers or equal."""
    return _min_max("min", Index.of(left), Index.of(right))


def index_max(left: Index | int, right: Index | int) -> Index:
    """Return the maximum of two indices, folded when both are numbers or equal."""
    return _min_max("max", Index.of(left), Index.of(right))


def _min_max(op: str, left: Index, right: Index) -> Index:
    gap = (left - right).value
    if gap is not None:
        return left if (gap <= 0) == (op == "min") else right
    return Index.of(MinMax(op, left, right))


def product(factors: Iterable[Index | int]) -> Index:
    """Return the product of indices."""
    return reduce(lambda a, b: a * b, (Index.of(f) for f in factors), ONE)


def _split_multiples(index: Index, divisor: int | None) -> tuple[Index, Index]:
    """Return `whole` and `rest` with `index = divisor * whole + rest`. `divisor` divides each term of `whole`."""
    if not divisor:
        return ZERO, index
    whole = _collect((m, c // divisor) for m, c in index.terms if c % divisor == 0)
    rest = _collect((m, c) for m, c in index.terms if c % divisor)
    return whole, rest


def _collect(terms: Iterable[tuple[Monomial, int]]) -> Index:
    sums: dict[Monomial, int] = {}
    for m, c in terms:
        sums[m] = sums.get(m, 0) + c
    divided = [m for m in sums for a in m if type(a) is Mod]
    if divided:
        _rejoin_division(sums, divided)
    kept = [(m, c) for m, c in sums.items() if c]
    if len(kept) > 1:
        kept.sort(key=lambda term: (-len(term[0]), [_atom_key(atom) for atom in term[0]]))
    return Index(tuple(kept))


def _rejoin_division(sums: dict[Monomial, int], divided: Iterable[Monomial]) -> None:
    """Replace c*d*(x / d) + c*(x % d) by c*x, in place. `divided` are the terms that have a remainder."""
    for m in dict.fromkeys(divided):
        for atom in m:
            c = sums.get(m, 0)
            if not isinstance(atom, Mod) or not c or atom.divisor.value is None:
                continue
            rest = list(m)
            rest.remove(atom)
            partner = tuple(sorted((*rest, FloorDiv(atom.value, atom.divisor)), key=_atom_key))
            if sums.get(partner, 0) == c * atom.divisor.value:
                sums[m] = sums[partner] = 0
                for m2, c2 in (Index(((tuple(rest), c),)) * atom.value).terms:
                    sums[m2] = sums.get(m2, 0) + c2
                break


def elements_of(index: Index) -> Iterator[Element]:
    """Yield the array elements that an index reads, inner ones first."""
    for monomial, _ in index.terms:
        for atom in monomial:
            yield from _elements_in(atom)


def has_elements(index: Index) -> bool:
    """Return whether an index depends on data."""
    return any(True for _ in elements_of(index))


def typical_value(index: Index, sizes: Mapping[str, int]) -> int | None:
    """Return the value of an index at given sizes, with a typical value for each array element in it.

    The result is None if a size is unknown.
    """
    bound = index.substitute(sizes)
    if bound.value is not None or not has_elements(bound):
        return bound.value
    return bound.evaluate(dict.fromkeys(bound.symbols, 0))


def _elements_in(atom: Atom) -> Iterator[Element]:
    match atom:
        case str():
            return
        case FloorDiv(left, right) | Mod(left, right) | MinMax(_, left, right):
            yield from elements_of(left)
            yield from elements_of(right)
        case Element(at=at):
            yield from elements_of(at)
            yield atom


def bounds(index: Index, ranges: Mapping[str, tuple[int, int]]) -> tuple[int, int]:
    """Return a lower and an upper bound of an expression: the sums of the bounds of its terms."""
    low = high = 0
    for monomial, coefficient in index.terms:
        ends = [coefficient]
        for atom in monomial:
            ends = [a * b for a, b in combinations(ends, _atom_bounds(atom, ranges))]
        low, high = low + min(ends), high + max(ends)
    return low, high


def _atom_bounds(atom: Atom, ranges: Mapping[str, tuple[int, int]]) -> tuple[int, int]:
    match atom:
        case str():
            return ranges[atom]
        case FloorDiv(value, divisor):
            ends = [a // b for a, b in combinations(bounds(value, ranges), bounds(divisor, ranges)) if b]
            return min(ends), max(ends)
        case Mod(_, divisor):
            return 0, bounds(divisor, ranges)[1] - 1
        case MinMax(op, left, right):
            pairs = zip(bounds(left, ranges), bounds(right, ranges), strict=True)
            low, high = ((min if op == "min" else max)(pair) for pair in pairs)
            return low, high
        case Element(low=low, high=high):
            return bounds(low, ranges)[0], bounds(high, ranges)[1]


def _is_bound(monomial: Monomial, bindings: Mapping[str, object]) -> bool:
    """Return whether a term has a symbol that is to be replaced."""
    for atom in monomial:
        if atom in bindings if type(atom) is str else not bindings.keys().isdisjoint(_atom_symbols(atom)):
            return True
    return False


def _atom_symbols(atom: Atom) -> frozenset[str]:
    match atom:
        case str():
            return frozenset((atom,))
        case FloorDiv(value, divisor) | Mod(value, divisor):
            return value.symbols | divisor.symbols
        case MinMax(_, left, right):
            return left.symbols | right.symbols
        case Element():
            return frozenset(s for part in atom.parts for s in part.symbols)


def _substitute_atom(atom: Atom, bindings: Mapping[str, Index | int]) -> Index:
    match atom:
        case str():
            return Index.of(bindings.get(atom, atom))
        case FloorDiv(value, divisor):
            return value.substitute(bindings).floordiv(divisor.substitute(bindings))
        case Mod(value, divisor):
            return value.substitute(bindings).mod(divisor.substitute(bindings))
        case MinMax(op, left, right):
            return _min_max(op, left.substitute(bindings), right.substitute(bindings))
        case Element():
            return Index.of(atom.with_parts(tuple(part.substitute(bindings) for part in atom.parts)))


def _evaluate_atom(atom: Atom, env: Mapping[str, Any]) -> Any:
    match atom:
        case str():
            return env[atom]
        case FloorDiv(value, divisor):
            return value.evaluate(env) // divisor.evaluate(env)
        case Mod(value, divisor):
            return value.evaluate(env) % divisor.evaluate(env)
        case MinMax(op, left, right):
            a, b = left.evaluate(env), right.evaluate(env)
            if isinstance(a, int) and isinstance(b, int):
                return min(a, b) if op == "min" else max(a, b)
            return b + (a - b) * ((a < b) if op == "min" else (a > b))  # arrays, element by element
        case Element():
            return atom.evaluate(env)


def _monomial_text(m: Monomial, c: int) -> str:
    if not m:
        return str(c)
    alone = len(m) == 1 and c == 1
    bare = (str, MinMax, Element)
    parts = [str(a) if alone or isinstance(a, bare) else f"({a})" for a in m]
    return "*".join(([] if c == 1 else [str(c)]) + parts)
