"""Encode one command as words, and decode it, by the fields of its instruction's description."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from isamap.ir import Instruction
from isamap.machine import Machine, MachineInstruction
from isamap.machine.encodings import TOKENS, BitField, Encoding, Quantity
from isamap.source import UsageProblem, VerificationFailed, dataclass
from isamap.stream.command import Command, command_of, quantities

Tables = Mapping[str, Mapping[int, int]]
"""By table, the entry at each address."""
Places = Mapping[str, Mapping[int, int]]
"""By table, the address of each entry."""
Steps = tuple[tuple[str, int], ...]
"""By operand, the increment of its address per iteration of a hardware loop. Units: bytes."""


def encode(
    command: Command, item: MachineInstruction, places: Places | None = None, steps: Steps = ()
) -> tuple[int, ...]:
    """Return the words of a command. Raises: UsageProblem if a field cannot hold a number, or has none."""
    if item.encoding is None:
        said = f"`{item.name}` has no `encoding`, so that no program can have it"
        raise UsageProblem.of("no-encoding", said, item.span)
    places, written = places or {}, entries_of(command, item)
    found = _find_quantities(command, item)
    found |= {Quantity("entry", name): places[name][entry] for name, entry in written.items()}
    found |= {Quantity("step", name): step for name, step in steps}
    words = tuple(sum(put_field(field, found, item.name) for field in word) for word in item.encoding.words)
    tables = {name: {places[name][entry]: entry} for name, entry in written.items()}
    read = read_fields(item.encoding, words, tables)
    assert isinstance(read, dict), "equal numbers stand in equal fields"
    is_same = command_of(item.instruction, read) == command and set(_steps_in(read)) == set(steps)
    assert is_same, f"{command} is not read back from its words"
    return words


def entries_of(command: Command, item: MachineInstruction) -> dict[str, int]:
    """Return the table entry that a command needs, by table. Raises: UsageProblem if a field is too narrow."""
    if item.encoding is None or not item.encoding.entries:
        return {}
    found = _find_quantities(command, item)
    return {name: sum(put_field(f, found, item.name) for f in word) for name, word in item.encoding.entries}


def _find_quantities(command: Command, item: MachineInstruction) -> dict[Quantity, int]:
    assert item.encoding is not None, "an instruction with words"
    tokens = [q for q in item.encoding.quantities if q.kind in TOKENS]
    still = {q: 0 for q in item.encoding.quantities if q.kind == "step"}
    return still | quantities(command, item.instruction, tokens)


def put_field(field: BitField, found: Mapping[Quantity, int], name: str) -> int:
    """Return a word with only this field set to the named quantity. Raises: UsageProblem if it does not fit."""
    if isinstance(field.holds, int):
        return field.put(field.holds)
    value, unit = found[field.holds], field.holds.unit
    low, high = field.holdable
    if value % unit or not low <= value // unit <= high:
        why = f"no multiple of {unit}" if value % unit else f"beyond {high} of {unit} each"
        raise UsageProblem.of(
            "encoding-range",
            f"field `{field.name}` of `{name}` cannot hold `{field.holds}` = {value}: it is {why}",
            field.span,
            help="lay the operand out as the instruction moves it, or try another schedule with --fix",
        )
    return field.put(value // unit % field.limit)


@dataclass(frozen=True, slots=True)
class Numbered:
    """A command with the number of its first word.

    `low` is where its slot begins in that word. Commands with one number `issued` are performed at once.
    """

    at: int
    command: Command
    words: tuple[int, ...]
    issued: int
    low: int = 0


@dataclass(frozen=True, slots=True)
class EncodedInstruction:
    """An instruction, its words, and for each word the mask and values of bits equal in all issues.

    `held` has, by field with a quantity, the number of its word, its lowest bit, its bits, and the quantity.
    """

    instruction: Instruction
    encoding: Encoding
    fixed: tuple[tuple[int, int], ...]
    held: tuple[tuple[int, int, int, BitField, Quantity], ...]


def fits(words: tuple[int, ...], fixed: tuple[tuple[int, int], ...]) -> bool:
    """Return whether the bits that are equal in all issues agree with these words."""
    return len(words) == len(fixed) and all(
        word & bits == value for word, (bits, value) in zip(words, fixed, strict=True)
    )


def _is_enough(words: tuple[int, ...], one: EncodedInstruction) -> bool:
    """Return whether each field in some words has at least its least value."""
    return all(words[n] >> low & bits >= field.least for n, low, bits, field, _ in one.held if field.least)


def encoded_of(machine: Machine, unit: str | None = None) -> tuple[EncodedInstruction, ...]:
    """Return the encoded instructions of one unit, or of all."""
    return tuple(
        EncodedInstruction(item.instruction, item.encoding, item.encoding.fixed, _held_by(item.encoding))
        for item in machine.instructions.values()
        if item.encoding is not None and unit in (None, item.cost.unit)
    )


def _held_by(encoding: Encoding) -> tuple[tuple[int, int, int, BitField, Quantity], ...]:
    return tuple(
        (number, field.low, field.limit - 1, field, field.holds)
        for number, word in enumerate(encoding.words) for field in word if isinstance(field.holds, Quantity)
    )  # fmt: skip


def decode_one(
    rest: Sequence[int], at: int, encoded: Sequence[EncodedInstruction], machine: Machine, tables: Tables
) -> tuple[Command, Steps, tuple[int, ...]]:
    """Return the command at the start of these words, with its address steps and its words.

    Raises: VerificationFailed if there is none.
    """
    head = rest[0]
    for one in encoded:
        instruction, (bits, value) = one.instruction, one.fixed[0]
        if head & bits != value:
            continue
        own = tuple(rest[: len(one.fixed)])
        if not fits(own, one.fixed) or not _is_enough(own, one):
            continue
        found = read_held(one.encoding, one.held, own, tables)
        if isinstance(found, str):
            raise refuse_word(at, f"`{instruction.name}`: {found}")
        try:
            return command_of(instruction, found), _steps_in(found), own
        except UsageProblem as error:  # a parameter beyond its range
            raise refuse_word(at, error.diagnostics[0].message) from None
    bits = machine.program.word_bits if machine.program is not None else 0
    raise refuse_word(
        at, f"{rest[0]:#0{bits // 4 + 2}x} and the next words are not an instruction of {machine.name}"
    )


def _steps_in(found: Mapping[Quantity, int]) -> Steps:
    return tuple((q.name, step) for q, step in found.items() if q.kind == "step" and step)


def read_fields(encoding: Encoding, words: tuple[int, ...], tables: Tables) -> dict[Quantity, int] | str:
    """Return the values of fields and table entries, or the error if they contradict each other."""
    return read_held(encoding, _held_by(encoding), words, tables)


def read_held(
    encoding: Encoding,
    held: Sequence[tuple[int, int, int, BitField, Quantity]],
    words: tuple[int, ...],
    tables: Tables,
) -> dict[Quantity, int] | str:
    """Return the values of fields as `read_fields` does, given their positions."""
    found: dict[Quantity, int] = {}
    for number, low, bits, field, quantity in held:
        value = words[number] >> low & bits
        if quantity.kind == "step":
            value = field.number(words[number])
        if found.setdefault(quantity, value * quantity.unit) != value * quantity.unit:
            return "two fields that say the same differ"
    for name, word in encoding.entries:
        entry = tables.get(name, {}).get(found[Quantity("entry", name)])
        if entry is None:
            return f"no entry of `{name}` is at the address in the words"
        fixed = sum(f.put(f.holds) for f in word if isinstance(f.holds, int))
        free = sum(f.mask for f in word if isinstance(f.holds, Quantity))
        if entry & ~free != fixed:
            return f"the entry {entry:#x} of `{name}` is not a valid one"
        if not all(_take(field, entry, found) for field in word):
            return "two fields that say the same differ"
    return found


def _take(field: BitField, value: int, found: dict[Quantity, int]) -> bool:
    """Record the value of a field. Return whether it agrees with an earlier value of the same quantity."""
    if not isinstance(held := field.holds, Quantity):
        return True
    number = field.number(value) * held.unit
    return found.setdefault(held, number) == number


def refuse_word(at: int, said: str) -> VerificationFailed:
    """Return the error at a word."""
    return VerificationFailed.of("program-word", f"word {at}: {said}")
