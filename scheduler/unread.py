"""Why a nest has no price: in what it differs from all nests that decisions lead to.

for k by 512 { for k by 256 { ... for k by 1 {   ->   it has 3 loops over `k`, and decisions make two at most
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from isamap.plan.loops import LoopStep
from isamap.plan.problem import NestOption, NestProblem, Problem
from isamap.plan.schedule import NestSchedule, Schedule
from isamap.plan.text import loop_words
from isamap.scheduler.normal import normal_form
from isamap.scheduler.pricing import part_read, read_nest, readings

# Over the cache blocks of an axis, and over its register blocks.
MOST_LOOPS = 2


def why_unpriced(schedule: Schedule, problem: Problem) -> tuple[str, ...]:
    """Per statement of the problem why the model cannot say its cost; "" where it can."""
    nests = {nest.statement: nest for nest in schedule.nests}
    return tuple(
        _why(problem, nest, nests[nest.statement]) if nest.statement in nests else ""
        for nest in problem.nests
    )


def _why(problem: Problem, nest: NestProblem, chosen: NestSchedule) -> str:
    if read_nest(problem, nest, chosen) is not None:
        return ""
    options = [option for option in nest.options if option.mapping == chosen.mapping]
    if not options:
        return "none of the mappings that are priced is its own"
    parts = [part for option in options if (part := part_read(option, chosen)) is not None]
    if not parts:
        dealt = ", ".join(f"`{loop_words(loop)}`" for loop in chosen.loops[: chosen.parallel])
        return f"{dealt}: decisions do not deal such parts to threads"
    found = [reason for part in parts for reason in _differences(problem, nest, part, chosen)]
    # What agrees furthest is nearest to what was meant.
    return max(found, default=(0, "an axis has no loop"))[1]


def _differences(
    problem: Problem, nest: NestProblem, option: NestOption, chosen: NestSchedule
) -> Iterator[tuple[int, str]]:
    """What differs from each nest that it may stand for, with how far the two agree."""
    wanted = normal_form(chosen, option)
    loops = Counter(loop.axis for loop in wanted.loops if loop.counts)
    axis, count = max(loops.items(), key=lambda pair: pair[1], default=("", 0))
    if count > MOST_LOOPS:
        yield 0, f"it has {count} loops over `{axis}`, and decisions make two at most"
        return
    for _, built in readings(problem, nest, option, chosen):
        yield _difference(wanted, built)


def _difference(wanted: NestSchedule, built: NestSchedule) -> tuple[int, str]:
    """The first thing that differs, with how much agrees before it."""
    if wanted.loops != built.loops:
        return _of_loops(wanted.loops, built.loops)
    known = len(wanted.loops)
    if wanted.choose != built.choose:
        return known, "it chooses other parameters of the instruction than decisions do"
    if wanted.hold != built.hold:
        return (
            known + 1,
            f"its `hold` stands inside {wanted.hold} loops, and decisions place it inside {built.hold}",
        )
    if wanted.stages != built.stages:
        mine, theirs = set(wanted.stages), set(built.stages)
        names = ", ".join(f"`{name}`" for name in sorted({stage.operand for stage in mine ^ theirs}))
        return known + 2, f"{names}: decisions stage elsewhere, or not in this way"
    return known + 3, "decisions spread other results"


def _of_loops(wanted: Sequence[LoopStep], built: Sequence[LoopStep]) -> tuple[int, str]:
    pairs = zip(wanted, built, strict=False)
    same = next((n for n, (mine, theirs) in enumerate(pairs) if mine != theirs), min(len(wanted), len(built)))
    mine, theirs = (
        f"`{loop_words(loops[same])}`" if same < len(loops) else "no loop" for loops in (wanted, built)
    )
    return same, f"where it has {mine}, decisions lead to {theirs}"
