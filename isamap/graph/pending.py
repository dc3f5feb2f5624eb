"""Kernels with open texts: statements over arrays, and pending elementwise operations.

    Pointwise("add", (x, b), y, "(«0» + «1»)")        y[d0, d1] = (a0[d0, d1] + a1[d1]);

An element of an input stands as «0», «1», … in an expression, so that others may be put in its place.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from math import prod

import numpy as np

from isamap.graph.graph import Array
from isamap.graph.model_program import Direct, KernelCall, TensorView
from isamap.graph.patterns import Strides, broadcast, merge_walks, reshape_strides
from isamap.graph.sizes import OpenSize

PLACE = re.compile("«([0-9]+)»")


@dataclass(frozen=True, slots=True)
class Border:
    """Elements read before and after an array, by axis in memory order, and their fill."""

    widths: tuple[tuple[int, int], ...]
    fill: str


@dataclass(frozen=True, slots=True)
class WrittenKernel:
    """A kernel as declarations and statements, with the tensors of its operands.

    `borders` are operands that are read beyond their edges, where they count as a fill: `(a0[…] else 0)`. If
    it `is_searched`, schedules differ so much that a search pays.
    """

    name: str
    definitions: str
    declared: tuple[str, ...]
    statements: tuple[str, ...]
    reads: Mapping[str, TensorView]
    writes: Mapping[str, TensorView]
    borders: Mapping[str, Border] = field(default_factory=dict[str, Border])
    is_searched: bool = False


@dataclass(frozen=True, slots=True)
class Pointwise:
    """An elementwise operation on inputs that are broadcast to the sizes of the result."""

    name: str
    inputs: tuple[TensorView, ...]
    output: TensorView
    expression: str


Open = Direct | WrittenKernel | Pointwise
"""A step of a program before its kernels have texts."""


def reads_of(step: Open) -> Sequence[TensorView]:
    """Return the arrays that a step reads."""
    if isinstance(step, Pointwise):
        return step.inputs
    return step.reads if isinstance(step, Direct) else tuple(step.reads.values())


def writes_of(step: Open) -> Sequence[TensorView]:
    """Return the arrays that a step writes."""
    if isinstance(step, Pointwise):
        return (step.output,)
    return step.writes if isinstance(step, Direct) else tuple(step.writes.values())


def call_of(kernel: WrittenKernel, sizes: Sequence[OpenSize] = ()) -> tuple[KernelCall, str]:
    """Return the call of a kernel, named by a digest of its text, and the text.

    The open sizes that it names are its parameters, numbered in their order, so that equal kernels are one.
    """
    body = "".join(f"  {line}\n" for line in (*kernel.declared, *kernel.statements))
    params: dict[str, OpenSize] = {}
    if sizes:
        known = {size.symbol: size for size in sizes}
        found = [word for word in dict.fromkeys(re.findall(r"\b[A-Z][0-9]+\b", body)) if word in known]
        own = {symbol: f"N{n}" for n, symbol in enumerate(found)}
        body = re.sub(r"\b[A-Z][0-9]+\b", lambda word: own.get(word[0], word[0]), body)
        params = {own[symbol]: known[symbol] for symbol in found}
    listed = ", ".join(f"{param}: {size.low}..{size.high}" for param, size in params.items())
    digest = hashlib.sha256((kernel.definitions + listed + body).encode()).hexdigest()[:8]
    name = f"{kernel.name[:40].rstrip('_')}_{digest}"
    text = f"{kernel.definitions}kernel {name}({listed}) {{\n{body}}}\n"
    return KernelCall(name, kernel.reads, kernel.writes, kernel.is_searched, params), text


def write_kernel(step: Pointwise) -> WrittenKernel:
    """Return the kernel of an elementwise operation, over the fewest axes that traverse all arrays."""
    shape = step.output.shape
    walks = [broadcast(p.shape, walk_of(p), shape) for p in (*step.inputs, step.output)]
    sizes = merge_walks(shape, walks)
    axes = [f"d{n}" for n in range(len(sizes))]
    declared: list[str] = []
    reads: dict[str, TensorView] = {}
    elements: list[str] = []
    for number, passed in enumerate(step.inputs):
        name, walk = f"a{number}", reshape_strides(shape, walks[number], sizes)
        assert walk is not None, "all walks are possible by these axes"
        kept = [n for n, stride in enumerate(walk) if stride]
        known = replace(passed, shape=tuple(sizes[n] for n in kept) or (1,))
        if passed.is_part:
            known = replace(known, strides=tuple(walk[n] for n in kept) or (1,))
        element, reads[name] = element_of(name, known, [axes[n] for n in kept] or ["0"])
        declared.append(declaration("in", name, reads[name]))
        elements.append(element)
    target, output = element_of("y0", replace(step.output, shape=sizes or (1,)), axes or ["0"])
    declared.append(declaration("out", "y0", output))
    statement = f"{target} = {place_elements(step.expression, elements)};"
    nested = _nest(dict(zip(axes, sizes, strict=True)), statement)
    return WrittenKernel(step.name, "", tuple(declared), (nested,), reads, {"y0": output})


def reshape_operation(step: Pointwise, sizes: tuple[int, ...]) -> Pointwise | None:
    """Return the operation with its result reshaped to `sizes`, or None if strides cannot express an input."""
    shape, inputs = step.output.shape, list[TensorView]()
    if shape == sizes:
        return step
    for passed in step.inputs:
        walk = reshape_strides(shape, broadcast(passed.shape, walk_of(passed), shape), sizes)
        if walk is None:
            return None
        kept = tuple(size if stride else 1 for size, stride in zip(sizes, walk, strict=True))
        there = zip(kept, walk, dense(kept), strict=True)
        if passed.is_part or any(size != 1 and stride != own for size, stride, own in there):
            inputs.append(replace(passed, shape=sizes, strides=walk))
        else:
            inputs.append(replace(passed, shape=kept))
    return replace(step, inputs=tuple(inputs), output=replace(step.output, shape=sizes))


def element_of(name: str, passed: TensorView, index: Sequence[str]) -> tuple[str, TensorView]:
    """Return an element of a tensor at an index, and the tensor in the form that kernels accept."""
    axes, taken = laid_out(passed)
    there = [index[n] if passed.shape[n] != 1 else "0" for n in axes]
    there += ["0"] * (max(1, len(taken.shape)) - len(there))
    return f"{name}[{', '.join(there)}]", taken


def declaration(role: str, name: str, passed: TensorView) -> str:
    """Return the line that declares an operand of a kernel."""
    return f"{role} {name}: {passed.dtype}[{', '.join(map(str, passed.shape)) or '1'}];"


def laid_out(passed: TensorView) -> tuple[tuple[int, ...], TensorView]:
    """Return the tensor axes over which a kernel loops, the outermost first, and the tensor as an operand.

    Axes of one element and broadcast axes of a strided tensor are left out. An axis of one element is added
    if the last axis is not dense, because an operand's last axis must be dense.
    """
    if passed.strides is None:
        return tuple(range(len(passed.shape))), passed
    apart = passed.strides
    real = [n for n, size in enumerate(passed.shape) if size != 1 and apart[n]]
    axes = tuple(sorted(real, key=lambda n: -apart[n]))
    sizes, strides = (tuple(of[n] for n in axes) for of in (passed.shape, apart))
    if strides and strides[-1] != 1:
        sizes, strides = (*sizes, 1), (*strides, 1)
    return axes, replace(passed, shape=sizes, strides=strides)


def walk_of(passed: TensorView) -> Strides:
    """Return the distance of neighbours along each axis of a tensor. Units: elements."""
    return dense(passed.shape) if passed.strides is None else passed.strides


def band_of(mask: Array) -> tuple[int, int, int, int] | None:
    """Return rows and columns of a band mask, and the least and largest true `column - row`, or None.

    None for a mask that is not true everywhere between these two. Causal masks and sliding windows are bands; a mask
    that is true or false everywhere counts as none.
    """
    if mask.dtype != np.bool_ or mask.ndim < 2 or prod(mask.shape[:-2]) != 1 or mask.all() or not mask.any():
        return None
    height, width = mask.shape[-2:]
    rows, columns = np.indices((height, width))
    plane, apart = mask.reshape(height, width), columns - rows
    low, high = int(apart[plane].min()), int(apart[plane].max())
    return (height, width, low, high) if np.array_equal(plane, (apart >= low) & (apart <= high)) else None


def with_compared_indices(kernel: WrittenKernel) -> WrittenKernel:
    """Return the kernel with index comparisons in place of elements of band masks.

    select(a2[d1, d2], …)     select(d2 <= d1, …)
    """
    for name, passed in kernel.reads.items():
        rank, band = len(passed.shape), passed.band
        if band is None or passed.is_part or passed.shape[-2:] != band[:2] or name in kernel.borders:
            continue
        access = re.compile(rf"\b{name}\[([^\[\]]*)\]")
        found = [read[1].split(", ") for text in kernel.statements for read in access.finditer(text)]
        if any(len(index) != rank for index in found):
            continue
        _, _, low, high = band
        ends = [
            f"{{1}}{_more(-end)} {sign} {{0}}{_more(end)}"
            for sign, end, is_bound in (
                ("<=", high, high < passed.shape[-1] - 1),
                (">=", low, low > 1 - passed.shape[-2]),
            )
            if is_bound
        ]
        condition = f"({' & '.join(ends)})"
        kernel = replace(
            kernel,
            declared=tuple(line for line in kernel.declared if not line.startswith(f"in {name}:")),
            statements=tuple(
                access.sub(partial(_spell_condition, condition), text) for text in kernel.statements
            ),
            reads={n: p for n, p in kernel.reads.items() if n != name},
        )
    return kernel


def _spell_condition(condition: str, access: re.Match[str]) -> str:
    """Return a condition on row and column with the indices of an access in their place."""
    return condition.format(*access[1].split(", ")[-2:])


def _more(count: int) -> str:
    return f" + {count}" if count > 0 else ""


def _nest(loops: Mapping[str, int], statement: str) -> str:
    head = ", ".join(f"{name} in {size}" for name, size in loops.items())
    return f"for {head} {{ {statement} }}" if loops else statement


def place_elements(expression: str, elements: Sequence[str]) -> str:
    """Return an expression with elements substituted for «0», «1», …."""
    return PLACE.sub(lambda found: elements[int(found[1])], expression)


def dense(shape: Sequence[int]) -> Strides:
    """Return the strides of a row-major array. Units: elements."""
    return tuple(prod(shape[n + 1 :]) for n in range(len(shape)))
