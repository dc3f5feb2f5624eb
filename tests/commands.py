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
