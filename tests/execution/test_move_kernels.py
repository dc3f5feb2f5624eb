"""Copies, joins and gathers of a program as kernels of lanes: as numpy moves elements, for elements of all sizes."""

from __future__ import annotations

import re

import numpy as np
import pytest

from isamap.graph.graph import Array
from isamap.graph.model_library import CompiledModel, ModelOptions, compile_whole
from isamap.graph.model_program import KernelCall, ModelProgram, Move, Port, Step, TensorView
from isamap.graph.move_kernels import IndexRange, with_move_kernels
from isamap.graph.types import size_bytes
from isamap.source import UsageProblem

X = np.random.default_rng(0).standard_normal((2, 3, 5)).astype(np.float32)
P = np.array([2, -1, 0, -3], np.int64)
MASK = np.array([[True, False, True]])
GIVEN = {"x": X, "p": P, "mask": MASK}
WANTED = {
    "rows": X[:, P],
    "joined": np.concatenate((X[:, P], X), 1),
    "places": np.concatenate((P, P)),
    "truths": MASK[0, [0, 0, 1]][None],
    "same": P,
}


def view(name: str, array: Array) -> TensorView:
    return TensorView(name, {"float32": "f32", "int64": "i64", "bool": "bool"}[str(array.dtype)], array.shape)


def bytes_of(array: Array, axis: int = 0) -> int:
    return size_bytes(view("", array).dtype, array.shape[axis:])


def program() -> ModelProgram:
    """Return moves of four, eight and one byte, the indices of one of which are a constant."""
    x, p, mask = (view(name, array) for name, array in GIVEN.items())
    rows, joined, places, truths, same = (view(name, array) for name, array in WANTED.items())
    chosen = np.array([0, -3, 1], np.int64)
    outer, length = X.shape[:2]
    steps: tuple[Step, ...] = (
        Move("gather", (x, p), (rows,), (outer, length, bytes_of(X, 2), len(P), 8)),
        Move("join", (rows, x), (joined,), (outer, 2, bytes_of(WANTED["rows"], 1), bytes_of(X, 1))),
        Move("join", (p, p), (places,), (1, 2, bytes_of(P), bytes_of(P))),
        Move("gather", (mask, view("c", chosen)), (truths,), (1, 3, 1, 3, 8)),
        Move("copy", (p,), (same,), (bytes_of(P),)),
    )
    ports = [
        tuple(Port(own.tensor, own) for own in views)
        for views in ((x, p, mask), (rows, joined, places, truths, same))
    ]
    return ModelProgram("moves", ports[0], ports[1], {"c": chosen}, {}, steps)


@pytest.fixture(name="library", scope="module")
def _library() -> CompiledModel:
    return compile_whole(program(), ModelOptions("nvidia-sm80", jobs=1))


def test_lanes_move_elements_as_numpy_does(library: CompiledModel) -> None:
    assert all(isinstance(step, KernelCall) for step in library.program.steps)
    found = library(GIVEN)
    for name, wanted in WANTED.items():
        np.testing.assert_array_equal(found[name], wanted, name)


@pytest.mark.parametrize("wrong", [3, -4])
def test_an_index_outside_of_its_tensor_is_refused(library: CompiledModel, wrong: int) -> None:
    with pytest.raises(UsageProblem) as refused:
        library({**GIVEN, "p": np.full_like(P, wrong)})
    assert refused.value.render() == (
        "error[program-refused]: `moves_run` returned 8\n  help: an index among its inputs is out of range"
    )


def test_a_caller_learns_which_indices_it_has_to_check() -> None:
    found, ranges = with_move_kernels(program(), is_checked=False)
    assert ranges == (IndexRange(1, -3, 2),)
    (left,) = (step for step in found.steps if isinstance(step, Move))
    assert left.reads[1].tensor == "c", "no caller sees it"
    texts = "".join(found.kernels.values())
    assert re.search(r"y0\[d0, d1, d2\] = a0\[d0, a1\[d1\] % 3, d2\]", texts)
    assert "in a1: i64[4] values -3..2;" in texts
