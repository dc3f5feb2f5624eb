"""Make each write of isamap fail in turn, and say what it did about that which it should not have done.

    LD_PRELOAD=failing_writes.so python tests/failing.py FOLDER FIRST STEP once|from WORD …

The words are those of a command; FOLDER/out is its output folder. `once`: the disk works again after one call that
fails; `from`: it stays full. A process is forked for each call. What is required:

- If writes into the cache and the databases fail, the command ends with 0, and writes what it writes without a cache.
  It may warn: whether it does is not checked.
- If writes into the output folder fail, the command ends with 0 or with an error (2 or 5). After an error the
  folder is as it was.
- Nothing that is left is damaged or temporary, and the same command succeeds afterwards.

The files that are compared are those whose content no measurement decides: C, headers and schedules.
"""

from __future__ import annotations

import ctypes
import importlib
import json
import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from killing import not_whole

NEVER = 10**9


def main(folder: Path, first: int, step: int, is_once: bool, words: Sequence[str]) -> dict[str, object]:
    """Return how many writes there are of each kind, how many failed, and each finding with its number."""
    for name in ("cache", "data"):
        (folder / name).mkdir(mode=0o700, exist_ok=True)
        os.environ[f"ISAMAP_{name.upper()}_DIR"] = str(folder / name)
    from isamap.cli import commands

    for home in set(commands.COMMANDS.values()):  # imported before the forks
        importlib.import_module(f"isamap.cli.{home}")
    assert _run(folder, words, folder / "out", NEVER, NEVER)[0] == 0
    expected = _content(folder / "out")
    writes: dict[str, int] = {}
    failed, findings = 0, list[tuple[str, int, str]]()
    for place in ("cache", "data", "out"):
        _empty(folder)
        code, writes[place] = _run(folder, words, folder / place, NEVER, NEVER)
        assert code == 0
        print(f"{place}: {writes[place]} writes", file=sys.stderr, flush=True)
        for number in range(first, writes[place] + 1, step):
            _empty(folder)
            failed += 1
            code, _ = _run(folder, words, folder / place, number, number if is_once else NEVER)
            found = list(not_whole(folder))
            if code not in (
                (0, 2, 5) if place == "out" else (0,)
            ):  # 5: this computer lacks something, such as room
                found.append(f"it ended with {code}")
            if _content(folder / "out") != expected:
                found.append("it did not write all" if code == 0 else "the output folder is not as it was")
            if (
                _run(folder, words, folder / "out", NEVER, NEVER)[0] != 0
                or _content(folder / "out") != expected
            ):
                found.append("it did not succeed afterwards")
            found += [f"left in the cache: {p.name}" for p in (folder / "cache").glob("*/*/.*")]
            found += [f"left next to the folder: {p.name}" for p in folder.iterdir() if p.name[0] == "."]
            findings += [(place, number, text) for text in found]
    return {"writes": writes, "failed": failed, "findings": findings}


def _empty(folder: Path) -> None:
    """Take away what would answer the command; the output folder stays, to be replaced."""
    for name in ("cache", "data"):
        shutil.rmtree(folder / name)
        (folder / name).mkdir(mode=0o700)


def _content(out: Path) -> dict[str, bytes]:
    """Return the files of an output folder whose bytes do not depend on what was measured."""
    return {
        path.name: path.read_bytes() for path in out.iterdir() if path.suffix in (".c", ".h", ".schedule")
    }


def _run(folder: Path, words: Sequence[str], place: Path, first: int, last: int) -> tuple[int, int]:
    """Return the exit code of a command and how many writes it made, with those from first to last failing."""
    told, tell = os.pipe()
    child = os.fork()
    if child == 0:
        from isamap.cli import main as isamap

        os.close(told)
        nowhere = os.open(os.devnull, os.O_RDWR)
        said = os.open(folder.parent / "said", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        for stream, to in enumerate((nowhere, nowhere, said)):
            os.dup2(to, stream)
        shim = ctypes.CDLL(None)
        shim.writes_seen.restype = ctypes.c_long
        # An output folder is written next to its place.
        where = f"{place}\n{place.with_name(f'.{place.name}')}\n".encode()
        shim.fail_writes(ctypes.c_char_p(where), ctypes.c_long(first), ctypes.c_long(last))
        code = isamap([*words, "-o", str(folder / "out")])
        os.write(tell, f"{code} {shim.writes_seen()}".encode())
        os._exit(0)
    os.close(tell)
    with os.fdopen(told) as pipe:
        answer = pipe.read()
    _, status = os.waitpid(child, 0)
    assert answer, (
        f"the process of {words} ended with {status}: {(folder.parent / 'said').read_text()[-3000:]}"
    )
    code, count = map(int, answer.split())
    return code, count


if __name__ == "__main__":
    where, begin, apart, how, *command = sys.argv[1:]
    print(json.dumps(main(Path(where), int(begin), int(apart), how == "once", command)))
