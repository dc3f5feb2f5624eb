"""Blocks that the model chooses, where it is asked to: as long as what shrinks fits, none where none pays."""

from __future__ import annotations

from dataclasses import replace

import pytest

from isamap.driver.block_choice import offered_blocks
from isamap.driver.pipeline import compile_kernel
from isamap.driver.request import BEST_FORM, Request
from isamap.ir import Kernel, Operand, bind
from isamap.kernels import kernel_path
from isamap.machine import load_machine
from isamap.plan.cost import evaluate
from isamap.scheduler.deciding.space import Space
from isamap.scheduler.deciding.tiling import tile
from isamap.scheduler.effects.levels import misses
from isamap.source import Source
from isamap.syntax import parse_kernel
from isamap.transform import make_guards_explicit

PAIR = """kernel pair(L, C, K, H) {
  in X: f32[L, C, H];
  in G: f32[K, C];
  temp T: f32[L, C, H];
  inout Y: f32[L, K, H];
  for l in L, c in C, p in H { T[l, c, p] = max(X[l, c, p], 0); }
  for l in L, k in K, p in H, c in C { Y[l, k, p] += T[l, c, p] * G[k, c]; }
}"""
LARGE = {"L": 1, "C": 64, "K": 4, "H": 16384}
APART = LARGE | {"H": 16368}  # rows do not fall into the same sets
MACHINE = "x86-avx512"


def canonical(text: str, **sizes: int) -> tuple[Kernel, list[Operand]]:
    bound = bind(parse_kernel(Source("pair.ir", text)), sizes)
    return make_guards_explicit(bound), [o for o in bound.operands if o.role == "temp"]


def chosen(text: str, sizes: dict[str, int], **changes: object) -> tuple[tuple[str, int], ...]:
    request = Request(Source("pair.ir", text), MACHINE, sizes, heuristic="greedy", transform=BEST_FORM)
    problem = compile_kernel(replace(request, **changes), "formulate").problem
    assert problem
    return problem.blocks


def test_blocks_are_as_long_as_what_shrinks_fits_into_half_of_a_cache() -> None:
    machine = load_machine(MACHINE)
    found = [", ".join(map(str, blocks)) for blocks, _ in offered_blocks(*canonical(PAIR, **LARGE), machine)]
    assert found == ["p by 64", "p by 512", "p by 2048"], "an eighth and half of the second cache"
    found = [
        ", ".join(map(str, blocks))
        for blocks, _ in offered_blocks(*canonical(PAIR, **LARGE | {"L": 3, "H": 1000}), machine)
    ]
    assert found == ["l by 1", "l by 2", "l by 1, p by 60", "l by 1, p by 500"], (
        "63 rows leave 3 of a register block"
    )


def test_blocks_are_whole_tiles_where_registers_have_rows() -> None:
    machine = load_machine("x86-amx")
    found = [
        blocks[-1].size for blocks, _ in offered_blocks(*canonical(PAIR, **LARGE | {"H": 1000}), machine)
    ]
    assert [size for size in found if size > 16] == [80], "blocks of 83 rows leave a part of a tile"


def test_ordered_loops_and_kernels_without_temporaries_have_no_offers() -> None:
    inside = PAIR.replace("  for l in L, c", "  seq t in 2 { for l in L, c").replace(
        "G[k, c]; }", "G[k, c]; } }"
    )
    kernel, own = canonical(inside, **LARGE)
    assert list(offered_blocks(kernel, own, load_machine(MACHINE))) == []
    kernel, _ = canonical(PAIR, **LARGE)
    assert list(offered_blocks(kernel, (), load_machine(MACHINE))) == []


def test_what_does_not_fit_a_cache_is_passed_on_in_blocks() -> None:
    assert chosen(PAIR, LARGE) == (("p", 64),)


def test_what_fits_stays_whole() -> None:
    assert chosen(PAIR, {"L": 1, "C": 4, "K": 4, "H": 64}) == ()


def test_what_a_person_fixes_is_not_chosen() -> None:
    assert chosen(PAIR, LARGE, fixed={"blocks.p": 128}) == (("p", 128),)


@pytest.mark.parametrize(("array", "is_fresh"), [("X", True), ("T", False)])
def test_new_rows_of_an_array_come_from_where_all_of_it_fits(array: str, is_fresh: bool) -> None:
    request = Request(Source("pair.ir", PAIR), MACHINE, APART, heuristic="greedy", fixed={"blocks.p": 32})
    problem = compile_kernel(request, "formulate").problem
    assert problem
    option = problem.nests[0].options[0]
    number = next(n for n, o in enumerate(option.operands) if o.tensor == array)
    missed = misses(tile(Space(0, option, dict(problem.registers), {})), problem)
    assert [one.source for one in missed] == ["l2", "l3"], "all of X is in the last cache"
    assert all((float(evaluate(one.lines[number], {})) > 0) == is_fresh for one in missed)
    assert option.operands[number].staging.fresh_bytes == (4 * 64 * 16368 if is_fresh else 0)


SOFTMAX = kernel_path("softmax_f32").read_text()


def test_rows_that_several_statements_go_through_are_passed_on_in_blocks() -> None:
    ((axis, rows),) = chosen(SOFTMAX, {"M": 64, "N": 16384})
    assert axis == "m"
    assert rows * 2 * 4 * 16384 <= 1 << 20, "x and y lie in half of the second cache"


@pytest.mark.parametrize(("columns", "is_fresh"), [(16384, False), (1 << 24, True)])
def test_a_row_that_the_statement_before_has_brought_is_near_where_a_cache_keeps_it(
    columns: int, is_fresh: bool
) -> None:
    sizes = {"M": 64, "N": columns}
    request = Request(
        Source("softmax.ir", SOFTMAX), MACHINE, sizes, heuristic="greedy", fixed={"blocks.m": 1}
    )
    problem = compile_kernel(request, "formulate").problem
    assert problem
    first, second = (
        next(o for nest in nests for o in nest.options[0].operands if o.tensor == "x")
        for nests in (problem.nests[1:2], problem.nests[2:3])
    )
    assert first.staging.fresh_bytes == 4 * 64 * columns, "the largest element is looked for first"
    assert second.staging.fresh_bytes == (first.staging.fresh_bytes if is_fresh else 0)
