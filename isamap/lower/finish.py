"""Find where a sum starts and where it is finished, and emit the statements that are fused with it there.

With `for k by 256 { ...; hold; ... }` around it, a tile is loaded and written back four times for K = 1024.
A fused statement supplies its initial value only at k = 0, and the epilogue of fused statements is written
only after all of k has been summed.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain
from math import gcd

from isamap.formulate.finished_sums import Finish
from isamap.ir import ZERO, Index
from isamap.lower.place import Place
from isamap.lower.program import If, Names, Node
from isamap.lower.scratchpad_epilogue import fill_kept_buffers
from isamap.lower.staging import Staged, copy_tiles
from isamap.match import MoveSearch, Tile, Written
from isamap.plan.schedule import LoopStep, NestSchedule
from isamap.source.records import replace

Write = Callable[[tuple[Written, ...]], tuple[Node, ...]]


def before_tiles(
    finish: Finish, tile: Tile, nest: NestSchedule, search: MoveSearch, names: Names
) -> tuple[Node, ...]:
    """Return the loads that are performed once for all tiles of results."""
    acc = tile.accumulator
    home = next((s.memory for s in nest.stages if acc is not None and s.operand == acc.name), "")
    if acc is None or not home or finish.whole == finish.partial:
        return ()
    nodes = (
        fill_kept_buffers(acc, w, tile, home, search, names, held=finish.ends_held) for w in finish.whole
    )
    return tuple(chain.from_iterable(nodes))


def where_first(tile: Tile, place: Place) -> Index:
    """Return an index that is 0 if nothing has been summed yet at a place, and positive otherwise."""
    return sum((place.position[a.name] for a in tile.axes if a.is_reduction), start=ZERO)


def where_last(tile: Tile, place: Place) -> Index:
    """Return an index that is 0 if the sum is complete after a place, and positive otherwise."""
    sums = (a for a in tile.axes if a.is_reduction)
    return sum((a.extent - place.position[a.name] - place.left[a.name] for a in sums), start=ZERO)


def at_end(finish: Finish, tile: Tile, place: Place, write: Write) -> tuple[Node, ...]:
    """Return the stores after a place, of finished or of partial sums."""
    if finish.whole == finish.partial:
        return write(finish.whole)
    return in_case(where_last(tile, place), lambda: write(finish.whole), lambda: write(finish.partial))


def copied_in(
    finish: Finish,
    staged: Staged,
    tile: Tile,
    loops: tuple[LoopStep, ...],
    place: Place,
    search: MoveSearch,
    names: Names,
) -> tuple[Node, ...]:
    """Return the code that fills an accumulator's buffer, from its array or with an initial value."""
    args = (tile, loops, place, search, names)
    if tile.overwrites(staged.operand):
        return ()
    if finish.first is None:
        return copy_tiles(staged, *args)
    begun = replace(staged, operand=finish.first[0])
    return in_case(
        where_first(tile, place),
        lambda: () if finish.beginning or finish.begins_held else copy_tiles(begun, *args),
        lambda: copy_tiles(staged, *args),
    )


def copy_back(
    finish: Finish,
    staged: Staged,
    tile: Tile,
    loops: tuple[LoopStep, ...],
    place: Place,
    search: MoveSearch,
    names: Names,
) -> tuple[Node, ...]:
    """Return the stores from the buffer of a staged accumulator."""

    def write(every: tuple[Written, ...]) -> tuple[Node, ...]:
        copies = (copy_tiles(staged, tile, loops, place, search, names, back=w) for w in every)
        return tuple(node for nodes in copies for node in nodes)

    # Where registers hold them, finished sums have left before.
    left = replace(finish, whole=()) if finish.ends_held else finish
    return at_end(left, tile, place, write)


def in_case(
    measure: Index, zero: Callable[[], tuple[Node, ...]], more: Callable[[], tuple[Node, ...]]
) -> tuple[Node, ...]:
    """Return the code for an index that is 0, and for one that is positive. A known index needs one of them."""
    if measure.value == 0:
        return zero()
    # Whether no values of its symbols make the measure 0, as for 172 - 128*k.
    steps = gcd(*(c for monomial, c in measure.terms if monomial))
    if measure.value is not None or (measure.constant % steps != 0):
        return more()
    begun, going_on = zero(), more()
    first = (If(((measure, "<=", ZERO),), begun),) if begun else ()
    return (*first, *((If(((ZERO, "<", measure),), going_on),) if going_on else ()))
