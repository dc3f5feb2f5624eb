"""VTA's words performed as its authors' header says, from the bytes of a program's file.

Nothing of isamap is used: neither its description of the machine nor its reader of files. Three modules
take words from queues of their own, in an order that is drawn, and wait for nothing but tokens. Words that a
product does not need fail.
"""

from __future__ import annotations

from collections import deque
from random import Random
from typing import Any

import numpy as np
from gemmini_by_hand import File
from numpy.typing import NDArray

Array = NDArray[Any]
PAGE = 4096
LOAD, STORE, GEMM, FINISH, ALU = range(5)
UOP, WGT, INP, ACC, OUT = range(5)
MODULES = ("load", "compute", "store")
NEXT = {"load": "compute", "compute": "store"}
PREVIOUS = {"compute": "load", "store": "compute"}


def field(word: int, low: int, bits: int) -> int:
    return word >> low & ((1 << bits) - 1)


def signed(number: int) -> int:
    return number - (1 << 16) if number >> 15 else number


class Tables(File):
    """A program's file with tables behind its words, which have 128 bits where nothing else is said."""

    def __init__(self, data: bytes, word_bytes: int = 16) -> None:
        super().__init__(data, word_bytes)
        self.word_bytes = word_bytes

    def image(self, arrays: dict[str, Array]) -> Array:
        """Main memory with the arrays and tables in it."""
        memory = super().image(arrays)
        rest = self.body[self.word_bytes * self.header["words"] :]
        for table in self.header["tables"]:
            data = rest[: table["entry_bits"] // 8 * table["entries"]]
            memory[table["offset"] :][: len(data)] = np.frombuffer(data, np.uint8)
            rest = rest[len(data) :]
        assert rest == b""
        return memory


class Vta:
    """The state of the default configuration: a row of 16, blocks of 16 by 16."""

    def __init__(self, memory: Array, seed: int) -> None:
        self.memory = memory
        self.random = Random(seed)
        self.inp = np.zeros((2048, 16), np.int8)
        self.wgt = np.zeros((1024, 16, 16), np.int8)
        self.acc = np.zeros((2048, 16), np.int32)
        self.uop = np.zeros(8192, np.uint32)
        self.tokens: dict[tuple[str, str], int] = {}
        self.finished = False

    def run(self, words: list[int]) -> None:
        """All words, each in its module, whichever of them can go on."""
        queues: dict[str, deque[int]] = {module: deque() for module in MODULES}
        for word in words:
            queues[self.module(word)].append(word)
        while ready := [m for m in MODULES if queues[m] and self.can_start(m, queues[m][0])]:
            module = self.random.choice(ready)
            word = queues[module].popleft()
            assert not self.finished, "finish is the last"
            self.pass_tokens(module, word)
            self.perform(word)
        assert not any(queues.values()), "a module waits for ever"
        assert not any(self.tokens.values()), "a token is left"
        assert self.finished

    def module(self, word: int) -> str:
        if field(word, 0, 3) == LOAD:
            return "load" if field(word, 7, 3) in (WGT, INP) else "compute"
        return "store" if field(word, 0, 3) == STORE else "compute"

    def waited(self, module: str, word: int) -> list[tuple[str, str]]:
        sources = [(PREVIOUS, 3), (NEXT, 4)]
        return [(there[module], module) for there, bit in sources if field(word, bit, 1)]

    def can_start(self, module: str, word: int) -> bool:
        return all(self.tokens.get(queue, 0) for queue in self.waited(module, word))

    def pass_tokens(self, module: str, word: int) -> None:
        for queue in self.waited(module, word):
            self.tokens[queue] -= 1
        for there, bit in ((PREVIOUS, 5), (NEXT, 6)):
            if field(word, bit, 1):
                queue = module, there[module]
                self.tokens[queue] = self.tokens.get(queue, 0) + 1

    def perform(self, word: int) -> None:
        match field(word, 0, 3):
            case 0 | 1:
                self.move(word)
            case 2:
                self.multiply(word)
            case 3:
                self.finished = True
            case 4:
                self.compute(word)
            case other:
                raise AssertionError(f"opcode {other}")

    def move(self, word: int) -> None:
        kind, sram, dram = field(word, 7, 3), field(word, 10, 16), field(word, 26, 32)
        rows, columns, stride = field(word, 64, 16), field(word, 80, 16), field(word, 96, 16)
        above = field(word, 112, 4)  # rows of zeros
        assert word >> 116 == 0, "no padding but above"
        if above:
            assert (kind, rows, columns) == (INP, 0, 1)
            self.inp[sram : sram + above] = 0
        for row in range(rows):
            for column in range(columns):
                self.element(kind, sram + row * columns + column, dram + row * stride + column)

    def element(self, kind: int, sram: int, dram: int) -> None:
        if kind == OUT:
            assert 16 * dram >= PAGE
            self.memory[16 * dram :][:16] = self.acc[sram].astype(np.int8).view(np.uint8)
            return
        there = (self.uop[sram : sram + 1], self.wgt, self.inp, self.acc)[kind]
        there = there if kind == UOP else there[sram]
        assert there.nbytes * dram >= PAGE
        data = self.memory[there.nbytes * dram :][: there.nbytes]
        there[...] = data.view(there.dtype).reshape(there.shape)

    def steps(self, word: int) -> list[tuple[int, int, int]]:
        """Micro-operations with where loops have brought their sums, sources and weights."""
        found: list[tuple[int, int, int]] = []
        for outer in range(field(word, 35, 14)):
            for inner in range(field(word, 49, 14)):
                for uop in self.uop[field(word, 8, 13) : field(word, 21, 14)].tolist():
                    sums = field(uop, 0, 11) + outer * field(word, 64, 11) + inner * field(word, 75, 11)
                    source = field(uop, 11, 11) + outer * field(word, 86, 11) + inner * field(word, 97, 11)
                    weights = field(uop, 22, 10) + outer * field(word, 108, 10) + inner * field(word, 118, 10)
                    found.append((sums, source, weights))
        return found

    def multiply(self, word: int) -> None:
        for sums, row, weights in self.steps(word):
            if field(word, 7, 1):
                self.acc[sums] = 0
            else:
                self.acc[sums] += self.wgt[weights].astype(np.int32) @ self.inp[row].astype(np.int32)

    def compute(self, word: int) -> None:
        number = signed(field(word, 112, 16))
        by_number = field(word, 111, 1)
        for sums, source, _ in self.steps(word & ~(0xFFFFF << 108)):
            one, other = self.acc[sums], np.int32(number) if by_number else self.acc[source]
            does = field(word, 108, 3)
            assert does < 4, "min, max, add, shift"
            self.acc[sums] = (np.minimum, np.maximum, np.add, np.right_shift)[does](one, other)
