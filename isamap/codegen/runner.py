"""Runs compiled programs: in a child process with limits, or in this one when its author is trusted.

`run_program(compiled, {"A": a, "B": b, "C": c}).arrays["C"]` is the result. With `guard` every tensor lies
right before, and in a second run right behind, memory that must not be touched.
"""

from __future__ import annotations

import json
import mmap
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isamap.codegen.arguments import Call, Passed, make_call
from isamap.codegen.c_interface import STATUSES
from isamap.codegen.toolchain import Compiled
from isamap.source import Diagnostic, IsamapError, MissingTool

_WORKER = Path(__file__).with_name("worker.py")
_ALIGNMENT = 64


class RunProblem(IsamapError):
    """Emitted code crashed, hung, or ran out of what it was given."""

    exit_code = 1


@dataclass(frozen=True, slots=True)
class Limits:
    """What a child process may use. Units: `memory_bytes` on top of the data."""

    seconds: float = 120
    memory_bytes: int = 4 << 30


@dataclass(frozen=True, slots=True)
class RunResult:
    """Outputs by name, the seconds of each timed repetition, and the status that the function returned."""

    arrays: Mapping[str, NDArray[Any]]
    seconds: tuple[float, ...]
    status: int
    workspace_bytes: int = 0

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
) -> RunResult:
    """What the program does with arrays, which stay as they are; `repeat` more calls are timed.

    Raises: RunProblem when it crashes or exceeds a limit; UsageProblem when arrays do not fit.
    """
    call = make_call(compiled.interface, arrays, sizes or {}, scalars or {})
    with _shared_file() as file:
        offsets, total = _place(call.tensors)
        os.ftruncate(file.fileno(), total)
        with mmap.mmap(file.fileno(), max(total, 1)) as shared:
            for tensor, offset in zip(call.tensors, offsets, strict=True):
                tensor.view(shared, offset)[...] = tensor.array
            job = _job(compiled, call, offsets, total, file.fileno(), guard, repeat, limits or Limits())
            answer = _run_child(job, file.fileno(), limits or Limits(), compiled)
            results = {
                t.name: t.view(shared, offset).copy()
                for t, offset in zip(call.tensors, offsets, strict=True)
                if t.written
            }
    seconds = tuple(ns * 1e-9 for ns in answer["times"])
    return RunResult(results, seconds, answer["status"], answer["workspace_bytes"])


@dataclass(slots=True)
class InProcess:
    """A program loaded into this process: called on arrays where they lie, nothing is copied.

    Its author is trusted: an error in it may end the process.
    """

    compiled: Compiled
    _functions: tuple[Any, Any] | None = field(default=None, repr=False)
    _workspace: NDArray[np.uint8] = field(default_factory=lambda: np.empty(0, np.uint8), repr=False)

    def __call__(
        self,
        arrays: Mapping[str, NDArray[Any]],
        sizes: Mapping[str, int] | None = None,
        scalars: Mapping[str, float] | None = None,
    ) -> int:
        """The status; outputs are written in place. Raises: UsageProblem when arrays do not fit."""
        import ctypes

        from isamap.codegen.worker import ask_permission, load_function, make_arguments

        if self._functions is None:
            for component in self.compiled.permissions:
                if not ask_permission(component):
                    raise _permission_refused()
            self._functions = load_function(str(self.compiled.library), self.compiled.interface.name)
        function, workspace_bytes = self._functions
        call = make_call(self.compiled.interface, arrays, sizes or {}, scalars or {}, in_place=True)
        arguments = make_arguments(call.fields, [t.array.ctypes.data for t in call.tensors])
        pointer = ctypes.addressof(arguments)
        needed = workspace_bytes(pointer)
        if needed > self._workspace.size:
            self._workspace = np.empty(needed, np.uint8)
        return int(function(pointer, self._workspace.ctypes.data if needed else None, None))


# --- the child --------------------------------------------------------------------------------------------


def _shared_file() -> Any:
    """A file without a name that a child can map."""
    if hasattr(os, "memfd_create"):
        return os.fdopen(os.memfd_create("isamap"), "w+b")
    return tempfile.TemporaryFile()


def _place(tensors: tuple[Passed, ...]) -> tuple[list[int], int]:
    """Where each tensor starts in the shared file, and the file's size."""
    offsets: list[int] = []
    total = 0
    for tensor in tensors:
        offsets.append(total)
        total += -(-tensor.span_bytes // _ALIGNMENT) * _ALIGNMENT
    return offsets, total


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


def _run_child(job: dict[str, Any], file: int, limits: Limits, compiled: Compiled) -> dict[str, Any]:
    """The child's answer. Raises: RunProblem with what became of it."""
    kept = ("PATH", "LD_LIBRARY_PATH", "LC_ALL")
    child = subprocess.Popen(
        [sys.executable, "-I", "-S", str(_WORKER)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        pass_fds=(file,),
        env={name: os.environ[name] for name in kept if name in os.environ},
    )
    try:
        output, errors = child.communicate(json.dumps(job).encode(), limits.seconds)
    except subprocess.TimeoutExpired:
        raise _problem("program-timeout", f"was stopped after {limits.seconds:g} s", compiled) from None
    finally:
        child.kill()
        child.wait()
    if child.returncode != 0:
        raise _ended(child.returncode, errors.decode(errors="replace"), job, compiled)
    answer: dict[str, Any] = json.loads(output)
    match answer.get("error"):
        case None:
            return answer
        case "permission":
            raise _permission_refused()
        case "memory":
            raise _problem("program-out-of-memory", "needs more memory than it may use", compiled)
        case "unstable":
            raise _problem("program-unstable", "gives other results when its data lies elsewhere", compiled)
        case _:
            raise _problem("program-failed", f"could not be run: {answer.get('message')}", compiled)


def _ended(code: int, errors: str, job: dict[str, Any], compiled: Compiled) -> RunProblem:
    """What an abnormal end means."""
    if code > 0:
        last = errors.strip().splitlines()[-1:] or ["no message"]
        return _problem("program-failed", f"could not be run: {last[0][:300]}", compiled)
    name = signal.Signals(-code).name if -code in list(signal.Signals) else f"signal {-code}"
    match name:
        case "SIGILL":
            said = "has an instruction that this processor lacks (SIGILL)"
        case "SIGSEGV" | "SIGBUS":
            where = "right beside its tensors" if job["guard"] else "that it was not given"
            said = f"touched memory {where} ({name})"
        case "SIGXCPU":
            return _problem("program-timeout", "used up its processor time (SIGXCPU)", compiled)
        case "SIGKILL":
            return _problem("program-out-of-memory", "was killed by the system (SIGKILL)", compiled)
        case _:
            said = f"ended by {name}"
    return _problem("program-crashed", said, compiled)


def _problem(code: str, said: str, compiled: Compiled) -> RunProblem:
    notes = (f"library: {compiled.library}", f"compiler: {compiled.compiler.version}")
    return RunProblem(Diagnostic(code, f"the emitted `{compiled.interface.name}` {said}", notes=notes))


def _permission_refused() -> MissingTool:
    return MissingTool(
        Diagnostic(
            "permission-refused",
            "the operating system does not let this process use the processor's tiles",
            help="a newer Linux kernel may; a machine without them works here too",
        )
    )
