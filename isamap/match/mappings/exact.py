"""Decide exactly whether conditions hold for all lanes of all issues: test sets of integers for emptiness.

A condition of a mapping says: lanes of one issue that agree on one side agree on the other. The set of pairs
of lanes that break it is affine, as long as sizes are not multiplied with each other:

    a[p + r] for X[2*p + r]     { p + r = p' + r' and 2*P + R != 2*P' + R' and P - p = P' - p' >= 0 and … }

where p and r are lanes, P and R the iterations that they stand for.

It also finds the parameter values that the `where` clause of an instruction allows:

    instruction part(choose L: 4..8) where L <= 6        L is at most 6
    instruction never(choose L: 4..8) where L <= 2       there are no values: it performs nothing
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import islice, permutations, product
from typing import Literal

from isamap.ir import Atom, Element, FloorDiv, Index, Instruction, MinMax, Mod, Param
from isamap.match.mappings.mapping import AxisGroup
from isamap.match.patterns.pattern import Pattern
from isamap.source.records import dataclass

Verdict = Literal["holds", "fails", "unknown"]

Comparison = tuple[Index, str, Index]

_ORDERS = 2000
_PRIMED = "'"


@dataclass(frozen=True, slots=True)
class IterationSpace:
    """The extents of all axes, and the facts about sizes.

    `lengths` are the largest lengths of the instruction's axes; None means any length, which `open_lengths`
    gives in terms of parameters. `extents` are those of the kernel's axes, including ordered loops around
    them. `facts` are nonnegative terms over the symbols that `bindings` leave. `lows` are the smallest
    values of symbols. The default is 1.
    """

    lengths: tuple[tuple[str, int | None], ...]
    extents: tuple[tuple[str, Index], ...]
    facts: tuple[Index, ...] = ()
    lows: tuple[tuple[str, int], ...] = ()
    bindings: tuple[tuple[str, Index], ...] = ()
    open_lengths: tuple[tuple[str, Index], ...] = ()


@dataclass(frozen=True, slots=True)
class Sides:
    """The requirement that lanes with equal subscripts `given` also have equal subscripts `required`.

    If an operand is read twice, the second lane of a pair may belong to the other read: `other` are then
    its subscripts, in the same order.
    """

    given: tuple[Index, ...]
    required: tuple[Index, ...]
    other: Sides | None = None


def decide(sides: Sides, groups: tuple[AxisGroup, ...], space: IterationSpace) -> Verdict:
    """Return the verdict whether equal `given` subscripts imply equal `required` ones, in any order of fusion.

    The verdict is "fails" if there is a counterexample, and "unknown" if sizes are open and a term is not
    affine.
    """
    orders = list(islice(_orders(groups), _ORDERS + 1))
    if len(orders) > 1:
        loose = _Writer(space).pairs(sides, groups, exact=False)
        if loose is None or len(orders) > _ORDERS:
            return "unknown"
        if all(_is_empty(text) for text in loose):
            return "holds"
    for order in orders:
        writer = _Writer(space)
        texts = writer.pairs(sides, order, exact=True)
        if texts is None:
            return "unknown"
        if not all(_is_empty(text) for text in texts):
            return "fails" if writer.is_exact else "unknown"
    return "holds"


def _is_empty(text: str) -> bool:
    import islpy  # takes a while, and most mappings are decided without it

    return islpy.Set(text).is_empty()


def _orders(groups: tuple[AxisGroup, ...]) -> Iterator[tuple[AxisGroup, ...]]:
    """Return the groups with their axes in every order."""
    options = [
        [
            AxisGroup(own, theirs)
            for own in permutations(g.instruction_axes)
            for theirs in permutations(g.kernel_axes)
        ]
        for g in groups
    ]
    return product(*options)


class _Writer:
    """A writer of sets in isl's notation. Names are numbered because kernels may use isl's keywords."""

    def __init__(self, space: IterationSpace) -> None:
        self.lengths, self.extents = dict(space.lengths), dict(space.extents)
        self.space, self.bindings = space, dict(space.bindings)
        self.variables: dict[str, str] = {}
        self.parameters: dict[str, str] = {}
        self.is_exact = True

    def pairs(self, sides: Sides, groups: tuple[AxisGroup, ...], *, exact: bool) -> list[str] | None:
        """Return sets of lane pairs that violate the condition, one for each subscript that may differ.

        The result is None if subscripts are not affine. Without `exact`, lanes and iterations are only known to
        move together, in any order.
        """
        moving = [a for g in groups for a in (*g.instruction_axes, *g.kernel_axes)]
        second = {a: a + _PRIMED for a in moving}
        self.bindings |= {a: Index.of(0) for a in self.lengths if a not in moving}  # axes of one lane
        there = sides.other or sides
        parts = [
            self._compare_subscripts(e, "=", f, second) for e, f in zip(sides.given, there.given, strict=True)
        ]
        # Whatever one lane of a pair is, the other may be: of two different values the first is the larger.
        larger = (">",) if there is sides else (">", "<")
        differ = [
            self._compare_subscripts(e, relation, f, second)
            for e, f in zip(sides.required, there.required, strict=True)
            if e != f or not e.symbols.isdisjoint(moving)
            for relation in larger
        ]
        for group in groups:
            parts += self._lanes(group, second)
            if sides.other is not None:
                parts += self._open_lanes(group, second)
            linked = self._link_lanes(group, second) if exact else None
            if exact and linked is None:
                self.is_exact = False
            parts.append(linked or self._equal_lanes_condition(group, second))
        parts += self._ranges(second)
        if None in parts or None in differ:
            return None
        body = _all(parts + self._known_facts())
        sizes, points = ", ".join(self.parameters.values()), ", ".join(self.variables.values())
        return [f"[{sizes}] -> {{ [{points}] : {body} and {one} }}" for one in differ]

    def _compare_subscripts(
        self, index: Index, relation: str, other: Index, second: Mapping[str, str]
    ) -> str | None:
        """Return the comparison of a subscript at the first lane with another one at the second lane."""
        primed = {a: Index.of(b) for a, b in second.items()}
        there = other.substitute(self.bindings).substitute(primed)
        return self.compare(index.substitute(self.bindings), relation, there)

    def _lanes(self, group: AxisGroup, second: Mapping[str, str]) -> list[str | None]:
        found: list[str | None] = []
        for a in group.instruction_axes:
            end = "" if (length := self.lengths[a]) is None else f" < {length}"
            found += [f"0 <= {self.name(a)}{end}", f"0 <= {self.name(second[a])}{end}"]
        return found

    def _open_lanes(self, group: AxisGroup, second: Mapping[str, str]) -> list[str | None]:
        """Return the constraints that the lanes are below the lengths that parameters give."""
        ends = {a: e for a, e in self.space.open_lengths if a in group.instruction_axes}
        return [
            self.compare(Index.of(name), "<", end) or "true"
            for a, end in ends.items()
            for name in (a, second[a])
        ]

    def _link_lanes(self, group: AxisGroup, second: Mapping[str, str]) -> str | None:
        """Return the constraint that both lanes number points of the fused kernel axes from one position on."""
        fused = self._number(group.kernel_axes, [self.extents[x] for x in group.kernel_axes])
        most = Index.of(1)
        for x in group.kernel_axes:
            most = most * self.extents[x]
        lengths = [self.lengths[a] for a in group.instruction_axes]
        lane = self._number(group.instruction_axes, [most if n is None else Index.of(n) for n in lengths])
        primed = {a: Index.of(b) for a, b in second.items()}
        position = fused - lane
        from_one = self.compare(position, "=", position.substitute(primed))
        not_before = self.compare(position, ">=", Index.of(0))
        return None if from_one is None or not_before is None else f"{from_one} and {not_before}"

    def _number(self, axes: Sequence[str], extents: Sequence[Index]) -> Index:
        total = Index.of(0)
        for axis, extent in zip(axes, extents, strict=True):
            total = total * extent.substitute(self.bindings) + Index.of(axis)
        return total

    def _equal_lanes_condition(self, group: AxisGroup, second: Mapping[str, str]) -> str:
        """Return the constraint that two lanes are equal if and only if their iterations are."""
        own = _all([f"{self.name(a)} = {self.name(second[a])}" for a in group.instruction_axes])
        theirs = _all([f"{self.name(x)} = {self.name(second[x])}" for x in group.kernel_axes])
        return f"(({own} and {theirs}) or (not ({own}) and not ({theirs})))"

    def _ranges(self, second: Mapping[str, str]) -> list[str | None]:
        """Return the ranges of all axes named so far, in which iterations stay inside their extents."""
        found: list[str | None] = []
        for axis, extent in self.extents.items():
            for name in (axis, second.get(axis)):
                if name not in self.variables:
                    continue
                end = self._text(extent.substitute(self.bindings))
                if end is None:  # a product of sizes: some number of at least 1
                    self.is_exact = False
                    end = self.name(f"extent of {axis}")
                found.append(f"0 <= {self.name(name)} < {end}")
        return found

    def _known_facts(self) -> list[str | None]:
        """Return the facts about the sizes that have been named, and about the sizes in these facts."""
        found: list[str | None] = []
        left = list(self.space.facts)
        while said := [f for f in left if f.symbols & self.parameters.keys()]:
            left = [f for f in left if f not in said]
            texts = [self.compare(fact, ">=", Index.of(0)) for fact in said]
            self.is_exact = self.is_exact and None not in texts
            found += [t for t in texts if t is not None]
        lows = dict(self.space.lows)
        return found + [f"{v} >= {lows.get(s, 1)}" for s, v in self.parameters.items()]

    def compare(self, left: Index, relation: str, right: Index) -> str | None:
        a, b = self._text(left), self._text(right)
        return None if a is None or b is None else f"{a} {relation} {b}"

    def name(self, symbol: str) -> str:
        plain = symbol.removesuffix(_PRIMED)
        if plain in self.lengths or plain in self.extents:
            return self.variables.setdefault(symbol, f"x{len(self.variables)}")
        return self.parameters.setdefault(symbol, f"n{len(self.parameters)}")

    def _text(self, index: Index) -> str | None:
        """Return an index expression in isl's notation, or None if it multiplies symbols."""
        terms: list[str] = []
        for monomial, coefficient in index.terms:
            if len(monomial) > 1:
                return None
            factor = self._atom(monomial[0]) if monomial else "1"
            if factor is None:
                return None
            terms.append(f"{coefficient}*{factor}" if monomial else str(coefficient))
        return f"({' + '.join(terms)})" if terms else "0"

    def _atom(self, atom: Atom) -> str | None:
        match atom:
            case str():
                return self.name(atom)
            case FloorDiv(value, divisor) | Mod(value, divisor):
                inner = self._text(value)
                if inner is None or divisor.value is None:
                    return None
                if isinstance(atom, FloorDiv):
                    return f"floor({inner}/{divisor.value})"
                return f"({inner} mod {divisor.value})"
            case MinMax(op, left, right):
                a, b = self._text(left), self._text(right)
                return None if a is None or b is None else f"{op}({a}, {b})"
            case Element():
                return None


