"""Runs compiled programs: in a child process with limits, or in this one when its author is trusted.

`run_program(compiled, {"A": a, "B": b, "C": c}).arrays["C"]` is the result. With `guard` every tensor lies
right before, and in a second run right behind, memory that must not be touched.

Memory for workspaces: in large pages, where the system has them.

Packed panels are read again and again. In pages of 4 KiB they lie anywhere in a cache that is found by
physical addresses, so that parts of a panel which would fit evict each other, and there are more pages than
the first TLB holds: docs/decisions/0020-memory-model.md.

Packing before a run: the programs that pack, compiled, and the arrays that a program then takes.

{"A": a, "B": b, "C": c}  ->  {"A": a, "B_packed": the bytes of B in their layout, "C": c}
"""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Mapping
from dataclasses import dataclass
from threading import Lock
from typing import Any
from weakref import finalize

import numpy as np
from numpy.typing import NDArray

from isamap.codegen.arguments import POISON, Call, Passed, make_call
from isamap.codegen.c import EmittedC
from isamap.codegen.c_interface import STATUSES
from isamap.codegen.child import (
    Emulator,
    Limits,
    RunProblem,
    Subject,
    permission_refused,
    run_child,
    shared_file,
)
from isamap.codegen.fills import zeros_at_line
from isamap.codegen.toolchain import Compiled, compile_library
from isamap.codegen.worker import ask_for_large_pages
from isamap.lower.program import Header, Tensor
from isamap.machine import Machine
from isamap.source import Diagnostic, UsageProblem

# The worker is a script that nothing of this package can be imported into: what both need stands there.

PAGE_BYTES = 2 << 20  # of x86-64, and of Arm with pages of 4 KiB; others are asked for what they have
LEAST_BYTES = 128 << 10  # less lies in few small pages


