"""Stages ahead and spread write-backs: what the judge refuses, what the text says, what loops become."""

from __future__ import annotations

from dataclasses import replace

import pytest
from plan_problems import answer, gemm

from isamap.plan.check import check_schedule
from isamap.plan.schedule import DeferredWriteBack, Schedule, Stage, hosts_of, slots_of
from isamap.plan.text import parse_schedule, print_schedule
from isamap.source import Source, SyntaxProblem

GEMM = gemm(1024, 1024, 1024)
WORDS = "n:512 k:256 m:6 n:64 | k:1 um:1 un:16"


def overlapped(words: str, stages: tuple[Stage, ...], *spread: DeferredWriteBack) -> Schedule:
    made = answer(GEMM, words, stages)
    return replace(made, nests=(replace(made.nests[0], spread=spread),))


def said_of(schedule: Schedule) -> str:
    return "\n".join(finding.render() for finding in check_schedule(schedule, GEMM))


def test_good_overlaps_pass() -> None:
    assert said_of(overlapped(WORDS, (Stage("b", 2, ahead=1),))) == ""
    assert said_of(overlapped(WORDS, (Stage("b", 2, ahead=1, into="k"),))) == ""
    assert said_of(overlapped(WORDS, (Stage("c", 4),), DeferredWriteBack("c", "k"))) == ""
    assert said_of(overlapped(WORDS, (Stage("c", 3),), DeferredWriteBack("c", "n"))) == ""


def test_a_buffer_has_a_copy_for_each_turn_that_it_outlives() -> None:
    nest = overlapped(
        WORDS, (Stage("b", 2, ahead=2), Stage("c", 4), Stage("a", 2)), DeferredWriteBack("c", "k")
    ).nests[0]
    assert [slots_of(nest, stage) for stage in nest.stages] == [3, 2, 1]


def test_filling_is_shared_by_the_next_loop_and_writing_by_all_down_to_the_named_one() -> None:
    nest = overlapped(WORDS, (Stage("b", 2, ahead=1), Stage("c", 3)), DeferredWriteBack("c", "k")).nests[0]
    ahead, late = (hosts_of(nest, stage) for stage in nest.stages)
    assert [number for number, _ in ahead] == [2]
    assert [number for number, _ in late] == [3, 4]


def test_filling_is_shared_by_all_loops_down_to_the_one_that_is_named() -> None:
    nest = overlapped(WORDS, (Stage("b", 2, ahead=1, into="k"), Stage("a", 3, ahead=1, into="n"))).nests[0]
    dealt = [[number for number, _ in hosts_of(nest, stage)] for stage in nest.stages]
    assert dealt == [[2, 3, 4], [3]]


def test_what_would_be_shared_inside_hold_is_filled_at_once() -> None:
    nest = overlapped(WORDS, (Stage("b", 4, ahead=1),)).nests[0]
    assert hosts_of(nest, nest.stages[0]) == ()


