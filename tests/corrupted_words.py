"""Programs with another number in one field: what a slip in an emitter, or a bit that flips, would leave."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from isamap.machine import Machine
from isamap.machine.encodings import Quantity
from isamap.stream.encoding import decode
from isamap.stream.program_file import ProgramFile
from isamap.stream.tables import contents_of


def corrupted(program: ProgramFile, machine: Machine, seed: int) -> tuple[str, ProgramFile]:
    """Return the program with another number in one field of one instruction, and which that is."""
    rng = np.random.default_rng(seed)
    placed = decode(program.words, machine, contents_of(program.tables))
    one = placed[int(rng.integers(len(placed)))]
    encoding = machine.instructions[one.command.instruction].encoding
    assert encoding is not None
    everything = [(at, f) for at, word in enumerate(encoding.words) for f in word]
    # Two thirds in what an issue decides: that constants are held against theirs is soon seen.
    fields = [(at, f) for at, f in everything if seed % 3 == 0 or isinstance(f.holds, Quantity)]
    at, field = fields[int(rng.integers(len(fields)))]
    words = list(program.words)
    old = field.get(words[one.at + at] >> one.low)
    new = old
    while new == old:  # as a slip would have it: a number nearby, or one bit
        new = int(old + rng.integers(-2, 3)) if rng.integers(2) else old ^ 1 << int(rng.integers(12))
        new %= field.limit
    words[one.at + at] ^= field.put(old ^ new) << one.low
    said = f"{one.command.instruction}.{field.name} at word {one.at + at}: {old} to {new}"
    return said, replace(program, words=tuple(words))
