"""Start and limit the child process that runs emitted code, and report how it ended.

The child answers on a separate pipe, with a word from its job. So output that emitted code prints, or writes
to any open file descriptor, is not mistaken for an answer.

An emulator of another processor may run the child process:

`Emulator.read("qemu-x86_64 -cpu max")` runs `qemu-x86_64 -cpu max python worker.py` instead of `python
worker.py`. An emulator is any command that runs the words after its own, and passes on its input and open
files. If it has a `target`, the words after it are a static program for that target (`emulated.py`), and no
Python.
"""

from __future__ import annotations

import json
import os
import secrets
import selectors
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from isamap.machine import Machine, at_one_length
from isamap.machine.allowed import emulators
from isamap.run.emulated import keep_results, request_of
from isamap.run.toolchain import Compiled
from isamap.source import IsamapError, MissingTool, UsageProblem, dataclass, hard_limit, replace
from isamap.source.process import Process, end_process, has_ended, start_process

SLOWER = 100
"""The slowdown of an emulator compared with a processor above which it counts as hung."""
_SHELLS_ADD = 128
_MOST_SIGNALS = 64


@dataclass(frozen=True, slots=True)
class Emulator:
    """The words of a command that runs another command on an emulated processor.

    `target` is the compiler's option for the other architecture, `before` are words before its program's
    name.
    """

    words: tuple[str, ...]
    target: tuple[str, ...] | None = None
    before: tuple[str, ...] = ()

    @staticmethod
    def read(text: str) -> Emulator:
        """Return the emulator that a text names, quoted as for a shell. No shell reads it.

        Raises: UsageProblem for a text without words or with a quote left open; MissingTool where there is no
        such program.
        """
        try:
            words = shlex.split(text)
        except ValueError as error:
            said = f"`{text}` is not a command: {str(error).lower()}"
            raise UsageProblem.of("usage", said, help="quote it as for a shell") from None
        if not words:
            said, help_ = "an emulator needs a command", "such as `qemu-x86_64 -cpu max`"
            raise UsageProblem.of("usage", said, help=help_)
        if shutil.which(words[0]) is None:
            help_ = "give its path, or put its folder on PATH"
            raise MissingTool.of("no-emulator", f"there is no program `{words[0]}` here", help=help_)
        return Emulator(tuple(words))

    def __str__(self) -> str:
        return shlex.join(self.words)


def emulator_for(machine: Machine, named: Emulator | None = None) -> Emulator | None:
    """Return the emulator for a machine's programs: the named one, the description's, or None.

    With a named emulator, a machine of any architecture is compiled for the emulator's architecture.

    Raises: MissingTool if the description's own is not installed and no other is named.
    """
    name = machine.target.emulator
    if named is not None:
        runs = emulators().get(name or Path(named.words[0]).name)
        return named if runs is None else replace(named, target=runs.target, before=runs.before)
    if name is None:
        return None
    runs = emulators()[name]
    if shutil.which(name) is None:
        said = f"`{machine.name}` runs under `{name}`, which is not here"
        help_ = f"install it (Debian: apt install {runs.package}), or run plain-C models with --model"
        raise MissingTool.of("no-emulator", said, help=help_)
    cpu = at_one_length(machine).target.cpu
    return Emulator((name, *(("-cpu", cpu) if cpu else ())), runs.target, runs.before)


def ended_by(code: int) -> int:
    """Return the exit code of a process, given that of its emulator. A signal is a negative number.

    Emulators that start their program as a child return 128 plus the number, as shells do.
    """
    return _SHELLS_ADD - code if _SHELLS_ADD < code <= _SHELLS_ADD + _MOST_SIGNALS else code


_WORKER = str(Path(__file__).with_name("worker.py"))
_KEPT_VARIABLES = ("PATH", "LD_LIBRARY_PATH", "LC_ALL")
# What is read of a child. Timings of thousands of functions are some megabytes.
_MOST_ANSWER_BYTES, _MOST_ERROR_BYTES = 64 << 20, 64 << 10
_LOOK_SECONDS = 0.2


class RunProblem(IsamapError):
    """An error: emitted code crashed, did not end, or exceeded its limits."""

    exit_code = 1


class NotSetUp(RunProblem):
    """An error: the child could not be prepared. The emitted code is not to blame."""


@dataclass(frozen=True, slots=True)
class ChildLimits:
    """The resource limits of a child process. `memory_bytes` is in addition to the arrays of the call."""

    seconds: float = 120
    memory_bytes: int = 4 << 30


@dataclass(frozen=True, slots=True)
class ChildProgram:
    """The running program, as messages name it."""

    name: str
    library: Path
    compiler: str

    @staticmethod
    def of(compiled: Compiled) -> ChildProgram:
        """Return a compiled program."""
        name = f"the emitted `{compiled.interface.name}`"
        return ChildProgram(name, compiled.library, compiled.compiler.version)


