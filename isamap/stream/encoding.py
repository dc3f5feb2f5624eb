"""Encode programs as words, and decode them, by the field tables of a machine's description."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from isamap.ir import Instruction, Operand
from isamap.machine import Machine
from isamap.machine.encodings import LOOPED, TRIPS, Bundle, Encoding, Quantity
from isamap.source import UsageProblem, dataclass, field, replace
from isamap.stream.accesses import AccessedBytes, accesses
from isamap.stream.command import Address, Command, Register, bound_instruction, extents, integers, tokens_in
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
from isamap.stream.order import Array, room
from isamap.stream.unroll import MOST_COMMANDS

# --- bundles --------------------------------------------------------------------------------------------

# Bundles: words with slots for instructions that run in parallel, and hardware loops.
#
#     {load_repeated_v, load_v}   {mac, store_v}   loop 8 times 2 words: {mac, load_v} {mac, load_v}
#
# The instructions of a word read the values from before the word. A loop repeats the words after it, and each
# iteration increments the addresses of their operands by their steps.


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


END = "end"
"""The name of the encoded instructions at the end of a program."""


def encode_all(commands: Sequence[Command], machine: Machine, places: Places) -> list[int]:
    """Return the words of commands, packed into slots if the machine has them. Raises: UsageProblem."""
    bundle = machine.program.bundle if machine.program is not None else None
    if bundle is not None:
        runs = roll(pack(commands, machine, bundle), machine, bundle)
        return list(encode_runs(runs, machine, bundle, places))
    return [word for c in commands for word in encode(c, machine.instructions[c.instruction], places)]


def encode_end(tokens: frozenset[tuple[str, str]], machine: Machine) -> tuple[int, ...]:
    """Return the words at the end of a program."""
    end = machine.program.end if machine.program is not None else None
    if end is None:
        return ()
    found = {q: int((q.kind, q.name) in tokens) for q in end.encoding.quantities}
    return tuple(sum(put_field(field, found, END) for field in word) for word in end.encoding.words)


def decode(words: Sequence[int], machine: Machine, tables: Tables | None = None) -> tuple[Numbered, ...]:
    """Return all commands of a program without its end. Raises: VerificationFailed at an invalid word."""
    return runs_of(words, machine, tables)[1]


def runs_of(
    words: Sequence[int], machine: Machine, tables: Tables | None = None
) -> tuple[tuple[Run, ...] | None, tuple[Numbered, ...]]:
    """Return the runs of bundle words (None for others), and all commands. Raises: as `decode`."""
    begin = machine.program.begin if machine.program is not None else ()
    if tuple(words[: len(begin)]) != begin:
        raise refuse_word(
            0, "the program does not begin with the words that all programs of the machine begin with"
        )
    end = decode_end(words, machine)
    at, last = len(begin), end.at if end is not None else len(words)
    if machine.program is not None and (bundle := machine.program.bundle) is not None:
        runs = read_runs(words[:last], at, machine, bundle, tables or {})
        return runs, expand(runs, bundle, words)
    encoded, found = encoded_of(machine), list[Numbered]()
    longest = max((len(one.fixed) for one in encoded), default=1)
    while at < last:
        command, _, own = decode_one(words[at : min(last, at + longest)], at, encoded, machine, tables or {})
        found.append(Numbered(at, command, own, at))
        at += len(own)
    return None, tuple(found)


def decode_end(words: Sequence[int], machine: Machine) -> Numbered | None:
    """Return the end of a program, or None if the machine's programs have none. Raises: VerificationFailed."""
    end = machine.program.end if machine.program is not None else None
    if end is None:
        return None
    fixed = end.encoding.fixed
    at = len(words) - len(fixed)
    own = tuple(words[at:]) if at >= 0 else ()
    if not fits(own, fixed):
        raise refuse_word(
            max(at, 0), "the program does not end with the words that all programs of the machine end with"
        )
    read = read_fields(end.encoding, own, {})
    assert isinstance(read, dict), "the end has no entries, and says nothing twice"
    return Numbered(at, Command(END, (), (), tokens_in(read)), own, at)


# --- Registers named in turn, where there are more than a program names: loads wait for no readers ---

# A loop of the hardware has as many times the words then; four hide the latency of a load behind products.
MOST_IN_TURN = 4


def rename_registers(commands: Sequence[Command], machine: Machine) -> list[Command]:
    """Return the same commands with renamed registers. A register is renamed when it is written as a whole."""
    groups = _groups(commands, machine)
    positions = dict.fromkeys(groups, 0)
    found: list[Command] = []
    for command in commands:
        instruction = machine.instructions[command.instruction].instruction
        known = {r: groups[r][positions[r]] for _, r in command.operands if isinstance(r, Register)}
        written = [r for r in _written_registers(command, instruction, machine) if len(groups[r]) > 1]
        for register in written:
            positions[register] = (positions[register] + 1) % len(groups[register])
        new = {r: groups[r][positions[r]] for r in written}
        roles = {o.name: o.role for o in instruction.operands}
        operands = tuple(
            (name, where)
            if not isinstance(where, Register)
            else (name, new.get(where, known[where]) if roles[name] == "out" else known[where])
            for name, where in command.operands
        )
        found.append(replace(command, operands=operands))
    return found


