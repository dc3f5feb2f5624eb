"""Random kernels the whole way: plain loops, the interpreter and randomly scheduled machine code agree."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from properties.batches import call, compile_batch
from properties.mappable import Written, random_kernel
from properties.random_schedules import random_schedule

from isamap.codegen.c import EmittedC, emit_c
from isamap.ir import interpret
from isamap.lower.lower import lower
from isamap.machine import Machine, load_machine, missing_features
from isamap.plan.build import build_problem
from isamap.plan.schedule import Schedule
from isamap.plan.text import print_schedule
from isamap.source import Source
from isamap.syntax import parse_kernel
from isamap.transform import make_guards_explicit

Array = NDArray[Any]
MACHINES = ("generic-c", "x86-avx2", "x86-avx512-bf16")
BATCH = 100


@given(st.randoms(use_true_random=False))
def test_the_interpreter_computes_what_plain_loops_do(random: Random) -> None:
    kernel = random_kernel(random)
    arrays = kernel.arrays(random)
    found = interpret(parse_kernel(Source("k.ir", str(kernel))), arrays, {})
    assert not different(found, kernel.run(arrays)), str(kernel)


@pytest.mark.silicon
@pytest.mark.parametrize("hw", MACHINES)
def test_compiled_code_computes_what_plain_loops_do(hw: str) -> None:
    machine = load_machine(hw)
    missing = missing_features(machine)
    if missing:
        pytest.skip(f"this processor lacks {', '.join(missing)}")
    examples = settings().max_examples
    for first in range(0, examples, BATCH):
        cases = [prepare(n, machine) for n in range(first, min(examples, first + BATCH))]
        library = compile_batch([c.program for c in cases], machine)
        for case in cases:
            found = call(library, case.program, case.arrays)
            assert not different(found, case.kernel.run(case.arrays)), case.story()


@dataclass(frozen=True)
class Case:
    """A random kernel with arrays, scheduled at random and emitted."""

    number: int
    kernel: Written
    arrays: dict[str, Array]
    schedule: Schedule
    program: EmittedC

    def story(self) -> str:
        return f"case {self.number}\n{self.kernel}\n{print_schedule(self.schedule)}"


def prepare(number: int, machine: Machine) -> Case:
    """The case of that number; the same for ever, whatever else is tested."""
    random = Random(number)
    written = random_kernel(random, f"k{number}")
    arrays = written.arrays(random)
    kernel = make_guards_explicit(parse_kernel(Source("k.ir", str(written))))
    problem = build_problem(kernel, machine, {})
    schedule = random_schedule(problem, random)
    assert schedule is not None, f"case {number}: no schedule found\n{written}"
    return Case(number, written, arrays, schedule, emit_c(lower(kernel, machine, schedule, {}), machine))


def different(found: dict[str, Array], wanted: dict[str, Array]) -> list[str]:
    """Names of the outputs that are not equal."""
    return [
        n for n, w in wanted.items() if not np.array_equal(found[n].astype(np.float64), w.astype(np.float64))
    ]
