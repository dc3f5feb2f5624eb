"""One schedule with and without work of one iteration performed during another, in alternation in one run.

    python benchmarks/overlap.py                       the cases below: packed ahead, pipelined
    python benchmarks/overlap.py prefetches            and each prefetch that they may have
    python benchmarks/overlap.py gemm_f32 x86-avx512 M=1024 N=1024 K=1024 a.schedule b.schedule
    python benchmarks/overlap.py gemm_bf16 x86-amx M=64 N=512 K=512 nest0.stage.b=1

The first form takes the solver's schedule and changes one thing at a time; so does the last, with decisions
that are fixed. The one in between compares schedules from files with the solver's. One thread; contenders
take turns, in another order each round. Time is what the thread has spent on a processor, so that other
programs on this processor do not count; those that share its caches do. What counts is the median of the
paired ratios, above 1 where the change is faster; the interval holds half of them.
"""

from __future__ import annotations

import random
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from isamap.driver.pipeline import compile_kernel
from isamap.driver.refining import with_pipelines
from isamap.driver.request import Request
from isamap.emit.c import EmittedC
from isamap.kernels import kernel_path
from isamap.plan.schedule import NestSchedule, Prefetch, Schedule, Stage
from isamap.plan.text import print_schedule
from isamap.run.fills import make_arrays
from isamap.run.in_process import InProcess
from isamap.run.toolchain import compile_library
from isamap.source import Source

ROUNDS = 61
PREFETCHES = "prefetches" in sys.argv[1:]
LEAST_S = 0.002  # a round repeats a contender until it has run so long
CASES = (
    ("gemm_f32", "x86-avx512", {"M": 512, "N": 512, "K": 512}),
    ("gemm_f32", "x86-avx512", {"M": 1024, "N": 1024, "K": 1024}),
    ("gemm_f32", "x86-avx512", {"M": 1760, "N": 128, "K": 1760}),
    ("gemm_bf16", "x86-avx512-bf16", {"M": 512, "N": 512, "K": 512}),
    ("gemm_bf16", "x86-avx512-bf16", {"M": 1024, "N": 1024, "K": 1024}),
    ("gemm_u8s8", "x86-avx512-vnni", {"M": 512, "N": 512, "K": 512}),
    ("gemm_u8s8", "x86-avx512-vnni", {"M": 1024, "N": 1024, "K": 1024}),
)


def main() -> None:
    """Compare, print."""
    if len(sys.argv) > 2:
        kernel, hw, *rest = sys.argv[1:]
        given = {name: int(value) for name, _, value in (w.partition("=") for w in rest if "=" in w)}
        sizes = {name: value for name, value in given.items() if "." not in name}
        fixed = {name: value for name, value in given.items() if "." in name}
        files = [word for word in rest if "=" not in word]
        named = [(Path(f).stem, Path(f).read_text()) for f in files]
        compare(kernel, hw, sizes, lambda schedule: named or variants(schedule), fixed)
        return
    for kernel, hw, sizes in CASES:
        compare(
            kernel,
            hw,
            sizes,
            lambda schedule: (*variants(schedule), *(prefetched(schedule) if PREFETCHES else ())),
        )


def prefetched(schedule: Schedule) -> Iterator[tuple[str, str]]:
    """Yield the schedule with each prefetch that it may have, one at a time."""
    nest = schedule.nests[0]
    for depth in range(1, nest.hold + 1):
        around = nest.loops[depth - 1].axis
        for operand, axes in (("a", "mk"), ("b", "kn"), ("c", "mn")):
            for cache in ("l1", "l2") if around in axes else ():
                added = replace(nest, prefetches=(Prefetch(operand, depth, 1, cache),))
                yield f"{operand} at {depth} into {cache}", print_schedule(replace(schedule, nests=(added,)))


def variants(schedule: Schedule) -> Iterator[tuple[str, str]]:
    """Yield the schedule with one thing changed, where it can be."""
    for name, change in CHANGES.items():
        nests = tuple(change(nest) for nest in schedule.nests)
        if nests != schedule.nests:
            yield name, print_schedule(replace(schedule, nests=nests))


