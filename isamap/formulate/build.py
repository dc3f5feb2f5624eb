"""Build the `Problem` of a kernel on a machine: executable mappings with costs, and reasons for the others.

conv1d on a 16×16×16 product: 18 mappings, 12 offered; 6 not: "no move loads operand `b` into `tile`"
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from isamap.formulate.binding import bound_options
from isamap.formulate.estimate import estimate
from isamap.formulate.frame import Frame
from isamap.formulate.load_costs import input_of
from isamap.formulate.matches import Matches, matches_of, tiles_of
from isamap.formulate.option import option_of, reorders, whole_option
from isamap.formulate.packable import packed_options
from isamap.formulate.unmatched import require_performed
from isamap.ir import Kernel, Range, typical_size
from isamap.machine import Machine, unset_state
from isamap.match import Mapping as Mapped
from isamap.match.mappings.enumerate import statement_mappings
from isamap.match.operand_loads.load_request import MoveSearch
from isamap.match.patterns.pattern import pattern_of
from isamap.match.patterns.unify import read_twice
from isamap.match.tiles.operand_tiles import apply_mapping, move_search_of, profile_sizes, sums_can_be_padded
from isamap.plan.problem import NestOption, NestProblem, Problem
from isamap.source.records import dataclass
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

    It is 0 if a sum has no mapping whose operands can be moved: then the machine may not perform it.
    """
    search, found = move_search_of(kernel, machine), 0
    for number, statement in enumerate(statements(kernel)):
        if statement.assign.op is not None:
            matches, counts = matches_of(statement, number, machine), list[int]()
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
