"""Prefetches of rows that stream through from memory: where they stand, and where there are none."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from unit.rewriting import shipped

from isamap.ir import bind
from isamap.machine import line_hints, load_machine
from isamap.plan.build import build_problem
from isamap.plan.schedule import NestSchedule
from isamap.plan.text import print_nest
from isamap.scheduler import schedule
from isamap.transform import make_guards_explicit

SKINNY = {"M": 4, "N": 7680, "K": 2560}


def found(
    name: str,
    machine: str = "x86-avx512-bf16",
    sizes: Mapping[str, int] = SKINNY,
    heuristic: str = "greedy",
) -> NestSchedule:
    """The schedule of the kernel's sum."""
    asked = {**SKINNY, **sizes}
    problem = build_problem(make_guards_explicit(bind(shipped(name), asked)), load_machine(machine), asked)
    return schedule(problem, heuristic=heuristic).nests[-1]


@pytest.mark.parametrize("name", ["gemm_nt_bf16", "gemm_nt_f32"])
def test_rows_of_weights_out_of_memory_are_asked_for_a_turn_early(name: str) -> None:
    nest = found(name)
    (prefetch,) = nest.prefetches
    assert (prefetch.operand, prefetch.depth, prefetch.ahead, prefetch.cache) == ("b", nest.hold, 1, "l1")
    assert nest.loops[nest.hold - 1].axis == "n"
    assert "prefetch b ahead 1 into l1;" in print_nest(nest)


@pytest.mark.parametrize(
    ("name", "sizes"),
    [
        ("gemm_nt_bf16", {"N": 1024, "K": 1024}),  # fits into a cache
        ("gemm_nt_bf16", {"M": 512}),  # takes longer to compute than to read
        ("gemm_nt_f32", {"M": 1, "K": 40960}),  # two turns read more than fits
    ],
    ids=["in a cache", "much to compute", "too much at once"],
)
def test_what_comes_from_caches_or_hides_behind_sums_is_not_asked_for(
    name: str, sizes: dict[str, int]
) -> None:
    assert found(name, sizes=sizes).prefetches == ()


@pytest.mark.parametrize("name", ["gemm_bf16", "gemm_f32"])
def test_pieces_of_rows_are_asked_for_where_they_are_summed_as_far_ahead_as_memory_is(name: str) -> None:
    nest = found(name, heuristic="cpsat")
    (prefetch,) = nest.prefetches
    loop = nest.loops[prefetch.depth - 1]
    assert (prefetch.operand, prefetch.cache, loop.axis) == ("b", "l2", "k")
    assert prefetch.depth > nest.hold
    columns = next(loop.step for loop in reversed(nest.loops[: nest.hold]) if loop.axis == "n")
    turn_bytes = loop.step * columns * (2 if name == "gemm_bf16" else 4)
    assert prefetch.ahead == -(-8192 // turn_bytes)  # as the description says


def test_a_machine_without_hints_asks_for_nothing(tmp_path: Path) -> None:
    hints = [hint.item.instruction.name for hint in line_hints(load_machine("x86-avx512-bf16")).values()]
    assert hints
    text = f"isamap: 1\nname: m\nsummary: s\nextends: x86-avx512-bf16\nremove: [{', '.join(hints)}]\n"
    (tmp_path / "m.yaml").write_text(text)
    assert found("gemm_nt_bf16", str(tmp_path / "m.yaml")).prefetches == ()
