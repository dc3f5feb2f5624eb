"""Kernel + machine + schedule → LoweredProgram."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from isamap.ir import Kernel, Range
from isamap.lower.assemble import names_of
from isamap.lower.expand import expand_nest
from isamap.lower.names import Names
from isamap.lower.passes import PASSES, SHAPE, Pass, Setting, State, states
from isamap.lower.program import LoweredProgram
from isamap.lower.steady import main_loop, steady_of
from isamap.lower.steps import Tree
from isamap.machine import Machine
from isamap.match import statement_text, suppliers_of
from isamap.plan.schedule import NestSchedule, Schedule
from isamap.plan.steady import Steady
from isamap.posing.matches import Matches, chosen_tile
from isamap.transform import statements


def lower(
    kernel: Kernel,
    machine: Machine,
    schedule: Schedule,
    sizes: Mapping[str, int | Range],
    *,
    matches: Sequence[Matches] | None = None,
    names: Names | None = None,
) -> LoweredProgram:
    """The program that performs a canonical kernel as its schedule says.

    `kernel` has its sizes bound and its guards made explicit; `sizes` are those it was bound with.
    `matches` are those of its statements where they are known: else what the schedule names is looked for.
    With `names`, those of another program are not given again.
    Raises: UsageProblem when the schedule names a mapping that the kernel does not have.
    """
    passes = tuple(lowering(kernel, machine, schedule, sizes, matches=matches, names=names))
    _, program = passes[-1]
    assert isinstance(program, LoweredProgram), "the last pass leaves a program"
    return program


def lowering(
    kernel: Kernel,
    machine: Machine,
    schedule: Schedule,
    sizes: Mapping[str, int | Range],
    *,
    matches: Sequence[Matches] | None = None,
    names: Names | None = None,
    passes: Sequence[Pass] = PASSES,
) -> Iterator[tuple[str, State]]:
    """As `lower`, pass by pass: the name of each, and what it leaves."""
    nests = tuple(sorted(schedule.nests, key=lambda nest: nest.statement))
    trees = tuple(_tree(kernel, machine, nest, matches) for nest in nests)
    known = suppliers_of(kernel, machine), names or names_of(kernel)
    yield from states(trees, Setting(kernel, machine, nests, sizes, *known), passes)


def _tree(
    kernel: Kernel, machine: Machine, nest: NestSchedule, matches: Sequence[Matches] | None = None
) -> Tree:
    """A nest before all passes."""
    given = statements(kernel)
    tile = chosen_tile(given[nest.statement], machine, nest, matches)
    note = "; ".join(statement_text(given[n]) for n in sorted((nest.statement, *nest.fused)))
    return Tree(nest, tile, note)


def steady_states(
    kernel: Kernel, machine: Machine, schedule: Schedule
) -> tuple[tuple[NestSchedule, Steady | None], ...]:
    """Per nest the steady state of its main loop; None where it has no innermost loop of issues only."""
    suppliers = suppliers_of(kernel, machine)
    found: list[tuple[NestSchedule, Steady | None]] = []
    for nest in schedule.nests:
        tree = _tree(kernel, machine, nest)
        for one in SHAPE:
            tree = one.run(tree)
        names = Names({p.name for p in kernel.params} | {o.name for o in kernel.operands})
        loop = None if nest.carried else main_loop(expand_nest(kernel, tree, suppliers, names))
        found.append((nest, steady_of(loop, machine) if loop is not None else None))
    return tuple(found)
