"""A graph of inference as one library: its kernels, its order and its workspace, called once.

    run(given)  ->  library.call_at([address of x], [address of y])

The library is made when the graph is first called, as weights are known then: what they alone make is
computed, norms of batches are folded, filters and matrices are packed. It is made anew where torch's count of
their changes differs, from the same kernels, by the same code with other weights. A graph of which some node
has no operator is performed by kernels of its groups, one by one.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib import import_module
from threading import Lock
from typing import Any

import numpy as np

from isamap.graph.graph import Attribute, Graph, Model, Node, Signature
from isamap.graph.importing import lower_model
from isamap.graph.model_library import CompiledModel, How, compile_whole
from isamap.graph.terms import NotTaken
from isamap.source import IsamapError
from isamap.torch.fx_nodes import is_result, is_view, lying, name_of, seen_through
from isamap.torch.kernels import Options
from isamap.torch.operators import OPERATIONS, PARTS, Translated, Translation, array_of
from isamap.torch.packing import Contents, version_of, weights_of
from isamap.torch.program_runner import Values, as_foretold, making
from isamap.torch.unit_order import Program, Ran, make_program, ran_of

MOST_MADE = 8
"""The limit on rebuilding a library. Weights that change more often are packed kernel by kernel."""


def whole_program(graph: Any, options: Options, made: list[Whole] | None = None) -> Program:
    """Return the program of a graph of inference, one library where that is possible, which is added to `made`."""
    weights = weights_of(graph)
    try:
        whole = Whole(graph, options, weights)
    except NotTaken as reason:
        return replace(make_program(graph, options, weights), why_apart=lambda said=str(reason): said)
    if made is not None:
        made.append(whole)
    return Program(whole.run, whole.told, lambda: whole.why_apart)


@dataclass(frozen=True, slots=True)
class _Made:
    """A library, and the contents of the weights that it was made of."""

    library: CompiledModel
    key: tuple[int, ...]
    contents: Contents


class Whole:
    """A graph of inference, and its library as soon as weights are known."""

    def __init__(self, graph: Any, options: Options, weights: frozenset[Any]) -> None:
        """Raise NotTaken."""
        self.graph, self.options = graph, options
        self.why_apart = ""
        (self.output,) = (n for n in graph.nodes if n.op == "output")
        self.inputs = [n for n in graph.nodes if n.op == "placeholder"]
        self.packed = weights
        self.prepared = tuple(_of_weights_alone(graph, weights))
        known = weights.union(self.prepared)
        self.open = [n for n in graph.nodes if n.op != "output" and n not in known]
        _check(self.open, self.output, known)
        self.weights = [n for n in self.inputs if n in weights and n.users]
        self.places = [self.inputs.index(node) for node in self.weights]
        self.given = [(n, as_foretold(node)) for n, node in enumerate(self.inputs) if node not in weights]
        self.making = [making(node) for node in given_back(self.output)]
        tensor: Any = import_module("torch").Tensor
        self._address, self._version = tensor.data_ptr, tensor._version.__get__
        self._seen: list[tuple[Sequence[Any], Sequence[Any]]] | None = None
        self._lock = Lock()
        self._made: _Made | None = None
        self._count = self._changes = 0
        self._apart: Program | None = None

    def told(self) -> tuple[Ran, ...]:
        """Return where each node ran, as far as the graph was called."""
        if self._apart is not None:
            return self._apart.told()
        return tuple(self._ran())

    def _ran(self) -> Iterator[Ran]:
        count = self._made.library.library.kernels if self._made is not None else 0
        for node in self.graph.nodes:
            if node.op != "call_function" or is_result(node):
                continue
            if node in self.prepared:
                yield ran_of(node, "nowhere", "of weights alone: torch computes it once")
            elif is_view(node):
                yield ran_of(node, "nowhere", "a view computes nothing")
            else:
                yield ran_of(node, "kernel", f"one of the {count} of a library that is called once")

    def run(self, given: Sequence[Any]) -> Any:
        """Return the results for such inputs; with nothing to spare, as it counts for each call."""
        key, made = self._key([given[place] for place in self.places]), self._made
        if made is not None and made.key == key and made.contents.differ():
            self._changes += 1
            key = (*key[:-1], self._changes)
        if made is None or made.key != key:
            made = self._made_of(given, key)
        if made is None:
            assert self._apart is not None, "it is made where there is no library"
            return self._apart.run(given)
        read = [seen(given[place]) for place, seen in self.given]
        results = [make() for make in self.making]
        made.library.call_at([t.data_ptr() for t in read], [t.data_ptr() for t in results])
        if self._seen is not None:
            self._seen.append((given, results))
        return results

    @contextmanager
    def watched(self, seen: list[tuple[Sequence[Any], Sequence[Any]]]) -> Generator[None]:
        """Note what calls are given, and what they give back."""
        self._seen = seen
        try:
            yield
        finally:
            self._seen = None

    def _key(self, tensors: Sequence[Any]) -> tuple[int, ...]:
        """By what weights are known: where they lie, and how often they have changed."""
        try:
            versions: tuple[int, ...] = tuple(map(self._version, tensors))
        except RuntimeError:  # of tensors for inference, whose changes torch does not count
            versions = tuple(map(version_of, tensors))
        return (*map(self._address, tensors), *versions, self._changes)

    def _made_of(self, given: Sequence[Any], key: tuple[int, ...]) -> _Made | None:
        """Return the library of such weights; None where there is none, and kernels of groups are there instead."""
        values = dict(zip(self.inputs, given, strict=True))
        with self._lock:
            if self._made is not None and self._made.key == key:
                return self._made
            if self._apart is None:
                try:
                    self._count += 1
                    if self._count > MOST_MADE:
                        raise NotTaken("its weights go on changing")
                    contents = Contents([values[node] for node in self.weights])
                    self._made = _Made(self._library(values), key, contents)
                    return self._made
                except NotTaken as reason:
                    self.why_apart = str(reason)
                except IsamapError as error:
                    self.why_apart = error.diagnostics[0].message
                self._apart = make_program(self.graph, self.options, self.packed)
                self._made = None
            return None

    def _library(self, values: Mapping[Any, Any]) -> CompiledModel:
        """Return the library of such weights. Raises: NotTaken, IsamapError."""
        torch: Any = import_module("torch")
        known: Values = {node: values[node] for node in self.weights}
        with torch.no_grad():
            for node in self.prepared:
                args, kwargs = torch.fx.node.map_arg((node.args, node.kwargs), known.__getitem__)
                known[node] = node.target(*args, **kwargs)
        model = translated(self.graph, known, "graph")
        own = self.options.of_kernel(is_searched=False)
        how = How(own.machine, own.heuristic, own.limit_s, jobs=1, threads=own.threads)
        return compile_whole(lower_model(model, "graph", {}, {}).whole(), how, apart=True)


def _of_weights_alone(graph: Any, weights: frozenset[Any]) -> Iterator[Any]:
    """Yield the nodes that are the same in each call, in the order of the graph."""
    random = import_module("torch").Tag.nondeterministic_seeded
    known = set(weights)
    for node in graph.nodes:
        if node.op != "call_function" or not known.issuperset(node.all_input_nodes):
            continue
        schema = getattr(node.target, "_schema", None)
        if not is_result(node) and (schema is None or schema.is_mutable or random in node.target.tags):
            continue
        known.add(node)
        yield node


def _check(nodes: Sequence[Any], output: Any, known: frozenset[Any]) -> None:
    """Raise NotTaken for a graph that is no library."""
    for node in nodes:
        if node.op != "placeholder" and not (node.op == "call_function" and is_translated(node)):
            raise NotTaken(f"`{node.name}` has no operator in it")
    results = given_back(output)
    if not all(hasattr(node, "meta") for node in results):
        raise NotTaken("a result is no tensor")
    bases = [seen_through(node) for node in results]
    if len(set(bases)) < len(bases) or any(n in known or n.op == "placeholder" for n in bases):
        raise NotTaken("a result shares memory with another, or with an input")


# A graph of torch.fx as a model of ONNX's operators, which one library performs (docs/onnx.md).
#
#     convolution(x, w, b, …), hardtanh(c, 0, 6)      Conv(x, w, b), Clip(c, low, high)
#
# What weights alone make is known before, and a constant of the model. One operation that is not taken
# leaves the whole graph to kernels of its groups.


# Recurrent layers of torch as operators of ONNX: weights known before, their gates in another order.
#
# y, last = isamap.gru(x, h, None, w, u, b, d, False)
#     ->  GRU(x, w[[1, 0, 2]], u[[1, 0, 2]], (b, d)[[1, 0, 2]], h, linear_before_reset=1)


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
    """Add the operator of a layer, whose results are called after it. Raises: NotTaken."""
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
    """Return where a state begins: "" for zeros. Shapes: [1, batch, units]."""
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


OPSET = 20
_PARTS = {**PARTS, **LAYERS}


def translated(graph: Any, known: Mapping[Any, Any], name: str) -> Model:
    """Return the model of a graph; `known` are tensors by node. Raises: NotTaken."""
    made = Translation(known)
    (output,) = (n for n in graph.nodes if n.op == "output")
    inputs: list[Signature] = []
    for node in graph.nodes:
        if node in known or node is output:
            continue
        if node.op == "placeholder":
            inputs.append(_signature(node))
        elif is_result(node) and name_of(node.args[0]) not in _PARTS:
            if node.args[1] != 0:
                raise NotTaken("a result that no operator has")
            made.names[node] = made.name(node.args[0])
        elif is_result(node):
            _PARTS[name_of(node.args[0])](made, node)
        elif name_of(node) not in _PARTS:
            OPERATIONS[name_of(node)](made, node)
    outputs = tuple(_signature(node, made.name(node)) for node in given_back(output))
    found = Graph(name, tuple(made.nodes), tuple(inputs), outputs, made.constants)
    return Model(found, {"": OPSET}, {})


def given_back(output: Any) -> list[Any]:
    """Return the nodes that a graph gives back, in order. Raises: NotTaken."""
    found: Any = output.args[0]
    if type(found) not in (tuple, list):
        raise NotTaken("its result is no list")
    return list(found)


def is_translated(node: Any) -> bool:
    """Return whether there is a way to say a node, which may still say no for its arguments."""
    name = name_of(node)
    return is_result(node) or name in OPERATIONS or name in _PARTS


def _signature(node: Any, name: str = "") -> Signature:
    value = node.meta.get("val")
    if not import_module("torch").is_tensor(value) or not value.is_contiguous():
        raise NotTaken("an input or a result that is no dense tensor")
    return Signature(name or node.name, lying(node).dtype, tuple(value.shape))
