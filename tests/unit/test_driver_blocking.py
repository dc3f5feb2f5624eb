"""Blocks that statements share, decided by a person or by a schedule's text, and replayed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from isamap.cli import main
from isamap.driver.blocking import asked_blocks, of_nests
from isamap.driver.pipeline import compile_kernel
from isamap.driver.request import Request
from isamap.plan.text import print_schedule
from isamap.source import Source, SyntaxProblem, UsageProblem
from isamap.transform import Blocks

PAIR = """kernel pair(C, K, H) {
  in X: f32[C, H];
  in G: f32[K, C];
  temp T: f32[C, H];
  inout Y: f32[K, H];
  for c in C, p in H { T[c, p] = max(X[c, p], 0); }
  for k in K, p in H, c in C { Y[k, p] += T[c, p] * G[k, c]; }
}"""
REQUEST = Request(
    Source("pair.ir", PAIR), "generic-c", {"C": 3, "K": 5, "H": 11}, heuristic="greedy", cache=False
)
IN_BLOCKS = replace(REQUEST, fixed={"blocks.p": 4})


def scheduled(request: Request) -> str:
    schedule = compile_kernel(request, "schedule").schedule
    assert schedule
    return print_schedule(schedule)


def test_what_is_fixed_stands_in_the_text_and_shrinks_the_workspace() -> None:
    made = compile_kernel(IN_BLOCKS)
    assert made.schedule
    assert made.program
    assert "\nblocks p by 4\n" in print_schedule(made.schedule)
    assert [(b.name, str(b.elements)) for b in made.program.buffers] == [("T", "12")]
    assert len(made.schedule.nests) == 4, "two statements in two blocks, and two in what is left"


def test_a_text_is_replayed_in_its_blocks() -> None:
    text = scheduled(IN_BLOCKS)
    replay = replace(REQUEST, schedule=Source("pair.schedule", text))
    assert asked_blocks(replay) == (Blocks("p", 4),)
    assert scheduled(replay) == text


def test_decisions_of_nests_go_together_with_blocks() -> None:
    fixed = {"blocks.p": 4, "nest1.unroll.k": 1, "nest3.unroll.k": 1}
    assert of_nests(fixed) == {"nest1.unroll.k": 1, "nest3.unroll.k": 1}
    schedule = compile_kernel(replace(REQUEST, fixed=fixed), "schedule").schedule
    assert schedule
    assert schedule.blocks == (("p", 4),)
    assert ("nest1.unroll.k", 1) in schedule.fixed


def test_other_blocks_than_those_of_the_text_are_refused() -> None:
    text = scheduled(IN_BLOCKS)
    replay = replace(REQUEST, schedule=Source("pair.schedule", text), fixed={"blocks.p": 6})
    with pytest.raises(UsageProblem, match="the schedule is for other blocks: p by 4"):
        scheduled(replay)


@pytest.mark.parametrize("words", ["p", "p by 0", "p by 4, p by 2", "by 4"])
def test_blocks_that_say_nothing_are_refused_in_a_text(words: str) -> None:
    text = scheduled(IN_BLOCKS).replace("blocks p by 4", f"blocks {words}")
    with pytest.raises(SyntaxProblem, match=f"`{words}` lists no blocks"):
        scheduled(replace(REQUEST, schedule=Source("pair.schedule", text)))


def test_accesses_of_blocks_are_counted_without_formulas(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "pair.ir"
    file.write_text(PAIR, encoding="utf-8")
    words = ["accesses", str(file), "--hw", "generic-c", "-D", "C=3", "K=5", "H=11", "--heuristic", "greedy"]
    assert main([*words, "--fix", "blocks.p=4"]) == 0
    said = capsys.readouterr().out
    assert "12 + 60 + 9 + 45 issues" in said, "three channels of four rows, then of three"
    assert "at other sizes" not in said
