"""The passes of lowering, in order: over the steps of nests until `expand`, then over the nodes of a program.

    states(trees, setting, PASSES)   ->   ("loops", trees), …, ("barriers", program)

The result of each pass is verified (`isamap.lower.verifier`), so an error is found right after the pass that
made it.

The last step makes a program of the body: with its tensors, buffers, symbols, and the programs that pack
operands.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import assert_never

from isamap.formulate.matches import Matches, chosen_tile
from isamap.ir import Index, Kernel, Range, product
from isamap.lower import shape
from isamap.lower.barrier_check import check_barriers
from isamap.lower.barriers import with_barriers
from isamap.lower.chain_interleaving import side_by_side
from isamap.lower.expand import expand_nest
from isamap.lower.hoist import with_copies_in_front
from isamap.lower.packed_operands import packing_program, symbols_of
from isamap.lower.program import Block, Buffer, Condition, For, If, LoweredProgram, Names, Node, tensor_of
from isamap.lower.registers import configured_span, number_registers
from isamap.lower.settings import with_settings
from isamap.lower.software_pipeline import in_pipeline, main_loop, steady_of
from isamap.lower.steps import Tree
from isamap.lower.verifier import check_program, check_tree
from isamap.lower.walk import arrays_in
from isamap.machine import Machine, team_level
from isamap.match import MoveSearch, move_search_of, statement_text
from isamap.plan.schedule import NestSchedule, Schedule, UnrolledLoop, bound_axes
from isamap.plan.steady import Steady
from isamap.source.records import dataclass, replace
from isamap.transform import Statement, in_ordered_loops, statements


def names_of(kernel: Kernel) -> Names:
    """Return the names that a program may use."""
    ordered = {a.name for s in statements(kernel) for a in s.sequence}
    return Names({p.name for p in kernel.params} | {o.name for o in kernel.operands} | ordered)


def temps_of(kernel: Kernel, body: tuple[Node, ...]) -> tuple[Buffer, ...]:
    """Return the kernel's temporary arrays that the body of a program accesses."""
    touched = arrays_in(body)
    return tuple(
        Buffer(o.name, o.dtype, product(o.shape), "of the kernel")
        for o in kernel.operands
        if o.role == "temp" and o.name in touched
    )


def program_of(
    kernel: Kernel,
    machine: Machine,
    sizes: Mapping[str, int | Range],
    temps: tuple[Buffer, ...],
    names: Names,
    body: tuple[Node, ...],
) -> LoweredProgram:
    """Return a program with everything that its body needs. `names` has the buffers that it claims."""
    packed = {pack.source: replace(pack.target, role="in") for pack in names.packs}
    touched = arrays_in(body)
    # Sums that begin and end in registers leave nothing in the scratchpad where parts of them would rest.
    buffers = (b for b in names.buffers if not b.memory or b.name in touched)
    return LoweredProgram(
        kernel.name,
        kernel,
        machine.name,
        tuple((n, v) for n, v in sorted(sizes.items()) if isinstance(v, int)),
        symbols_of(kernel),
        tuple(packed.get(o.name) or tensor_of(o) for o in kernel.operands if o.role != "temp"),
        (*temps, *buffers),
        body,
        packs=tuple(packing_program(pack, kernel, machine, sizes) for pack in names.packs),
    )


@dataclass(frozen=True, slots=True)
class LoweringInput:
    """The input of lowering.

    It has a canonical kernel bound to sizes, the nests of its schedule in the order of their statements,
    the source of data movements, and the source of names.
    """

    kernel: Kernel
    machine: Machine
    nests: tuple[NestSchedule, ...]
    sizes: Mapping[str, int | Range]
    search: MoveSearch
    names: Names


Trees = tuple[Tree, ...]
State = Trees | LoweredProgram


@dataclass(frozen=True, slots=True)
class TreePass:
    """A pass over the steps of one nest."""

    name: str
    run: Callable[[Tree], Tree]


@dataclass(frozen=True, slots=True)
class Expansion:
    """The pass that expands steps to nodes."""

    name: str
    run: Callable[[Trees, LoweringInput], LoweredProgram]


@dataclass(frozen=True, slots=True)
class ProgramPass:
    """A pass over a program."""

    name: str
    run: Callable[[LoweredProgram, LoweringInput], LoweredProgram]


Pass = TreePass | Expansion | ProgramPass


def states(trees: Trees, setting: LoweringInput, passes: Sequence[Pass]) -> Iterator[tuple[str, State]]:
    """Yield the name of each pass with the verified trees or program that it returns."""
    program: LoweredProgram | None = None
    for one in passes:
        match one:
            case TreePass(name, run):
                trees = tuple(map(run, trees))
                _judge(name, [said for tree in trees for said in check_tree(tree)])
            case Expansion(name, run):
                program = run(trees, setting)
                _judge(name, check_program(program, setting.machine))
            case ProgramPass(name, run):
                assert program is not None, "nodes are made before a pass changes them"
                before, program = program, run(program, setting)
                if program != before:  # else it has been judged
                    _judge(name, check_program(program, setting.machine))
            case _:
                assert_never(one)
        yield name, trees if program is None else program


