"""Find the executable mappings of a statement, and apply the mapping that a schedule names to its loops.

find_matches(kernel, machine)    the stage `match`: the mappings of each statement, found once
tiles_of(matches, machine)       the executable ones, applied to the loops, for a problem
chosen_tile(statement, …, nest)     the one that a schedule names, for lowering
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from isamap.ir import Kernel
from isamap.machine import Machine
from isamap.match import Mapping, pattern_of, statement_mappings
from isamap.match.moves.padding import pad_tiles
from isamap.match.tiles.operand_tiles import Tile, apply_mapping, profile_sizes, sums_can_be_padded
from isamap.match.tiles.written_values import tiles_apart
from isamap.plan.schedule import NestSchedule
from isamap.source import UsageProblem, dataclass
from isamap.transform import Statement, statements


@dataclass(frozen=True, slots=True)
class Matches:
    """The candidates of a statement: mappings, and tiles whose lanes have partial sums."""

    statement: Statement
    mappings: tuple[Mapping, ...]
    apart: tuple[Tile, ...]


def find_matches(kernel: Kernel, machine: Machine) -> tuple[Matches, ...]:
    """Return the matches of each statement of a canonical kernel."""
    return tuple(matches_of(s, number, machine) for number, s in enumerate(statements(kernel)))


def matches_of(
    statement: Statement, number: int, machine: Machine, instruction: str | None = None
) -> Matches:
    """Return the matches of a statement, of all instructions or of one. Assignments must end in memory."""
    found = statement_mappings(statement, number, machine, instruction=instruction, writes=True)
    apart = tuple(tiles_apart(statement, number, machine, profile_sizes(statement)))
    return Matches(statement, tuple(found), apart)


def tiles_of(matches: Matches, machine: Machine, named: Collection[str] | None = None) -> tuple[Tile, ...]:
    """Return the executable matches, applied to their loops. If `named` is given, only those."""
    profile = profile_sizes(matches.statement)
    found: list[Tile] = []
    for mapping in matches.mappings:
        if named is not None and mapping.ident not in named:
            continue
        pattern = pattern_of(machine.instructions[mapping.instruction].instruction)
        assert pattern is not None, "what is mapped has a pattern"
        tile = apply_mapping(matches.statement, mapping, pattern, profile, machine)
        if tile is not None and sums_can_be_padded(tile):
            found.append(pad_tiles(tile, machine))
    return (*found, *(t for t in matches.apart if named is None or t.mapping.ident in named))


def chosen_tile(
    statement: Statement, machine: Machine, nest: NestSchedule, known: Sequence[Matches] | None = None
) -> Tile:
    """Return the tile that a schedule names, from known matches or by a search for its name.

    Raises: UsageProblem if there is none.
    """
    number = nest.statement
    instruction = nest.mapping.split(" ", 1)[0]
    own = known[number] if known else matches_of(statement, number, machine, instruction)
    tiles = tiles_of(own, machine, (nest.mapping,))
    if tiles:
        return tiles[-1]
    there = tiles_of(matches_of(statement, number, machine), machine)
    raise UsageProblem.of(
        "unknown-mapping",
        f"statement {number} has no mapping `{nest.mapping}`",
        notes=tuple(f"there is `{name}`" for name in list(dict.fromkeys(t.mapping.ident for t in there))[:8]),
        help="run `isamap match` to see all of them",
    )
