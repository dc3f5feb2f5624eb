"""What the operating system says of caches, read from folders like those of Linux."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from isamap.bench.campaign import caches_bytes
from isamap.machine.processor import SystemCache, system_caches

WAYS, LINE = "ways_of_associativity", "coherency_line_size"
FIRST = {"level": "1", "type": "Data", "size": "48K", WAYS: "12", LINE: "64"}
THIRD = {"level": "3", "type": "Unified", "size": "48M", WAYS: "16", LINE: "64"}


@pytest.fixture(autouse=True)
def on_the_fourth_core(monkeypatch: pytest.MonkeyPatch) -> None:
    def cores(_: int) -> set[int]:
        return {5, 3}

    monkeypatch.setattr(os, "sched_getaffinity", cores, raising=False)


def tell(cpus: Path, number: int, facts: Mapping[str, str], core: int = 3) -> None:
    folder = cpus / f"cpu{core}" / "cache" / f"index{number}"
    folder.mkdir(parents=True)
    for name, text in facts.items():
        (folder / name).write_text(f"{text}\n")


def test_caches_of_data_come_from_the_nearest_with_sizes_in_bytes(tmp_path: Path) -> None:
    tell(tmp_path, 0, THIRD)
    tell(tmp_path, 1, FIRST | {"type": "Instruction", "size": "32K"})
    tell(tmp_path, 2, FIRST)
    tell(tmp_path, 3, FIRST | {"level": "2", "type": "Unified", "size": "1280K"})
    found = system_caches(tmp_path)
    assert found == (
        SystemCache(48 << 10, 12, 64),
        SystemCache(1280 << 10, 12, 64),
        SystemCache(48 << 20, 16, 64),
    )


def test_the_first_core_that_the_process_may_use_is_asked(tmp_path: Path) -> None:
    tell(tmp_path, 0, FIRST | {"size": "32K"}, core=0)
    tell(tmp_path, 0, FIRST, core=3)
    assert [cache.size_bytes for cache in system_caches(tmp_path)] == [48 << 10]


@pytest.mark.parametrize(
    ("facts", "found"),
    [
        ({"level": "1", "type": "Data", "size": "48K"}, (SystemCache(48 << 10, None, None),)),
        (FIRST | {WAYS: "0"}, (SystemCache(48 << 10, None, 64),)),
        ({"level": "1", "type": "Data"}, ()),
        (FIRST | {"size": "0K"}, ()),
        (FIRST | {"size": "unknown"}, ()),
    ],
)
def test_what_is_not_reported_is_not_known(
    tmp_path: Path, facts: Mapping[str, str], found: tuple[SystemCache, ...]
) -> None:
    tell(tmp_path, 0, facts)
    assert system_caches(tmp_path) == found


def test_a_system_without_such_folders_says_nothing(tmp_path: Path) -> None:
    assert system_caches(tmp_path / "none") == ()


def test_benchmarks_sum_up_the_same_caches(monkeypatch: pytest.MonkeyPatch) -> None:
    said = (SystemCache(1000, 2, 64), SystemCache(20000, 2, 64))
    monkeypatch.setattr("isamap.bench.campaign.system_caches", lambda: said)
    assert caches_bytes() == 21000
