"""The shipped recurrent layers compute what the literature says: in f32, bf16 and with weights of bytes."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest
from kernel_references import CELLS, TWO_WAYS

from isamap.ir import DTYPES, Kernel, bind, interpret, iterations_apart
from isamap.kernels import kernel_path
from isamap.run.fills import make_arrays
from isamap.source import Source
from isamap.syntax import parse_kernel

SIZES = {"T": 5, "N": 3, "C": 7, "H": 6}
Array = Any


def load(name: str, **sizes: int) -> Kernel:
    return bind(parse_kernel(Source(name, kernel_path(name).read_text(encoding="utf-8"))), SIZES | sizes)


def inputs_of(kernel: Kernel) -> dict[str, Array]:
    return {n: a for n, a in make_arrays(kernel, "random").items() if kernel.operand(n).role == "in"}


@pytest.mark.parametrize("name", CELLS)
def test_a_cell_computes_what_its_formulas_say(name: str) -> None:
    kernel = load(name)
    arrays = inputs_of(kernel)
    exact = CELLS[name](**{n: a.astype(np.float64) for n, a in arrays.items()})["Y"]
    found = interpret(kernel, arrays, {})["Y"].astype(np.float64)
    places = 2.0 ** -(DTYPES["bf16"].mantissa_bits if "bf16" in name else 20)
    assert np.abs(found - exact).max() < 4 * places * max(1.0, np.abs(exact).max())


@pytest.mark.parametrize("name", CELLS)
def test_the_steps_of_a_cell_can_be_judged_one_by_one(name: str) -> None:
    apart = iterations_apart(load(name))
    assert apart is not None
    assert list(apart.shown.values()) == ["Y"]


@pytest.mark.parametrize("name", ["gru_bf16", "gru_reset_first_bf16", "lstm_bf16", "rnn_tanh_bf16"])
def test_a_sequence_in_pieces_is_the_sequence_as_no_piece_rounds_the_state(name: str) -> None:
    arrays = inputs_of(load(name))
    whole = interpret(load(name), arrays, {})
    first = interpret(load(name, T=2), arrays | {"X": arrays["X"][:2]}, {})
    states = {"h0": first["h"]} | ({"c0": first["c"]} if "c" in first else {})
    rest = interpret(load(name, T=3), arrays | states | {"X": arrays["X"][2:]}, {})
    assert np.array_equal(np.concatenate([first["Y"], rest["Y"]]), whole["Y"])
    assert np.array_equal(rest["h"], whole["h"])


@pytest.mark.parametrize("name", ["gru", "lstm"])
def test_weights_of_bytes_are_close_to_the_weights_they_stand_for(name: str) -> None:
    arrays = inputs_of(load(name))
    of_bytes = {n: a for n, a in arrays.items() if n not in ("W", "U")}
    for weights, largest in (("W", "p"), ("U", "q")):
        of_bytes[largest] = np.abs(arrays[weights]).max(axis=1)
        of_bytes[weights] = np.rint(127 * arrays[weights] / of_bytes[largest][:, None]).astype(np.int8)
    found = interpret(load(f"{name}_s8"), of_bytes, {})["Y"]
    assert 0 < np.abs(found - interpret(load(name), arrays, {})["Y"]).max() < 0.02


def stacked(name: str, X: Array, layers: list[dict[str, Array]], run: Callable[..., Array]) -> Array:
    """Return the rows of the last of several layers, each of which reads those of the one before it."""
    rows = X
    for layer in layers:
        rows = run(name, rows, layer)
    return rows


def interpreted(name: str, X: Array, given: dict[str, Array]) -> Array:
    return interpret(load(name, C=X.shape[-1]), {"X": X, **given}, {})["Y"]


def by_formulas(name: str, X: Array, given: dict[str, Array]) -> Array:
    return TWO_WAYS[name](X=X, **given)["Y"]


def layers_of(name: str) -> list[dict[str, Array]]:
    """Return two layers in both directions: the second has the rows of the first for its features."""
    found = [inputs_of(load(name, C=features)) for features in (SIZES["C"], 2 * SIZES["H"])]
    return [{n: a for n, a in layer.items() if n != "X"} for layer in found]


@pytest.mark.parametrize("name", TWO_WAYS)
def test_layers_of_two_directions_stand_on_each_other(name: str) -> None:
    X, layers = inputs_of(load(name))["X"], layers_of(name)
    exact = stacked(name, X, layers, by_formulas)
    assert np.abs(stacked(name, X, layers, interpreted) - exact).max() < 1e-5


@pytest.mark.parametrize("name", ["gru", "lstm", "rnn_tanh"])
def test_two_layers_in_two_directions_are_those_of_torch(name: str) -> None:
    torch: Any = pytest.importorskip("torch")
    kernel, kind = f"{name}_bidirectional", {"gru": "GRU", "lstm": "LSTM", "rnn_tanh": "RNN"}[name]
    X, layers = inputs_of(load(kernel))["X"], layers_of(kernel)
    net = getattr(torch.nn, kind)(SIZES["C"], SIZES["H"], num_layers=2, bidirectional=True)
    with torch.no_grad():
        for (number, layer), way in product(enumerate(layers), range(2)):
            of_way = {n: a[way].astype(np.float32) for n, a in layer.items()}
            theirs = {
                "weight_ih": of_way["W"].swapaxes(-1, -2),
                "weight_hh": of_way["U"].swapaxes(-1, -2),
                "bias_ih": of_way["b"],
                "bias_hh": of_way.get("d", 0 * of_way["b"]),
            }
            for part, values in theirs.items():
                to = getattr(net, f"{part}_l{number}" + way * "_reverse")
                to.copy_(torch.from_numpy(values.reshape(to.shape).copy()))
    states = [
        torch.from_numpy(np.concatenate([layer[n] for layer in layers]).astype(np.float32))
        for n in ("h0", "c0")
        if n in layers[0]
    ]
    with torch.no_grad():
        expected = net(torch.from_numpy(X.astype(np.float32)), tuple(states) if kind == "LSTM" else states[0])
    assert np.abs(stacked(kernel, X, layers, interpreted) - expected[0].numpy()).max() < 1e-5
