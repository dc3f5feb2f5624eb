"""The share of an instruction that one lane performs, and where the lanes of a block wait for each other."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from isamap.driver.pipeline import Compilation, compile_kernel
from isamap.driver.printers import emit_artifact
from isamap.driver.request import Request
from isamap.emit.c_names import CNames
from isamap.emit.lane_functions import Digit, build_lane_function, digits_of
from isamap.emit.lanes import emit_lanes
from isamap.emit.launchers import print_launcher
from isamap.ir import FloorDiv, Index, Mod, index_min
from isamap.kernels import kernel_path
from isamap.lower.barrier_check import check_barriers
from isamap.lower.barriers import with_barriers, with_closed_groups
from isamap.lower.program import (
    Barrier,
    Condition,
    Fill,
    For,
    If,
    Issue,
    LoweredProgram,
    MemoryRef,
    Node,
    Parallel,
    ProductGroup,
    RegisterRef,
)
from isamap.machine import Machine, bound_level, load_machine, private_memories
from isamap.machine.allowed import devices
from isamap.plan.check import check_schedule
from isamap.source import Infeasible, Source, UsageProblem

ROW, COLUMN, DEPTH = (Index.of(name) for name in "ijk")
HEAD = """isamap: 1
name: lanes
summary: eight lanes
sources: {guide: the guide}
target: {run: model}
levels:
  device: {memories: [far]}
  group: {at_once: 2, memories: [near]}
  thread: {count: 8, memories: [own]}
language: |
  memory far: addressable();
  memory near: scratchpad(bytes = 4096);
  memory own: registers(count = 8, bytes = 256, named = compiler);
units: {alu: {count: 1}}
instructions:
"""
INSTRUCTION = """  - semantics: |
{text}
    emit: semantics
    cost: {{unit: alu, interval_ns: 1, latency_ns: 1}}
    source: guide
"""


def machine(folder: Path, *instructions: str) -> Machine:
    """Return a machine of eight lanes, whose levels are called otherwise than those of shipped ones."""
    path = folder / "lanes.yaml"
    indented = ("\n".join(f"      {line}" for line in text.strip().splitlines()) for text in instructions)
    path.write_text(HEAD + "".join(INSTRUCTION.format(text=text) for text in indented), encoding="utf-8")
    return load_machine(str(path))


def function(made: Machine) -> list[str]:
    """Return the lines of the function of the only instruction, without the head."""
    (item,) = made.instructions.values()
    return build_lane_function(item, made, CNames()).text.strip().splitlines()[2:-1]


# --- shares


def test_a_lanes_number_has_the_digits_of_indices() -> None:
    assert digits_of(16 * ROW + COLUMN, 256) == (Digit("j", 1, 16, 1), Digit("i", 1, 16, 16))
    fragment = 4 * Index.of(Mod(ROW, Index.of(8))) + Index.of(
        FloorDiv(Index.of(Mod(DEPTH, Index.of(8))), Index.of(2))
    )
    assert digits_of(fragment, 32) == (Digit("k", 2, 4, 1), Digit("i", 1, 8, 4))


@pytest.mark.parametrize(
    "lane", [16 * ROW + 2 * COLUMN, ROW * COLUMN, 16 * ROW + COLUMN + 1, 3 * ROW + COLUMN, ROW + COLUMN]
)
def test_a_lanes_number_that_is_no_sum_of_digits_is_none(lane: Index) -> None:
    assert digits_of(lane, 256) is None


def test_a_lane_performs_the_iterations_of_its_elements(tmp_path: Path) -> None:
    made = machine(tmp_path, """
instruction add(scalar R: 0..2) {
  in a: f32[R, 4] @ far strides(any, 1);
  inout c: f32[2, 4] @ own placed [i, j] at thread: 4*i + j;
  for i in R, j in 4 { c[i, j] += a[i, j]; }
}""")  # fmt: skip
    assert function(made) == [
        "  const int64_t i = lane / 4;",
        "  const int64_t j = lane % 4;",
        "  if (i < R) {",
        "    c[0] += LOAD(0, a[a_s0*i + j]);",
        "  }",
    ]


def test_a_lane_has_several_elements_where_others_than_its_number_count_them(tmp_path: Path) -> None:
    made = machine(tmp_path, """
