"""Recurrent layers of torch as operators of ONNX: weights known before, their gates in another order.

y, last = isamap.gru(x, h, None, w, u, b, d, False)
    ->  GRU(x, w[[1, 0, 2]], u[[1, 0, 2]], (b, d)[[1, 0, 2]], h, linear_before_reset=1)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from isamap.models.terms import NotTaken
from isamap.onnx.graph import Attribute, Node
from isamap.torch.graph import lying, name_of
from isamap.torch.operators import Translated, Translation, array_of


@dataclass(frozen=True, slots=True)
class _Kind:
    """The operator of a layer, and torch's gates in its order."""

    op: str
    gates: tuple[int, ...]
    attributes: Mapping[str, Attribute]


_KINDS: Mapping[str, _Kind] = {
    "gru.default": _Kind("GRU", (1, 0, 2), {"linear_before_reset": 1}),
    "lstm.default": _Kind("LSTM", (0, 3, 1, 2), {}),
    "rnn_tanh.default": _Kind("RNN", (0,), {}),
    "rnn_relu.default": _Kind("RNN", (0,), {"activations": ("Relu",)}),
}


def _layer(to: Translation, node: Any) -> None:
    """Adds the operator of a layer, whose results are called after it. Raises: NotTaken."""
    kind = _KINDS[name_of(node)]
    x, *states, w, u, b, d, is_backwards = node.args
    if lying(x).dtype not in ("f32", "f64"):
        raise NotTaken("a layer whose state is of another type than its results")
    weights = [t for t in (w, u, b, d) if t is not None]
    if any(t not in to.known for t in weights):
        raise NotTaken("a layer whose weights are computed")
    ordered = [array_of(to.known[t])[list(kind.gates)] for t in weights]
    flat = [array.reshape(1, -1, *array.shape[2:]) for array in ordered]
    given = [to.name(x), *map(to.constant, flat[:2])]
    given += [to.constant(np.concatenate(flat[2:], 1)) if flat[2:] else "", ""]
    given += [_state(to, node, state) for state in states if state is not None]
    attributes = {**kind.attributes, "hidden_size": flat[1].shape[2]}
    attributes["direction"] = "reverse" if is_backwards else "forward"
    results = tuple(f"{node.name}.{n}" for n in range(1 + sum(s is not None for s in states)))
    to.nodes.append(Node(kind.op, "", node.name, tuple(given), results, attributes))


def _state(to: Translation, layer: Any, state: Any) -> str:
    """Where a state begins: "" for zeros. Shapes: [1, batch, units]."""
    if state in to.known and not to.known[state].any():
        return ""
    sizes = to.integers(1, *state.meta["val"].shape)
    return to.put(state, "Reshape", to.name(state), sizes, result=f"{layer.name}.from.{state.name}")


def _result(to: Translation, node: Any) -> None:
    layer, number = node.args
    if layer not in to.names:
        _layer(to, layer)
        to.names[layer] = layer.name
    to.put(node, "Reshape", f"{layer.name}.{number}", to.integers(*node.meta["val"].shape))


LAYERS: Mapping[str, Translated] = dict.fromkeys(_KINDS, _result)
"""Of each result of a layer, an operator that gives it torch's sizes; the layer is in front of the first."""
