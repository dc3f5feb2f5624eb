"""Split a sum of products of several factors into several sums of products of two.

    Y[n, k, p] += X[n, c, p + r] * F[c, r] * G[k, c]

takes three operations for each of N·K·P·C·R iterations;

    X_F[n, c, p] += X[n, c, p + r] * F[c, r]
    Y[n, k, p] += X_F[n, c, p] * G[k, c]

takes two for each of N·C·P·R and two for each of N·K·P·C. The law is `(a + b) * c = a * c + b * c`: exact in
integers, in floats up to rounding; so `strict` kernels and sums in narrow floats are refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations

from isamap.ir import BOOL, ZERO, Assign, Axis, Call, Const, Expr, Index, Kernel, Operand, Read, product
from isamap.ir.walk import reads, symbols, walk
from isamap.source.records import dataclass, field, replace
from isamap.transform import rewrite
from isamap.transform.guards import identity_of
from isamap.transform.shared_elements import Conflicts, sums_in_any_order
from isamap.transform.statements import Statement, statements

DISTRIBUTES = {("add", "mul"), ("or", "and"), ("and", "or"), ("xor", "and")}
"""Reductions with the operations whose common factors may be taken out of them."""

_MOST_FACTORS = 5
_OPEN_SIZE = 64


@dataclass(frozen=True, slots=True)
class Factorisation(rewrite.Rewrite):
    """A rewrite that factors a product.

    Units: `flops_before` and `flops_after` are operations of the original statement, and of those that
    replace it, as expressions of the sizes. `temporary` counts elements of temporaries.
    """

    statement: int
    flops_before: Index
    flops_after: Index
    temporary: Index


def factorisations(kernel: Kernel) -> tuple[Factorisation, ...]:
    """Return all factorisations of the products of three or more factors in one statement, cheapest first.

    Open sizes count as 64 in that comparison, sizes with a default as that.
    """
    if not rewrite.is_rewritable(kernel):
        return ()
    found = [f for n in range(len(statements(kernel))) for f in _of_statement(kernel, n)]
    sizes = _typical(kernel, found)
    return tuple(sorted(found, key=lambda f: (f.flops_after.evaluate(sizes), f.temporary.evaluate(sizes))))


def _of_statement(kernel: Kernel, number: int) -> Iterator[Factorisation]:
    """Yield the factorisations of one statement."""
    s = statements(kernel)[number]
    given = _product(s)
    if given is None or not _can_be_split(kernel, s, given):
        return
    seen: set[tuple[Statement, ...]] = set()
    for tree in _pairs(tuple(range(len(given.moving)))):
        for sum_first in (False, True):
            factoring = _Factoring(kernel, s, given, sum_first)
            after = factoring.result(tree)
            if len(after) == 1 or after in seen:
                continue
            seen.add(after)
            found = _factorisation(kernel, number, after, factoring.temporaries)
            if found is not None:
                yield found


def _factorisation(
    kernel: Kernel, number: int, after: tuple[Statement, ...], temporaries: Sequence[Operand]
) -> Factorisation | None:
    given = statements(kernel)
    of = Conflicts.of(kernel)
    if not all(of.positive(e) for o in temporaries for e in o.shape):
        return None
    rest = (*given[:number], *after, *given[number + 1 :])
    rewritten = rewrite.with_statements(kernel, rest, (*kernel.operands, *temporaries))
    if not rewrite.is_accepted(kernel, rewritten):
        return None
    before, behind = _flops(given[number]), sum(map(_flops, after), ZERO)
    kept = sum((product(o.shape) for o in temporaries), ZERO)
    lines = [f"`{rewrite.line_of(a)}`" for a in after if not isinstance(a.assign.value, Const)]
    step = f"factorisation: {', then '.join(lines)}: `{behind}` operations in place of `{before}`"
    return Factorisation(rewritten, (step,), number, before, behind, kept)


def _flops(s: Statement) -> Index:
    """Return the operations of all iterations, where the reduction counts as one operation."""
    return product(a.extent for a in s.axes) * (_operations(s.assign.value) + (s.assign.op is not None))


def _operations(e: Expr) -> int:
    return sum(isinstance(part, Call) for part in walk(e))


def _typical(kernel: Kernel, found: Sequence[Factorisation]) -> dict[str, int]:
    """Return a typical number for every symbol in the operation counts."""
    names = {s for f in found for s in f.flops_before.symbols | f.flops_after.symbols | f.temporary.symbols}
    defaults = {p.name: p.default for p in kernel.params if p.default is not None}
    return {n: defaults.get(n, _OPEN_SIZE) for n in names}


# --- the product of a statement ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Product:
    """The factors of a statement's value: those that depend on axes, and the others."""

    times: str
    moving: tuple[Expr, ...]
    fixed: tuple[Expr, ...]


