"""Attention as one kernel: products around a softmax, and masks that become comparisons of indices."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx_models import Described, computed, evaluated, imported, make

from isamap.driver.model_rewrites import form_of
from isamap.graph.pending import band_of

SIZES = {"q": (1, 2, 96, 4), "k": (1, 2, 128, 4), "v": (1, 2, 128, 4)}
INPUTS = {
    name: np.random.default_rng(n).normal(size=size).astype(np.float32)
    for n, (name, size) in enumerate(SIZES.items())
}
CAUSAL = np.tril(np.ones((96, 128), bool), 2)
WINDOW = CAUSAL & ~np.tril(np.ones((96, 128), bool), -1)
Node = tuple[str, list[str], list[str], dict[str, Any]]
SOFTMAX: Node = ("Softmax", ["masked"], ["p"], {"axis": -1})
AROUND: list[Node] = [
    ("Transpose", ["k"], ["kt"], {"perm": [0, 1, 3, 2]}),
    ("MatMul", ["q", "kt"], ["s"], {}),
    SOFTMAX,
    ("MatMul", ["p", "v"], ["o"], {}),
]


def attention(*masking: Node) -> Described:
    """Return attention by single operators, with some that mask the scores `s`."""
    return [*AROUND[:2], *masking, *AROUND[2:]]


def by_where(mask: Any) -> Any:
    """Return attention with a constant mask, and -inf chosen by Where."""
    nodes = attention(("Where", ["mask", "s", "low"], ["masked"], {}))
    return make(nodes, INPUTS, ["o"], {"mask": mask, "low": np.array(-np.inf, np.float32)})


def by_add(mask: Any) -> Any:
    """Return attention with 0 and -inf added."""
    bias = np.where(mask, 0, -np.inf).astype(np.float32)
    return make(attention(("Add", ["s", "bias"], ["masked"], {})), INPUTS, ["o"], {"bias": bias})


def by_operator() -> Any:
    """Return attention by ONNX's operator."""
    return make([("Attention", ["q", "k", "v"], ["o"], {"is_causal": 1})], INPUTS, ["o"], opset=24)


@pytest.mark.parametrize(
    ("model", "conditions"),
    [
        (by_where(CAUSAL), ["d3 <= d2 + 2"]),
        (by_where(WINDOW), ["d3 <= d2 + 2", "d3 >= d2"]),
        (by_where(CAUSAL[None, None]), ["d3 <= d2 + 2"]),
        (by_where(CAUSAL | (np.arange(128) == 127)), []),
        (by_where(np.tril(np.ones((96, 128), bool))), ["d3 <= d2"]),
        (by_where(np.tril(np.ones((96, 128), bool), 126)), ["d3 <= d2 + 126"]),
        (by_add(CAUSAL), ["d3 <= d2 + 2"]),
        (by_operator(), ["d3 <= d2"]),
    ],
    ids=["causal", "window", "of all heads", "no band", "diagonal", "one hidden", "added", "the operator"],
)
def test_a_mask_that_is_a_band_is_a_comparison_of_indices(model: Any, conditions: list[str]) -> None:
    program = imported(model).whole()
    (text,) = (text for name, text in program.kernels.items() if "softmax" in name)
    assert text.count("+= ") == 3
    assert "bool[96, 128]" not in text or not conditions
    assert all(condition in text for condition in conditions), text
    assert text.count(" <= ") + text.count(" >= ") == len(conditions)
    assert form_of(text) is not None
    (found,) = computed(program, INPUTS, {})
    (expected,) = evaluated(model, INPUTS)
    assert np.allclose(found, expected, rtol=1e-5, atol=1e-6, equal_nan=True)


@pytest.mark.parametrize(
    ("change", "results"),
    [
        ({"k": (1, 2, 3, 4), "v": (1, 2, 3, 4)}, ["o"]),
        ({"q": (1, 1, 96, 4), "k": (1, 1, 128, 4), "v": (1, 1, 128, 4)}, ["o"]),
        ({}, ["o", "p"]),
    ],
    ids=["scores are fewer than keys", "scores are few", "others read the softmax"],
)
def test_chains_stay_apart(change: dict[str, tuple[int, ...]], results: list[str]) -> None:
    inputs = INPUTS | {name: np.ones(size, np.float32) for name, size in change.items()}
    nodes = attention(("Mul", ["s", "two"], ["masked"], {}))
    model = make(nodes, inputs, results, {"two": np.array(2, np.float32)})
    program = imported(model).whole()
    assert all(text.count("+= ") < 3 for text in program.kernels.values())


def test_a_band_is_what_is_true_between_two_diagonals() -> None:
    assert band_of(CAUSAL) == (96, 128, -95, 2)
    assert band_of(WINDOW) == (96, 128, 0, 2)
    assert band_of(np.ones((3, 3), bool)) is None
    assert band_of(np.zeros((3, 3), bool)) is None
    assert band_of(np.eye(4, dtype=bool)[:, ::-1]) is None
    assert band_of(np.tri(4, 4)) is None
    assert band_of(np.tri(4, 4, dtype=bool)[None].repeat(2, 0)) is None
    broken = CAUSAL.copy()
    broken[3, 1] = False
    assert band_of(broken) is None
