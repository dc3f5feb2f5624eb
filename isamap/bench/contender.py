"""The parent's handle of a contender, a process that runs only while it is timed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from select import select
from types import TracebackType
from typing import Any

from isamap.bench.libraries import threads_environment
from isamap.bench.ring import Task
from isamap.source import IsamapError

PATIENCE_S = 900


class ContenderLost(IsamapError):
    """An error: a contender's process ended, or did not answer."""

    exit_code = 1


class Contender:
    """One contender's process, paused while others are timed, so that its threads do not spin."""

    def __init__(self, name: str, threads: int, held: Mapping[str, str], cores: frozenset[int]) -> None:
        self.name, self.cores, self.threads = name, cores, threads
        self.implementation = ""
        self.in_c = True
        self.dispatch_ns = 0.0
        self._environment = {**os.environ, **threads_environment(threads), **held}
        self._start()

    def _start(self) -> None:
        down, up = os.pipe(), os.pipe()
        numbers = (self.threads, down[0], up[1], os.getpid())
        words = [sys.executable, "-m", "isamap.bench.contender_process", self.name, *map(str, numbers)]
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the contender; a pipe could fill
        self._process = subprocess.Popen(
            words, env=self._environment, pass_fds=(down[0], up[1]), stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=self._log,
        )  # fmt: skip
        os.sched_setaffinity(self._process.pid, self.cores)
        os.close(down[0])
        os.close(up[1])
        self._requests = os.fdopen(down[1], "w", encoding="utf-8")
        self._answers = os.fdopen(up[0], encoding="utf-8")
        self._answer()

    def prepare(self, task: Task[Any]) -> bool:
        """Prepare a task, and start a lost process again. Return whether the contender supports the task."""
        if self._process.poll() is not None:
            self._close()
            self._start()
        answer = self._ask({"task": task.as_json()})
        if answer["offered"]:
            self.implementation, self.in_c = answer["implementation"], answer["in_c"]
            self.dispatch_ns = answer["dispatch_ns"]
        return bool(answer["offered"])

    def time(self, calls: int, first: int = 0) -> int:
        """Return the nanoseconds of a number of calls. Raises: ContenderLost."""
        ns = int(self._ask({"calls": calls, "first": first})["ns"])
        if ns < 0:
            raise self._report_loss("reports an error")
        return ns

    def _ask(self, request: Mapping[str, Any]) -> dict[str, Any]:
        self._process.send_signal(signal.SIGCONT)
        with suppress(BrokenPipeError):  # then there is no answer
            self._requests.write(json.dumps(request) + "\n")
            self._requests.flush()
        return self._answer()

    def _answer(self) -> dict[str, Any]:
        """Return the next answer of the process, and pause the process until its next task."""
        if not select([self._answers], [], [], PATIENCE_S)[0]:
            raise self._report_loss(f"gave no answer in {PATIENCE_S} s")
        line = self._answers.readline()
        if not line:
            raise self._report_loss("ended")
        self._process.send_signal(signal.SIGSTOP)
        return json.loads(line)

    def _report_loss(self, what: str) -> ContenderLost:
        self._process.kill()
        self._process.wait()
        self._log.seek(0)
        says = self._log.read().decode(errors="replace")
        notes = tuple(line[:300] for line in says.splitlines()[-4:])
        return ContenderLost.of("contender-lost", f"the contender {self.name} {what}", notes=notes)

    def __enter__(self) -> Contender:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.wait()
        self._close()

    def _close(self) -> None:
        with suppress(OSError):
            self._requests.close()
        self._answers.close()
        self._log.close()
