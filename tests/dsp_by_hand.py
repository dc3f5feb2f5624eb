"""The words of vector-dsp performed as its layout says, from the bytes of a program's file.

Nothing of isamap is used: where each field lies is written down here a second time. A word of 256 bits has
seven slots, whose instructions see what was there before it; a loop repeats the words behind it and moves
their addresses; the DMA engine takes a descriptor of 128 bits from main memory.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Write = Callable[[], None]
SLOTS = {
    "dma": (0, 28),
    "load": (28, 40),
    "load2": (68, 40),
    "store": (108, 40),
    "mac": (148, 14),
    "alu": (162, 46),
    "alu2": (208, 46),
}
TYPES = {1: np.int8, 2: np.int32, 3: np.float32}


def bits(word: int, low: int, count: int) -> int:
    return word >> low & ((1 << count) - 1)


def signed(number: int, count: int) -> int:
    return number - (1 << count) if number >> (count - 1) else number


class Dsp:
    """Local memory and registers; what was not written yet is a value that no test has."""

    def __init__(self, memory: Array) -> None:
        self.memory = memory
        self.local = np.full(131072, 0x55, np.uint8)
        self.v: dict[int, Array] = {}
        self.w: dict[int, Array] = {}
        self.words = self.loops = self.shared = 0

    def run(self, words: list[int]) -> None:
        """All words; how many were performed, loops and words of several instructions are counted."""
        at = 0
        while at < len(words):
            kind = bits(words[at], 254, 2)
            if kind == 1:
                self.word(words[at], 0)
                at += 1
                continue
            assert kind == 2, "a loop"
            assert words[at] & ~((1 << 48) - 1) == 2 << 254, "nothing else in its word"
            trips, count = bits(words[at], 0, 32), bits(words[at], 32, 16)
            self.loops += 1
            for iteration in range(trips):
                for word in words[at + 1 : at + 1 + count]:
                    assert bits(word, 254, 2) == 1, "no loop within a loop"
                    self.word(word, iteration)
            at += 1 + count

    def word(self, word: int, iteration: int) -> None:
        """All slots read before any of them writes."""
        writes: list[Write] = []
        for name, (low, count) in SLOTS.items():
            if slot := bits(word, low, count):
                writes.append(getattr(self, name.rstrip("2"))(slot, iteration))
        assert writes, "something is done"
        for write in writes:
            write()
        self.words += 1
        self.shared += len(writes) > 1

    def dma(self, slot: int, _: int) -> Write:
        kind, place = bits(slot, 0, 4), 16 * bits(slot, 4, 24)
        entry = int.from_bytes(self.memory[place : place + 16].tobytes(), "little")
        dram, stride, local = bits(entry, 0, 40), bits(entry, 40, 24), bits(entry, 64, 17)
        if kind >= 6:
            size = np.dtype(TYPES[kind - 5]).itemsize * bits(entry, 81, 13)
            assert entry & ((1 << 64) - 1) == 0
            assert entry >> 94 == 0
            return lambda: self.local[local : local + size].fill(0)
        assert entry >> 95 == 0
        size = np.dtype(TYPES[kind if kind < 4 else kind - 3]).itemsize
        rows, row = bits(entry, 81, 7), size * bits(entry, 88, 7)
        out, inside = ((self.local, 64 * size), (self.memory, stride))[:: 1 if kind < 4 else -1]
        to, of = ((local, dram), (dram, local))[kind >= 4]
        held = [inside[0][of + n * inside[1] :][:row].copy() for n in range(rows)]

        def write() -> None:
            for n, values in enumerate(held):
                out[0][to + n * out[1] :][:row] = values

        return write

    def load(self, slot: int, iteration: int) -> Write:
        kind, to = bits(slot, 0, 3), bits(slot, 3, 5)
        at = bits(slot, 8, 17) + iteration * signed(bits(slot, 25, 15), 15)
        dtype: np.dtype[Any] = np.dtype((None, np.int8, np.int8, np.int32, np.float32, np.float32)[kind])
        data: Array = self.local[at : at + dtype.itemsize * (1 if kind in (2, 5) else 64)].view(dtype)
        values: Array = np.resize(data, 64)
        return lambda: (self.v if kind < 3 else self.w).__setitem__(to, values)

    def store(self, slot: int, iteration: int) -> Write:
        at = bits(slot, 8, 17) + iteration * signed(bits(slot, 25, 15), 15)
        kind = bits(slot, 0, 2)
        values = self.v[bits(slot, 2, 5)] if kind == 1 else self.w[bits(slot, 2, 3)]
        assert kind == 1 or (kind == 2 and bits(slot, 5, 3) == 0)
        data = values.view(np.uint8)
        return lambda: self.local[at : at + data.size].__setitem__(slice(None), data)

    def mac(self, slot: int, _: int) -> Write:
        c = bits(slot, 11, 3)
        product = self.v[bits(slot, 1, 5)].astype(np.int32) * self.v[bits(slot, 6, 5)]
        return lambda: self.w.__setitem__(c, self.w[c] + product)

    def alu(self, slot: int, _: int) -> Write:
        kind, to = bits(slot, 0, 3), bits(slot, 3, 5)
        if kind == 1:
            return lambda: self.w.__setitem__(to, np.zeros(64, np.int32))
        sums = self.w[bits(slot, 8, 3)]
        if kind == 2:
            return lambda: self.w.__setitem__(to, np.maximum(sums, 0))
        scale = np.uint32(bits(slot, 14, 32)).view(np.float32) if kind == 3 else self.w[bits(slot, 11, 3)]
        rounded = np.clip(np.rint(sums.astype(np.float32) * scale), -128, 127).astype(np.int8)
        return lambda: self.v.__setitem__(to, rounded)