@pytest.mark.parametrize(
    ("words", "stages", "spread", "said"),
    [
        (
            WORDS,
            (Stage("b", 0, ahead=1),),
            (),
            (
                "`stage b ahead 1;` is not directly inside a loop, so there is "
                "no earlier iteration\n"
                "  help: move it into a `for` loop, or write `stage b;`"
            ),
        ),
        (
            WORDS,
            (Stage("b", 2, ahead=1, into="i"),),
            (),
            (
                "`stage b ahead 1 into i;`: there is no `for i` inside\n"
                "  note: the loops inside run over m, n, k\n"
                "  help: name the loop whose iterations share the work"
            ),
        ),
        (
            "m:12 n:512 k:256 n:64 m:6 | k:1 um:1 un:16",
            (Stage("b", 1, ahead=1, into="m"),),
            (),
            (
                "`stage b ahead 1 into m;`: `n` has several loops there, "
                "with different trip counts in each iteration\n"
                "  help: name a loop outside the second one over `n`"
            ),
        ),
        (
            WORDS,
            (Stage("c", 4, ahead=1),),
            (),
            (
                "`stage c ahead 1;` fills a buffer early with elements that "
                "earlier iterations still change\n"
                "  help: write `stage c;`, and `spread write c into` a loop's axis"
            ),
        ),
        (
            WORDS,
            (Stage("b", 4),),
            (DeferredWriteBack("b", "k"),),
            (
                "`spread write b into k;` has no staged result to write back\n"
                "  help: a deferred write-back "
                "needs a buffer: stage the result there, or leave the line out"
            ),
        ),
        (
            WORDS,
            (),
            (DeferredWriteBack("c", "k"),),
            (
                "`spread write c into k;` has no staged result to write back\n"
                "  help: a deferred write-back "
                "needs a buffer: stage the result there, or leave the line out"
            ),
        ),
        (
            WORDS,
            (Stage("b", 2, 1, 1),),
            (),
            (
                "`stage b ahead 1 behind 1;` has copies for products in flight, "
                "and the instruction of this mapping leaves none in flight\n"
                "  help: leave `behind` out"
            ),
        ),
        (
            WORDS,
            (Stage("c", 2),),
            (DeferredWriteBack("c", "m"),),
            (
                "`spread write c into m;` is directly inside `for k by 256`, "
                "whose next iteration accesses the same elements of `C`\n"
                "  help: put it and its `stage c;` directly inside a `for` loop over m or n"
            ),
        ),
        (
            WORDS,
            (Stage("c", 0),),
            (DeferredWriteBack("c", "k"),),
            (
                "`spread write c into k;` is not directly inside a loop\n"
                "  help: put it and its `stage c;` directly inside a `for` loop over m or n"
            ),
        ),
        (
            WORDS,
            (Stage("c", 4),),
            (DeferredWriteBack("c", "m"),),
            (
                "`spread write c into m;`: there is no `for m` inside\n"
                "  note: the loops inside run over k\n"
                "  help: name the loop whose iterations share the work"
            ),
        ),
        (
            "m:12 n:512 k:256 n:64 m:6 | k:1 um:1 un:16",
            (Stage("c", 1),),
            (DeferredWriteBack("c", "m"),),
            (
                "`spread write c into m;`: `n` has several loops there, "
                "with different trip counts in each iteration\n"
                "  help: name a loop outside the second one over `n`"
            ),
        ),
    ],
)
def test_a_spoilt_overlap_is_found(
    words: str, stages: tuple[Stage, ...], spread: tuple[DeferredWriteBack, ...], said: str
) -> None:
    assert said_of(overlapped(words, stages, *spread)) == f"error[schedule-overlap]: nest 0: {said}"


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("stage b ahead 0;", "data is moved 1 to 16 iterations ahead"),
        ("stage b ahead 17;", "data is moved 1 to 16 iterations ahead"),
        ("prefetch b ahead 257 into l2;", "data is moved 1 to 256 iterations ahead"),
        ("stage b behind 1;", "`behind` is not allowed here: expected `ahead`, `by`, `in`, `packed` or `;`"),
        ("spread write c into k;", "`spread write c` does not follow a `stage c;`"),
        ("stage b; spread write c into k;", "`spread write c` does not follow a `stage c;`"),
        ("stage c; spread c into k;", "`c` is not allowed here: expected `write`"),
    ],
)
def test_a_wrong_line_is_pointed_at(line: str, said: str) -> None:
    text = print_schedule(answer(GEMM, WORDS)).replace("hold;", f"{line} hold;")
    with pytest.raises(SyntaxProblem) as caught:
        parse_schedule(Source("s", text))
    assert said in caught.value.diagnostics[0].render()


def test_the_text_says_both() -> None:
    made = overlapped(
        WORDS,
        (Stage("a", 2, ahead=1, into="k"), Stage("b", 2, ahead=1), Stage("c", 4)),
        DeferredWriteBack("c", "k"),
    )
    text = print_schedule(made)
    assert "      stage a ahead 1 into k;\n      stage b ahead 1;\n" in text
    assert "          stage c;\n          spread write c into k;\n          hold;\n" in text
    assert parse_schedule(Source("s", text)) == made
