"""Caches as the system reports them, as far as they are usable, in profiles and over machines."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from isamap.cli import main
from isamap.formulate.build import build_problem
from isamap.ir import bind
from isamap.kernels import kernel_path
from isamap.machine import load_machine
from isamap.machine.processor import SystemCache, this_cpu
from isamap.source import Source
from isamap.syntax import parse_kernel
from isamap.tune.bandwidth import MOST_BYTES, streams
from isamap.tune.calibrate import (
    FILLED,
    MISSED,
    least_of,
    parts,
    probes,
    reported_caches,
    usable_bytes,
    with_usable,
)
from isamap.tune.measured_parameters import CacheFigure
from isamap.tune.overlay import lay_over, warnings, with_caches
from isamap.tune.profile import Profile, parse_profile, print_profile
from isamap.tune.store import keep_profile

MACHINE = load_machine("x86-avx512")
MIB = 1 << 20
SYSTEM = (SystemCache(48 << 10, 12, 64), SystemCache(5 * MIB // 4, 20, 64), SystemCache(48 * MIB, 12, 128))
L1, L2, L3 = reported_caches(MACHINE, SYSTEM)


def profile(*caches: CacheFigure) -> Profile:
    when = "2026-11-21T12:00:00+00:00"
    return Profile(MACHINE.name, MACHINE.digest, this_cpu(), "gcc 12", when, (), caches=caches)


def test_caches_of_a_description_are_the_systems_in_order() -> None:
    assert CacheFigure("l1", 48 << 10, 12, 64, 48 << 10, "as reported") == L1
    assert [(c.memory, c.size_bytes, c.line_bytes) for c in (L2, L3)] == [
        ("l2", 5 * MIB // 4, 64),
        ("l3", 48 * MIB, 128),
    ]


def test_of_caches_that_the_system_does_not_report_the_profile_says_so() -> None:
    figures = reported_caches(MACHINE, SYSTEM[:1])
    said = "the system reports no such cache; as stated"
    assert figures[0] == L1
    assert figures[1:] == tuple(CacheFigure(name, None, None, None, None, said) for name in ("l2", "l3"))
    assert with_caches(MACHINE, figures).memories["l3"] == MACHINE.memories["l3"]
    assert with_caches(MACHINE, reported_caches(MACHINE, ())).memories == MACHINE.memories


def test_a_system_with_more_caches_than_the_description_is_no_trouble() -> None:
    more = (*SYSTEM, SystemCache(256 * MIB, 16, 64))
    assert reported_caches(MACHINE, more) == (L1, L2, L3)
    assert probes(MACHINE, more) == ()


def test_parts_are_whole_ways_that_the_cache_before_does_not_hold() -> None:
    assert [size // MIB for size in parts(SYSTEM)] == [4, 8, 12, 16, 24, 36, 48]
    unknown = (*SYSTEM[:2], SystemCache(48 * MIB, None, 64))
    assert [size // MIB for size in parts(unknown)] == [6, 9, 12, 18, 27, 36, 48]
    assert parts(SYSTEM[:1]) == ()
    assert parts((SYSTEM[1], SYSTEM[1])) == (), "no larger than twice the one before"


def test_the_first_probe_lies_just_behind_the_cache_before() -> None:
    found = probes(MACHINE, SYSTEM)
    assert {(stream.memory, stream.access) for stream in found} == {("l3", "read")}
    assert [stream.size_bytes for stream in found] == [5 * MIB // 2, *(FILLED * s for s in parts(SYSTEM))]


@pytest.mark.parametrize(
    ("slow_from", "usable"), [(99, 48 * MIB), (6, 36 * MIB), (2, 8 * MIB), (1, 4 * MIB), (0, 5 * MIB // 2)]
)
def test_a_cache_is_usable_up_to_the_first_part_that_is_read_slowly(slow_from: int, usable: int) -> None:
    took = [0.03 * (1.05 * MISSED if n >= slow_from else 0.95 * MISSED) for n in range(7)]
    assert usable_bytes(SYSTEM, [0.03, *took]) == usable


def test_a_probe_that_was_disturbed_hides_nothing_of_the_cache() -> None:
    took = [0.03, 0.03, 0.09, 0.03, 0.05, 0.09, 0.09]
    assert usable_bytes(SYSTEM, [0.03, *took]) == 16 * MIB
    assert usable_bytes(SYSTEM, [0.06, *took]) == 16 * MIB, "nor does it where it is the first"


# Per size in MiB, GB/s in sequence: the guest of the module's docstring; Emerald Rapids (300 MiB in 15 ways,
# the sizes in between drawn straight); and no knee at all.
CURVES = {
    "ice lake": (SYSTEM, {2.5: 32.5, 3: 31.9, 6: 31.3, 9: 24.0, 12: 14.1, 18: 11.4, 27: 11.5, 36: 11.4}, 8),
    "emerald rapids": (
        (*SYSTEM[:2], SystemCache(300 * MIB, 15, 64)),
        {2.5: 32, 15: 32, 30: 31, 45: 32, 60: 31, 90: 30.5, 120: 29.7, 165: 25.5, 225: 22.5},
        160,
    ),
    "a slope": (SYSTEM, {2.5: 32, 3: 31, 6: 30, 9: 29, 12: 28.2, 18: 27, 27: 26, 36: 25}, 16),
}


@pytest.mark.parametrize("name", CURVES)
@pytest.mark.parametrize("seed", range(20))
def test_the_knee_is_found_on_a_noisy_host(name: str, seed: int) -> None:
    """Each turn of the probes may be slow as a whole, and each probe in it by itself."""
    system, curve, usable = CURVES[name]
    rng, speeds = Random(seed), list(curve.values())
    assert [FILLED * size / MIB for size in parts(system)] == list(curve)[1:]
    turns = [
        [slow * (1 + 0.03 * rng.random()) * rng.choice((1, 1, 1, 3)) / speed for speed in speeds]
        for slow in [2.0] * 8 + [1.0] * 10 + [1.7] * 6
    ]
    assert usable_bytes(system, [min(times) for times in zip(*turns, strict=True)]) == usable * MIB


def test_what_can_be_used_of_a_cache_has_fewer_ways() -> None:
    share = with_usable(L3, 12 * MIB)
    assert share == CacheFigure("l3", 12 * MIB, 3, 128, 48 * MIB, share.said)
    assert share.said == "48 MiB reported, of which 12 MiB are read like a cache"
    whole = with_usable(L3, 48 * MIB)
    assert replace(whole, said=L3.said) == L3
    assert whole.said == "as reported, and read like a cache"
    assert with_usable(L3, 5 * MIB // 2).ways == 1


def test_of_a_cache_that_is_found_twice_the_worse_counts() -> None:
    lucky, busy = with_usable(L3, 24 * MIB), with_usable(L3, 12 * MIB)
    assert least_of(lucky, busy) == least_of(busy, lucky) == busy
    for first, then, kept in ((None, None, None), (None, 1000, 1000), (2000, 1000, 1000), (2000, None, 2000)):
        found = least_of(replace(lucky, kept_ns=first), replace(busy, kept_ns=then))
        assert found == replace(busy, kept_ns=kept)
    unknown = reported_caches(MACHINE, ())[1]
    assert least_of(unknown, unknown) == unknown


def test_measured_caches_reach_the_problem() -> None:
    path, sizes = kernel_path("gemm_f32"), {"M": 64, "N": 64, "K": 64}
    kernel = bind(parse_kernel(Source(path.name, path.read_text())), sizes)
    laid = lay_over(MACHINE, profile(L1, L2, with_usable(L3, 12 * MIB)))
    problem = build_problem(kernel, laid, dict(sizes))
    assert [(c.capacity_bytes, c.ways, c.line_bytes) for c in problem.caches] == [
        (48 << 10, 12, 64),
        (5 * MIB // 4, 20, 64),
        (12 * MIB, 3, 128),
    ]


def test_ways_that_are_not_reported_stay_as_stated() -> None:
    laid = with_caches(MACHINE, (replace(L1, ways=None, line_bytes=None),))
    stated, found = (dict(m.memories["l1"].decl.attributes) for m in (MACHINE, laid))
    assert found["ways"] == stated["ways"]
    assert found["line_bytes"] == stated["line_bytes"]
    assert laid.memories["l1"].capacity_bytes == 48 << 10


def test_buffers_take_half_of_each_cache_and_more_than_the_last_one_may_hold() -> None:
    laid = with_caches(MACHINE, (L1, L2, with_usable(L3, 12 * MIB)))
    sizes = {s.memory: s.size_bytes for s in streams(laid, 24 * MIB)}
    assert sizes == {"l1": 24 << 10, "l2": 5 * MIB // 8, "l3": 6 * MIB, "mem": 96 * MIB}
    assert {s.memory: s.size_bytes for s in streams(laid, 48 * MIB)}["mem"] == MOST_BYTES
    huge = with_caches(MACHINE, (L1, L2, replace(L3, size_bytes=400 * MIB)))
    sizes = {s.memory: s.size_bytes for s in streams(huge)}
    assert sizes["l3"] == MOST_BYTES
    assert "mem" not in sizes, "a buffer of that size is partly in the cache"


def test_a_profile_keeps_its_caches() -> None:
    made = profile(L1, with_usable(L3, 12 * MIB), reported_caches(MACHINE, ())[1])
    assert parse_profile(Source("p", print_profile(made))) == made


def test_a_profile_from_before_there_were_caches_is_read_with_its_digest() -> None:
    text = print_profile(profile())
    assert "caches" not in text
    again = parse_profile(Source("p", text))
    assert again.caches == ()
    assert f'"sha256": "{again.digest}"' in text
    assert lay_over(MACHINE, again).memories == MACHINE.memories


def test_a_capacity_far_from_the_stated_one_is_warned_about() -> None:
    (found,) = warnings(MACHINE, profile(L1, L2, with_usable(L3, 12 * MIB)))
    assert found.code == "cost-differs"
    assert found.message == "l3 capacity: 32 MiB stated, 12 MiB measured, 2.7 times apart on this processor"
    assert warnings(MACHINE, profile(L1, L2, with_usable(L3, 24 * MIB))) == ()


def test_what_is_shown_has_the_measured_capacities_beside_the_stated_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ISAMAP_DATA_DIR", str(tmp_path / "data"))
    assert main(["hw", "show", MACHINE.name]) == 0
    assert "bytes measured" not in capsys.readouterr().out
    keep_profile(profile(L1, L2, L3))
    assert main(["hw", "show", MACHINE.name]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["l2", "cache", "1048576", "bytes", "1310720", "bytes", "measured"] in lines
    assert main(["hw", "show", MACHINE.name, "--json"]) == 0
    memories = {m["name"]: m for m in json.loads(capsys.readouterr().out)["memories"]}
    assert memories["l2"]["measured_capacity_bytes"] == 1310720
    assert memories["l2"]["capacity_bytes"] == 1048576
    assert "measured_capacity_bytes" not in memories["mem"]
