"""Any one change of a schedule is found by the independent check, or lowered right: it computes the same."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from random import Random
from typing import Any

import numpy as np
import pytest
from conftest import examples
from numpy.typing import NDArray
from properties.batches import call, compile_batch
from properties.corrupted_schedules import corrupted
from properties.mappable import Written, random_kernel
from properties.random_schedules import random_schedule

from isamap.emit.c import EmittedC, emit_c
from isamap.formulate.build import build_problem
from isamap.ir import Range, bind
from isamap.lower.passes import lower
from isamap.machine import Machine, load_machine, missing_features
from isamap.plan.check import check_schedule
from isamap.plan.schedule import Schedule
from isamap.plan.text import print_schedule
from isamap.source import Infeasible, Source, UsageProblem
from isamap.syntax import parse_kernel
from isamap.transform import make_guards_explicit

Array = NDArray[Any]
MACHINES = ("generic-c", "x86-avx2")
KERNELS = examples(40)
PER_KERNEL = 12
BATCH = 40


@dataclass(frozen=True)
class Case:
    """A changed schedule that passed, emitted."""

    change: str
    kernel: Written
    arrays: dict[str, Array]
    schedule: Schedule
    program: EmittedC

    def story(self) -> str:
        return f"{self.change}: {self.kernel.sizes}\n{self.kernel}\n{print_schedule(self.schedule)}"


@pytest.mark.hardware
@pytest.mark.parametrize("hw", MACHINES)
def test_a_changed_schedule_is_refused_or_right(hw: str) -> None:
    machine = load_machine(hw)
    if missing := missing_features(machine):
        pytest.skip(f"this processor lacks {', '.join(missing)}")
    counts: Counter[str] = Counter()
    waiting: list[Case] = []
    for number in range(KERNELS):
        waiting += cases(number, machine, counts)
        if len(waiting) >= BATCH or number == KERNELS - 1:
            assert not list(wrong(waiting, machine))
            waiting = []
    print(f"{hw}: {dict(sorted(counts.items()))}")
    assert counts["refused"] > counts["passed"] > 0


def cases(number: int, machine: Machine, counts: Counter[str]) -> Iterator[Case]:
    """Changed schedules of one kernel that the check lets pass, each of which has to be lowered."""
    random = Random(number)
    written = random_kernel(random, f"k{number}")
    arrays = written.arrays(random)
    sizes: dict[str, int | Range] = dict(written.sizes)
    kernel = make_guards_explicit(bind(parse_kernel(Source("k.ir", str(written))), sizes))
    problem = build_problem(kernel, machine, sizes)
    good = random_schedule(problem, random)
    assert good is not None
    for attempt in range(PER_KERNEL):
        change, bad = corrupted(good, problem, random)
        if bad == good:
            counts["unchanged"] += 1
        elif check_schedule(bad, problem):
            counts["refused"] += 1
        else:
            named = replace(kernel, name=f"{kernel.name}_{attempt}")  # several stand in one library
            try:
                program = emit_c(lower(named, machine, bad, sizes), machine)
            except (Infeasible, UsageProblem):  # registers besides tiles, and lines of arrays, are known late
                counts["refused later"] += 1
                continue
            counts["passed"] += 1
            yield Case(change, written, arrays, bad, program)


def wrong(waiting: list[Case], machine: Machine) -> Iterator[str]:
    """Yield the stories of those that compute something else."""
    if not waiting:
        return
    library = compile_batch([case.program for case in waiting], machine)
    for case in waiting:
        found = call(library, case.program, case.arrays, {})
        expected = case.kernel.run(case.arrays)
        if any(not np.array_equal(found[n].astype(float), w.astype(float)) for n, w in expected.items()):
            yield case.story()
