"""Commands to words, and words back to commands, by the tables of fields of a machine's description."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from isamap.ir import Instruction
from isamap.machine import Machine, MachineInstruction
from isamap.machine.encodings import TOKENS, BitField, Encoding, Quantity
from isamap.source import Diagnostic, UsageProblem, VerificationFailed
from isamap.stream.command import Command, command_of, quantities, tokens_in

Tables = Mapping[str, Mapping[int, int]]
"""By table what stands at an address."""
Places = Mapping[str, Mapping[int, int]]
"""By table where an entry stands."""

END = "end"
"""What the words at the end of a program are called."""


def encode(command: Command, item: MachineInstruction, places: Places | None = None) -> tuple[int, ...]:
    """The words of a command. Raises: UsageProblem where a field cannot hold a number, or none is there."""
    if item.encoding is None:
        said = f"`{item.name}` has no `encoding`, so that no program can have it"
        raise UsageProblem(Diagnostic("no-encoding", said, item.span))
    places, written = places or {}, entries_of(command, item)
    found = _found(command, item)
    found |= {Quantity("entry", name): places[name][entry] for name, entry in written.items()}
    words = tuple(sum(_put(field, found, item.name) for field in word) for word in item.encoding.words)
    tables = {name: {places[name][entry]: entry} for name, entry in written.items()}
    read = _read(item.encoding, words, tables)
    assert isinstance(read, dict), "equal numbers stand in equal fields"
    assert command_of(item.instruction, read) == command, f"{command} is not read back from its words"
    return words


def entries_of(command: Command, item: MachineInstruction) -> dict[str, int]:
    """By table the entry that a command needs. Raises: UsageProblem where a field cannot hold a number."""
    if item.encoding is None or not item.encoding.entries:
        return {}
    found = _found(command, item)
    return {name: sum(_put(f, found, item.name) for f in word) for name, word in item.encoding.entries}


def encode_end(tokens: frozenset[tuple[str, str]], machine: Machine) -> tuple[int, ...]:
    """The words that a program ends with."""
    end = machine.program.end if machine.program is not None else None
    if end is None:
        return ()
    found = {q: int((q.kind, q.name) in tokens) for q in end.encoding.quantities}
    return tuple(sum(_put(field, found, END) for field in word) for word in end.encoding.words)


def _found(command: Command, item: MachineInstruction) -> dict[Quantity, int]:
    assert item.encoding is not None, "an instruction with words"
    tokens = [q for q in item.encoding.quantities if q.kind in TOKENS]
    return quantities(command, item.instruction, tokens)


def _put(field: BitField, found: Mapping[Quantity, int], name: str) -> int:
    if isinstance(field.holds, int):
        return field.put(field.holds)
    value, unit = found[field.holds], field.holds.unit
    if value % unit or not 0 <= value // unit < field.limit:
        why = f"no multiple of {unit}" if value % unit else f"beyond {field.limit - 1} of {unit} each"
        raise UsageProblem(
            Diagnostic(
                "encoding-range",
                f"field `{field.name}` of `{name}` cannot hold `{field.holds}` = {value}: it is {why}",
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


def decode(words: Sequence[int], machine: Machine, tables: Tables | None = None) -> tuple[Placed, ...]:
    """All commands of a program but the end. Raises: VerificationFailed at a word that begins none."""
    begin = machine.program.begin if machine.program is not None else ()
    if tuple(words[: len(begin)]) != begin:
        raise _refused(0, "the program does not begin with the words that all programs of the machine do")
    encoded = [
        (item.instruction, item.encoding, item.encoding.fixed)
        for item in machine.instructions.values()
        if item.encoding is not None
    ]
    found: list[Placed] = []
    end = decode_end(words, machine)
    at, last = len(begin), end.at if end is not None else len(words)
    while at < last:
        placed = _decode_one(words[:last], at, encoded, machine, tables or {})
        found.append(placed)
        at += len(placed.words)
    return tuple(found)


def decode_end(words: Sequence[int], machine: Machine) -> Placed | None:
    """The end of a program; None where the machine's programs have none. Raises: VerificationFailed."""
    end = machine.program.end if machine.program is not None else None
    if end is None:
        return None
    fixed = end.encoding.fixed
    at = len(words) - len(fixed)
    own = tuple(words[at:]) if at >= 0 else ()
    if not _fits(own, fixed):
        raise _refused(
            max(at, 0), "the program does not end with the words that all programs of the machine do"
        )
    read = _read(end.encoding, own, {})
    assert isinstance(read, dict), "the end has no entries, and says nothing twice"
    return Placed(at, Command(END, (), (), tokens_in(read)), own)


def _fits(words: tuple[int, ...], fixed: tuple[tuple[int, int], ...]) -> bool:
    return len(words) == len(fixed) and all(
        word & bits == value for word, (bits, value) in zip(words, fixed, strict=True)
    )


def _is_enough(words: tuple[int, ...], encoding: Encoding) -> bool:
    """Whether no field holds less than it may."""
    return all(
        field.get(value) >= field.least
        for value, word in zip(words, encoding.words, strict=True)
        for field in word
    )


def _decode_one(
    words: Sequence[int], at: int, encoded: Sequence[_Encoded], machine: Machine, tables: Tables
) -> Placed:
    for instruction, encoding, fixed in encoded:
        own = tuple(words[at : at + len(fixed)])
        if _fits(own, fixed) and _is_enough(own, encoding):
            return Placed(at, _command(instruction, encoding, own, at, tables), own)
    bits = machine.program.word_bits if machine.program is not None else 0
    shown = f"{words[at]:#0{bits // 4 + 2}x}"
    raise _refused(at, f"{shown} and what follows are no instruction of {machine.name}")


def _command(
    instruction: Instruction, encoding: Encoding, words: tuple[int, ...], at: int, tables: Tables
) -> Command:
    found = _read(encoding, words, tables)
    if isinstance(found, str):
        raise _refused(at, f"`{instruction.name}`: {found}")
    try:
        return command_of(instruction, found)
    except UsageProblem as error:  # a parameter beyond its range
        raise _refused(at, error.diagnostics[0].message) from None


def _read(encoding: Encoding, words: tuple[int, ...], tables: Tables) -> dict[Quantity, int] | str:
    """What the fields hold, those of entries too; where they say nothing whole, what is wrong."""
    found: dict[Quantity, int] = {}
    if not all(
        _take(field, value, found) for value, w in zip(words, encoding.words, strict=True) for field in w
    ):
        return "two fields that say the same differ"
    for name, word in encoding.entries:
        entry = tables.get(name, {}).get(found[Quantity("entry", name)])
        if entry is None:
            return f"no entry of `{name}` lies where the words say"
        fixed = sum(f.put(f.holds) for f in word if isinstance(f.holds, int))
        held = sum(f.mask for f in word if isinstance(f.holds, Quantity))
        if entry & ~held != fixed:
            return f"the entry {entry:#x} of `{name}` is none"
        if not all(_take(field, entry, found) for field in word):
            return "two fields that say the same differ"
    return found


def _take(field: BitField, value: int, found: dict[Quantity, int]) -> bool:
    """Whether what a field holds of a word is added to what was found, and is no other number than there."""
    if not isinstance(held := field.holds, Quantity):
        return True
    number = field.get(value) * held.unit
    return found.setdefault(held, number) == number


def _refused(at: int, said: str) -> VerificationFailed:
    return VerificationFailed(Diagnostic("program-word", f"word {at}: {said}"))
