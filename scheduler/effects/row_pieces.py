"""Price inputs that are read in pieces of rows, and the computation on them.

    for n by 48 { hold; for k by 1 { … } }     a piece of each of 64 rows of B[k, n]

    exposed part of their lines' time + exposed part of computing

Both parts are parameters of the memory from which the pieces come (`traffic_factor`, for hinted pieces
`hinted_traffic_factor`, and `computing_factor` of its link's `rows`). A piece that is used again from a
nearer memory is a piece of a row there as well. Rows along a sum are read while their register block
computes, and so are rows that loads follow: their time is hidden. Validated in
docs/decisions/0020-memory-model.md and docs/decisions/0024-prefetch-hints.md.
"""

from __future__ import annotations

from collections.abc import Sequence

from isamap.plan.cost import Const, Cost, largest, times, total
from isamap.plan.problem import Problem
from isamap.scheduler.deciding.fetching import in_rows
from isamap.scheduler.deciding.tiling import Tiling, by_stage
from isamap.scheduler.effects.following import if_followed
from isamap.scheduler.effects.hint_costs import if_in_time
from isamap.scheduler.effects.levels import Misses, added, added_in_pieces
from isamap.scheduler.effects.row_conflict_misses import if_kept


def beside_rows(tiling: Tiling, missed: Sequence[Misses], computing: Cost, problem: Problem) -> Cost:
    """Return the time of pieces, with the exposed time of computing. Units: nanoseconds."""
    return largest(
        total([*lines, if_followed(tiling, problem, Const(0), times(level.computing_factor, computing))])
        for level in missed
        if level.computing_factor and (lines := _in_pieces(tiling, missed, level, problem))
    )


def _in_pieces(tiling: Tiling, missed: Sequence[Misses], one: Misses, problem: Problem) -> list[Cost]:
    """Return the time of pieces from one level and from farther levels that computing hides no better.

    Of copies only the starts of rows count: `copying_afar` already adds their reads.
    """
    option = tiling.space.option
    hiding = [level for level in missed if level.computing_factor >= one.computing_factor]
    is_last = hiding[-1] is missed[-1]
    found: list[Cost] = []
    for position, operand in enumerate(option.operands):
        if operand.is_accumulator or in_rows(option, operand):
            continue
        shown, early, lost = (
            total(times(share, level.lines[position]) for level, share in shares)
            for shares in (added_in_pieces(hiding), added_in_pieces(hiding, hinted=True), added(hiding))
        )
        if operand.prefetching.is_late:
            shown = if_in_time(tiling, operand, one.bandwidth, shown, early)
        begun = [level.begun[position] for level in hiding]
        direct = total([if_kept(tiling, operand, problem, shown, lost), *begun])
        found.append(by_stage(tiling.space, operand, direct, begun[-1] if is_last else Const(0)))
    return found
