"""Compile kernels in parallel before they are needed, so that later compilations are cache hits.

    compile_ahead([{"kernel": "kernel add() {…}", "machine": "host"}, …], jobs=2)

This process is ready at once and starts with the shortest texts. The other processes start with the longest,
and take the next one when they report a result. They are started by a command, because processes of
`multiprocessing` would rerun the caller's program, which must be written for that. A kernel that fails in one
of them is compiled, or refused, when it is needed.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from itertools import count
from math import prod
from pathlib import Path
from threading import Lock, Thread
from typing import Any

import isamap
from isamap.driver.api import compile as compile_kernel
from isamap.driver.api import compile_only
from isamap.source import IsamapError, is_digits
from isamap.source.process import Process, end_process, start_process
from isamap.source.progress import Watch, unwatched

Asked = Mapping[str, Any]
"""Arguments of `isamap.compile` by name, as JSON has them; of `compile_only` where `builds` is false."""
_COMMAND = (sys.executable, "-P", "-m", "isamap.driver.ahead")


def label_of(text: str) -> str:
    """Return a kernel's name as words, with the sizes of its largest inputs and of its result."""
    name = re.search(r"kernel ([A-Za-z0-9_]+?)(?:_[0-9a-f]{8})?\(", text)
    sizes = {
        role: [
            found.replace(", ", "×")
            for found in re.findall(rf"\b{role} [A-Za-z0-9_]+: [a-z0-9]+\[([^\]]*)\]", text)
        ]
        for role in ("in", "out")
    }
    words = name[1].replace("_", " ") if name else "kernel"
    largest = sorted(range(len(sizes["in"])), key=lambda n: -_elements(sizes["in"][n]))[:2]
    inputs = ", ".join(sizes["in"][n] for n in sorted(largest))
    return f"{words} {inputs} → {', '.join(sizes['out'][:1])}"


def _elements(size: str) -> int:
    """Return the number of elements of a shape such as `1×56×64`. An open size counts as one."""
    return prod(int(extent) for extent in size.split("×") if is_digits(extent))


def compile_ahead(requests: Sequence[Asked], jobs: int, watch: Watch = unwatched) -> None:
    """Compile kernels in `jobs` processes, this one among them, and wait until their results are cached."""
    done, lock = count(1), Lock()

    def report_done(asked: Asked) -> None:
        with lock:
            watch(label_of(asked["kernel"]), next(done), len(requests))

    left = deque(sorted(requests, key=lambda asked: -len(asked["kernel"])))
    processes: list[Process[str]] = []
    threads: list[Thread] = []
    try:
        for _ in range(min(jobs, len(left)) - 1):
            processes.append(_start_ahead())
            threads.append(Thread(target=_send_work, args=(left, processes[-1], report_done), daemon=True))
            threads[-1].start()
        with suppress(IndexError):  # the others have taken the last one
            while True:
                _compile(asked := left.pop())
                report_done(asked)
        for thread in threads:
            thread.join()
    finally:
        for process in processes:
            end_process(process)
        for thread in threads:
            thread.join()
        for process in processes:
            with suppress(OSError), process:  # its pipes are closed, and it is waited for
                pass


def _start_ahead() -> Process[str]:
    root = str(Path(isamap.__file__).parents[1])
    path = os.pathsep.join(filter(None, (root, os.environ.get("PYTHONPATH"))))
    return start_process(
        _COMMAND,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=os.environ | {"PYTHONPATH": path},
        text=True,
        encoding="utf-8",
    )


def _send_work(left: deque[Asked], process: Process[str], report_done: Callable[[Asked], None]) -> None:
    """Send pieces of work to a process one by one, as long as it answers."""
    assert process.stdin is not None
    assert process.stdout is not None
    with suppress(OSError, ValueError, IndexError):  # it has ended, or nothing is left
        while True:
            asked = left.popleft()
            process.stdin.write(f"{json.dumps(asked)}\n")
            process.stdin.flush()
            if not process.stdout.readline():
                return
            report_done(asked)


def _compile(asked: Asked) -> None:
    given = dict(asked)
    do = compile_kernel if given.pop("builds", True) else compile_only
    with suppress(IsamapError):
        do(**given)


def _serve() -> None:
    """Compile the request of each input line, and answer with a line."""
    answers, sys.stdout = sys.stdout, sys.stderr  # whatever is printed meanwhile is not an answer
    for line in sys.stdin:
        _compile(json.loads(line))
        print("done", file=answers, flush=True)


if __name__ == "__main__":
    _serve()
