"""Derive row parameters from the times of products, which `row_starts` measures.

pieces of a column - pieces that follow others to start a piece pieces of 16 rows of A - of 4, over what
these compute more the exposed part of computing pieces of 4 rows of A - the exposed part of their computing
the exposed part of their traffic pieces that follow others - the same from a near memory their delay,
hinted or not hinted pieces - the exposed part of computing on near ones the exposed part of their traffic
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf
from statistics import median

from isamap.source import Diagnostic, Infeasible
from isamap.source.records import dataclass, replace
from isamap.tune.measured_parameters import RowFigure, RowReading

WIDEST = 8  # issues along a piece
FEW, MANY = 4, 16  # rows of A: what comes from afar counts most, or what is computed
# Of the time that following saves, what may be lost where a count of rows still is followed.
LOST = 0.35
LEAST = 0.05  # of the time of pieces that follow others: less is noise


@dataclass(frozen=True, slots=True)
class Product:
    """A product with B of one memory: `together` rows of B are read before their next pieces.

    With `hinted`, pieces are asked for early: those of columns only where B streams. A piece is of as many
    issues as divide a row evenly, of `widest` at most.
    """

    m: int
    n: int
    k: int
    together: int
    hinted: bool = False
    widest: int = WIDEST

    @property
    def in_columns(self) -> bool:
        """Whether all rows are read before the next pieces."""
        return self.together == self.k


@dataclass(frozen=True, slots=True)
class Took:
    """The time of a piece of a row, and that of all issues on it by themselves. Units: ns; bytes."""

    per_piece_ns: float
    issues_ns: float
    piece_bytes: int


@dataclass(frozen=True, slots=True)
class Near:
    """The time of pieces from the second memory, by the number of rows read before their next pieces.

    `lines_ns` is the part of it for their lines, and `far_lines_ns` the time of these lines from farther
    memory. Units: nanoseconds and bytes.
    """

    piece_bytes: int
    piece_ns: Mapping[int, float]
    lines_ns: float
    far_lines_ns: float

    def in_time_ns(self, together: int, computing_factor: float) -> float:
        """Return the time of a piece whose lines arrive in time, with the exposed part of computing."""
        computing_ns = self.computing_ns(together, computing_factor)
        return max(self.piece_ns[together], computing_ns + self.far_lines_ns)

    def computing_ns(self, together: int, computing_factor: float) -> float:
        """Return the exposed computing time of a piece, besides its lines."""
        return computing_factor * (self.piece_ns[together] - self.lines_ns)


def row_figure(
    memory: str,
    found: Mapping[Product, Took],
    best: Product,
    less: Mapping[Product, Took],
    ns_per_byte: float = 0.0,
    near: Near | None = None,
) -> RowFigure:
    """Return the measured parameters of rows, from times of products.

    `found` are products of many rows, columns among them, and pieces with hints where there are any; `less`
    are products of few: the `best` one of `found`, and columns with hints where there are any.
    `ns_per_byte` is what reading in sequence takes there (0: not known). `near` says what pieces take that
    are not late; None: no other memory is known.

    Raises: Infeasible where more computing takes no longer, so that nothing says how much of it shows.
    """
    swept, few = found[best], less[replace(best, m=FEW)]
    added_ns = swept.issues_ns - few.issues_ns
    if added_ns <= 0:
        rows = f"{MANY} rows take the processor no longer than {FEW}"
        raise Infeasible(Diagnostic("rows-without-computing", rows))
    start_ns = max(
        0.0, next(t for one, t in found.items() if one.in_columns).per_piece_ns - swept.per_piece_ns
    )
    followed = _nearly_as_fast(found, swept.per_piece_ns, start_ns, hinted=False)
    shown = min(1.0, max(0.0, (swept.per_piece_ns - few.per_piece_ns) / added_ns))
    if near is not None and near.piece_bytes != swept.piece_bytes:
        near = None
    in_time_ns = dict.fromkeys(followed, swept.per_piece_ns)
    if near is not None:
        in_time_ns = {count: near.in_time_ns(count, shown) for count in followed}
    late_ns, hinted_late_ns = _late(found, in_time_ns)
    pays = hinted_late_ns < late_ns
    early_ns = min((t.per_piece_ns for one, t in found.items() if one.hinted), default=inf)
    in_time = _nearly_as_fast(found, early_ns, late_ns - hinted_late_ns + start_ns, hinted=True)
    hinted = [max(0.0, t.per_piece_ns - few.per_piece_ns) for one, t in less.items() if one.hinted]
    traffic = _traffic_shown(few, shown, few.piece_bytes * ns_per_byte)
    return RowFigure(
        memory,
        swept.piece_bytes,
        start_ns,
        min(start_ns, *hinted) if hinted else None,
        max(followed) if start_ns else 0,  # the best one is always among them
        shown,  # what is computed takes no longer than by itself
        tuple(
            RowReading(one.m, 0 if one.in_columns else one.together, one.hinted, t.per_piece_ns)
            for one, t in (*found.items(), *less.items())
        ),
        swept_ns=late_ns,
        hinted_swept_count=max(in_time) if pays else 0,
        hinted_swept_ns=hinted_late_ns if pays else 0.0,
        traffic_factor=traffic,
        hinted_traffic_factor=(
            min(traffic, _hinted_traffic_shown(found, in_time, near, shown)) if pays and near else None
        ),
    )


def _traffic_shown(few: Took, computing_factor: float, lines_ns: float) -> float:
    """Return the share of the lines' time that counts besides exposed computing.

    All of it at most: what is beyond that is late. Units: nanoseconds of the lines of a piece.
    """
    left_ns = few.per_piece_ns - computing_factor * few.issues_ns
    return min(1.0, max(0.0, left_ns / lines_ns)) if lines_ns else 1.0


def _hinted_traffic_shown(
    found: Mapping[Product, Took], counts: Sequence[int], near: Near, computing_factor: float
) -> float:
    """Return the same of hinted pieces, so many rows of them together: the middle of all counts."""
    return median(
        max(0.0, took.per_piece_ns - near.computing_ns(one.together, computing_factor)) / near.far_lines_ns
        for one, took in found.items()
        if one.hinted and one.together in counts
    )


def _late(found: Mapping[Product, Took], in_time_ns: Mapping[int, float]) -> tuple[float, float]:
    """Return the delay of a piece that is not hinted, and of one that is; equal where hints save next to nothing.

    The middle of all counts of rows, as which of them is fast is by chance.
    """
    times_ns = {(one.together, one.hinted): t.per_piece_ns for one, t in found.items() if not one.in_columns}
    unasked = {count: times_ns[count, False] for count in in_time_ns}
    late_ns = median(unasked[count] - ns for count, ns in in_time_ns.items())
    least_ns = LEAST * median(unasked.values())
    if late_ns <= least_ns:
        return 0.0, 0.0
    both = [count for count in in_time_ns if (count, True) in times_ns]
    saved_ns = median(unasked[count] - times_ns[count, True] for count in both) if both else 0.0
    return late_ns, max(0.0, late_ns - saved_ns) if saved_ns > least_ns else late_ns


def _nearly_as_fast(
    found: Mapping[Product, Took], best_ns: float, gain_ns: float, *, hinted: bool
) -> list[int]:
    """Return how many rows are read from piece to piece without losing much of what that gains."""
    return [
        one.together
        for one, took in found.items()
        if not one.in_columns and one.hinted == hinted and took.per_piece_ns <= best_ns + LOST * gain_ns
    ]
