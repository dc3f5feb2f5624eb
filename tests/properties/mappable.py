"""Random kernels of the kind that instructions perform, and what they compute by plain loops over integers.

    for i in I, j in J { Y[j, i] += f32(A[i, 2*j + 1]) * f32((B[j - 1] else 0)); }

Everything is chosen by a `random.Random`, so that a number names a kernel for good. Values are small
integers: every number in between is exact in every type used, and results can be compared for equality.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import product
from math import prod
from random import Random
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isamap.ir import DTYPES

Array = NDArray[Any]
Point = Mapping[str, int]

MAX_POINTS = 3000
EXTENTS = (1, 2, 2, 3, 4, 5, 7, 8, 8, 9, 15, 16, 16, 17, 20, 32, 33, 40)


@dataclass(frozen=True)
class Types:
    """Types of inputs, of the number that is summed, and of the output."""

    inputs: tuple[str, ...]
    sum: str
    output: str


FORMS = (
    Types(("f32",), "f32", "f32"),
    Types(("f64",), "f64", "f64"),
    Types(("i32",), "i32", "i32"),
    Types(("u8", "i8"), "i32", "i32"),
    Types(("i8",), "i32", "i32"),
    Types(("bf16",), "f32", "f32"),
    Types(("bf16",), "f32", "bf16"),
)


@dataclass(frozen=True)
class Subscript:
    """`2*i + j - 1`: steps per axis, and a constant. Steps back count from the end of the axis."""

    steps: tuple[tuple[str, int], ...]
    constant: int = 0

    def at(self, point: Point, extents: Mapping[str, int]) -> int:
        return self.constant + sum(
            step * point[axis] if step > 0 else step * (point[axis] + 1 - extents[axis])
            for axis, step in self.steps
        )

    def extent(self, extents: Mapping[str, int]) -> int:
        """Return one more than the largest value."""
        return self.constant + 1 + sum(abs(step) * (extents[axis] - 1) for axis, step in self.steps)

    def extent_text(self) -> str:
        """Return the same with extents named by the axis in capitals."""
        return " + ".join([f"{abs(s)}*({a.upper()} - 1)" for a, s in self.steps] + [str(self.constant + 1)])

    def __str__(self) -> str:
        parts = [
            f"{step}*{axis}" if step > 0 else f"{-step}*({axis.upper()} - 1 - {axis})"
            for axis, step in self.steps
        ]
        return " + ".join([*parts, *([str(self.constant)] if self.constant or not parts else [])])


Shape = tuple[Subscript, ...]
"""An extent per dimension: one more than the largest value of a subscript."""


@dataclass(frozen=True)
class Access:
    """An element of an array, 0 outside it when `fills`."""

    array: str
    subscripts: tuple[Subscript, ...]
    fills: bool = False

    def at(self, arrays: Mapping[str, Array], point: Point, extents: Mapping[str, int]) -> int:
        array = arrays[self.array]
        index = tuple(s.at(point, extents) for s in self.subscripts)
        inside = all(0 <= i < n for i, n in zip(index, array.shape, strict=True))
        assert inside or self.fills
        return int(array[index]) if inside else 0

    def __str__(self) -> str:
        text = f"{self.array}[{', '.join(map(str, self.subscripts))}]"
        return f"({text} else 0)" if self.fills else text


OPERATIONS: dict[str, Callable[[int, int], int]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "max": max,
    "min": min,
}


@dataclass(frozen=True)
class Line:
    """One statement: `target op values[0] operators[0] values[1] …`, the values widened to `sum`."""

    axes: tuple[str, ...]
    target: Access
    op: str
    values: tuple[Access | int, ...]
    operators: tuple[str, ...]

    def value(self, arrays: Mapping[str, Array], point: Point, extents: Mapping[str, int]) -> int:
        numbers = [v if isinstance(v, int) else v.at(arrays, point, extents) for v in self.values]
        result = numbers[0]
        for operator, number in zip(self.operators, numbers[1:], strict=True):
            result = OPERATIONS[operator](result, number)
        return result


@dataclass(frozen=True)
class Written:
    """A kernel: its text is `str`, what it computes is `run`."""

    name: str
    types: Types
    extents: dict[str, int]
    shapes: dict[str, Shape]
    dtypes: dict[str, str]
    roles: dict[str, str]
    lines: tuple[Line, ...]

    def arrays(self, random: Random) -> dict[str, Array]:
        """Values for all operands."""
        sizes = {n: tuple(d.extent(self.extents) for d in shape) for n, shape in self.shapes.items()}
        rng = np.random.default_rng(random.randrange(2**32))
        return {
            name: rng.integers(0 if self.dtypes[name] == "u8" else -2, 3, shape).astype(
                DTYPES[self.dtypes[name]].numpy()
            )
            for name, shape in sizes.items()
        }

    def run(self, arrays: Mapping[str, Array]) -> dict[str, Array]:
        """Return the outputs, computed point by point."""
        state = {n: a.astype(np.int64) for n, a in arrays.items()}
        for line in self.lines:
            for values in product(*(range(self.extents[a]) for a in line.axes)):
                point = dict(zip(line.axes, values, strict=True))
                index = tuple(s.at(point, self.extents) for s in line.target.subscripts)
                found = line.value(state, point, self.extents)
                if line.op != "=":
                    found = OPERATIONS[line.op.removesuffix("=")](int(state[line.target.array][index]), found)
                state[line.target.array][index] = found
        return {n: state[n].astype(arrays[n].dtype) for n, role in self.roles.items() if role != "in"}

    @property
    def sizes(self) -> dict[str, int]:
        """The kernel's parameters: extents of the axes, by their names in capitals."""
        return {axis.upper(): extent for axis, extent in self.extents.items()}

    def __str__(self) -> str:
        lines = [f"kernel {self.name}({', '.join(self.sizes)}) {{"]
        for name, shape in self.shapes.items():
            is_narrow = name == "Y" and self.types.sum != self.types.output
            wide = f" accumulate {self.types.sum}" if is_narrow else ""
            extents = ", ".join(d.extent_text() for d in shape)
            lines.append(f"  {self.roles[name]} {name}: {self.dtypes[name]}[{extents}]{wide};")
        lines += [f"  {self._statement(line)}" for line in self.lines]
        return "\n".join([*lines, "}", ""])

    def _statement(self, line: Line) -> str:
        expected = self.types.output if line.op == "=" else self.types.sum
        value = self._widened(line.values[0], expected)
        for operator, operand in zip(line.operators, line.values[1:], strict=True):
            other = self._widened(operand, expected)
            is_call = operator in ("max", "min")
            value = f"{operator}({value}, {other})" if is_call else f"({value}) {operator} {other}"
        statement = f"{line.target} {line.op} {value};"
        loops = ", ".join(f"{a} in {a.upper()}" for a in line.axes)
        return f"for {loops} {{ {statement} }}" if loops else statement

    def _widened(self, value: Access | int, expected: str) -> str:
        if isinstance(value, int):
            return str(value)
        return str(value) if self.dtypes[value.array] == expected else f"{expected}({value})"


