"""Many emitted programs as one C file, compiled at once: what a header costs is paid once for hundreds."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isamap.emit.c import EmittedC
from isamap.machine import Machine
from isamap.run.arguments import make_call
from isamap.run.toolchain import COMPILERS, build, find_compiler
from isamap.run.worker import load_function, make_arguments

Array = NDArray[Any]

DEFINED = re.compile(r"^static (?:__attribute__\(\(\w+\)\) )?[^;={(]*?(\w+)\s*[({\[=]", re.MULTILINE)
MODEL_FLAGS = ("-O1", "-std=c11")
MARGIN = 256
POISON = 0xA5


def compile_batch(programs: Iterable[EmittedC], machine: Machine) -> Path:
    """Return a library with all programs, which are all for the machine's processor, or all plain-C models."""
    listed = tuple(programs)
    flags, toolchains = flags_of(listed, machine)
    return build(find_compiler(flags, toolchains), flags, sources(listed), "batch.c")


def flags_of(programs: Sequence[EmittedC], machine: Machine) -> tuple[tuple[str, ...], Sequence[str]]:
    """Return what such programs are compiled with, and by which compilers."""
    if programs and programs[-1].model:
        return MODEL_FLAGS, COMPILERS
    return tuple("-O1" if f == "-O3" else f for f in machine.target.flags), machine.target.toolchains


def sources(programs: Iterable[EmittedC]) -> dict[str, str]:
    """Return the files of `batch.c`: what programs define for themselves gets the program's name behind its own."""
    files: dict[str, str] = {}
    for program in programs:
        own = set(DEFINED.findall(program.source)) - {f"{program.name}_body"}
        pattern = re.compile(rf"\b({'|'.join(sorted(own))})\b") if own else None
        source = pattern.sub(rf"\1_of_{program.name}", program.source) if pattern else program.source
        files[f"{program.name}.h"] = program.header
        files[f"{program.name}.inc"] = source
    files["batch.c"] = "".join(f'#include "{n}"\n' for n in files if n.endswith(".inc"))
    return files


def call(
    library: Path, program: EmittedC, arrays: Mapping[str, Array], sizes: Mapping[str, int]
) -> dict[str, Array]:
    """Return what a program makes of copies of arrays. Raises: AssertionError when it writes beside them."""
    function, workspace_bytes = load_function(str(library), program.interface.name)
    held = {name: _surrounded(array) for name, array in arrays.items()}
    lying = {n: inner for n, (_, inner) in held.items()}
    passed = make_call(program.interface, lying, sizes, {}, in_place=True)
    arguments = make_arguments(passed.fields, [t.array.ctypes.data for t in passed.tensors])
    size = int(workspace_bytes(ctypes.addressof(arguments)))
    blank: Array = np.full(size, POISON, np.uint8)
    outer, space = _surrounded(blank)
    status = function(ctypes.addressof(arguments), space.ctypes.data if size else None, None)
    assert status == 0, f"status {status}"
    for name, (around, inner) in {**held, "workspace": (outer, space)}.items():
        edges = np.concatenate([around[:MARGIN], around[MARGIN + inner.nbytes :]])
        assert (edges == POISON).all(), f"wrote beside {name}"
    return {t.name: held[t.name][1] for t in passed.tensors if t.written}


def _surrounded(array: Array) -> tuple[Array, Array]:
    """Bytes with a copy of an array in the middle, and the copy."""
    around = np.full(array.nbytes + 2 * MARGIN, POISON, np.uint8)
    inner = np.ndarray(array.shape, array.dtype, around, MARGIN)
    inner[...] = array
    return around, inner
