"""What is done to the channels of a convolution is folded into its filters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from isamap.graph.graph import Array, Graph, Node, Signature
from isamap.graph.importing import with_folded_channels

RNG = np.random.default_rng(0)
CONSTANTS: dict[str, Array] = {
    "w": RNG.standard_normal((4, 3, 1, 1), np.float32),
    "b": RNG.standard_normal(4, np.float32),
    "c": RNG.random((4, 1, 1), np.float32) + 1,
    "one": np.asarray(3, np.float32),
    "wide": RNG.random((4, 5, 5), np.float32),
    **{name: RNG.random(4, np.float32) + 0.5 for name in ("gain", "shift", "mean", "variance")},
}
X = RNG.standard_normal((2, 3, 5, 5), np.float32)


def node(op: str, *inputs: str, **attributes: float) -> Node:
    return Node(op, "", op, inputs, ("y",), attributes)


def graph(*behind: Node, bias: bool = True, outputs: Sequence[str] = ("y",)) -> Graph:
    convolution = Node("Conv", "", "conv", ("x", "w", *(["b"] if bias else [])), ("t",), {})
    ports = [Signature(name, "f32", (2, 4, 5, 5)) for name in outputs]
    return Graph("g", (convolution, *behind), (), tuple(ports), CONSTANTS)


INSIDE = Node(
    "If", "", "if", ("flag",), ("z",), {"then_branch": Graph("i", (node("Relu", "t"),), (), (), {})}
)


def convolved(found: Graph) -> Array:
    """Return the result of a graph that is one convolution with filters of one pixel."""
    (only,) = found.nodes
    x, filters, *bias = only.inputs
    assert (only.op, x, only.outputs) == ("Conv", "x", ("y",))
    start = found.constants[bias[0]].reshape(-1, 1, 1) if bias else 0
    return np.einsum("nchw,kc->nkhw", X, found.constants[filters][:, :, 0, 0]) + start


NORM = node("BatchNormalization", "t", "gain", "shift", "mean", "variance", epsilon=1e-3)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize(
    "behind",
    [
        NORM,
        node("Add", "t", "c"),
        node("Sub", "t", "c"),
        node("Sub", "c", "t"),
        node("Mul", "one", "t"),
        node("Div", "t", "c"),
    ],
    ids=lambda behind: f"{behind.op}-{behind.inputs[0]}",
)
def test_factors_and_summands_of_channels_are_in_the_filters(behind: Node, bias: bool) -> None:
    found, gone = with_folded_channels(graph(behind, bias=bias))
    assert gone == (behind,)
    start = CONSTANTS["b"].reshape(-1, 1, 1) if bias else np.float32(0)
    t = np.einsum("nchw,kc->nkhw", X, CONSTANTS["w"][:, :, 0, 0]) + start
    of = {"t": t, **CONSTANTS}
    if behind.op == "BatchNormalization":
        gain, shift, mean, variance = (CONSTANTS[n].reshape(-1, 1, 1) for n in behind.inputs[1:])
        expected = gain * (t - mean) / np.sqrt(variance + 1e-3) + shift
    else:
        a, b = (of[name] for name in behind.inputs)
        expected = {"Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "Div": np.divide}[behind.op](a, b)
    np.testing.assert_allclose(convolved(found), expected, rtol=1e-5, atol=1e-5)


def test_several_behind_each_other_are_folded() -> None:
    first = replace(node("Mul", "t", "c"), outputs=("u",))
    found, gone = with_folded_channels(graph(first, node("Add", "u", "one")))
    assert (len(found.nodes), len(gone)) == (1, 2)


@pytest.mark.parametrize(
    "left",
    [
        graph(node("Add", "t", "wide")),
        graph(node("Add", "t", "t")),
        graph(node("Relu", "t")),
        graph(node("Add", "t", "c"), outputs=("y", "t")),
        graph(node("Add", "t", "c"), INSIDE),
        graph(replace(NORM, attributes={"training_mode": 1})),
        replace(graph(node("Div", "t", "c")), constants={**CONSTANTS, "c": np.zeros((4, 1, 1), np.float32)}),
        replace(
            graph(node("Add", "t", "c")),
            constants={name: array.astype(np.float16) for name, array in CONSTANTS.items()},
        ),
        replace(graph(node("Add", "t", "c")), constants={"c": CONSTANTS["c"]}),
    ],
    ids=[
        "image",
        "itself",
        "relu",
        "read-twice",
        "read-inside",
        "training",
        "division-by-zero",
        "f16",
        "filters-open",
    ],
)
def test_what_filters_cannot_do_is_left(left: Graph) -> None:
    found, gone = with_folded_channels(left)
    assert (found.nodes, gone) == (left.nodes, ())
