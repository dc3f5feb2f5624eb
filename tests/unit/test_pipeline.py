"""Pipelines: what the judge finds wrong, what loops become, and what is read and printed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from plan_problems import answer, gemm

from isamap.driver.pipeline import Compilation, compile_kernel
from isamap.driver.refining import with_pipelines
from isamap.driver.request import Request, Size
from isamap.emit.c import EmittedC
from isamap.kernels import kernel_path
from isamap.lower.software_pipeline import issues_of, main_loop, steady_of
from isamap.plan.steady import (
    Dependence,
    LocalValue,
    Operation,
    Pipeline,
    Steady,
    check_pipeline,
    lifetime_of,
)
from isamap.plan.text import parse_schedule, print_schedule
from isamap.run.runner import run_program
from isamap.run.toolchain import compile_library
from isamap.scheduler.pipelines.modulo import find_pipeline, least_interval, pipeline_apart
from isamap.source import Source, SyntaxProblem, UsageProblem

LOAD, SUM = 0, 1
STEADY = Steady(
    (Operation("load", "port", 1), Operation("sum", "fma", 1)),
    (
        Dependence(LOAD, SUM, 5, 0),
        Dependence(SUM, LOAD, 0, 1),
        Dependence(SUM, SUM, 4, 1),
    ),
    (LocalValue("v", "r", LOAD, (SUM,)),),
    (("port", 1), ("fma", 1)),
    (("r", 1),),
    1.0,
)
GEMM = gemm(1024, 1024, 1024)
SCHEDULE = """isamap schedule 1
kernel gemm_f32
machine x86-avx2
sizes K = {K}, M = {M}, N = {N}
status MANUAL

