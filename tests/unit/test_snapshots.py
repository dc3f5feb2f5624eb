"""Every command in tests/snapshots with what it prints, word for word.

How a file is written stands in tests/commands.py. `pytest --snapshot-update` writes the outputs anew.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from commands import OUTPUT, said

FILES = sorted((Path(__file__).parents[1] / "snapshots").glob("*.txt"))


@pytest.mark.parametrize("path", FILES, ids=[p.stem for p in FILES])
def test_a_command_prints_these_words(
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


def test_there_are_snapshots() -> None:
    assert FILES
