"""Processes that predict end with the one that started them, however that ends."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

from isamap.source.process import interrupts_put_off

CHILD = """
import os, sys, time
from isamap.source.process import end_with
end_with(os.getppid())
print(os.getpid(), flush=True)
time.sleep(60)
"""
PARENT = f"""
import subprocess, sys
subprocess.run([sys.executable, "-c", {CHILD!r}])
"""


def test_a_process_ends_with_its_parent() -> None:
    with subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        child = Path("/proc") / parent.stdout.readline().strip()
        assert child.is_dir()
        parent.kill()
        for _ in range(100):
            if not child.exists():
                break
            time.sleep(0.05)
        assert not child.exists()


def test_a_process_whose_parent_is_gone_ends_at_once() -> None:
    script = CHILD.replace("os.getppid()", "1 + os.getppid()")
    assert subprocess.run([sys.executable, "-c", script], check=False, stdout=subprocess.PIPE).stdout == b""


def test_what_is_started_meanwhile_hears_no_interrupt() -> None:
    script = "import signal; print(signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, []))"
    with interrupts_put_off():
        inside = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    assert inside.stdout == "True\n"
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, [])
