"""Reverse-mode differentiation of a kernel's statements: propagate adjoints of results to inputs.

    y[p] += x[p*2 + r - 1] * w[r]      for p in P, r in R

adds `d_y[p] * w[r]` to the adjoint of an element of x for each element of y: a scatter. Written as a gather, each
element of x collects: `d_x[i] += (d_y[(i - r + 1) / 2] else 0) * w[r] if (i - r + 1) % 2 == 0`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from functools import reduce
from itertools import groupby

from isamap.adjoint.partials import (
    Source,
    adjoint_type,
    cast,
    choose,
    depends,
    div,
    mul,
    number,
    partials,
    wide,
)
from isamap.adjoint.single_assignment import Built
from isamap.adjoint.value_storage import AdjointNames, no_derivative
from isamap.ir.dtypes import BOOL, I64, DType
from isamap.ir.facts import inside_conditions
from isamap.ir.index import Index, elements_of, has_elements
from isamap.ir.nodes import Assign, Axis, Call, Cast, Const, Expr, IndexValue, Kernel, Operand, Read, Scalar
from isamap.ir.substitute import substitute_expr
from isamap.ir.verify import verify
from isamap.ir.walk import indices, map_reads, reads, walk
from isamap.source import Span, dataclass, field, replace
from isamap.transform.rewrite import map_accesses, with_statements
from isamap.transform.statements import Statement

Shapes = Callable[[str], tuple[Index, ...]]
"""The shape of an array by its name."""


@dataclass(frozen=True, slots=True)
class Contribution:
    """An addition to an array's element `index`: `value`, at each point of the axes where `guard` holds."""

    axes: tuple[Axis, ...]
    index: tuple[Index, ...]
    value: Expr
    guard: Expr | None

    @property
    def is_plain(self) -> bool:
        """True if each subscript is a different axis."""
        names = {a.name for a in self.axes}
        found = [str(i) for i in self.index]
        return len(set(found)) == len(found) and set(found) <= names


def contribution(
    axes: tuple[Axis, ...],
    read: Read,
    value: Expr,
    guard: Expr | None,
    shapes: Shapes,
    names: AdjointNames,
    selecting: Collection[str],
) -> Contribution:
    """Return the contribution to an element that is read. `selecting` are the axes that select results.

    Shapes: `shapes` has those of all arrays.
    """
    found, shape = Contribution(axes, read.index, value, guard), shapes(read.buffer)
    for dim, extent in enumerate(shape):
        along = Axis(names.axis(f"i{dim}", (*axes, *found.axes)), extent)
        if (turned := _run_along(found, dim, shapes, along, selecting)) is not None:
            found = turned
    if read.fill is not None:
        scattered = [d for d, i in enumerate(found.index) if str(i) not in {a.name for a in found.axes}]
        inside = inside_conditions(replace(read, index=found.index), shape)
        found = replace(found, guard=_all(found.guard, *(c for d in scattered for c in inside[d])))
    first = {str(i): n for n, i in enumerate(found.index)}
    ordered = sorted(found.axes, key=lambda a: first.get(a.name, len(first)))
    return replace(found, axes=tuple(ordered))


def _run_along(
    c: Contribution, dim: int, shapes: Shapes, along: Axis, selecting: Collection[str]
) -> Contribution | None:
    """Return the contribution with `along` in place of the axes of one target dimension, or None."""
    names = {a.name for a in c.axes}
    subscript = c.index[dim]
    others = {s for n, i in enumerate(c.index) if n != dim for s in i.symbols}
    if subscript in map(Index.of, names - others) or not subscript.symbols & names:
        return None
    if has_elements(subscript):  # it would run over all of the target, and test each element
        return None
    own = [a for a in c.axes if a.name in subscript.symbols - others and subscript.coefficient(a.name)]
    # An axis that selects results leaves the shorter loops, of a filter and the like; and outside the array
    # of results adjoints are 0, which needs no condition.
    own.sort(key=lambda a: (a.name not in selecting, subscript.coefficient(a.name) != Index.of(1)))
    for axis in own:
        factor = subscript.coefficient(axis.name)
        assert factor is not None
        if not factor.symbols & names and (factor.value is None or factor.value > 0):
            return _solve_axis(c, dim, shapes, along, axis, factor)
    return None


