"""The judge of parallel loops: what may be dealt to threads passes, and each way of spoiling it is found."""

from __future__ import annotations

from dataclasses import replace

import pytest
from plan_problems import gemm, gemm_option, problem

from isamap.plan.check import check_schedule
from isamap.plan.check.threads import check_parallel
from isamap.plan.problem import Problem
from isamap.plan.schedule import (
    CountedLoop,
    LoopStep,
    NestSchedule,
    ParallelLoop,
    Schedule,
    Stage,
    UnrolledLoop,
)
from isamap.plan.text import parse_schedule, print_schedule
from isamap.source import Source

ORDERED = gemm(1024, 1024, 1024)
GEMM = problem(replace(gemm_option(1024, 1024, 1024), can_split_sums=True))
KINDS: dict[str, type[LoopStep]] = {"p": ParallelLoop, "u": UnrolledLoop, "": CountedLoop}


def answer(asked: Problem, words: str, stages: tuple[Stage, ...] = ()) -> Schedule:
    """`pm:512 m:6 | k:1 um:1` is `par m by 512 { for m by 6 { hold; for k by 1 { unroll m by 1 {`."""
    outside, _, inside = words.partition("|")
    loops: list[LoopStep] = []
    for word in (outside + inside).split():
        axis, _, step = word.partition(":")
        loops.append(KINDS[axis[:-1]](axis[-1], int(step)))
    option = asked.nests[0].options[0]
    nest = NestSchedule(0, option.mapping, option.choose, tuple(loops), stages, len(outside.split()))
    return Schedule(asked.kernel, asked.machine, asked.sizes, (nest,))


INNER = "m:6 n:64 | k:1 um:1 un:16"


@pytest.mark.parametrize(
    ("words", "stages"),
    [
        (f"pm:512 {INNER}", ()),
        (f"pm:512 pn:256 {INNER}", (Stage("b", 0), Stage("a", 2))),
        (f"pm:510 k:256 {INNER}", (Stage("b", 2),)),
        (f"pm:512 pn:256 pm:256 {INNER}", ()),
        (f"pk:512 {INNER}", (Stage("c", 1),)),
        (f"pm:512 pk:512 {INNER}", (Stage("c", 2),)),
        ("pm:6 pn:64 | k:1 um:1 un:16", ()),
    ],
)
def test_good_parallel_loops_pass(words: str, stages: tuple[Stage, ...]) -> None:
    assert check_schedule(answer(GEMM, words, stages), GEMM) == ()


@pytest.mark.parametrize(
    ("words", "stages", "said"),
    [
        (f"m:512 pn:512 {INNER}", (), "`par n by 512` is inside a loop of another kind"),
        (f"pm:768 pm:256 {INNER}", (), "axis `m` is partitioned by 2 loops, not into equal groups of parts"),
        (f"pm:500 pm:204 {INNER}", (), "axis `m` is partitioned by 2 loops"),
        (f"pm:512 pm:256 pm:128 {INNER}", (), "axis `m` is partitioned by 3 loops"),
        (f"pk:512 pk:256 {INNER}", (Stage("c", 2),), "axis `k` is partitioned by 2 loops"),
        ("| pm:6 n:64 k:1 um:1 un:16", (), "`hold` is outside of `par m by 6`"),
        (f"pm:512 pn:512 {INNER}", (Stage("b", 1),), "`stage b;` is between two parallel loops"),
        (f"pk:512 {INNER}", (), "every part needs its own accumulator"),
        (f"pk:512 {INNER}", (Stage("c", 0),), "every part needs its own accumulator"),
        (f"pk:512 {INNER}", (Stage("c", 2),), "every part needs its own accumulator"),
        ("pm:6 pn:16 | k:1 um:1", (), "make 10944 parts; the limit is 4096"),
    ],
)
def test_spoilt_parallel_loops_are_found(words: str, stages: tuple[Stage, ...], said: str) -> None:
    findings = check_schedule(answer(GEMM, words, stages), GEMM)
    assert "schedule-parallel" in [finding.code for finding in findings]
    assert said in "\n".join(finding.render() for finding in findings)


@pytest.mark.parametrize(
    ("private", "depth", "said"),
    [
        ((), 1, "lies in `near`, and threads cannot share that memory"),
        (("near",), 0, "is outside of parallel loops, and each part has its own `near`"),
        (("near",), 1, ""),
    ],
    ids=["shared", "outside", "inside"],
)
def test_a_memory_of_each_part_is_filled_by_that_part(
    private: tuple[str, ...], depth: int, said: str
) -> None:
    nest = answer(GEMM, f"pm:512 {INNER}", (Stage("b", depth, memory="near"),)).nests[0]
    found = [finding.message for finding in check_parallel(nest, GEMM.nests[0].options[0], private)]
    assert [said in message for message in found] == ([True] if said else [])


def test_a_sum_that_has_an_order_is_not_taken_in_parts() -> None:
    findings = check_schedule(answer(ORDERED, f"pk:512 {INNER}", (Stage("c", 1),)), ORDERED)
    assert [finding.code for finding in findings] == ["schedule-parallel"]
    assert "partitions a sum that cannot be split" in findings[0].message


def test_steps_of_parallel_loops_are_tiled_like_others() -> None:
    findings = check_schedule(answer(GEMM, f"pn:40 {INNER}"), GEMM)
    assert {finding.code for finding in findings} == {"schedule-tiling"}
    findings = check_schedule(answer(GEMM, "m:6 un:16 pn:64 | k:1 um:1"), GEMM)
    assert "`par n by 64` stands inside an unrolled loop" in "\n".join(f.render() for f in findings)


def test_parallel_loops_are_read_back_as_they_were_printed() -> None:
    schedule = answer(GEMM, f"pm:512 pn:256 {INNER}", (Stage("b", 0),))
    text = print_schedule(schedule)
    assert "  stage b;\n  par m by 512 {\n    par n by 256 {\n      for m by 6 {" in text
    assert parse_schedule(Source("x.schedule", text)) == schedule
