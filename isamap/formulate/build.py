"""Build the `Problem` of a kernel on a machine: executable mappings with costs, and reasons for the others.

conv1d on a 16×16×16 product: 18 mappings, 12 offered; 6 not: "no move loads operand `b` into `tile`"
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from math import prod

from isamap.formulate.binding import bound_options
from isamap.formulate.estimate import estimate
from isamap.formulate.frame import Frame
from isamap.formulate.load_costs import input_of
from isamap.formulate.matches import Matches, matches_of, tiles_of
from isamap.formulate.option import bare_option, option_of, reorders, whole_option
from isamap.formulate.packable import packed_in, packed_options, with_packed
from isamap.formulate.unmatched import require_performed
from isamap.ir import Kernel, Range, typical_size
from isamap.machine import Machine, unset_state
from isamap.match import Mapping as Mapped
from isamap.match import MoveSearch, Pattern, pattern_of, statement_mappings
from isamap.match.moves.padding import pad_tiles
from isamap.match.patterns.unify import read_twice
from isamap.match.tiles.operand_tiles import (
    OperandTile,
    Tile,
    apply_mapping,
    leaves_in_scratchpad,
    move_search_of,
    profile_sizes,
    sums_can_be_padded,
)
from isamap.match.tiles.walks import Loops, lengths_at_run_time, may_write, walk_of
from isamap.plan.problem import NestOption, NestProblem, Problem, with_fields
from isamap.source.records import dataclass, replace
from isamap.transform import Statement, statements


def build_problem(
    kernel: Kernel,
    machine: Machine,
    sizes: Mapping[str, int | Range],
    threads: int = 1,
    packed: Sequence[str] = (),
    named: Collection[str] | None = None,
    matches: Sequence[Matches] | None = None,
) -> Problem:
    """Return the scheduling problem of a kernel on `threads` threads.

    `packed` are inputs that the caller passes packed. If mappings are `named`, others are left out, and a
    statement may have none. `matches` are those of the kernel's statements, if known. Raises: NoMapping if a
    statement cannot be performed; UsageProblem for inputs that cannot be packed.
    """
    frame = Frame.of(kernel, machine, sizes, threads, matches, packed)
    nests: list[NestProblem] = []
    for number, statement in enumerate(statements(kernel)):
        options: list[NestOption] = []
        for tile in tiles_of(frame.matches[number], machine, named):
            option = whole_option(tile, number, frame)
            if option is not None:
                options += bound_options(option, machine)
        known = tuple(packed_options(options, packed, statement, machine.name))
        nests.append(NestProblem(number, known, iterations=frame.iterations[number]))
    if named is None:
        require_performed(nests, kernel, machine)
    return frame.problem(nests)


def least_issues(kernel: Kernel, machine: Machine) -> int:
    """Return a lower bound of the issues that perform the sums of a canonical kernel with numeric sizes.

    It is 0 if a sum has no mapping whose operands can be moved: then the machine may not perform it. A sum that
    lanes may divide counts as none, because such mappings are not estimated.
    """
    search, found = move_search_of(kernel, machine), 0
    for number, statement in enumerate(statements(kernel)):
        if statement.assign.op is not None:
            matches, counts = matches_of(statement, number, machine), list[int]()
            if matches.apart:
                continue
            options = (
                option_of(t, search, kernel, {}, prices_copies=False) for t in tiles_of(matches, machine)
            )
            for mapping in matches.mappings if any(option is not None for option in options) else ():
                pattern = pattern_of(machine.instructions[mapping.instruction].instruction)
                made = estimate(statement, mapping, pattern, machine) if pattern is not None else None
                counts += [made.issues] if made is not None else []
            if not counts:
                return 0
            found += min(counts)
    return found


@dataclass(frozen=True, slots=True)
class Offer:
    """A mapping of a statement. `why_not` is empty if schedulers may choose it."""

    statement: int
    mapping: str
    kind: str
    why_not: str = ""


def offers(kernel: Kernel, machine: Machine, sizes: Mapping[str, int | Range]) -> tuple[Offer, ...]:
    """Return all mappings of a canonical kernel's statements onto a machine, each with its option or a reason."""
    search = move_search_of(kernel, machine)
    profile = {name: typical_size(value) for name, value in sizes.items()}
    return tuple(
        Offer(number, m.ident, m.kind, _why_not(kernel, statement, m, search, profile))
        for number, statement in enumerate(statements(kernel))
        for m in statement_mappings(statement, number, machine)
    )


def _why_not(
    kernel: Kernel, statement: Statement, mapping: Mapped, search: MoveSearch, profile: Mapping[str, int]
) -> str:
    machine, instruction = search.machine, search.machine.instructions[mapping.instruction].instruction
    if state := unset_state(instruction, machine):
        return f"it requires `{state}`, and no instruction sets it"
    pattern = pattern_of(instruction)
    assert pattern is not None
    tile = apply_mapping(statement, mapping, pattern, profile_sizes(statement), machine)
    if tile is None:
        if read_twice(mapping.bindings):
            return "an operand is filled from two subscripts of one array"
        return "an operand's elements do not determine the iterations, or its length is not known"
    if not sums_can_be_padded(tile):
        return "remainder lanes would change the result: the operation has no neutral value"
    if kernel.strict and reorders(tile):
        return "the kernel is strict, and its sum would run in another order"
    if option_of(tile, search, kernel, profile) is not None:
        return ""
    for operand in tile.inputs:
        if input_of(operand, tile, search, kernel) is None:
            return f"no move loads operand `{operand.name}` into `{operand.memory}`"
    return "no move stores the result from its register, or loads its initial value"


# --- outline --------------------------------------------------------------------------------------------