nest 0 {{
  map fma_ymm_f32 {{ i: n }} (a = A[m, k], b = B[k, n]);
  for m by 2 {{
    for n by 16 {{
      hold;
      for k by 1 {{
        unroll m by 1 {{
          unroll n by 8 {{
            {line}
            issue;
          }}
        }}
      }}
    }}
  }}
}}
"""


def said(pipeline: Pipeline, steady: Steady = STEADY) -> list[str]:
    return [finding.message for finding in check_pipeline(steady, pipeline)]


def test_a_pipeline_that_waits_for_all_results_passes() -> None:
    assert said(Pipeline(5, (0, 5))) == []
    assert lifetime_of(STEADY, Pipeline(5, (0, 5))) == 5
    assert Pipeline(5, (0, 5)).stages == 2


def test_each_way_of_spoiling_a_pipeline_is_found() -> None:
    assert said(Pipeline(5, (0,))) == ["2 operations need as many starts, and an interval of 1 or more"]
    assert said(Pipeline(5, (0, 4))) == [
        "operation 1, `sum`, starts at 4, 0 iterations after operation 0, `load`, whose result is there at 5 only"
    ]
    assert said(Pipeline(3, (0, 5)))[1:] == [
        "operation 1, `sum`, starts at 5, 1 iterations after operation 1, `sum`, whose result is there at 9 only",
        "2 registers of `r` are taken at once, and 1 are free",
    ]
    one = replace(STEADY, operations=(Operation("load", "port", 1), Operation("sum", "port", 1)))
    one = replace(one, units=(("port", 1),))
    assert said(Pipeline(5, (0, 5)), one) == ["`port` performs 2 operations at once, and there are 1 of it"]


def test_the_least_interval_is_found_and_proven_in_a_process_of_its_own() -> None:
    assert least_interval(STEADY) == 5
    found = pipeline_apart(STEADY, 10.0)
    assert found is not None
    assert found == find_pipeline(STEADY, 10.0)
    assert (found.pipeline.interval, found.interval_bound, found.is_optimal) == (5, 5, True)
    assert (found.lifetime, found.lifetime_bound) == (5, 5)


def test_a_child_that_fails_finds_nothing() -> None:
    assert pipeline_apart(STEADY, 1.0, ("false",)) is None


def test_155_operations_are_ordered_at_their_proven_least_interval() -> None:
    steady = block(12, 11, registers=30)
    found = find_pipeline(steady, 8.0)
    assert found is not None
    assert len(steady.operations) == 155
    assert found.pipeline.interval == found.interval_bound == 66
    assert said(found.pipeline, steady) == []


def block(rows: int, columns: int, registers: int) -> Steady:
    """Return the inner body of a product: `columns` loads, then per row a broadcast and its sums."""
    operations = [Operation("load", "load", 1) for _ in range(columns)]
    waits: list[Dependence] = []
    users: dict[int, list[int]] = {i: [] for i in range(columns)}
    for _ in range(rows):
        row = len(operations)
        operations.append(Operation("broadcast", "load", 1))
        users[row] = []
        for column in range(columns):
            here = len(operations)
            operations.append(Operation("fma", "fma", 1))
            waits += [
                Dependence(row, here, 1, 0),
                Dependence(column, here, 1, 0),
                Dependence(here, here, 4, 1),
            ]
            users[row].append(here)
            users[column].append(here)
    waits += [Dependence(user, load, 0, 1) for load, mine in users.items() for user in mine]
    values = tuple(LocalValue(f"v{i}", "r", i, tuple(mine)) for i, mine in users.items())
    units = (("load", 2), ("fma", 2))
    return Steady(tuple(operations), tuple(waits), values, units, (("r", registers),), 1.0)


# --- programs ---------------------------------------------------------------------------------------------


def compiled(sizes: dict[str, Size], line: str) -> Compilation:
    source = Source("gemm_f32.ir", kernel_path("gemm_f32").read_text())
    schedule = Source("s.schedule", SCHEDULE.format(**sizes, line=line))
    return compile_kernel(Request(source, "x86-avx2", sizes, schedule=schedule, model=True))


def ordered(sizes: dict[str, Size]) -> Compilation:
    """Return the schedule with the pipeline that is found for it."""
    plain = compiled(sizes, "")
    assert plain.schedule
    assert plain.canonical
    assert plain.machine
    schedule = with_pipelines(plain.schedule, plain.canonical, plain.machine, 5.0).schedule
    assert schedule.nests[0].pipeline
    source = Source("gemm_f32.ir", kernel_path("gemm_f32").read_text())
    text = Source("s.schedule", print_schedule(schedule))
    return compile_kernel(Request(source, "x86-avx2", sizes, schedule=text, model=True))


def check(made: Compilation, sizes: dict[str, int], open_sizes: dict[str, int]) -> None:
    assert isinstance(made.emitted, EmittedC)
    assert made.machine
    rng = np.random.default_rng(2)
    shapes = {"A": ("M", "K"), "B": ("K", "N"), "C": ("M", "N")}
    arrays = {
        name: rng.integers(-3, 4, tuple(sizes[a] for a in axes)).astype(np.float32)
        for name, axes in shapes.items()
    }
    result = run_program(compile_library(made.emitted, made.machine), arrays, open_sizes, guard=True)
    assert result.status == 0, result.meaning
    assert np.array_equal(result.arrays["C"], arrays["C"] + arrays["A"] @ arrays["B"])


def test_pipelined_loops_compute_the_same_with_tails_and_with_few_turns() -> None:
    for sizes in ({"M": 6, "N": 48, "K": 9}, {"M": 5, "N": 29, "K": 7}, {"M": 3, "N": 17, "K": 2}):
        check(ordered({**sizes}), sizes, {})


def test_sizes_that_only_the_run_knows_take_the_plain_loop_where_turns_are_too_few() -> None:
    sizes: dict[str, Size] = {"M": 6, "N": 48, "K": "1..64@32"}
    made = ordered(sizes)
    assert isinstance(made.emitted, EmittedC)
    assert "pipelined: an iteration every" in made.emitted.source
    for iterations in (1, 2, 3, 40):
        check(made, {"M": 6, "N": 48, "K": iterations}, {"K": iterations})


def test_the_loads_of_the_next_turn_stand_in_the_loop() -> None:
    made = ordered({"M": 6, "N": 48, "K": 9})
    assert made.program
    loop = main_loop(made.program.body)
    assert loop is not None
    assert loop.trips.value == 8
    assert [i.instruction for i in issues_of(loop)].count("fma_ymm_f32") == 4


def test_sums_wait_a_latency_for_themselves_and_a_tick_for_their_loads() -> None:
    made = compiled({"M": 6, "N": 48, "K": 9}, "")
    assert made.program
    assert made.machine
    loop = main_loop(made.program.body)
    assert loop is not None
    steady = steady_of(loop, made.machine)
    sums = [i for i, o in enumerate(steady.operations) if o.name == "fma_ymm_f32"]
    around = {w.source: w.delay for w in steady.dependences if w.source == w.target}
    assert sorted(around) == sums
    assert set(around.values()) == {4}
    assert {w.delay for w in steady.dependences if w.target in sums and not w.distance} == {1}
    assert dict(steady.registers) == {"ymm": 16 - 4}


def test_an_order_that_overwrites_what_is_still_read_is_refused() -> None:
    sizes: dict[str, Size] = {"M": 6, "N": 48, "K": 9}
    with pytest.raises(UsageProblem) as caught:
        compiled(sizes, "pipeline every 4 at 0 0 0 0 0 0 0 0;")
    assert caught.value.diagnostics[0].code == "schedule-pipeline"
    with pytest.raises(UsageProblem) as caught:
        compiled(sizes, "pipeline every 4 at 0 1;")
    assert "need as many starts" in caught.value.diagnostics[0].message


def test_what_a_pipeline_says_is_bounded_before_anything_grows_with_it() -> None:
    count = len(STEADY.operations)
    for interval, start in ((10**17, 0), (1, 10**17)):
        assert said(Pipeline(interval, (*(0,) * (count - 1), start))) == [
            "an interval and a start are 4096 ticks at most"
        ]
    assert any(
        f"{4096 * count} operations are before and after the loop" in text
        for text in said(Pipeline(1, (*(0,) * (count - 1), 4096)))
    )


def test_an_operation_that_takes_very_long_is_counted_without_a_table_of_its_ticks() -> None:
    first, *others = STEADY.operations
    slow = replace(STEADY, operations=(replace(first, busy=10**17), *others))
    assert any(
        f"`{first.unit}` performs " in text for text in said(Pipeline(7, (0,) * len(STEADY.operations)), slow)
    )


# --- text -------------------------------------------------------------------------------------------------


def test_the_text_says_interval_and_starts() -> None:
    made = answer(GEMM, "m:6 n:64 | k:1 um:1 un:16")
    made = replace(made, nests=(replace(made.nests[0], pipeline=Pipeline(3, (0, 2, 4))),))
    text = print_schedule(made)
    assert "pipeline every 3 at 0 2 4;\n" in text
    assert parse_schedule(Source("s", text)) == made


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("pipeline every 0 at 1;", "iterations start one or more ticks apart"),
        ("pipeline at 1;", "`at` is not allowed here: expected `every`"),
        ("pipeline every 2 at ;", "`;` is not allowed here: expected a number"),
        ("pipeline every 2 at 1; pipeline every 2 at 1;", "a nest has one `pipeline`"),
    ],
)
def test_a_wrong_line_is_pointed_at(line: str, said: str) -> None:
    text = print_schedule(answer(GEMM, "m:6 n:64 | k:1 um:1 un:16")).replace("issue;", f"{line} issue;")
    with pytest.raises(SyntaxProblem) as caught:
        parse_schedule(Source("s", text))
    assert said in caught.value.diagnostics[0].render()
