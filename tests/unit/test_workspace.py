"""The workspace: how long buffers are needed, which of them share bytes, and that nothing is lost."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest
from ownership import lost_bytes
from programs import at, gemm, index

from isamap.driver.pipeline import compile_kernel
from isamap.driver.request import Request
from isamap.emit.c import emit_c
from isamap.ir import F32, Index
from isamap.lower.lifetimes import (
    fixed_bytes,
    lifetimes,
    padded_bytes,
    place_buffers,
    shared_names,
    workspace_buffers,
)
from isamap.lower.program import Block, Buffer, Fill, For, Issue, LoweredProgram, MemoryRef, RegisterRef
from isamap.machine import Machine, load_machine
from isamap.plan.placement import PlacedBuffer as Placed
from isamap.plan.placement import check_placement
from isamap.report.compilation import workspace_lines
from isamap.scheduler.memory.allocation import pack
from isamap.source import Source

ROOT = Path(__file__).parents[2]
TWO_PRODUCTS = ROOT / "docs" / "examples" / "accesses" / "two_products.ir"
STAGED = {"nest0.stage.b": 2, "nest1.stage.b": 2}


def compiled(
    path: Path, machine: str, sizes: dict[str, int | str], fixed: dict[str, int] | None = None
) -> tuple[LoweredProgram, Machine]:
    source = Source(path.name, path.read_text(encoding="utf-8"))
    made = compile_kernel(Request(source, machine, sizes, heuristic="greedy", fixed=fixed or {}), "lower")
    assert made.program is not None
    assert made.machine is not None
    return made.program, made.machine


# --- lives ------------------------------------------------------------------------------------------------


def store(name: str, element: str) -> Issue:
    place = MemoryRef(name, Index.of(element))
    return Issue("store_f32", (("a", RegisterRef("va")), ("z", place)))


def load(name: str, element: str) -> Issue:
    place = MemoryRef(name, Index.of(element))
    return Issue("load_f32", (("a", place), ("z", RegisterRef("va"))))


def with_body(*body: For | Block | Issue | Fill) -> LoweredProgram:
    buffers = tuple(Buffer(name, F32, index(16)) for name in ("p", "q"))
    return replace(gemm(buffers=buffers), body=body)


def test_a_buffer_lives_from_its_first_use_to_its_last() -> None:
    program = with_body(store("p", "m"), load("p", "m"), store("q", "m"), load("q", "m"))
    assert lifetimes(program, load_machine("generic-c")) == {"p": (0, 2), "q": (2, 4)}


def test_what_each_turn_writes_first_lives_within_a_turn() -> None:
    turn = (store("p", "m"), load("p", "m"), store("q", "m"), load("q", "m"))
    program = with_body(For("m", index("M"), (Block("turn", turn),)))
    assert lifetimes(program, load_machine("generic-c")) == {"p": (0, 2), "q": (2, 4)}


def test_what_a_turn_reads_first_waits_there_from_the_turn_before() -> None:
    turn = (store("q", "m"), load("q", "m"), load("p", "m"), store("p", "m"))
    program = with_body(For("m", index("M"), turn))
    assert lifetimes(program, load_machine("generic-c")) == {"p": (0, 4), "q": (0, 2)}


def test_a_loop_that_only_reads_keeps_its_buffer_to_its_end() -> None:
    reading = For("n", index("N"), (load("p", "n"), store("q", "n"), load("q", "n")))
    program = with_body(Fill("p", index(0), index(16)), reading)
    assert lifetimes(program, load_machine("generic-c")) == {"p": (0, 4), "q": (2, 4)}


def test_an_array_that_a_recurrence_carries_lives_as_long_as_its_loop() -> None:
    program, _ = compiled(ROOT / "kernels" / "gru.ir", "generic-c", {"T": 2, "N": 2, "C": 3, "H": 4})
    lives = {b.name: b.life for b in program.buffers}
    assert lives["h"] is not None
    assert lives["x"] is not None
    assert lives["h"][0] == 0
    assert lives["h"][1] > lives["x"][1] > lives["x"][0] > 0


# --- places -----------------------------------------------------------------------------------------------


def test_statements_stage_their_operands_in_the_same_bytes() -> None:
    program, machine = compiled(TWO_PRODUCTS, "generic-c", {"M": 6, "N": 10}, STAGED)
    first, second = program.buffers
    assert first.offset == second.offset == 0
    assert fixed_bytes(program) == padded_bytes(first)
    assert shared_names(program) == {first.name, second.name}
    assert lost_bytes(program, machine) == []


def test_c_does_not_say_of_buffers_that_share_bytes_that_they_are_apart() -> None:
    program, machine = compiled(TWO_PRODUCTS, "generic-c", {"M": 6, "N": 10}, STAGED)
    text = emit_c(program, machine).source
    for buffer in program.buffers:
        assert f"float *{buffer.name}" in text
        assert f"restrict {buffer.name}" not in text
    alone, machine = compiled(TWO_PRODUCTS, "generic-c", {"M": 6, "N": 10}, {**STAGED, "nest1.stage.b": 0})
    assert f"float *restrict {alone.buffers[0].name}" in emit_c(alone, machine).source


def test_buffers_of_sizes_known_only_at_run_time_keep_a_place_of_their_own() -> None:
    program, machine = compiled(TWO_PRODUCTS, "generic-c", {"M": 6, "N": "1..64@10"}, STAGED)
    assert [b.offset for b in program.buffers] == [None, None]
    text = emit_c(program, machine).source
    assert text.count("(void *)space;") == 2
    assert "space += " in text


@pytest.mark.parametrize(
    ("kernel", "machine", "sizes"),
    [
        ("gru", "generic-c", {"T": 2, "N": 2, "C": 3, "H": 5}),
        ("depthwise_separable", "generic-c", {"N": 1, "C": 2, "K": 3, "H": 5, "W": 6, "R": 3, "S": 3}),
        ("gemm_bf16", "x86-amx", {"M": 17, "N": 70, "K": 66}),
        ("gemm_nt_s8s8", "x86-amx", {"M": 17, "N": 33, "K": 70}),
    ],
)
def test_no_byte_is_lost_to_another_buffer(kernel: str, machine: str, sizes: dict[str, int | str]) -> None:
    program, described = compiled(ROOT / "kernels" / f"{kernel}.ir", machine, sizes)
    assert program.buffers
    assert lost_bytes(program, described) == []


def test_a_wrong_placement_is_found_by_both_judges() -> None:
    program, machine = compiled(ROOT / "kernels" / "gru.ir", "generic-c", {"T": 2, "N": 2, "C": 3, "H": 4})
    buffers = workspace_buffers(program, machine)
    wrong = {b.name: 0 for b in buffers}
    assert check_placement(buffers, wrong, 1 << 20)
    assert lost_bytes(place_buffers(program, buffers, wrong), machine)


def test_an_array_of_the_caller_is_no_buffer() -> None:
    program = replace(
        gemm(), body=(Issue("load_f32", (("a", at("A", index(0), index(0))), ("z", RegisterRef("v")))),)
    )
    assert lifetimes(program, load_machine("generic-c")) == {}


# --- the packer -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(20))
def test_packing_keeps_what_lives_together_apart_and_wastes_little(seed: int) -> None:
    rng = random.Random(seed)
    buffers: list[Placed] = []
    for n in range(rng.randint(1, 12)):
        start = rng.randint(0, 20)
        buffers.append(Placed(f"b{n}", start, start + rng.randint(1, 8), 64 * rng.randint(1, 9), 64))
    offsets = pack(buffers)
    load = max(sum(b.size_bytes for b in buffers if b.start <= t < b.end) for t in range(30))
    high = max(offsets[b.name] + b.size_bytes for b in buffers)
    assert check_placement(buffers, offsets, high) == ()
    assert load <= high <= load * 1.25


def test_packing_nothing_takes_nothing() -> None:
    assert pack([]) == {}


AHEAD = """isamap schedule 1
kernel gemm_f32
machine x86-avx2
sizes K = 13, M = 10, N = 37
status MANUAL

