"""Between what something lies in many boxes, each of them cut along some decisions, as one array of rows.

    ends x rows x boxes: least and most, or one that is both; the boxes as they are, then two halves for each
    cut that matters, or one row that is all; one box where all are the same

There are rows for those cuts only on which it depends: so a part of a cost is one array operation, and not
one per cut. Where nothing is cut all is one row.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from isamap.plan.batch import Numbers
from isamap.plan.cost import Cost

Mask = NDArray[np.bool_]
Kind = TypeVar("Kind", bound=np.generic)
Bits = int
"""A set of decisions."""


@dataclass(frozen=True, slots=True)
class Rows:
    """What is known of a cost in boxes: between what each decision and each part lies, in rows.

    `open` are the decisions that are cut. `bits` say by name what goes with a decision, `needs` by identity
    what a part depends on: what is not there has nothing to do with a cut.
    """

    boxes: Mapping[str, Numbers]
    open: Bits = 0
    bits: Mapping[str, Bits] = field(default_factory=dict[str, Bits])
    needs: Mapping[int, Bits] = field(default_factory=dict[int, Bits])
    known: dict[int, Numbers] = field(default_factory=dict[int, Numbers])
    masks: dict[tuple[str, int], Mask | bool] = field(default_factory=dict[tuple[str, int], "Mask | bool"])

    def needed(self, part: Cost) -> Bits:
        """The decisions that a part depends on."""
        return self.needs.get(id(part), 0)

    def joined(self, names: Iterable[str]) -> Bits:
        """The decisions that go with some of them."""
        found = 0
        for name in names:
            found |= self.bits.get(name, 0)
        return found

    def lined(self, value: NDArray[Kind], have: Bits, whole: Bits) -> NDArray[Kind]:
        """The rows of what depends on some decisions, for what depends on more."""
        if value.shape[1] == 1 or have & self.open == whole & self.open:
            return value
        return value.take(_line(have & self.open, whole & self.open), axis=1)

    def inside(self, decision: str, key: int) -> Mask | bool:
        """Where a decision may have a value: True or False where that is the same everywhere."""
        found = self.masks.get((decision, key))
        if found is None:
            box = self.boxes[decision]
            found = (box[:1] <= key) & (key <= box[-1:])
            holds = np.count_nonzero(found)
            if holds in (0, found.size):
                found = bool(holds)
            self.masks[decision, key] = found
        return found

    def inside_blocks(self, sizes: Mapping[str, Numbers]) -> Rows:
        """The same, with register blocks of these sizes."""
        return replace(self, boxes={**self.boxes, **sizes}, known={}, masks={})


def first_row(place: Bits, own: Bits) -> int:
    """The first of the two rows of a cut, among those of some cuts."""
    return 1 + 2 * (own & (place - 1)).bit_count()


@lru_cache(maxsize=4096)
def _line(have: Bits, wanted: Bits) -> NDArray[np.int64]:
    """For each row of some cuts the row of fewer cuts: the first where a cut is not among them."""
    line = [0]
    for place in (1 << n for n in range(wanted.bit_length())):
        if place & wanted:
            first = first_row(place, have)
            line += [first, first + 1] if place & have else [0, 0]
    return np.array(line)


def in_fewest(both: Numbers) -> Numbers:
    """Least and most in the fewest numbers: one box where all are the same, one end where they are."""
    if both.shape[2] > 1 and (both == both[:, :, :1]).all():
        both = both[:, :, :1]
    return both[:1] if (both[0] == both[1]).all() else both
