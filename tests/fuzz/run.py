"""Coverage-guided fuzzing of the readers, by atheris (`pip install -e '.[fuzz]'`).

    python tests/fuzz/run.py FOLDER                             all readers in turn, ten minutes each
    python tests/fuzz/run.py FOLDER --minutes 120 onnx graph    two readers, until each has had two hours

Inputs that reached new code stay in FOLDER. The same command goes on where it was stopped: readers that had
their time are done, those that had the least come first. It ends with a table, with code 0 where nothing was
found, else with code 1 and the path of each input that is a finding. An input that was found is tried first
by the next run.

A reader reads an input or refuses it with an IsamapError. All else is a finding: other exceptions, recursion
that is too deep, MEMORY_MB more than before, CPU_SECONDS of the processor for one input, no end within
HANG_SECONDS, a file that is opened outside of the folder or written there, a process that is started.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import importlib
import json
import os
import re
import resource
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any, NoReturn

sys.path[:0] = [str(Path(__file__).resolve().parents[n]) for n in (2, 1)]

from fuzz.readers import READERS, ROOT, make_folder, seeds  # noqa: E402 - which the line above leads to

MEMORY_MB = 1024
"""That the process may take beside what it has when it begins: the inputs that it keeps are small."""
RSS_MB = 3072
CPU_SECONDS = 10.0
"""That one input may take, of the processor: a busy machine makes no finding."""
HANG_SECONDS = 600
"""After which an input that does not come back is a finding, by the clock."""
SLICE_SECONDS = 300
"""Of one process. What an interrupted one did is not counted, but its inputs stay."""
MOST_BYTES = 8_000
FINDING = "finding-"
"""What the names of inputs begin with on which a run ended."""
STATE = "done.json"


class Breach(BaseException):
    """An input for which a reader did what no reader may; nothing that a reader catches."""


# --- one reader in a process of its own -------------------------------------------------------------------


def dictionary(starting: Sequence[bytes]) -> str:
    """Return the words of the grammar and of the inputs, as libFuzzer reads them."""
    grammar = (ROOT / "isamap" / "syntax" / "grammar.lark").read_text(encoding="utf-8")
    words = set(re.findall(r'"([^"\\\n]+)"', grammar)) | {"../secret", "link", "hard", "/etc/passwd"}
    for data in starting:
        words |= set(re.findall(r"[A-Za-z_]{2,40}:?", data.decode("ascii", "ignore")))
    return "".join(f'"{word}"\n' for word in sorted(words))


def fuzz(
    read: Callable[[bytes, Path], None],
    given: Callable[[], Sequence[bytes]],
    folder: Path,
    seconds: int,
    cpu_seconds: float = CPU_SECONDS,
    change: Callable[[bytes, Random], bytes] | None = None,
) -> NoReturn:
    """Fuzz a reader; libFuzzer ends the process, with code 0 where nothing was found."""
    inputs, work = folder / "inputs", folder / "work"
    inputs.mkdir(parents=True, exist_ok=True)
    make_folder(work)
    for path in folder.glob(f"{FINDING}*"):
        path.rename(inputs / path.name)
    os.environ["ISAMAP_CACHE_DIR"] = str(folder / "cache")

    atheris: Any = importlib.import_module("atheris")
    for name in ("lark", "yaml", "numpy", "islpy"):  # theirs is not the coverage that guides
        importlib.import_module(name)
    with atheris.instrument_imports(include=["isamap"]), contextlib.chdir(work):
        from isamap.source import IsamapError

        starting = given()
        for data in starting:  # brings all that a reader imports on its way
            with contextlib.suppress(Exception):
                read(data, work)
    for number, data in enumerate(starting):
        (inputs / f"seed-{number}").write_bytes(data)
    (folder / "words.dict").write_text(dictionary(starting), encoding="utf-8")
    opened = _watch(work)
    size_bytes = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    most = size_bytes + (MEMORY_MB << 20)
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    signal.signal(signal.SIGPROF, _end_input)
    os.chdir(work)

    def try_one(data: bytes) -> None:
        signal.setitimer(signal.ITIMER_PROF, cpu_seconds)
        try:
            with contextlib.suppress(IsamapError):
                read(data, work)
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
        if opened():
            raise Breach("a file outside of the folder was opened")

    def mutate(data: bytes, most: int, seed: int) -> bytes:
        random = Random(seed)
        if change is not None and random.random() < 0.6:
            return change(data, random)[:most]
        return atheris.Mutate(data, most)

    options = [
        f"-max_total_time={seconds}",
        f"-timeout={HANG_SECONDS}",
        f"-report_slow_units={HANG_SECONDS}",
        f"-rss_limit_mb={RSS_MB}",
        f"-max_len={MOST_BYTES}",
        f"-dict={folder / 'words.dict'}",
        f"-artifact_prefix={folder}/{FINDING}",
        "-print_final_stats=1",
    ]
    atheris.Setup([sys.argv[0], *options, str(inputs)], try_one, custom_mutator=mutate)
    atheris.Fuzz()
    raise AssertionError("libFuzzer ends the process")


def _end_input(_signal: int, _frame: object) -> NoReturn:
    raise Breach("seconds of the processor for one input: more than there are for it")


def _watch(work: Path) -> Callable[[], bool]:
    """Return a question: was the secret beside the folder opened? Other breaches are raised at once."""
    libc = ctypes.CDLL(None)
    handle = libc.inotify_init1(os.O_NONBLOCK)
    assert libc.inotify_add_watch(handle, os.fsencode(work.parent / "secret"), 0x20) > 0, "IN_OPEN"
    readable = [ROOT, Path(sys.prefix), Path(sys.base_prefix), Path("/proc"), Path("/sys"), work.parent]
    readable += [Path(path) for path in sys.path if path]
    own = [str(path.resolve()) for path in readable]
    begun = ("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.fork", "socket.connect")

    def audit(event: str, given: tuple[Any, ...]) -> None:
        if event in begun:
            raise Breach(f"{event} {given!r:.200}")
        if event == "open" and isinstance(given[0], str | bytes) and _is_outside(given, own, work):
            raise Breach(f"{given!r:.200} is opened outside of the folder")

    sys.addaudithook(audit)

    def opened() -> bool:
        with contextlib.suppress(BlockingIOError):
            return bool(os.read(handle, 4096))
        return False

    return opened


def _is_outside(given: tuple[Any, ...], own: Sequence[str], work: Path) -> bool:
    path, flags = os.fsdecode(given[0]), int(given[2] or 0)
    if not os.path.isabs(path) and "/" not in path:  # a step of a walk through folders, or beside the input
        return False
    real = os.path.realpath(os.path.join(work, path))
    is_written = bool(flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT))
    return not any(real.startswith(one) for one in ([str(work.parent.resolve())] if is_written else own))


# --- all readers in turn ----------------------------------------------------------------------------------


def run_all(folder: Path, readers: Sequence[str], seconds: int) -> dict[str, Path]:
    """Fuzz each reader until it had its time; return the newest finding of each that has one."""
    folder.mkdir(parents=True, exist_ok=True)
    state: dict[str, dict[str, int]] = {}
    with contextlib.suppress(FileNotFoundError):
        state = json.loads((folder / STATE).read_text(encoding="utf-8"))
    found: dict[str, Path] = {}
    while left := [name for name in readers if name not in found and _seconds(state, name) < seconds]:
        name = min(left, key=lambda one: _seconds(state, one))
        for_s = min(SLICE_SECONDS, seconds - _seconds(state, name))
        executions, coverage, finding = _run_one(folder / name, name, for_s)
        before = state.get(name, {})
        state[name] = {
            "seconds": _seconds(state, name) + (for_s if finding is None else 0),
            "executions": before.get("executions", 0) + executions,
            "coverage": max(before.get("coverage", 0), coverage),
            "findings": before.get("findings", 0) + (finding is not None),
        }
        (folder / STATE).write_text(json.dumps(state, indent=1), encoding="utf-8")
        print(f"{name}: {state[name]}", flush=True)
        if finding is not None:
            found[name] = finding
    for name in readers:
        print(f"| {name} | " + " | ".join(map(str, state.get(name, {}).values())) + " |")
    return found


def _seconds(state: dict[str, dict[str, int]], name: str) -> int:
    return state.get(name, {}).get("seconds", 0)


def _run_one(folder: Path, name: str, seconds: int) -> tuple[int, int, Path | None]:
    """Return executions, edges that were reached, and the input of a finding. The file `log` says more."""
    folder.mkdir(parents=True, exist_ok=True)
    words = [sys.executable, __file__, str(folder), name, "--alone", str(seconds)]
    with (folder / "log").open("w", encoding="utf-8") as log:
        done = subprocess.run(words, stdout=log, stderr=log, check=False)
    said = (folder / "log").read_text(encoding="utf-8", errors="replace")
    executions, coverage = 0, 0
    for match in re.finditer(r"(?m)^#(\d+)\t\S+(?:.* cov: (\d+))?", said):
        executions, coverage = int(match[1]), max(coverage, int(match[2] or 0))
    if done.returncode == 0:
        return executions, coverage, None
    inputs = sorted(folder.glob(f"{FINDING}*"), key=lambda path: path.stat().st_mtime)
    if not inputs:
        raise SystemExit(f"the fuzzer of {name} ended with {done.returncode}:\n{said[-2000:]}")
    print("\n".join(_told(said)), flush=True)
    return executions, coverage, inputs[-1]


def _told(said: str) -> Iterator[str]:
    """Return the lines of a log that say what was found."""
    lines = said.splitlines()
    at = next((n for n, line in enumerate(lines) if "Uncaught" in line or "ERROR: libFuzzer" in line), 0)
    yield from lines[at : at + 60]


def main() -> None:
    """Fuzz the readers that the command line names."""
    parser = argparse.ArgumentParser(
        description="Fuzz readers, guided by coverage. The same command goes on where it was stopped."
    )
    parser.add_argument("folder", type=Path, help="for inputs that reached new code, findings and logs")
    parser.add_argument("reader", nargs="*", help=f"{', '.join(READERS)}; all by default")
    parser.add_argument("--minutes", type=float, default=10, help="that each reader gets in this folder")
    parser.add_argument("--alone", type=int, metavar="SECONDS", help=argparse.SUPPRESS)
    given = parser.parse_intermixed_args()
    if unknown := set(given.reader) - set(READERS):
        parser.error(f"there is no reader {', '.join(sorted(unknown))}; there are {', '.join(READERS)}")
    folder = given.folder.resolve()
    if given.alone is not None:
        (name,) = given.reader
        reader = READERS[name]
        fuzz(reader.read, lambda: seeds(name, MOST_BYTES), folder, given.alone, change=reader.changed)
    found = run_all(folder, given.reader or list(READERS), round(60 * given.minutes))
    for name, path in found.items():
        print(f"finding of {name}: {path}")
    raise SystemExit(1 if found else 0)


if __name__ == "__main__":
    main()
