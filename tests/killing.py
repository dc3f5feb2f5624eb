"""Kills isamap before its n-th file operation, for many n, and says what it left behind that is not whole.

    python tests/killing.py FOLDER FIRST STEP WORD …      one object on standard output

The words are those of a command; FOLDER/out is its output folder. A process is forked for each kill from one
in which everything is imported: the command itself is all that runs there.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import os
import signal
import sqlite3
import sys
from collections.abc import Iterator
from pathlib import Path

OPERATIONS = frozenset(
    ("os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.chmod", "os.link", "os.truncate", "os.utime",
     "sqlite3.connect", "subprocess.Popen")
)  # fmt: skip
NEVER = 10**9


def main(folder: Path, first: int, step: int, words: list[str]) -> dict[str, object]:
    """Return how many operations there are, how many kills were tried, and each finding with the kill before it."""
    for name in ("cache", "data"):
        (folder / name).mkdir(mode=0o700, exist_ok=True)
        os.environ[f"ISAMAP_{name.upper()}_DIR"] = str(folder / name)
    from isamap.cli import commands

    for home in set(commands.COMMANDS.values()):  # imported before the forks
        importlib.import_module(f"isamap.cli.{home}")
    operations = _run(folder, [*words, "-D", "M=5"], NEVER)
    kills = range(first, operations + 1, step)
    findings: list[tuple[int, str]] = []
    for number in kills:
        # Sizes of its own, so that nothing is taken from the cache.
        _run(folder, [*words, "-D", f"M={6 + number}"], number)
        findings += [(number, text) for text in not_whole(folder)]
    _run(folder, [*words, "-D", "M=4"], NEVER)
    findings += [(NEVER, f"left beside the folder: {p.name}") for p in folder.iterdir() if p.name[0] == "."]
    return {"operations": operations, "kills": len(kills), "findings": findings}


def _run(folder: Path, words: list[str], kill_at: int) -> int:
    """Return how many operations a command made, in a process of its own that is killed before one of them."""
    told, tell = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(told)
        _be_killed(folder, words, kill_at, tell)
    os.close(tell)
    with os.fdopen(told) as pipe:
        count = pipe.read()
    _, status = os.waitpid(child, 0)
    killed = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
    assert killed or (os.WEXITSTATUS(status) == 0 and count), f"{words}: {status}"
    return int(count or 0)


def _be_killed(folder: Path, words: list[str], kill_at: int, tell: int) -> None:
    from isamap.cli import main as isamap

    os.setpgid(0, 0)
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in range(3):
        os.dup2(nowhere, stream)
    seen = 0

    def hook(event: str, arguments: tuple[object, ...]) -> None:
        nonlocal seen
        writes = event == "open" and isinstance(arguments[2], int) and arguments[2] & _WRITING
        if event in OPERATIONS or writes:
            seen += 1
            if seen == kill_at:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hook)
    code = isamap([*words, "-o", str(folder / "out")])
    os.write(tell, str(seen).encode())
    os._exit(code)


_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT


def not_whole(folder: Path) -> Iterator[str]:
    """Yield what of the output folder, the cache and the databases is damaged or missing."""
    out = folder / "out"
    if not out.is_dir():
        yield "the output folder is lost"
    else:
        listed = json.loads((out / "manifest.json").read_text(encoding="utf-8"))["files"]
        if {p.name for p in out.iterdir()} != {*listed, "manifest.json"}:
            yield "the output folder holds other files than its manifest says"
        yield from (
            f"{n} differs from its digest" for n, digest in listed.items() if _digest(out / n) != digest
        )
    for path in (folder / "cache").glob("*/objects/[!.]*"):
        if _digest(path) != path.name:
            yield f"an object of the cache is damaged: {path.name}"
    for path in (folder / "cache").glob("*/keys/[!.]*"):
        if not (path.parent.parent / "objects" / path.read_text(encoding="utf-8")).exists():
            yield f"a key of the cache has no object: {path.name}"
    for path in (folder / "data").glob("*.sqlite"):
        with sqlite3.connect(path) as database:
            if (said := database.execute("pragma integrity_check").fetchone()[0]) != "ok":
                yield f"{path.name}: {said}"
        database.close()


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


if __name__ == "__main__":
    where, begin, apart, *command = sys.argv[1:]
    print(json.dumps(main(Path(where), int(begin), int(apart), command)))