@contextmanager
def shared_file(size: int) -> Generator[IO[bytes]]:
    """Open an unnamed file that a child can map and cannot truncate."""
    import fcntl  # here, for reports and tests read this module where no code runs

    with os.fdopen(os.memfd_create("isamap", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING), "w+b") as file:
        os.ftruncate(file.fileno(), size)
        fcntl.fcntl(file, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW)
        yield file


def run_child(
    job: dict[str, Any], limits: ChildLimits, subject: ChildProgram, emulator: Emulator | None = None
) -> dict[str, Any]:
    """Return the answer of the child, which an emulator may run.

    It gets the time and the memory that the job names, within the limits of this process. Raises: RunProblem
    with the outcome; MissingTool if the limits of this process are too low.
    """
    if emulator is None or emulator.target is None:
        return _run_worker(job, limits, subject, emulator)
    with _open_unnamed(request_of(job)) as request, _open_unnamed(b"") as output:
        streams = {"input": request.fileno(), "output": output.fileno()}
        words = [*emulator.words, *emulator.before, job["library"]]
        plain = {name: job[name] for name in ("file", "cpu_seconds", "memory_bytes")}
        started = {**plain, **streams, "words": words, "permissions": [], "guard": job.get("guard", True)}
        try:
            _run_worker(started, limits, subject, emulator)
        finally:
            output.seek(0)
            answer = keep_results(job, output.read())
    return _judge(answer or None, {}, subject)


def _run_worker(
    job: dict[str, Any], limits: ChildLimits, subject: ChildProgram, emulator: Emulator | None
) -> dict[str, Any]:
    """Return the answer of the worker."""
    seconds = limits.seconds
    if emulator is not None:
        # It takes longer, and an unknown amount of memory of its own.
        seconds = SLOWER * limits.seconds
        job = {**job, "cpu_seconds": SLOWER * job["cpu_seconds"], "memory_bytes": None}
    # The limits of a job that this process cannot fully grant, with the amounts that it can.
    inherited: dict[str, int] = {}
    cpu_seconds, memory_bytes = hard_limit("RLIMIT_CPU"), hard_limit("RLIMIT_AS")
    # One second less: the child gets a signal that tells what it was, and a second later one that does not.
    if cpu_seconds is not None and max(1, cpu_seconds - 1) < job["cpu_seconds"]:
        inherited["cpu_seconds"] = max(1, cpu_seconds - 1)
    if memory_bytes is not None and (job["memory_bytes"] is None or memory_bytes < job["memory_bytes"]):
        inherited["memory_bytes"] = memory_bytes
    ended = _perform({**job, **inherited}, seconds, emulator)
    if ended is None:
        raise _problem("program-timeout", f"was stopped after {seconds:g} s", subject)
    code = ended.code if emulator is None else ended_by(ended.code)
    if code != 0:
        raise _explain_end(code, ended.errors, job, subject, emulator, inherited)
    return _judge(ended.answer, inherited, subject)


def _judge(answer: dict[str, Any] | None, inherited: dict[str, int], subject: ChildProgram) -> dict[str, Any]:
    """Return an answer that reports success. Raises: RunProblem, MissingTool for others."""
    if answer is None:
        raise _problem("program-unanswered", "ended its process before its work was done", subject)
    match answer.get("error"):
        case None:
            return answer
        case "permission":
            raise report_permission()
        case "memory" if "memory_bytes" in inherited:
            raise _limit_too_low("memory_bytes", inherited["memory_bytes"], subject)
        case "memory":
            raise _problem("program-out-of-memory", "needs more memory than it may use", subject)
        case "unstable":
            raise _problem("program-unstable", "gives other results at other addresses", subject)
        case _:
            raise _not_run(str(answer.get("message")), subject)


@dataclass(frozen=True, slots=True)
class _Ended:
    """How a child ended: its exit code, its answer, if any, and the start of its standard error."""

    code: int
    answer: dict[str, Any] | None
    errors: str


def _perform(job: dict[str, Any], seconds: float, emulator: Emulator | None) -> _Ended | None:
    """Return how the child ended, or None if it exceeded its time. No process of it remains."""
    nonce = secrets.token_hex(16)
    emulated = emulator.words if emulator and "words" not in job else ()
    words = (*emulated, sys.executable, "-I", "-S", _WORKER) if emulated else ("-", _WORKER)
    answers, to = os.pipe()
    with os.fdopen(answers, "rb", buffering=0) as source:
        with os.fdopen(to, "wb") as answer, _open_unnamed(_as_json(job, to, nonce)) as request:
            child = start_process(
                words,
                stdin=request,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                pass_fds=(answer.fileno(), *(job[n] for n in ("file", "input", "output") if n in job)),
                env={name: os.environ[name] for name in _KEPT_VARIABLES if name in os.environ},
            )
        assert child.stderr is not None
        with child.stderr as errors:
            try:
                most = {source: _MOST_ANSWER_BYTES, errors: _MOST_ERROR_BYTES}
                read = _read_output(child, most, time.monotonic() + seconds)
            finally:
                end_process(child)
    if read is None:
        return None
    return _Ended(child.returncode, _answer_in(read[0], nonce), read[1].decode(errors="replace"))


