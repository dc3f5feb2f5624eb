"""What scratchpads have to hold, whole register blocks and sums that wait; what is said of too small ones."""

from __future__ import annotations

from dataclasses import replace

import pytest
from plan_problems import gemm_option, problem

from isamap.plan.check import check_schedule
from isamap.plan.problem import Fusion, NestOption, NestProblem, Problem, with_fields
from isamap.scheduler import schedule
from isamap.source import Infeasible

TILE = 16
HEURISTICS = ("greedy", "annealing", "cpsat")


def tiled(m: int, n: int, k: int) -> NestOption:
    """Return a product of f32 tiles of 1024 bytes, inputs in `spad` and sums in `acc`."""
    option = gemm_option(m, n, k)
    homes = {"a": "spad", "b": "spad", "c": "acc"}
    operands = tuple(
        with_fields(
            o, direct_ns=None, homes=(homes[o.name],), memory=homes[o.name], tile_elements=TILE * TILE
        )
        for o in option.operands
    )
    return replace(option, axes=tuple(replace(a, tile=TILE) for a in option.axes), operands=operands)


def with_bytes(option: NestOption, acc: int, spad: int) -> Problem:
    """Return the option on a machine with scratchpads of so many bytes."""
    return replace(problem(option), scratchpads=(("acc", acc), ("spad", spad)))


@pytest.mark.parametrize("heuristic", HEURISTICS)
def test_a_buffer_has_room_for_whole_register_blocks(heuristic: str) -> None:
    # Five tiles along m in register blocks of two are six tiles; with one of b that makes seven.
    asked = with_bytes(tiled(5 * TILE, TILE, TILE), acc=2048, spad=6 * 1024)
    found = schedule(asked, heuristic=heuristic, fixed={"unroll.m": 2})
    assert check_schedule(found, asked) == ()
    assert [stage.depth for stage in found.nests[0].stages if stage.operand == "a"] != [0]


@pytest.mark.parametrize("heuristic", HEURISTICS)
def test_sums_that_their_tensor_cannot_hold_stay_while_the_loops_over_their_parts_run(heuristic: str) -> None:
    option = tiled(4 * TILE, TILE, 64 * TILE)
    a, b, c = option.operands
    narrow = replace(option, operands=(a, b, with_fields(c, tensor_bytes=1, stage_whole=True)))
    asked = with_bytes(narrow, acc=2048, spad=8 * 1024)
    found = schedule(asked, heuristic=heuristic)
    assert check_schedule(found, asked) == ()
    # Around m, parts of k would need all four tiles of the sums at once.
    with pytest.raises(Infeasible):
        schedule(asked, heuristic=heuristic, fixed={"order.m.k": 0, "block.m": TILE, "block.k": TILE})


@pytest.mark.parametrize("heuristic", HEURISTICS)
def test_a_statement_that_has_no_room_by_itself_is_taken_along(heuristic: str) -> None:
    alone = replace(gemm_option(8, 16, 1, memory="tiny"), mapping="relu")
    fusion = Fusion(1, (), 1e6)
    asked = problem(replace(gemm_option(8, 16, 8), fusions=(fusion,)), registers={"zmm": 32, "tiny": 1})
    asked = replace(asked, nests=(*asked.nests, NestProblem(1, (alone,))))
    found = schedule(asked, heuristic=heuristic)
    assert check_schedule(found, asked) == ()
    assert [nest.fused for nest in found.nests] == [(1,)]
    with pytest.raises(Infeasible) as caught:
        schedule(asked, heuristic=heuristic, fixed={"nest0.fuse.1": 0})
    assert "statement 1 has no schedule" in caught.value.diagnostics[0].message


def test_every_scratchpad_that_is_too_small_is_named() -> None:
    with pytest.raises(Infeasible) as caught:
        schedule(with_bytes(tiled(64, 64, 64), acc=512, spad=1024))
    assert caught.value.diagnostics[0].render() == (
        "error[scratchpad-too-small]: statement 0 has no schedule: 1024 bytes of `acc` and 2048 bytes of "
        "`spad` are needed at least, and there are 512 and 1024\n"
        "  note: `a`: 1024 bytes, `b`: 1024 bytes, `c`: 1024 bytes in blocks of m by 16, n by 16, k by 16\n"
        "  note: with mapping `fma16 { i: n } (a = A, b = B, c = C)`\n"
        "  help: relieved by 1024 bytes of `acc` and 2048 bytes of `spad` in the machine's description"
    )


def test_every_memory_that_one_issue_lacks_is_named() -> None:
    option = tiled(64, 64, 64)
    files = ("x", "x", "y")
    operands = tuple(replace(o, memory=f) for o, f in zip(option.operands, files, strict=True))
    asked = with_bytes(replace(option, operands=operands), acc=1024, spad=1024)
    with pytest.raises(Infeasible) as caught:
        schedule(replace(asked, registers=(("x", 1), ("y", 0))))
    assert caught.value.diagnostics[0].render() == (
        "error[too-few-registers]: statement 0 has no schedule: one issue needs 2 registers of `x` and "
        "1 registers of `y`, and there are 1 and 0\n"
        "  note: `a`: 1 tile, `b`: 1 tile, `c`: 1 accumulator\n"
        "  note: with mapping `fma16 { i: n } (a = A, b = B, c = C)`\n"
        "  note: with those, 2048 bytes of `spad` would be needed at least\n"
        "  help: relieved by 2 registers of `x` and 1 registers of `y` and 2048 bytes of `spad` in the "
        "machine's description"
    )


@pytest.mark.parametrize("heuristic", HEURISTICS)
def test_what_passes_through_a_scratchpad_has_room_at_its_end(heuristic: str) -> None:
    along = Fusion(1, (), 0.0, passes=(("spad", 1024),))
    option = replace(tiled(TILE, TILE, TILE), fusions=(along,))
    asked = with_bytes(option, acc=1024, spad=3 * 1024)
    found = schedule(asked, heuristic=heuristic)
    assert check_schedule(found, asked) == ()
    assert {s.address for s in found.nests[0].stages if s.memory == "spad"} == {0, 1024}
    full = replace(asked, scratchpads=(("acc", 1024), ("spad", 2 * 1024)))
    assert "2048 bytes of `spad` are needed, there are 1024" in check_schedule(found, full)[0].message
    with pytest.raises(Infeasible) as caught:
        schedule(full, heuristic=heuristic)
    assert (
        "2048 bytes of `spad` are needed at least, and there are 1024" in caught.value.diagnostics[0].message
    )