def _solve_axis(
    c: Contribution, dim: int, shapes: Shapes, along: Axis, axis: Axis, factor: Index
) -> Contribution:
    """Return the contribution with `axis` expressed in `along`, which is the position in the target."""
    rest = c.index[dim] - factor * Index.of(axis.name)
    distance = Index.of(along.name) - rest
    solution = {axis.name: distance.floordiv(factor)}
    conditions: list[Expr] = []
    if factor.value != 1:
        conditions.append(_compare("eq", distance.mod(factor), Index.of(0)))
    value = _zero_outside(c.value, axis, shapes)
    if value is None:
        value = c.value
        conditions += [
            _compare("ge", solution[axis.name], Index.of(0)),
            _compare("lt", solution[axis.name], axis.extent),
        ]
    guard = substitute_expr(c.guard, solution) if c.guard is not None else None
    index = [i.substitute(solution) for i in c.index]
    index[dim] = Index.of(along.name)
    axes = tuple(along if a == axis else a for a in c.axes)
    return Contribution(axes, tuple(index), substitute_expr(value, solution), _all(guard, *conditions))


def _zero_outside(value: Expr, axis: Axis, shapes: Shapes) -> Expr | None:
    """Return a product in which a factor is 0 wherever `axis` leaves its range, or None."""
    factors = _factors(value)
    whole = (Index.of(axis.name), axis.extent)
    if factors is None or not any(whole in zip(r.index, shapes(r.buffer), strict=True) for r in factors):
        return None
    if any(r.fill is not None and r.fill.value != 0 for r in factors):
        return None

    def filled(r: Read) -> Expr:
        own = any(axis.name in i.symbols for i in r.index)
        return replace(r, fill=Const(0, r.dtype)) if own else r

    return map_reads(value, filled)


def _factors(e: Expr) -> list[Read] | None:
    """Return the elements that an expression multiplies, constants aside, or None if it is no product."""
    match e:
        case Read():
            return [e]
        case Const() | Scalar():
            return []
        case Cast(value, _, mode) if mode != "bits":
            return _factors(value)
        case Call("mul" | "neg", args):
            parts = [_factors(a) for a in args]
            known = [p for p in parts if p is not None]
            return [r for p in known for r in p] if len(known) == len(parts) else None
        case _:
            return None


def _compare(op: str, left: Index, right: Index) -> Expr:
    sides = [IndexValue(i, I64) if i.value is None else Const(i.value, I64) for i in (left, right)]
    return Call(op, tuple(sides), BOOL)


def _all(guard: Expr | None, *conditions: Expr) -> Expr | None:
    known: Sequence[Expr] = [c for c in (guard, *conditions) if c is not None]
    return reduce(lambda a, b: Call("and", (a, b), BOOL), known) if known else None


BACKWARD = 1 << 16
"""Ordered loops backwards are numbered from here."""


