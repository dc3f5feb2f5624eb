"""The page about deploying: its programs are built and run, and code has the bytes of its table."""

from __future__ import annotations

import re
import runpy
import shlex
import shutil
import subprocess
import sys
import zipfile
from importlib.util import find_spec
from pathlib import Path

import pytest

from isamap.cli import main

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "deploying.md").read_text(encoding="utf-8")
CODE_SIZES = runpy.run_path(str(ROOT / "benchmarks" / "code_sizes.py"))
SHELL = re.compile(r"^```sh\n((?:(?!```).*\n)*)```", re.MULTILINE)
COMMANDS = [
    command for block in SHELL.findall(PAGE) for line in block.splitlines() for command in line.split(" && ")
]
SIZES = re.findall(r"^\| `(.+)` \| ([\w-]+)" + r" \| ([\d,]+)" * 4 + r" \|$", PAGE, re.MULTILINE)
BUILD = next(words for command in COMMANDS if "ziglang" in (words := shlex.split(command)))


def test_every_compilation_of_the_page_is_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    given = [shlex.split(command)[1:] for command in COMMANDS if command.startswith("isamap ")]
    assert [words[0] for words in given] == ["new", "compile", "compile", "compile"]
    for words in given:
        assert main([*words, *(["--heuristic", "greedy"] if words[0] == "compile" else [])]) == 0


@pytest.mark.skipif(find_spec("ziglang") is None, reason="ziglang is not installed: pip install '.[cc]'")
@pytest.mark.skipif(shutil.which("qemu-arm") is None, reason="there is no qemu-arm")
def test_the_microcontroller_prints_what_the_page_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    program = re.search(r"^`main.c`:\n\n```c\n((?:(?!```).*\n)*)```", PAGE, re.MULTILINE)
    said = re.search(r"^It prints\n\n```\n((?:(?!```).*\n)*)```", PAGE, re.MULTILINE)
    assert program is not None
    assert said is not None
    (tmp_path / "main.c").write_text(program[1], encoding="utf-8")
    compile_ = next(shlex.split(c)[1:] for c in COMMANDS if c.startswith("isamap compile gemm_s8s8"))
    assert main([*compile_, "--heuristic", "greedy"]) == 0
    subprocess.run([sys.executable, *BUILD[1:]], check=True, timeout=300)
    (running,) = (shlex.split(command) for command in COMMANDS if command.startswith("qemu-arm "))
    ran = subprocess.run(running, capture_output=True, text=True, check=True, timeout=60)
    assert ran.stdout + ran.stderr == said[1]


@pytest.mark.skipif(shutil.which("gcc") is None, reason="there is no gcc")
def test_the_wheel_of_the_page_computes_a_product(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    compile_ = next(shlex.split(c)[1:] for c in COMMANDS if c.endswith("-o out") and "gemm_f32" in c)
    assert main([*compile_, "--heuristic", "greedy"]) == 0
    files = re.findall(r"^`([\w/]+\.py)`:\n\n```python\n((?:(?!```).*\n)*)```", PAGE, re.MULTILINE)
    assert [name for name, _ in files] == ["setup.py", "fastgemm/__init__.py"]
    for name, text in files:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    (building,) = (shlex.split(command)[1:] for command in COMMANDS if "pip wheel" in command)
    subprocess.run([sys.executable, *building], check=True, timeout=300, capture_output=True)
    (wheel,) = (tmp_path / "dist").glob("fastgemm-1.0-*.whl")
    zipfile.ZipFile(wheel).extractall(tmp_path / "site")
    trial = (
        "import numpy as np, fastgemm; a = np.eye(64, dtype=np.float32); b = a + 1; c = a * 0; "
        "fastgemm.gemm(2 * a, b, c); assert np.array_equal(c, 2 * b); print(fastgemm.__file__)"
    )
    ran = subprocess.run(
        [sys.executable, "-c", trial],
        cwd=tmp_path / "site",
        check=True,
        timeout=60,
        capture_output=True,
        text=True,
    )
    assert ran.stdout.startswith(str(tmp_path / "site"))


@pytest.mark.exhaustive(fast=2)
@pytest.mark.parametrize("row", SIZES, ids=lambda row: f"{row[0]} {row[1]}")
@pytest.mark.skipif(find_spec("ziglang") is None, reason="ziglang is not installed: pip install '.[cc]'")
@pytest.mark.skipif(shutil.which("size") is None, reason="there is no binutils")
def test_code_has_the_bytes_that_the_page_says(row: tuple[str, ...]) -> None:
    """Another release of the compiler may change a tenth."""
    code, machine, *said, data = row
    measured = list(CODE_SIZES["measure"](code, machine))
    assert [text for text, _ in measured] == [pytest.approx(int(n.replace(",", "")), rel=0.1) for n in said]
    assert {written for _, written in measured} == {int(data)}


def test_the_table_of_bytes_is_that_of_the_command() -> None:
    codes, targets = CODE_SIZES["CODES"], CODE_SIZES["TARGETS"]
    assert [row[:2] for row in SIZES] == [(code, machine) for code in codes for machine in targets]
