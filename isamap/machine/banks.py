"""Banks of a scratchpad: which banks an access uses, and for how long.

    memory spad: scratchpad(bytes = 64 KiB, banks = 4, bank_bytes = 16, interleave_bytes = 16);

Four banks give or take 16 bytes a cycle each, and bytes 0 to 15 lie in the first, 16 to 31 in the second.
A tile of 32 whole rows takes all banks for as long; a column of it, every 64 bytes, one bank for 32 cycles.
"""

from __future__ import annotations

from functools import lru_cache

from isamap.machine.model import Memory
from isamap.source.records import dataclass

Runs = tuple[tuple[int, int], ...]
"""The offsets, from the first byte of an access, of its runs of consecutive bytes, with their lengths."""


@dataclass(frozen=True, slots=True)
class Banks:
    """The banks of a memory. Consecutive runs of `run_bytes` bytes go to consecutive banks.

    Units: `run_bytes` in bytes, `bytes_per_ns` of all ports of one bank.
    """

    memory: str
    count: int
    run_bytes: int
    bytes_per_ns: float
    is_interleaved: bool

    @property
    def together_per_ns(self) -> float:
        """The bytes that all banks together move in a nanosecond."""
        return self.bytes_per_ns * self.count

    @property
    def moved_per_ns(self) -> float:
        """The most bytes per nanosecond of one access. All banks serve it if memory is interleaved, else one bank."""
        return self.together_per_ns if self.is_interleaved else self.bytes_per_ns

    def taken(self, first: int, runs: Runs) -> tuple[tuple[int, float], ...]:
        """Return each bank that an access from byte `first` on occupies, and for how long. Units: ns."""
        return _busy_banks(self, first % (self.count * self.run_bytes), runs)


@lru_cache(maxsize=4096)
def _busy_banks(banks: Banks, first: int, runs: Runs) -> tuple[tuple[int, float], ...]:
    moved = dict[int, int]()
    for offset, size in runs:
        at, end = first + offset, first + offset + size
        while at < end:
            upto = min(end, (at // banks.run_bytes + 1) * banks.run_bytes)
            bank = at // banks.run_bytes % banks.count
            moved[bank] = moved.get(bank, 0) + upto - at
            at = upto
    return tuple((bank, size / banks.bytes_per_ns) for bank, size in sorted(moved.items()))


def banks_of(memory: Memory, clock_ghz: float | None) -> Banks | None:
    """Return the banks of a memory, or None if its bandwidth per bank is not stated."""
    if memory.kind != "scratchpad" or clock_ghz is None or (moved := memory.number("bank_bytes")) is None:
        return None
    count, capacity = memory.number("banks") or 1, memory.capacity_bytes or 0
    run_bytes = memory.number("interleave_bytes") or -(-capacity // count)
    rate = moved * (memory.number("bank_ports") or 1) * clock_ghz
    return Banks(memory.name, count, run_bytes, rate, memory.number("interleave_bytes") is not None)
