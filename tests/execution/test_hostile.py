"""Code that does what emitted code must not: each end is told apart, and nothing of it is left."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

import isamap
from isamap.run import child
from isamap.run.child import Emulator
from isamap.run.runner import ChildLimits, RunProblem, RunResult, run_program
from isamap.run.toolchain import Compiled, build, find_compiler
from isamap.source import IsamapError

# Functions see the struct of the kernel's arguments: A, the stride of A, B, the stride of B, C.
HEAD = """
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#define FUNCTION(name, body) \\
  size_t name##_workspace_bytes(const void *a) { return SIZE_##name; } \\
  int name(void **a, void *workspace, void *pool) { float *C = a[4]; body }
"""

FAST = ChildLimits(seconds=60, memory_bytes=256 << 20)
SHORT = ChildLimits(seconds=0.5, memory_bytes=256 << 20)


@dataclass(frozen=True)
class Case:
    """The body of a function, and how it ends: the status that it returns, or the code of the finding."""

    body: str
    end: int | str
    limits: ChildLimits = FAST
    workspace_bytes: int = 0


CASES = {
    "segv": Case("*(volatile int *)8 = 1; return 0;", "program-crashed"),
    "ill": Case("__builtin_trap();", "program-crashed"),
    "loop": Case('for (;;) __asm__ volatile("");', "program-timeout", SHORT),
    "asleep": Case("for (;;) pause();", "program-timeout", SHORT),
    "leak": Case(
        "for (;;) { char *p = malloc(1 << 24); if (!p) abort(); memset(p, 1, 1 << 24); }", "program-crashed"
    ),
    "forks": Case("int p = fork(); if (p == 0) for (;;) pause(); C[0] = p; return 0;", 0),
    "copies": Case("for (int i = 0; i < 3; i++) fork(); return 0;", 0),
    "prints": Case('for (int i = 0; i < 9; i++) puts("{\\"error\\":null}"); fflush(stdout); return 0;', 0),
    "floods": Case(
        "static char b[1 << 20]; for (int i = 0; i < 400; i++) { write(1, b, sizeof b);"
        " if (i < 40) write(2, b, sizeof b); } return 0;",
        0,
    ),
    "exits": Case("_exit(0);", "program-unanswered"),
    "answers": Case(
        'static char t[] = "{\\"status\\":0,\\"times\\":[],\\"workspace_bytes\\":0,\\"nonce\\":\\"\\"}";'
        " for (int i = 1; i < 64; i++) write(i, t, sizeof t - 1); _exit(0);",
        "program-unanswered",
    ),
    "disturbs": Case('for (int i = 1; i < 64; i++) write(i, "[[", 2); return 0;', "program-unanswered"),
    "closes": Case("for (int i = 0; i < 64; i++) close(i); return 0;", "program-unanswered"),
    "fails": Case("_exit(7);", "program-failed"),
    "aborts": Case("abort();", "program-crashed"),
    "refuses": Case("return 9;", 9),
    "deep": Case("volatile char b[1 << 26]; memset((void *)b, 1, sizeof b); return b[5];", "program-crashed"),
    "terminates": Case("kill(getpid(), SIGTERM); return 0;", "program-crashed"),
    "kills_supervisor": Case("kill(getppid(), SIGKILL); for (;;) pause();", "program-out-of-memory"),
    "stops_supervisor": Case("kill(getppid(), SIGSTOP); _exit(0);", "program-timeout", SHORT),
    "beside": Case("((float *)a[0])[-1] = 3; return 0;", 0),
    "deaf": Case("signal(SIGTERM, SIG_IGN); signal(SIGXCPU, SIG_IGN); for (;;);", "program-timeout", SHORT),
    "large": Case("return 0;", "program-out-of-memory", workspace_bytes=1 << 45),
    "parts": Case(
        "int p = fork(); if (p == 0) { setsid(); close(0); if (fork()) for (;;) pause(); for (;;) pause(); }"
        " C[0] = p; return 0;",
        0,
    ),
    "truncates": Case("for (int i = 3; i < 64; i++) ftruncate(i, 0); return 0;", 0),
}


@pytest.fixture(scope="module")
def good() -> Compiled:
    kernel = isamap.compile("gemm_f32", "generic-c", {"M": 4, "N": 4, "K": 4}, heuristic="greedy")
    return kernel.prepared.compiled


@pytest.fixture(scope="module")
def hostile() -> Path:
    """Return a library of all the functions."""
    sizes = [f"#define SIZE_{name} {case.workspace_bytes}ull" for name, case in CASES.items()]
    functions = [f"FUNCTION({name}, {case.body})" for name, case in CASES.items()]
    text = "\n".join([HEAD, *sizes, *functions])
    return build(find_compiler(("-w",)), ("-w", "-O0"), {"hostile.c": text}, "hostile.c")


def call(compiled: Compiled, limits: ChildLimits = FAST, emulator: Emulator | None = None) -> RunResult:
    ones = np.ones((4, 4), np.float32)
    arrays = {"A": ones, "B": ones, "C": np.zeros((4, 4), np.float32)}
    return run_program(compiled, arrays, limits=limits, emulator=emulator)


def named(good: Compiled, library: Path, name: str) -> Compiled:
    return replace(good, library=library, interface=replace(good.interface, name=name))


def end_of(compiled: Compiled, limits: ChildLimits) -> int | str:
    """Return the status of a call, or the code of what was found."""
    try:
        result = call(compiled, limits)
    except RunProblem as problem:
        return problem.diagnostics[0].code
    if pid := int(result.arrays["C"][0, 0]):
        assert not is_alive(pid), "what it has started has ended before its result is there"
    return result.status


def is_alive(pid: int) -> bool:
    with suppress(ProcessLookupError):
        os.kill(pid, 0)
        return True
    return False


@pytest.mark.parametrize("name", CASES)
def test_each_end_is_told_apart_and_the_next_run_is_right(name: str, good: Compiled, hostile: Path) -> None:
    case = CASES[name]
    ended = end_of(named(good, hostile, name), case.limits)
    assert ended == case.end
    assert (call(good).arrays["C"] == 4).all()


def test_what_an_emulator_leaves_ends_with_it(good: Compiled, tmp_path: Path) -> None:
    script, said = tmp_path / "emulator", tmp_path / "pid"
    script.write_text(
        f'#!/bin/sh\nsetsid sleep 1000 & echo $! > {shlex.quote(str(said))}; exec "$@"\n', encoding="utf-8"
    )
    script.chmod(0o755)
    assert call(good, emulator=Emulator((str(script),))).status == 0
    assert not is_alive(int(said.read_text(encoding="utf-8")))


def test_code_ends_with_the_process_that_runs_it(good: Compiled, hostile: Path) -> None:
    """However that one ended: it cannot do anything about it any more."""
    program = (
        "import sys\n"
        "from isamap.run.child import ChildLimits, ChildProgram, run_child, shared_file\n"
        "with shared_file(0) as file:\n"
        "    job = dict(library=sys.argv[1], function='asleep', fields=[], regions=[], size=0, guard=False,\n"
        "               repeat=0, permissions=[], threads=1, cpu_seconds=99, memory_bytes=1 << 30)\n"
        "    print('started', flush=True)\n"
        "    run_child({**job, 'file': file.fileno()}, ChildLimits(), ChildProgram('it', sys.argv[1], ''))\n"
    )
    words = [sys.executable, "-c", program, str(hostile)]
    caller = subprocess.Popen(words, stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": ROOT})
    assert caller.stdout is not None
    with caller.stdout as output:
        assert output.readline() == b"started\n"
    while len(_run_for(caller.pid)) < 2:  # the supervisor and the worker
        assert caller.poll() is None
        time.sleep(0.01)
    caller.send_signal(signal.SIGKILL)
    caller.wait()
    while _run_for(caller.pid):
        time.sleep(0.01)


ROOT = str(Path(isamap.__file__).parents[1])


def _run_for(caller: int) -> list[int]:
    """Return the processes that run code for another one, whose number they are started with."""
    found: list[int] = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            words = (folder / "cmdline").read_bytes().split(b"\0")
            if str(caller).encode() in words and any(w.endswith(b"supervisor.py") for w in words):
                found.append(int(folder.name))
    return found


# --- limits of the caller ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("limit", "most", "name", "said"),
    [
        ("RLIMIT_CPU", 2, "loop", "needs more than the 1 s of processor time that this process may use"),
        ("RLIMIT_AS", 1 << 30, "large", "needs more than the 1.00 GiB of memory that this process may use"),
    ],
)
def test_a_limit_of_the_caller_that_is_too_low_is_not_blamed_on_the_code(
    limit: str,
    most: int,
    name: str,
    said: str,
    good: Compiled,
    hostile: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(child, "hard_limit", {limit: most}.get)
    with pytest.raises(IsamapError) as found:
        call(named(good, hostile, name), ChildLimits(seconds=60, memory_bytes=8 << 30))
    (problem,) = found.value.diagnostics
    assert (problem.code, found.value.exit_code) == ("limit-too-low", 5)
    assert said in problem.message


def test_limits_below_those_of_a_run_do_where_they_are_enough() -> None:
    """A process that may not raise its limits does not try to, nor do those that it starts."""
    words = [
        sys.executable,
        "-m",
        "isamap",
        "verify",
        "gemm_f32",
        "--hw",
        "generic-c",
        "--heuristic",
        "greedy",
    ]
    words += ["-D", "M=4", "-D", "N=4", "-D", "K=4"]
    # These tests may run as root, which may raise them.
    drop = "setpriv --bounding-set=-sys_resource" if os.geteuid() == 0 else ""
    line = f"ulimit -t 100 -v 3000000; exec {drop} {shlex.join(words)}"
    environment = {**os.environ, "PYTHONPATH": ROOT}
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, env=environment, check=False)
    assert (done.returncode, done.stderr) == (0, "")
