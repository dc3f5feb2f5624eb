"""Rewritten kernels compute what the kernel computes, in whatever order their iterations come.

Iterations of `for` are run in a random order: a fusion or a hoisting that is not legal shows in the results.
`ISAMAP_EXAMPLES=5000` tries more kernels.
"""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest
from conftest import EXAMPLES
from numpy.typing import NDArray
from properties.programs_of_statements import Program, random_program, random_sum_of_products
from reference import run_reference

from isamap.ir import Kernel, Routine, bind, interpret, print_routine
from isamap.source import Source
from isamap.syntax import parse_kernel
from isamap.transform import factorisations, rewrites

Array = NDArray[Any]

BATCH = 5
BATCHES = range(max(1, EXAMPLES // (5 * BATCH)))


def shapes_of(bound: Routine) -> dict[str, tuple[int, ...]]:
    return {o.name: tuple(int(e.evaluate({})) for e in o.shape) for o in bound.operands}


def outputs(kernel: Kernel, program: Program) -> dict[str, Array]:
    """Return what the interpreter makes of a kernel, flat: rewrites may join dimensions of arrays."""
    bound = bind(kernel, program.sizes)
    shapes = shapes_of(bound)
    found = interpret(bound, {n: a.reshape(shapes[n]) for n, a in program.arrays.items()}, {})
    return {n: a.ravel() for n, a in found.items()}


def results(kernel: Kernel, program: Program, shuffle: Random) -> dict[str, Array]:
    """Return the outputs, flat; both interpreters agree on them."""
    bound = bind(kernel, program.sizes)
    shapes = shapes_of(bound)
    given = {n: a.reshape(shapes[n]) for n, a in program.arrays.items()}
    missing = {
        o.name: np.full(shapes[o.name], -777, o.dtype.numpy()) for o in bound.operands if o.name not in given
    }
    one_by_one = run_reference(bound, {**given, **missing}, shuffle)
    at_once = interpret(bound, given, {})
    for name, array in at_once.items():
        slow = np.array([int(one_by_one[name][i]) for i in np.ndindex(*array.shape)])
        assert np.array_equal(slow, array.ravel()), print_routine(kernel)
    return {name: array.ravel() for name, array in at_once.items()}


def check(program: Program, rewritten: Kernel, steps: tuple[str, ...], seed: int) -> None:
    """The rewritten kernel is a text of the language, and gives the same outputs."""
    text = print_routine(rewritten)
    shown = f"{seed}: {steps}\n{print_routine(program.kernel)}\n{text}"
    assert parse_kernel(Source("rewritten", text)) == rewritten, shown
    expected = results(program.kernel, program, Random(0))
    found = results(rewritten, program, Random(seed))
    assert expected.keys() == found.keys(), shown
    assert all(np.array_equal(expected[n], found[n]) for n in expected), shown


@pytest.mark.parametrize("batch", BATCHES)
def test_rewritten_programs_compute_the_same(batch: int) -> None:
    for seed in range(batch * BATCH, (batch + 1) * BATCH):
        program = random_program(Random(seed))
        for r in rewrites(program.kernel):
            check(program, r.kernel, r.steps, seed)


@pytest.mark.parametrize("batch", BATCHES)
def test_products_taken_apart_give_the_same_sums(batch: int) -> None:
    for seed in range(batch * BATCH, (batch + 1) * BATCH):
        program = random_sum_of_products(Random(seed))
        for f in factorisations(program.kernel):
            check(program, f.kernel, f.steps, seed)


@pytest.mark.parametrize("batch", BATCHES)
def test_sums_in_a_wider_type_are_rounded_where_they_were(batch: int) -> None:
    for seed in range(batch * BATCH, (batch + 1) * BATCH):
        program = random_program(Random(seed), wide=True)
        expected = outputs(program.kernel, program)
        for r in rewrites(program.kernel):
            found = outputs(r.kernel, program)
            shown = f"{seed}: {r.steps}\n{print_routine(program.kernel)}\n{print_routine(r.kernel)}"
            assert all(np.array_equal(found[n], expected[n], equal_nan=True) for n in expected), shown


def test_random_programs_are_rewritten_in_all_ways() -> None:
    names: set[str] = set()
    for seed in range(20):
        names |= {s.split(":")[0] for r in rewrites(random_program(Random(seed)).kernel) for s in r.steps}
    assert names >= {
        "fission",
        "fusion",
        "reordering",
        "expansion",
        "batching",
        "splitting the initialisation",
    }
