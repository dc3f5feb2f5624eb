"""Every wrong or odd description in `machine/` with the findings that it gives, word for word.

A file holds the description, a line `=== findings`, and what isamap says. Other files beside the description
follow it, each after a line `=== file NAME`. `pytest --snapshot-update` writes the findings anew; review them
like code.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from commands import elide_shipped

from isamap.machine import load_machine
from isamap.machine.lint import find_warnings
from isamap.source import IsamapError, read_codes
from isamap.source.codes import read_tables

FOLDER = Path(__file__).parent / "machine"
FILES = sorted(FOLDER.glob("*.txt"))
SEPARATOR = "=== findings\n"
BESIDE = "=== file "

ELSEWHERE = frozenset(
    (
        "file-unreadable",
        "no-machine-fits",
        "too-many-instructions",
        "unknown-machine",
        "yaml-not-utf",
        "yaml-too-large",
    )
)
"""Codes of inputs that are no short texts: tested in tests/unit/test_machine_*.py."""


@pytest.mark.parametrize("path", FILES, ids=[p.stem for p in FILES])
def test_a_wrong_description_is_refused_in_these_words(
    path: Path, pytestconfig: pytest.Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text, _, expected = path.read_text(encoding="utf-8").partition(SEPARATOR)
    monkeypatch.chdir(tmp_path)
    found = findings(text)
    if pytestconfig.getoption("update_snapshots"):
        path.write_text(f"{text}{SEPARATOR}{found}", encoding="utf-8")
        expected = found
    assert found == expected


def test_every_code_of_machines_is_pinned() -> None:
    pinned = "".join(p.read_text(encoding="utf-8").partition(SEPARATOR)[2] for p in FILES)
    assert [c for c in read_tables()["machine"] if f"[{c}]" not in pinned and c not in ELSEWHERE] == []
    assert read_tables()["machine"].keys() <= read_codes().keys()


def findings(text: str) -> str:
    """Return what isamap says about a description in the current folder."""
    body, *others = text.split(BESIDE)
    Path("wrong.yaml").write_text(body, encoding="utf-8")
    for other in others:
        name, _, content = other.partition("\n")
        Path(name).write_text(content, encoding="utf-8")
    try:
        machine = load_machine("wrong.yaml")
    except IsamapError as error:
        return f"{type(error).__name__}, exit {error.exit_code}\n{elide_shipped(error.render())}\n"
    odd = "\n".join(warning.render() for warning in find_warnings(machine))
    return f"odd, exit 0\n{odd}\n" if odd else "nothing\n"
