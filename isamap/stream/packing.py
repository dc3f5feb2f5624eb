"""Commands put into the slots of words, each as early as what it needs and a free slot allow.

    load a, load b, mac, load a, mac   ->   {load a, load b} {mac, load a} {mac}

A word is performed when all that it reads is there, so that only the order is decided here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from isamap.machine import Machine
from isamap.machine.encodings import Bundle
from isamap.source import Diagnostic, UsageProblem
from isamap.stream.accesses import Access, accesses
from isamap.stream.bundles import BundleCommands, SlotCommand
from isamap.stream.command import Command
from isamap.stream.order import Array, room

MOST_AHEAD = 8
"""How many words a command may go back to at most: what stands there is on its way already."""


@dataclass(slots=True)
class _Touched:
    """By memory and byte the last word that wrote it, and the last that read it."""

    writers: dict[str, Array] = field(default_factory=dict[str, Array])
    readers: dict[str, Array] = field(default_factory=dict[str, Array])

    def earliest(self, access: Access) -> int:
        """The first word for an access: behind what it reads, beside the reader of what it overwrites."""
        if not access.at.size:
            return 0
        first = int(_of(self.writers, access).max()) + 1
        return max(first, int(_of(self.readers, access).max())) if access.is_written else first

    def touch(self, access: Access, word: int) -> None:
        """Note an access of a command in a word."""
        for noted, is_so in ((self.writers, access.is_written), (self.readers, access.is_read)):
            if is_so and access.at.size:
                _of(noted, access)
                own = noted[access.memory]
                own[access.at] = np.maximum(own[access.at], word)


def _of(noted: dict[str, Array], access: Access) -> Array:
    noted[access.memory] = room(noted.get(access.memory), int(access.at.max()) + 1)
    return noted[access.memory][access.at]


def pack(commands: Sequence[Command], machine: Machine, bundle: Bundle) -> list[BundleCommands]:
    """The words of a program, loops written out. Raises: UsageProblem for what has no slot."""
    touched = _Touched()
    words: list[list[SlotCommand]] = []
    for command in commands:
        item = machine.instructions[command.instruction]
        slots = bundle.slots_of(item.cost.unit)
        if not slots:
            said = f"`{item.name}` has no `encoding`, so that no program can have it"
            raise UsageProblem(Diagnostic("no-encoding", said, item.span))
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
    """The first word, from one on, with a free slot among these; behind the last one all are free."""
    for number in range(first, len(words)):
        taken = {one.slot for one in words[number]}
        if (slot := next((s for s in slots if s not in taken), None)) is not None:
            return number, slot
    return len(words), slots[0]