def _groups(commands: Sequence[Command], machine: Machine) -> dict[Register, tuple[Register, ...]]:
    """Return, for each register in commands, the registers that it may be renamed to, itself first."""
    named = {where for c in commands for _, where in c.operands if isinstance(where, Register)}
    viewed = {m.base for m in machine.memories.values()}
    found: dict[Register, tuple[Register, ...]] = {}
    for memory in sorted({r.memory for r in named}):
        own = sorted(r.number for r in named if r.memory == memory)
        count = (
            0 if memory in viewed or machine.memories[memory].base else machine.memories[memory].count or 0
        )
        free = [n for n in range(count) if n not in own]
        more = 1
        while more < MOST_IN_TURN and (2 * more - 1) * len(own) <= len(free):
            more *= 2
        for place, number in enumerate(own):
            others = free[place * (more - 1) : (place + 1) * (more - 1)]
            found[Register(memory, number)] = tuple(Register(memory, n) for n in (number, *others))
    return found


def _written_registers(command: Command, instruction: Instruction, machine: Machine) -> list[Register]:
    """Return the registers that a command overwrites completely."""
    bound = bound_instruction(instruction, integers(instruction, command.params))
    where = dict(command.operands)
    found: list[Register] = []
    for operand in bound.operands:
        register = where[operand.name]
        if operand.role == "out" and isinstance(register, Register) and _is_whole(operand, register, machine):
            found.append(register)
    return found


def _is_whole(operand: Operand, register: Register, machine: Machine) -> bool:
    elements = 1
    for extent in extents(operand):
        elements *= extent
    return elements * operand.dtype.size_bytes == machine.memories[register.memory].register_bytes


# --- Commands put into the slots of words, each as early as what it needs and a free slot allow ---

MOST_AHEAD = 8
"""The largest number of words by which a command may move back. Words behind it are in flight already."""


@dataclass(slots=True)
class _Touched:
    """For each byte of each memory, the last word that wrote it and the last word that read it."""

    writers: dict[str, Array] = field(default_factory=dict[str, Array])
    readers: dict[str, Array] = field(default_factory=dict[str, Array])

    def earliest(self, access: AccessedBytes) -> int:
        """Return the first word in which an access is possible: after writers of its bytes, not before readers."""
        first = int(_of(self.writers, access).max()) + 1
        return max(first, int(_of(self.readers, access).max())) if access.is_written else first

    def touch(self, access: AccessedBytes, word: int) -> None:
        """Record an access of a command in a word."""
        for noted, is_so in ((self.writers, access.is_written), (self.readers, access.is_read)):
            if is_so:
                own = _of(noted, access)
                np.maximum(own, word, out=own)


def _of(noted: dict[str, Array], access: AccessedBytes) -> Array:
    noted[access.memory] = room(noted.get(access.memory), access.end)
    return access.of(noted[access.memory])


def pack(commands: Sequence[Command], machine: Machine, bundle: Bundle) -> list[BundleCommands]:
    """Return the words of a program with its commands in slots. Raises: UsageProblem without a suitable slot."""
    touched = _Touched()
    words: list[list[SlotCommand]] = []
    for command in commands:
        item = machine.instructions[command.instruction]
        slots = bundle.slots_of(item.cost.unit)
        if not slots:
            said = f"`{item.name}` has no `encoding`, so that no program can have it"
            raise UsageProblem.of("no-encoding", said, item.span)
        touches = list(accesses(command, item.instruction))
        first = max((len(words) - MOST_AHEAD, *(touched.earliest(access) for access in touches), 0))
        number, slot = _free(words, first, slots)
        if number == len(words):
            words.append([])
        words[number].append(SlotCommand(slot, command))
        for access in touches:
            touched.touch(access, number)
    return [tuple(sorted(word, key=lambda one: one.slot)) for word in words]


def _free(words: Sequence[Sequence[SlotCommand]], first: int, slots: Sequence[int]) -> tuple[int, int]:
    """Return the first word, from `first` on, in which one of these slots is free, and the slot."""
    for number in range(first, len(words)):
        taken = {one.slot for one in words[number]}
        if (slot := next((s for s in slots if s not in taken), None)) is not None:
            return number, slot
    return len(words), slots[0]


# --- Words that repeat, found and left to the loops of the hardware ---

MOST_LOOPED = 64
"""The largest number of words of a hardware loop. The search ignores longer ones."""


