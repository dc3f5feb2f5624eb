"""Contenders are stopped outside their turns; none of them outlives a benchmark, even one that is killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

START = """\
import os, time
from isamap.bench.contender import Contender
with Contender("isamap", 1, {}, frozenset(os.sched_getaffinity(0))) as contender:
    print(contender._process.pid, flush=True)
    time.sleep(60)
"""
PATIENCE_S = 20.0


def is_there(pid: int) -> bool:
    """Return whether a process runs or is stopped; one that ended and was not waited for is gone."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state not in "ZX"


@pytest.mark.skipif(sys.platform != "linux", reason="asks Linux for it")
def test_a_stopped_contender_ends_with_a_benchmark_that_is_killed() -> None:
    with subprocess.Popen([sys.executable, "-c", START], stdout=subprocess.PIPE, text=True) as benchmark:
        assert benchmark.stdout is not None
        contender = int(benchmark.stdout.readline())
        assert is_there(contender)
        os.kill(benchmark.pid, signal.SIGKILL)
    until = time.monotonic() + PATIENCE_S
    while is_there(contender) and time.monotonic() < until:
        time.sleep(0.05)
    is_left = is_there(contender)
    if is_left:
        os.kill(contender, signal.SIGKILL)
    assert not is_left
