"""Mappings of a statement that a machine can carry out, applied to its loops, and the one that is chosen."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from isamap.match import (
    Suppliers,
    Tile,
    apply_mapping,
    pattern_of,
    profile_sizes,
    statement_mappings,
    sums_can_be_padded,
    tiles_apart,
)
from isamap.plan.schedule import NestSchedule
from isamap.source import Diagnostic, UsageProblem
from isamap.transform import Statement


def find_tiles(
    statement: Statement, number: int, suppliers: Suppliers, named: Collection[str] | None = None
) -> tuple[Tile, ...]:
    """Mappings of a statement that can be carried out on the machine, applied; only those that are named."""
    profile = profile_sizes(statement)
    found: list[Tile] = []
    for mapping in statement_mappings(statement, number, suppliers.machine):
        if named is not None and mapping.ident not in named:
            continue
        pattern = pattern_of(suppliers.machine.instructions[mapping.instruction].instruction)
        assert pattern is not None
        tile = apply_mapping(statement, mapping, pattern, profile)
        if tile is not None and sums_can_be_padded(tile):
            found.append(tile)
    apart = tiles_apart(statement, number, suppliers.machine, profile)
    return (*found, *(tile for tile in apart if named is None or tile.mapping.ident in named))


def chosen_tile(tiles: Iterable[Tile], nest: NestSchedule) -> Tile:
    """The tile that a schedule names. Raises: UsageProblem when there is none."""
    known = {t.mapping.ident: t for t in tiles}
    if nest.mapping not in known:
        raise UsageProblem(
            Diagnostic(
                "unknown-mapping",
                f"statement {nest.statement} has no mapping `{nest.mapping}`",
                notes=tuple(f"there is `{m}`" for m in list(known)[:8]),
                help="run `isamap match` to see all of them",
            )
        )
    return known[nest.mapping]
