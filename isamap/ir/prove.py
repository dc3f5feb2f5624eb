"""Proofs that an index expression is never negative, for all sizes that the routine allows.

Each axis is replaced by the end of its range that minimises the expression, each division by its bounds, and
each size by its smallest value plus a nonnegative term. If no remaining coefficient is negative, neither is
the expression. Stated facts (`where`, guards, ranges) are subtracted if that helps. The proof is sound, not
complete: False means "not proved". The numbers of steps, facts and nested steps are limited. Beyond the
limits the answer is False, too.

With 0 <= p <= P-1 and P = (H - R) / s + 1, `H - 1 - (p*s + r)` for 0 <= r <= R-1 is proved.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING

from isamap.ir.index import Atom, Element, FloorDiv, Index, MinMax, Mod, Monomial, has_elements
from isamap.source.records import dataclass, field, replace

# --- integer sets ---------------------------------------------------------------------------------------

if TYPE_CHECKING:
    import islpy


MOST_OPERATIONS = 100_000
"""The most operations of one question. They take about 0.1 s."""
PRODUCT = "product "
"""The prefix of variables for terms that are not affine. No symbol contains a blank."""


@dataclass
class IslNames:
    """The symbols of index expressions as isl variables, one for each symbol."""

    known: dict[str, str] = field(default_factory=dict[str, str])
    opaque: dict[Monomial, str] | None = None

    def of(self, symbol: str) -> str:
        return self.known.setdefault(symbol, f"v{len(self.known)}")

    def text(self, index: Index) -> str | None:
        """Return an index expression in isl's syntax, or None if it is not affine.

        With `opaque`, each product that is not affine gets a variable of its own, kept there.
        """
        parts: list[str] = []
        for monomial, coefficient in index.terms:
            factor = "1" if not monomial else self._atom(monomial[0]) if len(monomial) == 1 else None
            if factor is None and self.opaque is not None:
                factor = self.opaque.setdefault(monomial, self.of(f"{PRODUCT}{len(self.opaque)}"))
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
            case MinMax(op, left, right):
                sides = self.text(left), self.text(right)
                return None if None in sides else f"{op}({sides[0]}, {sides[1]})"
            case FloorDiv() | Mod() | Element():
                return None


def is_empty(names: IslNames, conditions: Iterable[str]) -> bool | None:
    """Return whether no integers satisfy all conditions, or None if isl exceeds its limit."""
    return _is_empty(tuple(names.known.values()), tuple(conditions))


@lru_cache(maxsize=65536)
def _is_empty(variables: tuple[str, ...], conditions: tuple[str, ...]) -> bool | None:
    import islpy

    context = isl_context()
    context.reset_operations()
    text = f"{{ [{', '.join(variables)}] : {' and '.join(f'({c})' for c in conditions) or '1 = 1'} }}"
    try:
        return islpy.Set.read_from_str(context, text).is_empty()
    except islpy.Error:  # isl says "syntax error" where it reaches the limit while it reads
        return None


@lru_cache(maxsize=1)
def isl_context() -> islpy.Context:
    """Return the shared isl context. Callers reset its operation count before each query."""
    import islpy

    context = islpy.Context()
    context.set_max_operations(MOST_OPERATIONS)
    return context


_STEPS = 3000
_FACTS_DEEP = 4
_NESTED = 60  # calls within calls: Python has 1000, and each of them takes up to four


@dataclass(frozen=True, slots=True)
class Facts:
    """The assumptions of a proof: extents of axes, smallest values of other symbols, nonnegative terms.

    Each axis runs from 0.
    """

    extents: dict[str, Index] = field(default_factory=dict[str, Index])
    lows: dict[str, int] = field(default_factory=dict[str, int])
    nonnegative: tuple[Index, ...] = ()

    def with_axes(self, extents: dict[str, Index]) -> Facts:
        """Return the facts with additional axes, whose extents are at least 1 inside their loop."""
        positive = tuple(e - 1 for e in extents.values() if e.value is None)
        return replace(self, extents={**self.extents, **extents}, nonnegative=(*self.nonnegative, *positive))

    def with_facts(self, facts: tuple[Index, ...]) -> Facts:
        return replace(self, nonnegative=(*self.nonnegative, *facts))


@dataclass
class _Search:
    """The number of steps that one proof may still take."""

    facts: Facts
    left: int = _STEPS
    nested: int = _NESTED


def is_nonnegative(e: Index, facts: Facts, steps: int = _STEPS) -> bool:
    """Return whether the facts prove `e >= 0` within a number of steps. A minimum is proved case by case."""
    if _prove(e, _Search(facts, steps), _FACTS_DEEP):
        return True
    # Only the cases of a minimum together may say it: min(max(a, -a), 2*n - a) <= n.
    return any(isinstance(a, MinMax) for m, _ in e.terms for a in m) and is_impossible((-e - 1,), facts)


def is_impossible(terms: Iterable[Index], facts: Facts) -> bool:
    """Return whether isl proves that the facts and `terms >= 0` have no common integer solution."""
    opaque: dict[Monomial, str] = {}
    names = IslNames(opaque=opaque)
    conditions = [f"{names.text(term)} >= 0" for term in (*terms, *facts.nonnegative)]
    for axis, extent in facts.extents.items():
        conditions.append(f"0 <= {names.of(axis)} <= {names.text(extent)} - 1")
    said: set[str] = set()
    while said < {*opaque.values()}:  # what is said of one may name more
        for monomial, name in [(m, n) for m, n in opaque.items() if n not in said]:
            said.add(name)
            match monomial:
                case (Element(low=low, high=high),):
                    conditions.append(f"{names.text(low)} <= {name} <= {names.text(high)}")
                case (FloorDiv() | Mod() as division,):
                    conditions.append(_division_near_zero(division, name, names))
                case _ if all(isinstance(a, str) and _low(a, facts) >= 0 for a in monomial):
                    conditions.append(f"{name} >= {prod(_low(str(a), facts) for a in monomial)}")
                case _:
                    pass
    symbols = [s for s in names.known if not s.startswith(PRODUCT) and s not in facts.extents]
    conditions += [f"{names.of(s)} >= {_low(s, facts)}" for s in symbols]
    return is_empty(names, conditions) is True


def _division_near_zero(division: FloorDiv | Mod, name: str, names: IslNames) -> str:
    """Return the constraints that determine `v / d` or `v % d`, for a symbol d, where -d <= v < 2*d.

    isl cannot multiply by a symbol. The quotients -1, 0 and 1 are exact; of others only the sign is constrained.
    """
    v, d = f"({names.text(division.value)})", f"({names.text(division.divisor)})"
    if isinstance(division, Mod):
        known = " or ".join(f"({name} = {v} - {q}*{d})" for q in (-1, 0, 1))
        return f"0 <= {name} < {d} and ({known} or {v} >= 2*{d} or {v} < -{d})"
    known = " or ".join(f"({name} = {q} and {q}*{d} <= {v} < {q}*{d} + {d})" for q in (-1, 0, 1))
    return f"({known} or ({name} >= 2 and {v} >= 2*{d}) or ({name} <= -2 and {v} < -{d}))"


def _low(symbol: str, facts: Facts) -> int:
    return 0 if symbol in facts.extents else facts.lows.get(symbol, 1)


def smallest_value(e: Index, facts: Facts) -> Index | None:
    """Return `e` with each axis at the end of its range that minimises it, or None if that end is unknown."""
    for axis in reversed(facts.extents):
        if axis not in e.symbols:
            continue
        slope = e.coefficient(axis)
        if slope is None:
            return None
        if is_nonnegative(slope, facts):
            e = e - slope * Index.of(axis)
        elif is_nonnegative(-slope, facts):
            e = e + slope * (facts.extents[axis] - 1 - Index.of(axis))
        else:
            return None
    return e


def _prove(e: Index, search: _Search, deep: int) -> bool:
    if e.value is not None:
        return e.value >= 0
    search.left -= 1
    if search.left < 0 or search.nested == 0:
        return False
    search.nested -= 1
    proved = _is_plainly_nonnegative(e, search.facts) or _prove_by_steps(e, search, deep)
    search.nested += 1
    return proved


def _prove_by_steps(e: Index, search: _Search, deep: int) -> bool:
    atom = _next_atom(e, search.facts)
    if atom is None:
        return deep > 0 and any(_prove(rest, search, deep - 1) for rest in _subtract_facts(e, search.facts))
    if _is_a_fact(e, search.facts):
        return True
    split = _split_at(e, atom)
    if split is None:
        return False
    c, rest = split
    if isinstance(atom, MinMax):
        return any(_prove(smaller, search, deep) for smaller in _min_max(atom, c, rest, search, deep))
    rising = _prove(c, search, deep)
    if not rising and not _prove(-c, search, deep):
        return False
    if any(_prove(smaller, search, deep) for smaller in _eliminate_atom(atom, c, rest, rising, search, deep)):
        return True
    bounded = _bounded_by_facts(atom, c, rest, rising, search, deep) if deep else ()
    return any(_prove(smaller, search, deep - 1) for smaller in bounded)


def _is_a_fact(e: Index, facts: Facts) -> bool:
    """Return whether one fact directly implies `e >= 0`. The fact may be stronger than needed."""
    negative = [(m, c) for m, c in e.terms if c < 0 and m]
    for fact in facts.nonnegative:
        given = dict(fact.terms)
        cancelled = all(given.get(m, 0) <= c for m, c in negative)
        if cancelled and _is_plainly_nonnegative(e - fact, facts):
            return True
    return False


def _is_plainly_nonnegative(e: Index, facts: Facts) -> bool:
    """Return whether no coefficient is negative after each symbol is written as its minimum plus a new symbol."""
    shifted = _shift(e, facts)
    return shifted is not None and all(c >= 0 for _, c in shifted.terms)


def _shift(e: Index, facts: Facts) -> Index | None:
    if any(not isinstance(a, str) for m, _ in e.terms for a in m):
        return None
    lows = {s: _low(s, facts) for s in e.symbols}
    return e.substitute({s: Index.of(s) + low for s, low in lows.items() if low})


# --- replacing axes and divisions by their bounds ---------------------------------------------------------


def _next_atom(e: Index, facts: Facts) -> Atom | None:
    """Return the atom to replace next: divisions before axes. The outermost division and innermost axis are first."""
    atoms = {a for m, _ in e.terms for a in m}
    for name in reversed(facts.extents):  # an end that data says stands beside other elements of that array
        if name in atoms and has_elements(facts.extents[name]):
            return name
    compound = sorted((a for a in atoms if not isinstance(a, str)), key=lambda a: (-len(str(a)), str(a)))
    if compound:
        return compound[0]
    return next((name for name in reversed(facts.extents) if name in atoms), None)


def _split_at(e: Index, atom: Atom) -> tuple[Index, Index] | None:
    """Return `e = c*atom + rest`, or None if the atom occurs twice in a product."""
    inside: list[tuple[Monomial, int]] = []
    outside: list[tuple[Monomial, int]] = []
    for m, c in e.terms:
        if m.count(atom) > 1:
            return None
        if atom in m:
            rest = list(m)
            rest.remove(atom)
            inside.append((tuple(rest), c))
        else:
            outside.append((m, c))
    return Index(tuple(inside)) + 0, Index(tuple(outside)) + 0


def _eliminate_atom(
    atom: Atom, c: Index, rest: Index, rising: bool, search: _Search, deep: int
) -> Iterator[Index]:
    """Yield expressions without the atom. A proof that one of them is >= 0 proves `c*atom + rest >= 0`."""
    match atom:
        case str():
            yield rest if rising else rest + c * (search.facts.extents[atom] - 1)
        case FloorDiv(value, divisor):
            yield from _division(c, rest, value, divisor, rising, search, deep)
        case Mod(value, divisor):
            if rising or _divides(divisor, value, search.facts):
                yield rest
            else:
                yield rest + c * (divisor - 1)
                if _prove(value, search, deep):
                    yield rest + c * value
        case Element():
            yield from _element(atom, c, rest, rising, search, deep)
        case MinMax():
            raise AssertionError("either side may be the worse one: _min_max")


def _element(
    atom: Element, c: Index, rest: Index, rising: bool, search: _Search, deep: int
) -> Iterator[Index]:
    """Yield bounds of an element of a sorted array: its neighbour in the minimising direction, or its range's end."""
    others = {a for m, _ in rest.terms for a in m if isinstance(a, Element) and a.buffer == atom.buffer}
    for other in sorted(others, key=str) if atom.ascending else ():
        if _prove(atom.at - other.at if rising else other.at - atom.at, search, deep):
            yield rest + c * Index.of(other)
    yield rest + c * (atom.low if rising else atom.high)


