"""Good schedules, each spoilt in one way by hand: the independent check finds every one, in these words.

The findings stand in `corruptions.txt`, under the name of each corruption. `pytest --snapshot-update` writes
them anew; review them like code.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from plan_problems import answer, elementwise, gemm, tiled_gemm

from isamap.plan.check import check_schedule
from isamap.plan.problem import Fusion, NestProblem, Problem, with_fields
from isamap.plan.schedule import (
    CountedLoop,
    DeferredWriteBack,
    LoopStep,
    NestSchedule,
    Prefetch,
    Schedule,
    Stage,
    UnrolledLoop,
)

TEXTS = Path(__file__).with_name("corruptions.txt")

# gemm: 0 n:512  1 k:256  2 m:6  3 n:64  hold  4 k:1  5 unroll m:1  6 unroll n:16; b staged within n and k
GEMM = gemm(1024, 1024, 1024)
GOOD = answer(GEMM, "n:512 k:256 m:6 n:64 | k:1 um:1 un:16", (Stage("b", 2),))
# tiles: 0 k:256  1 n:256  2 m:32  3 n:32  hold  4 k:32  5 unroll m:16  6 unroll n:16; sums cut, so c staged
TILED = tiled_gemm(1024, 1024, 1024)
TILES = answer(TILED, "k:256 n:256 m:32 n:32 | k:32 um:16 un:16", (Stage("c", 0), Stage("b", 2)))
# two statements
TWO = replace(GEMM, nests=(*GEMM.nests, replace(elementwise(64, 64).nests[0], statement=1)))
BOTH = replace(
    GOOD,
    nests=(
        *GOOD.nests,
        replace(answer(elementwise(64, 64), "m:1 n:16 | ").nests[0], statement=1),
    ),
)

# a machine with a hint into its second cache, and an operand that is read inside another
OPTION = GEMM.nests[0].options[0]
PART = with_fields(OPTION.operands[0], name="a.0", registers=0, staged_ns=None)
READ_INSIDE = replace(
    GEMM,
    nests=(replace(GEMM.nests[0], options=(replace(OPTION, operands=(*OPTION.operands, PART)),)),),
    hinted=("l2",),
)

# a statement that begins the sums, which are held until they are whole
BEGINNING = NestProblem(1, (replace(OPTION, fusions=(Fusion(0, (), 0.0),)),))
BEGUN = replace(READ_INSIDE, nests=(replace(elementwise(64, 64).nests[0], statement=0), BEGINNING))
UNCUT = answer(GEMM, "n:512 m:6 n:64 | k:1 um:1 un:16")

# b passed packed
PACKED = replace(
    GEMM,
    nests=(
        replace(
            GEMM.nests[0],
            options=(
                replace(
                    OPTION,
                    operands=tuple(
                        with_fields(o, direct_ns=None, is_packed=True) if o.name == "b" else o
                        for o in OPTION.operands
                    ),
                ),
            ),
        ),
    ),
)
GIVEN = answer(PACKED, "n:512 k:256 m:6 n:64 | k:1 um:1 un:16", (Stage("b", 0, packed=True),))

Change = Callable[[NestSchedule], NestSchedule]


def loops(*changes: tuple[int, LoopStep | None]) -> Change:
    """Loops replaced, or taken out, by number."""

    def change(nest: NestSchedule) -> NestSchedule:
        changed = dict(changes)
        made = [changed.get(number, loop) for number, loop in enumerate(nest.loops)]
        return replace(nest, loops=tuple(loop for loop in made if loop is not None))

    return change


def step(number: int, size: int) -> Change:
    """Another step of a loop."""
    return lambda nest: loops((number, replace(nest.loops[number], step=size)))(nest)


def swapped(one: int, other: int) -> Change:
    """Return two loops exchanged."""
    return lambda nest: loops((one, nest.loops[other]), (other, nest.loops[one]))(nest)


def stages(*found: Stage) -> Change:
    """Other stages."""
    return lambda nest: replace(nest, stages=found)


def of(nest: Change, base: Schedule = GOOD) -> Schedule:
    """Return a schedule whose first nest is spoilt."""
    return replace(base, nests=(nest(base.nests[0]), *base.nests[1:]))


CORRUPTIONS: dict[str, tuple[Problem, Schedule]] = {
    # what it is for
    "another kernel": (GEMM, replace(GOOD, kernel="gemv")),
    "another machine": (GEMM, replace(GOOD, machine="elsewhere")),
    "another size": (GEMM, replace(GOOD, sizes=(("K", 1024), ("M", 1024), ("N", 1000)))),
    "a size left out": (GEMM, replace(GOOD, sizes=GOOD.sizes[1:])),
    "a nest left out": (TWO, GOOD),
    "a nest too many": (GEMM, BOTH),
    "a nest twice": (TWO, replace(GOOD, nests=(GOOD.nests[0], GOOD.nests[0]))),
    "nests under each other's numbers": (
        TWO,
        replace(BOTH, nests=tuple(replace(nest, statement=1 - nest.statement) for nest in BOTH.nests)),
    ),
    # names
    "a mapping of another instruction": (GEMM, of(lambda n: replace(n, mapping="fma8 { i: n } (a = A)"))),
    "a parameter that is not chosen": (GEMM, of(lambda n: replace(n, choose=(("R", 16),)))),
    "another value of a parameter": (TILED, of(lambda n: replace(n, choose=(("N", 8), ("R", 16))), TILES)),
    "a loop over an axis that is none": (GEMM, of(loops((2, CountedLoop("x", 6))))),
    "a stage of an operand that is none": (GEMM, of(stages(Stage("d", 2)))),
    # loops
    "an innermost loop left out": (GEMM, of(loops((4, None)))),
    "all loops of an axis left out": (GEMM, of(loops((2, None), (5, None)))),
    "an innermost step too large": (GEMM, of(step(4, 2))),
    "an innermost step too small": (GEMM, of(step(6, 8))),
    "a step of nothing": (GEMM, of(step(2, 0))),
    "a step below nothing": (GEMM, of(step(2, -6))),
    "a step that cuts an issue": (GEMM, of(step(3, 40))),
    "a step as large as the one around it": (GEMM, of(step(3, 512))),
    "a step larger than the one around it": (GEMM, of(step(0, 32))),
    "a step beyond 31 bits": (GEMM, of(step(0, 1 << 32))),
    "loops of an axis exchanged": (GEMM, of(swapped(0, 3))),
    "a loop outside unrolled": (GEMM, of(loops((2, UnrolledLoop("m", 6))))),
    "a loop inside unrolled ones": (GEMM, of(swapped(4, 5))),
    "an unrolled loop not unrolled": (GEMM, of(loops((5, CountedLoop("m", 1))))),
    # rests
    "a rest that no piece performs": (GEMM, of(lambda n: loops((2, replace(n.loops[2], rest=(2, 1))))(n))),
    "a rest that ends within a tile": (GEMM, of(lambda n: loops((3, replace(n.loops[3], rest=(32, 8))))(n))),
    "pieces of blocks that are not unrolled": (
        GEMM,
        of(lambda n: loops((1, replace(n.loops[1], rest=(128, 64))))(n)),
    ),
    # where accumulators are held
    "hold within unrolled loops": (GEMM, of(lambda n: replace(n, hold=6))),
    "hold beyond all loops": (GEMM, of(lambda n: replace(n, hold=99))),
    "hold before all loops": (GEMM, of(lambda n: replace(n, hold=-1))),
    "hold around loops that move the output": (GEMM, of(lambda n: replace(n, hold=2))),
    "sums cut without a buffer": (TILED, of(stages(Stage("b", 2)), TILES)),
    "sums cut around their buffer": (TILED, of(stages(Stage("c", 1), Stage("b", 2)), TILES)),
    # registers
    "a register block one row too high": (GEMM, of(step(2, 7))),
    "a register block twice as wide": (GEMM, of(step(3, 128))),
    "tiles unrolled three by three": (TILED, of(lambda n: step(2, 48)(step(3, 48)(step(1, 240)(n))), TILES)),
    "a sum unrolled as a whole": (GEMM, of(loops((4, UnrolledLoop("k", 1))))),
    # stages
    "a stage inside hold": (GEMM, of(stages(Stage("b", 5)))),
    "a stage before all loops": (GEMM, of(stages(Stage("b", -1)))),
    "a stage inside more loops than there are": (GEMM, of(stages(Stage("b", 99, ahead=1)))),
    "a prefetch inside more loops than there are": (
        READ_INSIDE,
        of(lambda n: replace(n, prefetches=(Prefetch("b", 99, 1, "l2"),))),
    ),
    "a stage twice": (GEMM, of(stages(Stage("b", 0), Stage("b", 2)))),
    "a stage left out that has to be": (TILED, of(stages(Stage("c", 0)), TILES)),
    "a stage of what no move brings back": (
        TWO,
        replace(BOTH, nests=(BOTH.nests[0], replace(BOTH.nests[1], stages=(Stage("c", 0),)))),
    ),
    "a buffer beyond all memory": (
        gemm(1 << 31, 1 << 31, 1 << 31),
        answer(gemm(1 << 31, 1 << 31, 1 << 31), "m:1 n:16 | k:1", (Stage("b", 0),)),
    ),
    # what crosses iterations of a loop
    "a buffer filled ahead of nothing": (GEMM, of(stages(Stage("b", 0, ahead=1)))),
    "an accumulator filled ahead": (TILED, of(stages(Stage("c", 0, ahead=1), Stage("b", 2)), TILES)),
    "a result spread that is not staged": (
        GEMM,
        of(lambda n: replace(n, spread=(DeferredWriteBack("c", "k"),))),
    ),
    "an input spread": (GEMM, of(lambda n: replace(n, spread=(DeferredWriteBack("b", "k"),)))),
    "a prefetch of what is read inside another operand": (
        READ_INSIDE,
        of(lambda n: replace(n, prefetches=(Prefetch("a.0", 3, 1, "l2"),))),
    ),
    "a prefetch into a cache without a hint": (
        READ_INSIDE,
        of(lambda n: replace(n, prefetches=(Prefetch("a", 3, 1, "l3"),))),
    ),
    "a prefetch of sums that begin with a fused statement": (
        BEGUN,
        of(lambda n: replace(n, prefetches=(Prefetch("c", 2, 1, "l2"),), statement=1, fused=(0,)), UNCUT),
    ),
    "a prefetch of a buffer in a scratchpad": (
        READ_INSIDE,
        of(
            lambda n: replace(
                n, stages=(Stage("b", 0, memory="spad"),), prefetches=(Prefetch("b", 2, 1, "l2"),)
            )
        ),
    ),
    "a prefetch of what the loop does not move": (
        READ_INSIDE,
        of(lambda n: replace(n, prefetches=(Prefetch("b", 3, 1, "l2"),))),
    ),
    "an operand packed that is not asked to be": (GEMM, of(stages(Stage("b", 0, packed=True)))),
    "a packed operand copied again": (PACKED, of(stages(Stage("b", 0)), GIVEN)),
    "a packed operand read where it was": (PACKED, of(stages(), GIVEN)),
    "an operand packed inside loops": (PACKED, of(stages(Stage("b", 2, packed=True)), GIVEN)),
    "a result spread into no loop": (
        TILED,
        of(lambda n: replace(n, spread=(DeferredWriteBack("c", "x"),)), TILES),
    ),
}


def findings(problem: Problem, schedule: Schedule) -> str:
    return "\n".join(finding.render() for finding in check_schedule(schedule, problem))


def test_there_are_enough_corruptions() -> None:
    assert len(CORRUPTIONS) >= 30


@pytest.mark.parametrize(("problem", "good"), [(GEMM, GOOD), (TILED, TILES), (TWO, BOTH), (PACKED, GIVEN)])
def test_the_schedules_that_are_spoilt_are_good(problem: Problem, good: Schedule) -> None:
    assert check_schedule(good, problem) == ()


@pytest.mark.parametrize("name", CORRUPTIONS)
def test_a_corruption_is_found(name: str) -> None:
    assert findings(*CORRUPTIONS[name]) != ""


def test_each_corruption_is_found_in_these_words(pytestconfig: pytest.Config) -> None:
    found = "\n\n".join(f"# {name}\n{findings(*spoilt)}" for name, spoilt in CORRUPTIONS.items()) + "\n"
    if pytestconfig.getoption("update_snapshots"):
        TEXTS.write_text(found, encoding="utf-8")
    assert found == TEXTS.read_text(encoding="utf-8")
