"""Translate operations of torch to ONNX operators with the same meaning up to the order of sums.

hardtanh.default(c, 0, 6)      Clip(c, low, high)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

import numpy as np

from isamap.graph.graph import Array, Attribute, Node
from isamap.graph.terms import NotTaken
from isamap.graph.types import NUMBERS
from isamap.ir import DTYPES, OPS
from isamap.torch.convolution_kernels import for_each_axis
from isamap.torch.fx_nodes import RESHAPES, is_result, lying, name_of
from isamap.torch.node_types import first_of

FLOATS = frozenset(("bf16", "f32", "f64"))


@dataclass(slots=True)
class Translation:
    """A model in the making, and the tensors that are known before it runs."""

    known: Mapping[Any, Any]
    nodes: list[Node] = field(default_factory=list[Node])
    constants: dict[str, Array] = field(default_factory=dict[str, Array])
    names: dict[Any, str] = field(default_factory=dict[Any, str])

    def name(self, node: Any) -> str:
        """Return the name of a node's value."""
        if node in self.known and node.name not in self.constants:
            self.constants[node.name] = array_of(self.known[node])
        return self.names.get(node, str(node.name))

    def constant(self, array: Array) -> str:
        """Return the name of an array."""
        name = f".{len(self.constants)}"
        self.constants[name] = array
        return name

    def integers(self, *numbers: int) -> str:
        return self.constant(np.asarray(numbers, np.int64))

    def term(self, value: Any, like: Any) -> str:
        """Return an argument: a node, as one of another's type, or a number that this type has. Raises: NotTaken."""
        dtype = lying(like).dtype
        if hasattr(value, "meta"):
            if lying(value).dtype == dtype:
                return self.name(value)
            if value.meta["val"].dim() == 0:  # which torch takes in its own precision in some operations
                raise NotTaken("a number in a tensor of another type")
            return self.cast(value, dtype)
        with np.errstate(over="ignore"):  # beyond f32 it is infinite, which clamps nothing
            found = np.asarray(value).astype(DTYPES[dtype].numpy())
        if dtype != "f32" and float(found) != float(value):
            raise NotTaken(f"the number {value} in {dtype}")
        return self.constant(found)

    def cast(self, value: Any, dtype: str, result: str = "") -> str:
        """Return a node of floats as other ones; so are terms of several types. Raises: NotTaken."""
        if not {lying(value).dtype, dtype} <= FLOATS:
            raise NotTaken("a conversion of values that are not floats")
        name = result or f"{value.name}.{dtype}"
        if result or all(name not in node.outputs for node in self.nodes):
            self.nodes.append(Node("Cast", "", name, (self.name(value),), (name,), {"to": NUMBERS[dtype]}))
        return name

    def put(self, node: Any, op: str, *inputs: str, result: str = "", **attributes: Attribute) -> str:
        """Add an operator; the name of its result, by default the node's."""
        name = result or node.name
        self.nodes.append(Node(op, "", name, inputs, (name,), attributes))
        return name


Translated = Callable[[Translation, Any], None]
"""Adds to a model what a node says. Raises: NotTaken."""


def array_of(tensor: Any) -> Array:
    """Return a tensor as an array, dense."""
    torch: Any = import_module("torch")
    dense = tensor.detach().contiguous()
    if dense.dtype is torch.bfloat16:
        return dense.view(torch.int16).numpy().view(DTYPES["bf16"].numpy())
    return dense.numpy()


# --- operations on single elements, products and sums ---


def _each(op: str, count: int = 1) -> Translated:
    """Return an operator on single elements of one type."""

    def put(to: Translation, node: Any) -> None:
        if node.kwargs.get("alpha", 1) != 1 or len(node.args) > count or lying(node).dtype == "bool":
            raise NotTaken("further arguments, or truths")
        to.put(node, op, *(to.term(value, node) for value in node.args))

    return put


def _clip(default: tuple[float | None, float | None]) -> Translated:
    def put(to: Translation, node: Any) -> None:
        x, *limits = node.args
        given = [*limits, *default[len(limits) :]]
        given = [node.kwargs.get(name, value) for name, value in zip(("min", "max"), given, strict=True)]
        if not all(limit is None or isinstance(limit, int | float) for limit in given):
            raise NotTaken("limits that are tensors")
        names = ["" if limit is None else to.term(limit, node) for limit in given]
        to.put(node, "Clip", to.term(x, node), *names)

    return put