# Mappings with partly known costs. The remaining costs are computed step by step, on demand.
#
#     loops and intervals  ->  the loads of operands into registers  ->  the cost of a copy of each input, one by one
#     ->  the costs of copies of sums, the fusions
#
# The first steps take some 0.1 and 1 ms, a copy up to 10 ms. An outline has an option whose costs are lower
# bounds of the final ones. A search that knows a cheaper schedule need not complete the outline.
# docs/decisions/0014-floors.md shows that this loses no optimum.


@dataclass(frozen=True, slots=True)
class Outline:
    """The known costs of a mapping, which may be incomplete.

    `number` is the mapping's place among those of its statement. `option` is a lower bound on the whole
    option. `joined` are the kernel axes that share an axis of the instruction with another one. `further`
    computes more, and returns None if nothing performs the mapping; if it is None, `option` is the whole
    option. `is_priced_in_part` is true if the costs of some copies are known, but not of all.
    """

    number: int
    option: NestOption
    joined: int
    further: Callable[[], Outline | None] | None
    is_priced_in_part: bool = False


def outlines(statement: Statement, number: int, frame: Frame) -> tuple[Outline, ...]:
    """Return an outline of each executable mapping of a statement, in the order of its matches.

    There are none if the statement is no sum and reads a packed operand, since only sums read packed ones.
    """
    search, profile = frame.search, profile_sizes(statement)
    found: list[Outline] = []
    if packed_in(statement, frame.packed) and not statement.is_reduction:
        return ()
    loops = Loops.of(statement)
    for mapping in frame.matches[number].mappings:
        pattern = pattern_of(search.machine.instructions[mapping.instruction].instruction)
        assert pattern is not None
        walk = walk_of(loops, mapping, pattern, profile)
        if walk is None:
            continue
        lengths = lengths_at_run_time(pattern, walk[2]) if statement.assign.op is None else {}
        option = bare_option(
            mapping, sorted(walk[0].items()), walk[2], search.machine, frame.profile, lengths
        )
        further = partial(_apply_mapping, statement, mapping, pattern, frame, len(found))
        if statement.assign.op is None and not leaves_in_scratchpad(pattern, search.machine):
            option = replace(option, interval_ns=0.0, latency_ns=0.0)
            further = further if may_write(pattern, mapping, loops, walk, search) else perform_nothing
        found.append(Outline(len(found), option, _count_joined(mapping), further))
    for tile in frame.matches[number].apart:
        option = bare_option(tile.mapping, tile.params, tile.axes, search.machine, frame.profile, {})
        further = partial(_loadable, tile, number, frame, len(found))
        found.append(Outline(len(found), option, _count_joined(tile.mapping), further))
    return tuple(found)


def perform_nothing() -> None:
    """Return no outline. It stands for a mapping whose store cannot write its lanes."""


def _count_joined(mapping: Mapped) -> int:
    return sum(len(group.kernel_axes) - 1 for group in mapping.groups)


def _apply_mapping(
    statement: Statement, mapping: Mapped, pattern: Pattern, frame: Frame, place: int
) -> Outline | None:
    if unset_state(pattern.instruction, frame.search.machine):
        return None
    tile = apply_mapping(statement, mapping, pattern, profile_sizes(statement), frame.search.machine)
    if tile is None or not sums_can_be_padded(tile) or (frame.kernel.strict and reorders(tile)):
        return None
    return _loadable(pad_tiles(tile, frame.search.machine), mapping.statement, frame, place)


def _loadable(tile: Tile, number: int, frame: Frame, place: int) -> Outline | None:
    known = option_of(
        tile, frame.search, frame.kernel, frame.profile, prices_copies=False, packed=frame.packed
    )
    option = known and with_packed(known, packed_in(tile.statement, frame.packed))
    if option is None:
        return None
    extents = {axis.name: axis.extent for axis in option.axes}
    staged = {o.name for o in option.operands if o.costs.staged_ns is not None and not o.staging.is_packed}

    def elements(operand: OperandTile) -> int:
        return prod(extents.get(name, 1) for name in operand.axes)

    # A copy of the most elements says most about the mapping, and what it costs takes long to find out.
    inputs = sorted((o for o in tile.inputs if o.name in staged), key=elements, reverse=True)
    return _next_copy(tile, number, frame, place, option, tuple(inputs))


def _next_copy(
    tile: Tile, number: int, frame: Frame, place: int, option: NestOption, inputs: tuple[OperandTile, ...]
) -> Outline:
    """Return the outline of a mapping before the copies of some inputs are priced."""
    further = partial(_whole, tile, number, frame, place)
    if inputs:
        further = partial(_outline_copy, tile, number, frame, place, option, inputs)
    return Outline(place, option, _count_joined(tile.mapping), further)


def _outline_copy(
    tile: Tile, number: int, frame: Frame, place: int, option: NestOption, inputs: tuple[OperandTile, ...]
) -> Outline:
    operand, *others = inputs
    priced = input_of(operand, tile, frame.search, frame.kernel)
    assert priced is not None, "it was found without the price of its copy"
    operands = tuple(
        with_fields(
            known,
            pack_ns_per_element=priced.staging.pack_ns_per_element,
            mover=priced.staging.mover,
            moved_ns_per_element=priced.staging.moved_ns_per_element,
            is_concurrent=priced.staging.is_concurrent,
        )
        if known.name == operand.name
        else known
        for known in option.operands
    )
    found = _next_copy(tile, number, frame, place, replace(option, operands=operands), tuple(others))
    return replace(found, is_priced_in_part=True)


def _whole(tile: Tile, number: int, frame: Frame, place: int) -> Outline | None:
    known = whole_option(tile, number, frame)
    option = known and with_packed(known, packed_in(tile.statement, frame.packed))
    return None if option is None else Outline(place, option, _count_joined(tile.mapping), None)
