"""Time functions in a child process: compiled in groups, called in alternation, with many short samples.

Each round calls every function a few times, so that other work on the computer disturbs a few samples of each
function and not all samples of one.
"""

from __future__ import annotations

import mmap
from collections.abc import Callable
from pathlib import Path
from typing import Any

from isamap.run.child import ChildLimits, ChildProgram, RunProblem, run_child, shared_file
from isamap.run.toolchain import Compiler
from isamap.source.numbers import Spread
from isamap.source.records import dataclass

SAMPLE_NS = 30_000
SAMPLES = 5
LEAST_ROUNDS = 4
MOST_ROUNDS = 200
_MARGIN_SECONDS = 60.0
PAGE = mmap.PAGESIZE
ARENA = -1
"""As a place: the large memory that all functions share."""


@dataclass(frozen=True, slots=True)
class Timed:
    """A function to time, with its operands, its numbers, and the quantity of one iteration.

    `data` has the bytes of each operand, or ARENA. Units: `per_trip` is how many of the quantity (issues,
    bytes) one trip performs, `sample_ns` how long a sample should take at least.
    """

    library: int
    function: str
    data: tuple[bytes | int, ...]
    numbers: tuple[int, ...]
    per_trip: float
    sample_ns: int = SAMPLE_NS


@dataclass(frozen=True, slots=True)
class TimingPlan:
    """All functions that one child process times. Units: bytes of the arena, seconds for sampling."""

    name: str
    libraries: tuple[Path, ...]
    compiler: Compiler
    timed: tuple[Timed, ...]
    permissions: tuple[int, ...]
    arena_bytes: int
    budget_seconds: float


def time_all(
    plan: TimingPlan, page: bytes, watch: Callable[[str], None] = lambda _: None
) -> tuple[Spread | str, ...]:
    """Return for each function the ns per quantity, or how it ended the process. `page` fills the arena.

    Raises: RunProblem if no function is to blame; MissingTool without a permission.
    """
    assert len(page) == PAGE, "one page of random bytes"
    image = bytearray(PAGE) + page
    places = [_place(image, timed) for timed in plan.timed]
    found: list[Spread | str] = [""] * len(plan.timed)
    pending = list(range(len(plan.timed)))
    with shared_file(len(image)) as file, mmap.mmap(file.fileno(), len(image)) as shared:
        shared[:] = bytes(image)
        while pending:
            job = _job(plan, pending, places, file.fileno(), len(image))
            limits = ChildLimits(plan.budget_seconds * 2 + _MARGIN_SECONDS)
            subject = ChildProgram(f"the timing of {plan.name}", plan.libraries[0], plan.compiler.version)
            try:
                answer = run_child(job, limits, subject)
            except RunProblem as problem:
                done = int.from_bytes(shared[0:8], "little")
                if done >= len(pending):
                    raise
                failed = pending.pop(done)
                found[failed] = problem.diagnostics[0].message.removeprefix(subject.name).strip()
                watch(f"again without {plan.timed[failed].function}")
                continue
            for n, trips, times in zip(pending, answer["trips"], answer["times"], strict=True):
                found[n] = Spread.of([t / trips / plan.timed[n].per_trip for t in times])
            return tuple(found)
    return tuple(found)


def _place(image: bytearray, timed: Timed) -> list[int]:
    """Return the offset of each operand in the shared file, on separate lines."""
    places: list[int] = []
    for data in timed.data:
        if isinstance(data, int):
            places.append(ARENA)
            continue
        image.extend(bytes(-len(image) % 64))
        places.append(len(image))
        image.extend(data)
    return places


def _job(
    plan: TimingPlan, pending: list[int], places: list[list[int]], file: int, size: int
) -> dict[str, Any]:
    return {
        "libraries": [str(path) for path in plan.libraries],
        "timings": [
            (plan.timed[n].library, plan.timed[n].function, places[n], plan.timed[n].numbers) for n in pending
        ],
        "sample_ns": [plan.timed[n].sample_ns for n in pending],
        "samples": SAMPLES,
        "least_rounds": LEAST_ROUNDS,
        "most_rounds": MOST_ROUNDS,
        "budget_seconds": plan.budget_seconds,
        "arena_bytes": plan.arena_bytes,
        "guard": False,
        "file": file,
        "size": size,
        "permissions": plan.permissions,
        "cpu_seconds": int(plan.budget_seconds * 4 + _MARGIN_SECONDS),
        "memory_bytes": plan.arena_bytes + (2 << 30),
    }
