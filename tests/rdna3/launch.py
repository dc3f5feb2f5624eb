"""Launch the kernels of folders on the emulator of AMD GPUs that tinygrad's repository has.

    CC=clang-19 DEV=MOCK+AMD:LLVM PYTHONPATH=TINYGRAD python launch.py FOLDER …

Each FOLDER has `plan.json`, which `isamap compile --emit kernels` wrote, `kernels.elf`, and `arrays.npz` with each
array and each scalar by its name. `results.npz` gets the arrays that kernels write.
"""

from __future__ import annotations

import json
import struct
import sys
from collections.abc import Iterator, Mapping, Sequence
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


def launches_of(
    steps: list[dict[str, Any]], counters: Mapping[str, int]
) -> Iterator[tuple[dict[str, Any], Mapping[str, int]]]:
    """Yield the launches of a plan in order, each with the counters of the loops around it."""
    for step in steps:
        if "counter" in step:
            for number in range(step["trips"]):
                yield from launches_of(step["launches"], {**counters, step["counter"]: number})
        else:
            yield step, counters


def program_of(elf: bytes, kernel: str, descriptor: int, kinds: Sequence[Any]) -> Any:
    """Return what launches a kernel. tinygrad takes the first kernel of a file: it is told where others lie."""
    load, device = ops_amd.elf_loader, Device["AMD"]

    def moved(lib: bytes) -> Any:
        image, sections, *others = load(lib)
        for section in sections:
            if section.name == ".rodata":
                section.header.sh_addr = descriptor
        return image, sections, *others

    ops_amd.elf_loader = moved
    signature = tuple((None, at, kind, ()) for at, kind in enumerate(kinds))
    found = device.runtime(TinyELF(elf, kernel, Target("AMD", arch=device.arch), signature))
    ops_amd.elf_loader = load
    return found


def main(folder: Path) -> None:
    """Launch what the plan says, one kernel behind the other."""
    plan = json.loads((folder / "plan.json").read_text())
    elf, device = (folder / "kernels.elf").read_bytes(), Device["AMD"]
    stored = dict(np.load(folder / "arrays.npz"))
    arrays = {a["name"]: stored[a["name"]] for a in plan["arrays"]}
    bytes_of = {name: array.nbytes for name, array in arrays.items()}
    bytes_of |= {buffer["name"]: buffer["bytes"] for buffer in plan["buffers"]}
    memory = {name: device.allocator.alloc(max(size, 16)) for name, size in bytes_of.items()}
    for name, array in arrays.items():
        device.allocator._copyin(memory[name], memoryview(bytearray(array.tobytes())))
    symbols, programs = symbols_of(elf), dict[str, Any]()
    for launch, counters in launches_of(plan["launches"], {}):
        name, kinds, given = launch["kernel"], list[Any](), list[Any]()
        for a in launch["arguments"]:
            kinds.append(dtypes.uint32 if "scalar" in a else dtypes.uint64)
            if "array" in a:
                given.append(memory[a["array"]].va_addr)
            elif "scalar" in a:
                (bits,) = struct.unpack("<I", struct.pack("<f", float(stored[a["scalar"]])))
                given.append(bits)  # tinygrad passes integers alone
            else:
                given.append(a["number"] if "number" in a else counters[a["counter"]])
        if name not in programs:
            programs[name] = program_of(elf, name, symbols[f"{name}.kd"], kinds)
        size = {"global_size": (launch["blocks"], 1, 1), "local_size": (launch["lanes"], 1, 1)}
        programs[name](vals=tuple(given), wait=True, **size)
    results = dict[str, Any]()
    for array in plan["arrays"]:
        if array["role"] != "in":
            name = array["name"]
            out = bytearray(bytes_of[name])
            device.allocator._copyout(memoryview(out), memory[name])
            results[name] = np.frombuffer(out, arrays[name].dtype).reshape(arrays[name].shape)
    np.savez(folder / "results.npz", **results)


if __name__ == "__main__":
    for folder in sys.argv[1:]:
        main(Path(folder))