def random_kernel(random: Random, name: str = "k") -> Written:
    """Return a sum, maximum or minimum of products, or an elementwise expression, over one to four axes."""
    types = random.choice(FORMS)
    extents = _extents(random)
    axes = tuple(extents)
    sums = random.random() < 0.75
    kept = [a for a in axes if not sums or random.random() < 0.6]
    random.shuffle(kept)
    shapes: dict[str, Shape] = {}
    values: list[Access | int] = []
    for letter in "ABC"[: random.choice((1, 2, 2, 2, 3))]:
        access, shape = _access(random, letter, list(axes))
        shapes[letter] = shape
        values.append(access)
    if sums:
        op = random.choice(("+=", "+=", "+=", "max=", "min="))
        operators = ("*",) * (len(values) - 1)
    else:
        op = "="
        operators = tuple(random.choice(("+", "-", "*", "max", "min")) for _ in values[1:])
        if random.random() < 0.2:
            values.append(0)
            operators = (*operators, "max")
    if op != "+=" and types.output == "bf16":
        types = Types(types.inputs, "f32", "f32")  # only sums are declared to run in a wider type
    target, shape = _target(random, kept, adds=sums)
    shapes["Y"] = shape
    dtypes = {n: random.choice(types.inputs) for n in shapes} | {"Y": types.output}
    roles = dict.fromkeys(shapes, "in") | {"Y": "inout"}
    order = list(axes)
    random.shuffle(order)
    lines = [Line(tuple(order), target, op, tuple(values), operators)]
    plain = all(len(s.steps) <= 1 for s in target.subscripts)  # each iteration writes an element of its own
    if plain and random.random() < 0.2:
        lines.insert(0, Line(tuple(kept), target, "=", (0,), ()))
    if plain and types.output == types.sum and random.random() < 0.2:
        shapes["Z"], dtypes["Z"], roles["Z"] = shape, types.output, "inout"
        relu = Access("Z", target.subscripts)
        lines.append(Line(tuple(kept), relu, "=", (target, 0), (random.choice(("max", "min", "+")),)))
    return Written(name, types, extents, shapes, dtypes, roles, tuple(lines))