instruction scale() {
  inout c: f32[4, 8] @ own placed [i, j] at thread: 4 * (i % 2) + j / 2, register: i / 2, sub: j % 2;
  for i in 4, j in 8 { c[i, j] = c[i, j] * 2.0; }
}""")  # fmt: skip
    text = function(made)
    assert "  for (int64_t part1 = 0; part1 < 2; part1++) {" in text
    assert "    for (int64_t part2 = 0; part2 < 2; part2++) {" in text
    assert "      const int64_t i = 2*part1 + lane / 4;" in text
    assert "      const int64_t j = part2 + 2*(lane % 4);" in text
    assert "      c[2*(i / 2) + j % 2] = c[2*(i / 2) + j % 2] * 2.0f;" in text


def test_iterations_without_registers_go_round_among_the_lanes(tmp_path: Path) -> None:
    made = machine(tmp_path, """
instruction bring(scalar R: 0..16, scalar C: 0..16) {
  in x: f32[R, C] @ far strides(any, 1);
  out y: f32[R, C] @ near strides(any, 1);
  for i in R, j in C { y[i, j] = x[i, j]; }
}""")  # fmt: skip
    assert function(made) == [
        "  for (int32_t at = lane; at < C*R; at += lanes) {",
        "    const int32_t j = at % C;",
        "    const int32_t i = at / C;",
        "    STORE(1, y[i*y_s0 + j], LOAD(0, x[i*x_s0 + j]));",
        "  }",
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "instruction unplaced() { inout c: f32[8] @ own; for i in 8 { c[i] = c[i] + 1.0; } }",
            "the placement of `c` does not say which thread has an element",
        ),
        (
            """
instruction moved() {
  in a: f32[8] @ own placed [i] at thread: 7 - i;
  out c: f32[8] @ own placed [i] at thread: i;
  for i in 8 { c[i] = a[i]; }
}""",
            "touches elements of `c` and `a` that are in different lanes",
        ),
        (
            """
