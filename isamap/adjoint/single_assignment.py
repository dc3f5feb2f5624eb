"""Convert a kernel to single-assignment form, in which each array is written once: the input of derivatives.

    seq t in T {                                  for n { h_1[0, n] = h[n]; }
      for n { u[n] = x[t, n]; }                   seq t in T {
      for n, k { u[n] += w[n, k] * h[k]; }    →     for n { u_1[t, n] = x[t, n]; }
      for n { h[n] = tanh(u[n]); }                  for n, k { u_1[t, n] += w[n, k] * h_1[t, k]; }
    }                                               for n { h_1[t + 1, n] = tanh(u_1[t, n]); }
                                                  }

An overwritten array gets a new array for each of its values. In ordered loops the new array has a place for
each step, because the backward statements read all values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby

from isamap.adjoint.value_storage import AdjointNames, StoragePlace, StorageState, covers, no_derivative
from isamap.ir import Axis, Index, Kernel, Operand, Read
from isamap.source.records import dataclass, field, replace
from isamap.transform.rewrite import accesses, map_accesses
from isamap.transform.shared_elements import Conflicts
from isamap.transform.statements import Statement, statements


@dataclass(frozen=True, slots=True)
class Built:
    """The kernel's statements in single-assignment form, and the storage of each result at the end."""

    operands: tuple[Operand, ...]
    statements: tuple[Statement, ...]
    finals: Mapping[str, StoragePlace]

    def operand(self, name: str) -> Operand:
        """Return the array with an existing name."""
        return next(o for o in self.operands if o.name == name)


def single_assignment(kernel: Kernel, names: AdjointNames) -> Built:
    """Return the kernel in single-assignment form. Raises: UsageProblem if that is not possible."""
    made = StorageState(kernel, Conflicts.of(kernel), names)
    for operand in kernel.operands:
        if operand.role in ("in", "inout"):
            made.operands[operand.name] = replace(operand, role="in")
            made.current[operand.name] = StoragePlace(operand.name)
    for number, group in groupby(statements(kernel), lambda s: (s.ordered_loops or (None,))[0]):
        members = list(group)
        if number is None:
            for s in members:
                made.single(s)
        else:
            _loop(made, members)
    finals = {o.name: made.current[o.name] for o in kernel.operands if o.name in made.current}
    built = Built(tuple(made.operands.values()), tuple(made.made), finals)
    # New names of arrays, so that each result has its own name.
    known, found = {o.name for o in built.operands}, dict[str, str]()
    for name in (o.name for o in kernel.operands if o.role == "out" and o.name in built.finals):
        final = built.finals[name]
        if final.name == name and final.step is None:
            continue
        if final.step is None:
            found[final.name] = name
        if name in known:
            found[name] = final.name if final.step is None else names.fresh(f"{name}_1")
    return _rename_arrays(built, found)


def _rename_arrays(built: Built, names: Mapping[str, str]) -> Built:
    def rename(r: Read) -> Read:
        return replace(r, buffer=names.get(r.buffer, r.buffer))

    return Built(
        tuple(replace(o, name=names.get(o.name, o.name)) for o in built.operands),
        tuple(map_accesses(s, rename) for s in built.statements),
        {name: replace(p, name=names.get(p.name, p.name)) for name, p in built.finals.items()},
    )


def _loop(made: StorageState, body: Sequence[Statement]) -> None:
    """Append the statements of an ordered loop. Values that are overwritten get a place for each step."""
    if any(len(s.sequence) != 1 for s in body):
        raise no_derivative(
            "ordered loops within each other have no derivative here",
            body[0].assign.span,
            "write one `seq` axis",
        )
    axis, targets = body[0].sequence[0], dict.fromkeys(s.assign.target.buffer for s in body)
    plans = {name: plan_steps(made, name, body, axis) for name in targets}
    for plan in plans.values():
        plan.enter(made)
    for s in body:
        inside = {p.operand.name: at for p in plans.values() if (at := p.reading(s)) is not None}
        made.append(s, plans[s.assign.target.buffer].writing(made, s), inside)
    for plan in plans.values():
        plan.leave(made)


# The values that an array has within one step of an ordered loop, with a place of each for every step.


