"""Lower a kernel, a machine and a schedule to a LoweredProgram.

Several schedules of one kernel as one program: the sizes of a call choose.

if M <= 5  { … as the schedule for few rows says … }
if 6 <= M  { … as that for many rows says … }
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from isamap.formulate.matches import Matches, chosen_tile
from isamap.ir import Index, Kernel, Range
from isamap.lower.expand import expand_nest
from isamap.lower.passes import (
    PASSES,
    SHAPE,
    LoweringInput,
    Pass,
    State,
    names_of,
    program_of,
    states,
    temps_of,
)
from isamap.lower.program import Block, Buffer, Condition, If, LoweredProgram, Names
from isamap.lower.software_pipeline import main_loop, steady_of
from isamap.lower.steps import Tree
from isamap.machine import Machine, team_level
from isamap.match import move_search_of, statement_text
from isamap.plan.schedule import NestSchedule, Schedule, UnrolledLoop, bound_axes
from isamap.plan.steady import Steady
from isamap.source.records import dataclass, replace
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
    """Return the program that performs a canonical kernel by its schedule.

    `kernel` has its sizes bound and its guards made explicit. `sizes` are those that it was bound with.
    `matches` are the mappings of its statements, if known; else the mapping that the schedule names is
    searched. With `names`, names of another program are not used again. Raises: UsageProblem if the schedule
    names a mapping that the kernel does not have.
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
    """Yield the name and the result of each pass of `lower`."""
    nests = tuple(sorted(schedule.nests, key=lambda nest: nest.statement))
    trees = tuple(_tree(kernel, machine, nest, matches) for nest in nests)
    known = move_search_of(kernel, machine), names or names_of(kernel)
    yield from states(trees, LoweringInput(kernel, machine, nests, sizes, *known), passes)


def _tree(
    kernel: Kernel, machine: Machine, nest: NestSchedule, matches: Sequence[Matches] | None = None
) -> Tree:
    """Return the steps of a nest before the first pass."""
    given = statements(kernel)
    tile = chosen_tile(given[nest.statement], machine, nest, matches)
    if (level := team_level(machine)) is not None:
        bound = (UnrolledLoop(axis, tile.axis(axis).tile) for axis, _ in bound_axes(nest, level.name))
        nest = replace(nest, loops=(*nest.loops, *bound))
    note = "; ".join(statement_text(given[n]) for n in sorted((nest.statement, *nest.fused)))
    return Tree(nest, tile, note)


def steady_states(
    kernel: Kernel, machine: Machine, schedule: Schedule
) -> tuple[tuple[NestSchedule, Steady | None], ...]:
    """Return, per nest, the steady state of its main loop, or None if it has no innermost loop with only issues."""
    search = move_search_of(kernel, machine)
    found: list[tuple[NestSchedule, Steady | None]] = []
    for nest in schedule.nests:
        tree = _tree(kernel, machine, nest)
        for one in SHAPE:
            tree = one.run(tree)
        names = Names({p.name for p in kernel.params} | {o.name for o in kernel.operands})
        loop = None if nest.carried else main_loop(expand_nest(kernel, tree, search, names))
        found.append((nest, steady_of(loop, machine) if loop is not None else None))
    return tuple(found)


Sizes = Mapping[str, int | Range]


@dataclass(frozen=True, slots=True)
class Version:
    """A schedule with the sizes that it serves, the kernel bound to them, and its mappings, if known."""

    kernel: Kernel
    schedule: Schedule
    sizes: Sizes
    matches: tuple[Matches, ...] = ()


def lower_versions(
    kernel: Kernel,
    machine: Machine,
    versions: Sequence[Version],
    sizes: Sizes,
    seen: Callable[[str, State], None] = lambda _name, _state: None,
) -> LoweredProgram:
    """Return the program of all versions. `kernel` is bound to `sizes`, which the versions partition.

    `seen` receives the result of each pass for each version.
    """
    names = names_of(kernel)
    body: list[If | Block] = []
    temps: dict[str, Buffer] = {}
    for number, version in enumerate(versions, 1):
        state: State = ()
        for name, state in _lowering(version, machine, names):
            seen(f"version-{number}-{name}", state)
        assert isinstance(state, LoweredProgram), "the last pass leaves a program"
        inside = state.body
        for temp in (*temps_of(kernel, inside), *temps_of(version.kernel, inside)):
            temps.setdefault(temp.name, temp)
        shown = ", ".join(f"{name} = {value}" for name, value in version.schedule.sizes)
        block = Block(f"for {shown}", inside)
        conditions = tuple(_conditions(version.sizes, sizes))
        body.append(If(conditions, (block,)) if conditions else block)
    return program_of(kernel, machine, sizes, tuple(temps.values()), names, tuple(body))


def versions_behind(
    name: str, kernel: Kernel, machine: Machine, versions: Sequence[Version]
) -> tuple[State, ...]:
    """Return the result of a pass for each version."""
    names = names_of(kernel)
    return tuple(
        next(state for own, state in _lowering(version, machine, names) if own == name)
        for version in versions
    )


def _lowering(version: Version, machine: Machine, names: Names) -> Iterator[tuple[str, State]]:
    known = version.kernel, machine, version.schedule, version.sizes
    return lowering(*known, matches=version.matches, names=names)


def _conditions(part: Sizes, whole: Sizes) -> Iterator[Condition]:
    """Yield the conditions under which the sizes of a call belong to a part."""
    for name, given in whole.items():
        if not isinstance(given, Range):
            continue
        size, own = Index.of(name), part[name]
        low, high = (own.low, own.high) if isinstance(own, Range) else (own, own)
        if low == high:
            yield (size, "==", Index.of(low))
            continue
        if low > given.low:
            yield (Index.of(low), "<=", size)
        if high < given.high:
            yield (size, "<=", Index.of(high))
