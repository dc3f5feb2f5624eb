"""Settings of this process: permissions of its children, their end, and deferred garbage collection.

A child process never gets more resources than this process may use.

    with full_collection_put_off():
        compile_kernel(request)  # a garbage collection here searches only new objects, once for every 50,000

A full garbage collection visits every live object: more than half a million in a process that knows many kernels.
Nearly all of them are immutable trees, which reference counts free: a schedule leaves some hundred objects in
cycles, emitted code a thousand. Therefore no full collection runs inside the block. After it, Python collects old
objects again as soon as they have grown by a quarter. Memory stays bounded: a cycle waits for at most `YOUNG` new
objects (about 5 MB), or for that quarter.
"""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any


def hard_limit(limit: str) -> int | None:
    """Return this process's hard limit on a resource such as `RLIMIT_AS`, or None.

    It can be lowered, but not raised again: `ulimit -v` of a shell sets it for all its children.
    """
    try:
        import resource
    except ImportError:  # not on Windows
        return None
    hard = resource.getrlimit(getattr(resource, limit))[1]
    return None if hard == resource.RLIM_INFINITY else hard


_PR_SET_PDEATHSIG = 1  # Linux, prctl(2)


def end_with(parent: int) -> None:
    """End this process when its parent ends, or at once if the parent has already ended.

    This works on Linux, if the parent's thread that started this process lives as long as the parent.
    """
    import ctypes

    with suppress(AttributeError):  # elsewhere there is no prctl
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, ctypes.c_ulong(signal.SIGKILL), 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


Process = subprocess.Popen
"""A process that was started."""
_SUPERVISOR = str(Path(__file__).with_name("supervisor.py"))
_PATIENCE_SECONDS = 10.0


def start_process(words: Sequence[str], **options: Any) -> Process[Any]:
    """Start a program that ends with this process, together with all its own children.

    `words` are those of the program, or "-" and a script of Python; `options` go to `subprocess.Popen`. The
    program has a separate session: Ctrl-C reaches only this process, which ends the program. The returned
    process is its supervisor (`supervisor.py`). Raises: OSError if no process can be started.
    """
    command = (sys.executable, "-I", "-S", _SUPERVISOR, str(os.getpid()), *words)
    return Process(command, start_new_session=True, **options)


def run_process(words: Sequence[str], seconds: float, **options: Any) -> subprocess.CompletedProcess[Any]:
    """Run a program to its end, or kill it with all its children after some seconds.

    `options` are those of `subprocess.Popen`, and `input`. Its output is captured. Raises: OSError if it
    cannot be started, subprocess.TimeoutExpired.
    """
    given = options.pop("input", None)
    options.setdefault("stdin", subprocess.DEVNULL if given is None else subprocess.PIPE)
    process = start_process(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options)
    with process:
        try:
            output, errors = process.communicate(given, timeout=seconds)
        finally:
            if process.returncode is None:
                end_process(process)
    return subprocess.CompletedProcess(words, process.wait(), output, errors)


def has_ended(child: Process[Any]) -> bool:
    """Return whether a child has ended. Its number stays reserved, because it is not reaped."""
    try:
        return os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:  # the process that started isamap ignores its children
        return True


def end_process(child: Process[Any]) -> None:
    """End a supervisor process, which first ends its children. Kill its process group if it does not end."""
    stop = time.monotonic() + _PATIENCE_SECONDS
    with suppress(ProcessLookupError):
        os.kill(child.pid, signal.SIGTERM)
    while not has_ended(child) and time.monotonic() < stop:
        time.sleep(0.001)
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()


@contextmanager
def interrupts_put_off() -> Generator[None, None, None]:
    """Defer Ctrl-C until the block ends. Processes that are started inside do not receive it."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


YOUNG = 50_000  # a shape rarely makes so many objects that stay; some 3 ms to look through
NEVER = 1_000_000_000


@contextmanager
def full_collection_put_off() -> Generator[None, None, None]:
    """Defer full garbage collections inside, and search new objects rarely. Restore the settings afterwards.

    Inside another such block, or if a caller has disabled the collection, nothing changes: the outermost one
    decides.
    """
    before = gc.get_threshold()
    if not 0 < before[0] < YOUNG:
        yield
        return
    gc.set_threshold(YOUNG, before[1], NEVER)
    try:
        yield
    finally:
        gc.set_threshold(*before)