def _ahead(nest: NestSchedule, into: str = "") -> NestSchedule:
    """Inputs packed one iteration ahead, where a loop stands around the packing."""
    stages = tuple(
        replace(stage, ahead=1, into=into) if stage.depth and stage.operand != "c" else stage
        for stage in nest.stages
    )
    return replace(nest, stages=stages)


def _beside_the_sum(nest: NestSchedule) -> NestSchedule:
    """Return the same dealt to the loop that sums."""
    inside = [loop.axis for loop in nest.loops[nest.hold :] if loop.counts]
    return _ahead(nest, inside[-1]) if inside else nest


def _deeper(nest: NestSchedule, ahead: int) -> NestSchedule:
    """Inputs packed as a whole: packed instead per iteration of the next loop that they follow."""
    stages: list[Stage] = []
    for stage in nest.stages:
        around = nest.loops[stage.depth : nest.hold]
        turns = [n for n, loop in enumerate(around) if loop.axis == "n" and stage.operand == "b"]
        if stage.depth == 0 and turns == [0]:
            stages.append(replace(stage, depth=1, ahead=ahead))
        else:
            stages.append(stage)
    return replace(nest, stages=tuple(sorted(stages, key=lambda s: s.depth)))


CHANGES: Mapping[str, Callable[[NestSchedule], NestSchedule]] = {
    "ahead": _ahead,
    "ahead, beside the sum": _beside_the_sum,
    "per turn": lambda nest: _deeper(nest, 0),
    "per turn, ahead": lambda nest: _deeper(nest, 1),
}


def compare(
    kernel: str,
    hw: str,
    sizes: Mapping[str, int],
    others: Callable[[Schedule], Iterable[tuple[str, str]]],
    fixed: Mapping[str, int] | None = None,
) -> None:
    """Print the ratios of one case."""
    path = kernel_path(kernel)
    source = Source(path.name, path.read_text())
    made = compile_kernel(Request(source, hw, sizes, fixed=dict(fixed or {})))
    assert made.schedule
    texts = {"solver's": print_schedule(made.schedule), **dict(others(made.schedule))}
    if len(sys.argv) < 3:
        assert made.canonical
        assert made.machine
        pipelined = with_pipelines(made.schedule, made.canonical, made.machine, 5.0)
        texts["pipelined"] = print_schedule(pipelined.schedule)
    arrays = make_arrays(made.kernel, "random")
    contenders: dict[str, Callable[[], object]] = {}
    for name, text in texts.items():
        compiled = compile_kernel(Request(source, hw, sizes, schedule=Source(name, text)))
        assert isinstance(compiled.emitted, EmittedC)
        assert compiled.machine
        program = InProcess(compile_library(compiled.emitted, compiled.machine))
        contenders[name] = lambda program=program: program(arrays)
    seconds = time_alternately(contenders)
    print(f"{kernel} on {hw}: {', '.join(f'{n} = {v}' for n, v in sizes.items())}")
    for name, times in seconds.items():
        pairs = sorted(s / t for s, t in zip(seconds["solver's"], times, strict=True))
        low, middle, high = (pairs[len(pairs) * q // 4] for q in (1, 2, 3))
        print(
            f"  {name:20} min {min(times) * 1e6:9.1f} us  median {statistics.median(times) * 1e6:9.1f} us  "
            f"{middle:5.3f} times as fast ({low:.3f} .. {high:.3f})",
            flush=True,
        )


def time_alternately(contenders: Mapping[str, Callable[[], object]]) -> dict[str, list[float]]:
    """Seconds of each contender, per round. The first round warms up and does not count."""
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    counts = {name: max(1, round(LEAST_S / max(1e-9, timed(call, 1)))) for name, call in contenders.items()}
    for turn in range(ROUNDS + 1):
        order = list(contenders)
        random.shuffle(order)
        for name in order:
            spent = timed(contenders[name], counts[name])
            if turn:
                seconds[name].append(spent)
    return seconds


def timed(call: Callable[[], object], count: int) -> float:
    """Seconds of one call."""
    started = time.thread_time()
    for _ in range(count):
        call()
    return (time.thread_time() - started) / count


if __name__ == "__main__":
    main()