nest 0 {
  map fma_ymm_f32 { i: n } (a = A[m, k], b = B[k, n]);
  for k by 6 {
    stage b ahead 2;
    for m by 4 {
      stage a ahead 1;
      for n by 16 {
        stage c;
        spread write c into k;
        hold;
        for k by 1 {
          unroll m by 1 {
            unroll n by 8 {
              issue;
            }
          }
        }
      }
    }
  }
}
"""


def test_buffers_that_cross_turns_keep_their_bytes() -> None:
    source = Source("gemm_f32.ir", (ROOT / "kernels" / "gemm_f32.ir").read_text(encoding="utf-8"))
    sizes = {"M": 10, "N": 37, "K": 13}
    made = compile_kernel(
        Request(source, "x86-avx2", sizes, schedule=Source("ahead.schedule", AHEAD)), "lower"
    )
    assert made.program is not None
    assert made.machine is not None
    assert fixed_bytes(made.program) < sum(padded_bytes(b) or 0 for b in made.program.buffers)
    assert lost_bytes(made.program, made.machine) == []


def test_the_bytes_in_use_of_a_scratchpad_are_those_of_its_buffers_without_the_gaps() -> None:
    path = ROOT / "docs" / "examples" / "gemm_requant.ir"
    program, _ = compiled(path, "edge-npu", {"M": 64, "N": 64, "K": 64})
    own = [b for b in program.buffers if b.memory == "spad"]
    sizes = [(b.elements.value or 0) * b.dtype.size_bytes for b in own]
    end = max((b.offset or 0) + size for b, size in zip(own, sizes, strict=True))
    assert sum(sizes) < end, "the results stand at the end of the memory"
    lines = list(workspace_lines(program))
    assert f"spad: {sum(sizes)} bytes in use, and gaps between buffers, up to byte {end}" in lines
    assert "acc: 16384 bytes in use" in lines
    twice = replace(program, buffers=tuple(b for b in program.buffers for _ in range(2)))
    assert f"spad: {sum(sizes)} bytes in use, and gaps between buffers, up to byte {end}" in workspace_lines(
        twice
    )
