"""How long caches keep untouched lines: from readings to figures, profiles, machines and problems."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from isamap.formulate.build import build_problem
from isamap.ir import bind
from isamap.kernels import kernel_path
from isamap.machine import load_machine
from isamap.machine.processor import this_cpu
from isamap.source import Source
from isamap.source.numbers import Spread
from isamap.syntax import parse_kernel
from isamap.tune.bandwidth import streams
from isamap.tune.calibrate import WAITS_NS, kept_calls, kept_ns, kept_streams
from isamap.tune.measured_parameters import BandwidthFigure, CacheFigure
from isamap.tune.overlay import lay_over
from isamap.tune.profile import Profile, parse_profile, print_profile

MACHINE = load_machine("x86-avx512")
STREAMS = kept_streams(MACHINE, streams(MACHINE))
L2, L3 = STREAMS
READ = {"l1": 0.005, "l2": 0.01, "l3": 0.04, "mem": 0.16}  # ns a byte


def spread(took: float) -> Spread:
    return Spread(took, took, took, took, 1)


BANDWIDTHS = tuple(
    BandwidthFigure(name, access, "load", 1 << 20, spread(took * (1 if access == "read" else 9)))
    for name, took in READ.items()
    for access in ("write", "read")
)


def found(took: Sequence[float | str]) -> int | None:
    """Return the figure of the last cache, of what a byte took at once and after each wait."""
    results = [t if isinstance(t, str) else spread(t) for t in took]
    return kept_ns(L3, results, MACHINE, BANDWIDTHS)


def test_all_caches_but_the_nearest_are_read_after_each_wait() -> None:
    assert [(s.memory, s.access) for s in STREAMS] == [("l2", "read"), ("l3", "read")]
    calls = kept_calls(STREAMS, 3)
    assert [c.numbers[-1] for c in calls] == 2 * [0, *WAITS_NS]
    assert {(c.library, c.function) for c in calls} == {(3, "stream_0"), (3, "stream_1")}
    assert {c.numbers[0] * c.per_trip // c.numbers[0] for c in calls} == {s.size_bytes for s in STREAMS}


def test_a_buffer_is_kept_until_it_takes_more_than_half_way_to_memory() -> None:
    read_ns = int(0.04 * L3.size_bytes)
    for lost_from in (1, 5, len(WAITS_NS) - 1):
        took = [0.04] * (1 + lost_from) + [0.081] * (len(WAITS_NS) - lost_from)
        assert found(took) == WAITS_NS[lost_from - 1] // 2 + read_ns
    assert found([0.04] + [0.079] * len(WAITS_NS)) is None, "it outlasts all waits"


def test_what_is_lost_at_once_is_kept_while_it_is_read() -> None:
    assert found([0.04] + [0.16] * len(WAITS_NS)) == int(0.04 * L3.size_bytes)


def test_one_slow_reading_between_others_is_chance_and_two_are_not() -> None:
    waited = [0.04] * len(WAITS_NS)
    waited[1] = 0.16
    assert found([0.04, *waited]) is None
    waited[2] = 0.16
    assert found([0.04, *waited]) == WAITS_NS[0] // 2 + int(0.04 * L3.size_bytes)


def test_where_the_next_memory_is_hardly_slower_nothing_is_said() -> None:
    near = [spread(0.15)] + [spread(0.16)] * len(WAITS_NS)
    assert kept_ns(L3, near, MACHINE, BANDWIDTHS) is None


def test_without_readings_nothing_is_said() -> None:
    assert found([0.04, 0.04]) is None
    assert found([0.04, "crashed"] + [0.04] * (len(WAITS_NS) - 1)) is None
    assert kept_ns(L3, [spread(0.04)] * (1 + len(WAITS_NS)), MACHINE, BANDWIDTHS[:6]) is None, "no memory"


def test_the_second_cache_is_compared_with_the_third() -> None:
    took = [spread(t) for t in (0.01, *[0.021] * len(WAITS_NS))]
    assert kept_ns(L2, took, MACHINE, BANDWIDTHS) == int(0.01 * L2.size_bytes)


@pytest.mark.parametrize("kept", [None, 1_500_000])
def test_the_figure_goes_through_profiles_into_problems(kept: int | None) -> None:
    when = "2026-11-22T12:00:00+00:00"
    cache = CacheFigure("l3", 8 << 20, 4, 64, 48 << 20, "as reported", kept)
    profile = Profile(MACHINE.name, MACHINE.digest, this_cpu(), "gcc 12", when, (), caches=(cache,))
    text = print_profile(profile)
    assert ("kept_ns" in text) == (kept is not None), "a profile from before keeps its digest"
    assert parse_profile(Source("p", text)) == profile
    path, sizes = kernel_path("gemm_f32"), {"M": 64, "N": 64, "K": 64}
    kernel = bind(parse_kernel(Source(path.name, path.read_text())), sizes)
    caches = build_problem(kernel, lay_over(MACHINE, profile), dict(sizes)).caches
    assert [c.kept_ns for c in caches] == [0, 0, kept or 0]