def _to_copy(to: Translation, node: Any) -> None:
    if node.kwargs.keys() - {"dtype"}:
        raise NotTaken("a copy to elsewhere")
    to.cast(node.args[0], lying(node).dtype, node.name)


def _gelu(to: Translation, node: Any) -> None:
    to.put(node, "Gelu", to.term(node.args[0], node), approximate=node.kwargs.get("approximate", "none"))


def _convolution(to: Translation, node: Any) -> None:
    x, w, bias, stride, padding, dilation, is_transposed, _, groups = node.args
    count = w.meta["val"].ndim - 2
    stride, padding, dilation = (for_each_axis(n, count) for n in (stride, padding, dilation))
    if is_transposed:
        raise NotTaken("a transposed convolution")
    terms = [to.term(t, node) for t in (x, w, bias) if t is not None]
    to.put(
        node, "Conv", *terms, strides=tuple(stride), pads=(*padding, *padding), dilations=tuple(dilation),
        group=groups,
    )  # fmt: skip


def _arguments(node: Any, *defaults: Any) -> list[Any]:
    """Return the arguments of a node, with the defaults of the last ones where these are left out."""
    return [*node.args, *defaults[len(node.args) :]]


def _max_pool(to: Translation, node: Any) -> None:
    x, window, stride, padding, dilation, ceil = _arguments(node, None, None, (), (0, 0), (1, 1), False)
    if ceil:
        raise NotTaken("windows that begin inside and end outside")
    window, stride, padding, dilation = (
        for_each_axis(n, 2) for n in (window, stride or window, padding, dilation)
    )
    to.put(
        node, "MaxPool", to.name(x), kernel_shape=tuple(window), strides=tuple(stride),
        pads=(*padding, *padding), dilations=tuple(dilation),
    )  # fmt: skip


def _product(to: Translation, node: Any) -> None:
    to.put(node, "MatMul", *(to.term(t, node) for t in node.args))


def _addmm(to: Translation, node: Any) -> None:
    if node.kwargs:
        raise NotTaken("addmm with factors")
    bias, x, w = (to.term(t, node) for t in node.args)
    to.put(node, "Gemm", x, w, bias)


def _reduced(op: str) -> Translated:
    def put(to: Translation, node: Any) -> None:
        x, axes = node.args[0], node.args[1] if len(node.args) > 1 else None
        rank = len(x.meta["val"].shape)
        axes = range(rank) if axes is None or axes == [] else [axes] if isinstance(axes, int) else axes
        keeps = bool(node.args[2]) if len(node.args) > 2 else bool(node.kwargs.get("keepdim", False))
        gone = sorted(axis % max(rank, 1) for axis in axes)
        if op == "ReduceMean" and keeps and rank > 2 and gone == list(range(2, rank)):
            to.put(node, "GlobalAveragePool", to.term(x, node))
            return
        to.put(node, op, to.term(x, node), to.integers(*gone), keepdims=int(keeps))

    return put


def _softmax(op: str) -> Translated:
    def put(to: Translation, node: Any) -> None:
        to.put(node, op, to.term(node.args[0], node), axis=int(node.args[1]))

    return put


def _layer_norm(to: Translation, node: Any) -> None:
    x, sizes, gain, shift, eps = node.args
    like = first_of(node)
    scale = to.name(gain) if gain is not None else ""
    if not scale:
        dtype = lying(x).dtype
        scale = to.constant(np.ones(tuple(sizes), DTYPES[dtype].numpy()))
    terms = [to.name(x), scale, *([to.name(shift)] if shift is not None else [])]
    if any(t is not None and t.meta["val"].dtype != like.dtype for t in (x, gain, shift)):
        raise NotTaken("terms of several types")
    to.put(node, "LayerNormalization", *terms, axis=-len(sizes), epsilon=float(eps))


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


def _concat(to: Translation, node: Any) -> None:
    parts, axis = node.args[0], node.args[1] if len(node.args) > 1 else 0
    to.put(node, "Concat", *(to.term(part, node) for part in parts), axis=axis)


