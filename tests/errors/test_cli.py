"""Every wrong command line in `cli/` with what it prints and the code that it exits with, word for word.

A file holds the words behind `$ isamap `, files that lie in the folder where it runs, each after a line
`=== file NAME`, standard input after `=== input`, and behind `=== output` what is said. `pytest
--snapshot-update` writes the last part anew; review it like code.
"""

from __future__ import annotations

import io
import shlex
import sys
from pathlib import Path

import pytest

from isamap.cli import main
from isamap.source import CODES
from isamap.source.command_codes import COMMAND_CODES

FOLDER = Path(__file__).parent / "cli"
FILES = sorted(FOLDER.glob("*.txt"))
OUTPUT = "=== output\n"
INPUT = "=== input\n"
BESIDE = "=== file "

ELSEWHERE = frozenset(
    (
        "axis-has-no-place",  # in JSON only, as the next four
        "expression-differs",
        "operation-differs",
        "result-type-differs",
        "types-differ",
        "file-not-text",  # inputs that are no short texts: tests/unit/test_cli.py
        "file-too-large",
        "internal-error",
        "output-unwritable",
        "platform-lacks-runner",
        "program-refused",  # wrong programs: tests/unit/test_driver_verify.py
        "result-wrong",
        "scalar-only",  # warnings
        "solver-stopped",
        "fill-range",
        "no-move",
        "out-of-registers",
        "unknown-mapping",  # the check of schedules finds it first
    )
)
"""Codes that no wrong command line gives."""


@pytest.mark.parametrize("path", FILES, ids=[p.stem for p in FILES])
def test_a_wrong_command_line_is_refused_in_these_words(
    path: Path,
    pytestconfig: pytest.Config,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    text, _, expected = path.read_text(encoding="utf-8").partition(OUTPUT)
    monkeypatch.chdir(tmp_path)
    found = said(text, monkeypatch, capsys)
    if pytestconfig.getoption("update_snapshots"):
        path.write_text(f"{text}{OUTPUT}{found}", encoding="utf-8")
        expected = found
    assert found == expected
    assert {p.name for p in tmp_path.iterdir()} == {name.split("/")[0] for name in beside(text)}, (
        "nothing new stays behind"
    )


def test_there_are_enough_wrong_command_lines() -> None:
    assert len(FILES) >= 25


def test_every_code_of_command_lines_is_pinned() -> None:
    pinned = "".join(p.read_text(encoding="utf-8").partition(OUTPUT)[2] for p in FILES)
    assert [c for c in COMMAND_CODES if f"[{c}]" not in pinned and c not in ELSEWHERE] == []
    assert COMMAND_CODES.keys() <= CODES.keys()


def beside(text: str) -> dict[str, str]:
    """The files that a case names, with their contents."""
    body = text.partition(INPUT)[0]
    parts = [part.partition("\n") for part in body.split(BESIDE)[1:]]
    return {name: content for name, _, content in parts}


def said(text: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> str:
    """What a command line prints in the current folder, and its exit code."""
    for name, content in beside(text).items():
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text(content, encoding="utf-8")
    given = text.partition(INPUT)[2]
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(given.encode()), encoding="utf-8"))
    words = shlex.split(text.splitlines()[0].removeprefix("$ isamap"))
    code = main(words)
    printed = capsys.readouterr()
    return f"exit {code}\n{printed.out}{printed.err}"
