"""The process between isamap and a program: it starts the program, ends all descendants, and exits like it.

    python -I -S supervisor.py CALLER PROGRAM [WORD…]
    python -I -S supervisor.py CALLER - SCRIPT          a script of Python, run by this interpreter

A program may fork, and its children may begin sessions of their own. On Linux orphans go to the nearest
ancestor that adopts them, which is this process. So all descendants are its children when the program has
ended, and it ends them before the caller continues. It also ends them when the caller ends, or sends SIGTERM.

It imports only the standard library, which a script shares because it is forked.
"""

from __future__ import annotations

import ctypes
import os
import resource
import runpy
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

GRACE_SECONDS = 5.0
"""The supervisor looks for remaining processes this long. A process that forks faster than they are found
survives."""
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36  # Linux, prctl(2)
_HEARD = {signal.SIGCHLD, signal.SIGTERM, signal.SIGHUP}


def main() -> None:
    """Run the program until it or the caller ends."""
    caller, words = int(sys.argv[1]), sys.argv[2:]
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # a caller that ignores it hands that on
    signal.pthread_sigmask(signal.SIG_BLOCK, _HEARD)
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    # The system sends it when the thread that started this process ends, too: the caller may live on.
    _prctl(_PR_SET_PDEATHSIG, signal.SIGHUP)
    if os.getppid() != caller:
        return
    try:
        child = os.fork()
    except OSError as error:
        _complain(words, error)
    if child == 0:
        _replace_process(words)
    status = _wait_for(child, caller)
    _end_descendants()
    if status is not None:
        _end_like(status)


def _replace_process(words: list[str]) -> None:
    """Replace this process by the program or script."""
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _HEARD)
    if words[0] == "-":
        runpy.run_path(words[1], run_name="__main__")
        return
    try:
        os.execvp(words[0], words)
    except OSError as error:
        _complain(words, error)


def _complain(words: list[str], error: OSError) -> NoReturn:
    """Report that the program cannot be started, and exit as a shell does."""
    sys.stderr.write(f"error: {words[0]} cannot be started: {error.strerror}\n")
    sys.stderr.flush()
    os._exit(127)


def _wait_for(child: int, caller: int) -> int | None:
    """Return the child's wait status, or None if it must be ended."""
    while True:
        heard = signal.sigwait(_HEARD)
        if heard == signal.SIGTERM or (heard == signal.SIGHUP and os.getppid() != caller):
            return None
        with suppress(ChildProcessError):
            while True:  # orphans end as well, and one signal may stand for several
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == child:
                    return status
                if pid == 0:
                    break


def _end_descendants() -> None:
    """Kill child processes until there are none. The children of a killed process become children of this one."""
    stop = time.monotonic() + GRACE_SECONDS
    while time.monotonic() < stop:
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        for pid in _descendants():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.001)


def _descendants() -> list[int]:
    """Return all descendants of this process."""
    children: dict[int, list[int]] = {}
    for entry in os.listdir("/proc"):
        if entry.isascii() and entry.isdigit():
            with suppress(OSError):
                # Behind the name, which stands in brackets and may hold anything: state, parent.
                parent = Path("/proc", entry, "stat").read_bytes().rpartition(b")")[2].split()[1]
                children.setdefault(int(parent), []).append(int(entry))
    found: list[int] = []
    expected = [os.getpid()]
    while expected:
        below = children.get(expected.pop(), [])
        found += below
        expected += below
    return found


def _end_like(status: int) -> None:
    if os.WIFEXITED(status):
        os._exit(os.WEXITSTATUS(status))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    number = os.WTERMSIG(status)
    with suppress(OSError, ValueError):  # SIGKILL takes no handler
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {number})
    os.kill(os.getpid(), number)


def _prctl(what: int, value: int) -> None:
    ctypes.CDLL(None).prctl(what, ctypes.c_ulong(value), 0, 0, 0)


if __name__ == "__main__":
    main()
