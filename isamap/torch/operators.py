"""Translate torch operations to ONNX operators with the same meaning up to the order of sums.

hardtanh.default(c, 0, 6)      Clip(c, low, high)
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

import numpy as np

from isamap.graph.graph import Array, Node
from isamap.graph.operators.aten import POINTWISE, count_of, options_of
from isamap.graph.sizes import as_known
from isamap.graph.terms import NotTaken
from isamap.graph.types import NUMBERS
from isamap.ir import DTYPES
from isamap.torch.calls import AtenCall
from isamap.torch.fx_nodes import (
    RESHAPES,
    first_of,
    is_result,
    is_view,
    layout_of,
    name_of,
    outside_tracing,
    promoted_type,
)
from isamap.torch.operation_rows import ROWS, for_each_axis

FLOATS = frozenset(("bf16", "f32", "f64"))


@dataclass(slots=True)
class Translation:
    """The operators of a segment under construction, and the tensors known before it runs.

    `inputs` are the nodes that the segment reads, by name. `sources` give the node of each operator. Nodes in
    `refused` have no operator here, nor have views in `unseen`, with the reason.
    """

    known: Mapping[Any, Any]
    refused: Container[Any] = ()
    nodes: list[Node] = field(default_factory=list[Node])
    constants: dict[str, Array] = field(default_factory=dict[str, Array])
    names: dict[Any, str] = field(default_factory=dict[Any, str])
    inputs: dict[Any, str] = field(default_factory=dict[Any, str])
    sources: dict[Node, Any] = field(default_factory=dict[Node, Any])
    unseen: dict[Any, str] = field(default_factory=dict[Any, str])
    results: dict[Any, tuple[str, ...]] = field(default_factory=dict[Any, "tuple[str, ...]"])

    def name(self, node: Any) -> str:
        """Return the name of a node's value. A view is translated on demand."""
        if node in self.names:
            return self.names[node]
        if node in self.known:
            if node.name not in self.constants:
                self.constants[node.name] = array_of(self.known[node])
            return str(node.name)
        if node not in self.refused and (is_view(node) or (is_result(node) and node.args[0] in self.names)):
            mark = len(self.nodes)
            try:
                translate(self, node)
            except NotTaken as reason:
                self.unseen[node] = str(reason)
                del self.nodes[mark:]
            else:
                return self.names[node]
        layout_of(node)
        self.inputs[node] = self.names[node] = str(node.name)
        return self.names[node]

    def source(self, made: Node) -> Any:
        """Return the torch node to which an operator belongs, or the name of an integer operator's node."""
        return self.sources.get(made) or next(of for own, of in self.sources.items() if own.name == made.name)

    def array(self, node: Any) -> Array | None:
        """Return a known tensor, or None."""
        return array_of(self.known[node]) if node in self.known else None

    def constant(self, array: Array) -> str:
        """Return the name of a constant array."""
        name = f".{len(self.constants)}"
        self.constants[name] = array
        return name

    def integers(self, *numbers: int) -> str:
        return self.constant(as_known(numbers, (len(numbers),)))

    def term(self, value: Any, like: Any) -> str:
        """Return an argument: a node in the type of `like`, or a number of that type. Raises: NotTaken."""
        dtype = layout_of(like).dtype
        if hasattr(value, "meta"):
            if layout_of(value).dtype == dtype:
                return self.name(value)
            if value.meta["val"].dim() == 0:  # which torch takes in its own precision in some operations
                raise NotTaken("a number in a tensor of another type")
            return self.cast(value, dtype)
        with np.errstate(over="ignore"):  # beyond f32 it is infinite, which clamps nothing
            found = np.asarray(value).astype(DTYPES[dtype].numpy())
        if dtype != "f32" and float(found) != float(value):
            raise NotTaken(f"the number {value} in {dtype}")
        return self.constant(found)

    def cast(self, value: Any, dtype: str) -> str:
        """Return a float node in another float type, or in the common type of several. Raises: NotTaken."""
        if not {layout_of(value).dtype, dtype} <= FLOATS:
            raise NotTaken("a conversion of values that are not floats")
        name = f"{value.name}.{dtype}"
        if all(name not in node.outputs for node in self.nodes):
            self.put(value, "Cast", self.name(value), of=name, to=NUMBERS[dtype])
        return name

    def put(
        self,
        node: Any,
        op: str,
        *inputs: str,
        of: str = "",
        results: tuple[str, ...] = (),
        domain: str = "",
        **attributes: Any,
    ) -> str:
        """Add an operator. Return the name of its result, by default the node's, or a tuple of names."""
        name = of or node.name
        made = Node(op, domain, name, inputs, results or (name,), attributes)
        self.nodes.append(made)
        self.sources[made] = node
        if not of:
            self.names[node] = name
        return name

    def inlined(self, module: Any, given: Sequence[Any], outer: Any) -> Any:
        """Return the names of the results of a graph inlined instead of a node. Raises: NotTaken."""
        map_arg: Any = import_module("torch").fx.node.map_arg
        inputs, known = iter(given), dict[Any, Any]()
        inner = Translation(known, (), self.nodes, self.constants)
        for node in module.graph.nodes:
            node.name = f"{outer.name}/{len(self.nodes)}/{node.name}"
            match node.op:
                case "placeholder":
                    source = next(inputs)
                    inner.names[node] = self.name(source)
                    if source in self.known:
                        known[node] = self.known[source]
                case "get_attr":
                    known[node] = _content(getattr(module, node.target))
                case "call_function" if known.keys() >= set(node.all_input_nodes):
                    args, kwargs = map_arg((node.args, dict(node.kwargs)), known.__getitem__)
                    with outside_tracing():
                        known[node] = node.target(*args, **kwargs)
                case "call_function":
                    translate(inner, node)
                case _:
                    results: Any = node.args[0]
                    self.sources |= dict.fromkeys(inner.sources, outer)
                    if type(results) in (tuple, list):
                        return tuple("" if r is None else inner.name(r) for r in results)
                    return inner.name(results)
        raise NotTaken("a decomposition without a result")

    def parts(self, node: Any, count: int) -> tuple[str, ...]:
        """Return names for the first `count` results of a node. Unread results have the name ""."""
        read = {user.args[1] for user in node.users if is_result(user)}
        return tuple(f"{node.name}.{n}" if n in read else "" for n in range(count))


