"""Programs as words, and words back to commands, by the tables of fields of a machine's description."""

from __future__ import annotations

from collections.abc import Sequence

from isamap.machine import Machine
from isamap.stream.bundles import Run, encode_runs, expand, read_runs
from isamap.stream.command import Command, tokens_in
from isamap.stream.command_words import (
    Placed,
    Places,
    Tables,
    decode_one,
    encode,
    encoded_of,
    fits,
    put_field,
    read_fields,
    refused,
)
from isamap.stream.packing import pack
from isamap.stream.renaming import renamed
from isamap.stream.rolling import roll

END = "end"
"""What the words at the end of a program are called."""


def encode_all(commands: Sequence[Command], machine: Machine, places: Places) -> list[int]:
    """The words of commands, where words have slots packed into them. Raises: UsageProblem."""
    bundle = machine.program.bundle if machine.program is not None else None
    if bundle is not None:
        runs = roll(pack(renamed(commands, machine), machine, bundle), machine, bundle)
        return list(encode_runs(runs, machine, bundle, places))
    return [word for c in commands for word in encode(c, machine.instructions[c.instruction], places)]


def encode_end(tokens: frozenset[tuple[str, str]], machine: Machine) -> tuple[int, ...]:
    """The words that a program ends with."""
    end = machine.program.end if machine.program is not None else None
    if end is None:
        return ()
    found = {q: int((q.kind, q.name) in tokens) for q in end.encoding.quantities}
    return tuple(sum(put_field(field, found, END) for field in word) for word in end.encoding.words)


def decode(words: Sequence[int], machine: Machine, tables: Tables | None = None) -> tuple[Placed, ...]:
    """All commands of a program but the end. Raises: VerificationFailed at a word that begins none."""
    return runs_of(words, machine, tables)[1]


def runs_of(
    words: Sequence[int], machine: Machine, tables: Tables | None = None
) -> tuple[tuple[Run, ...] | None, tuple[Placed, ...]]:
    """The runs of words with slots, None of others, and all commands. Raises: as `decode`."""
    begin = machine.program.begin if machine.program is not None else ()
    if tuple(words[: len(begin)]) != begin:
        raise refused(0, "the program does not begin with the words that all programs of the machine do")
    end = decode_end(words, machine)
    at, last = len(begin), end.at if end is not None else len(words)
    if machine.program is not None and (bundle := machine.program.bundle) is not None:
        runs = read_runs(words[:last], at, machine, bundle, tables or {})
        return runs, expand(runs, bundle, words)
    encoded, found = encoded_of(machine), list[Placed]()
    while at < last:
        command, _, own = decode_one(words[at:last], at, encoded, machine, tables or {})
        found.append(Placed(at, command, own, at))
        at += len(own)
    return None, tuple(found)


def decode_end(words: Sequence[int], machine: Machine) -> Placed | None:
    """The end of a program; None where the machine's programs have none. Raises: VerificationFailed."""
    end = machine.program.end if machine.program is not None else None
    if end is None:
        return None
    fixed = end.encoding.fixed
    at = len(words) - len(fixed)
    own = tuple(words[at:]) if at >= 0 else ()
    if not fits(own, fixed):
        raise refused(
            max(at, 0), "the program does not end with the words that all programs of the machine do"
        )
    read = read_fields(end.encoding, own, {})
    assert isinstance(read, dict), "the end has no entries, and says nothing twice"
    return Placed(at, Command(END, (), (), tokens_in(read)), own, at)
