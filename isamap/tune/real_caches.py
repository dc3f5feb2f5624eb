"""Measure the usable capacity of caches on this processor, and the time for which they keep lines.

The operating system reports the size of each cache; the description's caches correspond to the system's in
order, the nearest first. A guest sees the size of the whole last cache, which it shares with others. The
capacity that counts is the size up to which reads run at the speed of a cache. For 48 MiB in 12 ways,

    2.5   3     4     6     9     12    18    24    MiB are read in sequence at
    32.5  31.9  31.7  31.3  24.0  14.1  11.4  11.5  bytes per ns,

so 6 MiB are read like a cache. They are three quarters of 8 MiB, or of two ways, which is the result. In
sequence most misses are prefetched, so a small slowdown here may be a large one in pieces of rows
(docs/decisions/0020-memory-model.md). Load of other guests only makes reads slower, so each probe counts as
no slower than any larger one.

A guest of a large machine shares its last cache with other guests, and perhaps its core. A buffer that is
read repeatedly stays near, but a buffer that is used again after some milliseconds of computing is evicted.
The probe reads a buffer, waits, and times a second read. 8 MiB in the last cache of a guest with two cores
of thirty-two,

    0     0.3   1     3     10    ms after they were read, are read again at
    30    30    24    13    11    bytes per ns, of which the last is the speed of memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from math import sqrt

from isamap.machine import Machine, caches_from_nearest
from isamap.machine.processor import SystemCache
from isamap.report.columns import bytes_text
from isamap.run.clocking import Timed
from isamap.source.numbers import Spread
from isamap.source.records import replace
from isamap.tune.bandwidth import Stream, widest_moves
from isamap.tune.measured_parameters import BandwidthFigure, CacheFigure

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
    """Return the size of each cache of a description as the system reports it, the nearest one first."""
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
    """Return the reads from which `usable_bytes` finds the usable part of the system's last cache.

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
    """Return a buffer that the last cache holds, and the one before it does not."""
    return 2 * system[-2].size_bytes


def usable_bytes(system: tuple[SystemCache, ...], took_ns: Sequence[float]) -> int:
    """Return how much of the last cache can be used, of the least ns per byte that each probe took."""
    undisturbed = list(accumulate(reversed(took_ns), min))[::-1]
    sizes = (_near_bytes(system), *parts(system))
    held = (size for size, took in zip(sizes, undisturbed, strict=True) if took <= MISSED * undisturbed[0])
    return max(held)


def least_of(figure: CacheFigure, again: CacheFigure) -> CacheFigure:
    """Return a cache as it was found twice: what can be used both times, and how long that is kept at least.

    None of `kept_ns` says that no limit is known: the other one holds.
    """
    less = min(figure, again, key=lambda f: f.size_bytes or 0)
    kept = [f.kept_ns for f in (figure, again) if f.kept_ns is not None]
    return replace(less, kept_ns=min(kept, default=None))


def with_usable(figure: CacheFigure, usable: int) -> CacheFigure:
    """Return the figure of the last cache with what can be used of it: fewer ways, as its sets are all there."""
    whole = figure.reported_bytes
    assert whole is not None, "only a cache that the system reports is read"
    if usable >= whole:
        return replace(figure, said="as reported, and read like a cache")
    ways = None if figure.ways is None else max(1, figure.ways * usable // whole)
    said = f"{bytes_text(whole)} reported, of which {bytes_text(usable)} are read like a cache"
    return replace(figure, size_bytes=usable, ways=ways, said=said)


# One core reads memory at a half to a third of the speed of a last cache; nearer ones nothing tells apart.
SLOWER = 1.5
WAITS_NS = tuple(31_250 << n for n in range(11))  # up to 32 ms: few kernels come back to a cache so late

SAMPLER = """\
typedef void timed(unsigned char *const *data, const int64_t *numbers, int64_t trips);

static int64_t now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* The last of the numbers says how long nothing is touched before a sample. */
void sample(timed *f, unsigned char *const *data, const int64_t *numbers, int64_t trips, int64_t count,
            int64_t *ns) {
  const int64_t one_block[1] = {1};
  for (int64_t n = 0; n < count; ++n) {
    f(data, numbers, 2);
    int64_t start = now();
    while (now() - start < numbers[1]) f(data, one_block, 1);  /* wide units fall asleep, and wake slowly */
    start = now();
    f(data, numbers, trips);
    ns[n] = now() - start;
  }
}
"""


def kept_streams(machine: Machine, ways: Sequence[Stream]) -> tuple[Stream, ...]:
    """Return the reads of caches that others may share: all but the nearest."""
    shared = caches_from_nearest(machine)[1:]
    return tuple(stream for stream in ways if stream.access == "read" and stream.memory in shared)


def kept_calls(streams: Sequence[Stream], library: int) -> list[Timed]:
    """Return the calls of each stream, with nothing to wait for and after each time."""
    calls: list[Timed] = []
    for number, stream in enumerate(streams):
        once = stream.timed(library, number)
        for wait_ns in (0, *WAITS_NS):
            # What takes a nanosecond at least is one trip: a second one would find everything near.
            numbers = (*once.numbers, wait_ns)
            calls.append(Timed(library, once.function, once.data, numbers, once.per_trip, 1))
    return calls


def kept_ns(
    stream: Stream, results: Sequence[Spread | str], machine: Machine, bandwidths: Sequence[BandwidthFigure]
) -> int | None:
    """For how long a cache keeps most of a buffer; None where it outlasts all waits, where nothing was
    measured, or where the next memory is hardly slower, so that nothing tells them apart.

    `results` are those of `kept_calls` for the stream. A buffer is lost that takes more than the geometric
    mean of what it takes at once and what the next memory takes; one lost at once is kept while it is read.
    Lines go one by one, and by that time half of them may be gone: half of the longest wait counts.
    """
    behind = _behind(stream.memory, machine, bandwidths)
    took = [r for r in results if isinstance(r, Spread)]
    if behind is None or len(took) < 1 + len(WAITS_NS) or behind < SLOWER * took[0].middle:
        return None
    # Not the middle of what was waited for: others are not always as quiet as half of the time.
    near_ns, waited = took[0].middle, [spread.high for spread in took[1:]]
    lost_ns = sqrt(near_ns * behind)
    lost = [took_ns > lost_ns for took_ns in waited]
    # One slow wait between two others is chance; the last one has none behind it.
    first = next((n for n, pair in enumerate(zip(lost, [*lost[1:], True], strict=True)) if all(pair)), None)
    if first is None:
        return None
    kept = WAITS_NS[first - 1] // 2 if first else 0
    return kept + int(near_ns * stream.size_bytes)  # a byte is not touched while the others are read


def _behind(memory: str, machine: Machine, bandwidths: Sequence[BandwidthFigure]) -> float | None:
    """Return the time of a byte from the memory behind a cache; None where it was not measured. Units: ns."""
    caches = caches_from_nearest(machine)
    read = {b.memory: b.ns_per_byte.middle for b in bandwidths if b.access == "read"}
    farther = [*caches[caches.index(memory) + 1 :], *(name for name in read if name not in caches)]
    return next((read[name] for name in farther if name in read), None)
