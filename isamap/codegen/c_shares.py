"""Work done share by share: counters that go on from one share to the next, instead of divisions.

int64_t work0_left = 1024, work0_due = 0, work0_0 = 0, work0_1 = 0;      where it begins
for (int64_t k0 = 0; k0 < 48; k0++) {
  int64_t work0_now = 21;                                                each share: 1024 / 48 pieces,
  if ((work0_due += 16) >= 48) { work0_due -= 48; work0_now++; }         and what is left over of that
  if (work0_now > work0_left) work0_now = work0_left;
  for (work0_left -= work0_now; work0_now > 0; work0_now--) {
    const int64_t k1 = work0_0, n1 = work0_1;
    …                                                                    a piece
    if (++work0_1 == 4) { work0_1 = 0; work0_0++; }
  }
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from isamap.codegen.c_names import Names
from isamap.codegen.c_text import Text, index_text, infix
from isamap.lower.program import Begin, Share
from isamap.lower.shares import Counted, counted

Lines = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Progress:
    """How far some work has come, in identifiers: `counters` of loops, `part` where there are several.

    A share has `each` pieces; a piece more falls due `rest` times in so many `trips`. These are numbers where
    they are known.
    """

    stem: str
    each: str
    rest: str
    trips: str
    counters: tuple[str, ...]
    part: str

    @property
    def left(self) -> str:
        return f"{self.stem}_left"

    @property
    def due(self) -> str:
        return f"{self.stem}_due"

    @property
    def now(self) -> str:
        return f"{self.stem}_now"


def begin(node: Begin, names: Names, used: set[str]) -> tuple[Progress, Lines]:
    """The counters of work of which nothing is done."""
    stem = names.take(node.work)
    counters = tuple(names.take(f"{stem}_{n}") for n in range(node.depth))
    part = names.take(f"{stem}_part") if node.parts > 1 else ""
    pieces, trips = (index_text(index, names.of, used) for index in (node.pieces, node.trips))
    if node.pieces.value is not None and node.trips.value is not None:
        each, rest = map(str, divmod(node.pieces.value, node.trips.value))
        made = Progress(stem, each, rest, str(node.trips.value), counters, part)
        constants: Lines = ()
    else:
        each, rest, of = (f"{stem}_{word}" for word in ("each", "rest", "trips"))
        made = Progress(stem, each, rest, of, counters, part)
        constants = (
            f"const int64_t {of} = {trips.text};",
            f"const int64_t {each} = {infix(pieces, '/', Text(of)).text};",
            f"const int64_t {rest} = {infix(pieces, '%', Text(of)).text};",
        )
    zeros = [made.due] * (rest != "0") + [part] * bool(part) + list(counters)
    variables = [f"{made.left} = {pieces.text}", *(f"{name} = 0" for name in zeros)]
    return made, (*constants, f"int64_t {', '.join(variables)};")


def share(work: Progress) -> Lines:
    """How many pieces the next share has; then the loop over them opens."""
    due, now, left = work.due, work.now, work.left
    more = f"if (({due} += {work.rest}) >= {work.trips}) {{ {due} -= {work.trips}; {now}++; }}"
    return (
        f"int64_t {now} = {work.each};",
        *((more,) if work.rest != "0" else ()),
        f"if ({now} > {left}) {now} = {left};",
        f"for ({left} -= {now}; {now} > 0; {now}--) {{",
    )


def pieces_of(node: Share) -> list[Counted]:
    """The counters of each part of some work, and a piece."""
    return [counted((part,), depth) for part, depth in zip(node.body, node.depths, strict=True)]


def positions(work: Progress, variables: Sequence[str], names: Names) -> Lines:
    """The counters of a part's loops, as its pieces name them."""
    pairs = zip(variables, work.counters, strict=False)
    given = ", ".join(f"{names.take(variable)} = {counter}" for variable, counter in pairs)
    return (f"const int64_t {given};",) if given else ()


def moved_on(work: Progress, trips: Sequence[str], *, is_last: bool) -> str:
    """The step of the counters behind a piece of a part, the last one fastest."""
    carry = "" if is_last else f"{work.part}++;"
    for place, (counter, count) in enumerate(zip(work.counters, trips, strict=False)):
        if place == 0 and is_last:
            carry = f"{counter}++;"
        else:
            carry = f"if (++{counter} == {count}) {{ {counter} = 0; {carry} }}"
    return carry
