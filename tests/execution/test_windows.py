"""Windows in scratchpads: what taps of a filter share is brought once, and results are the interpreter's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from emitted_programs import check_emitted

from isamap.cli import main
from isamap.driver.encoded_programs import compile_words, program_kernel, verify_program
from isamap.driver.pipeline import Compilation
from isamap.driver.request import BEST_FORM, Request
from isamap.formulate.build import build_problem
from isamap.lower.program import Buffer
from isamap.machine.timings import WindowOverlap
from isamap.plan.check import check_schedule
from isamap.source import Source
from isamap.stream.encoding import decode

DEPTHWISE = """kernel depthwise() {{
  in x: i8[1, {h}, {w} * {c}];
  in f: i8[{r}, {s}, {c}];
  out y: i8[1, {p}, {q}, {c}];
  temp t: i32[1, {p}, {q}, {c}];
  for n in 1, g in {c}, p in {p}, q in {q} {{ t[n, p, q, g] = 0; }}
  for n in 1, g in {c}, p in {p}, q in {q}, r in {r}, s in {s} {{
    t[n, p, q, g] += i32(x[n, {step}*p + r, ({step}*q + s)*{c} + g]) * i32(f[r, s, g]);
  }}
  for n in 1, g in {c}, p in {p}, q in {q} {{
    y[n, p, q, g] = sat_i8(round(f32(t[n, p, q, g]) * 0.125, even));
  }}
}}
"""


def depthwise(p: int, q: int, c: int, r: int, s: int, step: int) -> Source:
    h, w = step * (p - 1) + r, step * (q - 1) + s
    return Source("k.ir", DEPTHWISE.format(p=p, q=q, c=c, r=r, s=s, step=step, h=h, w=w))


def compiled(
    source: Source, heuristic: str = "cpsat", fixed: Mapping[str, int] | None = None
) -> tuple[Compilation, bool]:
    """Return the compilation, and whether its words compute what the kernel says."""
    request = Request(
        source, "edge-npu", {}, transform=BEST_FORM, heuristic=heuristic, fixed=dict(fixed or {}), cache=False
    )
    words, made = compile_words(request)
    assert made.machine
    case = verify_program(words, made.machine, program_kernel(words, source), "random")
    return made, case.ok


def brought(made: Compilation, words_of: Source) -> int:
    """Bytes that come into the scratchpad by the instruction that moves bytes."""
    words, _ = compile_words(Request(words_of, "edge-npu", {}, transform=BEST_FORM))
    assert made.machine
    moves = [
        dict(p.command.params)
        for p in decode(words.words, made.machine)
        if p.command.instruction == "dma_in_i8"
    ]
    return sum(move["R"] * move["C"] for move in moves)


def buffer_of(made: Compilation, operand: str) -> Buffer:
    assert made.program
    return next(b for b in made.program.buffers if b.name.startswith(f"{operand}_tiles"))


@pytest.mark.exhaustive(fast=3)
@pytest.mark.parametrize(
    "fixed", [{}, {"nest1.ahead.a": 1}, {"nest1.stage.a": 2}], ids=["free", "ahead", "whole"]
)
@pytest.mark.parametrize(
    ("p", "q", "c", "r", "s", "step"),
    [
        (8, 16, 32, 3, 3, 1),
        (7, 7, 64, 3, 3, 1),
        (14, 14, 40, 3, 3, 1),
        (9, 20, 32, 5, 2, 1),
        (8, 16, 32, 3, 3, 2),
        (6, 11, 48, 3, 3, 2),
        (5, 9, 32, 5, 4, 2),
    ],
)
def test_what_taps_share_is_computed_right(
    p: int, q: int, c: int, r: int, s: int, step: int, fixed: dict[str, int]
) -> None:
    source = depthwise(p, q, c, r, s, step)
    made, is_right = compiled(source, fixed=fixed, heuristic="greedy")
    assert is_right
    assert made.problem
    assert made.schedule
    assert not check_schedule(made.schedule, made.problem)
    check_emitted(made, source, {})


def test_rows_that_taps_share_come_once() -> None:
    source = depthwise(8, 32, 32, 3, 3, 1)
    made, is_right = compiled(source)
    assert is_right
    pixels, filters = 8 * 32 * 9, 9
    assert brought(made, source) / 32 - filters < pixels / 2, "each pixel once for each tap without windows"


def test_windows_are_found_along_axes_and_along_fused_ones() -> None:
    found: dict[str, set[WindowOverlap]] = {}
    for size in (8, 14):
        made, _ = compiled(depthwise(size, 2 * size, 32, 3, 3, 2), heuristic="greedy")
        assert made.canonical
        assert made.machine
        problem = build_problem(made.canonical, made.machine, {})
        for option in (o for nest in problem.nests for o in nest.options):
            for operand in (o for o in option.operands if o.name == "a"):
                found.setdefault(option.mapping.split(" (")[0], set()).update(operand.staging.windows)
    assert {WindowOverlap("p.q", "r", 16, 2), WindowOverlap("p.q", "r", 28, 2)} <= found[
        "multiply_columns { m: p.q, n: g }"
    ]
    assert found["multiply_columns { m: q, n: g }"] == {
        WindowOverlap("q", "s", 1, 2),
        WindowOverlap("p", "r", 1, 2),
    }
    assert found["stream { m: p.q, k: r.s, n: 1 }"] == set(), "taps are no axis of their own"


def test_taps_reach_as_far_as_their_planes_have_them() -> None:
    assert WindowOverlap("p", "r", 1).reaches(3) == (2,)
    assert WindowOverlap("p.q", "r", 56, 2).reaches(3) == (56, 0)
    assert WindowOverlap("p.q", "r", 7, 2).reaches(5) == (14, 7)
    assert WindowOverlap("p", "r", 1, 3).reaches(2) == (0, 0)


@pytest.mark.parametrize("step", [1, 2])
def test_the_judge_knows_how_large_windows_are(step: int) -> None:
    made, _ = compiled(depthwise(8, 16, 32, 3, 3, step), heuristic="greedy")
    assert made.problem
    assert made.schedule
    size = buffer_of(made, "a").elements.value
    assert size

    def said(address: int) -> list[str]:
        """Return what is wrong where the filter lies there, and the pixels from 0 on."""
        assert made.problem
        assert made.schedule
        (nest,) = made.schedule.nests
        places = {"a": 0, "w": address}
        stages = tuple(replace(s, address=places.get(s.operand, s.address)) for s in nest.stages)
        moved = replace(made.schedule, nests=(replace(nest, stages=stages),))
        return [d.code for d in check_schedule(moved, made.problem)]

    assert said(size) == []
    assert said(size - 32) == ["schedule-capacity"]


RESTS = """isamap schedule 1
kernel depthwise
machine edge-npu

nest 1 {
  map multiply_columns { m: p.q, n: g } (a = x[n, p + r, g + 32*q + 32*s], w = f[r, s, g]);
  choose M = 160;
  stage w in spad at 0;
  for p.q by 640 {
    stage a ahead 1 in spad at 288;
    for n by 1 {
      for g by 32 {
        for p.q by 320 {
          stage c in acc at 0;
          hold;
          fuse 0, 2;
          for r by 1 { for s by 1 { unroll p.q by 160 { issue; } } }
        }
      }
    }
  }
}
"""


def test_parts_of_dealt_work_without_pieces_are_passed_over(tmp_path: Path) -> None:
    """The last block is half a register block: nothing is moved as a whole, only its rest is."""
    kernel, text = tmp_path / "k.ir", tmp_path / "k.sched"
    kernel.write_text(depthwise(90, 16, 32, 3, 3, 1).text)
    text.write_text(RESTS)
    assert main(["verify", str(kernel), "--hw", "edge-npu", "--schedule", str(text)]) == 0
