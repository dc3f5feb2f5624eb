"""The order of a copy's loops, decided: where it is open, what it costs, how it is fixed and kept."""

from __future__ import annotations

from dataclasses import replace

import pytest
from plan_problems import gemm, problem, tiled_gemm

from isamap.machine.timings import RowTimes
from isamap.plan.check import check_schedule
from isamap.plan.problem import NestOption, Problem, with_fields
from isamap.plan.schedule import Schedule
from isamap.plan.text import parse_schedule, print_schedule
from isamap.scheduler import AnalyticModel, schedule
from isamap.scheduler.deciding.fixing import names_of
from isamap.scheduler.deciding.per_operand import open_values
from isamap.scheduler.deciding.space import Space
from isamap.scheduler.nests.pricing import price
from isamap.scheduler.pinning import complete
from isamap.source import Infeasible, Source

N, K = 512, 1024
START_NS = 7.0


def product(m: int = 32, n: int = N, k: int = K, start_ns: float = START_NS) -> Problem:
    """bf16 on tiles; rows of A and B begin in so long out of the second cache, which holds them."""
    asked = tiled_gemm(m, n, k)
    (nest,) = asked.nests
    (option,) = nest.options
    a, b, c = option.operands
    a = with_fields(a, dense_axis="k", pitch_bytes=max(4096, 2 * k))
    b = with_fields(b, dense_axis="n", pitch_bytes=max(4096, 2 * n))
    first, *_ = asked.caches
    second = replace(first, name="l2", capacity_bytes=1 << 26, bandwidth_bytes_per_ns=64.0, kept_ns=0)
    caches = (replace(first, line_bytes=64), replace(second, line_bytes=64, rows=RowTimes(start_ns=start_ns)))
    made = replace(problem(replace(option, operands=(a, b, c))), caches=caches, registers=asked.registers)
    return replace(made, sizes=asked.sizes)


def option_of(question: Problem) -> NestOption:
    return question.nests[0].options[0]


def is_by_rows(found: Schedule) -> bool:
    return any(stage.by_rows for stage in found.nests[0].stages if stage.operand == "b")


def cost(found: Schedule) -> float:
    assert found.cost_ns is not None
    return found.cost_ns


def test_it_is_open_where_tiles_have_many_rows_across_register_blocks() -> None:
    def opened(question: Problem) -> dict[str, tuple[int, ...]]:
        return open_values(Space(0, option_of(question), dict(question.registers), {}))

    assert opened(product())["nest0.rows.a"] == (0,)  # its rows lie along the sum
    assert opened(product())["nest0.rows.b"] == (0, 1)
    assert opened(product(n=16))["nest0.rows.b"] == (0,)  # one tile is all there is of a row
    assert opened(gemm(64, 64, 64))["nest0.rows.b"] == (0,)  # a few rows at a time as it is


@pytest.mark.parametrize("heuristic", ["greedy", "cpsat"])
def test_rows_are_copied_one_after_the_other_where_they_take_time_to_begin(heuristic: str) -> None:
    question = product()
    found = schedule(question, heuristic=heuristic)
    assert check_schedule(found, question) == ()
    assert is_by_rows(found)
    assert cost(found) < cost(schedule(question, heuristic=heuristic, fixed={"rows.b": 0}))
    assert not is_by_rows(schedule(product(start_ns=0.0), heuristic="greedy"))


def test_a_copy_comes_back_to_each_row_for_the_columns_of_each_register_block() -> None:
    question = product()
    fixed = {"stage.b": 1, "block.n": 128, "unroll.n": 2}
    by_rows, in_order = (schedule(question, fixed={**fixed, "rows.b": value}) for value in (1, 0))
    kept = parse_schedule(Source("s", print_schedule(by_rows).replace(" by rows", "")))
    (before,), (after,) = (price(s, question, AnalyticModel()) for s in (kept, by_rows))
    assert before is not None
    assert after is not None
    register_blocks, parts = N // 32, N // 128
    together = question.model.copied_rows_count
    assert before - after == pytest.approx((register_blocks - parts) * K * START_NS / together)
    assert cost(by_rows) < cost(in_order)


def test_a_text_says_it_and_is_read_back() -> None:
    found = schedule(product())
    text = print_schedule(found)
    assert "stage b by rows;" in text
    assert parse_schedule(Source("s", text)) == found
    assert price(found, product(), AnalyticModel()) == (pytest.approx(cost(found)),)


def test_a_kept_decision_is_that_of_the_text() -> None:
    question = product()
    base = schedule(question, fixed={"rows.b": 0})
    kept = complete(
        question,
        base,
        {"nest0.rows": None, "nest0.block.n": 64},
        lambda asked, fixed: schedule(asked, fixed=fixed),
    )
    assert not is_by_rows(kept)
    assert "nest0.rows.b" in names_of(question, question.nests[0])


def test_what_is_copied_by_rows_is_copied() -> None:
    question = gemm(64, 64, 64)
    found = schedule(question, fixed={"rows.b": 1})
    assert is_by_rows(found)
    with pytest.raises(Infeasible) as caught:
        schedule(question, fixed={"rows.b": 1, "stage.b": 0})
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.code == "fix-stage"
    assert (
        diagnostic.message
        == "nest0.rows.b = 1 is impossible: nest0.stage.b = 0 (read in place) makes no copy"
    )
    assert diagnostic.help == (
        "relieved by nest0.rows.b = 0, or nest0.stage.b = 1, or leaving nest0.rows.b or nest0.stage.b to the "
        "solver"
    )
