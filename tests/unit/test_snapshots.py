"""Every command in tests/snapshots with what it prints, word for word.

tests/commands.py has the form of a file. `pytest --snapshot-update` writes the outputs anew. After a command with
`--dump-passes` each pass of lowering follows that changes the nest or the program, with what it leaves. The code in
files that a command writes follows under their names. `emit-*` has an example for each printer, and for families of
machines.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from commands import OUTPUT, said

from isamap.driver.printers import PRINTERS
from isamap.lower.passes import PASSES

CODE = (".c", ".cl", ".cu")
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
    if "--dump-passes" in text:
        found = found.splitlines()[0] + "\n" + "".join(changes(tmp_path / "passes"))
    written = sorted(path for path in tmp_path.rglob("*") if path.suffix in CODE)
    found += "".join(f"--- {path.name}\n{path.read_text(encoding='utf-8')}" for path in written)
    if pytestconfig.getoption("update_snapshots"):
        path.write_text(f"{text}{OUTPUT}{found}", encoding="utf-8")
        expected = found
    assert found == expected


def changes(folder: Path) -> Iterator[str]:
    """Yield the text after each pass that differs from the one before, under the name of the pass."""
    before = ""
    for path in sorted(folder.iterdir()):
        after = path.read_text(encoding="utf-8")
        if after != before:
            yield f"--- {path.stem.partition('-')[2]}\n{after.rstrip()}\n"
        before = after


def test_each_pass_of_lowering_has_a_snapshot() -> None:
    texts = [p.read_text(encoding="utf-8") for p in FILES]
    assert [p.name for p in PASSES if not any(f"--- {p.name}\n" in text for text in texts)] == []


def test_each_printer_has_a_snapshot() -> None:
    commands = [p.read_text(encoding="utf-8").splitlines()[0] for p in FILES]
    named = {kind for command in commands for kind in re.findall("--emit ([a-z]+)", command)}
    assert set(PRINTERS) - {"code"} - named == {"program"}, "a listing has its words"
    assert any("--stop-after emit" in command for command in commands)
    assert "assembly" in named


def test_examples_of_printers_and_of_a_model_are_printed() -> None:
    """A refusal would be a snapshot, too, and show no line of a printer."""
    outputs = {
        p.stem: p.read_text(encoding="utf-8").partition(OUTPUT)[2] for p in FILES if p.stem[:5] == "emit-"
    }
    assert [name for name, output in outputs.items() if not output.startswith("exit 0\n")] == []
    assert "emit-model" in outputs
