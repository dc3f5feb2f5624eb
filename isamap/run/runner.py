"""Run compiled programs in a child process with limits.

`run_program(compiled, {"A": a, "B": b, "C": c}).arrays["C"]` is the result. With `guard` every tensor lies
right before, and in a second run right behind, memory that must not be touched.

Packing before a run: the programs that pack, compiled, and the arrays that a program then takes.

{"A": a, "B": b, "C": c}  ->  {"A": a, "B_packed": the bytes of B in their layout, "C": c}
"""

from __future__ import annotations

import mmap
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isamap.emit.c import EmittedC
from isamap.emit.c_interface import STATUSES, Interface
from isamap.ir.domains import check_domain
from isamap.lower.program import PackedHeader, Tensor
from isamap.machine import Machine
from isamap.machine.timings import LINE_BYTES
from isamap.run.arguments import POISON, CallArguments, PassedTensor, make_call
from isamap.run.child import ChildLimits, ChildProgram, Emulator, RunProblem, run_child, shared_file
from isamap.run.fills import zeros_at_line
from isamap.run.in_process import InProcess
from isamap.run.toolchain import Compiled, compile_library, compile_together
from isamap.source import UsageProblem, dataclass

# The worker is a script that nothing of this package can be imported into: what both need stands there.

__all__ = ["ChildLimits", "RunProblem", "RunResult", "run_program"]

# Addresses that a thread takes: its stack, and an arena of the C library.
_THREAD_BYTES = 160 << 20


@dataclass(frozen=True, slots=True)
class RunResult:
    """The outputs by name, the seconds of each timed repetition, and the status of the call.

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
    limits: ChildLimits | None = None,
    threads: int = 1,
    emulator: Emulator | None = None,
    processor_time: bool = False,
) -> RunResult:
    """Run a program on arrays, which are not changed, and time `repeat` more calls.

    Times are of the wall clock, or with `processor_time` of the calling thread's processor. `threads` perform
    the parts of a parallel program. An `emulator` runs it instead of this processor.

    Raises: RunProblem if it crashes or exceeds a limit; UsageProblem if arrays do not fit.
    """
    call = make_call(compiled.interface, arrays, sizes or {}, scalars or {})
    offsets, total = _place(call.tensors)
    with shared_file(total) as file, mmap.mmap(file.fileno(), max(total, 1)) as shared:
        for tensor, offset in zip(call.tensors, offsets, strict=True):
            if tensor.has_gaps:
                np.frombuffer(shared, np.uint8, tensor.span_bytes, offset)[...] = POISON
            tensor.view(shared, offset)[...] = tensor.array
        job = _job(compiled, call, offsets, total, file.fileno(), guard, repeat, limits or ChildLimits())
        job |= _on_threads(compiled, threads, job)
        job["processor_time"] = processor_time
        answer = run_child(job, limits or ChildLimits(), ChildProgram.of(compiled), emulator)
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


# --- the child --------------------------------------------------------------------------------------------


def _place(tensors: tuple[PassedTensor, ...]) -> tuple[list[int], int]:
    """Return the offset of each tensor in the shared file, and the file's size."""
    offsets: list[int] = []
    total = 0
    for tensor in tensors:
        offsets.append(total)
        total += -(-tensor.span_bytes // LINE_BYTES) * LINE_BYTES
    return offsets, total


def _on_threads(compiled: Compiled, threads: int, job: dict[str, Any]) -> dict[str, Any]:
    """Return the entries that a job needs in addition to run on several threads."""
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
    call: CallArguments,
    offsets: list[int],
    total: int,
    file: int,
    guard: bool,
    repeat: int,
    limits: ChildLimits,
) -> dict[str, Any]:
    return {
        "library": str(compiled.library),
        "function": compiled.interface.name,
        "fields": call.fields,
        "regions": [(o, t.span_bytes, t.array.itemsize) for o, t in zip(offsets, call.tensors, strict=True)],
        "file": file,
        "size": total,
        "guard": guard,
        "repeat": repeat,
        "permissions": compiled.permissions,
        "environment": dict(compiled.environment),
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
        """Return the run-time sizes that are its arguments."""
        return {name: sizes[name] for name, _, _ in self.compiled.interface.symbols}


def compile_packers(
    emitted: EmittedC, machine: Machine, model: bool = False, target: tuple[str, ...] | None = None
) -> tuple[Packer, ...]:
    """Return the programs that pack a program's inputs. Raises: as `compile_library`."""
    return tuple(_packer(compile_library(pack, machine, model, target=target)) for pack in emitted.packs)


def compile_packers_together(
    programs: Mapping[str, EmittedC], machine: Machine, model: bool = False
) -> dict[str, tuple[Packer, ...]]:
    """Return the packing functions of several programs, by name, from one library. Raises: as `compile_library`."""
    packs = [pack for emitted in programs.values() for pack in emitted.packs]
    made = iter(compile_together(packs, machine, model) if packs else ())
    return {name: tuple(_packer(next(made)) for _ in emitted.packs) for name, emitted in programs.items()}


def _packer(compiled: Compiled) -> Packer:
    packed = next(t for t in compiled.interface.tensors if t.header is not None)
    source = packed.header.source if isinstance(packed.header, PackedHeader) else packed.name
    return Packer(source, packed, compiled)


def packed_arrays(
    packers: tuple[Packer, ...],
    arrays: Mapping[str, Array],
    sizes: Mapping[str, int],
    *,
    guard: bool = False,
    threads: int = 1,
    limits: ChildLimits | None = None,
    emulator: Emulator | None = None,
) -> dict[str, Array]:
    """Return the arrays with some inputs packed in a child process.

    Raises: as `run_program`, and if it writes between rows; UsageProblem if it refuses its arguments.
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
            raise RunProblem.of("result-wrong", said)
        found[packer.target.name] = done.arrays[packer.target.name]
    return found


def pack_in_process(packer: Packer, array: Array, sizes: Mapping[str, int], threads: int = 1) -> Array:
    """Return an input packed in this process, for a machine with a trusted description.

    The result starts at a cache line. Raises: UsageProblem if the array does not fit.
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


def refuse_call(
    interface: Interface, status: int, arrays: Mapping[str, Array], sizes: Mapping[str, int]
) -> None:
    """Raise UsageProblem, with the wrong index, unless the status of a call is success."""
    if status != 0:
        known = {**dict(interface.sizes), **sizes}
        for t in interface.tensors:
            if t.domain is not None and t.name in arrays:
                check_domain(t.name, t.domain, np.asarray(arrays[t.name]).astype(np.int64), known)
        refuse_status(interface.name, status)


def refuse_status(name: str, status: int) -> None:
    """Raise the error for a status other than success. Raises: UsageProblem."""
    if status != 0:
        meaning = STATUSES[status][1] if 0 < status < len(STATUSES) else f"status {status}"
        raise UsageProblem.of("program-refused", f"`{name}` refused its arguments: {meaning}")
