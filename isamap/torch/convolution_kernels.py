"""Convolutions, and their gradients by `isamap.adjoint`.

aten.convolution_backward(g, x, w, …)  ->  the kernel of the derivatives of

    for n in 2, k in 8, p0 in 9, c in 4, r0 in 3 { Y[n, k, p0] += X[n, c, p0 + r0] * F[k, c, r0]; }

with what it reads and writes called as in the kernel at hand.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from isamap.adjoint import gradient
from isamap.graph.terms import NotTaken
from isamap.ir import Kernel, print_stmt
from isamap.source import Source
from isamap.syntax import parse_kernel
from isamap.torch.kernel_statements import Axes, Writer, own_axes, wide_of


def for_each_axis(numbers: Sequence[int], count: int) -> list[int]:
    """Return a stride, a padding or a dilation for each of so many axes: torch takes one for all."""
    return list(numbers) * count if len(numbers) == 1 else list(numbers)


def convolution(node: Any, to: Writer, at: Axes, element: str) -> None:
    """Write a convolution, of any number of dimensions and groups."""
    x, w, bias, stride, padding, dilation, is_transposed, _, groups = node.args
    shape, filters = tuple(x.meta["val"].shape), tuple(w.meta["val"].shape)
    if is_transposed:
        raise NotTaken("a transposed convolution has no kernel here")
    stride, padding, dilation = (for_each_axis(n, len(shape) - 2) for n in (stride, padding, dilation))
    of_group = shape[1] // groups, filters[0] // groups
    inner = {"c": filters[1], **{f"r{d}": size for d, size in enumerate(filters[2:])}}
    inner = {name: size for name, size in inner.items() if size != 1}
    c = "c" if filters[1] != 1 else "0"
    channel = c if groups == 1 else f"{at[1]} / {of_group[1]} * {of_group[0]} + {c}"
    taps = [f"r{d}" if size != 1 else "0" for d, size in enumerate(filters[2:])]
    places = [
        f"{at[2 + d]}*{s} + {tap}*{far} - {pad}"
        for d, (tap, s, far, pad) in enumerate(zip(taps, stride, dilation, padding, strict=True))
    ]
    image = to.read(x, (at[0], channel, *places), padded="0" if any(padding) else "")
    start = to.read(bias, (at[1],)) if bias is not None else "0"
    to.loop(own_axes(node), f"{element} = {start};")
    to.loop({**own_axes(node), **inner}, f"{element} += {image} * {to.read(w, (at[1], c, *taps))};")


def convolution_backward(node: Any, to: Writer) -> None:
    """Write the gradients of image, filters and bias, as far as they are needed."""
    grad, x, w, _, _, _, _, is_transposed, _, groups, needed = node.args
    if is_transposed:
        raise NotTaken("the gradient of a transposed convolution has no kernel here")
    names = [name for name, is_needed in zip("XFB", needed, strict=True) if is_needed]
    made = gradient(_forward(node, wide_of(node)), ["Y"], names)
    read, called = {"X": (x, 1), "F": (w, 0), "d_Y": (grad, 1)}, dict[str, str]()
    for operand in made.operands:
        if operand.name in read:
            called[operand.name] = to.array(*read[operand.name], groups)
        else:
            sizes = [int(size.evaluate({})) for size in operand.shape]
            called[operand.name] = to.temporary(operand.dtype.name, sizes)
    for statement in made.body:
        to.loop(
            {}, re.sub(r"[A-Za-z_0-9]+", lambda word: called.get(word[0], word[0]), print_stmt(statement))
        )
    image, filters = tuple(x.meta["val"].shape), tuple(w.meta["val"].shape)
    for number, (name, shape, axis) in enumerate(
        (("d_X", image, 1), ("d_F", filters, 0), ("d_B", filters[:1], 0))
    ):
        if name in called:
            to.further(number, f"{called[name]}[{', '.join(_cut(shape, axis, groups))}]")


def _forward(node: Any, dtype: str) -> Kernel:
    """Return the convolution of a gradient as a kernel; several groups are an axis of their own."""
    grad, x, w, _, stride, padding, dilation, _, _, groups, _ = node.args
    image, filters, result = (tuple(t.meta["val"].shape) for t in (x, w, grad))
    count = len(image) - 2
    stride, padding, dilation = (for_each_axis(n, count) for n in (stride, padding, dilation))
    apart = {"g": groups} if groups != 1 else {}
    of_image, of_filters = {"n": image[0]} | apart, apart | {"k": filters[0] // groups}
    inner = {"c": filters[1]} | {f"r{d}": filters[2 + d] for d in range(count)}
    outer = of_image | of_filters | {f"p{d}": result[2 + d] for d in range(count)}
    places = [f"p{d}*{stride[d]} + r{d}*{dilation[d]} - {padding[d]}" for d in range(count)]
    read = f"X[{', '.join([*of_image, 'c', *places])}]"
    read = f"({read} else 0)" if any(padding) else read
    operands = {
        "in X": (*of_image.values(), filters[1], *image[2:]),
        "in F": (*of_filters.values(), *filters[1:]),
        "in B": tuple(of_filters.values()),
        "out Y": tuple(outer.values()),
    }
    text = [f"{name}: {dtype}[{', '.join(map(str, sizes))}];" for name, sizes in operands.items()]
    element = f"Y[{', '.join(outer)}]"
    text.append(f"for {_nest(outer)} {{ {element} = B[{', '.join(of_filters)}]; }}")
    filter_ = f"F[{', '.join([*of_filters, *inner])}]"
    text.append(f"for {_nest(outer | inner)} {{ {element} += {read} * {filter_}; }}")
    return parse_kernel(Source("convolution", "kernel convolution() {\n" + "\n".join(text) + "\n}\n"))


def _nest(axes: dict[str, int]) -> str:
    return ", ".join(f"{name} in {size}" for name, size in axes.items())


def _cut(shape: tuple[int, ...], axis: int, parts: int) -> list[str]:
    """Return the place of an element in an array of which an axis is cut into parts, if there are several."""
    at = [f"d{n}" if size != 1 else "0" for n, size in enumerate(shape)]
    if parts != 1:
        each = shape[axis] // parts
        at[axis : axis + 1] = [f"{at[axis]} / {each}", f"{at[axis]} % {each}"]
    return at
