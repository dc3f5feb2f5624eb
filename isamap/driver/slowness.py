"""What is said of statements that a machine performs slowly, though it has instructions that are faster.

y[m, n] += (i32(x[m, k]) - zx) * (i32(w[n, k]) - zw);   help: `--transform` takes the zero points out
"""

from __future__ import annotations

from collections.abc import Iterator
from math import inf

from isamap.ir import Call, Cast, Expr, IndexValue, Kernel
from isamap.ir.index import Mod
from isamap.machine import Machine
from isamap.match import statement_mappings, statement_text
from isamap.plan.problem import NestOption, Problem
from isamap.plan.schedule import Schedule
from isamap.posing.estimate import open_compute_ns
from isamap.source import Diagnostic
from isamap.transform import Statement, is_rewritable, statements, without_zero_points


def scalar_warnings(
    kernel: Kernel, machine: Machine, problem: Problem, schedule: Schedule
) -> tuple[Diagnostic, ...]:
    """A warning for each statement that only scalar instructions perform on a machine that has others."""
    if len(machine.chain) == 1:
        return ()
    found: list[Diagnostic] = []
    for statement, nest in zip(statements(kernel), problem.nests, strict=True):
        if statement.axes and not any(_is_wide(option) for option in nest.options):
            number = nest.statement
            chosen = next(n for n in schedule.nests if number in (n.statement, *n.fused))
            found.append(
                Diagnostic(
                    "scalar-only",
                    f"{machine.name} performs `{statement_text(statement)}` one element at a time",
                    statement.assign.span,
                    severity="warning",
                    notes=(f"with {chosen.mapping}",),
                    help=_advice(statement),
                )
            )
    return tuple(found)


def _advice(statement: Statement) -> str:
    remainder = next(_remainders(statement.assign.value), None)
    if remainder is None:
        return "`isamap match --explain` says what its other instructions lack"
    return (
        f"it looks at every iteration for `{remainder}`: give what takes part an axis of its own, and "
        f"scatter, as `y[h*{remainder.divisor} + r] += x[h] * w[r]` does"
    )


def _remainders(e: Expr) -> Iterator[Mod]:
    """The remainders that are compared with in an expression."""
    match e:
        case Call("eq", args):
            for index in (a.index for a in args if isinstance(a, IndexValue)):
                yield from (atom for monomial, _ in index.terms for atom in monomial if isinstance(atom, Mod))
        case Call(_, args):
            for a in args:
                yield from _remainders(a)
        case Cast(value):
            yield from _remainders(value)
        case _:
            return


def _is_wide(option: NestOption) -> bool:
    """Whether issues perform several iterations, or there is but one: lanes of an empty axis perform none."""
    return any(min(axis.tile, axis.extent) > 1 for axis in option.axes) or all(
        axis.extent == 1 for axis in option.axes
    )


def form_warnings(kernel: Kernel, machine: Machine) -> tuple[Diagnostic, ...]:
    """A warning where factors of a sum have offsets, and an instruction performs it faster without them."""
    taken = tuple(without_zero_points(kernel)) if is_rewritable(kernel) else ()
    if not taken:
        return ()
    written = statements(kernel)
    kept = {s.assign for r in taken for s in statements(r.kernel)}
    statement = next((s for s in written if s.assign not in kept and s.reduction_axes), None)
    if statement is None:
        return ()
    _, now = _fastest(kernel, statement, machine)
    name, ns = min(
        (_fastest(r.kernel, _product(r.kernel, written), machine) for r in taken), key=lambda f: f[1]
    )
    if ns >= now:
        return ()
    return (
        Diagnostic(
            "form-slow",
            f"`{statement_text(statement)}` takes offsets off before it multiplies",
            statement.assign.span,
            severity="warning",
            notes=(f"without them {name} would perform it",),
            help="`--transform` takes them out of the sum, which stays equal bit by bit",
        ),
    )


def _product(kernel: Kernel, written: tuple[Statement, ...]) -> Statement:
    """What a rewrite leaves of a product: of the sums that were not written, the one over the most axes."""
    known = {s.assign for s in written}
    sums = (s for s in statements(kernel) if s.reduction_axes and s.assign not in known)
    return max(sums, key=lambda s: len(s.axes))


def _fastest(kernel: Kernel, statement: Statement, machine: Machine) -> tuple[str, float]:
    """The instruction that performs a statement fastest, and in which time; infinite where none does."""
    found = statement_mappings(statement, 0, machine, kernel=kernel)
    times = [(m.instruction, open_compute_ns(statement, m, machine)) for m in found if not m.composed]
    return min(times, key=lambda t: t[1], default=("", inf))
