"""The shipped recurrent layers compute what the literature says, in f32 and in bf16."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

from isamap.codegen.fills import make_arrays
from isamap.ir import DTYPES, bind, interpret, iterations_apart
from isamap.kernels import kernel_path
from isamap.source import Source
from isamap.syntax import parse_kernel

SIZES = {"T": 5, "N": 3, "C": 7, "H": 6}
Array = Any


def sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def gru(X: Array, W: Array, U: Array, b: Array, d: Array, h0: Array) -> Array:
    """The reset gate on the product, as cuDNN, oneDNN and PyTorch have it."""
    h, found = h0, list[Array]()
    for x in X:
        r, z = (sigmoid(x @ W[i] + b[i] + h @ U[i] + d[i]) for i in range(2))
        h = (1 - z) * np.tanh(x @ W[2] + b[2] + r * (h @ U[2] + d[2])) + z * h
        found.append(h)
    return np.stack(found)


def gru_reset_first(X: Array, W: Array, U: Array, b: Array, h0: Array) -> Array:
    """The reset gate on the state, as Cho et al. (2014) have it."""
    h, found = h0, list[Array]()
    for x in X:
        r, z = (sigmoid(x @ W[i] + b[i] + h @ U[i]) for i in range(2))
        h = (1 - z) * np.tanh(x @ W[2] + b[2] + (r * h) @ U[2]) + z * h
        found.append(h)
    return np.stack(found)


def lstm(X: Array, W: Array, U: Array, b: Array, h0: Array, c0: Array) -> Array:
    h, c, found = h0, c0, list[Array]()
    for x in X:
        i, f, g, o = (x @ W[a] + h @ U[a] + b[a] for a in range(4))
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
        found.append(h)
    return np.stack(found)


def rnn(X: Array, W: Array, U: Array, b: Array, h0: Array, act: Callable[[Array], Array]) -> Array:
    h, found = h0, list[Array]()
    for x in X:
        h = act(x @ W + h @ U + b)
        found.append(h)
    return np.stack(found)


def relu(x: Array) -> Array:
    return np.maximum(x, 0)


CELLS: dict[str, Callable[..., Array]] = {
    "gru": gru,
    "gru_reset_first": gru_reset_first,
    "lstm": lstm,
    "rnn_relu": partial(rnn, act=relu),
    "rnn_tanh": partial(rnn, act=np.tanh),
}


@pytest.mark.parametrize("form", ["", "_bf16"])
@pytest.mark.parametrize("name", CELLS)
def test_a_cell_computes_what_its_formulas_say(name: str, form: str) -> None:
    text = kernel_path(name + form).read_text(encoding="utf-8")
    kernel = bind(parse_kernel(Source(name, text)), SIZES)
    arrays = {n: a for n, a in make_arrays(kernel, "random").items() if kernel.operand(n).role == "in"}
    exact = CELLS[name](**{n: a.astype(np.float64) for n, a in arrays.items()})
    found = interpret(kernel, arrays, {})["Y"].astype(np.float64)
    places = 2.0 ** -(DTYPES["bf16"].mantissa_bits if form else 20)
    assert np.abs(found - exact).max() < 4 * places * max(1.0, np.abs(exact).max())


@pytest.mark.parametrize("form", ["", "_bf16"])
@pytest.mark.parametrize("name", CELLS)
def test_the_steps_of_a_cell_can_be_judged_one_by_one(name: str, form: str) -> None:
    text = kernel_path(name + form).read_text(encoding="utf-8")
    apart = iterations_apart(bind(parse_kernel(Source(name, text)), SIZES))
    assert apart is not None
    assert list(apart.shown.values()) == ["Y"]
