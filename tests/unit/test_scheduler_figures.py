"""What a description says of rows, streams, pages and loops: each figure changes the price it is about."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from plan_problems import gemm, opened
from unit.rewriting import shipped

from isamap.formulate.build import build_problem
from isamap.formulate.hierarchy import Memories
from isamap.ir import bind
from isamap.machine import load_machine
from isamap.machine.timings import MODEL, NO_LOOPS, NO_ROWS, NO_TLB, ModelFigures, RowTimes, StreamTimes, Tlb
from isamap.plan.cost import evaluate
from isamap.plan.problem import Problem, with_fields
from isamap.scheduler import schedule
from isamap.scheduler.deciding.space import Space
from isamap.scheduler.effects.table import AnalyticModel
from isamap.scheduler.search.greedy import first_assignment

STREAMS = StreamTimes(0.6, 1.8, 1.1, 60.0, 1.0, 512, 8192)
NEAR, MIDDLE, FAR = gemm(128, 128, 128), gemm(1024, 1024, 1024), gemm(4096, 4096, 4096)
TALL = gemm(4096, 1024, 1024)


def streaming(dense: str = "n") -> Problem:
    """Return a product of four rows, whose weights come from memory and may be asked for early."""
    problem = replace(gemm(4, 7680, 2560), memory_streams=STREAMS)
    (option,) = problem.nests[0].options
    a, b, c = option.operands
    hints = (("l1", 0.01), ("l2", 0.01))
    b = with_fields(b, is_streamed=True, hints=hints, ahead_bytes=STREAMS.ahead_bytes, dense_axis=dense)
    return replace(
        problem, nests=(replace(problem.nests[0], options=(replace(option, operands=(a, b, c)),)),)
    )


def price_ns(problem: Problem, **decisions: int) -> float:
    """Return the price of blocks of 4 x 16 with other decisions as they are first tried, but for these."""
    (option,) = problem.nests[0].options
    made = first_assignment(Space(0, option, dict(problem.registers), {}), {"m": 4, "n": 1})
    assert made is not None
    expected = {f"nest0.{name.replace('_', '.')}": value for name, value in decisions.items()}
    assert expected.keys() <= made.keys()
    return float(
        evaluate(AnalyticModel().expression(problem, problem.nests[0], option), {**made, **expected})
    )


def cache_rows(problem: Problem, number: int, **figures: float) -> Problem:
    caches = list(problem.caches)
    caches[number] = replace(caches[number], rows=replace(caches[number].rows, **figures))
    return replace(problem, caches=tuple(caches))


def memory_rows(problem: Problem, **figures: float) -> Problem:
    return replace(problem, memory_rows=replace(problem.memory_rows, **figures))


def loops(problem: Problem, **figures: float) -> Problem:
    return replace(problem, loops=replace(problem.loops, **figures))


def streams(problem: Problem, **figures: float) -> Problem:
    return replace(problem, memory_streams=replace(STREAMS, **figures))


def model(problem: Problem, **figures: float) -> Problem:
    return replace(problem, model=replace(problem.model, **figures))


def usable(problem: Problem, factor: float) -> Problem:
    caches = tuple(replace(cache, usable_factor=factor) for cache in problem.caches)
    return replace(problem, caches=caches)


Change = Callable[[Problem], Problem]
IN_PLACE = {"stage_a": 0, "stage_b": 0}
SOME_MORE_NS: dict[str, tuple[Problem, dict[str, int], Change]] = {
    "row out of l2": (NEAR, IN_PLACE, lambda p: cache_rows(p, 1, start_ns=1.4)),
    "row out of l3": (MIDDLE, IN_PLACE, lambda p: cache_rows(p, 2, start_ns=4.0)),
    "row out of memory": (FAR, IN_PLACE | {"unroll_n": 8}, lambda p: memory_rows(p, start_ns=10.0)),
    "computing beside rows": (
        MIDDLE,
        IN_PLACE,
        lambda p: cache_rows(p, 2, start_ns=2.0, computing_factor=2.0),
    ),
    "traffic beside computing": (
        cache_rows(MIDDLE, 2, computing_factor=2.0, traffic_factor=0.5),
        IN_PLACE,
        lambda p: cache_rows(p, 2, traffic_factor=1.0),
    ),
    "short row": (FAR, IN_PLACE | {"unroll_n": 1}, lambda p: memory_rows(p, short_start_ns=40.0)),
    "longer short rows": (FAR, IN_PLACE | {"unroll_n": 3}, lambda p: memory_rows(p, short_bytes=256)),
    "fewer rows followed": (FAR, IN_PLACE, lambda p: memory_rows(p, followed_count=3)),
    "later lines": (FAR, IN_PLACE | {"unroll_m": 21}, lambda p: memory_rows(p, late_line_ns=3.0)),
    "row begun again": (
        TALL,
        {"stage_a": 0, "stage_b": 1, "block_n": 256, "order_m_n": 0},
        lambda p: cache_rows(p, 2, again_ns=24.0),
    ),
    "fewer pages": (gemm(64, 1024, 48), IN_PLACE, lambda p: replace(p, tlb=replace(p.tlb, count=32))),
    "smaller pages": (
        gemm(64, 128, 512),
        IN_PLACE,
        lambda p: replace(p, tlb=replace(p.tlb, page_bytes=512)),
    ),
    "page": (FAR, IN_PLACE, lambda p: replace(p, tlb=replace(p.tlb, miss_ns=1.0))),
    "turn": (NEAR, {}, lambda p: loops(p, turn_ns=0.2)),
    "address": (opened(gemm(32, 32, 64), "k"), IN_PLACE, lambda p: loops(p, address_ns=0.14)),
    "unrolled step": (NEAR, {"unroll_k": 2}, lambda p: loops(p, unrolled_ns=0.06)),
    "unrolled issue": (NEAR, {"unroll_k": 2}, lambda p: loops(p, unrolled_issue_ns=0.012)),
    "share of a copy": (NEAR, {"stage_b": 1, "ahead_b": 1}, lambda p: loops(p, share_ns=240.0)),
    "less of what should hide": (NEAR, {}, lambda p: model(p, leak_factor=0.2)),
    "less of what is fetched ahead": (FAR, IN_PLACE, lambda p: model(p, stream_leak_factor=0.12)),
    "less room in caches": (gemm(256, 256, 256), IN_PLACE, lambda p: usable(p, 0.25)),
    "traffic that streams": (
        streaming(),
        {"stage_b": 0, "prefetch_b": 0, "unroll_n": 8},
        lambda p: streams(p, traffic_factor=1.2),
    ),
    "computing beside it": (
        streaming(),
        {"stage_b": 0, "prefetch_b": 0, "unroll_n": 8},
        lambda p: streams(p, computing_factor=4.0),
    ),
    "computing with hints": (
        streaming(),
        {"stage_b": 0, "prefetch_b": 2},
        lambda p: streams(p, hinted_computing_factor=1.7),
    ),
    "row along a sum": (
        streaming("k"),
        {"stage_b": 0, "prefetch_b": 0},
        lambda p: streams(p, row_start_ns=120.0),
    ),
    "computing beside a row along a sum": (
        streaming("k"),
        {"stage_b": 0, "prefetch_b": 0},
        lambda p: streams(p, row_computing_factor=4.0),
    ),
    "computing beside a hinted row along a sum": (
        streaming("k"),
        {"stage_b": 0, "prefetch_b": 1, "block_n": 4},
        lambda p: streams(p, hinted_row_computing_factor=4.0),
    ),
    "hinted row along a sum": (
        streaming("k"),
        {"stage_b": 0, "prefetch_b": 1, "block_n": 4},
        lambda p: streams(p, hinted_row_start_ns=120.0),
    ),
    "long piece": (
        streaming(),
        {"stage_b": 0, "prefetch_b": 0, "unroll_n": 8},
        lambda p: streams(p, long_start_ns=60.0),
    ),
    "hinted piece": (
        streaming(),
        {"stage_b": 0, "prefetch_b": 2},
        lambda p: streams(p, hinted_start_ns=2.0),
    ),
    "longer pieces": (
        streaming(),
        {"stage_b": 0, "prefetch_b": 0, "unroll_n": 8},
        lambda p: streams(p, long_bytes=1024),
    ),
}


@pytest.mark.parametrize("name", SOME_MORE_NS)
def test_a_machine_that_states_more_has_a_higher_price(name: str) -> None:
    problem, decisions, dearer = SOME_MORE_NS[name]
    assert price_ns(dearer(problem), **decisions) > price_ns(problem, **decisions)


def test_a_machine_that_states_nothing_has_no_such_costs() -> None:
    plain = tuple(replace(cache, rows=NO_ROWS, line_bytes=0) for cache in FAR.caches)
    silent = replace(FAR, caches=plain, memory_rows=NO_ROWS, tlb=NO_TLB, loops=NO_LOOPS)
    (option,) = silent.nests[0].options
    all_, stated = ({s.name for s in AnalyticModel().shares(p, p.nests[0], option)} for p in (FAR, silent))
    assert all_ - stated == {"loops", "pages", "revisits", "results"}
    assert price_ns(silent, **IN_PLACE) < price_ns(FAR, **IN_PLACE)
    assert schedule(silent, heuristic="greedy").cost_ns is not None


# --- from descriptions ------------------------------------------------------------------------------------

SILENT = """isamap: 1
name: silent
summary: memory, a cache and nothing else
sources: {guess: a guess}
target: {toolchains: [gcc], flags: [-O2], run: model}
clock_ghz: 1
language: |
  memory mem: addressable();
  memory l1: cache(bytes = 32768);
  memory reg: registers(count = 16, bytes = 4, named = compiler);
