"""The readers of kernels, machines and schedules under coverage-guided fuzzing; an hour together.

`ISAMAP_FUZZ_SECONDS=60` says for how long each of them.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest
from fuzz.run import FINDING, READERS

SECONDS = os.environ.get("ISAMAP_FUZZ_SECONDS", "1200")
RUN = Path(__file__).parent / "run.py"
PLANTED = """
import time
from pathlib import Path

from fuzz.run import fuzz

def read(text: str, folder: Path) -> None:
    if "!" in text:
        {fault}

fuzz(read, [{start!r}], Path({folder!r}), {seconds}, cpu_seconds=1)
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
    words = [str(RUN), "--seconds", SECONDS, "--keep", str(tmp_path), reader]
    assert findings(words, tmp_path) == []


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("raise KeyError(text)", "KeyError"),
        ("read(text, folder)", "RecursionError"),
        ("sum(k * k for k in range(1 << 26))", "seconds of the processor for one input"),
    ],
)
def test_a_reader_that_fails_is_found(fault: str, said: str, tmp_path: Path) -> None:
    script = PLANTED.format(fault=fault, start=b"isamap", folder=str(tmp_path), seconds=120)
    (found,) = findings(["-c", script], tmp_path)
    assert said in found


def test_a_reader_that_only_waits_is_none(tmp_path: Path) -> None:
    fault = '(folder / "waited").touch(); time.sleep(2)'
    script = PLANTED.format(fault=fault, start=b"isamap!", folder=str(tmp_path), seconds=3)
    assert findings(["-c", script], tmp_path) == []
    assert (tmp_path / "work" / "waited").exists()


def findings(words: list[str], folder: Path) -> list[str]:
    """What a run says that ended on an input; nothing where it found none."""
    tests = str(RUN.parents[1])
    done = subprocess.run(
        [sys.executable, *words],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(RUN.parents[2]), tests])},
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    inputs = [path.read_bytes() for path in folder.glob(f"{FINDING}*")]
    assert bool(inputs) == (done.returncode != 0), done.stderr[-4000:]
    return [f"{done.stderr[-4000:]}\n{done.stdout[-4000:]}\n{data!r}" for data in inputs]