def _stack(to: Translation, node: Any) -> None:
    parts, axis = node.args[0], node.args[1] if len(node.args) > 1 else 0
    axis %= node.meta["val"].dim()
    sizes = to.integers(*(1 if n == axis else size for n, size in enumerate(node.meta["val"].shape)))
    if len(parts) == 1:
        to.put(node, "Reshape", to.term(parts[0], node), sizes)
        return
    names = [f"{node.name}.part.{n}" for n in range(len(parts))]
    for name, part in zip(names, parts, strict=True):
        to.put(node, "Reshape", to.term(part, node), sizes, result=name)
    to.put(node, "Concat", *names, axis=axis)


def _cut(to: Translation, node: Any, axis: int, first: int, end: int, *, whole: bool = True) -> None:
    """Write a part of a node's argument along an axis, to its place where it is not `whole`."""
    x = node.args[0].args[0] if is_result(node) else node.args[0]
    sizes = [to.integers(number) for number in (first, end, axis)]
    part = to.put(node, "Slice", to.name(x), *sizes, result="" if whole else f"{node.name}.part")
    if not whole:
        to.put(node, "Reshape", part, to.integers(*node.meta["val"].shape))


def _slice(to: Translation, node: Any) -> None:
    x, axis, first, end, step = _arguments(node, None, 0, None, None, 1)
    if step != 1:
        raise NotTaken("a slice with steps")
    size = x.meta["val"].shape[axis]
    first, end, _ = slice(first, end).indices(size)
    _cut(to, node, axis % x.meta["val"].dim(), first, max(first, end))


def _select(to: Translation, node: Any) -> None:
    x, axis, place = node.args
    rank, place = x.meta["val"].dim(), place % x.meta["val"].shape[axis]
    _cut(to, node, axis % rank, place, place + 1, whole=False)


def _unbind(to: Translation, node: Any) -> None:
    x, *axis = node.args[0].args
    _cut(to, node, (axis or [0])[0] % x.meta["val"].dim(), node.args[1], node.args[1] + 1, whole=False)


def _split(to: Translation, node: Any) -> None:
    x, sizes, *axis = node.args[0].args
    at = (axis or [0])[0] % x.meta["val"].dim()
    count = x.meta["val"].shape[at]
    sizes = [sizes] * -(-count // sizes) if isinstance(sizes, int) else sizes
    first = sum(sizes[: node.args[1]])
    _cut(to, node, at, first, min(count, first + sizes[node.args[1]]))


PARTS: Mapping[str, Translated] = {
    "unbind.int": _unbind,
    "split.Tensor": _split,
    "split_with_sizes.default": _split,
}
"""Operations that give several parts of a tensor: each part is one operator."""

OPERATIONS: Mapping[str, Translated] = {
    **{
        f"{name}.{form}": _each(onnx, op.arity)
        for op in OPS.values() if op.domain in ("number", "float") and op.result == "same"
        for name, onnx in zip(op.aten, op.onnx, strict=False) if name and onnx
        for form in (("Tensor", "Scalar", "default") if op.arity > 1 else ("default",))
    },
    **{f"{name}.default": _each(op) for name, op in (
        ("relu", "Relu"), ("reciprocal", "Reciprocal"), ("hardswish", "HardSwish"), ("silu", "Swish"),
    )},
    "hardtanh.default": _clip((-1, 1)),
    "clamp.default": _clip((None, None)),
    "gelu.default": _gelu,
    "_to_copy.default": _to_copy,
    "convolution.default": _convolution,
    "max_pool2d_with_indices.default": _max_pool,
    "mm.default": _product,
    "bmm.default": _product,
    "addmm.default": _addmm,
    "mean.dim": _reduced("ReduceMean"),
    "sum.dim_IntList": _reduced("ReduceSum"),
    "amax.default": _reduced("ReduceMax"),
    "amin.default": _reduced("ReduceMin"),
    "_softmax.default": _softmax("Softmax"),
    "_log_softmax.default": _softmax("LogSoftmax"),
    "native_layer_norm.default": _layer_norm,
    "permute.default": _permute,
    "transpose.int": _permute,
    "t.default": _permute,
    "expand.default": _expand,
    "cat.default": _concat,
    "stack.default": _stack,
    "slice.Tensor": _slice,
    "select.int": _select,
    "clone.default": _same,
    **dict.fromkeys(RESHAPES - {"alias.default", "detach.default"}, _reshape),
    **dict.fromkeys(("alias.default", "detach.default"), _same),
}  # fmt: skip
