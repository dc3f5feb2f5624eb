"""A line on standard error that says what takes so long: after a second, on a terminal only."""

from __future__ import annotations

import sys
import threading
import time
from types import TracebackType

DELAY_SECONDS = 1.0
CLEAR = "\r\x1b[K"


class Progress:
    """Shows the stage that runs; `with Progress() as progress: progress("schedule")`."""

    def __init__(self) -> None:
        self._label = ""
        self._started = time.monotonic()
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._show, daemon=True)

    def __call__(self, label: str) -> None:
        self._label = label

    def __enter__(self) -> Progress:
        if sys.stderr.isatty():
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._done.set()
        if self._thread.is_alive():
            self._thread.join()

    def _show(self) -> None:
        if self._done.wait(DELAY_SECONDS):
            return
        while True:
            seconds = time.monotonic() - self._started
            sys.stderr.write(f"{CLEAR}{self._label or 'working'} … {seconds:.0f} s")
            sys.stderr.flush()
            if self._done.wait(0.25):
                sys.stderr.write(CLEAR)
                sys.stderr.flush()
                return