def _product(s: Statement) -> _Product | None:
    op = s.assign.op
    times = next((t for o, t in sorted(DISTRIBUTES) if o == op), None)
    if times is None:
        return None
    names = {a.name for a in s.axes}
    factors = _factors(s.assign.value, times)
    moving = tuple(f for f in factors if symbols(f) & names)
    return _Product(times, moving, tuple(f for f in factors if f not in moving))


def _factors(e: Expr, times: str) -> tuple[Expr, ...]:
    match e:
        case Call(op, (left, right)) if op == times:
            return (*_factors(left, times), *_factors(right, times))
        case _:
            return (e,)


def _can_be_split(kernel: Kernel, s: Statement, given: _Product) -> bool:
    """Return whether the language's rules on rounding and order allow a product to be factored."""
    a = s.assign
    target = kernel.operand(a.target.buffer)
    assert a.op is not None, "a product that is not reduced has no sum to factor"
    return (
        2 <= len(given.moving) <= _MOST_FACTORS
        and not (kernel.strict and s.accumulator.is_float)
        and sums_in_any_order(kernel, target, a.op)
        and all(r.buffer != target.name for r in rewrite.accesses(s)[1:])
    )


# --- trees ------------------------------------------------------------------------------------------------

Tree = int | tuple["Tree", "Tree"]
"""A factor, or two trees whose product is summed over all axes that nothing outside needs."""


def _trees(leaves: tuple[int, ...]) -> Iterator[Tree]:
    """Yield all binary multiplication trees over the leaves."""
    if len(leaves) == 1:
        yield leaves[0]
    else:
        yield from _pairs(leaves)


def _pairs(leaves: tuple[int, ...]) -> Iterator[tuple[Tree, Tree]]:
    first, *others = leaves
    for size in range(len(others)):
        for chosen in combinations(others, size):
            right = tuple(n for n in others if n not in chosen)
            for a in _trees((first, *chosen)):
                for b in _trees(right):
                    yield (a, b)


