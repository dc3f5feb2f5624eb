"""Calls of C that gives commands to an accelerator, with arrays where the file of words has them."""

from __future__ import annotations

from math import prod

from isamap.stream.program_file import ProgramFile


def given_arrays(program: ProgramFile, image: str, rows_apart: int = 0) -> str:
    """Return what a call is given, as C: arrays in an image of main memory, rows so many bytes farther apart."""
    given: list[str] = []
    for array in (a for a in program.arrays if a.role != "buffer"):
        given.append(f".{array.name} = (void *)({image} + {array.offset})")
        for axis in range(len(array.shape) - 1):
            stride = prod(array.shape[axis + 1 :]) * array.dtype.size_bytes + rows_apart
            given.append(f".{array.name}_stride{axis} = {stride}")
    return f"{{{', '.join(given)}}}"
