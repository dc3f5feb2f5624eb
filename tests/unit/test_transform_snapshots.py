"""Each rewrite of a kernel on a small example, before and after, in tests/snapshots/rewrites.

A file holds a kernel, and behind `=== output` the steps of the first rewrite and the kernel that it makes.
`pytest --snapshot-update` writes the outputs anew. All kernels compute the same as before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
import pytest
from commands import OUTPUT
from unit.rewriting import inputs

from isamap.ir import Kernel, bind, interpret, print_routine
from isamap.source import Source
from isamap.syntax import parse_kernel
from isamap.transform import edges_apart, factorisations, make_guards_explicit, winograd_forms
from isamap.transform.rewrite import Rewrite
from isamap.transform.rewrites import REWRITINGS

FOLDER = Path(__file__).parents[1] / "snapshots" / "rewrites"
MAKERS: dict[str, Callable[[Kernel], Iterable[Rewrite]]] = {
    **REWRITINGS,
    "factorisation": factorisations,
    "edges": lambda kernel: filter(None, [edges_apart(kernel)]),
    "points": winograd_forms,
    "guards": lambda kernel: [Rewrite(make_guards_explicit(kernel), ())],
}
SIZES = {"T": 3, "N": 4, "M": 5, "K": 6, "H": 7, "C": 2, "P": 5, "R": 3, "W": 4}


def test_each_rewrite_has_an_example() -> None:
    assert {path.stem.replace("-", " ") for path in FOLDER.iterdir()} == set(MAKERS)


@pytest.mark.parametrize("name", MAKERS)
def test_a_rewrite_makes_this_kernel_which_computes_the_same(name: str, pytestconfig: pytest.Config) -> None:
    path = FOLDER / f"{name.replace(' ', '-')}.txt"
    text, _, expected = path.read_text(encoding="utf-8").partition(OUTPUT)
    kernel = parse_kernel(Source(path.name, text))
    made = next(iter(MAKERS[name](kernel)), None)
    assert made is not None, "it does not fire on its example"
    assert made.kernel != kernel
    found = "".join(f"{line}\n" for line in (*made.steps, print_routine(made.kernel).rstrip()))
    if pytestconfig.getoption("update_snapshots"):
        path.write_text(f"{text}{OUTPUT}{found}", encoding="utf-8")
        expected = found
    assert found == expected
    sizes = {p.name: SIZES[p.name] for p in kernel.params if p.dtype is None}
    arrays = inputs(kernel, sizes)
    shapes = {o.name: [int(e.evaluate({})) for e in o.shape] for o in bind(made.kernel, sizes).operands}
    given = {tensor: array.reshape(shapes[tensor]) for tensor, array in arrays.items()}
    results = interpret(made.kernel, given, sizes)
    for output, values in interpret(kernel, arrays, sizes).items():
        np.testing.assert_allclose(results[output].ravel(), values.ravel(), rtol=1e-4, atol=1e-5)
