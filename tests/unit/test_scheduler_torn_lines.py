"""Lines that a cache loses before all of their elements were used come once for each piece of them."""

from __future__ import annotations

import pytest
from plan_problems import gemm, problem

from isamap.plan.cost import evaluate
from isamap.plan.problem import (
    Cache,
    NestOption,
    Problem,
    Staging,
    TensorLayout,
    TileAxis,
    TileCosts,
    TileOperand,
    with_fields,
)
from isamap.scheduler.deciding.space import Space
from isamap.scheduler.deciding.tiling import tile
from isamap.scheduler.effects.levels import partial_lines

NEAR = Cache("l1", 48 << 10, 400.0, 12, line_bytes=64)


def space(question: Problem) -> Space:
    return Space(0, question.nests[0].options[0], dict(question.registers), {})


@pytest.mark.parametrize(("rows", "often"), [(12, 1), (13, 16)])
def test_a_line_is_loaded_again_where_a_block_has_more_rows_than_a_cache_holds(rows: int, often: int) -> None:
    question = gemm(64, 16, 1024)
    a = question.nests[0].options[0].operands[0]
    made = {"nest0.unroll.m": rows, "nest0.unroll.n": 1}
    assert evaluate(partial_lines(tile(space(question)), a, NEAR), made) == often
    assert evaluate(partial_lines(tile(space(question)), with_fields(a, pitch_bytes=4160), NEAR), made) == 1


def test_a_line_of_a_short_sum_is_loaded_no_more_often_than_issues_use_it() -> None:
    question = gemm(64, 16, 4)
    a = question.nests[0].options[0].operands[0]
    found = partial_lines(tile(space(question)), with_fields(a, pitch_bytes=4096), NEAR)
    assert evaluate(found, {"nest0.unroll.m": 13, "nest0.unroll.n": 1}) == 4


def turned(rows: int, columns: int, *, pitch_bytes: int) -> tuple[Problem, TileOperand]:
    """Y[n, m] = X[m, n] of f64, an element at a time, and Y."""
    axes = (TileAxis("m", columns, 1, False), TileAxis("n", rows, 1, False))
    x = TileOperand(
        "a", "X", ("m", "n"), False, "reg", 1, 1, TensorLayout(8), TileCosts(0.17, None), Staging(8, 0.1)
    )
    y = TileOperand(
        "y", "Y", ("n", "m"), True, "reg", 1, 1, TensorLayout(8), TileCosts(0.17, None), Staging(8, 0.1)
    )
    y = with_fields(y, dense_axis="m", pitch_bytes=pitch_bytes)
    return problem(NestOption("store", (), axes, (x, y), 0.17, 0.0)), y


@pytest.mark.parametrize(
    ("rows", "pitch_bytes", "unrolled", "often"),
    [
        (12, 4096, 1, 1),  # a set holds a line of each
        (13, 4096, 1, 8),  # each element brings its line
        (13, 4096, 4, 2),
        (13, 4096, 16, 1),  # a register block takes whole lines
        (13, 4160, 1, 1),  # rows that begin in other sets
        (576, 4160, 1, 1),  # as many lines as there is room for
        (577, 4160, 1, 8),
    ],
)
def test_results_that_columns_are_written_of_tear_lines(
    rows: int, pitch_bytes: int, unrolled: int, often: int
) -> None:
    question, y = turned(1024, 512, pitch_bytes=pitch_bytes)
    own = space(question)
    inside = {
        name: 1 if outer.name == "m" else 0 for name, outer, _ in (*own.order_pairs(), *own.sweep_pairs())
    }
    made = {"nest0.unroll.m": unrolled, "nest0.unroll.n": 1, "nest0.block.m": 512, "nest0.block.n": rows}
    assert evaluate(partial_lines(tile(own), y, NEAR), made | inside) == often


@pytest.mark.parametrize(
    ("images", "unrolled", "often"),
    [
        (500, 1, 1),  # their lines stay until the next pixel comes
        (577, 1, 7),  # each of seven pixels brings the one line of its row
        (577, 7, 1),
    ],
)
def test_pixels_two_apart_tear_lines(images: int, unrolled: int, often: int) -> None:
    """Y[k, q] += X[n, 2*q] * F[k, n], a pixel at a time: rows of 56 bytes in images of 784."""
    axes = (TileAxis("k", 64, 16, False), TileAxis("q", 7, 1, False), TileAxis("n", images, 1, True))
    x = TileOperand(
        "a", "X", ("n", "q"), False, "reg", 1, 1, TensorLayout(4), TileCosts(0.17, None), Staging(4, 0.1)
    )
    x = with_fields(x, subscripts=((("n", 1),), (("q", 2),)), pitch_bytes=784, least_row_bytes=64)
    y = TileOperand(
        "c", "Y", ("k", "q"), True, "reg", 1, 16, TensorLayout(4), TileCosts(0.17, None), Staging(4, 0.1)
    )
    question = problem(NestOption("fma", (), axes, (x, y), 0.17, 0.7))
    own = space(question)
    made = {"nest0.unroll.k": 1, "nest0.unroll.q": unrolled, "nest0.block.k": 64, "nest0.block.q": 7}
    inside = {name: 1 for name, _, _ in (*own.order_pairs(), *own.sweep_pairs())}
    assert evaluate(partial_lines(tile(own), x, NEAR), made | {"nest0.block.n": images} | inside) == often
