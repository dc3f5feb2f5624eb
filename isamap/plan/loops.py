"""The kinds of loops that a nest may have, one class each: `for n by 64`, `unroll n by 16`, `par n by 512`.

Each class implements all properties of its loops, so that an incomplete new kind fails type checking at each
use.
"""

from __future__ import annotations

from typing import ClassVar

from isamap.source.records import dataclass


@dataclass(frozen=True, slots=True)
class CountedLoop:
    """A sequential loop. Units: `step` and `rest` in elements of the axis.

    `rest` are the piece sizes of a remainder that only run time knows, largest first; () if there is a
    piece for each number of tiles.
    """

    axis: str
    step: int
    rest: tuple[int, ...] = ()

    word: ClassVar[str] = "for"
    counts: ClassVar[bool] = True
    is_unrolled: ClassVar[bool] = False
    is_dealt: ClassVar[bool] = False


@dataclass(frozen=True, slots=True)
class UnrolledLoop:
    """A loop that is unrolled completely. Units: `step` in elements of the axis."""

    axis: str
    step: int

    word: ClassVar[str] = "unroll"
    rest: ClassVar[tuple[int, ...]] = ()
    counts: ClassVar[bool] = False
    is_unrolled: ClassVar[bool] = True
    is_dealt: ClassVar[bool] = False


@dataclass(frozen=True, slots=True)
class ParallelLoop:
    """A loop whose iterations are distributed to threads. Units: as of `CountedLoop`."""

    axis: str
    step: int
    rest: tuple[int, ...] = ()

    word: ClassVar[str] = "par"
    counts: ClassVar[bool] = False
    is_unrolled: ClassVar[bool] = False
    is_dealt: ClassVar[bool] = True


LoopStep = CountedLoop | UnrolledLoop | ParallelLoop
"""One loop of a nest."""
LOOP_KINDS: tuple[type[LoopStep], ...] = (CountedLoop, UnrolledLoop, ParallelLoop)
