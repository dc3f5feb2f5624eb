"""Command lines run one after the other in a process of their own, under a limit of memory and of time.

    with Bounded() as isamap:
        isamap.run(["fmt", "a.ir"], {"a.ir": b"kernel k("}).code  ->  2
        isamap.read("npy", b"NUMPY").code                         ->  2

One process reads many inputs, so that each costs what its reading costs. An input that takes more memory than
the limit, more time, or the whole process, ends as `exit 70`: what a person would see of it.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import select
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

MEMORY_BYTES = 512 << 20
"""Beside what the process has when it starts to read."""
SECONDS = 60.0
"""For one command. A limit for what does not end; a machine that others use as well may be slow."""
_ROOT = Path(__file__).parent.parent


@dataclass(frozen=True, slots=True)
class Said:
    """The exit code of a command and all that it printed."""

    code: int
    text: str


class Bounded:
    """A process in which commands run. `memory_bytes` is what one may take, `seconds` how long it may."""

    def __init__(self, memory_bytes: int = MEMORY_BYTES, seconds: float = SECONDS) -> None:
        self.memory_bytes = memory_bytes
        self.seconds = seconds
        self._folder = tempfile.TemporaryDirectory()
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Bounded:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()
        self._folder.cleanup()

    def run(self, words: Sequence[str], files: Mapping[str, bytes] | None = None) -> Said:
        """Return what a command says that runs in a folder with these files; `<stdin>` is standard input."""
        return self._answer(
            {
                "words": list(words),
                "files": {n: base64.b64encode(d).decode() for n, d in (files or {}).items()},
            }
        )

    def read(self, reader: str, data: bytes) -> Said:
        """Return the answer of a reader of `fuzz.readers` to an input."""
        return self._answer({"reader": reader, "data": base64.b64encode(data).decode()})

    def _answer(self, job: Mapping[str, object]) -> Said:
        process = self._process or self._start()
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(job).encode() + b"\n")
        process.stdin.flush()
        ready, _, _ = select.select([process.stdout], [], [], self.seconds)
        line = process.stdout.readline() if ready else b""
        if not line:
            self._end()
            said = f"it ended with {process.returncode}" if ready else f"it took more than {self.seconds} s"
            return Said(70, said)
        answer = json.loads(line)
        return Said(answer["code"], answer["text"])

    def _start(self) -> subprocess.Popen[bytes]:
        path = os.pathsep.join([str(_ROOT), str(_ROOT / "tests"), os.environ.get("PYTHONPATH", "")])
        self._process = subprocess.Popen(
            [sys.executable, str(Path(__file__).resolve()), str(self.memory_bytes)],
            cwd=self._folder.name,
            env={**os.environ, "PYTHONPATH": path},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        return self._process

    def _end(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None


# --- the process ------------------------------------------------------------------------------------------


def _serve(memory_bytes: int) -> None:
    """Answers a line for each line of standard input."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    jobs = os.fdopen(os.dup(0))
    _warm_up()
    _limit(memory_bytes)
    for line in jobs:
        job = json.loads(line)
        if "reader" in job:
            said = _read(job["reader"], base64.b64decode(job["data"]))
        else:
            files = {name: base64.b64decode(data) for name, data in job["files"].items()}
            for name, data in files.items():
                if name != "<stdin>":
                    Path(name).write_bytes(data)
            said = _run(job["words"], files.get("<stdin>", b""))
        answers.write(json.dumps({"code": said.code, "text": said.text}) + "\n")
        answers.flush()


def _warm_up() -> None:
    """Imports what takes memory once, so that the limit is about inputs."""
    from importlib import import_module

    for name in ("lark", "numpy", "yaml", "isamap.driver.pipeline", "isamap.scheduler.search.greedy"):
        import_module(name)
    from isamap.machine import load_machine

    load_machine("generic-c")


def _limit(memory_bytes: int) -> None:
    import resource

    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    most = pages * resource.getpagesize() + memory_bytes
    resource.setrlimit(resource.RLIMIT_AS, (most, most))


def _read(name: str, data: bytes) -> Said:
    from fuzz.readers import READERS, make_folder

    from isamap.source import IsamapError

    folder = Path("read", "work")
    if not folder.exists():
        make_folder(folder)
    try:
        READERS[name].read(data, folder.resolve())
    except IsamapError as error:
        return Said(error.exit_code, str(error))
    except BaseException as error:  # noqa: BLE001 - as below
        return Said(70, f"{error!r}")
    return Said(0, "")


def _run(words: list[str], given: bytes) -> Said:
    import io

    from isamap.cli import main

    read, written = io.TextIOWrapper(io.BytesIO(given)), io.StringIO()
    kept, sys.stdin = sys.stdin, read
    try:
        with contextlib.redirect_stdout(written), contextlib.redirect_stderr(written):
            code = main(words)
    except BaseException as error:  # noqa: BLE001 - whatever leaves `main` is what the tests look for
        return Said(70, f"{written.getvalue()}\n{error!r}")
    finally:
        sys.stdin = kept
    return Said(code, written.getvalue())


if __name__ == "__main__":
    _serve(int(sys.argv[1]))
