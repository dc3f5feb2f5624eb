"""Command lines as texts: `$ isamap …`, files beside it, standard input, and `=== output` with what is said.

Files that lie in the folder where the command runs follow a line `=== file NAME` each, standard input
`=== input`. What tests/errors/cli and tests/snapshots hold.
"""

from __future__ import annotations

import io
import shlex
import sys
from pathlib import Path

import pytest

from isamap.cli import main
from isamap.ir import DTYPES, OPS
from isamap.ir.ops import WORDS
from isamap.kernels import list_functions

OUTPUT = "=== output\n"
INPUT = "=== input\n"
BESIDE = "=== file "


def beside(text: str) -> dict[str, str]:
    """Return the files that a case names, with their contents."""
    body = text.partition(INPUT)[0]
    parts = [part.partition("\n") for part in body.split(BESIDE)[1:]]
    return {name: content for name, _, content in parts}


def said(text: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> str:
    """Return what a command line prints in the current folder, and its exit code."""
    for name, content in beside(text).items():
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text(content, encoding="utf-8")
    given = text.partition(INPUT)[2]
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(given.encode()), encoding="utf-8"))
    words = shlex.split(text.splitlines()[0].removeprefix("$ isamap"))
    code = main(words)
    printed = capsys.readouterr()
    return f"exit {code}\n{printed.out}{printed.err}"


_SHIPPED = frozenset((*OPS, *WORDS, *list_functions(), *DTYPES))


def elide_shipped(findings: str) -> str:
    """Return findings without the operations and types of the language in their notes `known: …`.

    A new operation or type then changes no pinned text. Names of instructions of one, `exp_f32`, go as well.
    """
    lines = (_elide_line(line) if "note: known: " in line else line for line in findings.split("\n"))
    return "\n".join(lines)


def _elide_line(line: str) -> str:
    start, _, names = line.partition("known: ")
    listed = names.split(", ")
    own = [n for n in listed if n not in _SHIPPED and n.rpartition("_")[0] not in _SHIPPED and n != "…"]
    return f"{start}known: {', '.join([*own, '…'] if len(own) < len(listed) else own)}"
