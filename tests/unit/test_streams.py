"""What a computer lacks costs a warning or a message, never a result or a traceback."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import isamap

ROOT = str(Path(isamap.__file__).parents[1])
COMPILE = "isamap compile gemm_f32 --hw generic-c -D M=4 N=4 K=4 --heuristic greedy -o out"


def shell(line: str, folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Return what `isamap` does in a shell, which may close or lead its streams elsewhere."""
    command = f'isamap() {{ "{sys.executable}" -m isamap "$@"; }}; {line}'
    environment = {**os.environ, "PYTHONPATH": ROOT, "ISAMAP_CACHE_DIR": str(folder / "cache"), **variables}
    environment.pop("PYTHONUNBUFFERED", None)  # what streams hold is written when a command ends
    words = ["bash", "-o", "pipefail", "-c", command]
    return subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("line", "code", "said"),
    [
        ("isamap --version >&-", 2, "standard output cannot be written: it is closed"),
        ("isamap --version > /dev/full", 2, "standard output cannot be written: No space left on device"),
        ("isamap fmt --help > /dev/full", 2, "standard output cannot be written: No space left on device"),
        ("isamap unknown-word > /dev/full 2>&-", 2, ""),
        ("isamap fmt - <&-", 0, ""),
    ],
)
def test_streams_that_take_nothing_end_in_a_message(line: str, code: int, said: str, tmp_path: Path) -> None:
    done = shell(line, tmp_path)
    assert (done.returncode, said in done.stderr, "Traceback" in done.stderr) == (code, True, False)


@pytest.mark.parametrize("what", ["file", "link"])
def test_a_cache_that_cannot_be_used_costs_a_warning(what: str, tmp_path: Path) -> None:
    if what == "file":
        (tmp_path / "cache").touch()
    else:
        (tmp_path / "cache").symlink_to(tmp_path / "nowhere")
    done = shell(COMPILE, tmp_path, PYTHONIOENCODING="ascii")
    assert done.returncode == 0
    assert done.stderr.count("warning[cache-unusable]") == 1
    assert (tmp_path / "out" / "manifest.json").exists()