def translate(to: Translation, node: Any) -> None:
    """Add the operators of a node. The result has the node's name. Raises: NotTaken."""
    name = name_of(node)
    if is_result(node):
        base, number = node.args
        if name_of(base) in PARTS:
            PARTS[name_of(base)](to, node)
            return
        to.name(base)
        if base in to.results:
            to.names[node] = to.results[base][number]
            return
        part = f"{base.name}.{number}"
        made = [n for n in to.nodes if part in n.outputs]
        if not made and number:
            raise NotTaken("a result that no operator has")
        to.names[node] = part if made else to.names[base]
        return
    ways = [
        OPERATIONS.get(name),
        _pointwise if name in POINTWISE else None,
        _add_row if name in ROWS else None,
    ]
    is_truth = first_of(node).dtype is import_module("torch").bool
    if is_truth or any(is_result(user) and user.args[1] for user in node.users):
        ways.reverse()  # rows give all results of an operation, and compute with truths
    reason, mark = NotTaken("it has no kernel here"), len(to.nodes)
    for way in filter(None, ways):
        try:
            way(to, node)
        except NotTaken as found:
            reason = found
            del to.nodes[mark:]
        else:
            return
    raise reason


def _add_row(to: Translation, node: Any) -> None:
    """Add the operators of a row, and record the names of its results."""
    found = ROWS[name_of(node)](AtenCall(to, node))
    to.results[node] = (found,) if isinstance(found, str) else found
    if any(is_result(user) and not to.results[node][user.args[1]] for user in node.users):
        raise NotTaken("a result that no operator has")
    to.names[node] = to.results[node][0]


