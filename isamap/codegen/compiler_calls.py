"""Calls of a C compiler: what files are given to each, some of them side by side, and for how long.

Headers that several files include are parsed once, where the compiler keeps what it has parsed: those of
vectors take it longer than most kernels.

Compilers get argument lists, never a shell, and nothing of the user's environment but where to find programs.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from isamap.codegen.cache import cache_root, own_root
from isamap.source import OnlyWarned
from isamap.source.process import run_process

SECONDS = 300  # that a compiler gets
OUTPUT = "library.so"
HEADERS = "isamap_headers.h"
LEAST_SHARED = 4
"""Files that include a header for it to be parsed apart, which takes as long as two files that include it."""
Step = tuple[str, ...]
"""Arguments of a call."""


@dataclass(frozen=True, slots=True)
class Steps:
    """Calls of a compiler: the first ones, those that may run side by side, and those behind them."""

    first: tuple[Step, ...]
    apart: tuple[Step, ...]
    behind: tuple[Step, ...]

    @property
    def words(self) -> tuple[str, ...]:
        """All arguments."""
        return tuple(word for step in (*self.first, *self.apart, *self.behind) for word in step)


def shared_headers(texts: Mapping[str, str]) -> tuple[str, tuple[str, ...]]:
    """The lines that include those headers of the system that most of these C files include, and which do.

    A file that lacks one of them is none of these: it would no longer be found that it needs it.
    """
    lines = {name: set(re.findall(r"^#include <.*>$", text, re.MULTILINE)) for name, text in texts.items()}
    counts = Counter(line for own in lines.values() for line in own)
    most = max(counts.values(), default=0)
    shared = sorted(line for line, count in counts.items() if count == most >= LEAST_SHARED)
    users = tuple(name for name, own in lines.items() if shared and own.issuperset(shared))
    return "".join(f"{line}\n" for line in shared), users


def library_steps(
    flags: Step, mains: Sequence[str], links: Sequence[str] = (), parsed: Collection[str] = ()
) -> Steps:
    """The calls that make a library of one file, or of several, an object of each.

    `links` are the paths of libraries that the files call, which are found there again when they run.
    `parsed` are those of the files that include all that a file HEADERS does, which is parsed once.
    """
    folders = dict.fromkeys(str(Path(link).parent) for link in links)
    called = (*links, *(f"-Wl,-rpath,{folder}" for folder in folders))
    if len(mains) == 1:
        return Steps((), (), ((*flags, "-o", OUTPUT, *mains, *called),))
    objects = [f"{name}.o" for name in mains]
    first = ((*flags, "-x", "c-header", "-o", f"{HEADERS}.gch", HEADERS),) if parsed else ()
    apart = tuple(
        (*flags, *(("-include", HEADERS) if name in parsed else ()), "-c", "-o", made, name)
        for made, name in zip(objects, mains, strict=True)
    )
    return Steps(first, apart, ((*flags, "-o", OUTPUT, *objects, *called),))


def run_steps(command: Step, steps: Steps, folder: str) -> subprocess.CompletedProcess[str]:
    """What the last of these calls came to, or the first that failed.

    Raises: subprocess.TimeoutExpired.
    """

    def called(step: Step) -> subprocess.CompletedProcess[str]:
        return run_compiler([*command, *step], folder)

    for step in steps.first:
        if (result := called(step)).returncode != 0:
            return result
    # A compiler for each core: a thread waits for it.
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        begun = [pool.submit(called, step) for step in steps.apart]
        try:
            for call in begun:
                if (result := call.result()).returncode != 0:
                    return result
        finally:
            pool.shutdown(cancel_futures=True)
    for step in steps.behind[:-1]:
        if (result := called(step)).returncode != 0:
            return result
    return called(steps.behind[-1])


def run_compiler(words: list[str], folder: str | None) -> subprocess.CompletedProcess[str]:
    """One call of a compiler, with nothing of the user's environment but where to find programs.

    Raises: OSError where no process can be started, subprocess.TimeoutExpired.
    """
    caches = str(_writable_root() / "zig")
    environment = {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C", "HOME": caches}
    environment |= {"ZIG_GLOBAL_CACHE_DIR": caches, "ZIG_LOCAL_CACHE_DIR": caches}
    for name in ("LD_LIBRARY_PATH", "VIRTUAL_ENV", "SYSTEMROOT"):
        if name in os.environ:
            environment[name] = os.environ[name]
    if folder is not None:
        environment["TMPDIR"] = folder
    return run_process(words, SECONDS, cwd=folder, env=environment, text=True, errors="replace")


def _writable_root() -> Path:
    """Where compilers keep what they keep."""
    with OnlyWarned():
        return cache_root()
    return own_root()
