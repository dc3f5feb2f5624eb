"""Whatever file operation a kill comes before, nothing is damaged, and nothing that was there is lost."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
COMPILE = ("compile", "gemm_f32", "--hw", "generic-c", "--heuristic", "greedy", "-D", "N=16", "K=5")
COMMANDS = {
    "compile": COMPILE,
    "tune": (*COMPILE, "--tune", "2", "--tune-limit", "1"),
    "evaluate": (*COMPILE, "--evaluate", "simulated", "--best", "2"),
}
APART = 16  # every so-many-th operation, from one of the first on


@pytest.mark.exhaustive(fast=1)
@pytest.mark.parametrize("first", range(1, APART + 1))
@pytest.mark.parametrize("command", COMMANDS)
def test_a_kill_before_any_file_operation_leaves_everything_whole(
    command: str, first: int, tmp_path: Path
) -> None:
    words = [sys.executable, str(ROOT / "tests" / "killing.py"), str(tmp_path), str(first), str(APART)]
    ran = subprocess.run(
        [*words, *COMMANDS[command]],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    said: dict[str, Any] = json.loads(ran.stdout)
    assert said["kills"] >= 3
    assert said["findings"] == []
