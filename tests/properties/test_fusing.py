"""Sums that take elementwise statements along: random schedules compute what the interpreter does."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Any

import numpy as np
import pytest
from conftest import examples
from numpy.typing import NDArray
from properties.batches import call, compile_batch
from properties.random_schedules import random_schedule, with_directives

from isamap.emit.c import EmittedC, emit_c
from isamap.formulate.build import build_problem
from isamap.ir import Kernel, Range, bind, interpret
from isamap.lower.passes import lower
from isamap.machine import Machine, load_machine, missing_features
from isamap.plan.problem import Problem
from isamap.plan.text import print_schedule
from isamap.source import Source
from isamap.syntax import parse_kernel
from isamap.transform import make_guards_explicit

CHAIN = """kernel NAME(M, N, K) {
  in A: f32[M, K];
  in B: f32[K, N];
  in bias: f32[N];
  in R: f32[M, N];
  out D: f32[M, N];
  out E: f32[N, M];
  temp T: f32[M, N];
  temp S: f32[M, N];
  for m in M, n in N { T[m, n] = bias[n]; }
  for m in M, n in N, k in K { T[m, n] += A[m, k] * B[k, n]; }
  for m in M, n in N { S[m, n] = T[m, n] + bias[n]; }
  for i in M, j in N { S[i, j] += R[i, j]; }
  for m in M, n in N { E[n, m] = T[m, n]; }
  for m in M, n in N { D[m, n] = max(S[m, n], 0); }
}"""
IN_PLACE = """kernel NAME(M, N, K, L) {
  in A: f32[M, K, L];
  in B: f32[L, K, N];
  in bias: f32[M];
  inout C: f32[M, N];
  for m in M, n in N, k in K, l in L { C[m, n] += A[m, k, l] * B[l, k, n]; }
  for n in N, m in M { C[m, n] = max(C[m, n] + bias[m], 0); }
}"""
NARROW = """kernel NAME(M, N, K) {
  in A: bf16[M, K];
  in B: bf16[K, N];
  in bias: f32[N];
  out D: bf16[M, N];
  out C: bf16[M, N] accumulate f32;
  temp T: f32[M, N];
  for m in M, n in N { T[m, n] = bias[n]; }
  for m in M, n in N { C[m, n] = 0; }
  for m in M, n in N, k in K { C[m, n] += f32(A[m, k]) * f32(B[k, n]); }
  for m in M, n in N, k in K { T[m, n] += f32(A[m, k]) * f32(B[k, n]); }
  for m in M, n in N { D[m, n] = bf16(max(T[m, n], 0)); }
}"""
BYTES = """kernel NAME(M, N, K) {
  in A: u8[M, K];
  in B: i8[K, N];
  in bias: i32[N];
  out D: i8[M, N];
  temp T: i32[M, N];
  for m in M, n in N { T[m, n] = bias[n]; }
  for m in M, n in N, k in K { T[m, n] += i32(A[m, k]) * i32(B[k, n]); }
  for m in M, n in N { D[m, n] = sat_i8(max(T[m, n], 0)); }
}"""
IN_TURNS = """kernel NAME(M, N, K) {
  in A: f32[2, M, K];
  in B: f32[K, N];
  in bias: f32[N];
  out D: f32[3, M, N];
  temp T: f32[M, N];
  for m in M, n in N { T[m, n] = bias[n]; }
  for m in M, n in N { D[0, m, n] = bias[n]; }
  seq t in 2 {
    for m in M, n in N, k in K { T[m, n] += A[t, m, k] * B[k, n]; }
    for m in M, n in N { D[t + 1, m, n] = max(T[m, n] - D[t, m, n], 0); }
  }
}"""
KERNELS = (CHAIN, IN_PLACE, NARROW, BYTES, IN_TURNS)
MACHINES = ("generic-c", "x86-avx2", "x86-avx512-bf16", "x86-amx in model mode")
CASES = examples(10)
PER_QUESTION = 6


def machine_of(words: str) -> tuple[Machine, bool]:
    """Return a machine, and whether its instructions are emitted as plain C: accelerated tiles then run anywhere."""
    name, _, mode = words.partition(" in ")
    return load_machine(name), mode == "model mode"


@dataclass(frozen=True, slots=True)
class Question:
    """A kernel of any of these with sizes, some of them open, and what may be chosen for it."""

    text: str
    plain: Kernel
    kernel: Kernel
    problem: Problem
    sizes: dict[str, int | Range]
    values: dict[str, int]
    """What is computed with: those of open sizes, too."""

    @property
    def opened(self) -> dict[str, int]:
        return {n: v for n, v in self.values.items() if isinstance(self.sizes[n], Range)}


def question(number: int, machine: Machine, random: Random) -> Question:
    """Return what is asked of a machine under a number."""
    text = KERNELS[number % len(KERNELS)].replace("NAME", f"k{number}")
    plain = parse_kernel(Source("k.ir", text))
    values = {p.name: random.choice((1, 2, 5, 15, 16, 17, 31, 33, 48)) for p in plain.params}
    sizes: dict[str, int | Range] = {
        n: Range(1, 64, 40) if random.random() < 0.3 else v for n, v in values.items()
    }
    kernel = make_guards_explicit(bind(plain, sizes))
    return Question(text, plain, kernel, build_problem(kernel, machine, sizes), sizes, values)


def case(number: int, hw: str) -> tuple[Kernel, EmittedC, dict[str, int], dict[str, int], str, bool]:
    """Return a kernel of any of these, scheduled at random, in a program."""
    random = Random(number)
    machine, model = machine_of(hw)
    asked = question(number, machine, random)
    schedule = random_schedule(asked.problem, random)
    assert schedule is not None
    program = emit_c(lower(asked.kernel, machine, schedule, asked.sizes), machine, model=model)
    story = f"case {number}: {asked.values}\n{asked.text}\n{print_schedule(schedule)}"
    fused = any(nest.fused for nest in schedule.nests)
    return asked.plain, program, asked.values, asked.opened, story, fused


def integers(kernel: Kernel, values: dict[str, int], number: int) -> dict[str, NDArray[Any]]:
    """Arrays of small integers, whose sums are exact in every order."""
    rng = np.random.default_rng(number)
    arrays: dict[str, NDArray[Any]] = {}
    for o in (o for o in kernel.operands if o.role != "temp"):
        shape = tuple(extent.substitute(values).value or 0 for extent in o.shape)
        low = 0 if o.dtype.name == "u8" else -3
        arrays[o.name] = rng.integers(low, 4, shape).astype(o.dtype.numpy())
    return arrays


@pytest.mark.exhaustive(fast=2)
@pytest.mark.parametrize("hw", MACHINES)
def test_a_schedule_that_the_judge_accepts_is_lowered(hw: str) -> None:
    """Its directives name any operand at any depth, also one that fused statements leave without an array."""
    machine, _ = machine_of(hw)
    for number in range(CASES):
        asked = question(number, machine, Random(number))
        for attempt in range(PER_QUESTION):
            random = Random(1000 * number + attempt)
            schedule = random_schedule(asked.problem, random)
            assert schedule is not None
            schedule = with_directives(schedule, asked.problem, random)
            try:
                lower(asked.kernel, machine, schedule, asked.sizes)
            except Exception as error:
                raise AssertionError(f"{asked.values}\n{asked.text}\n{print_schedule(schedule)}") from error


@pytest.mark.exhaustive(fast=2)
@pytest.mark.hardware
@pytest.mark.parametrize("hw", MACHINES)
def test_what_is_fused_is_computed_as_before(hw: str) -> None:
    machine, model = machine_of(hw)
    missing = missing_features(machine)
    if missing and not model:
        pytest.skip(f"this processor lacks {', '.join(missing)}")
    cases = [case(n, hw) for n in range(CASES)]
    library = compile_batch([c[1] for c in cases], machine)
    for number, (kernel, program, values, opened, story, _) in enumerate(cases):
        arrays = integers(kernel, values, number)
        expected = interpret(kernel, arrays, values)
        found = call(library, program, arrays, opened)
        for name, array in expected.items():
            assert np.array_equal(found[name].astype(np.float64), array.astype(np.float64)), story
    assert sum(c[5] for c in cases) > CASES // 3