def _as_json(job: dict[str, Any], answer: int, nonce: str) -> bytes:
    return json.dumps({**job, "answer": answer, "nonce": nonce}).encode()


@contextmanager
def _open_unnamed(content: bytes) -> Generator[IO[bytes]]:
    """Open an unnamed file with a job. Unlike a pipe, it needs no concurrent writer."""
    with os.fdopen(os.memfd_create("isamap-job"), "w+b") as file:
        file.write(content)
        file.seek(0)
        yield file


def _read_output(
    child: Process[bytes], most: dict[IO[bytes], int], deadline: float
) -> tuple[bytes, ...] | None:
    """Return the output of a child on each pipe, up to a limit, or None if it did not end.

    `deadline` is on the monotonic clock. Output beyond the limit is read, too, because a full pipe blocks the
    writer.
    """
    found = {source: bytearray() for source in most}
    with selectors.DefaultSelector() as selector:
        for source in most:
            selector.register(source, selectors.EVENT_READ, source)
        while selector.get_map():
            left = deadline - time.monotonic()
            if left <= 0:
                return None
            ready = selector.select(min(left, _LOOK_SECONDS))
            if not ready and has_ended(child):
                break  # the supervisor was killed, and another process holds the pipes
            for key, _ in ready:
                data = os.read(key.fd, 1 << 16)
                if not data:
                    selector.unregister(key.fd)
                found[key.data] += data[: most[key.data] - len(found[key.data])]
    return tuple(bytes(part) for part in found.values())


def _answer_in(data: bytes, nonce: str) -> dict[str, Any] | None:
    """Return the worker's answer, or None if its pipe contains anything else."""
    try:
        answer: Any = json.loads(data)
        return answer if answer["nonce"] == nonce else None
    except (ValueError, RecursionError, TypeError, LookupError):
        return None


def _explain_end(
    code: int,
    errors: str,
    job: dict[str, Any],
    subject: ChildProgram,
    emulator: Emulator | None,
    inherited: dict[str, int],
) -> IsamapError:
    """Return the error that explains an abnormal end."""
    if code > 0:
        last = errors.strip().splitlines()[-1:] or [f"it ended with exit code {code}"]
        return _problem("program-failed", f"could not be run: {last[0][:300]}", subject)
    name = signal.Signals(-code).name if -code in list(signal.Signals) else f"signal {-code}"
    match name:
        case "SIGILL":
            whose = "this" if emulator is None else "the emulated"
            said = f"has an instruction that {whose} processor lacks (SIGILL)"
        case "SIGSEGV" | "SIGBUS":
            where = "directly next to its tensors" if job.get("guard", True) else "that it was not given"
            said = f"accessed memory {where} ({name})"
        case "SIGXCPU" if "cpu_seconds" in inherited:
            return _limit_too_low("cpu_seconds", inherited["cpu_seconds"], subject)
        case "SIGXCPU":
            return _problem("program-timeout", "used up its processor time (SIGXCPU)", subject)
        case "SIGKILL":
            return _problem("program-out-of-memory", "was killed by the system (SIGKILL)", subject)
        case _:
            said = f"ended by {name}"
    return _problem("program-crashed", said, subject)


def _problem(code: str, said: str, subject: ChildProgram) -> RunProblem:
    notes = (f"library: {subject.library}", f"compiler: {subject.compiler}")
    return RunProblem.of(code, f"{subject.name} {said}", notes=notes)


def _not_run(said: str, subject: ChildProgram) -> IsamapError:
    """Return the error that code could not be run, or that its file system forbids execution."""
    problem = NotSetUp(*_problem("program-failed", f"could not be run: {said}", subject).diagnostics)
    try:
        barred = bool(os.statvfs(subject.library).f_flag & os.ST_NOEXEC)
    except OSError:
        return problem
    if not barred:
        return problem
    return MissingTool.of(
        "system-refused",
        f"the file system of {subject.library.parent} lets no code run (noexec)",
        notes=(said[:300],),
        help="name a folder of another file system with ISAMAP_CACHE_DIR or XDG_CACHE_HOME",
    )


def _limit_too_low(what: str, most: int, subject: ChildProgram) -> MissingTool:
    """Return the error that this process, and so the child, has a lower limit than the code needs."""
    allowed, option = {
        "cpu_seconds": (f"{most} s of processor time", "-t"),
        "memory_bytes": (f"{most / 2**30:.2f} GiB of memory", "-v"),
    }[what]
    return MissingTool.of(
        "limit-too-low",
        f"{subject.name} needs more than the {allowed} that this process may use",
        notes=("the limit was set before isamap was started, and isamap cannot raise it",),
        help=f"start it where `ulimit {option}` shows more",
    )


def report_permission() -> MissingTool:
    """Return the error that the operating system refuses a part of the processor's state."""
    return MissingTool.of(
        "permission-refused",
        "the operating system does not let this process use the processor's tiles",
        help="use a newer Linux kernel, or a machine without tiles",
    )
