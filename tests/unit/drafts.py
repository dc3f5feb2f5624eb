"""What the tests of all drafts share: running an instruction, random operands, places of elements."""

from __future__ import annotations

from typing import Any

import numpy as np

from isamap.ir import DTYPES, Index, Instruction, Operand
from isamap.ir.interpret import interpret
from isamap.machine import load_machine

Array = np.ndarray[Any, Any]

SYSTOLIC, MMA = "drafts/systolic-32", "drafts/nvidia-mma"


def run(machine: str, name: str, arrays: dict[str, Array], **sizes: int) -> dict[str, Array]:
    return interpret(instruction(machine, name), arrays, sizes)


def instruction(machine: str, name: str) -> Instruction:
    return load_machine(machine).instructions[name].instruction


def operand(machine: str, name: str, expected: str) -> Operand:
    return instruction(machine, name).operand(expected)


def i8(rng: np.random.Generator, *shape: int) -> Array:
    return rng.integers(-128, 128, shape, dtype=np.int8)


def i32(rng: np.random.Generator, *shape: int, bits: int = 20) -> Array:
    return rng.integers(-(1 << bits), 1 << bits, shape, dtype=np.int32)


def small(rng: np.random.Generator, dtype: str, *shape: int) -> Array:
    """Small whole numbers of a type: their sums of products are exact in every order."""
    return rng.integers(-8, 9, shape).astype(DTYPES[dtype].numpy())


def place(o: Operand, **sizes: int) -> tuple[Array, ...]:
    """Return the coordinates of all elements of an operand, one array each."""
    assert o.placement is not None
    shape = tuple(int(e.evaluate(sizes)) for e in o.shape)
    points = dict(zip(o.placement.indices, np.indices(shape), strict=True))
    return tuple(evaluated(e, points, sizes, shape) for _, e in o.placement.coordinates)


def evaluated(e: Index, points: dict[str, Array], sizes: dict[str, int], shape: tuple[int, ...]) -> Array:
    names: dict[str, Any] = {**points, **sizes}
    return np.broadcast_to(np.asarray(e.evaluate(names)), shape)
