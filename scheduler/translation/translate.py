"""Translate cost expressions to CP-SAT.

Two readings of an expression. `_exact` gives a term that equals a whole-numbered expression. `_scale_cost` gives
a term that is a factor times any expression, rounded down, so that the solver's bound bounds the true cost.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import floor, prod, sqrt
from typing import TYPE_CHECKING, assert_never

from isamap.plan import cost as algebra
from isamap.scheduler.translation import linear_terms as linear
from isamap.source.records import dataclass, field

if TYPE_CHECKING:
    from ortools.sat.python import cp_model

    from isamap.scheduler.translation.linear_terms import Literal


# Into how many steps a factor is cut that is not a whole number.
FINE = 1 << 20
# Of more numbers than this that a decision chooses between, one is chosen before it is multiplied.
FEW = 4


@dataclass(slots=True)
class Translator:
    """The translation of one cost into one model. `cap_ns` is a known upper bound on the solution's cost.

    Memos are keyed by identity. `made` holds the new expressions, by the parts that they are made of.
    """

    model: cp_model.CpModel
    literals: linear.Literals
    scale: float
    cap_ns: float
    terms: dict[int, linear.LinearTerm] = field(default_factory=dict[int, linear.LinearTerm])
    excesses: dict[tuple[int, int], cp_model.IntVar] = field(
        default_factory=dict[tuple[int, int], "cp_model.IntVar"]
    )
    axes: dict[int, frozenset[str]] = field(default_factory=dict[int, frozenset[str]])
    wholes: dict[int, bool] = field(default_factory=dict[int, bool])
    made: dict[tuple[int, ...], algebra.Cost] = field(default_factory=dict[tuple[int, ...], algebra.Cost])
    scaled: dict[tuple[int, float, bool], linear.LinearTerm] = field(
        default_factory=dict[tuple[int, float, bool], linear.LinearTerm]
    )
    valued: dict[str, Mapping[int, Literal]] = field(default_factory=dict[str, "Mapping[int, Literal]"])

    def translate(self, cost: algebra.Cost) -> linear.LinearTerm:
        """Return the cost times `scale`."""
        return self._scale_cost(cost, self.scale, paid=True)

    # --- any expression, times a factor -------------------------------------------------------------------

    def _scale_cost(self, cost: algebra.Cost, factor: float, *, paid: bool) -> linear.LinearTerm:
        """Return the term of a cost. With `paid`, it is a part of the total cost and so at most the cap."""
        key = id(cost), factor, paid
        if key not in self.scaled:
            self.scaled[key] = self._scale_anew(cost, factor, paid=paid)
        return self.scaled[key]

    def _scale_anew(self, cost: algebra.Cost, factor: float, *, paid: bool) -> linear.LinearTerm:
        if self._is_whole(cost):
            most = floor(self.cap_ns * self.scale / factor) + 1 if paid and factor > 0 else None
            return linear.weight_term(floor(factor), self._exact(cost, most))
        match cost:
            case algebra.Const(value):
                return linear.constant(floor(factor * value))
            case algebra.Add(parts):
                return linear.add_terms([self._scale_cost(part, factor, paid=paid) for part in parts])
            case algebra.Max(parts):
                return linear.at_least(
                    self.model, [self._scale_cost(part, factor, paid=paid) for part in parts]
                )
            case algebra.Mul(parts):
                return self._scaled_product(parts, factor, paid=paid)
            case algebra.Cases(decision, branches):
                literals = self._by_value(decision)
                taken = [(literals[key], part) for key, part in branches if key in literals]
                only = paid and len(taken) == 1
                return linear.switch_term(
                    self.model, [(at, self._scale_cost(part, factor, paid=only)) for at, part in taken]
                )
            case algebra.Threshold(load, limit, below, above):
                literal = self._exceeds(load, limit)
                under = self._scale_cost(below, factor, paid=paid)
                over = self._scale_cost(above, factor, paid=False)
                return linear.switch_term(self.model, [(literal.negated(), under), (literal, over)])
            case algebra.OverBlocks():
                return linear.over_blocks(self.model, self.literals, cost, factor)
            case algebra.Decision() | algebra.CeilDiv():
                raise AssertionError("decisions and quotients are whole")
            case _:
                assert_never(cost)

    def _scaled_product(
        self, parts: Sequence[algebra.Cost], factor: float, *, paid: bool
    ) -> linear.LinearTerm:
        """Return the term of a product: constants go into the factor, and fractions are multiplied out."""
        flat = _flatten_factors(parts)
        factor *= prod(part.value for part in flat if isinstance(part, algebra.Const))
        rest = tuple(part for part in flat if not isinstance(part, algebra.Const))
        broken = min(
            (part for part in rest if not self._is_whole(part)),
            key=lambda p: isinstance(p, algebra.OverBlocks),
            default=None,
        )
        if broken is None:
            return self._scale_cost(self._times(*rest), factor, paid=paid)
        others = tuple(part for part in rest if part is not broken)
        if not others:
            return self._scale_cost(broken, factor, paid=paid)
        if any(isinstance(part, algebra.Add | algebra.Max) and not self._is_whole(part) for part in others):
            return self._of_two(broken, self._times(*others), factor, paid=paid)
        if isinstance(broken, algebra.OverBlocks):
            return self._multiply_block_sum(broken, others, factor)
        if _is_number(broken) and all(map(self._is_whole, others)):
            # One product with the number that holds, instead of one for each of many numbers.
            once = linear.variable(self.model, self._scale_cost(broken, factor, paid=False))
            most = floor(self.cap_ns * self.scale) + 1 if paid else None
            return linear.multiply_terms(self.model, self._exact(self._times(*others)), once, most)
        return self._scale_cost(self._spread(broken, others), factor, paid=paid)

    def _of_two(
        self, one: algebra.Cost, other: algebra.Cost, factor: float, *, paid: bool
    ) -> linear.LinearTerm:
        """Return the product of two sums, scaled so that the least values of both have equally many steps."""
        first, second = (max(1, self._scale_cost(part, 1.0, paid=False).low) for part in (one, other))
        steps = sqrt(factor * second / first), sqrt(factor * first / second)
        left, right = (
            linear.variable(self.model, self._scale_cost(part, step, paid=False))
            for part, step in zip((one, other), steps, strict=True)
        )
        most = floor(self.cap_ns * self.scale) + 1 if paid else None
        return linear.multiply_terms(self.model, left, right, most)

    def _multiply_block_sum(
        self, cost: algebra.OverBlocks, others: tuple[algebra.Cost, ...], factor: float
    ) -> linear.LinearTerm:
        """Return the product of a sum over register blocks and other factors: integers, or further such sums."""
        sums = [part for part in others if isinstance(part, algebra.OverBlocks) and not self._is_whole(part)]
        found = self._exact(self._times(*(part for part in others if part not in sums)))
        for part, own in ((cost, factor / FINE ** len(sums)), *((part, FINE) for part in sums)):
            once = linear.variable(self.model, linear.over_blocks(self.model, self.literals, part, own))
            found = linear.multiply_terms(self.model, found, once, None)
        return found

    def _spread(self, part: algebra.Cost, others: tuple[algebra.Cost, ...]) -> algebra.Cost:
        """Return the product, with the other factors moved into the terms of `part`."""
        key = -1, id(part), *map(id, others)  # the product itself has the key without -1
        if key not in self.made:
            self.made[key] = self._spread_anew(part, others)
        return self.made[key]

    def _spread_anew(self, part: algebra.Cost, others: tuple[algebra.Cost, ...]) -> algebra.Cost:
        def product(inner: algebra.Cost) -> algebra.Cost:
            return self._times(inner, *others)

        match part:
            case algebra.Add(parts):
                return algebra.Add(tuple(product(inner) for inner in parts))
            case algebra.Max(parts):
                return algebra.Max(tuple(product(inner) for inner in parts))
            case algebra.Cases(decision, branches):
                return algebra.Cases(decision, tuple((key, product(inner)) for key, inner in branches))
            case algebra.Threshold(load, limit, below, above):
                return algebra.Threshold(load, limit, product(below), product(above))
            case (
                algebra.Const()
                | algebra.Decision()
                | algebra.CeilDiv()
                | algebra.Mul()
                | algebra.OverBlocks()
            ):
                raise AssertionError("products are flat, and these are whole, or multiplied themselves")
            case _:
                assert_never(part)

    def _by_value(self, decision: str) -> Mapping[int, Literal]:
        """Return literals for the values of a decision. They are created once."""
        if decision not in self.valued:
            self.valued[decision] = linear.by_value(self.model, self.literals, decision)
        return self.valued[decision]

    def _times(self, *parts: algebra.Cost) -> algebra.Cost:
        """Return the product. Equal parts make it once, so that it also is translated once."""
        key = tuple(map(id, parts))
        if key not in self.made:
            self.made[key] = algebra.times(*parts)
        return self.made[key]

    # --- whole-numbered expressions -----------------------------------------------------------------------

    def _exact(self, cost: algebra.Cost, most: int | None = None) -> linear.LinearTerm:
        """Return the exact value of an integer expression. Values above `most` are excluded."""
        if id(cost) not in self.terms:
            axes = self._axes(cost)
            if not axes:
                found = linear.constant(int(algebra.evaluate(cost, {})))
            elif len(axes) == 1 and min(axes):
                found = self._tabulate_cost(cost, min(axes))
            else:
                found = self._compose_cost(cost, most)
            if most is not None:
                return found
            self.terms[id(cost)] = found
        return self.terms[id(cost)]

    def _compose_cost(self, cost: algebra.Cost, most: int | None) -> linear.LinearTerm:
        match cost:
            case algebra.Const(value):
                return linear.constant(int(value))
            case algebra.Decision(name):
                return linear.select_by_literal(
                    self.model, [(at, value) for value, at in self.literals.single[name].items()]
                )
            case algebra.Add(parts):
                return linear.add_terms([self._exact(part) for part in parts])
            case algebra.Max(parts):
                return linear.at_least(self.model, [self._exact(part) for part in parts])
            case algebra.Mul(parts):
                return self._product(parts, most)
            case algebra.CeilDiv(dividend, divisor):
                return linear.quotient(self.model, self._exact(dividend), self._exact(divisor))
            case algebra.Cases(decision, branches):
                literals = self._by_value(decision)
                taken = [(literals[key], part) for key, part in branches if key in literals]
                return linear.equal(self.model, [(at, self._exact(part)) for at, part in taken])
            case algebra.Threshold(load, limit, below, above):
                literal = self._exceeds(load, limit)
                under, over = self._exact(below), self._exact(above)
                return linear.equal(self.model, [(literal.negated(), under), (literal, over)])
            case algebra.OverBlocks():
                return linear.over_blocks(self.model, self.literals, cost, None)
            case _:
                assert_never(cost)

    def _tabulate_cost(self, cost: algebra.Cost, axis: str) -> linear.LinearTerm:
        """Return an expression of one axis as a table with a value for each choice."""
        joint = self.literals.joint[axis]
        return linear.select_by_literal(
            self.model, [(at, int(algebra.evaluate(cost, made))) for at, made in joint]
        )

    def _product(self, parts: Sequence[algebra.Cost], most: int | None) -> linear.LinearTerm:
        """Return the product. Factors over one axis are tabulated together, the others multiplied one by one."""
        flat = _flatten_factors(parts)
        factor = prod(part.value for part in flat if isinstance(part, algebra.Const))
        number = int(factor)
        assert number == factor, f"a share, {factor:g}, cannot be counted: state the load in whole numbers"
        by_axis: dict[str, list[algebra.Cost]] = {}
        factors: list[linear.LinearTerm] = []
        for part in flat:
            axes = self._axes(part)
            if len(axes) == 1 and min(axes):
                by_axis.setdefault(min(axes), []).append(part)
            elif not isinstance(part, algebra.Const):
                factors.append(self._exact(part))
        joined = [own[0] if len(own) == 1 else self._times(*own) for own in by_axis.values()]
        factors += [self._exact(part) for part in joined]
        factors.sort(key=lambda term: term.high)
        capped = most is not None and number >= 1 and all(term.low >= 1 for term in factors)
        product = linear.constant(1)
        for term in factors:
            product = linear.multiply_terms(
                self.model, product, term, most // number if capped and most else None
            )
        return linear.count_term(self.model, number, product)

    def _exceeds(self, load: algebra.Cost, limit: int) -> cp_model.IntVar:
        """Return a literal that is true if the load exceeds the limit."""
        key = id(load), limit
        if key not in self.excesses:
            term = (
                self._exact(load)
                if self._is_whole(load)
                else self._scale_cost(load, FINE / max(1, limit), paid=False)
            )
            limit = limit if self._is_whole(load) else limit * FINE // max(1, limit)
            literal = self.model.new_bool_var("")
            if term.low > limit:
                self.model.add(literal == 1)
            elif term.high > limit:
                linear.imply(self.model, literal.negated(), term.expr <= limit)
            else:
                self.model.add(literal == 0)
            self.excesses[key] = literal
        return self.excesses[key]

    def _is_whole(self, cost: algebra.Cost) -> bool:
        """Return whether an expression only has integer values."""
        return algebra.is_whole(cost, self.wholes)

    def _axes(self, cost: algebra.Cost) -> frozenset[str]:
        """Return the axes whose joint decisions an expression depends on, and "" for any other decision."""
        if id(cost) not in self.axes:
            own = {self.literals.axis_of.get(name, "") for name in algebra.decisions_in(cost)}
            self.axes[id(cost)] = frozenset(own).union(*(self._axes(part) for part in algebra.parts_of(cost)))
        return self.axes[id(cost)]


def _flatten_factors(parts: Iterable[algebra.Cost]) -> list[algebra.Cost]:
    """Return the factors of a product, including those of nested products."""
    flat: list[algebra.Cost] = []
    for part in parts:
        flat += _flatten_factors(part.parts) if isinstance(part, algebra.Mul) else [part]
    return flat


def _is_number(cost: algebra.Cost) -> bool:
    """Return whether an expression is a decision between many numbers."""
    many = isinstance(cost, algebra.Cases) and len(cost.branches) > FEW
    return many and all(isinstance(part, algebra.Const) for part in algebra.parts_of(cost))
