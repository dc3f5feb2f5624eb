"""What the caches of a description really have on this processor.

The operating system says how large each cache is; the caches of a description are the system's in order, the
nearest first. That is not all: a guest is told the size of the whole last cache, of which others have their
part. So the last one counts as far as it can be read like a cache. Where 48 MiB in 12 ways are reported,

    2.5   3     4     6     9     12    18    24    MiB are read in sequence at
    32.5  31.9  31.7  31.3  24.0  14.1  11.4  11.5  bytes per ns,

so 6 MiB are read like a cache: three quarters of 8 MiB, or of two ways, which are the figure. In sequence
most of what is missed is fetched ahead, so that a little longer may be much longer in pieces of rows
(docs/decisions/0020-memory-model.md). What others on a shared host do only makes reads slower: a probe takes
no longer than any larger one did, whatever disturbed it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate

from isamap.machine import Machine, caches_from_nearest
from isamap.machine.processor import SystemCache
from isamap.report.columns import bytes_text
from isamap.tune.bandwidth import Stream, widest_moves
from isamap.tune.figures import CacheFigure

# How much of a cache is read in sequence without misses, though the system puts pages of 4 KiB anywhere: of a
# full one, every other set has more lines than ways. Working sets may take as much of it in the cost model.
FILLED = 0.75
# What takes so much longer in sequence than just behind the cache before comes out of memory, for a part that
# shows where nothing is fetched ahead. Emerald Rapids reads 128 MiB in 1.12 times what 4 MiB take, 192 MiB in
# 1.39; the above 6 MiB in 1.04 times, and 9 MiB in 1.35. Where the curve has no knee, reading a working set
# that counts as held takes no more than this beyond what is said of it.
MISSED = 1.15
PARTS = 16  # where the system does not say how many ways a cache has


def reported_caches(machine: Machine, system: tuple[SystemCache, ...]) -> tuple[CacheFigure, ...]:
    """What the system says of each cache of a description, the nearest one first."""
    names = caches_from_nearest(machine)
    known = [
        CacheFigure(name, cache.size_bytes, cache.ways, cache.line_bytes, cache.size_bytes, "as reported")
        for name, cache in zip(names, system, strict=False)
    ]
    unknown = [
        CacheFigure(name, None, None, None, None, "the system reports no such cache; as stated")
        for name in names[len(known) :]
    ]
    return (*known, *unknown)


def probes(machine: Machine, system: tuple[SystemCache, ...]) -> tuple[Stream, ...]:
    """Reads that show how much of the system's last cache can be used, as `usable_bytes` wants them.

    None where the description does not have that cache, or nothing to read it with.
    """
    names, moves = caches_from_nearest(machine), widest_moves(machine)
    if moves is None or not parts(system) or len(system) > len(names):
        return ()
    sizes = (_near_bytes(system), *(int(FILLED * part) for part in parts(system)))
    return tuple(Stream(names[len(system) - 1], "read", size, *moves) for size in sizes)


def parts(system: tuple[SystemCache, ...]) -> tuple[int, ...]:
    """Sizes that the last cache may have, from the smallest: fewer and fewer of its ways. Units: bytes.

    None where there is no cache before it, which would show at what speed it is read.
    """
    if len(system) < 2:
        return ()
    ways = system[-1].ways or PARTS
    counts = [ways]
    while counts[-1] > 1:
        counts.append(counts[-1] * 3 // 4)
    found = (system[-1].size_bytes * count // ways for count in reversed(counts))
    return tuple(size for size in found if FILLED * size > _near_bytes(system))


def _near_bytes(system: tuple[SystemCache, ...]) -> int:
    """A buffer that the last cache holds, and the one before it does not."""
    return 2 * system[-2].size_bytes


def usable_bytes(system: tuple[SystemCache, ...], took_ns: Sequence[float]) -> int:
    """How much of the last cache can be used, of the least ns per byte that each probe took."""
    undisturbed = list(accumulate(reversed(took_ns), min))[::-1]
    sizes = (_near_bytes(system), *parts(system))
    held = (size for size, took in zip(sizes, undisturbed, strict=True) if took <= MISSED * undisturbed[0])
    return max(held)


def least_of(figure: CacheFigure, again: CacheFigure) -> CacheFigure:
    """A cache as it was found twice: what can be used both times, and how long that is kept at least.

    None of `kept_ns` says that no limit is known: the other one holds.
    """
    less = min(figure, again, key=lambda f: f.size_bytes or 0)
    kept = [f.kept_ns for f in (figure, again) if f.kept_ns is not None]
    return replace(less, kept_ns=min(kept, default=None))


def with_usable(figure: CacheFigure, usable: int) -> CacheFigure:
    """The figure of the last cache with what can be used of it: fewer ways, as its sets are all there."""
    whole = figure.reported_bytes
    assert whole is not None, "only a cache that the system reports is read"
    if usable >= whole:
        return replace(figure, said="as reported, and read like a cache")
    ways = None if figure.ways is None else max(1, figure.ways * usable // whole)
    said = f"{bytes_text(whole)} reported, of which {bytes_text(usable)} are read like a cache"
    return replace(figure, size_bytes=usable, ways=ways, said=said)
