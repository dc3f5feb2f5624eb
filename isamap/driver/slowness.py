"""What is said of statements that a machine performs slowly, though it has instructions that are faster.

y[m, n] += (i32(x[m, k]) - zx) * (i32(w[n, k]) - zw);   help: `--transform` takes the zero points out
"""

from __future__ import annotations

from isamap.ir import Kernel
from isamap.machine import Machine
from isamap.match import improving_rewrites, statement_text
from isamap.plan.problem import NestOption, Problem
from isamap.plan.schedule import Schedule
from isamap.source import Diagnostic
from isamap.transform import is_rewritable, statements, without_zero_points


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
                    help="`isamap match --explain` says what its other instructions lack",
                )
            )
    return tuple(found)


def _is_wide(option: NestOption) -> bool:
    """Whether issues perform several iterations, or there is but one: lanes of an empty axis perform none."""
    return any(min(axis.tile, axis.extent) > 1 for axis in option.axes) or all(
        axis.extent == 1 for axis in option.axes
    )


def form_warnings(kernel: Kernel, machine: Machine) -> tuple[Diagnostic, ...]:
    """A warning where factors of a sum have offsets, and instructions perform the sum without them."""
    taken = tuple(without_zero_points(kernel)) if is_rewritable(kernel) else ()
    found = improving_rewrites(kernel, machine, among=taken)
    if not found:
        return ()
    best = found[0]
    kept = {s.assign for s in statements(best.rewrite.kernel)}
    statement = next(s for s in statements(kernel) if s.assign not in kept and s.reduction_axes)
    names = ", ".join(dict.fromkeys(g.instruction for g in best.gains))
    return (
        Diagnostic(
            "form-slow",
            f"`{statement_text(statement)}` takes offsets off before it multiplies",
            statement.assign.span,
            severity="warning",
            notes=(f"without them {names} would perform it",),
            help="`--transform` takes them out of the sum, which stays equal bit by bit",
        ),
    )
