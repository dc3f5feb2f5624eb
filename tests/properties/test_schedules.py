"""On random problems: answers pass the judge, texts are read back, small spaces are searched completely."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice, product

import pytest
from conftest import EXAMPLES
from hypothesis import given, settings
from hypothesis import strategies as st
from plan_problems import problem, small_caches

from isamap.plan.check import check_schedule, live_registers
from isamap.plan.cost import evaluate
from isamap.plan.problem import (
    NestOption,
    Problem,
    Staging,
    TensorLayout,
    TileAxis,
    TileCosts,
    TileOperand,
    with_fields,
)
from isamap.plan.schedule import (
    CountedLoop,
    DeferredWriteBack,
    NestSchedule,
    Prefetch,
    Schedule,
    Stage,
    UnrolledLoop,
)
from isamap.plan.text import parse_schedule, print_schedule
from isamap.scheduler import AnalyticModel, schedule
from isamap.scheduler.deciding.orders import first_order
from isamap.scheduler.deciding.per_operand import open_values
from isamap.scheduler.deciding.space import Assignment, Space
from isamap.scheduler.deciding.summing import sum_choices
from isamap.scheduler.search.candidates import open_options
from isamap.scheduler.search.lower_bounds import costs_of, floors_of
from isamap.source import Source

ASKED = EXAMPLES if "ISAMAP_EXAMPLES" in os.environ else 0
"""How many examples a person has asked for: solving takes long, so that otherwise few are tried."""

NAMES = st.sampled_from(["m", "n", "k", "p.q", "x1"])
TIMES = st.floats(min_value=0, max_value=1e15) | st.none()


PLACES: list[tuple[str, int | None]] = [("", None), ("", None), ("spad", None), ("spad", 0), ("acc", 4096)]


def placed(operand: str, depth: int, ahead: int, place: tuple[str, int | None]) -> Stage:
    memory, address = place
    return Stage(operand, depth, ahead, memory=memory, address=address)


@st.composite
def nests(draw: st.DrawFn, statement: int) -> NestSchedule:
    """Any nest that the text can say, sensible or not."""
    steps = draw(
        st.lists(st.tuples(NAMES, st.integers(1, 2**40), st.sampled_from(["for", "unroll"])), max_size=6)
    )
    rests = st.sampled_from([(), (), (8, 4, 2, 1), (2**17, 48)])
    loops = tuple(
        CountedLoop(axis, step, draw(rests)) if kind == "for" else UnrolledLoop(axis, step)
        for axis, step, kind in steps
    )
    depths = st.integers(0, len(loops))
    built = st.builds(
        placed, st.sampled_from("abc"), depths, st.sampled_from([0, 0, 1, 16]), st.sampled_from(PLACES)
    )
    stages = draw(st.lists(built, max_size=3, unique_by=lambda stage: stage.operand))
    stages.sort(key=lambda stage: stage.depth)
    hints = st.builds(
        Prefetch, st.sampled_from("abc"), depths, st.sampled_from([1, 16]), st.sampled_from(["l1", "l2"])
    )
    late = [stage for stage in stages if draw(st.booleans())]
    return NestSchedule(
        statement,
        draw(st.sampled_from(["f", "fma { i: n } (a = A[m, k], b = B)", "g (a = max(A, 0.0))"])),
        draw(st.sampled_from([(), (("R", 16),), (("N", 1), ("R", 2))])),
        loops,
        tuple(stages),
        draw(depths),
        tuple(DeferredWriteBack(stage.operand, draw(NAMES)) for stage in late),
        prefetches=tuple(sorted(draw(st.lists(hints, max_size=2)), key=lambda hint: hint.depth)),
    )


@st.composite
def schedules(draw: st.DrawFn) -> Schedule:
    """Any schedule that the text can say."""
    count = draw(st.integers(1, 3))
    return Schedule(
        "kernel_1",
        draw(st.sampled_from(["x86-avx512", "./a b.yaml"])),
        draw(st.sampled_from([(), (("K", 3), ("M", "1..9@4"))])),
        tuple(draw(nests(number)) for number in range(count)),
        draw(st.sampled_from(["", "analytic"])),
        draw(TIMES),
        draw(TIMES),
        draw(st.sampled_from(["OPTIMAL", "FEASIBLE", "HEURISTIC", "MANUAL"])),
        draw(st.booleans()),
    )


@given(schedules())
def test_reading_a_printed_schedule_gives_it_back(given_schedule: Schedule) -> None:
    assert parse_schedule(Source("s", print_schedule(given_schedule))) == given_schedule


# --- random problems --------------------------------------------------------------------------------------


@st.composite
def problems(draw: st.DrawFn, largest: int) -> Problem:
    """Products of two inputs with two or three axes of any roles."""
    tiles = st.sampled_from([1, 1, 2, 4])
    axes = [TileAxis(name, draw(st.integers(1, largest)), draw(tiles), name == "k") for name in "mnk"]
    axes = axes[: draw(st.integers(2, 3))]
    shared = ("m",) if draw(st.booleans()) else ()
    followed = {"a": ("m", "k"), "b": (*shared, "k", "n"), "c": ("m", "n")}
    times_ns = st.sampled_from([0.0, 0.5, 1.0, 3.0])
    operands: list[TileOperand] = []
    for name, all_axes in followed.items():
        own = tuple(axis.name for axis in axes if axis.name in all_axes)
        direct = draw(times_ns | st.none())
        staged = draw(times_ns if direct is None else times_ns | st.none())
        wide = name == "c" and staged is not None and draw(st.booleans())
        pack = draw(st.sampled_from([0.0, 0.2, 1.0]))
        width = draw(st.sampled_from([2, 4]))
        operand = TileOperand(
            name,
            name.upper(),
            own,
            name == "c",
            "reg",
            1,
            4,
            TensorLayout(width),
            TileCosts(direct, staged),
            Staging(4, pack, stage_whole=wide),
        )
        if own and draw(st.booleans()):
            operand = with_fields(operand, dense_axis=own[-1], pitch_bytes=draw(st.sampled_from([64, 4096])))
        operands.append(operand)
    option = NestOption("f", (), tuple(axes), tuple(operands), draw(times_ns), draw(times_ns))
    kept_ns = draw(st.sampled_from([0, 4, 40]))
    caches = tuple(replace(c, kept_ns=kept_ns) for c in small_caches(draw(st.sampled_from([64, 256, 4096]))))
    question = problem(option, registers={"reg": draw(st.sampled_from([3, 6, 16]))})
    rows = replace(question.memory_rows, again_ns=12.0)
    return replace(question, caches=caches, memory_bandwidth_bytes_per_ns=1.0, memory_rows=rows)


@given(problems(largest=2000))
@settings(max_examples=max(60, ASKED))
def test_answers_pass_the_judge(question: Problem) -> None:
    for heuristic in ("greedy", "cpsat"):
        found = schedule(question, heuristic=heuristic, limit_s=2.0)
        assert check_schedule(found, question) == ()
        assert found.lower_bound_ns is not None
        assert found.cost_ns is not None
        assert found.lower_bound_ns <= found.cost_ns


@pytest.mark.exhaustive
@given(problems(largest=6))
@settings(max_examples=max(60, ASKED))
def test_the_solver_finds_what_complete_search_finds(question: Problem) -> None:
    found = schedule(question)
    least = min(every_cost(question))
    assert found.cost_ns is not None
    assert found.lower_bound_ns is not None
    assert found.status == "OPTIMAL"
    assert abs(found.cost_ns - least) <= 1e-3 * least + 1e-12
    assert found.lower_bound_ns <= least * (1 + 1e-9)


@given(problems(largest=8), st.sampled_from(["registers", "cache", "bandwidth"]), st.sampled_from([2, 3, 8]))
@settings(max_examples=max(20, ASKED))
def test_a_larger_machine_never_makes_the_optimum_worse(question: Problem, what: str, factor: int) -> None:
    caches = question.caches
    match what:
        case "registers":
            more = replace(question, registers=tuple((n, factor * c) for n, c in question.registers))
        case "cache":
            grown = replace(caches[0], capacity_bytes=min(factor * caches[0].capacity_bytes, 8192))
            more = replace(question, caches=(grown, *caches[1:]))
        case _:
            faster = replace(caches[1], bandwidth_bytes_per_ns=factor * caches[1].bandwidth_bytes_per_ns)
            more = replace(question, caches=(caches[0], faster))
    small, large = schedule(question), schedule(more)
    assert small.status == large.status == "OPTIMAL"
    assert small.cost_ns is not None
    assert large.cost_ns is not None
    assert large.cost_ns <= small.cost_ns * (1 + 1e-3) + 1e-9


@given(problems(largest=4), st.sampled_from([0.3, 0.8]))
@settings(max_examples=max(20, ASKED))
def test_a_faster_unit_costs_no_more_whatever_is_decided(question: Problem, factor: float) -> None:
    model, (nest,) = AnalyticModel(), question.nests
    (option,) = nest.options
    fast = replace(option, interval_ns=factor * option.interval_ns)
    usual, less = (model.expression(question, nest, o) for o in (option, fast))
    for assignment in every_assignment(Space(0, option, dict(question.registers), {})):
        assert evaluate(less, assignment) <= evaluate(usual, assignment) * (1 + 1e-9)


@given(problems(largest=6))
@settings(max_examples=max(20, ASKED))
def test_bounds_hold_everywhere(question: Problem) -> None:
    (option,) = open_options(question, question.nests[0], AnalyticModel(), {})
    space = option.space
    floors = floors_of(option.cost, space, option.register_blocks)
    assert option.floor_ns == min(floors)
    for assignment in every_assignment(space):
        own = {axis.name: assignment[space.unroll(axis)] for axis in space.register_axes}
        floor = floors[option.register_blocks.index(own)]
        assert floor <= float(evaluate(option.cost, assignment)) * (1 + 1e-9)


@given(problems(largest=6))
@settings(max_examples=max(20, ASKED))
def test_many_costs_at_once_are_those_of_each(question: Problem) -> None:
    (option,) = open_options(question, question.nests[0], AnalyticModel(), {})
    some = list(islice(every_assignment(option.space), 0, 4000, 37))
    found = costs_of(option.cost, {}, some)
    assert found == pytest.approx([float(evaluate(option.cost, assignment)) for assignment in some])


def every_cost(question: Problem) -> Iterator[float]:
    """Yield the costs of all feasible assignments of the only option."""
    (option,) = open_options(question, question.nests[0], AnalyticModel(), {})
    for assignment in every_assignment(option.space):
        yield float(evaluate(option.cost, assignment))


def every_assignment(space: Space) -> Iterator[Assignment]:
    """Yield each register block with each choice of everything else; orders with circles left out."""
    orders = [name for name, _, _ in (*space.order_pairs(), *space.sweep_pairs())]
    stages = [[(space.stage(o), value) for value in space.stage_values(o)] for o in space.option.operands]
    others = [[(name, value) for value in values] for name, values in open_values(space).items()]
    for block in space.register_blocks():
        for summed in sum_choices(space, block):
            unrolled = {space.unroll(axis): block[axis.name] for axis in space.register_axes} | summed
            blocks = [
                [
                    (space.block(axis), size)
                    for size in space.blocks(axis, unrolled.get(space.unroll(axis), 1))
                ]
                for axis in space.axes
            ]
            for chosen in product(*blocks, *stages, *others, *([(name, 0), (name, 1)] for name in orders)):
                assignment = unrolled | dict(chosen)
                without_circles = first_order(space.axes, space.order_pairs(), assignment) is not None
                if without_circles and space.is_feasible(assignment):
                    yield assignment


@given(problems(largest=40))
@settings(max_examples=max(40, ASKED))
def test_the_judge_and_the_solver_agree_about_registers(question: Problem) -> None:
    nest = schedule(question, heuristic="greedy").nests[0]
    needed = live_registers(nest, question.nests[0].options[0])
    assert needed["reg"] <= dict(question.registers)["reg"]
