"""Random kernels of the kind that instructions perform, and what they compute by plain loops over integers.

    for i in 7, j in 16 { Y[j, i] += f32(A[i, 2*j + 1]) * f32((B[j - 1] else 0)); }

Everything is chosen by a `random.Random`, so that a number names a kernel for good. Values are small
integers: every number in between is exact in every type used, and results can be compared for equality.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
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
    """`2*i + j - 1`: steps per axis, and a constant."""

    steps: tuple[tuple[str, int], ...]
    constant: int = 0

    def at(self, point: Point) -> int:
        return sum(step * point[axis] for axis, step in self.steps) + self.constant

    def __str__(self) -> str:
        parts = [axis if step == 1 else f"{step}*{axis}" for axis, step in self.steps]
        return " + ".join([*parts, *([str(self.constant)] if self.constant or not parts else [])])


@dataclass(frozen=True)
class Access:
    """An element of an array, 0 outside it when `fills`."""

    array: str
    subscripts: tuple[Subscript, ...]
    fills: bool = False

    def at(self, arrays: Mapping[str, Array], point: Point) -> int:
        array = arrays[self.array]
        index = tuple(s.at(point) for s in self.subscripts)
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

    def value(self, arrays: Mapping[str, Array], point: Point) -> int:
        numbers = [v if isinstance(v, int) else v.at(arrays, point) for v in self.values]
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
    shapes: dict[str, tuple[int, ...]]
    dtypes: dict[str, str]
    roles: dict[str, str]
    lines: tuple[Line, ...]

    def arrays(self, random: Random) -> dict[str, Array]:
        """Values for all operands."""
        rng = np.random.default_rng(random.randrange(2**32))
        return {
            name: rng.integers(0 if self.dtypes[name] == "u8" else -2, 3, shape).astype(
                DTYPES[self.dtypes[name]].numpy()
            )
            for name, shape in self.shapes.items()
        }

    def run(self, arrays: Mapping[str, Array]) -> dict[str, Array]:
        """The outputs, computed point by point."""
        state = {n: a.astype(np.int64) for n, a in arrays.items()}
        for line in self.lines:
            for values in product(*(range(self.extents[a]) for a in line.axes)):
                point = dict(zip(line.axes, values, strict=True))
                index = tuple(s.at(point) for s in line.target.subscripts)
                found = line.value(state, point)
                if line.op != "=":
                    found = OPERATIONS[line.op.removesuffix("=")](int(state[line.target.array][index]), found)
                state[line.target.array][index] = found
        return {n: state[n].astype(arrays[n].dtype) for n, role in self.roles.items() if role != "in"}

    def __str__(self) -> str:
        lines = [f"kernel {self.name}() {{"]
        for name, shape in self.shapes.items():
            wide = (
                f" accumulate {self.types.sum}" if name == "Y" and self.types.sum != self.types.output else ""
            )
            lines.append(f"  {self.roles[name]} {name}: {self.dtypes[name]}{list(shape)}{wide};")
        lines += [f"  {self._statement(line)}" for line in self.lines]
        return "\n".join([*lines, "}", ""])

    def _statement(self, line: Line) -> str:
        wanted = self.types.output if line.op == "=" else self.types.sum
        value = self._widened(line.values[0], wanted)
        for operator, operand in zip(line.operators, line.values[1:], strict=True):
            other = self._widened(operand, wanted)
            value = (
                f"{operator}({value}, {other})"
                if operator in ("max", "min")
                else f"({value}) {operator} {other}"
            )
        statement = f"{line.target} {line.op} {value};"
        loops = ", ".join(f"{a} in {self.extents[a]}" for a in line.axes)
        return f"for {loops} {{ {statement} }}" if loops else statement

    def _widened(self, value: Access | int, wanted: str) -> str:
        if isinstance(value, int):
            return str(value)
        return str(value) if self.dtypes[value.array] == wanted else f"{wanted}({value})"


def random_kernel(random: Random, name: str = "k") -> Written:
    """A sum, maximum or minimum of products, or an elementwise expression, over one to four axes."""
    types = random.choice(FORMS)
    extents = _extents(random)
    axes = tuple(extents)
    sums = random.random() < 0.75
    kept = [a for a in axes if not sums or random.random() < 0.6]
    random.shuffle(kept)
    shapes: dict[str, tuple[int, ...]] = {}
    values: list[Access | int] = []
    for letter in "ABC"[: random.choice((1, 2, 2, 2, 3))]:
        access, shape = _access(random, letter, list(axes), extents)
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
    target, shape = _target(random, kept, extents, adds=sums)
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


def _access(
    random: Random, array: str, axes: list[str], extents: Mapping[str, int]
) -> tuple[Access, tuple[int, ...]]:
    """An access over some of the axes in any order, and a shape that holds it, or not, when it fills."""
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
            constant = extents[own[0]] - 1
        subscripts.append(Subscript(tuple(steps), constant))
    if random.random() < 0.08:
        subscripts.insert(random.randint(0, len(subscripts)), Subscript((), random.randint(0, 1)))
    fills = random.random() < 0.15
    if fills:
        subscripts = [
            Subscript(s.steps, s.constant - random.randint(0, 2)) if s.steps else s for s in subscripts
        ]
    highs = [sum(c * (extents[a] - 1) for a, c in s.steps if c > 0) + s.constant for s in subscripts]
    shape = tuple(max(1, h + 1 - (random.randint(0, 2) if fills else 0)) for h in highs)
    return Access(array, tuple(subscripts), fills), shape


def _target(
    random: Random, kept: list[str], extents: Mapping[str, int], *, adds: bool
) -> tuple[Access, tuple[int, ...]]:
    """An output over the axes that are kept, each in a dimension of its own, or rarely two added up."""
    subscripts: list[Subscript] = []
    shape: list[int] = []
    if adds and len(kept) > 1 and random.random() < 0.15:
        step = random.randint(1, 2)
        (i, j), kept = kept[:2], kept[2:]
        subscripts.append(Subscript(((i, 1), (j, step))))
        shape.append(extents[i] + step * (extents[j] - 1))
    for axis in kept:
        step, constant = random.choice(((1, 0), (1, 0), (1, 0), (1, 0), (1, 1), (2, 0), (2, 1)))
        subscripts.append(Subscript(((axis, step),), constant))
        shape.append(step * (extents[axis] - 1) + constant + 1 + random.choice((0, 0, 0, 1)))
    if not subscripts:
        return Access("Y", (Subscript((), 0),)), (1,)
    return Access("Y", tuple(subscripts)), tuple(shape)