@dataclass(slots=True)
class Values:
    """The values that an array has within one step of an ordered loop.

    `slice_` is the dimension that the step selects, with its subscript, where each step has elements of its
    own. `values` says for each statement which value it writes, `seen` which it reads (-1: the value before the
    loop). `is_sum`: only reductions of one kind, over all steps, access it.
    """

    operand: Operand
    axis: Axis
    slice_: tuple[int, Index] | None
    values: dict[int, int]
    seen: dict[int, int]
    copies: set[int]
    is_sum: bool
    places: list[StoragePlace] = field(default_factory=list[StoragePlace])
    before: StoragePlace | None = None

    def enter(self, b: StorageState) -> None:
        """Create the arrays for the values of all steps. The carried one starts from the values before the loop."""
        step, steps = Index.of(self.axis.name), self.axis.extent
        count = 1 + max(self.values.values(), default=-1)
        if self.is_sum or self.slice_ is not None:
            whole = b.open(self.operand)
            b.current[self.operand.name] = self.before = whole
            for _ in range(count - 1):
                drop = self.slice_[0] if self.slice_ is not None else None
                self.places.append(replace(b.begin(self.operand, steps, drop), step=step, drop=drop))
            self.places.append(whole)
            return
        for _ in range(count - 1):
            self.places.append(replace(b.begin(self.operand, steps), step=step))
        if -1 not in self.seen.values() and 0 not in {self.values[i] for i in self.copies}:
            self.places.append(replace(b.begin(self.operand, steps), step=step))
            return
        known, place = b.current.get(self.operand.name), b.begin(self.operand, steps + 1)
        if known is not None:
            b.copy(known, replace(place, step=Index.of(0)), self.operand)
            b.written.pop(place.name)  # its elements are no step's
        self.before = replace(place, step=step)
        self.places.append(replace(place, step=step + 1))

    def reading(self, s: Statement) -> StoragePlace | None:
        """Return the place from which a statement reads the array in this step, or None if it does not read it."""
        number = self.seen.get(id(s))
        if number is None:
            return None
        return self.before if number < 0 else self.places[number]

    def writing(self, b: StorageState, s: Statement) -> StoragePlace:
        """Return the place of a statement's result in this step, with a copy of an old value that it changes."""
        number = self.values[id(s)]
        if number < 0:
            return self.places[-1]
        if id(s) in self.copies:
            known = self.before if number == 0 else self.places[number - 1]
            assert known is not None
            but = b.others(s, self.operand) if s.assign.op is None else None
            b.copy(known, self.places[number], self.operand, (s.sequence, s.ordered_loops), but)
        return self.places[number]

    def leave(self, b: StorageState) -> None:
        """Assign the value of the last step to the array after the loop."""
        last = self.places[-1]
        if last.step is not None:
            behind = last.step.substitute({self.axis.name: self.axis.extent - 1})
            b.current[self.operand.name] = replace(last, step=behind)


def plan_steps(b: StorageState, name: str, body: Sequence[Statement], axis: Axis) -> Values:
    """Return the values that an array has in one step of an ordered loop."""
    operand = b.kernel.operand(name)
    writes = [s for s in body if s.assign.target.buffer == name]
    readers = [s for s in body if any(r.buffer == name for r in accesses(s)[1:])]
    ops = {s.assign.op for s in writes}
    found = Values(operand, axis, _slice(writes, axis), {}, {}, set(), not readers and ops <= _SUMS)
    if (
        found.slice_ is None
        and not found.is_sum
        and any(axis.name in i.symbols for s in writes for i in s.assign.target.index)
    ):
        raise no_derivative(
            f"which elements of `{name}` a step assigns is not plain",
            writes[0].assign.span,
            f"assign `{name}` at `{axis.name}` plus a number in one of its subscripts",
        )
    number, was_read = -1, False
    reduced: set[str] = set()  # the operations of reductions into the value
    for s in () if found.is_sum else body:
        mine = [r for r in accesses(s)[1:] if r.buffer == name and found_in_step(r, found.slice_)]
        if mine:
            found.seen[id(s)] = number
            was_read = True
        if s.assign.target.buffer != name:
            continue
        other = s.assign.op is not None and bool(reduced - {s.assign.op})
        if covers(s, operand, b.of, found.slice_[0] if found.slice_ else None):
            number, was_read, reduced = number + 1, False, set[str]()
        elif found.slice_ is None and (was_read or number < 0 or s.assign.op is None or other):
            number, was_read, reduced = number + 1, False, set[str]()
            found.copies.add(id(s))
        elif was_read or other:
            raise no_derivative(
                f"`{name}` is changed by a step that has used it",
                s.assign.span,
                "assign the next value of the step to a separate array",
            )
        found.values[id(s)] = number
        if s.assign.op is not None:
            reduced.add(s.assign.op)
    if found.is_sum:
        found.values.update((id(s), -1) for s in writes)
    return found


_SUMS: set[str | None] = {"add"}


def found_in_step(r: Read, slice_: tuple[int, Index] | None) -> bool:
    """Return whether an access reads the slice that its own step assigns."""
    return slice_ is None or r.index[slice_[0]] == slice_[1]


def _slice(writes: Sequence[Statement], axis: Axis) -> tuple[int, Index] | None:
    """Return the dimension and the subscript that the step selects in all targets, or None."""
    first = writes[0].assign.target.index
    for dim, subscript in enumerate(first):
        free = {a.name for s in writes for a in s.axes}
        if subscript.coefficient(axis.name) not in (Index.of(1), Index.of(-1)) or subscript.symbols & free:
            continue
        others = [i for s in writes for n, i in enumerate(s.assign.target.index) if n != dim]
        same = all(s.assign.target.index[dim] == subscript for s in writes)
        if same and not any(axis.name in i.symbols for i in others):
            return dim, subscript
    return None
