"""Kernels compiled ahead, side by side: the cache has them when they are asked for.

    compile_ahead([{"kernel": "kernel add() {…}", "machine": "host"}, …], jobs=2)

Processes of their own, each with a list of kernels, longest texts first. They are started by a command:
those of `multiprocessing` begin the caller's program anew, which has to be written for that. What one of them
fails at is compiled, or refused, when it is asked for.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import isamap
from isamap.driver.api import compile as compile_kernel
from isamap.driver.api import compile_only
from isamap.source import IsamapError
from isamap.source.process import end_with, interrupts_put_off

Asked = Mapping[str, Any]
"""Arguments of `isamap.compile` by name, as JSON has them; of `compile_only` where `builds` is false."""
_COMMAND = (sys.executable, "-P", "-m", "isamap.driver.ahead")


def compile_ahead(wanted: Sequence[Asked], jobs: int) -> None:
    """Waits until so many processes have compiled, and kept, what they can of the kernels."""
    ordered = sorted(wanted, key=lambda asked: -len(asked["kernel"]))
    shares = [ordered[n::jobs] for n in range(min(jobs, len(ordered)))]
    root = str(Path(isamap.__file__).parents[1])
    path = os.pathsep.join(filter(None, (root, os.environ.get("PYTHONPATH"))))
    processes: list[subprocess.Popen[bytes]] = []
    try:
        for share in shares:
            with interrupts_put_off():  # this process ends its own
                processes.append(_started(share, path))
        for process in processes:
            process.wait()
    finally:
        for process in processes:
            if process.poll() is None:
                process.kill()
                process.wait()


def _started(share: Sequence[Asked], path: str) -> subprocess.Popen[bytes]:
    process = subprocess.Popen(
        (*_COMMAND, str(os.getpid())),
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=os.environ | {"PYTHONPATH": path},
    )
    assert process.stdin is not None
    with suppress(BrokenPipeError), process.stdin as to:  # it may have ended already
        to.write(json.dumps(list(share)).encode())
    return process


def _compile(share: Sequence[Asked]) -> None:
    for asked in share:
        given = dict(asked)
        do = compile_kernel if given.pop("builds", True) else compile_only
        with suppress(IsamapError):
            do(**given)


if __name__ == "__main__":
    end_with(int(sys.argv[1]))
    _compile(json.load(sys.stdin))