def _judge(name: str, said: Sequence[str]) -> None:
    assert not said, f"the pass `{name}` broke its rules: {said[0]}"


def expand(trees: Trees, setting: LoweringInput) -> LoweredProgram:
    """Return the program with a block for each nest, inside the kernel's ordered loops."""
    kernel, names, given = setting.kernel, setting.names, statements(setting.kernel)
    blocks = [Block(t.note, expand_nest(kernel, t, setting.search, names)) for t in trees]
    around = [_wrap_in_loops(given[t.schedule.statement], t.schedule) for t in trees]
    nests: list[tuple[Statement, Node]] = list(zip(around, blocks, strict=True))
    body = in_ordered_loops(nests, lambda axis, inner: For(axis.name, axis.extent, inner))
    return program_of(kernel, setting.machine, setting.sizes, temps_of(kernel, body), names, body)


def _wrap_in_loops(statement: Statement, nest: NestSchedule) -> Statement:
    """Return a statement inside the ordered loops around its nest. A carried loop is not one of these."""
    if not nest.carried:
        return statement
    return replace(statement, sequence=statement.sequence[:-1], ordered_loops=statement.ordered_loops[:-1])


def pipeline(program: LoweredProgram, setting: LoweringInput) -> LoweredProgram:
    """Return the program with innermost loops reordered by the pipelines of their nests."""
    nests = iter(setting.nests)

    def ordered(node: Node) -> Node:
        match node:
            case For(_, _, body):  # one whose order is given: all others stand inside the block of a nest
                return replace(node, body=tuple(map(ordered, body)))
            case Block(_, body):
                order = next(nests).pipeline
                return replace(node, body=in_pipeline(body, order, setting.machine)) if order else node
            case _:
                return node

    return replace(program, body=tuple(map(ordered, program.body)))


def hoist(program: LoweredProgram, setting: LoweringInput) -> LoweredProgram:
    """Move copies that are invariant in an ordered loop in front of that loop."""
    return with_copies_in_front(program, setting.machine)


def chains(program: LoweredProgram, setting: LoweringInput) -> LoweredProgram:
    """Return the program with chains of long functions interleaved."""
    return side_by_side(program, setting.machine)


def registers(program: LoweredProgram, setting: LoweringInput) -> LoweredProgram:
    """Return the program with numbers for the registers that the compiler names, also in packing programs."""
    packs = tuple(registers(pack, setting) for pack in program.packs)
    return replace(program, body=number_registers(program.body, setting.machine), packs=packs)


def configure(program: LoweredProgram, setting: LoweringInput) -> LoweredProgram:
    """Return the program with configuration loaded and released, and with required fields set."""
    packs = tuple(configure(pack, setting) for pack in program.packs)
    body = with_settings(configured_span(program.body, setting.machine), setting.machine)
    return replace(program, body=body, packs=packs)


def barriers(program: LoweredProgram, setting: LoweringInput) -> LoweredProgram:
    """Return the program with barriers, if its machine has levels whose lanes need them."""
    if not setting.machine.levels:
        return program
    packs = tuple(barriers(pack, setting) for pack in program.packs)
    found = replace(program, body=with_barriers(program, setting.machine), packs=packs)
    _judge("barriers", check_barriers(found, setting.machine))
    return found


SHAPE: tuple[TreePass, ...] = (
    TreePass("loops", shape.loops),
    TreePass("hold", shape.hold),
    TreePass("stage", shape.stage),
    TreePass("parallel", shape.parallel),
    TreePass("overlap", shape.overlap),
    TreePass("peel", shape.peel),
)
PASSES: tuple[Pass, ...] = (
    *SHAPE,
    Expansion("expand", expand),
    ProgramPass("pipeline", pipeline),
    ProgramPass("hoist", hoist),
    ProgramPass("chains", chains),
    ProgramPass("registers", registers),
    ProgramPass("configure", configure),
    ProgramPass("barriers", barriers),
)


# --- lower ----------------------------------------------------------------------------------------------

# Lower a kernel, a machine and a schedule to a LoweredProgram.
#
# Several schedules of one kernel as one program: the sizes of a call choose.
#
# if M <= 5  { … as the schedule for few rows says … }
# if 6 <= M  { … as that for many rows says … }


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
    passes = tuple(lower_by_passes(kernel, machine, schedule, sizes, matches=matches, names=names))
    _, program = passes[-1]
    assert isinstance(program, LoweredProgram), "the last pass leaves a program"
    return program


def lower_by_passes(
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
        for name, state in _lower_version(version, machine, names):
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
        next(state for own, state in _lower_version(version, machine, names) if own == name)
        for version in versions
    )


def _lower_version(version: Version, machine: Machine, names: Names) -> Iterator[tuple[str, State]]:
    known = version.kernel, machine, version.schedule, version.sizes
    return lower_by_passes(*known, matches=version.matches, names=names)


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
