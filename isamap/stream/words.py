"""Commands to words, and words back to commands, by the tables of fields of a machine's description."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from isamap.ir import Instruction
from isamap.machine import Machine, MachineInstruction
from isamap.machine.encodings import BitField, Encoding, Quantity
from isamap.source import Diagnostic, UsageProblem, VerificationFailed
from isamap.stream.command import Command, command_of, quantities


def encode(command: Command, item: MachineInstruction) -> tuple[int, ...]:
    """The words of a command. Raises: UsageProblem where a field cannot hold a number, or none is there."""
    if item.encoding is None:
        said = f"`{item.name}` has no `encoding`, so that no program can have it"
        raise UsageProblem(Diagnostic("no-encoding", said, item.span))
    found = quantities(command, item.instruction)
    words = tuple(sum(_put(field, found, item) for field in word) for word in item.encoding.words)
    read = _read(item.encoding, words)
    assert read is not None, "equal numbers stand in equal fields"
    assert command_of(item.instruction, read) == command, f"{command} is not read back from its words"
    return words


def _put(field: BitField, found: dict[Quantity, int], item: MachineInstruction) -> int:
    if isinstance(field.holds, int):
        return field.put(field.holds)
    value, unit = found[field.holds], field.holds.unit
    if value % unit or not 0 <= value // unit < field.limit:
        why = f"no multiple of {unit}" if value % unit else f"beyond {field.limit - 1} of {unit} each"
        raise UsageProblem(
            Diagnostic(
                "encoding-range",
                f"field `{field.name}` of `{item.name}` cannot hold `{field.holds}` = {value}: it is {why}",
                field.span,
                help="lay the operand out as the instruction moves it, or try another schedule with --fix",
            )
        )
    return field.put(value // unit)


@dataclass(frozen=True, slots=True)
class Placed:
    """A command and the number of its first word."""

    at: int
    command: Command
    words: tuple[int, ...]


_Encoded = tuple[Instruction, Encoding, tuple[tuple[int, int], ...]]
"""An instruction, its words, and by word the bits that are the same in each issue with their values."""


def decode(words: Sequence[int], machine: Machine) -> tuple[Placed, ...]:
    """All commands of a program. Raises: VerificationFailed at the first word that begins none."""
    begin = machine.program.begin if machine.program is not None else ()
    if tuple(words[: len(begin)]) != begin:
        raise _refused(0, "the program does not begin with the words that all programs of the machine do")
    encoded = [
        (item.instruction, item.encoding, item.encoding.fixed)
        for item in machine.instructions.values()
        if item.encoding is not None
    ]
    found: list[Placed] = []
    at = len(begin)
    while at < len(words):
        placed = _decode_one(words, at, encoded, machine)
        found.append(placed)
        at += len(placed.words)
    return tuple(found)


def _decode_one(words: Sequence[int], at: int, encoded: Sequence[_Encoded], machine: Machine) -> Placed:
    for instruction, encoding, fixed in encoded:
        own = tuple(words[at : at + len(fixed)])
        if len(own) == len(fixed) and all(
            word & bits == value for word, (bits, value) in zip(own, fixed, strict=True)
        ):
            return Placed(at, _command(instruction, encoding, own, at), own)
    bits = machine.program.word_bits if machine.program is not None else 0
    shown = f"{words[at]:#0{bits // 4 + 2}x}"
    raise _refused(at, f"{shown} and what follows are no instruction of {machine.name}")


def _command(instruction: Instruction, encoding: Encoding, words: tuple[int, ...], at: int) -> Command:
    found = _read(encoding, words)
    if found is None:
        raise _refused(at, f"two fields of `{instruction.name}` that say the same differ")
    try:
        return command_of(instruction, found)
    except UsageProblem as error:  # a parameter beyond its range
        raise _refused(at, error.diagnostics[0].message) from None


def _read(encoding: Encoding, words: tuple[int, ...]) -> dict[Quantity, int] | None:
    """What the fields hold; None where two that hold the same differ."""
    found: dict[Quantity, int] = {}
    for value, word in zip(words, encoding.words, strict=True):
        for field in word:
            if isinstance(held := field.holds, Quantity):
                number = field.get(value) * held.unit
                if found.setdefault(held, number) != number:
                    return None
    return found


def _refused(at: int, said: str) -> VerificationFailed:
    return VerificationFailed(Diagnostic("program-word", f"word {at}: {said}"))
