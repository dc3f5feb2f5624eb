"""Which buffers are read and written to measure bandwidths, and which of two ways to read is believed."""

from __future__ import annotations

from isamap.machine import caches_from_nearest, load_machine
from isamap.source.numbers import Spread
from isamap.tune.bandwidth import UNROLLED, bandwidth_figures, move_bytes, stream_source, streams

MACHINE = load_machine("x86-avx512")


def spread(ns: float) -> Spread:
    return Spread(ns, ns, ns, ns, 9)


def test_memory_alone_is_read_in_several_streams_as_well() -> None:
    ways = streams(MACHINE)
    (parted,) = [way for way in ways if way.is_parted]
    assert (parted.access, parted.memory in caches_from_nearest(MACHINE)) == ("read", False)
    assert any((w.memory, w.access) == (parted.memory, "read") and not w.is_parted for w in ways)


def test_every_byte_of_a_buffer_is_read_once_in_parts() -> None:
    (parted,) = [way for way in streams(MACHINE) if way.is_parted]
    move = move_bytes(parted.load)
    blocks = parted.timed(0, 0).numbers[0]
    touched = {n * parted.apart_bytes + block * move for n in range(UNROLLED) for block in range(blocks)}
    assert touched == set(range(0, parted.size_bytes, move))
    text = stream_source(MACHINE, (parted,))
    for n in range(1, UNROLLED):
        assert f"mem + {n * parted.apart_bytes // 4}" in text


def test_the_faster_way_to_read_memory_is_what_it_gives_and_one_that_failed_is_none() -> None:
    ways = [way for way in streams(MACHINE) if way.access == "read" and way.memory == "mem"]
    assert [way.is_parted for way in ways] == [False, True]
    for results in ([spread(0.05), spread(0.04)], [spread(0.04), spread(0.05)], ["crashed", spread(0.04)]):
        (figure,) = bandwidth_figures(ways, results)
        assert (figure.memory, figure.access, figure.ns_per_byte.least) == ("mem", "read", 0.04)
    assert bandwidth_figures(ways, ["crashed", "crashed"]) == ()
