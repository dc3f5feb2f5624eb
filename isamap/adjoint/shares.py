"""What each value gets that is reduced into an element otherwise than by a sum.

Of several values that are the largest each gets an equal share of the adjoint; of a product's factors each
gets the adjoint times the others' product, also where a factor is 0.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from isamap.adjoint.arithmetic import adjoint_type, cast, choose, div, mul, number, wide
from isamap.adjoint.names import Names
from isamap.adjoint.partials import depends
from isamap.adjoint.single_assignment import Built
from isamap.ir import Assign, Call, Const, DType, Expr, Operand, Read
from isamap.ir.dtypes import BOOL
from isamap.transform.statements import Statement

Value = Callable[[Statement, DType], Expr]
"""What an array gets of a statement, in the array's type."""


@dataclass(slots=True)
class Shares:
    """Arrays that are made beside the ones that values are reduced into, each once.

    `made`, `zeroed` and `arrays` are the derivative's: statements in their order, arrays that begin as zeros,
    and all arrays.
    """

    built: Built
    active: set[str]
    names: Names
    made: list[Statement]
    zeroed: dict[str, Operand]
    arrays: list[Operand]
    beside: dict[tuple[str, str], Operand] = field(default_factory=dict[tuple[str, str], Operand])

    def of_adjoint(self, s: Statement, adjoint: Expr) -> Expr:
        """What the value of a statement gets of the adjoint of its target."""
        match s.assign.op if s.assign.op not in (None, "add") else self._reduced_by(s):
            case "max" | "min":
                return self._of_extreme(s, adjoint)
            case "mul":
                return self._of_product(s, adjoint)
            case _:
                return adjoint

    def _reduced_by(self, s: Statement) -> str | None:
        """The operation by which statements reduce into the target of one."""
        return next((q.assign.op for q in self._into(s.assign.target) if q.assign.op is not None), None)

    def _into(self, target: Read) -> list[Statement]:
        return [q for q in self.built.statements if q.assign.target.buffer == target.buffer]

    def _of_extreme(self, s: Statement, adjoint: Expr) -> Expr:
        ties = self._counted("ties", s.assign.target, _is_extreme, self.active.__contains__)
        return choose(_equals_result(s), div(adjoint, _at(ties, s.assign.target)), number(0, adjoint))

    def _of_product(self, s: Statement, adjoint: Expr) -> Expr:
        """The adjoint times the product of all other factors, of which none may be 0."""
        zeros = _at(self._counted("zeros", s.assign.target, _is_zero), s.assign.target)
        rest = _at(self._product(s.assign.target), s.assign.target)
        value = wide(s.assign.value)
        others = choose(_equals_zero(value), rest, div(rest, value))
        is_whole = Call("eq", (zeros, _is_zero(s, zeros.dtype)), BOOL)
        return choose(is_whole, mul(adjoint, others), number(0, adjoint))

    def _counted(
        self, what: str, target: Read, value: Value, of: Callable[[str], bool] | None = None
    ) -> Operand:
        """How many of the values reduced into each element are so, of those that read arrays `of` a kind."""
        known = self.beside.get((what, target.buffer))
        if known is None:
            known = self._begun(what, target)
            self.zeroed[known.name] = known
            for q in self._into(target):
                if of is None or depends(q.assign.value, of):
                    self._add(q, known, "add", value(q, known.dtype))
        return known

    def _product(self, target: Read) -> Operand:
        """The product of the factors other than 0."""
        known = self.beside.get(("product", target.buffer))
        if known is None:
            known = self._begun("product", target)
            for q in self._into(target):
                value = wide(q.assign.value)
                factor = choose(_equals_zero(value), number(1, value), value)
                self._add(q, known, q.assign.op, cast(factor, known.dtype))
        return known

    def _begun(self, what: str, target: Read) -> Operand:
        dtype = adjoint_type(target.dtype)
        shape = self.built.operand(target.buffer).shape
        made = Operand(self.names.fresh(f"{what}_{target.buffer}"), "temp", dtype, shape)
        self.arrays.append(made)
        self.beside[what, target.buffer] = made
        return made

    def _add(self, q: Statement, to: Operand, op: str | None, value: Expr) -> None:
        axes = (*q.sequence, *q.axes)  # all steps are kept
        assign = Assign(_at(to, q.assign.target), op, value, q.assign.guard)
        self.made.append(Statement(axes, assign, to.dtype))


def _at(array: Operand, target: Read) -> Read:
    return Read(array.name, target.index, array.dtype)


def _equals_result(q: Statement) -> Expr:
    return Call("eq", (q.assign.value, replace(q.assign.target, span=None)), BOOL)


def _equals_zero(value: Expr) -> Expr:
    return Call("eq", (value, number(0, value)), BOOL)


def _is_extreme(q: Statement, dtype: DType) -> Expr:
    return choose(_equals_result(q), Const(1, dtype), Const(0, dtype))


def _is_zero(q: Statement, dtype: DType) -> Expr:
    return choose(_equals_zero(q.assign.value), Const(1, dtype), Const(0, dtype))