def large_room(size_bytes: int) -> ctypes.Array[Any]:
    """Zeros that stay as long as the array does, in large pages where that pays and the system has them."""
    if size_bytes < LEAST_BYTES:
        return ctypes.create_string_buffer(max(size_bytes, 1))
    pages = -(-size_bytes // PAGE_BYTES)
    room = mmap.mmap(-1, (pages + 1) * PAGE_BYTES)
    ask_for_large_pages(room)
    start = ctypes.addressof(ctypes.c_char.from_buffer(room))
    return (ctypes.c_char * size_bytes).from_buffer(room, -start % PAGE_BYTES)


__all__ = ["InProcess", "Limits", "RunProblem", "RunResult", "run_program"]

_ALIGNMENT = 64
# Addresses that a thread takes: its stack, and an arena of the C library.
_THREAD_BYTES = 160 << 20


@dataclass(frozen=True, slots=True)
class RunResult:
    """Outputs by name, the seconds of each timed repetition, and the status that the function returned.

    `written_between` are the tensors whose rows lie apart, and that the program changed in between.
    """

    arrays: Mapping[str, NDArray[Any]]
    seconds: tuple[float, ...]
    status: int
    workspace_bytes: int = 0
    written_between: tuple[str, ...] = ()

    @property
    def meaning(self) -> str:
        return STATUSES[self.status][1] if 0 <= self.status < len(STATUSES) else "unknown"


def run_program(
    compiled: Compiled,
    arrays: Mapping[str, NDArray[Any]],
    sizes: Mapping[str, int] | None = None,
    *,
    scalars: Mapping[str, float] | None = None,
    guard: bool = False,
    repeat: int = 0,
    limits: Limits | None = None,
    threads: int = 1,
    emulator: Emulator | None = None,
) -> RunResult:
    """What the program does with arrays, which stay as they are; `repeat` more calls are timed.

    `threads` perform the parts of a program that has some. An `emulator` runs it in place of this processor.

    Raises: RunProblem when it crashes or exceeds a limit; UsageProblem when arrays do not fit.
    """
    call = make_call(compiled.interface, arrays, sizes or {}, scalars or {})
    offsets, total = _place(call.tensors)
    with shared_file(total) as file, mmap.mmap(file.fileno(), max(total, 1)) as shared:
        for tensor, offset in zip(call.tensors, offsets, strict=True):
            if tensor.has_gaps:
                np.frombuffer(shared, np.uint8, tensor.span_bytes, offset)[...] = POISON
            tensor.view(shared, offset)[...] = tensor.array
        job = _job(compiled, call, offsets, total, file.fileno(), guard, repeat, limits or Limits())
        job |= _on_threads(compiled, threads, job)
        answer = run_child(job, limits or Limits(), Subject.of(compiled), emulator)
        results = {
            t.name: t.view(shared, offset).copy()
            for t, offset in zip(call.tensors, offsets, strict=True)
            if t.written
        }
        between = tuple(
            t.name
            for t, offset in zip(call.tensors, offsets, strict=True)
            if t.has_gaps and (t.gaps(shared, offset) != POISON).any()
        )
    seconds = tuple(ns * 1e-9 for ns in answer["times"])
    return RunResult(results, seconds, answer["status"], answer["workspace_bytes"], between)


class InProcess:
    """A program loaded into this process: called on arrays where they lie, nothing is copied.

    Its author is trusted: an error in it may end the process. With several `threads` it has a pool of them,
    which lives as long as this object, as the library does. It may be called from several threads at once:
    each call has a workspace of its own.
    """

    def __init__(self, compiled: Compiled, threads: int = 1) -> None:
        self.compiled = compiled
        self._threads = threads
        self._pool: Any = None
        self._functions: tuple[Any, Any] | None = None
        self._loading = Lock()
        self._rooms: list[Any] = []  # workspaces that no call is using

    def __call__(
        self,
        arrays: Mapping[str, NDArray[Any]],
        sizes: Mapping[str, int] | None = None,
        scalars: Mapping[str, float] | None = None,
    ) -> int:
        """The status; outputs are written in place. Raises: UsageProblem when arrays do not fit."""
        import ctypes

        from isamap.codegen.worker import make_arguments

        function, workspace_bytes = self._load()
        call = make_call(self.compiled.interface, arrays, sizes or {}, scalars or {}, in_place=True)
        arguments = make_arguments(call.fields, [t.array.ctypes.data for t in call.tensors])
        pointer = ctypes.addressof(arguments)
        pool = self._pool.address if self._pool is not None else None
        needed = workspace_bytes(pointer)
        if not needed:
            return int(function(pointer, None, pool))
        room = self._take_room(needed)
        try:
            return int(function(pointer, room, pool))
        finally:
            self._rooms.append(room)

    def _load(self) -> tuple[Any, Any]:
        """The function and the one that tells its workspace, with the pool that calls use."""
        from isamap.codegen.worker import ThreadPool, ask_permission, functions_of, load_library, unload

        with self._loading:
            if self._functions is None:
                for component in self.compiled.permissions:
                    if not ask_permission(component):
                        raise permission_refused()
                if self.compiled.pool is not None and self._threads > 1:
                    self._pool = ThreadPool(str(self.compiled.pool), self._threads)
                library = load_library(str(self.compiled.library))
                self._functions = functions_of(library, self.compiled.interface.name)
                # Calls hold this object: none runs when it goes. At the process's end the system does it.
                finalize(self, unload, library).atexit = False
            return self._functions

    def _take_room(self, needed: int) -> Any:
        """A workspace that is large enough, and no other call's."""

        try:
            room = self._rooms.pop()
        except IndexError:
            return large_room(needed)
        return room if len(room) >= needed else large_room(needed)


# --- the child --------------------------------------------------------------------------------------------


def _place(tensors: tuple[Passed, ...]) -> tuple[list[int], int]:
    """Where each tensor starts in the shared file, and the file's size."""
    offsets: list[int] = []
    total = 0
    for tensor in tensors:
        offsets.append(total)
        total += -(-tensor.span_bytes // _ALIGNMENT) * _ALIGNMENT
    return offsets, total


def _on_threads(compiled: Compiled, threads: int, job: dict[str, Any]) -> dict[str, Any]:
    """What a job needs besides for running on several threads."""
    if threads == 1 or compiled.pool is None:
        return {"threads": 1}
    return {
        "threads": threads,
        "pool": str(compiled.pool),
        "cpu_seconds": job["cpu_seconds"] * threads,
        "memory_bytes": job["memory_bytes"] + threads * _THREAD_BYTES,
    }


def _job(
    compiled: Compiled,
    call: Call,
    offsets: list[int],
    total: int,
    file: int,
    guard: bool,
    repeat: int,
    limits: Limits,
) -> dict[str, Any]:
    return {
        "library": str(compiled.library),
        "function": compiled.interface.name,
        "fields": call.fields,
        "regions": [(o, t.span_bytes) for o, t in zip(offsets, call.tensors, strict=True)],
        "file": file,
        "size": total,
        "guard": guard,
        "repeat": repeat,
        "permissions": compiled.permissions,
        "cpu_seconds": int(limits.seconds) + 1,
        "memory_bytes": 6 * total + limits.memory_bytes,
    }


Array = NDArray[Any]


@dataclass(frozen=True, slots=True)
class Packer:
    """A program that packs one input: from the kernel's `source` to the program's argument `target`."""

    source: str
    target: Tensor
    compiled: Compiled

    def symbols(self, sizes: Mapping[str, int]) -> dict[str, int]:
        """Those of the run-time sizes that it is given."""
        return {name: sizes[name] for name, _, _ in self.compiled.interface.symbols}


def compile_packers(
    emitted: EmittedC, machine: Machine, model: bool = False, target: tuple[str, ...] | None = None
) -> tuple[Packer, ...]:
    """The programs that pack what a program takes packed. Raises: as `compile_library`."""
    found: list[Packer] = []
    for pack in emitted.packs:
        packed = next(t for t in pack.interface.tensors if t.header is not None)
        source = packed.header.source if isinstance(packed.header, Header) else packed.name
        found.append(Packer(source, packed, compile_library(pack, machine, model, target=target)))
    return tuple(found)


def packed_arrays(
    packers: tuple[Packer, ...],
    arrays: Mapping[str, Array],
    sizes: Mapping[str, int],
    *,
    guard: bool = False,
    threads: int = 1,
    limits: Limits | None = None,
    emulator: Emulator | None = None,
) -> dict[str, Array]:
    """The arrays with inputs replaced by what packs them, which runs in a child.

    Raises: as `run_program`, and where it writes between rows; UsageProblem when it refuses its arguments.
    """
    found = dict(arrays)
    for packer in packers:
        given = {packer.source: found.pop(packer.source)}
        symbols = packer.symbols(sizes)
        done = run_program(
            packer.compiled, given, symbols, guard=guard, threads=threads, limits=limits, emulator=emulator
        )
        refuse_status(packer.compiled.interface.name, done.status)
        if done.written_between:
            said = f"`{packer.compiled.interface.name}` writes between the rows of `{packer.source}`"
            raise RunProblem(Diagnostic("result-wrong", said))
        found[packer.target.name] = done.arrays[packer.target.name]
    return found


def pack_in_process(packer: Packer, array: Array, sizes: Mapping[str, int], threads: int = 1) -> Array:
    """An input packed in this process, where the machine's description is trusted.

    The result begins at a cache line. Raises: UsageProblem when the array does not fit.
    """
    symbols = packer.symbols(sizes)
    bound = {**dict(packer.compiled.interface.sizes), **symbols}
    count, dtype = int(packer.target.shape[0].evaluate(bound)), packer.target.dtype.numpy()
    packed = zeros_at_line(count, np.dtype(dtype))
    run = InProcess(packer.compiled, threads)
    refuse_status(
        packer.compiled.interface.name, run({packer.source: array, packer.target.name: packed}, symbols)
    )
    return packed


def refuse_status(name: str, status: int) -> None:
    """Nothing for a call that was done. Raises: UsageProblem for another."""
    if status != 0:
        meaning = STATUSES[status][1] if 0 < status < len(STATUSES) else f"status {status}"
        raise UsageProblem(Diagnostic("program-refused", f"`{name}` refused its arguments: {meaning}"))
