"""Gemmini's commands performed as its public manual says, from the bytes of a program's file.

Nothing of isamap is used: neither its description of the machine nor its reader of files. Of the commands
only what a weight-stationary product needs is known; anything else fails.
"""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

DIM = 16
ONE = 0x3F800000
NOWHERE = 0xFFFFFFFF
TYPES = {"i8": np.int8, "i32": np.int32, "f32": np.float32}
Array = NDArray[Any]


class File:
    """The parts of a program's file."""

    def __init__(self, data: bytes, word_bytes: int = 8) -> None:
        assert data[:8] == b"ISAMPROG"
        assert int.from_bytes(data[8:12], "little") == 1
        length = int.from_bytes(data[12:16], "little")
        self.header = json.loads(data[16 : 16 + length])
        self.body = data[16 + length :]
        starts = range(0, self.header["words"] * word_bytes, word_bytes)
        self.words = [int.from_bytes(self.body[at : at + word_bytes], "little") for at in starts]
        assert len(self.body) >= len(self.words) * word_bytes

    def tensors(self) -> list[dict[str, Any]]:
        """Return what the caller passes."""
        return [a for a in self.header["arrays"] if a["role"] != "buffer"]

    def image(self, arrays: dict[str, Array]) -> Array:
        """Main memory with the arrays in it."""
        memory = np.zeros(self.header["memories"]["dram"], np.uint8)
        for one in self.tensors():
            values = np.ascontiguousarray(arrays[one["name"]], TYPES[one["type"]])
            assert values.shape == tuple(one["shape"])
            memory[one["offset"] :][: values.nbytes] = values.reshape(-1).view(np.uint8)
        return memory

    def output(self, memory: Array, name: str) -> Array:
        """Return an array as it lies in main memory."""
        (one,) = (a for a in self.tensors() if a["name"] == name)
        dtype = np.dtype(TYPES[one["type"]])
        size = math.prod(one["shape"]) * dtype.itemsize
        return memory[one["offset"] :][:size].view(dtype).reshape(one["shape"])


class Gemmini:
    """The state of the default configuration."""

    def __init__(self, memory: Array) -> None:
        self.memory = memory
        self.spad = np.zeros((4 * 4096, DIM), np.int8)
        self.acc = np.zeros((1024, DIM), np.int32)
        self.load_stride = [0, 0, 0]
        self.store_stride = 0
        self.store_scale = np.float32(1)
        self.is_relu = False
        self.preloaded: tuple[int, int] = (NOWHERE, NOWHERE)

    def run(self, words: list[int]) -> None:
        """All commands: the instruction, then what rs1 and rs2 hold."""
        for at in range(0, len(words), 3):
            instruction, rs1, rs2 = words[at : at + 3]
            assert instruction & 0x7F == 0x7B, "custom-3"
            assert instruction >> 12 & 7 == 0b011, "both operands are read, nothing is written"
            self.command(instruction >> 25, rs1, rs2)

    def command(self, funct: int, rs1: int, rs2: int) -> None:
        match funct:
            case 0:
                self.configure(rs1, rs2)
            case 2 | 1 | 14:
                self.move_in({2: 0, 1: 1, 14: 2}[funct], rs1, rs2)
            case 3:
                self.move_out(rs1, rs2)
            case 6:
                assert rs1 >> 32 == rs2 >> 32 == 16 << 16 | 16
                self.preloaded = rs1 & NOWHERE, rs2 & NOWHERE
            case 4:
                self.compute(rs1, rs2)
            case _:
                raise AssertionError(f"command {funct}")

    def configure(self, rs1: int, rs2: int) -> None:
        match rs1 & 3:
            case 0:
                assert rs1 == ONE << 32 | 1 << 16 | 1 << 2, "weight-stationary, rows one behind the other"
                assert rs2 == 1 << 48
            case 1:
                assert (rs1 >> 32, rs1 >> 2 & 1) == (ONE, 0), "not scaled, as wide as they are"
                self.load_stride[rs1 >> 3 & 3] = rs2
            case 2:
                assert rs1 & ~(1 << 2) == 2, "relu or nothing, no pooling"
                self.is_relu = bool(rs1 >> 2 & 1)
                self.store_stride = rs2 & NOWHERE
                self.store_scale = np.uint32(rs2 >> 32).view(np.float32)
            case _:
                raise AssertionError("config_norm")

    def move_in(self, state: int, address: int, local: int) -> None:
        rows, columns, place = local >> 48, local >> 32 & 0xFFFF, local & NOWHERE
        assert columns <= DIM, "one block"
        is_sums = place >> 31
        target = self.acc if is_sums else self.spad
        assert place >> 29 & 3 == 0, "sums are overwritten"
        for row in range(rows):
            at, size = address + row * self.load_stride[state], columns * target.itemsize
            values = self.memory[at : at + size].view(target.dtype) if address else 0
            target[(place & 0x1FFFFFFF) + row, :columns] = values

    def move_out(self, address: int, local: int) -> None:
        rows, columns, place = local >> 48, local >> 32 & 0xFFFF, local & NOWHERE
        assert place >> 30 == 0b10, "sums leave"
        is_whole = place >> 29 & 1
        for row in range(rows):
            values = self.acc[(place & 0x1FFFFFFF) + row, :columns]
            if not is_whole:
                scaled = np.rint(values.astype(np.float32) * self.store_scale)
                values = np.clip(scaled, 0 if self.is_relu else -128, 127).astype(np.int8)
            at = address + row * self.store_stride
            self.memory[at : at + values.nbytes] = np.ascontiguousarray(values).view(np.uint8)

    def compute(self, rs1: int, rs2: int) -> None:
        weights, sums = self.preloaded
        assert (rs1 >> 32, rs2) == (16 << 16 | 16, (16 << 16 | 16) << 32 | NOWHERE), "a whole tile, no bias"
        assert sums >> 29 & 0b101 == 0b100, "sums of 32 bits"
        is_added = sums >> 30 & 1
        a, w = (self.spad[at : at + DIM].astype(np.int32) for at in (rs1 & NOWHERE, weights))
        place = slice(sums & 0x1FFFFFFF, (sums & 0x1FFFFFFF) + DIM)
        self.acc[place] = a @ w + (self.acc[place] if is_added else 0)
