"""Whatever write fails, as on a full disk: the cache costs a warning, and nothing that was there is lost."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
COMPILE = ("compile", "gemm_f32", "--hw", "generic-c", "--heuristic", "greedy", "-D", "M=4", "N=16", "K=5")
COMMANDS = {"compile": COMPILE, "evaluate": (*COMPILE, "--evaluate", "simulated", "--best", "2")}
APART = 16  # every so-many-th write, from one of the first on

pytestmark = [
    pytest.mark.exhaustive,
    pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is not installed"),
    pytest.mark.skipif(
        sys.platform != "linux", reason="the library that makes writes fail is preloaded by Linux"
    ),
]


@pytest.fixture(scope="module")
def preloaded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    library = tmp_path_factory.mktemp("preloaded") / "failing_writes.so"
    source = ROOT / "tests" / "failing_writes.c"
    subprocess.run(["gcc", "-shared", "-fPIC", "-O1", "-o", library, source, "-ldl"], check=True)
    return library


@pytest.mark.parametrize("first", range(1, APART + 1))
@pytest.mark.parametrize("how", ["once", "from"])
@pytest.mark.parametrize("command", COMMANDS)
def test_a_write_that_fails_damages_nothing(
    command: str, how: str, first: int, preloaded: Path, tmp_path: Path
) -> None:
    (tmp_path / "own").mkdir()
    words = [
        sys.executable,
        str(ROOT / "tests" / "failing.py"),
        str(tmp_path / "own"),
        str(first),
        str(APART),
        how,
    ]
    ran = subprocess.run(
        [*words, *COMMANDS[command]],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT), "LD_PRELOAD": str(preloaded)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    said: dict[str, Any] = json.loads(ran.stdout)
    assert said["failed"] >= 3
    assert said["findings"] == []


@pytest.mark.skipif(
    find_spec("_testcapi") is None, reason="this Python lacks `_testcapi`, which makes allocations fail"
)
def test_an_allocation_that_fails_damages_nothing_in_the_cache(tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, str(ROOT / "tests" / "failing_memory.py"), str(tmp_path / "cache")],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    said: dict[str, Any] = json.loads(ran.stdout)
    assert said["failed"] > 100
    assert said["findings"] == []
