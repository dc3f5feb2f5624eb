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

from isamap.ir import Kernel, bind, interpret, print_routine
from isamap.source import Source
from isamap.syntax import parse_kernel
from isamap.transform import factorisations, rewrites

Array = NDArray[Any]

BATCH = 10
BATCHES = range(max(1, EXAMPLES * 4 // (10 * BATCH)))


def results(kernel: Kernel, program: Program, shuffle: Random) -> dict[str, Array]:
    """The outputs, flat; both interpreters agree on them."""
    bound = bind(kernel, program.sizes)
    shapes = {o.name: tuple(int(e.evaluate({})) for e in o.shape) for o in bound.operands}
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


def test_random_programs_are_rewritten_in_all_ways() -> None:
    names: set[str] = set()
    for seed in range(40):
        names |= {s.split(":")[0] for r in rewrites(random_program(Random(seed)).kernel) for s in r.steps}
    assert names >= {
        "fission",
        "fusion",
        "reordering",
        "expansion",
        "batching",
        "splitting the initialisation",
    }
