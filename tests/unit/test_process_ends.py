"""What a process starts ends with it, however that ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import isamap
from isamap.source.process import end_process, interrupts_put_off, run_process, start_process

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


# --- supervised programs ----------------------------------------------------------------------------------

ROOT = str(Path(isamap.__file__).parents[1])
HANGS = {
    "alone": "echo $$ > {said}; exec sleep 600",
    "in a child": "sleep 600 & echo $! > {said}; wait",
    "in a session of its own": "setsid sleep 600 & echo $! > {said}; wait",
    "behind its end": "(setsid sleep 600 & echo $! > {said}) & sleep 600",
}
COMPILER = """#!/bin/sh
case "$*" in *--version*) echo "gcc of a test"; exit 0;; esac
"""


def hanging(folder: Path, how: str) -> Path:
    """Return the file in which a compiler that hangs says which process has to end."""
    said = folder / "said"
    (folder / "gcc").write_text(COMPILER + HANGS[how].format(said=said), encoding="utf-8")
    (folder / "gcc").chmod(0o755)
    return said


def number_in(said: Path) -> Path:
    """Return the entry of /proc of the process that a file names, once it does."""
    stop = time.monotonic() + 60
    while not (said.exists() and said.read_text(encoding="utf-8").strip()):
        assert time.monotonic() < stop
        time.sleep(0.01)
    return Path("/proc", said.read_text(encoding="utf-8").strip())


def is_gone(process: Path) -> bool:
    """Return whether a process ends within some seconds."""
    stop = time.monotonic() + 10
    while process.exists() and time.monotonic() < stop:
        time.sleep(0.01)
    return not process.exists()


@pytest.mark.parametrize(
    ("how", "number"),
    [
        *((how, signal.SIGKILL) for how in HANGS),
        *(("in a session of its own", number) for number in (signal.SIGTERM, signal.SIGINT)),
    ],
)
def test_a_compiler_that_hangs_ends_with_isamap(how: str, number: signal.Signals, tmp_path: Path) -> None:
    said = hanging(tmp_path, how)
    words = [sys.executable, "-m", "isamap", "hw", "check", "--run", "generic-c"]
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "PYTHONPATH": ROOT}
    environment |= {"ISAMAP_CACHE_DIR": str(tmp_path / "cache"), "ISAMAP_CC": "gcc"}
    with subprocess.Popen(
        words, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as run:
        process = number_in(said)
        assert process.exists()
        run.send_signal(number)
    assert is_gone(process)


def test_what_a_thread_started_outlives_the_thread() -> None:
    with ThreadPoolExecutor(1) as pool:
        started = pool.submit(start_process, ["sleep", "600"]).result()
    time.sleep(0.2)
    assert started.poll() is None
    end_process(started)
    assert started.returncode == 0


def test_a_program_that_takes_too_long_leaves_nothing(tmp_path: Path) -> None:
    said = hanging(tmp_path, "in a session of its own")
    with pytest.raises(subprocess.TimeoutExpired):
        run_process([str(tmp_path / "gcc")], 1)
    assert is_gone(number_in(said))


def test_a_program_is_heard_to_its_end() -> None:
    done = run_process(["sh", "-c", "cat; echo said >&2; kill -SEGV $$"], 60, input="given", text=True)
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGSEGV, "given", "said\n")


def test_a_program_that_is_not_there_is_named() -> None:
    done = run_process(["there-is-no-such-program"], 60, text=True)
    named = "error: there-is-no-such-program cannot be started: No such file or directory\n"
    assert (done.returncode, done.stderr) == (127, named)
