"""How long caches keep lines that are not touched, where other programs share them.

A guest of a large machine shares its last cache with strangers, and maybe its core. A buffer that is read
over and over stays near; one that a schedule comes back to after a few milliseconds of computing is gone. So
it is read, then nothing is touched for a while, then it is read again by the clock. 8 MiB in the last cache
of a guest with two cores of thirty-two,

    0     0.3   1     3     10    ms after they were read, are read again at
    30    30    24    13    11    bytes per ns, of which the last is what memory gives.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt

from isamap.codegen.clocking import Timed
from isamap.codegen.spread import Spread
from isamap.machine import Machine, caches_from_nearest
from isamap.tune.bandwidth import Stream
from isamap.tune.figures import BandwidthFigure

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
    """The reads of caches that others may share: all but the nearest."""
    shared = caches_from_nearest(machine)[1:]
    return tuple(stream for stream in ways if stream.access == "read" and stream.memory in shared)


def kept_calls(streams: Sequence[Stream], library: int) -> list[Timed]:
    """The calls of each stream, with nothing to wait for and after each time."""
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
    """What a byte takes out of the memory behind a cache: None where it was not measured. Units: ns."""
    caches = caches_from_nearest(machine)
    read = {b.memory: b.ns_per_byte.middle for b in bandwidths if b.access == "read"}
    farther = [*caches[caches.index(memory) + 1 :], *(name for name in read if name not in caches)]
    return next((read[name] for name in farther if name in read), None)