@dataclass
class _Factoring:
    """The factorisation of one statement: the statements that come before it, and their temporaries."""

    kernel: Kernel
    statement: Statement
    product: _Product
    sum_first: bool
    done: list[Statement] = field(default_factory=list[Statement])
    temporaries: list[Operand] = field(default_factory=list[Operand])
    gone: set[str] = field(default_factory=set[str])

    def result(self, tree: tuple[Tree, Tree]) -> tuple[Statement, ...]:
        """Return all statements, the last of which updates the target."""
        s = self.statement
        target = symbols(s.assign.target) | _symbols(self.product.fixed)
        value = self._value(tree, target)
        for factor in self.product.fixed:
            value = Call(self.product.times, (value, factor), value.dtype)
        axes = tuple(a for a in s.axes if a.name not in self.gone)
        guard = self._guard(axes, always=True)
        return (*self.done, replace(s, axes=axes, assign=replace(s.assign, value=value, guard=guard)))

    def _value(self, tree: tuple[Tree, Tree], outside: frozenset[str]) -> Expr:
        """Return the product of two parts, keeping all axes in `outside`."""
        left, right = tree
        a = self._part(left, outside | self._own(right))
        b = self._part(right, outside | self._own(left))
        return Call(self.product.times, (a, b), self.statement.assign.value.dtype)

    def _part(self, tree: Tree, outside: frozenset[str]) -> Expr:
        """Return the expression for one side of a product: a factor, or a temporary with its sum."""
        own = self._own(tree)
        axes = self._in_order(tree)
        for g in parts(self.statement.assign.guard):
            if not self._axes_of(g) <= own:
                outside |= symbols(g)  # a condition on axes of several parts is for where they meet
        kept = tuple(a for a in axes if a.name in outside)
        if isinstance(tree, int):
            if not self.sum_first or kept == axes:
                return self.product.moving[tree]
            value = self.product.moving[tree]
        else:
            value = self._value(tree, frozenset(a.name for a in kept))
        summed = tuple(a for a in axes if a not in kept and a.name not in self.gone)
        return self._temporary(value, (*kept, *summed), kept, tree)

    def _temporary(self, value: Expr, axes: tuple[Axis, ...], kept: tuple[Axis, ...], tree: Tree) -> Read:
        """Return a temporary for the value summed over the axes that are not kept."""
        s = self.statement
        op, dtype = s.assign.op, s.assign.value.dtype
        assert op is not None, "only sums are taken apart"
        taken = replace(self.kernel, operands=(*self.kernel.operands, *self.temporaries))
        factors = [self.product.moving[n] for n in _leaves(tree)]
        name = rewrite.free_name(
            taken, "_".join(dict.fromkeys(r.buffer for f in factors for r in reads(f))) or "part"
        )
        self.temporaries.append(Operand(name, "temp", dtype, tuple(a.extent for a in kept)))
        cell = Read(name, tuple(Index.of(a.name) for a in kept), dtype)
        guard = self._guard(axes, always=False)
        if kept == axes and guard is None:
            self.done.append(replace(s, axes=axes, assign=Assign(cell, None, value)))
            return cell
        self.done.append(replace(s, axes=kept, assign=Assign(cell, None, identity_of(op, dtype))))
        self.done.append(replace(s, axes=axes, assign=Assign(cell, op, value, guard)))
        self.gone |= {a.name for a in axes} - {a.name for a in kept}
        return cell

    def _guard(self, axes: tuple[Axis, ...], *, always: bool) -> Expr | None:
        """Return the conditions that depend only on some axes. Conditions without axes are included if `always`."""
        there = {a.name for a in axes}
        found = (g for g in parts(self.statement.assign.guard) if self._axes_of(g) <= there)
        return join_guards(g for g in found if always or self._axes_of(g))

    def _own(self, tree: Tree) -> frozenset[str]:
        return self._axes(_symbols([self.product.moving[n] for n in _leaves(tree)]))

    def _in_order(self, tree: Tree) -> tuple[Axis, ...]:
        """Return the axes of a tree in order of first occurrence in its factors, so that layouts stay similar."""
        mentioned = (
            name
            for n in _leaves(tree)
            for r in reads(self.product.moving[n])
            for i in r.index
            for m, _ in i.terms
            for name in sorted(Index(((m, 1),)).symbols)
        )
        known = {a.name: a for a in self.statement.axes}
        order = dict.fromkeys(name for name in mentioned if name in known)
        rest = [a.name for a in self.statement.axes if a.name in self._own(tree) and a.name not in order]
        return tuple(known[name] for name in (*order, *rest))

    def _axes_of(self, e: Expr) -> frozenset[str]:
        return self._axes(symbols(e))

    def _axes(self, names: frozenset[str]) -> frozenset[str]:
        return names & frozenset(a.name for a in self.statement.axes)


def _symbols(given: Sequence[Expr]) -> frozenset[str]:
    """Return the axes and sizes that occur in any of the expressions."""
    return frozenset(s for e in given for s in symbols(e))


def _leaves(tree: Tree) -> tuple[int, ...]:
    return (tree,) if isinstance(tree, int) else (*_leaves(tree[0]), *_leaves(tree[1]))


def join_guards(guards: Iterator[Expr]) -> Expr | None:
    """Return the conjunction of the guards, or None without any."""
    found: Expr | None = None
    for g in guards:
        found = g if found is None else Call("and", (found, g), BOOL)
    return found


def parts(guard: Expr | None) -> tuple[Expr, ...]:
    """Return the conjuncts of a guard."""
    match guard:
        case None:
            return ()
        case Call("and", (left, right)):
            return (*parts(left), *parts(right))
        case _:
            return (guard,)