instruction uneven() {
  inout c: f32[6] @ own placed [i] at thread: i;
  for i in 6 { c[i] = c[i] + 1.0; }
}""",
            "has 6 elements, which 8 lanes do not have in equal parts",
        ),
        (
            "instruction counts() { in x: f32[8] @ far; inout y: f32 @ near; for i in 8 { y += x[i]; } }",
            "it adds to `y` in memory",
        ),
    ],
    ids=["unplaced", "moved", "uneven", "memory"],
)
def test_what_no_lane_can_perform_alone_is_refused(text: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(UsageProblem) as refused:
        function(machine(tmp_path, text))
    (found,) = refused.value.diagnostics
    assert found.code == "lanes-unsupported"
    assert said in found.message


# --- barriers


BRING = """
instruction bring() {
  in x: f32[8] @ far;
  out y: f32[8] @ near;
  for i in 8 { y[i] = x[i]; }
}"""
TAKE = """
instruction take() {
  in x: f32[8] @ near;
  out d: f32[8] @ own placed [i] at thread: i;
  for i in 8 { d[i] = x[i]; }
}"""


def bring(offset: Index | int = 0) -> Issue:
    target = MemoryRef("tiles", Index.of(offset), (Index.of(1),))
    return Issue("bring", (("x", MemoryRef("X", Index.of(0), (Index.of(1),))), ("y", target)))


def take() -> Issue:
    source = MemoryRef("tiles", Index.of(0), (Index.of(1),))
    return Issue("take", (("x", source), ("d", RegisterRef("v0"))))


def placed(folder: Path, *nodes: Node) -> tuple[Node, ...]:
    """Return nodes with barriers, which the verifier accepts."""
    made = machine(folder, BRING, TAKE)
    program = compile_empty(nodes)
    found = with_barriers(program, made)
    assert not check_barriers(compile_empty(found), made)
    return found


def compile_empty(nodes: tuple[Node, ...]) -> LoweredProgram:
    """Return a program of such nodes, of which only these are looked at."""
    kernel = Request(
        Source("k.ir", "kernel k(N) { out y: f32[N]; for i in N { y[i] = 0; } }"), "generic-c", {"N": 4}
    )
    program = compile_kernel(kernel, "lower").program
    assert program is not None
    return replace(program, body=nodes)


WAIT = Barrier("group")


def test_lanes_wait_before_they_read_what_others_wrote(tmp_path: Path) -> None:
    assert placed(tmp_path, bring(), take()) == (bring(), WAIT, take())


def test_lanes_wait_before_they_write_what_others_read(tmp_path: Path) -> None:
    assert placed(tmp_path, take(), bring()) == (take(), WAIT, bring())


def test_one_barrier_in_front_of_a_loop_does_for_its_iterations(tmp_path: Path) -> None:
    loop = For("n", Index.of(3), (take(), take()))
    assert placed(tmp_path, bring(), loop) == (bring(), WAIT, loop)


def test_what_iterations_carry_needs_a_barrier_in_each(tmp_path: Path) -> None:
    (loop,) = placed(tmp_path, For("n", Index.of(3), (bring(), take())))
    assert isinstance(loop, For)
    assert loop.body == (WAIT, bring(), WAIT, take())


def test_copies_to_different_elements_need_no_barrier_between(tmp_path: Path) -> None:
    n = Index.of("n")
    apart = For("n", Index.of(3), (bring(8 * n),))
    assert placed(tmp_path, apart, take()) == (apart, WAIT, take())
    (meeting,) = placed(tmp_path, For("n", Index.of(3), (bring(4 * n),)))
    assert isinstance(meeting, For)
    assert meeting.body == (WAIT, bring(4 * n))


def test_blocks_begin_and_end_without_a_barrier(tmp_path: Path) -> None:
    parts = Parallel((("m", Index.of(2)),), (bring(),))
    assert placed(tmp_path, parts, parts, take()) == (parts, parts, take())


def test_a_barrier_that_a_condition_leaves_out_ends_nothing_behind_it(tmp_path: Path) -> None:
    made = machine(tmp_path, BRING, TAKE)
    conditional = If(((Index.of("n"), "<", Index.of(2)),), (WAIT,))
    said = check_barriers(compile_empty((bring(), conditional, take())), made)
    assert said == ("take touches tiles, which lanes have written, without a barrier in between",)


def test_a_barrier_of_another_level_is_refused(tmp_path: Path) -> None:
    made = machine(tmp_path, BRING, TAKE)
    (said,) = check_barriers(compile_empty((Barrier("thread"),)), made)
    assert "which is not a level whose lanes may wait" in said


# --- instances of a level between blocks and lanes


NUMBER = Index.of("m")
SOME: tuple[Condition, ...] = ((NUMBER, "<", Index.of(1)),)


def of_each(*nodes: Node) -> tuple[Node, ...]:
    return (Parallel((("m", Index.of(2)),), nodes, level="core"),)


def moved(instruction: str, step: int) -> Issue:
    """Return an issue of each core for its own four elements, so many apart."""
    register = ("c" if instruction == "store" else "d", RegisterRef("v0"))
    place = MemoryRef("tiles", step * NUMBER, (Index.of(1),))
    name = "y" if instruction == "store" else "x"
    return Issue(instruction, (register, (name, place)), (("L", 4),))


def test_lanes_wait_between_parts_of_what_some_instances_perform() -> None:
    made, wait = load_machine("core-cluster"), Barrier("cluster")
    store, load = moved("store", 4), moved("load_far", 4)
    found = with_barriers(compile_empty(of_each(If(SOME, (store, load)))), made)
    assert found == of_each(If(SOME, (store,)), wait, If(SOME, (load,)))
    assert not check_barriers(compile_empty(found), made)
    (said,) = check_barriers(compile_empty(of_each(If(SOME, (store, load)))), made)
    assert "load_far touches tiles, which lanes have written" in said


def of_own_length(instruction: str, first: int) -> Issue:
    """Return an issue of each core for elements of its own eight: the first for one, the second for two."""
    issue, length = moved(instruction, 8), index_min(4, NUMBER + 1)
    (register, (name, place)) = issue.operands
    assert isinstance(place, MemoryRef)
    operands = (register, (name, replace(place, offset=place.offset + first)))
    return replace(issue, operands=operands, params=(("L", length),))


def test_instances_wait_for_elements_that_their_own_lengths_reach() -> None:
    made = load_machine("core-cluster")
    apart = of_each(of_own_length("store", 0), of_own_length("load_far", 4))
    assert with_barriers(compile_empty(apart), made) == apart
    assert not check_barriers(compile_empty(apart), made)
    met = of_own_length("store", 0), of_own_length("load_far", 1)
    assert with_barriers(compile_empty(of_each(*met)), made) == of_each(met[0], Barrier("cluster"), met[1])
    assert check_barriers(compile_empty(of_each(*met)), made)


def test_what_instances_write_apart_is_accepted_and_no_more() -> None:
    made = load_machine("core-cluster")

    def said(*nodes: Node) -> tuple[str, ...]:
        return check_barriers(compile_empty(of_each(*nodes)), made)

    assert not said(moved("store", 4))
    assert said(moved("store", 3)) == ("several instances of a block write the same elements by store",)
    assert not said(If(SOME, (moved("store", 3),)))
    assert not said(Fill("tiles", 8 * NUMBER, Index.of(8)))
    several = "several instances of a block write the same elements by a fill"
    assert said(Fill("tiles", 4 * NUMBER, Index.of(8))) == (several,)


def test_what_all_instances_perform_stands_where_all_of_them_come() -> None:
    made, all_of_it = load_machine("core-cluster"), Fill("tiles", Index.of(0), Index.of(8))
    assert not check_barriers(compile_empty(of_each(all_of_it)), made)
    (said,) = check_barriers(compile_empty(of_each(If(SOME, (all_of_it,)))), made)
    assert said == "all instances of a block perform a fill together where only some of them come"
    loop = For("n", 2 * NUMBER, (Barrier("cluster"),))
    (said,) = check_barriers(compile_empty(of_each(loop)), made)
    assert said == "only some instances of a block reach a barrier"


def test_counters_of_earlier_instances_are_no_instances_any_more() -> None:
    """A store of one instance for each tile was taken for one of several, behind other instances."""
    first = of_each(moved("store", 4))
    other = Index.of("n")
    store = Issue(
        "store",
        (("c", RegisterRef("v0")), ("y", MemoryRef("others", 4 * other, (Index.of(1),)))),
        (("L", 4),),
    )
    second = Parallel((("n", Index.of(2)),), (store,), level="core")
    assert not check_barriers(compile_empty((*first, second)), load_machine("core-cluster"))


def test_iterations_share_no_copies_that_lanes_make() -> None:
    """Decisions and schedules that said so broke the rules of the pass that inserts barriers."""
    path = kernel_path("gemm_f32")
    text = Source(path.name, path.read_text(encoding="utf-8"))
    request = Request(text, "core-cluster", {"M": 16, "N": 16, "K": 32}, heuristic="greedy")
    with pytest.raises(Infeasible, match="lanes have no order"):
        compile_kernel(replace(request, fixed={"nest0.spread.c": 1}), "schedule")
    early = compile_kernel(replace(request, fixed={"nest0.ahead.b": 2}))
    assert early.program is not None
    assert early.machine is not None
    assert not check_barriers(early.program, early.machine), "whole copies, two iterations early"
    made = compile_kernel(request, "schedule")
    assert made.schedule is not None
    assert made.problem is not None
    (nest,) = made.schedule.nests
    stages = tuple(
        replace(stage, ahead=1, into="k") if stage.operand == "b" else stage for stage in nest.stages
    )
    shared = replace(made.schedule, nests=(replace(nest, stages=stages),))
    said = [str(problem) for problem in check_schedule(shared, made.problem)]
    assert any("`stage b ahead 1 into k;`: lanes have no order" in one for one in said), said


# --- levels


def test_levels_say_what_performs_parallel_loops_and_what_it_has_of_its_own(tmp_path: Path) -> None:
    made = machine(tmp_path, BRING)
    level = bound_level(made)
    assert level is not None
    assert (level.name, level.at_once, private_memories(made)) == ("group", 2, ("near",))
    other = load_machine("generic-c")
    assert bound_level(other) is None
    assert private_memories(other) == ()


def test_the_text_of_a_device_is_one_for_the_model_and_for_opencl() -> None:
    path = kernel_path("gemm_f32")
    text = Source(path.name, path.read_text(encoding="utf-8"))
    made = compile_kernel(Request(text, "opencl-simt", {"M": 20, "N": 20, "K": 4}, heuristic="greedy"))
    assert made.program is not None
    assert made.machine is not None
    model, device = (emit_lanes(made.program, made.machine, model=model).source for model in (True, False))
    quoted = [
        line[5:-3] for line in device.splitlines() if line.startswith('    "') and line.endswith('\\n"')
    ]
    assert len(quoted) > 40
    prelude = devices()["opencl"].prelude.splitlines()
    assert quoted[: len(prelude)] == prelude
    assert "\n".join(quoted[len(prelude) :]) in model


# --- kernels without a host


def lowered(machine: str, **sizes: int) -> Compilation:
    path = kernel_path("gemm_f32")
    text = Source(path.name, path.read_text(encoding="utf-8"))
    fixed = {"nest0.parallel.m": 2}
    return compile_kernel(Request(text, machine, {**sizes}, heuristic="greedy", fixed=fixed), "lower")


def test_a_plan_says_how_kernels_are_launched() -> None:
    made = lowered("opencl-simt", M=20, N=20, K=4)
    assert made.program is not None
    assert made.machine is not None
    source, plan = emit_artifact(made.program, made.machine, "kernels").files().values()
    read = json.loads(plan)
    (launch,) = read["launches"]
    assert f"__kernel void {launch['kernel']}(" in str(source)
    assert (launch["blocks"], launch["lanes"]) == (4, 256)
    arrays = [a["array"] for a in launch["arguments"] if "array" in a]
    assert arrays == [a["name"] for a in read["arrays"]] == ["A", "B", "C"]
    assert [a["number"] for a in launch["arguments"] if "number" in a] == [4, 20, 20], "rows of A, B and C"


def test_a_loop_around_launches_is_a_step_of_their_plan() -> None:
    made = lowered("opencl-simt", M=20, N=20, K=4)
    assert made.program is not None
    assert made.machine is not None
    loop = For("n", Index.of(3), made.program.body)
    _, plan = emit_artifact(replace(made.program, body=(loop,)), made.machine, "kernels").files().values()
    (step,) = json.loads(plan)["launches"]
    assert (step["counter"], step["trips"], len(step["launches"])) == ("n", 3, 1)


def test_kernels_that_no_plan_can_launch_are_refused() -> None:
    made = lowered("opencl-simt", M=20, N=20, K=4)
    assert made.program is not None
    assert made.machine is not None
    with pytest.raises(UsageProblem, match="the launches of gemm_f32 depend on M"):
        emit_artifact(replace(made.program, symbols=(("M", 1, 20),)), made.machine, "kernels")
    choice = If(((Index.of(0), "<", Index.of(1)),), made.program.body)
    with pytest.raises(UsageProblem, match="decides while it runs what it launches"):
        emit_artifact(replace(made.program, body=(choice,)), made.machine, "kernels")
    with pytest.raises(UsageProblem, match=r"for no device that `target\.features` of generic-c names"):
        emit_artifact(made.program, load_machine("generic-c"), "kernels")


def test_each_driver_launches_kernels_that_need_no_permission() -> None:
    """The driver of AMD's GPUs has no function that permits more memory of a block, so no host was printed."""
    launch: dict[str, Any] = {"kernel": "k", "blocks": 2, "lanes": 32, "reserved_bytes": 0, "arguments": []}
    plan: dict[str, Any] = {
        "arrays": [],
        "scalars": [],
        "buffers": [],
        "image": "elf",
        "permitted": 0,
        "launches": [launch],
    }
    printed = {
        name: print_launcher("k", {**plan, "driver": device.driver})["k_launch.c"]
        for name, device in devices().items()
        if device.driver
    }
    assert len(printed) > 2
    for name, text in printed.items():
        assert f"{devices()[name].driver['launch']}(d->kernels[0], 2, 1, 1, 32, 1, 1, 0, stream" in text


def test_a_group_of_products_is_closed_before_a_loop_that_waits() -> None:
    """The wait inside the loop is for the product before the loop, too."""
    product, wait = Issue("product", ()), ProductGroup(0)
    closed, is_open = with_closed_groups(
        (product, For("k", Index.of(4), (wait, product)), product, wait), {"product"}
    )
    end = ProductGroup()
    assert closed == (product, end, For("k", Index.of(4), (wait, product, end)), product, end, wait)
    assert not is_open
