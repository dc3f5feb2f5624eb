"""Random kernels the whole way: plain loops, the interpreter and randomly scheduled machine code agree."""

from __future__ import annotations

import os
from dataclasses import dataclass
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from properties.batches import call, compile_batch
from properties.mappable import Written, random_kernel
from properties.random_schedules import random_schedule

from isamap.emit.c import EmittedC, emit_c
from isamap.formulate.build import build_problem
from isamap.ir import Range, bind, interpret
from isamap.lower.passes import lower
from isamap.machine import Machine, load_machine, missing_features
from isamap.plan.schedule import Schedule
from isamap.plan.text import print_schedule
from isamap.source import Source
from isamap.syntax import parse_kernel
from isamap.transform import make_guards_explicit

Array = NDArray[Any]
MACHINES = ("generic-c", "x86-avx2", "x86-avx512-bf16")
BATCH = 100
EXAMPLES = int(os.environ.get("ISAMAP_EXAMPLES", "100"))


@given(st.randoms(use_true_random=False))
def test_the_interpreter_computes_what_plain_loops_do(random: Random) -> None:
    kernel = random_kernel(random)
    arrays = kernel.arrays(random)
    found = interpret(parse_kernel(Source("k.ir", str(kernel))), arrays, kernel.sizes)
    assert not different(found, kernel.run(arrays)), str(kernel)


@pytest.mark.exhaustive(fast=1)
@pytest.mark.hardware
@pytest.mark.parametrize("hw", MACHINES)
def test_compiled_code_computes_what_plain_loops_do(hw: str) -> None:
    machine = load_machine(hw)
    missing = missing_features(machine)
    if missing:
        pytest.skip(f"this processor lacks {', '.join(missing)}")
    for first in range(0, EXAMPLES, BATCH):
        cases = [prepare(n, machine) for n in range(first, min(EXAMPLES, first + BATCH))]
        library = compile_batch([c.program for c in cases], machine)
        for case in cases:
            found = call(library, case.program, case.arrays, case.open_sizes)
            assert not different(found, case.kernel.run(case.arrays)), case.story()


@dataclass(frozen=True)
class Case:
    """A random kernel with arrays, scheduled at random and emitted."""

    number: int
    kernel: Written
    arrays: dict[str, Array]
    sizes: dict[str, int | Range]
    schedule: Schedule
    program: EmittedC

    @property
    def open_sizes(self) -> dict[str, int]:
        """Values of the sizes that the program takes at run time."""
        return {n: v for n, v in self.kernel.sizes.items() if isinstance(self.sizes[n], Range)}

    def story(self) -> str:
        return f"case {self.number}: {self.kernel.sizes}\n{self.kernel}\n{print_schedule(self.schedule)}"


def prepare(number: int, machine: Machine) -> Case:
    """Return the case of that number; the same for ever, whatever else is tested."""
    random = Random(number)
    written = random_kernel(random, f"k{number}")
    arrays = written.arrays(random)
    sizes = random_sizes(written, random)
    kernel = make_guards_explicit(bind(parse_kernel(Source("k.ir", str(written))), sizes))
    problem = build_problem(kernel, machine, sizes)
    schedule = random_schedule(problem, random)
    assert schedule is not None, f"case {number}: no schedule found\n{written}"
    program = emit_c(lower(kernel, machine, schedule, sizes), machine)
    return Case(number, written, arrays, sizes, schedule, program)


def random_sizes(kernel: Written, random: Random) -> dict[str, int | Range]:
    """Half of the time all sizes as numbers, else most of them known only when the program runs."""
    are_open = random.random() < 0.5
    return {
        n: Range(1, 64, random.choice((v, 40))) if are_open and random.random() < 0.7 else v
        for n, v in kernel.sizes.items()
    }


def different(found: dict[str, Array], expected: dict[str, Array]) -> list[str]:
    """Names of the outputs that are not equal."""
    return [
        n
        for n, w in expected.items()
        if not np.array_equal(found[n].astype(np.float64), w.astype(np.float64))
    ]
