"""What an ordered loop carries: when it may turn inside a nest, and what stays in registers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from isamap.driver.pipeline import Compilation, compile_kernel
from isamap.driver.request import Request
from isamap.formulate.option import carried_axis
from isamap.lower.program import Block, For, If, Issue, Node, Parallel
from isamap.plan.check import check_schedule
from isamap.plan.steady import Pipeline
from isamap.plan.text import parse_schedule, print_schedule
from isamap.source import Source, SyntaxProblem
from isamap.syntax import parse_kernel
from isamap.transform import statements

STEP = "y[m, n + 1] = y[m, n] + x[m, n + 1];"


def text(
    step: str = STEP, declared: str = "", extent: str = "N - 1", loop: str = "for m in M", wide: str = ""
) -> str:
    return f"""kernel k(M, N) {{
  in x: f32[M, N];
  in z: f32[N, M];
  inout y: f32[M, N]{wide};
  {declared}
  {loop} {{ seq n in {extent} {{ {step} }} }}
}}"""


def carried(**changed: str) -> str | None:
    kernel = parse_kernel(Source("k.ir", text(**changed)))
    axis = carried_axis(statements(kernel)[-1], kernel)
    return axis.name if axis is not None else None


@pytest.mark.parametrize(
    "step",
    [
        STEP,
        "y[m, n + 1] = 0.5 * y[m, n] + x[m, n] * z[n, m];",
        "y[m, N - 2 - n] = y[m, N - 1 - n] + x[m, n];",
        "y[m, n + 1] = max(y[m, n], x[m, n]) - y[m, n];",
    ],
)
def test_what_the_turn_before_wrote_is_carried(step: str) -> None:
    assert carried(step=step) == "n"


def test_several_turns_back_are_carried() -> None:
    step = "y[m, n + 2] = 0.5 * y[m, n + 1] - 0.25 * y[m, n] + x[m, n];"
    assert carried(step=step, extent="N - 2") == "n"


@pytest.mark.parametrize(
    "changed",
    [
        {"step": "y[m, n + 1] = x[m, n];"},
        {"step": "y[m, n + 1] = y[m, n] + y[m, 0];"},
        {"step": "y[m, n + 1] = y[M - 1 - m, n] + x[m, n];", "loop": "seq m in M"},
        {"step": "y[m, n + 1] += y[m, n];"},
        {"step": STEP + " s[m] += y[m, n + 1];", "declared": "inout s: f32[M];"},
        {"step": STEP, "wide": " accumulate f64"},
    ],
    ids=["nothing", "another element", "another row", "a sum", "two statements", "rounded in the end"],
)  # fmt: skip
def test_nothing_is_carried_where_rows_meet_or_more_than_the_last_turns_is_read(
    changed: dict[str, str],
) -> None:
    assert carried(**changed) is None


def compiled(
    hw: str = "x86-avx512", schedule: str | None = None, n: int = 1024, threads: int = 1
) -> Compilation:
    given = Source("k.schedule", schedule) if schedule is not None else None
    request = Request(
        Source("k.ir", text()), hw, {"M": 256, "N": n}, schedule=given, threads=threads, cache=False
    )
    return compile_kernel(request, stop_after="lower")


def inside(nodes: tuple[Node, ...]) -> Iterator[Node]:
    for node in nodes:
        yield node
        if isinstance(node, For | If | Block | Parallel):
            yield from inside(node.body)


def test_a_running_sum_loads_what_it_adds_and_nothing_else() -> None:
    program = compiled().program
    assert program is not None
    (iterations,) = [node for node in inside(program.body) if isinstance(node, For) and node.variable == "n"]
    issued = [node.instruction for node in iterations.body if isinstance(node, Issue)]
    assert issued == ["load_f32", "add_f32", "store_f32"] * (len(issued) // 3)
    assert len(issued) > 3, "several rows hide each other's sums"


def unrolled(n: int) -> int:
    made = compiled(n=n)
    assert made.problem is not None
    assert made.schedule is not None
    (nest,) = made.schedule.nests
    return nest.loops[nest.loops_around_unrolled - 1].step


def test_no_more_rows_stand_side_by_side_than_sets_hold() -> None:
    assert 2 <= unrolled(1024) <= 4, "8 ways hold a line of 4 rows of each of two arrays"
    assert unrolled(1040) > 4


def test_a_schedule_says_what_is_carried_and_does_as_it_says() -> None:
    made = compiled()
    assert made.schedule is not None
    assert made.problem is not None
    shown = print_schedule(made.schedule)
    assert "    hold;\n    carry n;\n    unroll m by 1 {" in shown
    assert parse_schedule(Source("s", shown)).nests == made.schedule.nests
    outside = compiled(schedule=shown.replace("    carry n;\n", "")).program
    assert outside is not None
    assert isinstance(outside.body[0], For)
    assert outside.body[0].variable == "n", "without the line the ordered loop stands outside"
    with pytest.raises(SyntaxProblem, match="may be around unrolled loops only"):
        parse_schedule(
            Source("s", shown.replace("  for m by", "  carry n; for m by").replace("    carry n;\n", ""))
        )
    with pytest.raises(SyntaxProblem, match="a nest has one `carry`"):
        parse_schedule(Source("s", shown.replace("carry n;", "carry n; carry n;")))


@pytest.mark.parametrize(
    ("axis", "pipeline", "said"),
    [
        ("m", None, "no values can be carried along `m`"),
        ("n", Pipeline(1, (0,)), "iterations along `n` depend on each other and cannot be pipelined"),
    ],
)
def test_the_judge_knows_what_can_be_carried(axis: str, pipeline: Pipeline | None, said: str) -> None:
    made = compiled()
    assert made.schedule is not None
    assert made.problem is not None
    assert check_schedule(made.schedule, made.problem) == ()
    (nest,) = made.schedule.nests
    spoilt = replace(made.schedule, nests=(replace(nest, carried=axis, pipeline=pipeline),))
    found = check_schedule(spoilt, made.problem)
    assert [d.code for d in found] == ["schedule-carry"]
    assert said in found[0].message


def test_threads_start_once_where_the_ordered_loop_turns_inside() -> None:
    alone, both = compiled().schedule, compiled(threads=2).schedule
    assert alone is not None
    assert both is not None
    assert both.nests[0].parallel == 1
    assert (both.cost_ns or 0.0) < 0.6 * (alone.cost_ns or 0.0)