@dataclass(slots=True)
class Backward:
    """The statements of the derivative so far.

    `adjoints` maps each array to its adjoint. `touched` are the adjoints that a statement has changed, and
    `zeroed` those that start as zeros, since no statement assigns all their elements first. `useful` are
    the arrays from which results are computed, `more` all other arrays.
    """

    kernel: Kernel
    built: Built
    active: set[str]
    names: AdjointNames
    useful: set[str] = field(default_factory=set[str])
    adjoints: dict[str, Operand] = field(default_factory=dict[str, Operand])
    touched: set[str] = field(default_factory=set[str])
    seeds: list[Operand] = field(default_factory=list[Operand])
    made: list[Statement] = field(default_factory=list[Statement])
    more: list[Operand] = field(default_factory=list[Operand])
    zeroed: dict[str, Operand] = field(default_factory=dict[str, Operand])
    shares: Shares = field(init=False)

    def __post_init__(self) -> None:
        self.shares = Shares(self.built, self.active, self.names, self.made, self.zeroed, self.more)

    # --- adjoints of results -----------------------------------------------------------------------

    def seed(self, results: Sequence[str]) -> None:
        """Initialise the adjoints of results by the inputs, without a copy where nothing is added to them."""
        read = {r.buffer for s in self.built.statements for r in reads(s.assign.value)}
        for name in results:
            operand, place = self.kernel.operand(name), self.built.finals[name]
            seed = replace(
                operand, name=self.names.fresh(f"d_{name}"), role="in", accumulate=None, outside=None
            )
            self.seeds.append(seed)
            if place.name not in self.active:
                continue
            if place.step is None and place.name not in read:
                self.adjoints[place.name] = seed
                continue
            axes = self.names.axes(operand.shape)
            index = tuple(Index.of(a.name) for a in axes)
            value = wide(Read(seed.name, index, operand.dtype))
            self.add(place.name, Contribution(axes, place.index(index), value, None), (), ())

    def sources_of(self, results: set[str]) -> set[str]:
        """Return the active arrays from which results are computed, including the results."""
        found = results & self.active
        while True:
            given = [s for s in self.built.statements if s.assign.target.buffer in found]
            more = {r.buffer for s in given for r in reads(s.assign.value)} & self.active
            if more <= found:
                return found
            found |= more

    def adjoints_of(self, name: str) -> Operand:
        """Return the array of the adjoints of an array, or the adjoint of a number."""
        if name not in self.adjoints:
            shape, dtype = self.shape(name), adjoint_type(self.dtype(name))
            self.adjoints[name] = Operand(self.names.fresh(f"d_{name}"), "temp", dtype, shape)
        return self.adjoints[name]

    def shape(self, name: str) -> tuple[Index, ...]:
        """Return the shape of an array of the kernel, or of an array of adjoints."""
        for o in (*self.built.operands, *self.adjoints.values(), *self.seeds, *self.more):
            if o.name == name:
                return o.shape
        return ()

    def dtype(self, name: str) -> DType:
        arrays = [o.dtype for o in self.built.operands if o.name == name]
        scalars = [p.dtype for p in self.kernel.params if p.name == name and p.dtype is not None]
        return (arrays or scalars)[0]

    # --- statements backwards -------------------------------------------------------------------------

    def run(self, results: Sequence[str]) -> None:
        self.useful = self.sources_of({self.built.finals[n].name for n in results})
        groups = groupby(self.built.statements, lambda s: (s.ordered_loops or (None,))[0])
        for loop, members in reversed([(n, list(group)) for n, group in groups]):
            if loop is None:
                for s in reversed(members):
                    for name, c in self.contributions(s):
                        self.add(name, c, (), ())
                continue
            found = [c for s in reversed(members) for c in self.contributions(s)]
            axis = members[0].sequence[0]
            # What no step reads is added up behind the loop, over all steps at once: large products.
            arrays_read = {r.buffer for _, c in found for r in reads(c.value)}
            later = [(n, c) for n, c in found if self.adjoints_of(n).name not in arrays_read]
            # A loop that data bounds stays inside.
            later = [(n, c) for n, c in later if not any(has_elements(a.extent) for a in c.axes)]
            for name, c in found:
                if (name, c) not in later:
                    self.add(name, c, (axis,), (BACKWARD + loop,))
            for name, c in later:
                first = {str(i): n for n, i in enumerate(c.index)}
                axes = sorted((axis, *c.axes), key=lambda a: first.get(a.name, len(first)))
                self.add(name, replace(c, axes=tuple(axes)), (), ())

    def contributions(self, s: Statement) -> Iterator[tuple[str, Contribution]]:
        """Yield the adjoint of a statement's target, propagated to the operands of its value."""
        target = s.assign.target
        if target.buffer not in self.useful or not depends(s.assign.value, self.active.__contains__):
            return
        own = self.adjoints_of(target.buffer)
        adjoint = wide(Read(own.name, target.index, own.dtype))
        value = s.assign.value
        adjoint = self.shares.of_adjoint(s, adjoint)
        adjoint = cast(adjoint, adjoint_type(value.dtype))
        stored = replace(target, span=None) if s.assign.op is None else None
        found = partials(value, adjoint, self.active.__contains__, stored)
        for source, part in found.items():
            yield self.passed_on(s, source, part)

    def passed_on(self, s: Statement, source: Source, part: Expr) -> tuple[str, Contribution]:
        if isinstance(source, Scalar):
            return source.name, Contribution(s.axes, (), part, s.assign.guard)
        selecting = {str(i) for i in s.assign.target.index}
        c = contribution(s.axes, source, part, s.assign.guard, self.shape, self.names, selecting)
        check_gathered(source.buffer, c.index, s.assign.span)
        return source.buffer, c

    # --- arrays of adjoints ------------------------------------------------------------

    def add(self, name: str, c: Contribution, sequence: tuple[Axis, ...], loops: tuple[int, ...]) -> None:
        """Append a statement that adds a contribution for all elements, or assigns it if it is the first one."""
        to = self.adjoints_of(name)
        axes = {a.name: a.extent for a in (*sequence, *c.axes)}
        plain = [str(i) for i in c.index]
        whole = len(set(plain)) == len(plain) and set(plain) == axes.keys() and c.guard is None
        whole = whole and all(axes[n] == e for n, e in zip(plain, to.shape, strict=True))
        first = to.name not in self.touched
        self.touched.add(to.name)
        if first and not whole:
            self.zeroed[to.name] = to
        op = None if first and whole else "add"
        reversed_axes = {a.name: a.extent - 1 - Index.of(a.name) for a in sequence}
        index = tuple(i.substitute(reversed_axes) for i in c.index)
        guard = substitute_expr(c.guard, reversed_axes) if c.guard is not None else None
        value = cast(substitute_expr(c.value, reversed_axes), to.dtype)
        assign = Assign(Read(to.name, index, to.dtype), op, value, guard)
        own = tuple(replace(a, extent=a.extent.substitute(reversed_axes)) for a in c.axes)
        self.made.append(Statement(own, assign, to.dtype, sequence, loops))

    def zeros(self, o: Operand) -> Statement:
        axes = self.names.axes(o.shape)
        at = Read(o.name, tuple(Index.of(a.name) for a in axes), o.dtype)
        return Statement(axes, Assign(at, None, Const(0, o.dtype)), o.dtype)

    # --- the kernel -----------------------------------------------------------------------------------

    def finish(self, sources: Sequence[str], keep: Collection[str] = ()) -> tuple[Kernel, tuple[str, ...]]:
        """Return the kernel whose outputs are the adjoints of `sources`, and the names of recomputed arrays.

        Those of `keep` are inputs instead.
        """
        outputs = [self.output(name) for name in sources]
        of_type = {o.name: o for o in outputs}
        zeros = [self.zeros(of_type.get(name, o)) for name, o in self.zeroed.items()]
        backward = required_arrays([*zeros, *self.made], {o.name for o in outputs})
        needed = {r.buffer for s in backward for r in _all_reads(s)} - {
            s.assign.target.buffer for s in backward
        }
        again = [s for s in self.built.statements if s.assign.target.buffer not in keep]
        forward = required_arrays(again, needed)
        given = [*forward, *backward]
        used = {r.buffer for s in given for r in (s.assign.target, *_all_reads(s))}
        used |= {name for s in given for name in arrays_of_indices(s)}
        ends = {o.name for o in (*outputs, *self.seeds)}
        mine = [o for o in self.built.operands if o.role != "in" and o.name in used]
        temps = [o for o in (*self.adjoints.values(), *self.more) if o.name not in ends]
        operands = [
            *(o for o in self.built.operands if o.role == "in" and o.name in used),
            *(replace(o, role="in", accumulate=None) for o in mine if o.name in keep),
            *self.seeds,
            *outputs,
            *(o for o in mine if o.name not in keep),
            *(o for o in temps if o.name in used),
        ]
        scalars = {e for s in given for e in _scalars(s.assign.value)}
        params = [p for p in self.kernel.params if p.dtype is None or p.name in scalars]
        frame = replace(self.kernel, name=f"{self.kernel.name}_back", params=tuple(params))
        made = with_statements(frame, given, operands)
        if findings := verify(made):
            said = f"the derivative of `{self.kernel.name}` could not be proved right: {findings[0].message}"
            raise no_derivative(
                said, self.kernel.span, "name fewer inputs by --by, or state constraints on sizes by `where`"
            )
        return made, tuple(dict.fromkeys(s.assign.target.buffer for s in forward))

    def output(self, name: str) -> Operand:
        """Return the output of an input's adjoints, in that input's own type."""
        adjoint, dtype = self.adjoints[name], self.dtype(name)
        if adjoint.role == "in":
            output = Operand(self.names.fresh(f"{adjoint.name}_old"), "out", dtype, adjoint.shape)
            self.assign_output(adjoint, output)
            return output
        return replace(adjoint, role="out") if adjoint.dtype == dtype else self.narrowed(adjoint, dtype)

    def narrowed(self, adjoint: Operand, dtype: DType) -> Operand:
        """Return the output for a sum in a wider type. The sum is rounded once, when it is complete."""
        sums = [s for s in self.made if s.assign.target.buffer == adjoint.name]
        if len(sums) == 1 and sums[0].assign.op is not None:
            return replace(adjoint, role="out", dtype=dtype, accumulate=adjoint.dtype)
        wide_sum = Operand(self.names.fresh(f"{adjoint.name}_sum"), "temp", adjoint.dtype, adjoint.shape)
        self.made[:] = (
            map_accesses(s, lambda r: _rename_read(r, adjoint.name, wide_sum.name)) for s in self.made
        )
        if adjoint.name in self.zeroed:
            self.zeroed[wide_sum.name] = replace(self.zeroed.pop(adjoint.name), name=wide_sum.name)
        self.more.append(wide_sum)
        out = replace(adjoint, role="out", dtype=dtype)
        self.assign_output(wide_sum, out)
        return out

    def assign_output(self, adjoint: Operand, output: Operand) -> None:
        """Append the statement that assigns an output."""
        axes = self.names.axes(adjoint.shape)
        index = tuple(Index.of(a.name) for a in axes)
        value = cast(Read(adjoint.name, index, adjoint.dtype), output.dtype)
        assign = Assign(Read(output.name, index, output.dtype), None, value)
        self.made.append(Statement(axes, assign, output.dtype))