def _pointwise(to: Translation, node: Any) -> None:
    """Add an elementwise operation as torch defines it."""
    name = name_of(node)
    terms = list(node.args[: count_of(name)])
    if not any(hasattr(term, "meta") for term in terms):
        raise NotTaken("a number where a tensor is expected")
    rest = node.args[len(terms) :]
    attributes: dict[str, Any] = {"promoted": promoted_type(terms), "result": layout_of(node).dtype}
    for n, (option, default) in enumerate(options_of(name)):
        value = rest[n] if n < len(rest) else node.kwargs.get(option, default)
        if hasattr(value, "meta"):
            raise NotTaken(f"`{option}` as a tensor has no kernel here")
        attributes[option] = value
    for n, term in enumerate(terms):
        if not hasattr(term, "meta"):
            if not isinstance(term, int | float):
                raise NotTaken(f"the argument {term}")
            attributes[f"number{n}"] = term
    given = [to.name(term) if hasattr(term, "meta") else "" for term in terms]
    to.put(node, name, *given, domain="aten", **attributes)


Translated = Callable[[Translation, Any], None]
"""A function that adds a node's operators to a model. Raises: NotTaken."""


def _content(tensor: Any) -> Any:
    """Return the value of a constant in a traced graph. Raises: NotTaken."""
    found = getattr(tensor, "constant", tensor)
    if found is None:
        raise NotTaken("a constant whose content is not known")
    return found


def array_of(tensor: Any) -> Array:
    """Return a tensor as an array, dense."""
    torch: Any = import_module("torch")
    with outside_tracing():
        dense = tensor.detach().contiguous()
        if dense.dtype is torch.bfloat16:
            return dense.view(torch.int16).numpy().view(DTYPES["bf16"].numpy())
        return dense.numpy()


# --- operations on single elements, products and sums ---


def _translate_elementwise(op: str) -> Translated:
    """Return a translation to an elementwise operator, in which scalings of weights are folded."""

    def put(to: Translation, node: Any) -> None:
        is_plain = not node.kwargs and all(hasattr(term, "meta") for term in node.args)
        if not is_plain or layout_of(node).dtype not in FLOATS:
            raise NotTaken("further arguments, or other terms than tensors of floats")
        to.put(node, op, *(to.term(value, node) for value in node.args))

    return put


def _convolution_backward(to: Translation, node: Any) -> None:
    grad, x, w, _, stride, padding, dilation, is_transposed, _, groups, wanted = node.args
    count = w.meta["val"].ndim - 2
    stride, padding, dilation = (tuple(for_each_axis(n, count)) for n in (stride, padding, dilation))
    if is_transposed:
        raise NotTaken("the gradient of a transposed convolution has no kernel here")
    terms = [to.term(t, x) for t in (grad, x, w)]
    to.put(
        node, name_of(node), *terms, domain="aten", results=to.parts(node, 3), strides=stride, pads=padding,
        dilations=dilation, group=groups, wanted=tuple(map(int, wanted)),
    )  # fmt: skip


# Recurrent layers in one direction, with gates and biases as torch has them.
#
# y, last = isamap.gru(x, h, None, w, u, b, d, False)     GRU(x, w, u, (b, d), "", h, gates=(1, 0, 2))


@dataclass(frozen=True, slots=True)
class _Kind:
    """The operator of a layer, and torch's order of its gates."""

    op: str
    gates: tuple[int, ...]
    attributes: Mapping[str, Any]


_KINDS: Mapping[str, _Kind] = {
    "gru.default": _Kind("GRU", (1, 0, 2), {"linear_before_reset": 1}),
    "lstm.default": _Kind("LSTM", (0, 3, 1, 2), {}),
    "rnn_tanh.default": _Kind("RNN", (0,), {}),
    "rnn_relu.default": _Kind("RNN", (0,), {"activations": ("Relu",)}),
}


