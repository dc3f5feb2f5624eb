"""Operations that start a kernel: products, convolutions, sums and other operations over whole rows.

aten.addmm(b, x, w)  ->  for d0 in 16, d1 in 32 { s[d0, d1] = b[d1]; }
                         for d0 in 16, d1 in 32, k in 64 { s[d0, d1] += x[d0, k] * w[k, d1]; }

Each fills a buffer of the shape of its result, or of its first result, in the type in which torch computes.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any

from isamap.graph.terms import NotTaken
from isamap.torch.convolution_kernels import convolution, convolution_backward
from isamap.torch.kernel_statements import Axes, Filled, Several, Writer, own_axes, shape_of, wide_of
from isamap.torch.recurrent_kernels import RECURRENT


def _product(node: Any, to: Writer, at: Axes, element: str, first: int = 0) -> None:
    """Products of matrices, one or a batch, onto what the element holds."""
    a, b = node.args[first], node.args[first + 1]
    *batch, m, n = at
    left = to.read(a, (*batch, m, "k"))
    right = to.read(b, (*batch, "k", n))
    depth = a.meta["val"].shape[-1]
    to.loop({**own_axes(node), "k": depth}, f"{element} += {left} * {right};")


def _mm(node: Any, to: Writer, at: Axes, element: str) -> None:
    to.loop(own_axes(node), f"{element} = 0;")
    _product(node, to, at, element)


def _addmm(node: Any, to: Writer, at: Axes, element: str) -> None:
    if node.kwargs.get("beta", 1) != 1 or node.kwargs.get("alpha", 1) != 1:
        raise NotTaken("addmm with factors has no kernel here")
    bias = node.args[0]
    shape = bias.meta["val"].shape
    there = [axis if size != 1 else "0" for axis, size in zip(at[len(at) - len(shape) :], shape, strict=True)]
    to.loop(own_axes(node), f"{element} = {to.read(bias, there)};")
    _product(node, to, at, element, 1)


def _reduced(op: str, start: str, mean: bool = False) -> Filled:
    """Return a reduction over some dimensions."""

    def filled(node: Any, to: Writer, at: Axes, element: str) -> None:
        shape = tuple(node.args[0].meta["val"].shape)
        gone = _dimensions(node, len(shape))
        keeps = bool(node.args[2]) if len(node.args) > 2 else bool(node.kwargs.get("keepdim", False))
        left = iter(at)
        index: list[str] = []
        inner: dict[str, int] = {}
        for n, size in enumerate(shape):
            if n in gone:
                index.append(f"k{n}" if size != 1 else "0")
                inner |= {f"k{n}": size} if size != 1 else {}
                if keeps:
                    next(left)
            else:
                index.append(next(left))
        to.loop(own_axes(node), f"{element} = {start};")
        to.loop({**own_axes(node), **inner}, f"{element} {op} {to.read(node.args[0], index)};")
        if mean:
            to.loop(own_axes(node), f"{element} = {element} / {prod(shape[n] for n in gone)};")

    return filled


def _dimensions(node: Any, rank: int) -> set[int]:
    given = node.args[1] if len(node.args) > 1 else node.kwargs.get("dim")
    if given is None or given == []:
        return set(range(rank))
    return {d % max(rank, 1) for d in ([given] if isinstance(given, int) else given)}


def _softmax(is_log: bool) -> Filled:
    def filled(node: Any, to: Writer, at: Axes, element: str) -> None:
        shape = shape_of(node)
        dim = int(node.args[1]) % max(len(shape), 1)
        dtype = wide_of(node)
        rows = {f"d{n}": size for n, size in enumerate(shape) if size != 1 and n != dim}
        buffers = [to.temporary(dtype, list(rows.values())) for _ in range(2)]
        top, total = (f"{b}[{', '.join(rows)}]" if rows else b for b in buffers)
        x, whole = to.read(node.args[0], at), own_axes(node)
        to.loop(rows, f"{top} = -inf;")
        to.loop(whole, f"{top} max= {x};")
        if is_log:
            to.loop(rows, f"{total} = 0;")
            to.loop(whole, f"{total} += exp({x} - {top});")
            to.loop(rows, f"{total} = log({total});")
            to.loop(whole, f"{element} = {x} - {top} - {total};")
            return
        to.loop(whole, f"{element} = exp({x} - {top});")
        to.loop(rows, f"{total} = 0;")
        to.loop(whole, f"{total} += {element};")
        to.loop(whole, f"{element} = {element} / {total};")

    return filled


def _layer_norm(node: Any, to: Writer, at: Axes, element: str) -> None:
    x, normalized, gamma, beta, eps = node.args
    shape, dtype = shape_of(node), wide_of(node)
    first = len(shape) - len(normalized)
    whole = own_axes(node)
    rows = {name: size for name, size in whole.items() if int(name[1:]) < first}
    buffers = [to.temporary(dtype, list(rows.values())) for _ in range(2)]
    mean, rate = (f"{b}[{', '.join(rows)}]" if rows else b for b in buffers)
    value, count = to.read(x, at), prod(normalized)
    to.loop(rows, f"{mean} = 0;")
    to.loop(whole, f"{mean} += {value};")
    to.loop(rows, f"{mean} = {mean} / {count};", f"{rate} = 0;")
    to.loop(whole, f"{rate} += ({value} - {mean}) * ({value} - {mean});")
    to.loop(rows, f"{rate} = 1 / sqrt({rate} / {count} + {dtype}({eps}));")
    scale = f" * {to.read(gamma, at[first:])}" if gamma is not None else ""
    shift = f" + {to.read(beta, at[first:])}" if beta is not None else ""
    to.loop(whole, f"{element} = ({value} - {mean}) * {rate}{scale}{shift};")
    to.further(1, mean)
    to.further(2, rate)


ANCHORS: Mapping[str, Filled] = {
    "mm.default": _mm,
    "bmm.default": _mm,
    "addmm.default": _addmm,
    "convolution.default": convolution,
    "native_layer_norm.default": _layer_norm,
    "sum.dim_IntList": _reduced("+=", "0"),
    "sum.default": _reduced("+=", "0"),
    "mean.dim": _reduced("+=", "0", mean=True),
    "mean.default": _reduced("+=", "0", mean=True),
    "amax.default": _reduced("max=", "-inf"),
    "amin.default": _reduced("min=", "inf"),
    "_softmax.default": _softmax(is_log=False),
    "_log_softmax.default": _softmax(is_log=True),
}

SEVERAL: Mapping[str, Several] = {"convolution_backward.default": convolution_backward, **RECURRENT}
SEARCHED = frozenset(("convolution_backward.default",))
"""The operations whose kernels are searched if no heuristic is named."""