def required_arrays(given: Sequence[Statement], names: set[str]) -> list[Statement]:
    """Return, in their order, the statements that compute the named arrays."""
    needed = set(names)
    while True:
        kept = [s for s in given if s.assign.target.buffer in needed]
        more = {r.buffer for s in kept for r in _all_reads(s)}
        if more <= needed:
            return kept
        needed |= more


def _all_reads(s: Statement) -> tuple[Read, ...]:
    return (*reads(s.assign.value), *(reads(s.assign.guard) if s.assign.guard is not None else ()))


def _rename_read(r: Read, old: str, new: str) -> Read:
    return replace(r, buffer=new) if r.buffer == old else r


def _scalars(e: Expr) -> Iterator[str]:
    return (part.name for part in walk(e) if isinstance(part, Scalar))


# Derivatives where indices are made of data: what has one, and the arrays that indices are made of.
#
#     C[m, n] += s[m] * val[p] * B[col[p], n]     for p in row[m]..row[m + 1]
#
# By s it is a sum over the same loops. By `B` it would be added up at rows that `col` names, and by `val` at
# places that begin where `row` says; results are at no such places (docs/sparse.md).


def check_gathered(name: str, index: Sequence[Index], span: Span | None) -> None:
    """Check that the index of `name` in a derivative does not depend on data. Raises: UsageProblem."""
    arrays = dict.fromkeys(e.buffer for i in index for e in elements_of(i))
    if arrays:
        by = " and ".join(f"`{a}`" for a in arrays)
        raise no_derivative(
            f"the derivative by `{name}` would be added up at places made of {by}",
            span,
            f"leave `{name}` out of --by, and write its derivative over the transposed pattern: "
            "a kernel that reads where this one would write",
        )


