"""Bundles: words with slots for instructions that run in parallel, and hardware loops.

    {load_repeated_v, load_v}   {mac, store_v}   loop 8 times 2 words: {mac, load_v} {mac, load_v}

The instructions of a word read the values from before the word. A loop repeats the words after it, and each
iteration increments the addresses of their operands by their steps.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from isamap.machine import Machine
from isamap.machine.encodings import LOOPED, TRIPS, Bundle, Encoding
from isamap.source.records import dataclass, replace
from isamap.stream.command import Address, Command
from isamap.stream.command_words import (
    EncodedInstruction,
    Numbered,
    Places,
    Steps,
    Tables,
    decode_one,
    encode,
    encoded_of,
    fits,
    put_field,
    read_fields,
    refuse_word,
)
from isamap.stream.unroll import MOST_COMMANDS


@dataclass(frozen=True, slots=True)
class SlotCommand:
    """A command in a slot, and the address increments per iteration of the hardware loop around it."""

    slot: int
    command: Command
    steps: Steps = ()


BundleCommands = tuple[SlotCommand, ...]
"""The commands of one word."""


@dataclass(frozen=True, slots=True)
class Run:
    """Words that run `trips` times, from word number `at` on."""

    trips: int
    body: tuple[BundleCommands, ...]
    at: int = 0


def encode_runs(runs: Sequence[Run], machine: Machine, bundle: Bundle, places: Places) -> Iterator[int]:
    """Yield the words of a program. Raises: UsageProblem if a field cannot hold a number."""
    for run in runs:
        if run.trips > 1:
            assert bundle.loop is not None, "only loops of the hardware repeat words"
            held = {TRIPS: run.trips, LOOPED: len(run.body)}
            yield sum(put_field(field, held, "loop") for field in bundle.loop.fields)
        for commands in run.body:
            word = bundle.mark
            for one in commands:
                item = machine.instructions[one.command.instruction]
                (own,) = encode(one.command, item, places, one.steps)
                word |= bundle.slots[one.slot].put(own)
            yield word


def read_runs(
    words: Sequence[int], first: int, machine: Machine, bundle: Bundle, tables: Tables
) -> tuple[Run, ...]:
    """Return the runs in the words from `first` on. Raises: VerificationFailed at an invalid word."""
    encoded = {slot.unit: encoded_of(machine, slot.unit) for slot in bundle.slots}
    found: list[Run] = []
    at = first
    while at < len(words):
        trips, count, start = 1, 1, at
        if bundle.loop is not None and fits((words[at],), bundle.loop.fixed):
            trips, count = _loop(words, at, bundle.loop)
            start = at + 1
        body: list[BundleCommands] = []
        for place in range(start, start + count):
            body.append(_bundle(words[place], place, machine, bundle, encoded, tables))
            if start == at and any(one.steps for one in body[-1]):
                raise refuse_word(place, "an address grows in each iteration of a loop, and there is none")
        found.append(Run(trips, tuple(body), start))
        at = start + count
    return tuple(found)


def _loop(words: Sequence[int], at: int, loop: Encoding) -> tuple[int, int]:
    """Return the iteration count and the length of a loop in words. Raises: VerificationFailed."""
    held = read_fields(loop, (words[at],), {})
    assert isinstance(held, dict), "a loop has no entries, and says nothing twice"
    trips, count = held[TRIPS], held[LOOPED]
    if trips < 1 or not 1 <= count < len(words) - at:
        raise refuse_word(at, f"a loop of {count} words, {trips} times: {len(words) - at - 1} words are left")
    return trips, count


def _bundle(
    word: int,
    at: int,
    machine: Machine,
    bundle: Bundle,
    encoded: Mapping[str, tuple[EncodedInstruction, ...]],
    tables: Tables,
) -> BundleCommands:
    """Return the commands in a word. Raises: VerificationFailed if it is no bundle."""
    outside = word
    found: list[SlotCommand] = []
    for number, slot in enumerate(bundle.slots):
        own = slot.get(word)
        outside ^= slot.put(own)
        if own:
            command, steps, _ = decode_one((own,), at, encoded[slot.unit], machine, tables)
            found.append(SlotCommand(number, command, steps))
    if outside != bundle.mark or not found:
        what = "has nothing in any slot" if outside == bundle.mark else "is not a word with slots"
        raise refuse_word(at, f"{word:#x} {what}")
    return tuple(found)


def expand(runs: Sequence[Run], bundle: Bundle, words: Sequence[int]) -> tuple[Numbered, ...]:
    """Return the commands of runs with unrolled loops. Raises: VerificationFailed for too many commands."""
    found: list[Numbered] = []
    issued = count = 0
    for run in runs:
        count += run.trips * sum(len(commands) for commands in run.body)
        if count > MOST_COMMANDS:
            raise refuse_word(run.at, f"more than {MOST_COMMANDS} instructions are performed")
        for iteration in range(run.trips):
            for at, commands in enumerate(run.body, run.at):
                for one in commands:
                    slot = bundle.slots[one.slot]
                    command = move_command(one.command, one.steps, iteration)
                    found.append(Numbered(at, command, (slot.get(words[at]),), issued, slot.low))
                issued += 1
    return tuple(found)


def move_command(command: Command, steps: Steps, iteration: int) -> Command:
    """Return a command at an iteration of its loop."""
    if not steps or not iteration:
        return command
    grown = dict(steps)
    operands = tuple(
        (name, replace(where, address=where.address + iteration * grown[name]))
        if name in grown and isinstance(where, Address)
        else (name, where)
        for name, where in command.operands
    )
    return replace(command, operands=operands)


def find_stepped_operands(machine: Machine, instruction: str) -> frozenset[str]:
    """Return an instruction's operands whose addresses may increase in a hardware loop."""
    encoding = machine.instructions[instruction].encoding
    held = encoding.quantities if encoding is not None else ()
    return frozenset(q.name for q in held if q.kind == "step")
