"""The statements of a kernel backwards: the adjoints of results, handed on to what they are computed from."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby

from isamap.adjoint.arithmetic import adjoint_type, cast, wide
from isamap.adjoint.building import refused
from isamap.adjoint.contributions import Contribution, contribution
from isamap.adjoint.data_indices import arrays_of_indices, check_gathered, is_data_bound
from isamap.adjoint.names import Names
from isamap.adjoint.partials import Source, depends, partials
from isamap.adjoint.shares import Shares
from isamap.adjoint.single_assignment import Built
from isamap.ir import (
    Assign,
    Axis,
    Const,
    DType,
    Expr,
    Index,
    Kernel,
    Operand,
    Read,
    Scalar,
    verify,
)
from isamap.ir.substitute import substitute_expr
from isamap.ir.walk import reads, walk
from isamap.transform.rewrite import map_accesses, with_statements
from isamap.transform.statements import Statement

BACKWARD = 1 << 16
"""Ordered loops backwards are numbered from here."""


@dataclass(slots=True)
class Backward:
    """The statements of the derivative so far.

    `adjoints` has for each array that of its adjoints, `touched` those that a statement has changed. `zeroed`
    begin as zeros: no statement assigns all elements at first. `useful` arrays are those that results are
    computed from, `more` all other arrays.
    """

    kernel: Kernel
    built: Built
    active: set[str]
    names: Names
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
        """The inputs with the adjoints of results, taken as they are where nothing is added to them."""
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

    def reaching(self, results: set[str]) -> set[str]:
        """Active arrays that results are computed from, these among them."""
        found = results & self.active
        while True:
            given = [s for s in self.built.statements if s.assign.target.buffer in found]
            more = {r.buffer for s in given for r in reads(s.assign.value)} & self.active
            if more <= found:
                return found
            found |= more

    def adjoints_of(self, name: str) -> Operand:
        """The array of the adjoints of an array, or the adjoint of a number."""
        if name not in self.adjoints:
            shape, dtype = self.shape(name), adjoint_type(self.dtype(name))
            self.adjoints[name] = Operand(self.names.fresh(f"d_{name}"), "temp", dtype, shape)
        return self.adjoints[name]

    def shape(self, name: str) -> tuple[Index, ...]:
        """The shape of an array of the kernel, or of adjoints."""
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
        self.useful = self.reaching({self.built.finals[n].name for n in results})
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
            wanted = {r.buffer for _, c in found for r in reads(c.value)}
            later = [(n, c) for n, c in found if self.adjoints_of(n).name not in wanted]
            later = [
                (n, c) for n, c in later if not is_data_bound(c.axes)
            ]  # a loop that data bounds is in one
            for name, c in found:
                if (name, c) not in later:
                    self.add(name, c, (axis,), (BACKWARD + loop,))
            for name, c in later:
                first = {str(i): n for n, i in enumerate(c.index)}
                axes = sorted((axis, *c.axes), key=lambda a: first.get(a.name, len(first)))
                self.add(name, replace(c, axes=tuple(axes)), (), ())

    def contributions(self, s: Statement) -> Iterator[tuple[str, Contribution]]:
        """The adjoint of a statement's target, passed on to what its value is computed from."""
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
        """A statement that adds a contribution, or assigns it where it is the first, for all elements."""
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
        turned = {a.name: a.extent - 1 - Index.of(a.name) for a in sequence}
        index = tuple(i.substitute(turned) for i in c.index)
        guard = substitute_expr(c.guard, turned) if c.guard is not None else None
        value = cast(substitute_expr(c.value, turned), to.dtype)
        assign = Assign(Read(to.name, index, to.dtype), op, value, guard)
        own = tuple(replace(a, extent=a.extent.substitute(turned)) for a in c.axes)
        self.made.append(Statement(own, assign, to.dtype, sequence, loops))

    def zeros(self, o: Operand) -> Statement:
        axes = self.names.axes(o.shape)
        at = Read(o.name, tuple(Index.of(a.name) for a in axes), o.dtype)
        return Statement(axes, Assign(at, None, Const(0, o.dtype)), o.dtype)

    # --- the kernel -----------------------------------------------------------------------------------

    def finish(self, sources: Sequence[str], keep: Collection[str] = ()) -> tuple[Kernel, tuple[str, ...]]:
        """The kernel with the adjoints of `sources` as its outputs; and arrays that it computes again.

        Those of `keep` are inputs instead.
        """
        outputs = [self.output(name) for name in sources]
        of_type = {o.name: o for o in outputs}
        zeros = [self.zeros(of_type.get(name, o)) for name, o in self.zeroed.items()]
        backward = wanted([*zeros, *self.made], {o.name for o in outputs})
        needed = {r.buffer for s in backward for r in _all_reads(s)} - {
            s.assign.target.buffer for s in backward
        }
        again = [s for s in self.built.statements if s.assign.target.buffer not in keep]
        forward = wanted(again, needed)
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
            raise refused(
                said, self.kernel.span, "name fewer inputs by --by, or state what holds of sizes by `where`"
            )
        return made, tuple(dict.fromkeys(s.assign.target.buffer for s in forward))

    def output(self, name: str) -> Operand:
        """The output of an input's adjoints, in that input's own type."""
        adjoint, dtype = self.adjoints[name], self.dtype(name)
        if adjoint.role == "in":
            wanted = Operand(self.names.fresh(f"{adjoint.name}_old"), "out", dtype, adjoint.shape)
            self.hand_out(adjoint, wanted)
        elif adjoint.dtype == dtype:
            wanted = replace(adjoint, role="out")
        else:
            wanted = self.narrowed(adjoint, dtype)
        return wanted

    def narrowed(self, adjoint: Operand, dtype: DType) -> Operand:
        """What is summed up in a wider type as an output: rounded once, behind the last sum."""
        sums = [s for s in self.made if s.assign.target.buffer == adjoint.name]
        if len(sums) == 1 and sums[0].assign.op is not None:
            return replace(adjoint, role="out", dtype=dtype, accumulate=adjoint.dtype)
        wanted = Operand(self.names.fresh(f"{adjoint.name}_sum"), "temp", adjoint.dtype, adjoint.shape)
        self.made[:] = (map_accesses(s, lambda r: _renamed(r, adjoint.name, wanted.name)) for s in self.made)
        if adjoint.name in self.zeroed:
            self.zeroed[wanted.name] = replace(self.zeroed.pop(adjoint.name), name=wanted.name)
        self.more.append(wanted)
        out = replace(adjoint, role="out", dtype=dtype)
        self.hand_out(wanted, out)
        return out

    def hand_out(self, adjoint: Operand, output: Operand) -> None:
        """Assigns an output as the last statement."""
        axes = self.names.axes(adjoint.shape)
        index = tuple(Index.of(a.name) for a in axes)
        value = cast(Read(adjoint.name, index, adjoint.dtype), output.dtype)
        assign = Assign(Read(output.name, index, output.dtype), None, value)
        self.made.append(Statement(axes, assign, output.dtype))


def wanted(given: Sequence[Statement], names: set[str]) -> list[Statement]:
    """The statements that some arrays are computed by, in their order."""
    needed = set(names)
    while True:
        kept = [s for s in given if s.assign.target.buffer in needed]
        more = {r.buffer for s in kept for r in _all_reads(s)}
        if more <= needed:
            return kept
        needed |= more


def _all_reads(s: Statement) -> tuple[Read, ...]:
    return (*reads(s.assign.value), *(reads(s.assign.guard) if s.assign.guard is not None else ()))


def _renamed(r: Read, old: str, new: str) -> Read:
    return replace(r, buffer=new) if r.buffer == old else r


def _scalars(e: Expr) -> Iterator[str]:
    return (part.name for part in walk(e) if isinstance(part, Scalar))
