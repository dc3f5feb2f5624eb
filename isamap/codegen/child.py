"""The child process around emitted code, seen from outside: starting it, limiting it, how it ended."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from isamap.codegen.emulator import SLOWER, Emulator, ended_by
from isamap.codegen.toolchain import Compiled
from isamap.source import Diagnostic, IsamapError, MissingTool

_WORKER = Path(__file__).with_name("worker.py")


class RunProblem(IsamapError):
    """Emitted code crashed, hung, or ran out of what it was given."""

    exit_code = 1


@dataclass(frozen=True, slots=True)
class Limits:
    """What a child process may use. Units: `memory_bytes` on top of the data."""

    seconds: float = 120
    memory_bytes: int = 4 << 30


@dataclass(frozen=True, slots=True)
class Subject:
    """What runs, as messages name it."""

    name: str
    library: Path
    compiler: str

    @staticmethod
    def of(compiled: Compiled) -> Subject:
        """A compiled program."""
        name = f"the emitted `{compiled.interface.name}`"
        return Subject(name, compiled.library, compiled.compiler.version)


def shared_file() -> Any:
    """A file without a name that a child can map."""
    if hasattr(os, "memfd_create"):
        return os.fdopen(os.memfd_create("isamap"), "w+b")
    return tempfile.TemporaryFile()


def run_child(
    job: dict[str, Any], limits: Limits, subject: Subject, emulator: Emulator | None = None
) -> dict[str, Any]:
    """The answer of the child, which an emulator may run. Raises: RunProblem with what became of it."""
    kept = ("PATH", "LD_LIBRARY_PATH", "LC_ALL")
    seconds, words = limits.seconds, ()
    if emulator is not None:
        # It takes longer, and memory of its own that nobody knows.
        seconds, words = SLOWER * limits.seconds, emulator.words
        job = {**job, "cpu_seconds": SLOWER * job["cpu_seconds"], "memory_bytes": None}
    with subprocess.Popen(
        [*words, sys.executable, "-I", "-S", str(_WORKER)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        pass_fds=(job["file"],),
        env={name: os.environ[name] for name in kept if name in os.environ},
    ) as child:
        try:
            output, errors = child.communicate(json.dumps(job).encode(), seconds)
        except subprocess.TimeoutExpired:
            raise _problem("program-timeout", f"was stopped after {seconds:g} s", subject) from None
        finally:
            child.kill()
    code = child.returncode if emulator is None else ended_by(child.returncode)
    if code != 0:
        raise _ended(code, errors.decode(errors="replace"), job, subject, emulator)
    answer: dict[str, Any] = json.loads(output)
    match answer.get("error"):
        case None:
            return answer
        case "permission":
            raise permission_refused()
        case "memory":
            raise _problem("program-out-of-memory", "needs more memory than it may use", subject)
        case "unstable":
            raise _problem("program-unstable", "gives other results when its data lies elsewhere", subject)
        case _:
            raise _problem("program-failed", f"could not be run: {answer.get('message')}", subject)


def _ended(
    code: int, errors: str, job: dict[str, Any], subject: Subject, emulator: Emulator | None
) -> RunProblem:
    """What an abnormal end means."""
    if code > 0:
        last = errors.strip().splitlines()[-1:] or ["no message"]
        return _problem("program-failed", f"could not be run: {last[0][:300]}", subject)
    name = signal.Signals(-code).name if -code in list(signal.Signals) else f"signal {-code}"
    match name:
        case "SIGILL":
            whose = "this" if emulator is None else "the emulated"
            said = f"has an instruction that {whose} processor lacks (SIGILL)"
        case "SIGSEGV" | "SIGBUS":
            where = "right beside its tensors" if job.get("guard", True) else "that it was not given"
            said = f"touched memory {where} ({name})"
        case "SIGXCPU":
            return _problem("program-timeout", "used up its processor time (SIGXCPU)", subject)
        case "SIGKILL":
            return _problem("program-out-of-memory", "was killed by the system (SIGKILL)", subject)
        case _:
            said = f"ended by {name}"
    return _problem("program-crashed", said, subject)


def _problem(code: str, said: str, subject: Subject) -> RunProblem:
    notes = (f"library: {subject.library}", f"compiler: {subject.compiler}")
    return RunProblem(Diagnostic(code, f"{subject.name} {said}", notes=notes))


def permission_refused() -> MissingTool:
    """The finding that the kernel keeps a part of the processor's state to itself."""
    return MissingTool(
        Diagnostic(
            "permission-refused",
            "the operating system does not let this process use the processor's tiles",
            help="a newer Linux kernel may; a machine without them works here too",
        )
    )