def _extents(random: Random) -> dict[str, int]:
    while True:
        extents = {a: random.choice(EXTENTS) for a in "ijkl"[: random.choice((1, 2, 2, 3, 3, 4))]}
        if prod(extents.values()) <= MAX_POINTS:
            return extents


def _access(random: Random, array: str, axes: list[str]) -> tuple[Access, Shape]:
    """Return an access over some of the axes in any order, and a shape that holds it, or not, when it fills."""
    used = random.sample(axes, random.randint(1, len(axes)))
    subscripts: list[Subscript] = []
    while used:
        count = min(len(used), random.choice((1, 1, 1, 1, 2)))
        own, used = used[:count], used[count:]
        kind = random.choice(("plain", "plain", "plain", "step", "shift", "backwards"))
        steps = [(a, 1) for a in own]
        constant = 0
        if kind == "step":
            steps[0] = (own[0], random.randint(2, 3))
        elif kind == "shift":
            constant = random.randint(1, 2)
        elif kind == "backwards":
            steps[0] = (own[0], -1)
        subscripts.append(Subscript(tuple(steps), constant))
    if random.random() < 0.08:
        subscripts.insert(random.randint(0, len(subscripts)), Subscript((), random.randint(0, 1)))
    if random.random() >= 0.15:
        return Access(array, tuple(subscripts)), tuple(subscripts)
    moved = tuple(
        replace(s, constant=s.constant + random.randint(-2, 2)) if s.steps else s for s in subscripts
    )
    return Access(array, moved, fills=True), tuple(subscripts)


def _target(random: Random, kept: list[str], *, adds: bool) -> tuple[Access, Shape]:
    """Return an output over the axes that are kept, each in a dimension of its own, or rarely two added up."""
    subscripts: list[Subscript] = []
    if adds and len(kept) > 1 and random.random() < 0.15:
        step = random.randint(1, 2)
        (i, j), kept = kept[:2], kept[2:]
        subscripts.append(Subscript(((i, 1), (j, step))))
    for axis in kept:
        step, constant = random.choice(((1, 0), (1, 0), (1, 0), (1, 0), (1, 1), (2, 0), (2, 1)))
        subscripts.append(Subscript(((axis, step),), constant))
    if not subscripts:
        subscripts = [Subscript((), 0)]
    shape = [replace(s, constant=s.constant + random.choice((0, 0, 0, 1))) for s in subscripts]
    return Access("Y", tuple(subscripts)), tuple(shape)
