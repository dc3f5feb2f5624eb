"""Random schedules of random kernels compute what the interpreter does, under sanitizers.

`ISAMAP_SANITIZED=10000` says how many the exhaustive tier tries of each machine.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from properties.programs_of_statements import random_program
from properties.random_schedules import random_schedule
from properties.sanitized import Trial, run_sanitized
from properties.test_fusing import case

from isamap.codegen.c import emit_c
from isamap.ir import bind, interpret
from isamap.lower.lower import lower
from isamap.machine import load_machine, missing_features
from isamap.plan.build import build_problem
from isamap.plan.text import print_schedule
from isamap.source import IsamapError, Source
from isamap.syntax import parse_kernel
from isamap.transform import make_guards_explicit

BATCH = 25
TRIALS = int(os.environ.get("ISAMAP_SANITIZED", "100"))
MACHINES = ("generic-c", "x86-avx2")

pytestmark = pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is not installed")


@pytest.mark.silicon
@pytest.mark.exhaustive
@pytest.mark.parametrize("first", range(0, TRIALS, BATCH))
@pytest.mark.parametrize("hw", MACHINES)
def test_emitted_code_is_right_and_touches_nothing_else(hw: str, first: int, tmp_path: Path) -> None:
    machine = load_machine(hw)
    if missing := missing_features(machine):
        pytest.skip(f"this processor lacks {', '.join(missing)}")
    made = [fused(n, hw) if n % 5 == 0 else of_statements(n, hw) for n in range(first, first + BATCH)]
    tried = [each for each in made if each is not None]
    assert len(tried) > BATCH // 2
    results = run_sanitized([trial for trial, _ in tried], machine, tmp_path)
    for (trial, wanted), found in zip(tried, results, strict=True):
        assert found.keys() == wanted.keys()
        for name, array in wanted.items():
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


def fused(number: int, hw: str) -> tuple[Trial, dict[str, NDArray[Any]]]:
    """Sums that take elementwise statements along, of several types and open sizes."""
    kernel, program, values, opened, story, _ = case(number, hw)
    rng = np.random.default_rng(number)
    arrays: dict[str, NDArray[Any]] = {}
    for o in (o for o in kernel.operands if o.role != "temp"):
        shape = tuple(extent.substitute(values).value or 0 for extent in o.shape)
        arrays[o.name] = rng.integers(0 if o.dtype.name == "u8" else -3, 4, shape).astype(o.dtype.numpy())
    return Trial(program, arrays, opened, story), interpret(kernel, arrays, values)


def of_statements(number: int, hw: str) -> tuple[Trial, dict[str, NDArray[Any]]] | None:
    """A kernel of several statements; None where the machine has nothing for one, or no schedule came out."""
    random, machine = Random(number), load_machine(hw)
    program = random_program(random)
    named = replace(program.kernel, name=f"s{number}")
    kernel = make_guards_explicit(bind(named, program.sizes))
    try:
        problem = build_problem(kernel, machine, program.sizes)
    except IsamapError:
        return None
    schedule = random_schedule(problem, random)
    if schedule is None:
        return None
    emitted = emit_c(lower(kernel, machine, schedule, program.sizes), machine)
    story = f"case {number} on {hw}: {program.sizes}\n{print_schedule(schedule)}"
    outputs = {o.name: o for o in kernel.operands if o.role == "out"}
    empty = {n: np.zeros([e.value or 0 for e in o.shape], o.dtype.numpy()) for n, o in outputs.items()}
    arrays = program.arrays | empty
    return Trial(emitted, arrays, {}, story), interpret(kernel, arrays, {})