def _bounded_by_facts(
    atom: Atom, c: Index, rest: Index, rising: bool, search: _Search, deep: int
) -> Iterator[Index]:
    """Yield bounds by facts: s*atom + t >= 0 with s >= 1 gives s*(c*atom + rest) >= s*rest - c*t for c >= 0."""
    sign = 1 if rising else -1
    for fact in search.facts.nonnegative:
        split = _split_at(fact, atom)
        if split is None or not split[0].terms:
            continue
        slope, others = split
        whole = c.divide_exactly(slope)
        if not _prove(slope * sign - 1, search, deep - 1):
            continue
        if whole is not None:
            yield rest - whole * others
        else:
            yield _scale_bound(slope * sign, rest) - c * sign * others


def _scale_bound(factor: Index, e: Index) -> Index:
    """Return an index whose nonnegativity implies `e >= 0`: `factor` times the integer e, plus factor - 1."""
    return factor * e + (factor - 1)


def _division(
    c: Index, rest: Index, value: Index, divisor: Index, rising: bool, search: _Search, deep: int
) -> Iterator[Index]:
    """Yield consequences of d >= 1: value - d + 1 <= d * (value / d) <= value, with equality if d divides value."""
    if not _prove(divisor - 1, search, deep):
        return
    leaves_rest = rising and not _divides(divisor, value, search.facts)
    bound = value - divisor + 1 if leaves_rest else value
    exact = c.divide_exactly(divisor)
    if exact is not None:
        yield rest + exact * bound
    else:
        yield _scale_bound(divisor, rest) + c * bound
    if rising and _prove(value, search, deep):
        yield rest