def _all(parts: Sequence[str | None]) -> str:
    return " and ".join(p for p in parts if p) or "true"


@lru_cache(maxsize=4096)
def largest_parameters(instruction: Instruction) -> dict[str, int]:
    """Return the largest value of each integer parameter that has an upper bound."""
    found = _largest(instruction)
    return {} if found is None else {name: top for name, top in found.items() if top is not None}


def unit_axes(pattern: Pattern) -> tuple[str, ...]:
    """Return the axes with one element for all parameter values. No kernel axis runs on them."""
    highs = largest_parameters(pattern.instruction)
    return tuple(a.name for a in pattern.axes if a.extent.substitute(highs).value == 1)


def can_be_met(instruction: Instruction) -> bool:
    """Return whether some values within the parameters' ranges satisfy `where`.

    Strides and alignments depend on where an operand is placed, so they can always be satisfied.
    """
    return _largest(instruction) is not None


@lru_cache(maxsize=4096)
def _largest(instruction: Instruction) -> dict[str, int | None] | None:
    params = [p for p in instruction.params if p.dtype is None]
    if not instruction.where and all(_is_plain(p) for p in params):
        return {p.name: p.high.value if p.high is not None else None for p in params}
    names = tuple(p.name for p in params)
    lets = {let.name: let.value for let in instruction.lets}
    known: list[Comparison] = []
    for p in params:
        low = Index.of(1) if p.low is None else p.low
        known.append((Index.of(p.name), ">=", low.substitute(lets)))
        known += [(Index.of(p.name), "<=", p.high.substitute(lets))] if p.high is not None else []
    for c in instruction.where:
        left, right = c.left.substitute(lets), c.right.substitute(lets)
        if left.symbols | right.symbols <= set(names):
            known.append((left, c.comparison, right))
    # The largest value of each name for which all comparisons hold, or None for a name without a bound.
    import islpy  # see _is_empty

    writer = _Writer(IterationSpace(tuple((n, None) for n in names), ()))
    for name in names:
        writer.name(name)
    said = [writer.compare(left, "=" if op == "==" else op, right) for left, op, right in known]
    found = islpy.Set(f"{{ [{', '.join(writer.variables.values())}] : {_all(said)} }}")
    if found.is_empty():
        return None
    tops = [found.dim_max_val(n) for n in range(len(names))]
    return {name: top.to_python() if top.is_int() else None for name, top in zip(names, tops, strict=True)}


def _is_plain(p: Param) -> bool:
    """Return whether the ends of a parameter's range are numbers."""
    low = 1 if p.low is None else p.low.value
    return low is not None and (p.high is None or (p.high.value is not None and low <= p.high.value))
