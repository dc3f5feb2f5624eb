"""Kernels whose texts are still open: statements over arrays, and pending elementwise operations.

    Pointwise("add", (x, b), y, "(«0» + «1»)")        y[d0, d1] = (a0[d0, d1] + a1[d1]);

An element of an input stands as «0», «1», … in an expression, so that others may be put in its place.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod

from isamap.graph.model_program import Call, Passed
from isamap.graph.patterns import Strides, broadcast, merged, reshaped

PLACE = re.compile("«([0-9]+)»")


@dataclass(frozen=True, slots=True)
class Border:
    """Elements read before and behind an array, by its axes as they lie, and the number that they count as."""

    widths: tuple[tuple[int, int], ...]
    fill: str


@dataclass(frozen=True, slots=True)
class Written:
    """A kernel by its declarations and statements, what it reads and writes by its operands' names.

    `borders` are operands that are read beyond their edges, where they count as a fill: `(a0[…] else 0)`.
    """

    name: str
    definitions: str
    declared: tuple[str, ...]
    statements: tuple[str, ...]
    reads: Mapping[str, Passed]
    writes: Mapping[str, Passed]
    borders: Mapping[str, Border] = field(default_factory=dict[str, Border])


@dataclass(frozen=True, slots=True)
class Pointwise:
    """An operation on single elements of inputs that are repeated to the sizes of the result."""

    name: str
    inputs: tuple[Passed, ...]
    output: Passed
    expression: str


def call_of(kernel: Written) -> tuple[Call, str]:
    """Return the call of a kernel, named by a digest of its text, and the text."""
    body = "".join(f"  {line}\n" for line in (*kernel.declared, *kernel.statements))
    digest = hashlib.sha256((kernel.definitions + body).encode()).hexdigest()[:8]
    name = f"{kernel.name[:40].rstrip('_')}_{digest}"
    text = f"{kernel.definitions}kernel {name}() {{\n{body}}}\n"
    return Call(name, kernel.reads, kernel.writes), text


def written(step: Pointwise) -> Written:
    """Return the kernel of an operation on single elements, over the fewest axes by which all can be walked."""
    shape = step.output.shape
    walks = [broadcast(p.shape, dense(p.shape), shape) for p in (*step.inputs, step.output)]
    sizes = merged(shape, walks)
    axes = [f"d{n}" for n in range(len(sizes))]
    declared: list[str] = []
    reads: dict[str, Passed] = {}
    elements: list[str] = []
    for number, passed in enumerate(step.inputs):
        walk = reshaped(shape, walks[number], sizes)
        assert walk is not None, "all walks are possible by these axes"
        element, kept = _element(f"a{number}", axes, sizes, walk)
        declared.append(f"in a{number}: {passed.dtype}[{kept}];")
        reads[f"a{number}"] = passed
        elements.append(element)
    target, kept = _element("y0", axes, sizes, tuple(1 for _ in sizes))
    declared.append(f"out y0: {step.output.dtype}[{kept}];")
    statement = f"{target} = {placed(step.expression, elements)};"
    loops = dict(zip(axes, sizes, strict=True))
    nested = _nest(loops, statement)
    reads = {
        n: Passed(p.tensor, p.dtype, _declared(d)) for (n, p), d in zip(reads.items(), declared, strict=False)
    }
    writes = {"y0": Passed(step.output.tensor, step.output.dtype, _declared(declared[-1]))}
    return Written(step.name, "", tuple(declared), (nested,), reads, writes)


def _declared(line: str) -> tuple[int, ...]:
    """Return the sizes in a declaration."""
    return tuple(int(size) for size in line.partition("[")[2].rstrip("];").split(", "))


def _element(name: str, axes: Sequence[str], sizes: Sequence[int], walk: Strides) -> tuple[str, str]:
    """Return an element of an array that does not move along axes of stride 0, and the array's sizes."""
    kept = [n for n, stride in enumerate(walk) if stride]
    index, extents = [axes[n] for n in kept], [str(sizes[n]) for n in kept]
    return f"{name}[{', '.join(index or ['0'])}]", ", ".join(extents or ["1"])


def _nest(loops: Mapping[str, int], statement: str) -> str:
    head = ", ".join(f"{name} in {size}" for name, size in loops.items())
    return f"for {head} {{ {statement} }}" if loops else statement


def placed(expression: str, elements: Sequence[str]) -> str:
    """Return an expression with elements in the places of «0», «1», …."""
    return PLACE.sub(lambda found: elements[int(found[1])], expression)


def dense(shape: Sequence[int]) -> Strides:
    """Return how far neighbours along each axis lie apart in a row-major array. Units: elements."""
    return tuple(prod(shape[n + 1 :]) for n in range(len(shape)))
