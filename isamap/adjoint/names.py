"""Fresh names for arrays and axes of a derivative's kernel."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import count

from isamap.ir import Axis, Index, Kernel, Loop, Stmt
from isamap.syntax.bodies import RESERVED


class AdjointNames:
    """The names of a kernel, and the names generated since."""

    def __init__(self, kernel: Kernel) -> None:
        self._taken = {o.name for o in kernel.operands} | {p.name for p in kernel.params}
        self._taken |= {let.name for let in kernel.lets} | RESERVED
        self._axes = set(_axes(kernel.body))

    def fresh(self, preferred: str) -> str:
        """Return `preferred` or a similar unused name for an array: `h`, then `h_1` and `h_2`; or `x`, then `x_`."""
        stem, _, end = preferred.rpartition("_")
        others = (
            (f"{stem}_{n}" for n in count(int(end)))
            if stem and re.fullmatch("[0-9]+", end)
            else _longer(preferred)
        )
        name = next(n for n in others if n not in self._taken | self._axes)
        self._taken.add(name)
        return name

    def axis(self, preferred: str, others: Iterable[Axis]) -> str:
        """Return an unused name for an axis of a statement whose other axes are `others`."""
        taken = self._taken | {a.name for a in others}
        return next(n for n in _longer(preferred) if n not in taken)

    def axes(self, shape: tuple[Index, ...], others: Iterable[Axis] = ()) -> tuple[Axis, ...]:
        """Return an axis for each dimension."""
        return tuple(Axis(self.axis(f"i{n}", others), extent) for n, extent in enumerate(shape))


def _longer(name: str) -> Iterator[str]:
    while True:
        yield name
        name += "_"


def _axes(body: Iterable[Stmt]) -> Iterator[str]:
    for s in body:
        if isinstance(s, Loop):
            yield from (a.name for a in s.axes)
            yield from _axes(s.body)
