"""What iterations that are not run touch in scratchpads: the bytes that the last one touched, moved on.

    for k in 64: load_v b + 64*k      after 10 turns of 1 ns that were run, of 54 more:
                                      640..896 of local are read 4 ns after 576..640, 896..1152 8 ns after …

Of loops inside, from the first byte to the last one. Of places that do not grow evenly with the loop, all of
the scratchpad.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from sys import maxsize

from isamap.ir import Index
from isamap.simulate.machine_time import Step, Swept, Touch
from isamap.simulate.prepare import Branch, Counted, Run

# Iterations are taken together in so many groups: their bytes get the time of the last one.
GROUPS = 16

Ends = Mapping[str, tuple[int, int]]
"""The first and the last value of loops."""


def swept(loop: Counted, env: Mapping[str, int], turns: range) -> tuple[Swept, ...]:
    """What these iterations of a loop write and read after the one before them, which was run."""
    name, last = loop.turn.variable, turns[0] - 1
    found: dict[Swept, int] = {}  # of bytes that do not move, when they are touched last
    for touch, inside in _touches(loop.body, {}):
        like = _reach(touch.place, touch.size, env, {**inside, name: (last, last)})
        for group in _groups(turns) if name in touch.place.symbols else [turns]:
            begin, _ = _reach(touch.place, touch.size, env, {**inside, name: (group[0], group[0])})
            end, _ = _reach(touch.place, touch.size, env, {**inside, name: (group[-1], group[-1])})
            by = min(begin, end) - like[0], max(begin, end) - like[0]
            for written, is_meant in ((True, touch.writes), (False, touch.reads)):
                if is_meant:
                    part = Swept(touch.memory, written, *like, by, 0)
                    found[part] = max(found.get(part, 0), group[-1] - last)
    return tuple(part._replace(turns=turns) for part, turns in found.items())


def _groups(turns: range) -> Iterator[range]:
    size = -(-len(turns) // GROUPS)
    return (turns[first : first + size] for first in range(0, len(turns), size))


def _touches(body: Sequence[Run], ends: Ends) -> Iterator[tuple[Touch, Ends]]:
    """What the issues of a body touch, with the loops around them, from first to last turn."""
    for item in body:
        match item:
            case Counted():
                yield from _touches(item.body, {**ends, item.turn.variable: (0, item.turn.trips - 1)})
            case Branch(_, inner):
                yield from _touches(inner, ends)
            case Step():
                yield from ((touch, ends) for touch in item.touches)


def _reach(place: Index, size: int, env: Mapping[str, int], ends: Ends) -> tuple[int, int]:
    """The first byte and the one behind the last, of so many from a place on."""
    moving = {name: ends[name] for name in ends if name in place.symbols}
    if not place.is_affine_in(moving):
        return 0, maxsize
    first = {**env, **{name: low for name, (low, _) in moving.items()}}
    low = high = place.evaluate(first)
    for name, (_, last) in moving.items():
        more = place.evaluate({**first, name: last}) - place.evaluate(first)
        low, high = low + min(0, more), high + max(0, more)
    return low, high + size
