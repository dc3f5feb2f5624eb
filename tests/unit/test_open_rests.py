"""Rests that only the run knows: in which pieces they are performed, what chooses and checks these."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from plan_problems import answer, gemm, gemm_option, problem

from isamap.driver.pipeline import Compilation, compile_kernel
from isamap.driver.request import Request, Size
from isamap.ir import Index
from isamap.kernels import kernel_path
from isamap.lower.place import Place, RemainderPiece, unrolled_places
from isamap.lower.program import Block, For, If, Issue, Node, Parallel
from isamap.lower.steps import Unroll
from isamap.plan.check import check_schedule
from isamap.plan.problem import NestOption
from isamap.plan.schedule import CountedLoop, NestSchedule, Schedule
from isamap.plan.text import parse_schedule, print_schedule
from isamap.scheduler.nests.nest_building import MAX_ISSUES, with_short_rests
from isamap.source import Source, SyntaxProblem

GEMM = gemm(1024, 1024, 1024)
BLOCKS = "m:6 n:64 | k:1 um:1 un:16"


def opened(*names: str, m: int = 1024, n: int = 1024) -> NestOption:
    """Return a product of which these axes are open."""
    option = gemm_option(m, n, 1024)
    return replace(option, axes=tuple(replace(a, is_open=a.name in names) for a in option.axes))


def with_rest(words: str, axis: str, rest: tuple[int, ...]) -> Schedule:
    """Return the schedule of these words; the outermost loop over an axis has its rest in these pieces."""
    schedule = answer(GEMM, words)
    nest = schedule.nests[0]
    number = next(i for i, loop in enumerate(nest.loops) if loop.axis == axis)
    loops = (*nest.loops[:number], replace(nest.loops[number], rest=rest), *nest.loops[number + 1 :])
    return replace(schedule, nests=(replace(nest, loops=loops),))


def product_of(hw: str, sizes: dict[str, Size], loops: str) -> Compilation:
    """`gemm_f32` under a schedule with these lines outside `hold`."""
    source = Source("gemm_f32.ir", kernel_path("gemm_f32").read_text(encoding="utf-8"))
    request = Request(source, hw, sizes)
    found = compile_kernel(replace(request, heuristic="greedy"), "schedule").schedule
    assert found
    vector = next(loop.step for loop in found.nests[0].loops if loop.axis == "n" and loop.is_unrolled)
    head = print_schedule(replace(found, nests=())).rstrip()
    text = f"""{head}
