"""How emitted functions ask the hardware for what only it knows, such as how long its vectors are.

int64_t Q = (int64_t)(__riscv_vlenb() / 8);
if (Q != 2 && Q != 4 && Q != 8) return gemm_WRONG_LENGTH;
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from isamap.lower.program import LoweredProgram
from isamap.machine.target_fields import Length

Namer = Callable[[str], str]


def asked_lines(program: LoweredProgram, lengths: tuple[Length, ...], name: Namer) -> list[str]:
    """A variable for the constant of a program for several lengths, and one for each of its tables."""
    served = program.lengths
    if served is None:
        return []
    own = name(served.name)
    lines = [f"  int64_t {own} = (int64_t)({_asking(served.constant, lengths)});"]
    for number, row in served.tables:
        *others, (_, last) = zip(served.values, row, strict=True)
        picked = "".join(f"{own} == {value} ? {entry} : " for value, entry in others)
        lines.append(f"  int64_t {name(number)} = {picked}{last};")
    return lines


def tests_of(program: LoweredProgram, lengths: tuple[Length, ...], name: Namer) -> Iterator[str]:
    """Conditions under which the processor has vectors that a program was not made for."""
    served = program.lengths
    for length in lengths:
        if served is not None and length.constant == served.constant:
            yield " && ".join(f"{name(served.name)} != {value}" for value in served.values)
        else:
            yield f"{_asking(length.constant, lengths)} != {length.value}"


def _asking(constant: str, lengths: tuple[Length, ...]) -> str:
    length = next(one for one in lengths if one.constant == constant)
    return f"{length.function}()" + (f" / {length.divisor}" if length.divisor != 1 else "")
