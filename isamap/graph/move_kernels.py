"""Write the moves of a program as kernels, for devices whose memory no C code of the processor accesses.

    join(a, b) -> y      y0[d0, d1] = a0[d0, d1];  y0[d0, d1 + 3] = a1[d0, d1];
    gather(x, p) -> y    y0[d0, d1, d2] = a0[d0, a1[d1] % 11, d2];      in a1: i64[4] values -11..10;

Copies, joins and gathers become kernels. The remainder of an index keeps each access inside its tensor.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

from isamap.graph.making import axes_of, nest
from isamap.graph.model_program import ModelProgram, Move, Step, TensorView
from isamap.graph.pending import WrittenKernel, call_of, declaration
from isamap.graph.sizes import is_open
from isamap.graph.types import size_bytes
from isamap.machine import Machine
from isamap.machine.allowed import device_of

_CARRIERS = {1: "u8", 8: "i32"}
"""The type by which elements of so many bytes move. Other elements move by their own type."""


@dataclass(frozen=True, slots=True)
class IndexRange:
    """The range that an input's elements must have, by the number of the input. It includes both ends."""

    number: int
    low: int
    high: int


def with_kernels_of(program: ModelProgram, machine: Machine) -> ModelProgram:
    """Return the program with kernels for its moves if the machine is a device. Its calls check their indices."""
    if device_of(machine.target.features) is None:
        return program
    return with_move_kernels(program, is_checked=True)[0]


def with_move_kernels(
    program: ModelProgram, *, is_checked: bool
) -> tuple[ModelProgram, tuple[IndexRange, ...]]:
    """Return the program with kernels for its copies, joins and gathers, and the ranges that its caller must check.

    There are none if calls of kernels check declared values (`is_checked`). Otherwise, a gather remains a move if
    its indices are not an input, because no caller can check them.
    """
    inputs = {port.passed.tensor: number for number, port in enumerate(program.inputs)}
    kernels, steps, ranges = dict(program.kernels), list[Step](), list[IndexRange]()
    for step in program.steps:
        made = _write_move(step) if isinstance(step, Move) else None
        if isinstance(step, Move) and step.function == "gather" and not is_checked:
            number, length = inputs.get(step.reads[1].tensor), step.numbers[1]
            made = made if number is not None else None
            ranges += (
                [IndexRange(number, -length, length - 1)] if number is not None and made is not None else []
            )
        if made is None:
            steps.append(step)
            continue
        call, text = call_of(made)
        kernels[call.kernel] = text
        steps.append(call)
    return replace(program, kernels=kernels, steps=tuple(steps)), tuple(ranges)


def _write_move(move: Move) -> WrittenKernel | None:
    """Return the kernel of a move, or None: for moves of open sizes, and for a gather from an empty axis."""
    if any(map(is_open, move.numbers)) or (move.function == "gather" and move.numbers[1] == 0):
        return None
    dtype = move.writes[0].dtype
    dtype = _CARRIERS.get(size_bytes(dtype, ()), dtype)
    size = size_bytes(dtype, ())

    def carried(view: TensorView, *shape: int) -> TensorView:
        return replace(view, dtype=dtype, shape=shape, band=None)

    numbers = move.numbers
    match move.function:
        case "copy":
            rows, parts = 1, [numbers[0] // size]
        case "join":
            rows, parts = numbers[0], [part // size for part in numbers[2:]]
        case "gather":
            outer, length, inner, count = *numbers[:2], numbers[2] // size, numbers[3]
            reads = [carried(move.reads[0], outer, length, inner), replace(move.reads[1], shape=(count,))]
            target = carried(move.writes[0], outer, count, inner)
            at, loops = axes_of(target.shape)
            values = f" values -{length}..{length - 1};"
            statement = f"y0[{', '.join(at)}] = a0[{at[0]}, a1[{at[1]}] % {length}, {at[2]}];"
            return _kernel_of("gather", reads, target, [nest(loops, statement)], values)
        case _:
            return None
    target = carried(move.writes[0], rows, sum(parts))
    reads, statements = list[TensorView](), list[str]()
    starts = tuple(accumulate(parts, initial=0))[:-1]
    for number, (view, part, start) in enumerate(zip(move.reads, parts, starts, strict=True)):
        reads.append(carried(view, rows, part))
        at, loops = axes_of((rows, part))
        written = f"y0[{at[0]}, {at[1]}{f' + {start}' if start else ''}]"
        statements.append(nest(loops, f"{written} = a{number}[{', '.join(at)}];"))
    return _kernel_of(move.function, reads, target, statements)


def _kernel_of(
    name: str, reads: Sequence[TensorView], target: TensorView, statements: Sequence[str], more: str = ""
) -> WrittenKernel:
    """Return a kernel with inputs a0, a1, … and the result y0. `more` ends the declaration of the last input."""
    named = {f"a{number}": view for number, view in enumerate(reads)}
    declared = [declaration("in", own, view) for own, view in named.items()]
    declared[-1] = declared[-1].removesuffix(";") + more if more else declared[-1]
    lines = (*declared, declaration("out", "y0", target))
    return WrittenKernel(name, "", lines, tuple(statements), named, {"y0": target})
