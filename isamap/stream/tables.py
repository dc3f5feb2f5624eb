"""Tables of a program: entries to which words refer, such as micro-operations, after the arrays.

Commands that need the same entry share it; nothing writes there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from isamap.machine import Machine
from isamap.source.records import dataclass
from isamap.stream.command import Command
from isamap.stream.command_words import entries_of
from isamap.stream.memory_layout import ALIGNMENT, align_up


@dataclass(frozen=True, slots=True)
class StreamTable:
    """Contiguous table entries. Units: `offset` in bytes from the start of the memory."""

    name: str
    memory: str
    offset: int
    entry_bits: int
    entries: tuple[int, ...]

    @property
    def entry_bytes(self) -> int:
        return -(-self.entry_bits // 8)

    @property
    def size_bytes(self) -> int:
        return len(self.entries) * self.entry_bytes

    @property
    def at(self) -> dict[int, int]:
        """The entry at each address."""
        return {self.offset + n * self.entry_bytes: entry for n, entry in enumerate(self.entries)}

    @property
    def data(self) -> bytes:
        """The table's bytes in memory."""
        return b"".join(entry.to_bytes(self.entry_bytes, "little") for entry in self.entries)


def lay_out_tables(
    commands: Sequence[Command], machine: Machine, memory: str, end: int
) -> tuple[StreamTable, ...]:
    """Return the tables that commands need, placed in main memory from `end` on. Units: bytes."""
    bits = dict(machine.program.tables) if machine.program is not None else {}
    needed: dict[str, dict[int, None]] = {name: {} for name in bits}
    for command in commands:
        for name, entry in entries_of(command, machine.instructions[command.instruction]).items():
            needed[name][entry] = None
    found: list[StreamTable] = []
    for name in (name for name in bits if needed[name]):
        found.append(StreamTable(name, memory, end, bits[name], tuple(needed[name])))
        end = align_up(end + found[-1].size_bytes, ALIGNMENT)
    return tuple(found)


def places_in(tables: Sequence[StreamTable]) -> Mapping[str, Mapping[int, int]]:
    """Return the address of each entry, by table."""
    return {table.name: {entry: at for at, entry in table.at.items()} for table in tables}


def contents_of(tables: Sequence[StreamTable]) -> Mapping[str, Mapping[int, int]]:
    """Return the contents of each table by address."""
    return {table.name: table.at for table in tables}
