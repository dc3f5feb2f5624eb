"""The page about models of ONNX: its commands print what it shows, its programs run."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

pytest.importorskip("onnx", reason="models of ONNX need the package onnx: pip install 'isamap[onnx]'")

from isamap.cli import main
from isamap.machine import load_machine, missing_features

PAGE = (Path(__file__).parents[2] / "docs" / "onnx.md").read_text(encoding="utf-8")
BLOCKS = re.compile(r"```(\w*)\n((?:(?!```).*\n)*)```")


def blocks(language: str) -> list[str]:
    return [text for word, text in BLOCKS.findall(PAGE) if word == language]


def without_numbers(text: str) -> str:
    """Return the words of a text, each number with its unit of time as one sign."""
    return " ".join(re.sub(r"\b[0-9][0-9.e-]*( (ns|µs|ms|s)\b)?", "#", text).split())


def test_the_page_leads_from_a_file_to_a_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if missing := missing_features(load_machine("x86-avx2")):
        pytest.skip(f"this processor lacks {', '.join(missing)}")
    if shutil.which("gcc") is None or shutil.which("make") is None:
        pytest.skip("there is no gcc, or no make")
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    making, calling, ranged, counted = blocks("python")
    exec(compile(making, "make_mlp.py", "exec"), names)  # noqa: S102 - the page's own text
    for part in (blocks("console")[0] + blocks("console")[2]).removeprefix("$ ").split("\n$ "):
        command, _, said = part.partition("\n")
        assert main(shlex.split(command)[1:]) == 0
        assert capsys.readouterr().out.strip() == said.strip()
    for part in blocks("console")[1].removeprefix("$ ").split("\n$ "):  # whose times and errors vary
        command, _, said = part.partition("\n")
        assert main(shlex.split(command)[1:]) == 0
        assert without_numbers(capsys.readouterr().out) == without_numbers(said)
    (program,) = blocks("c")
    (tmp_path / "main.c").write_text(program, encoding="utf-8")
    plain = blocks("")
    steps = next(text for text in plain if text.startswith("make "))
    said = plain[plain.index(steps) + 1]
    *building, running = (shlex.split(line) for line in steps.splitlines())
    for step in building:
        subprocess.run(step, check=True, timeout=120, capture_output=True)
    ran = subprocess.run(running, check=True, timeout=60, capture_output=True, text=True)
    assert ran.stdout == said
    exec(compile(calling, "calling.py", "exec"), names)  # noqa: S102 - the page's own text
    assert getattr(names["y"], "shape", None) == (4, 10)
    exec(compile(ranged, "ranged.py", "exec"), names)  # noqa: S102 - the page's own text
    exec(compile(counted, "counted.py", "exec"), names)  # noqa: S102 - the page's own text
    command, _, said = blocks("console")[3].removeprefix("$ ").partition("\n")
    assert main(shlex.split(command)[1:]) == 0
    assert capsys.readouterr().out.strip() == said.strip()
