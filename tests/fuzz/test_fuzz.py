"""All readers of files under coverage-guided fuzzing; some hours together.

`ISAMAP_FUZZ_SECONDS=60` says for how long each of them. CONTRIBUTING.md has the command for longer runs.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from fuzz.readers import READERS
from fuzz.run import FINDING, STATE

SECONDS = int(os.environ.get("ISAMAP_FUZZ_SECONDS", "600"))
RUN = Path(__file__).parent / "run.py"
PLANTED = """
import os, subprocess, time
from pathlib import Path

from fuzz.run import fuzz

def read(data: bytes, folder: Path) -> None:
    if b"!" in data:
        {fault}

fuzz(read, lambda: [{start!r}], Path({folder!r}), {seconds}, cpu_seconds=1)
"""

pytestmark = [
    pytest.mark.exhaustive,
    pytest.mark.skipif(
        importlib.util.find_spec("atheris") is None,
        reason="atheris is not installed: the extra `fuzz` has it",
    ),
]


@pytest.mark.parametrize("reader", READERS)
def test_no_input_ends_a_reader_otherwise_than_by_a_refusal(reader: str, tmp_path: Path) -> None:
    if reader == "onnx":
        pytest.importorskip("onnx", reason="models of ONNX need the package onnx: pip install 'isamap[onnx]'")
    done = run([str(RUN), str(tmp_path), reader, "--minutes", str(SECONDS / 60)])
    assert done.returncode == 0, done.stdout[-4000:]


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("raise KeyError(data)", "KeyError"),
        ("read(data, folder)", "RecursionError"),
        ("sum(k * k for k in range(1 << 26))", "seconds of the processor for one input"),
        ("bytes(1 << 34)", "MemoryError"),
        ("(folder / 'link').read_bytes()", "a file outside of the folder was opened"),
        ("(folder / 'hard').read_bytes()", "a file outside of the folder was opened"),
        ("Path('/etc/hostname').read_bytes()", "is opened outside of the folder"),
        ("Path('../../x').write_bytes(data)", "is opened outside of the folder"),
        ("subprocess.run(['true'])", "subprocess.Popen"),
    ],
)
def test_a_reader_that_fails_is_found(fault: str, said: str, tmp_path: Path) -> None:
    script = PLANTED.format(fault=fault, start=b"isamap", folder=str(tmp_path), seconds=120)
    done = run(["-c", script])
    assert list(tmp_path.glob(f"{FINDING}*"))
    assert said in done.stdout + done.stderr


def test_a_reader_that_only_waits_is_none(tmp_path: Path) -> None:
    fault = '(folder / "waited").touch(); time.sleep(2)'
    script = PLANTED.format(fault=fault, start=b"isamap!", folder=str(tmp_path), seconds=3)
    assert run(["-c", script]).returncode == 0
    assert (tmp_path / "work" / "waited").exists()


def test_a_run_goes_on_where_it_was_stopped(tmp_path: Path) -> None:
    had = {"seconds": 60, "executions": 7, "coverage": 3, "findings": 0}
    (tmp_path / STATE).write_text(json.dumps({"npy": had}), encoding="utf-8")
    assert "| npy | 60 | 7 | 3 | 0 |" in run([str(RUN), str(tmp_path), "npy", "--minutes", "1"]).stdout
    (tmp_path / "npy").mkdir()
    (tmp_path / "npy" / f"{FINDING}before").write_bytes(b"mended meanwhile")
    done = run([str(RUN), str(tmp_path), "npy", "--minutes", "1.1"])
    assert done.returncode == 0, done.stdout
    assert json.loads((tmp_path / STATE).read_text(encoding="utf-8"))["npy"]["seconds"] == 66
    assert (tmp_path / "npy" / "inputs" / f"{FINDING}before").exists()


def run(words: list[str]) -> subprocess.CompletedProcess[str]:
    tests = str(RUN.parents[1])
    return subprocess.run(
        [sys.executable, *words],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(RUN.parents[2]), tests])},
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