nest 0 {{ map {found.nests[0].mapping};
{loops} hold; for k by 1 {{ unroll m by 1 {{ unroll n by {vector} {{ issue; }} }} }} }} }} }}"""
    return compile_kernel(replace(request, schedule=Source("s.schedule", text)))


def bodies(nodes: tuple[Node, ...]) -> list[tuple[tuple[str, ...], int]]:
    """Under which conditions how many sums stand in the code of a register block."""
    found: list[tuple[tuple[str, ...], int]] = []

    def walk(inner: tuple[Node, ...], conditions: tuple[str, ...]) -> None:
        sums = sum(isinstance(n, Issue) and bool(re.match("fma|mac", n.instruction)) for n in inner)
        found.extend([(conditions, sums)] if sums else [])
        for node in inner:
            match node:
                case If(more, body):
                    walk(body, (*conditions, *(f"{a} {c} {b}" for a, c, b in more)))
                case For(_, _, body) | Block(_, body) | Parallel(_, body):
                    walk(body, conditions)
                case _:
                    pass

    walk(nodes, ())
    return found


def holds(condition: str, m: int) -> bool:
    """Return whether a printed condition is true of M."""
    return bool(eval(condition.replace("/", "//"), {"M": m}))  # noqa: S307 - what this test has printed


# --- places and code --------------------------------------------------------------------------------------


def test_the_last_tile_of_a_piece_shows_what_is_left() -> None:
    left = Index.of("left")
    here = Place({"n": Index.of("n0")}, {"n": left}, pieces={"n": RemainderPiece(Index.of("f"), 3)})
    found = [place for _, place in unrolled_places(here, (Unroll(4, "n", 16),))]
    assert [str(p.position["n"]) for p in found] == ["n0", "n0 + 16", "n0 + 32"]
    assert [p.left["n"] for p in found] == [Index.of(16), Index.of(16), left - 32]
    assert [p.trips[4] for p in found] == [Index.of("f") + n for n in range(3)]


def test_each_rest_has_a_piece_of_its_own() -> None:
    made = product_of("generic-c", {"M": "1..99@8", "N": 4, "K": 3}, "for m by 4 { for n by 2 {")
    assert made.program
    found = bodies(made.program.body)
    rest = "M - 4*(M / 4)"
    assert found == [
        ((), 8),
        *((("4*(M / 4) < M", f"{rest} == {count}"), 2 * count) for count in (3, 2, 1)),
    ]


def test_pieces_may_be_fewer_than_rests() -> None:
    made = product_of("generic-c", {"M": "1..99@8", "N": 4, "K": 3}, "for m by 6 rest 4 2 1 { for n by 2 {")
    assert made.program
    outside, rest = "6*(M / 6) < M", "M - 6*(M / 6)"
    first, second, third = bodies(made.program.body)[1:]
    assert first == ((outside, f"4 <= {rest}"), 8)
    assert [count for _, count in (second, third)] == [4, 2]
    for conditions, size in ((first[0], 4), (second[0], 2), (third[0], 1)):
        assert conditions[1].startswith(f"{size} <= ")
    for m in range(1, 13):
        taken = [c for c, _ in (first, second, third) if holds(c[1], m)]
        assert sum(int(c[1][0]) for c in taken) == m % 6


def test_where_an_instruction_masks_the_last_tile_is_part_of_its_piece() -> None:
    masked = product_of("x86-avx512", {"M": 2, "N": "1..99@48", "K": 3}, "for m by 2 { for n by 48 {")
    assert masked.program
    assert [count for _, count in bodies(masked.program.body)] == [6, 6, 4, 2]


def test_where_none_does_it_stands_alone() -> None:
    alone = product_of("loongarch-lasx", {"M": 2, "N": "1..99@24", "K": 3}, "for m by 2 { for n by 24 {")
    assert alone.program
    assert [count for _, count in bodies(alone.program.body)] == [6, 4, 2, 2]


def test_a_size_that_is_known_has_the_one_rest_that_it_leaves() -> None:
    known = product_of("generic-c", {"M": 11, "N": 4, "K": 3}, "for m by 4 { for n by 2 {")
    assert known.program
    assert [count for _, count in bodies(known.program.body)] == [8, 6]


# --- text -------------------------------------------------------------------------------------------------


def test_pieces_are_printed_and_read() -> None:
    schedule = with_rest("m:12 n:64 | k:1 um:1 un:16", "m", (8, 4, 2, 1))
    text = print_schedule(schedule)
    assert "  for m by 12 rest 8 4 2 1 {\n" in text
    assert parse_schedule(Source("s", text)) == schedule


@pytest.mark.parametrize(
    ("loop", "said"),
    [
        ("for i by 4 rest {", "`{` is not allowed here: expected a number"),
        ("for i by 4 rest 2 x {", "`x` is not allowed here: expected a number"),
        ("for i by 4 left 2 1 {", "expected `rest` or `{`"),
        ("unroll i by 4 rest 2 1 {", "`rest` is not allowed here: expected `{`"),
    ],
)
def test_pieces_that_are_no_numbers_are_no_schedule(loop: str, said: str) -> None:
    text = f"isamap schedule 1\nkernel k\nmachine m\nnest 0 {{ map f; {loop} hold; issue; }} }}"
    with pytest.raises(SyntaxProblem, match=re.escape(said)):
        parse_schedule(Source("s", text))


# --- the judge --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "axis", "rest"),
    [
        (BLOCKS, "m", (5, 4, 3, 2, 1)),
        (BLOCKS, "m", (3, 2, 1)),
        (BLOCKS, "m", (4, 2, 1)),
        (BLOCKS, "n", (32, 16)),
        (BLOCKS, "n", (48, 32, 16)),
    ],
)
def test_pieces_that_make_every_rest_pass(words: str, axis: str, rest: tuple[int, ...]) -> None:
    assert check_schedule(with_rest(words, axis, rest), GEMM) == ()


@pytest.mark.parametrize(
    ("words", "axis", "rest", "said"),
    [
        (BLOCKS, "m", (6, 3, 2, 1), "do not compose every remainder up to 5"),
        (BLOCKS, "m", (2, 1), "help: write `rest 4 2 1`"),
        (BLOCKS, "m", (4, 1), "each is at most twice the next one"),
        (BLOCKS, "m", (4, 2), "are multiples of 1 and end with it"),
        (BLOCKS, "m", (1, 2, 4), "do not compose every remainder"),
        (BLOCKS, "n", (40, 32, 16), "are multiples of 16 and end with it"),
        (BLOCKS, "n", (2, 1), "help: write `rest 32 16`"),
        ("m:1 n:64 | k:1 un:16", "m", (1,), "`rest` belongs to the innermost loop"),
        ("m:12 n:64 m:6 | k:1 um:1 un:16", "m", (4, 2, 1), "`rest` belongs to the innermost loop"),
        ("m:6 n:64 | k:1 um:1 un:16", "k", (1,), "`rest` belongs to the innermost loop"),
    ],
)
def test_pieces_that_leave_a_rest_out_are_found(
    words: str, axis: str, rest: tuple[int, ...], said: str
) -> None:
    (finding,) = check_schedule(with_rest(words, axis, rest), GEMM)
    assert finding.code == "schedule-tiling"
    assert said in finding.render()


def test_more_code_than_a_compiler_takes_is_found() -> None:
    words = "m:64 n:64 | k:1 um:1 un:16"
    asked = [problem(opened(*names), registers={"zmm": 999}) for names in (("m", "n"), ("m",), ())]
    both, rows, none = (list(check_schedule(answer(p, words), p)) for p in asked)
    assert [finding.code for finding in both] == ["schedule-too-large"]
    assert f"have {(64 + 63 * 32) * (4 + 6 + 4)} issues together, at most 4096 can be" in both[0].message
    assert f"have {(64 + 63 * 32) * 4} issues together" in rows[0].message
    assert none == []
    short = problem(opened("m"), registers={"zmm": 999})
    nest = answer(short, words).nests[0]
    nest = replace(nest, loops=(CountedLoop("m", 64, (32, 16, 8, 4, 2, 1)), *nest.loops[1:]))
    assert check_schedule(replace(answer(short, words), nests=(nest,)), short) == ()


# --- the choice -------------------------------------------------------------------------------------------


def rests_of(words: str, option: NestOption) -> dict[str, tuple[int, ...]]:
    nest: NestSchedule = with_short_rests(answer(problem(option), words).nests[0], option)
    return {loop.axis: loop.rest for loop in nest.loops if loop.rest}


def test_all_rests_have_code_while_that_is_not_too_much() -> None:
    assert rests_of("m:9 n:48 | k:1 um:1 un:16", opened("m", "n")) == {}
    assert rests_of("m:60 n:64 | k:1 um:1 un:16", opened()) == {}


def test_the_longer_axis_has_powers_of_two_first() -> None:
    assert MAX_ISSUES < (12 + 66) * (5 + 5 + 10)
    assert rests_of("m:12 n:80 | k:1 um:1 un:16", opened("m", "n")) == {"m": (8, 4, 2, 1)}
    assert rests_of("m:40 n:512 | k:1 um:1 un:16", opened("m", "n")) == {
        "m": (32, 16, 8, 4, 2, 1),
        "n": (256, 128, 64, 32, 16),
    }


def test_what_is_chosen_passes_the_judge() -> None:
    option = opened("m", "n")
    asked = problem(option, registers={"zmm": 99})
    chosen = answer(asked, "m:12 n:80 | k:1 um:1 un:16")
    chosen = replace(chosen, nests=(with_short_rests(chosen.nests[0], option),))
    assert CountedLoop("m", 12, (8, 4, 2, 1)) in chosen.nests[0].loops
    assert check_schedule(chosen, asked) == ()
