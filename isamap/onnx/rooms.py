"""Where a call of a model works: its pointers and its workspace, kept from one call to the next.

room = Room.of(first, inputs=2, outputs=1, workspace_bytes=4096)
room.point([x, y], [z]); run(*room.places)
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from isamap.codegen.in_process import large_room
from isamap.onnx.planning import LINE_BYTES


@dataclass(frozen=True, slots=True)
class Room:
    """What one call at a time uses. `places` are what the model's function is given, as addresses."""

    inputs: Any
    outputs: Any
    space: Any
    first: int
    places: tuple[int, int, int]

    @staticmethod
    def of(first: Sequence[int | None], *, inputs: int, outputs: int, workspace_bytes: int) -> Room:
        """A room for such a model; `first` are what lies in front of the pointers to its inputs."""
        given = (ctypes.c_void_p * (len(first) + inputs + 1))(*first)
        made = (ctypes.c_void_p * (outputs + 1))()
        space = large_room(workspace_bytes + LINE_BYTES)
        places = (ctypes.addressof(given), ctypes.addressof(made), ctypes.addressof(space))
        return Room(given, made, space, len(first), places)

    def point(self, given: Sequence[int], made: Sequence[int]) -> None:
        """Says where inputs and results lie."""
        self.inputs[self.first : self.first + len(given)] = given
        self.outputs[: len(made)] = made


@dataclass(frozen=True, slots=True)
class Kept:
    """Bytes in memory, from the beginning of a line on."""

    space: Any
    start: int

    @staticmethod
    def of(content: bytes) -> Kept:
        """A copy of such bytes."""
        space = large_room(len(content) + LINE_BYTES)
        start = -(-ctypes.addressof(space) // LINE_BYTES) * LINE_BYTES
        ctypes.memmove(start, content, len(content))
        return Kept(space, start)
