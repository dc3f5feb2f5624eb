"""Random schedules of random kernels compute what the interpreter does, under sanitizers.

`ISAMAP_SANITIZED=10000` says how many the exhaustive tier tries of each machine.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from properties.programs_of_statements import random_program
from properties.random_schedules import random_schedule
from properties.sanitized import Trial, run_sanitized
from properties.test_fusing import integers, question

from isamap.emit.c import EmittedC, emit_c
from isamap.formulate.build import build_problem
from isamap.ir import Kernel, Range, bind, interpret
from isamap.lower.passes import lower
from isamap.machine import Machine, load_machine, missing_features
from isamap.plan.problem import Problem
from isamap.plan.schedule import Schedule
from isamap.plan.text import print_schedule
from isamap.source import IsamapError, Source
from isamap.syntax import parse_kernel
from isamap.transform import make_guards_explicit

BATCH = 100
"""Schedules in one executable."""
OF_A_KERNEL = 4
TRIALS = int(os.environ.get("ISAMAP_SANITIZED", "100"))
MACHINES = ("generic-c", "x86-avx2", "x86-avx512")

Tried = tuple[Trial, dict[str, NDArray[Any]]]

pytestmark = pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is not installed")


@pytest.mark.hardware
@pytest.mark.exhaustive
@pytest.mark.parametrize("first", range(0, TRIALS, BATCH))
@pytest.mark.parametrize("hw", MACHINES)
def test_emitted_code_is_right_and_touches_nothing_else(hw: str, first: int, tmp_path: Path) -> None:
    machine = load_machine(hw)
    if missing := missing_features(machine):
        pytest.skip(f"this processor lacks {', '.join(missing)}")
    made = (pair for n in range(first, first + BATCH) for pair in (of_statements if n % 5 else fused)(n, hw))
    tried = list(islice(made, BATCH))
    assert len(tried) == BATCH
    results = run_sanitized([trial for trial, _ in tried], machine, tmp_path)
    for (trial, expected), found in zip(tried, results, strict=True):
        assert found.keys() == expected.keys()
        for name, array in expected.items():
            assert np.array_equal(found[name].astype(np.float64), array.astype(np.float64)), trial.story


def test_a_read_behind_a_tensor_and_a_shift_too_far_are_found(tmp_path: Path) -> None:
    text = "kernel copied(N) { in x: i32[N]; out y: i32[N]; for n in N { y[n] = x[n]; } }"
    kernel, machine = bind(parse_kernel(Source("k.ir", text)), {"N": 5}), load_machine("generic-c")
    schedule = random_schedule(build_problem(kernel, machine, {"N": 5}), Random(1))
    assert schedule is not None
    right = emit_c(lower(kernel, machine, schedule, {"N": 5}), machine)
    arrays = {"x": np.arange(5, dtype=np.int32), "y": np.zeros(5, np.int32)}
    (found,) = run_sanitized([Trial(right, arrays, {}, "")], machine, tmp_path)
    assert (found["y"] == arrays["x"]).all()
    done = "  return copied_OK;"
    assert right.source.count(done) == 1
    for fault, said in (
        ("args->x[5] == 7", "heap-buffer-overflow"),
        ("1 << (args->x[4] * 8) == 7", "shift exponent"),
    ):
        wrong = replace(right, source=right.source.replace(done, f"  if ({fault}) return 8;\n{done}"))
        with pytest.raises(AssertionError, match=said):
            run_sanitized([Trial(wrong, arrays, {}, "")], machine, tmp_path)


def fused(number: int, hw: str) -> Iterator[Tried]:
    """Sums that take elementwise statements along, of several types and open sizes."""
    random, machine = Random(number), load_machine(hw)
    asked = question(number, machine, random)
    arrays = integers(asked.plain, asked.values, number)
    expected = interpret(asked.plain, arrays, asked.values)
    for place, schedule in enumerate(schedules(asked.problem, random)):
        emitted = emitted_as(place, asked.kernel, machine, schedule, asked.sizes)
        story = f"case {number} on {hw}: {asked.values}\n{asked.text}\n{print_schedule(schedule)}"
        yield Trial(emitted, arrays, asked.opened, story), expected


def of_statements(number: int, hw: str) -> Iterator[Tried]:
    """Yield a kernel of several statements; nothing where the machine lacks what one needs."""
    random, machine = Random(number), load_machine(hw)
    program = random_program(random)
    named = replace(program.kernel, name=f"s{number}")
    kernel = make_guards_explicit(bind(named, program.sizes))
    try:
        problem = build_problem(kernel, machine, program.sizes)
    except IsamapError:
        return
    outputs = {o.name: o for o in kernel.operands if o.role == "out"}
    empty = {n: np.zeros([e.value or 0 for e in o.shape], o.dtype.numpy()) for n, o in outputs.items()}
    arrays = program.arrays | empty
    expected = interpret(kernel, arrays, {})
    for place, schedule in enumerate(schedules(problem, random)):
        emitted = emitted_as(place, kernel, machine, schedule, program.sizes)
        story = f"case {number} on {hw}: {program.sizes}\n{print_schedule(schedule)}"
        yield Trial(emitted, arrays, {}, story), expected


def schedules(problem: Problem, random: Random) -> list[Schedule]:
    """Different ones; a few of each kernel, for what can be chosen takes longer to find than a choice."""
    drawn = [random_schedule(problem, random) for _ in range(2 * OF_A_KERNEL)]
    return list(dict.fromkeys(each for each in drawn if each is not None))[:OF_A_KERNEL]


def emitted_as(
    place: int, kernel: Kernel, machine: Machine, schedule: Schedule, sizes: Mapping[str, int | Range]
) -> EmittedC:
    """Return the program under a name of its own among those of its kernel."""
    lowered = lower(kernel, machine, schedule, sizes)
    return emit_c(replace(lowered, name=f"{lowered.name}_{place}"), machine)
