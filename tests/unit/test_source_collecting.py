"""A full search for cycles waits until a shape is done, and comes then if it is due."""

from __future__ import annotations

import gc
from collections.abc import Generator
from typing import Any

import pytest

from isamap.driver.api import source_of
from isamap.driver.pipeline import compile_kernel
from isamap.driver.request import Request
from isamap.source.process import YOUNG, full_collection_put_off

BEFORE = (700, 10, 10)


@pytest.fixture(autouse=True)
def thresholds() -> Generator[None, None, None]:
    """Python's own, and whatever the tests run under again afterwards."""
    own = gc.get_threshold()
    gc.set_threshold(*BEFORE)
    yield
    gc.set_threshold(*own)


@pytest.fixture
def searched() -> Generator[list[int], None, None]:
    """Yield the generations that are searched, as they are."""
    found: list[int] = []

    def note(phase: str, info: dict[str, Any]) -> None:
        if phase == "start":
            found.append(info["generation"])

    gc.callbacks.append(note)
    yield found
    gc.callbacks.remove(note)


def test_only_new_objects_are_searched_inside(searched: list[int]) -> None:
    gc.set_threshold(10, 1, 1)  # without more ado a full search comes within some hundred objects
    with full_collection_put_off():
        searched.clear()
        kept: list[list[int]] = [[] for _ in range(8 * YOUNG)]
        inside = set(searched)
    assert kept
    assert inside == {0, 1}


def test_what_is_in_cycles_is_freed_inside() -> None:
    gc.collect()
    with full_collection_put_off():
        for _ in range(2 * YOUNG):
            own: list[object] = []
            own.append(own)
        alive = len(gc.get_objects(generation=0))
    assert alive < 1.5 * YOUNG


def test_a_search_that_is_due_comes_behind_it(searched: list[int]) -> None:
    with full_collection_put_off():
        searched.clear()
        kept: list[list[int]] = [[] for _ in range(YOUNG // 2)]
        assert searched == []
    kept += [[] for _ in range(10)]
    assert searched


def test_afterwards_it_is_as_before() -> None:
    with full_collection_put_off():
        assert gc.get_threshold() != BEFORE
    assert gc.get_threshold() == BEFORE


def test_it_is_as_before_after_an_error() -> None:
    with pytest.raises(ValueError, match="no"), full_collection_put_off():
        raise ValueError("no")
    assert gc.get_threshold() == BEFORE


def test_inside_another_one_it_changes_nothing() -> None:
    with full_collection_put_off():
        outer = gc.get_threshold()
        with full_collection_put_off():
            assert gc.get_threshold() == outer
        assert gc.get_threshold() == outer


@pytest.mark.parametrize("own", [(0, 10, 10), (2 * YOUNG, 10, 10)])
def test_a_caller_that_searches_seldom_or_never_goes_on_so(own: tuple[int, int, int]) -> None:
    gc.set_threshold(*own)
    with full_collection_put_off():
        assert gc.get_threshold() == own


def test_a_compilation_is_one_shape() -> None:
    sizes = {"M": 64, "N": 64, "K": 64}
    gc.set_threshold(10, 1, 1)
    seen: list[tuple[str, int]] = []

    def watch(stage: str) -> None:
        seen.append((stage, gc.get_threshold()[0]))

    compile_kernel(
        Request(source_of("gemm_f32"), "x86-avx2", sizes, heuristic="greedy", cache=False), watch=watch
    )
    assert {stage for stage, _ in seen} >= {
        "parse",
        "match",
        "formulate",
        "schedule",
        "check",
        "lower",
        "emit",
    }
    assert {most for _, most in seen} == {YOUNG}
    assert gc.get_threshold() == (10, 1, 1)