def _layer(to: Translation, node: Any) -> None:
    kind = _KINDS[name_of(node)]
    x, *states, w, u, b, d, is_backwards = node.args
    if layout_of(x).dtype == "f16":  # torch rounds each of its steps otherwise
        raise NotTaken("the type torch.float16")
    gates, units, _ = w.meta["val"].shape
    given = [to.name(x)]
    for n, weight in enumerate((w, u)):
        sizes = to.integers(1, gates * units, weight.meta["val"].shape[2])
        given.append(to.put(node, "Reshape", to.name(weight), sizes, of=f"{node.name}.w{n}"))
    biases = [
        to.put(node, "Reshape", to.name(bias), to.integers(1, gates * units), of=f"{node.name}.b{n}")
        for n, bias in enumerate((b, d)) if bias is not None
    ]  # fmt: skip
    given += [to.put(node, "Concat", *biases, of=f"{node.name}.b", axis=1) if biases else "", ""]
    states = [state for state in states if state is not None]
    for n, state in enumerate(states):
        if state in to.known and not to.known[state].any():
            given.append("")
            continue
        sizes = to.integers(1, *state.meta["val"].shape)
        given.append(to.put(node, "Reshape", to.name(state), sizes, of=f"{node.name}.from{n}"))
    results = to.parts(node, 1 + len(states))
    to.put(
        node, kind.op, *given, results=tuple(f"{name}.all" if name else "" for name in results),
        hidden_size=units, direction="reverse" if is_backwards else "forward", gates=kind.gates,
        **kind.attributes,
    )  # fmt: skip
    for name, value in zip(results, node.meta["val"], strict=True):
        if name:
            to.put(node, "Reshape", f"{name}.all", to.integers(*value.shape), of=name)


# --- elements in another order, and parts of tensors ---


def _reshape(to: Translation, node: Any) -> None:
    to.put(node, "Reshape", to.name(node.args[0]), to.integers(*node.meta["val"].shape))


def _same(to: Translation, node: Any) -> None:
    to.names[node] = to.name(node.args[0])


def _permute(to: Translation, node: Any) -> None:
    x, rank = node.args[0], len(node.meta["val"].shape)
    order = list(range(rank))
    match name_of(node):
        case "permute.default":
            order = [axis % rank for axis in node.args[1]]
        case "transpose.int":
            one, other = (axis % rank for axis in node.args[1:])
            order[one], order[other] = other, one
        case _:
            order.reverse()
    to.put(node, "Transpose", to.name(x), perm=tuple(order))


def _expand(to: Translation, node: Any) -> None:
    to.put(node, "Expand", to.name(node.args[0]), to.integers(*node.meta["val"].shape))


def _cut_part(to: Translation, node: Any, axis: int, first: int, end: int, *, whole: bool = True) -> None:
    """Add a slice of a node's argument along an axis. The axis is removed, except with `whole`."""
    x = node.args[0].args[0] if is_result(node) else node.args[0]
    sizes = [to.integers(number) for number in (first, end, axis, 1)]
    part = to.put(node, "Slice", to.name(x), *sizes, of="" if whole else f"{node.name}.part")
    if not whole:
        to.put(node, "Reshape", part, to.integers(*node.meta["val"].shape))


def _select(to: Translation, node: Any) -> None:
    x, axis, place = node.args
    rank, place = x.meta["val"].dim(), place % x.meta["val"].shape[axis]
    _cut_part(to, node, axis % rank, place, place + 1, whole=False)


def _unbind(to: Translation, node: Any) -> None:
    x, *axis = node.args[0].args
    _cut_part(to, node, (axis or [0])[0] % x.meta["val"].dim(), node.args[1], node.args[1] + 1, whole=False)


def _split_parts(to: Translation, node: Any) -> None:
    x, sizes, *axis = node.args[0].args
    at = (axis or [0])[0] % x.meta["val"].dim()
    count = x.meta["val"].shape[at]
    sizes = [sizes] * -(-count // sizes) if isinstance(sizes, int) else sizes
    first = sum(sizes[: node.args[1]])
    _cut_part(to, node, at, first, min(count, first + sizes[node.args[1]]))


PARTS: Mapping[str, Translated] = {
    "unbind.int": _unbind,
    "split.Tensor": _split_parts,
    "split_with_sizes.default": _split_parts,
}
"""Operations that give several parts of a tensor: each part is one operator."""

OPERATIONS: Mapping[str, Translated] = {
    **{f"{op.lower()}.Tensor": _translate_elementwise(op) for op in ("Add", "Sub", "Mul", "Div")},
    "convolution_backward.default": _convolution_backward,
    **dict.fromkeys(_KINDS, _layer),
    "permute.default": _permute,
    "transpose.int": _permute,
    "t.default": _permute,
    "expand.default": _expand,
    "select.int": _select,
    "clone.default": _same,
    **dict.fromkeys(RESHAPES - {"alias.default", "detach.default"}, _reshape),
    **dict.fromkeys(("alias.default", "detach.default"), _same),
}  # fmt: skip
