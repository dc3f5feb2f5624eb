"""A kernel in which each array is built once and only then read: what a derivative is taken of.

    seq t in T {                                  for n { h_1[0, n] = h[n]; }
      for n { u[n] = x[t, n]; }                   seq t in T {
      for n, k { u[n] += w[n, k] * h[k]; }    →     for n { u_1[t, n] = x[t, n]; }
      for n { h[n] = tanh(u[n]); }                  for n, k { u_1[t, n] += w[n, k] * h_1[t, k]; }
    }                                               for n { h_1[t + 1, n] = tanh(u_1[t, n]); }
                                                  }

What is overwritten gets an array for each of its values, in ordered loops with a place for each step: the
statements backwards read all of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from isamap.adjoint.building import Building, Place, refused
from isamap.adjoint.names import Names
from isamap.adjoint.steps import plan_steps
from isamap.ir import Kernel, Operand, Read
from isamap.transform.rewrite import map_accesses
from isamap.transform.shared_elements import Conflicts
from isamap.transform.statements import Statement, statements


@dataclass(frozen=True, slots=True)
class Built:
    """The kernel's statements over arrays that are built once, and where each result is at the end."""

    operands: tuple[Operand, ...]
    statements: tuple[Statement, ...]
    finals: dict[str, Place]

    def operand(self, name: str) -> Operand:
        """The array of that name; it exists."""
        return next(o for o in self.operands if o.name == name)


def single_assignment(kernel: Kernel, names: Names) -> Built:
    """The kernel so. Raises: UsageProblem where that cannot be made."""
    made = Building(kernel, Conflicts.of(kernel), names)
    for operand in kernel.operands:
        if operand.role in ("in", "inout"):
            made.operands[operand.name] = replace(operand, role="in")
            made.current[operand.name] = Place(operand.name)
    for number, group in groupby(statements(kernel), lambda s: (s.ordered_loops or (None,))[0]):
        members = list(group)
        if number is None:
            for s in members:
                made.single(s)
        else:
            _loop(made, members)
    finals = {o.name: made.current[o.name] for o in kernel.operands if o.name in made.current}
    built = Built(tuple(made.operands.values()), tuple(made.made), finals)
    return _renamed(built, _names_of_results(kernel, built, names))


def _names_of_results(kernel: Kernel, built: Built, names: Names) -> dict[str, str]:
    """New names of arrays, so that nothing but the result is called as a result is."""
    known, found = {o.name for o in built.operands}, dict[str, str]()
    for name in (o.name for o in kernel.operands if o.role == "out" and o.name in built.finals):
        final = built.finals[name]
        if final.name == name and final.step is None:
            continue
        if final.step is None:
            found[final.name] = name
        if name in known:
            found[name] = final.name if final.step is None else names.fresh(f"{name}_1")
    return found


def _renamed(built: Built, names: Mapping[str, str]) -> Built:
    def called(r: Read) -> Read:
        return replace(r, buffer=names.get(r.buffer, r.buffer))

    return Built(
        tuple(replace(o, name=names.get(o.name, o.name)) for o in built.operands),
        tuple(map_accesses(s, called) for s in built.statements),
        {name: replace(p, name=names.get(p.name, p.name)) for name, p in built.finals.items()},
    )


def _loop(made: Building, body: Sequence[Statement]) -> None:
    """The statements of an ordered loop, with a place for each step of what they overwrite."""
    if any(len(s.sequence) != 1 for s in body):
        raise refused(
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