def _divides(divisor: Index, value: Index, facts: Facts) -> bool:
    """Return whether facts such as `M % G == 0` imply that a division has no remainder."""
    for fact in facts.nonnegative:
        match fact.terms:
            case (((Mod(multiple, d),), -1),) if d == divisor:
                value = _modulo(value, multiple)
            case _:
                pass
    return value.divide_exactly(divisor) is not None


def _modulo(value: Index, multiple: Index) -> Index:
    """Return the sum of the terms of a value that are not multiples of `multiple`."""
    if len(multiple.terms) != 1:
        return Index() if value == multiple else value
    return Index(tuple(t for t in value.terms if Index((t,)).divide_exactly(multiple) is None))


def _min_max(atom: MinMax, c: Index, rest: Index, search: _Search, deep: int) -> Iterator[Index]:
    """Yield expressions of which each, nonnegative, proves that the sum with the minimum or maximum is, too."""
    one_is_enough = _prove(-c if atom.op == "min" else c, search, deep)
    sides = (rest + c * atom.left, rest + c * atom.right)
    if one_is_enough:
        yield from sides
        yield _scale_bound(Index.of(2), rest) + c * (atom.left + atom.right)
    elif _prove(sides[0], search, deep):
        yield sides[1]


# --- using facts ------------------------------------------------------------------------------------------


