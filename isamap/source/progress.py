"""Progress of long work: a line on a terminal after a second, else log records of `isamap`.

A logger at the level INFO gets the records on a terminal as well, instead of the line. At the level ERROR
there is neither.

with Progress() as progress:
    progress("conv 1×56×56×64, 64×64×3×3 → 1×56×56×64", 12, 31)

[=====       ] conv 1×56×56×64, 64×64×3×3 → 1×56×56×64, 12 of 31, about 20 s left
"""

from __future__ import annotations

import logging
import shutil
import sys
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from types import TracebackType
from typing import Protocol, Self

DELAY_SECONDS = 1.0
CLEAR = "\r\x1b[K"
BAR = 12
LOG = logging.getLogger("isamap")

_shown: list[Progress] = []  # the one that writes: a command's own replaces that of all commands


class Limited(str):
    """The label of work with a time limit."""

    seconds: float

    def __new__(cls, label: str, seconds: float) -> Self:
        made = super().__new__(cls, label)
        made.seconds = seconds
        return made


@contextmanager
def log_progress(*, quiet: bool, verbose: bool) -> Generator[None]:
    """Suppress progress logs inside if `quiet`, or write each record to standard error if `verbose`."""
    before, handler = LOG.level, logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(asctime)s %(message)s", "%H:%M:%S"))
    if quiet or verbose:
        LOG.setLevel(logging.ERROR if quiet else logging.INFO)
    if verbose and not quiet:
        LOG.addHandler(handler)
    try:
        yield
    finally:
        LOG.setLevel(before)
        LOG.removeHandler(handler)


class Watch(Protocol):
    """A function that receives the current work, or the number of completed pieces and the total."""

    def __call__(self, label: str, done: int = 0, count: int = 0) -> None: ...


def unwatched(label: str, done: int = 0, count: int = 0) -> None:
    """Ignore all reports."""


class Progress:
    """Shows the current stage. Use: `with Progress() as progress: progress("schedule")`."""

    def __init__(self, label: str = "") -> None:
        self._label, self._share, self._count = label, 0.0, 0
        self._started = self._begun = time.monotonic()
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._show, daemon=True)

    def __call__(self, label: str, done: int = 0, count: int = 0) -> None:
        """Report the current work. With a count, report the completed part, and the estimated remaining time."""
        now = time.monotonic()
        if count != self._count or isinstance(label, Limited):
            self._count, self._begun = count, now
        self._share = done / count if count else 0.0
        if count:
            left = (now - self._begun) / done * (count - done) if done > 1 else 0.0
            about = f", about {left:.0f} s left" if left >= 1 else ""
            label = f"{label}, {done} of {count}{about}"
        if label != self._label and not self._thread.is_alive():
            LOG.info("%s", label)
        self._label = label

    def __enter__(self) -> Progress:
        while _shown:
            _shown.pop().stop()
        is_line = LOG.isEnabledFor(logging.WARNING) and not LOG.isEnabledFor(logging.INFO)
        if is_line and sys.stderr is not None and sys.stderr.isatty():
            self._thread.start()
            _shown.append(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """Erase the line, and write no further one."""
        self._done.set()
        if self._thread.is_alive():
            self._thread.join()

    def _show(self) -> None:
        if self._done.wait(DELAY_SECONDS):
            return
        while True:
            label, share, now = self._label or "working", self._share, time.monotonic()
            if isinstance(label, Limited):
                left = max(0.0, label.seconds - (now - self._begun))
                share, label = 1 - left / label.seconds, f"{label}, at most {left:.0f} s left"
            bar = f"[{'=' * round(BAR * share):<{BAR}}] " if share else ""
            text = f"{bar}{label} … {now - self._started:.0f} s"
            sys.stderr.write(f"{CLEAR}{text[: shutil.get_terminal_size().columns - 1]}")
            sys.stderr.flush()
            if self._done.wait(0.25):
                sys.stderr.write(CLEAR)
                sys.stderr.flush()
                return
