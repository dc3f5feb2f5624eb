"""Random expressions of all operations and types: the C that renders them against the interpreter.

Hundreds of instructions with random semantics go into one file and are tried like those of a real machine.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from conftest import EXAMPLES

from isamap.ir import (
    BOOL,
    DTYPES,
    OPS,
    Assign,
    Axis,
    Call,
    Cast,
    Const,
    DType,
    Expr,
    Index,
    Instruction,
    Loop,
    Operand,
    Read,
)
from isamap.machine import EmitSemantics, Machine, MachineInstruction, load_machine
from isamap.run.conformance import check_machine

GENERIC = load_machine("generic-c")
TYPES = tuple(DTYPES.values())
# Functions accurate to some units in the last place only: chains of them have no bound worth testing.
INEXACT = {name for name, op in OPS.items() if op.ulp}
LANES = 4


class Writer:
    """Draws expressions; `reads` collects the operands that they need."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng
        self.reads: dict[str, DType] = {}

    def value(self, dtype: DType, depth: int) -> Expr:
        kind = self.rng.integers(0, 10)
        if depth == 0 or kind == 0:
            return self.leaf(dtype)
        if kind <= 3 and dtype.kind != "bool":
            return self.cast(dtype, depth)
        return self.call(dtype, depth)

    def leaf(self, dtype: DType) -> Expr:
        if self.rng.integers(0, 4) == 0:
            value = int(self.rng.integers(0, 2 if dtype.kind == "bool" else 8))
            return Const(float(value) if dtype.is_float else value, dtype)
        name = f"{self.pick('abc')}_{dtype}"
        self.reads[name] = dtype
        return Read(name, (Index.of("i"),), dtype)

    def cast(self, dtype: DType, depth: int) -> Expr:
        source = TYPES[self.rng.integers(0, len(TYPES))]
        inner = self.value(source, depth - 1)
        if source == dtype or dtype.is_float:
            return Cast(inner, dtype, "exact")
        if source.kind == "bool":
            return Cast(inner, dtype, "wrap")
        return Cast(inner, dtype, "wrap" if self.rng.integers(0, 2) else "sat")

    def call(self, dtype: DType, depth: int) -> Expr:
        fitting = [op for op in OPS.values() if op.name not in INEXACT and _gives(op.name, dtype)]
        op = fitting[self.rng.integers(0, len(fitting))]
        operand = dtype
        if op.result == "bool":
            kinds = TYPES if op.domain == "any" else tuple(t for t in TYPES if t.kind != "bool")
            operand = kinds[self.rng.integers(0, len(kinds))]
        types = (BOOL, operand, operand) if op.name == "select" else (operand,) * op.arity
        args = [self.value(t, depth - 1) for t in types]
        mode = self.pick(op.modes) if op.modes else None
        return Call(op.name, tuple(args), dtype, mode)

    def pick(self, choices: str | tuple[str, ...]) -> str:
        return choices[int(self.rng.integers(0, len(choices)))]


def _gives(name: str, dtype: DType) -> bool:
    op = OPS[name]
    if op.result == "bool":
        return dtype.kind == "bool"
    match op.domain:
        case "number":
            return dtype.kind != "bool"
        case "float":
            return dtype.is_float
        case "integer":
            return dtype.is_integer
        case "logical":
            return not dtype.is_float
        case "any":
            return True


def make_instruction(number: int, rng: np.random.Generator) -> Instruction:
    writer = Writer(rng)
    dtype = TYPES[rng.integers(0, len(TYPES))]
    value = writer.value(dtype, int(rng.integers(1, 4)))
    lanes = (Index.of(LANES),)
    inputs = [Operand(n, "in", t, lanes, memory="reg") for n, t in sorted(writer.reads.items())]
    output = Operand("z", "out", dtype, lanes, memory="reg")
    body = Assign(Read("z", (Index.of("i"),), dtype), None, value)
    return Instruction(
        f"random_{number}", (), (*inputs, output), (Loop((Axis("i", Index.of(LANES)),), (body,)),)
    )


def machine_of(instructions: list[Instruction]) -> Machine:
    any_cost = next(iter(GENERIC.instructions.values())).cost
    entries = {i.name: MachineInstruction(i, EmitSemantics(), any_cost) for i in instructions}
    return replace(GENERIC, instructions=entries)


@pytest.mark.parametrize("seed", range(4))
def test_random_expressions_give_the_same_bits_in_c_and_in_the_interpreter(seed: int) -> None:
    rng = np.random.default_rng(seed)
    instructions = [make_instruction(n, rng) for n in range(2 * EXAMPLES)]
    checks = check_machine(machine_of(instructions), model=True, seed=seed)
    wrong = [f"{c.instruction}: {c.verdict}, {c.message}" for c in checks if c.verdict != "ok"]
    assert wrong == []
