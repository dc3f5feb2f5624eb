"""The page about calling emitted C: its command has the flags that the file names, and its program runs."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from isamap.cli import main
from isamap.machine import load_machine, missing_features

PAGE = (Path(__file__).parents[2] / "docs" / "emitted-c.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"^(isamap .*|gcc .*|\./main)$", PAGE, re.MULTILINE)
SAID = re.compile(r"^It prints\n\n```\n((?:(?!```).*\n)*)```", re.MULTILINE)


def test_the_command_and_the_program_are_right(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    compiling, building, _ = (shlex.split(command) for command in COMMANDS)
    assert main(compiling[1:]) == 0
    head = (tmp_path / "out" / "gemm_f32.c").read_text(encoding="utf-8").partition("*/")[0]
    named = set(re.findall(r"-[\w-]+(?:=\w+)?", head.partition("Compile with")[2]))
    assert named == {word for word in building if word.startswith("-") and word not in ("-o", "-Iout")}
    program = re.search(r"```c\n((?:(?!```).*\n)*)```", PAGE)
    assert program is not None
    (tmp_path / "main.c").write_text(program[1], encoding="utf-8")
    machine = load_machine(compiling[compiling.index("--hw") + 1])
    if missing := missing_features(machine):
        pytest.skip(f"this processor lacks {', '.join(missing)}")
    if shutil.which("gcc") is None:
        pytest.skip("there is no gcc")
    subprocess.run(building, check=True, timeout=60)
    ran = subprocess.run(["./main"], check=True, capture_output=True, text=True, timeout=60)
    found = SAID.search(PAGE)
    assert found is not None
    assert ran.stdout == found[1]
