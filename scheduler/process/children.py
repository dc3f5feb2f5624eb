"""Solver processes: started early, reused, and ended when they fail or hang.

Importing OR-Tools takes most of a small solve's time, so that a child is started while the problem is still
being built, and answers one job after the other. It ends when this process does: its input closes then.
"""

from __future__ import annotations

import atexit
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Lock, Thread
from typing import IO

import isamap
from isamap.source.process import Process, end_process, start_process
from isamap.source.records import dataclass, field

# What a child may take of memory. Far above what any problem here needs; units: bytes.
MEMORY_BYTES = 4 << 30
COMMAND = (sys.executable, "-P", "-m", "isamap.scheduler.process.solve", str(MEMORY_BYTES))
READY = b"ready\n"

Command = tuple[str, ...]


class ChildLost(Exception):
    """An error: the solver process no longer answers. Its text has the reason."""


class ChildLate(Exception):
    """An error: the solver process missed the deadline. `was_asked` says whether it had a job."""

    def __init__(self, *, was_asked: bool) -> None:
        super().__init__("no answer in time")
        self.was_asked = was_asked


@dataclass(slots=True)
class Child:
    """A solver process. `lines` are its answers, with an empty line at its end. `said` is its error output.

    It is busy from the moment that it gets a job until the caller has read all of the answer.
    """

    command: Command
    process: Process[bytes]
    said: IO[bytes]
    lines: SimpleQueue[bytes]
    reader: Thread
    is_ready: bool = False
    is_busy: bool = False
    owner: int = field(default_factory=os.getpid)

    def send(self, job: str) -> None:
        """Send one line without waiting until it is read."""
        self.is_busy = True
        Thread(target=_write, args=(self.process, job.encode() + b"\n"), daemon=True).start()

    def wait(self, deadline: float) -> None:
        """Wait until the process can take a job. `deadline`: on the monotonic clock. Raises: ChildLate, ChildLost."""
        while not self.is_ready:
            self.is_ready = self.answer(deadline) == READY

    def answer(self, deadline: float) -> bytes:
        """Return the next line. `deadline` is on the monotonic clock. Raises: ChildLate, ChildLost."""
        try:
            line = self.lines.get(timeout=max(0.0, deadline - time.monotonic()))
        except Empty:
            raise ChildLate(was_asked=self.is_busy) from None
        if not line:
            # How a process ended, with the assertion that failed in it, or else its last line of output.
            code = self.process.wait()
            self.said.seek(0)
            said = self.said.read().decode(errors="replace").strip().splitlines()
            how = f"it ended with exit status {code}"
            if code < 0:
                how = f"it was ended by signal {signal.Signals(-code).name}"
            checks = [line for line in said if "Check failed" in line]
            raise ChildLost(f"{how}: {(checks or said[-1:])[0][:300]}" if said else how)
        return line

    def end(self) -> None:
        """End the process at once."""
        end_process(self.process)
        self.reader.join()
        assert self.process.stdin is not None
        with suppress(OSError, ValueError):
            self.process.stdin.close()
        self.said.close()


kept: list[Child] = []
"""Children that wait for a job."""
_lock = Lock()


def start_early(command: Command = COMMAND) -> None:
    """Start a solver process unless one is idle. A failure is reported when the process is needed."""
    with _lock:
        if any(child.command == command for child in idle()):
            return
    with suppress(ChildLost):
        _give_back(start(command))


@contextmanager
def borrow_child(command: Command = COMMAND) -> Generator[Child]:
    """Borrow a solver process exclusively, and keep it for reuse if it is sound. Raises: ChildLost."""
    child = _borrow(command)
    try:
        yield child
    finally:
        _give_back(child)


def _borrow(command: Command) -> Child:
    with _lock:
        for child in idle():
            if child.command == command:
                kept.remove(child)
                if child.process.poll() is None:
                    return child
                child.end()
    return start(command)


def _give_back(child: Child) -> None:
    if child.is_busy or child.process.poll() is not None:
        child.end()
        return
    with _lock:
        kept.append(child)


def idle(owner: int | None = None) -> list[Child]:
    """Return the solver processes that are idle. A forked process has none at first."""
    return [child for child in kept if child.owner == (owner or os.getpid())]


def start(command: Command) -> Child:
    """Return a new solver process. Raises: ChildLost if it cannot be started."""
    said = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the child
    root = str(Path(isamap.__file__).parents[1])
    paths = [root, *filter(None, [os.environ.get("PYTHONPATH")])]
    try:
        process = start_process(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=said,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        )
    except OSError as error:
        said.close()
        raise ChildLost(f"it cannot be started: {type(error).__name__}") from error
    lines: SimpleQueue[bytes] = SimpleQueue()
    reader = Thread(target=_read_lines, args=(process, lines), daemon=True)
    reader.start()
    return Child(command, process, said, lines, reader)


def _read_lines(process: Process[bytes], lines: SimpleQueue[bytes]) -> None:
    assert process.stdout is not None
    with suppress(OSError, ValueError), process.stdout:
        for line in process.stdout:
            lines.put(line)
    lines.put(b"")


def _write(process: Process[bytes], job: bytes) -> None:
    assert process.stdin is not None
    with suppress(OSError, ValueError):  # its end is seen by the reader
        process.stdin.write(job)
        process.stdin.flush()


@atexit.register
def _end_all() -> None:
    for child in idle():
        child.end()
