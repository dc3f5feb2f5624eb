"""The solver's child process: one job per input line, one output line per schedule found.

    python -m isamap.scheduler.process.solve MEMORY_BYTES

It says `ready` once OR-Tools is there, and ends when its input does.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import traceback
from importlib import import_module
from queue import SimpleQueue
from threading import Thread
from typing import IO

from isamap.scheduler.process.children import READY
from isamap.scheduler.process.exchange import Found, Search
from isamap.scheduler.process.solving import search
from isamap.source import most_allowed
from isamap.source.codec import read, write


def main() -> None:
    """Answer jobs until there are no more."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the caller was interrupted as well, and decides
    limit_memory(int(sys.argv[1]))
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb", buffering=0)
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # whatever is printed is no answer
    import_module("ortools.sat.python.cp_model")  # takes most of the time, and there is no job yet

    answers.write(READY)
    jobs: SimpleQueue[bytes] = SimpleQueue()
    Thread(target=_receive, args=(sys.stdin.buffer, jobs), daemon=True).start()

    def tell(found: Found) -> None:
        answers.write(write(found).encode() + b"\n")

    try:
        while True:
            job = read(jobs.get())
            assert isinstance(job, Search), type(job)
            tell(search(job, tell))
    except Exception:  # noqa: BLE001 - the caller reads what it was; no thread may hold the end up
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)


def limit_memory(size_bytes: int) -> None:
    """Limit the memory of this process from now on, where the system can do so. Units: bytes.

    A lower limit from before its start stays.
    """
    with contextlib.suppress(ImportError, OSError):
        import resource

        size_bytes = min(size_bytes, most_allowed("RLIMIT_AS") or size_bytes)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_AS, (size_bytes, size_bytes))


def _receive(source: IO[bytes], jobs: SimpleQueue[bytes]) -> None:
    """Receive jobs; without a caller the process ends, even in the middle of a search."""
    for line in source:
        jobs.put(line)
    os._exit(0)


if __name__ == "__main__":
    main()
