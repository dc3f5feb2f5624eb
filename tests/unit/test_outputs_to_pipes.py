"""An output that is a pipe or a device is written to, and stays what it is."""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from isamap.cli import main

GEMM = ("gemm_f32", "--hw", "generic-c", "-D", "M=4", "N=4", "K=4", "--heuristic", "greedy")


@pytest.mark.parametrize(
    ("command", "begins"),
    [
        (("schedule", *GEMM, "-o"), "isamap schedule"),
        (("hw", "schema", "-o"), "{"),
        (("hw", "show", "generic-c", "--svg"), "<svg"),
    ],
    ids=("schedule", "schema", "svg"),
)
def test_a_pipe_is_written_to_and_stays_a_pipe(command: Sequence[str], begins: str, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with ThreadPoolExecutor(1) as pool:
        reading = pool.submit(pipe.read_text)
        assert main([*command, str(pipe)]) == 0
        assert begins in reading.result(timeout=60)
    assert pipe.is_fifo()
    assert os.listdir(tmp_path) == ["pipe"]
