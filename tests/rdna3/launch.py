"""Launch the kernels of a folder on the emulator of AMD GPUs that tinygrad's repository has.

    CC=clang-19 DEV=MOCK+AMD:LLVM PYTHONPATH=TINYGRAD python launch.py FOLDER

FOLDER has `plan.json`, which `isamap compile --emit kernels` wrote, `kernels.elf`, and `NAME.npy`
for each array. Arrays that kernels write are written back.
"""

from __future__ import annotations

import json
import struct
import sys
from pathlib import Path
from typing import Any

import numpy as np
from tinygrad import Device, dtypes
from tinygrad.device import TinyELF
from tinygrad.helpers import Target
from tinygrad.runtime import ops_amd


def symbols_of(elf: bytes) -> dict[str, int]:
    """Return the addresses of the symbols of an ELF file of 64 bits."""
    at, size, count = struct.unpack_from("<Q10xHH", elf, 40)[0], *struct.unpack_from("<HH", elf, 58)
    sections = [struct.unpack_from("<IIQQQQIIQQ", elf, at + size * n) for n in range(count)]
    found: dict[str, int] = {}
    for _, kind, _, _, start, length, link, *_ in sections:
        if kind not in (2, 11):  # SHT_SYMTAB, SHT_DYNSYM
            continue
        names = sections[link][4]
        for symbol in range(start, start + length, 24):
            name, _, _, _, value, _ = struct.unpack_from("<IBBHQQ", elf, symbol)
            end = elf.index(b"\0", names + name)
            found[elf[names + name : end].decode()] = value
    return found


def programs_of(elf: bytes, kernels: list[str], signature: Any) -> dict[str, Any]:
    """Return what launches each kernel. tinygrad takes the first kernel of a file: it is told where others lie."""
    load, symbols, device = ops_amd.elf_loader, symbols_of(elf), Device["AMD"]
    found: dict[str, Any] = {}
    for kernel in kernels:

        def moved(lib: bytes, descriptor: int = symbols[f"{kernel}.kd"]) -> Any:
            image, sections, *others = load(lib)
            for section in sections:
                if section.name == ".rodata":
                    section.header.sh_addr = descriptor
            return image, sections, *others

        ops_amd.elf_loader = moved
        found[kernel] = device.runtime(TinyELF(elf, kernel, Target("AMD", arch=device.arch), signature))
    ops_amd.elf_loader = load
    return found


def main(folder: Path) -> None:
    """Launch what the plan says, one kernel behind the other."""
    plan = json.loads((folder / "plan.json").read_text())
    elf, device = (folder / "kernels.elf").read_bytes(), Device["AMD"]
    arrays = {a["name"]: np.load(folder / f"{a['name']}.npy") for a in plan["arrays"]}
    bytes_of = {name: array.nbytes for name, array in arrays.items()}
    bytes_of |= {buffer["name"]: buffer["bytes"] for buffer in plan["buffers"]}
    memory = {name: device.allocator.alloc(max(size, 16)) for name, size in bytes_of.items()}
    for name, array in arrays.items():
        device.allocator._copyin(memory[name], memoryview(bytearray(array.tobytes())))
    longest = max(len(launch["arguments"]) for launch in plan["launches"])
    signature = tuple((None, at, dtypes.uint64, ()) for at in range(longest))
    programs = programs_of(elf, [launch["kernel"] for launch in plan["launches"]], signature)
    for launch in plan["launches"]:
        given = [memory[a["array"]].va_addr if "array" in a else a["number"] for a in launch["arguments"]]
        size = {"global_size": (launch["blocks"], 1, 1), "local_size": (launch["lanes"], 1, 1)}
        programs[launch["kernel"]](vals=tuple(given), wait=True, **size)
    for array in plan["arrays"]:
        if array["role"] != "in":
            name = array["name"]
            out = bytearray(bytes_of[name])
            device.allocator._copyout(memoryview(out), memory[name])
            np.save(
                folder / f"{name}.npy", np.frombuffer(out, arrays[name].dtype).reshape(arrays[name].shape)
            )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