def arrays_of_indices(s: Statement) -> set[str]:
    """Return the arrays that occur in subscripts, loop bounds and index values of a statement's expressions."""
    a = s.assign
    found = [axis.extent for axis in (*s.axes, *s.sequence)]
    for expr in (a.target, a.value, *((a.guard,) if a.guard is not None else ())):
        found += indices(expr)
    return {e.buffer for i in found for e in elements_of(i)}


# What each value gets that is reduced into an element otherwise than by a sum.
#
# Of several values that are the largest each gets an equal share of the adjoint; of a product's factors each
# gets the adjoint times the others' product, also where a factor is 0.


Value = Callable[[Statement, DType], Expr]
"""A function that returns a statement's contribution to an array, in the array's type."""


@dataclass(slots=True)
class Shares:
    """Auxiliary arrays for the adjoints of reductions, each created once.

    `made`, `zeroed` and `arrays` are the derivative's: statements in order, arrays that start as zeros, and
    all arrays.
    """

    built: Built
    active: set[str]
    names: AdjointNames
    made: list[Statement]
    zeroed: dict[str, Operand]
    arrays: list[Operand]
    extra: dict[tuple[str, str], Operand] = field(default_factory=dict[tuple[str, str], Operand])

    def of_adjoint(self, s: Statement, adjoint: Expr) -> Expr:
        """Return the share of a target's adjoint that belongs to the value of its statement."""
        match s.assign.op if s.assign.op not in (None, "add") else self._reduced_by(s):
            case "max" | "min":
                return self._of_extreme(s, adjoint)
            case "mul":
                return self._of_product(s, adjoint)
            case _:
                return adjoint

    def _reduced_by(self, s: Statement) -> str | None:
        """Return the operation by which statements reduce into the target of one."""
        return next((q.assign.op for q in self._into(s.assign.target) if q.assign.op is not None), None)

    def _into(self, target: Read) -> list[Statement]:
        return [q for q in self.built.statements if q.assign.target.buffer == target.buffer]

    def _of_extreme(self, s: Statement, adjoint: Expr) -> Expr:
        ties = self._count_values("ties", s.assign.target, _is_extreme, self.active.__contains__)
        return choose(_equals_result(s), div(adjoint, _at(ties, s.assign.target)), number(0, adjoint))

    def _of_product(self, s: Statement, adjoint: Expr) -> Expr:
        """Return the adjoint times the product of all other factors. It is 0 if one of them is 0."""
        zeros = _at(self._count_values("zeros", s.assign.target, _is_zero), s.assign.target)
        rest = _at(self._product(s.assign.target), s.assign.target)
        value = wide(s.assign.value)
        others = choose(_equals_zero(value), rest, div(rest, value))
        is_whole = Call("eq", (zeros, _is_zero(s, zeros.dtype)), BOOL)
        return choose(is_whole, mul(adjoint, others), number(0, adjoint))

    def _count_values(
        self, what: str, target: Read, value: Value, of: Callable[[str], bool] | None = None
    ) -> Operand:
        """Return an array that sums `value` over all statements that reduce into an element."""
        known = self.extra.get((what, target.buffer))
        if known is None:
            known = self._begin_target(what, target)
            self.zeroed[known.name] = known
            for q in self._into(target):
                if of is None or depends(q.assign.value, of):
                    self._add(q, known, "add", value(q, known.dtype))
        return known

    def _product(self, target: Read) -> Operand:
        """Return an array with the product of the factors other than 0."""
        known = self.extra.get(("product", target.buffer))
        if known is None:
            known = self._begin_target("product", target)
            for q in self._into(target):
                value = wide(q.assign.value)
                factor = choose(_equals_zero(value), number(1, value), value)
                self._add(q, known, q.assign.op, cast(factor, known.dtype))
        return known

    def _begin_target(self, what: str, target: Read) -> Operand:
        dtype = adjoint_type(target.dtype)
        shape = self.built.operand(target.buffer).shape
        made = Operand(self.names.fresh(f"{what}_{target.buffer}"), "temp", dtype, shape)
        self.arrays.append(made)
        self.extra[what, target.buffer] = made
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