def roll(words: Sequence[BundleCommands], machine: Machine, bundle: Bundle) -> list[Run]:
    """Return the words with hardware loops in place of repetitions, if that saves words."""
    if bundle.loop is None:
        return [Run(1, tuple(words))]
    most = {field.holds: field.limit - 1 for field in bundle.loop.fields if isinstance(field.holds, Quantity)}
    agreeing = _count_equal_words(words, machine, min(most[LOOPED], MOST_LOOPED))
    found: list[Run] = []
    alone: list[BundleCommands] = []
    at = 0
    while at < len(words):
        count, trips = _longest(words, at, agreeing, machine, most[TRIPS])
        if trips * count - count - 1 <= 0:
            alone.append(words[at])
            at += 1
            continue
        found += [Run(1, tuple(alone))] if alone else []
        alone = []
        grown = _growth(words[at : at + count], words[at + count : at + 2 * count], machine)
        assert grown is not None, "iterations agree"
        found.append(Run(trips, grown))
        at += trips * count
    return [*found, Run(1, tuple(alone))] if alone else found


def _count_equal_words(words: Sequence[BundleCommands], machine: Machine, most: int) -> list[Array]:
    """Return, for each distance and word, how many words in a row equal those at the distance behind them."""
    names: dict[tuple[object, ...], int] = {}
    kinds = np.array([names.setdefault(_kind(word, machine), len(names)) for word in words], np.int64)
    found: list[Array] = []
    for length in range(1, min(most, len(words) // 2) + 1):
        same = kinds[:-length] == kinds[length:]
        ends: Array = np.append(np.flatnonzero(~same), same.size)
        at: Array = np.arange(same.size, dtype=np.int64)
        behind: Array = ends[np.searchsorted(ends, at)]
        found.append(behind - at)
    return found


def _kind(word: BundleCommands, machine: Machine) -> tuple[object, ...]:
    """Return a key of a word, without the addresses that a hardware loop may increase."""
    found: list[object] = []
    for one in word:
        free = find_stepped_operands(machine, one.command.instruction)
        operands = tuple(
            (name, where.memory, where.strides)
            if name in free and isinstance(where, Address)
            else (name, where)
            for name, where in one.command.operands
        )
        found.append((one.slot, one.command.instruction, operands, one.command.params))
    return tuple(found)


def _longest(
    words: Sequence[BundleCommands], at: int, agreeing: Sequence[Array], machine: Machine, most: int
) -> tuple[int, int]:
    """Return the words and iterations of the loop at a word that saves most words. One iteration is no loop."""
    best = (1, 1)
    for count, agree in enumerate(agreeing, 1):
        iterations = 1 + int(agree[at]) // count if at < agree.size else 1
        if iterations > 1 and (iterations - 1) * count > (best[1] - 1) * best[0]:
            trips = min(_iterations(words, at, count, iterations, machine), most)
            best = max(best, (count, trips), key=lambda one: (one[1] - 1) * one[0] - (one[1] > 1))
    return best


def _iterations(words: Sequence[BundleCommands], at: int, count: int, most: int, machine: Machine) -> int:
    """Return how many iterations have addresses that increase by equal steps which fit their fields."""
    first = _growth(words[at : at + count], words[at + count : at + 2 * count], machine)
    if first is None:
        return 1
    iterations = 2
    while iterations < most:
        here = at + (iterations - 1) * count
        grown = _growth(words[here : here + count], words[here + count : here + 2 * count], machine)
        if grown is None or [_steps(w) for w in grown] != [_steps(w) for w in first]:
            break
        iterations += 1
    return iterations


def _steps(word: BundleCommands) -> list[tuple[tuple[str, int], ...]]:
    return [one.steps for one in word]


def _growth(
    iteration: Sequence[BundleCommands], following: Sequence[BundleCommands], machine: Machine
) -> tuple[BundleCommands, ...] | None:
    """Return the words of an iteration with their address steps, or None if a field is too small for one."""
    found: list[BundleCommands] = []
    for word, after in zip(iteration, following, strict=True):
        grown: list[SlotCommand] = []
        for one, its in zip(word, after, strict=True):
            steps = tuple(
                (name, there.address - where.address)
                for (name, where), (_, there) in zip(one.command.operands, its.command.operands, strict=True)
                if isinstance(where, Address)
                and isinstance(there, Address)
                and where.address != there.address
            )
            if not all(_holds(machine, one.command.instruction, name, step) for name, step in steps):
                return None
            grown.append(replace(one, steps=steps))
        found.append(tuple(grown))
    return tuple(found)


def _holds(machine: Machine, instruction: str, operand: str, step: int) -> bool:
    encoding = machine.instructions[instruction].encoding
    expected = Quantity("step", operand)
    for one in encoding.fields if encoding is not None else ():
        if one.holds == expected and isinstance(one.holds, Quantity):
            low, high = one.holdable
            return step % one.holds.unit == 0 and low <= step // one.holds.unit <= high
    return False