def _subtract_facts(e: Index, facts: Facts) -> Iterator[Index]:
    """Yield `e` (scaled up where needed) minus multiples of facts that cancel one of its negative terms."""
    shifted = _shift(e, facts)
    if shifted is None:
        return
    negative = [(m, c) for m, c in shifted.terms if c < 0]
    for fact in facts.nonnegative:
        lowered = _shift(fact, facts)
        if lowered is None:
            continue
        for m, c in negative:
            for fact_m, fact_c in lowered.terms:
                factor = _monomial_quotient(m, fact_m)
                if fact_c < 0 and factor is not None and (fact_m or not m):
                    scale, times = (1, c // fact_c) if c % fact_c == 0 else (-fact_c, -c)
                    yield _unshift(shifted * scale - lowered * Index(((factor, times),)), e, fact, facts)


def _unshift(shifted: Index, e: Index, fact: Index, facts: Facts) -> Index:
    symbols = e.symbols | fact.symbols
    lows = {s: _low(s, facts) for s in symbols}
    return shifted.substitute({s: Index.of(s) - low for s, low in lows.items() if low})


def _monomial_quotient(m: Monomial, divisor: Monomial) -> Monomial | None:
    rest = list(m)
    for atom in divisor:
        if atom not in rest:
            return None
        rest.remove(atom)
    return tuple(rest)