memories: {mem: {source: guess}, l1: {source: guess}, reg: {c_types: {f32: float}, source: guess}}
links: [{from: mem, to: l1, bandwidth_bytes_per_ns: 10, source: guess}]
"""
MODEL_AGAIN = """isamap: 1
name: again
summary: the same parent with other figures of the model
extends: x86-avx2
sources: {here: measured here}
model: {leak_factor: 0.2, usable_factor: 0.5, near_ahead_count: 3, shared_ahead_count: 4, source: here}
"""
AGAIN = """isamap: 1
name: again
summary: the same parent with links and pages of its own
extends: x86-avx2
sources: {here: measured here}
links:
  - {from: mem, to: l3, bandwidth_bytes_per_ns: 40, source: here}
  - {from: l3, to: l2, bandwidth_bytes_per_ns: 90, source: here, rows: {start_ns: 3, source: here}}
tlb: {count: 96, page_bytes: 16384, miss_ns: 0.25, source: here}
"""


def test_what_nothing_is_stated_of_takes_nothing(tmp_path: Path) -> None:
    (tmp_path / "silent.yaml").write_text(SILENT)
    machine = load_machine(str(tmp_path / "silent.yaml"))
    memories = Memories.of(machine)
    assert (machine.tlb, machine.loops, memories.beyond_rows) == (NO_TLB, NO_LOOPS, NO_ROWS)
    assert memories.beyond_streams is None
    assert [(cache.rows, cache.line_bytes) for cache in memories.caches] == [(NO_ROWS, 0)]


def test_a_link_that_is_stated_again_keeps_what_it_does_not_state(tmp_path: Path) -> None:
    (tmp_path / "again.yaml").write_text(AGAIN)
    machine = load_machine(str(tmp_path / "again.yaml"))
    parent, memories = Memories.of(load_machine("x86-avx2")), Memories.of(machine)
    assert memories.beyond_bytes_per_ns == 40
    assert (memories.beyond_rows, memories.beyond_streams) == (parent.beyond_rows, parent.beyond_streams)
    assert memories.caches[2].rows == RowTimes(start_ns=3.0, source="here")
    assert memories.caches[1].rows == parent.caches[1].rows != NO_ROWS
    assert machine.tlb == Tlb(96, 16384, 0.25, "here")
    assert machine.loops == load_machine("generic-c").loops != NO_LOOPS


def test_keys_of_the_model_and_of_loops_replace_inherited_ones_one_by_one(tmp_path: Path) -> None:
    (tmp_path / "again.yaml").write_text(f"{MODEL_AGAIN}loops: {{address_ns: 5, source: here}}\n")
    grandchild = (
        "isamap: 1\nname: third\nsummary: a child of it\nextends: again.yaml\nsources: {more: another}\n"
    )
    (tmp_path / "third.yaml").write_text(f"{grandchild}model: {{leak_factor: 0.3, source: more}}\n")
    parent, again = load_machine("x86-avx2"), load_machine(str(tmp_path / "again.yaml"))
    stated = {"leak_factor": 0.2, "usable_factor": 0.5, "near_ahead_count": 3, "shared_ahead_count": 4}
    assert parent.model.remote_byte_ns > 0
    assert again.model == replace(parent.model, **stated, source=again.model.source)
    assert again.model.source.split(", ") == ["here", *parent.model.source.split(", ")]
    assert again.loops == replace(parent.loops, address_ns=5.0, source=again.loops.source)
    third = load_machine(str(tmp_path / "third.yaml"))
    assert third.model == replace(again.model, leak_factor=0.3, source=third.model.source)


def test_two_descriptions_that_differ_in_a_figure_price_a_kernel_otherwise(tmp_path: Path) -> None:
    (tmp_path / "again.yaml").write_text(AGAIN.replace("links:\n", "").replace("  - ", "# "))
    sizes = {"M": 4, "N": 7680, "K": 2560}
    first, second = (
        build_problem(bind(shipped("gemm_f32"), sizes), load_machine(name), sizes)
        for name in ("x86-avx2", str(tmp_path / "again.yaml"))
    )
    assert 8192 in {
        o.prefetching.ahead_bytes
        for option in first.nests[0].options
        for o in option.operands
        if o.prefetching.is_streamed
    }
    assert replace(second, machine=first.machine, tlb=first.tlb) == first
    assert second.tlb.count == 96


def test_a_description_states_figures_of_the_model_and_the_usual_ones_stand_for_others(
    tmp_path: Path,
) -> None:
    (tmp_path / "again.yaml").write_text(MODEL_AGAIN)
    sizes = {"M": 4, "N": 7680, "K": 2560}
    machine = load_machine(str(tmp_path / "again.yaml"))
    usual, stated = (
        build_problem(bind(shipped("gemm_f32"), sizes), made, sizes)
        for made in (load_machine("x86-avx2"), machine)
    )
    changed = ModelFigures(0.2, 0.06, 0.5, 3, 4, remote_byte_ns=usual.model.remote_byte_ns)
    assert replace(machine.model, source="") == changed == replace(stated.model, source="")
    assert replace(usual.model, remote_byte_ns=0.0, source="") == MODEL
    assert {cache.usable_factor for cache in stated.caches} == {0.5}
    counts = [
        {
            o.prefetching.ahead_counts
            for option in problem.nests[0].options
            for o in option.operands
            if o.prefetching.hints
        }
        for problem in (usual, stated)
    ]
    assert counts == [{(2, 2)}, {(3, 4)}]


def test_a_memory_without_links_has_the_bandwidth_of_the_model() -> None:
    machine = load_machine("generic-c")
    unlinked = replace(machine, links=(), model=replace(machine.model, unlinked_bytes_per_ns=5.0))
    assert Memories.of(unlinked).beyond_bytes_per_ns == 5.0
    assert Memories.of(replace(machine, links=())).beyond_bytes_per_ns == MODEL.unlinked_bytes_per_ns


def test_hints_are_asked_for_where_long_pieces_begin_anew() -> None:
    unasked, asked = ({"stage_b": 0, "prefetch_b": hints, "unroll_n": 8} for hints in (0, 2))
    dear = streams(streaming(), long_start_ns=60.0)
    for sweeps in ({}, {"block_k": 16}):  # coming back to rows begins their pieces anew as well
        assert price_ns(dear, **unasked, **sweeps) > 1.2 * price_ns(streaming(), **unasked, **sweeps)
    assert price_ns(dear, **asked) == price_ns(streaming(), **asked) < price_ns(dear, **unasked)


@pytest.mark.parametrize(
    ("name", "decisions"),
    [
        ("row_computing_factor", {"stage_b": 0, "prefetch_b": 0}),
        ("hinted_row_computing_factor", {"stage_b": 0, "prefetch_b": 1, "block_n": 4}),
        ("hinted_row_start_ns", {"stage_b": 0, "prefetch_b": 1, "block_n": 4}),
    ],
)
def test_a_figure_of_nothing_is_not_a_figure_that_is_not_stated(name: str, decisions: dict[str, int]) -> None:
    nothing = price_ns(streams(streaming("k"), **{name: 0.0}), **decisions)
    assert nothing < price_ns(streaming("k"), **decisions)
