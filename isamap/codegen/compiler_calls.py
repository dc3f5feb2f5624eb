"""Calls of a C compiler: what files are given to each, some of them side by side, and for how long.

Compilers get argument lists, never a shell, and nothing of the user's environment but where to find programs.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from isamap.codegen.cache import cache_root, own_root
from isamap.source import OnlyWarned

SECONDS = 300  # that a compiler gets
OUTPUT = "library.so"
Step = tuple[str, ...]
"""Arguments of a call."""


def library_steps(
    flags: Step, mains: Sequence[str], links: Sequence[str] = ()
) -> tuple[list[Step], list[Step]]:
    """The calls that may run side by side, an object of each of several files, and those behind them.

    `links` are the paths of libraries that the files call, which are found there again when they run.
    """
    folders = dict.fromkeys(str(Path(link).parent) for link in links)
    called = (*links, *(f"-Wl,-rpath,{folder}" for folder in folders))
    if len(mains) == 1:
        return [], [(*flags, "-o", OUTPUT, *mains, *called)]
    objects = [f"{name}.o" for name in mains]
    apart = [(*flags, "-c", "-o", made, name) for made, name in zip(objects, mains, strict=True)]
    return apart, [(*flags, "-o", OUTPUT, *objects, *called)]


def run_steps(
    command: Step, apart: Sequence[Step], steps: Sequence[Step], folder: str
) -> subprocess.CompletedProcess[str]:
    """What the last of these calls came to, or the first that failed; those `apart` run side by side, before.

    Raises: subprocess.TimeoutExpired.
    """

    def called(step: Step) -> subprocess.CompletedProcess[str]:
        return run_compiler([*command, *step], folder)

    # A compiler for each core: a thread waits for it.
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        begun = [pool.submit(called, step) for step in apart]
        try:
            for call in begun:
                if (result := call.result()).returncode != 0:
                    return result
        finally:
            pool.shutdown(cancel_futures=True)
    for step in steps[:-1]:
        if (result := called(step)).returncode != 0:
            return result
    return called(steps[-1])


def run_compiler(words: list[str], folder: str | None) -> subprocess.CompletedProcess[str]:
    """One call of a compiler, with nothing of the user's environment but where to find programs.

    It has a session of its own: what it starts ends with it. Raises: subprocess.TimeoutExpired.
    """
    caches = str(_writable_root() / "zig")
    environment = {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C", "HOME": caches}
    environment |= {"ZIG_GLOBAL_CACHE_DIR": caches, "ZIG_LOCAL_CACHE_DIR": caches}
    for name in ("LD_LIBRARY_PATH", "VIRTUAL_ENV", "SYSTEMROOT"):
        if name in os.environ:
            environment[name] = os.environ[name]
    if folder is not None:
        environment["TMPDIR"] = folder
    try:
        process = subprocess.Popen(
            words, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True, errors="replace", start_new_session=True,
        )  # fmt: skip
    except OSError as error:
        return subprocess.CompletedProcess(words, 1, "", f"error: {error.strerror}")
    with process:
        try:
            says, errors = process.communicate(timeout=SECONDS)
        finally:
            if process.returncode is None:
                os.killpg(process.pid, signal.SIGKILL)
    return subprocess.CompletedProcess(words, process.wait(), says, errors)


def _writable_root() -> Path:
    """Where compilers keep what they keep."""
    with OnlyWarned():
        return cache_root()
    return own_root()
