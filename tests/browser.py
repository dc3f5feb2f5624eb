"""A headless Chromium, told what to do through a pipe: keys, the mouse, sizes and modes of a page.

    with Browser(folder) as browser:
        browser.open(path)
        browser.press("Tab")
        browser.value("document.activeElement.id")

Source: Chrome DevTools Protocol, whose messages end with a zero byte each.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

NAMES = ("chromium", "chromium-browser", "google-chrome")
OPTIONS = ("--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe", "--hide-scrollbars")
# The browser reads from file 3 and writes to file 4.
EXEC = """
import os, sys
os.dup2(int(sys.argv[1]), 3)
os.dup2(int(sys.argv[2]), 4)
os.execv(sys.argv[3], sys.argv[3:])
"""
KEYS = {
    "Tab": 9, "Escape": 27, "End": 35, "Home": 36,
    "ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40,
}  # fmt: skip


def chromium() -> str | None:
    """Return the program, where it is installed."""
    return next((path for name in NAMES if (path := shutil.which(name)) is not None), None)


class Browser:
    """One page of a browser that keeps its files in `folder`; `errors` are those of the page's script."""

    def __init__(self, folder: Path) -> None:
        program = chromium()
        assert program is not None, "asked before"
        near, self._to = os.pipe()
        self._from, far = os.pipe()
        ends = [fcntl.fcntl(end, fcntl.F_DUPFD, 10) for end in (near, far)]
        command = [sys.executable, "-c", EXEC, *map(str, ends), program, *OPTIONS]
        self.process = subprocess.Popen(
            [*command, f"--user-data-dir={folder}", "about:blank"],
            pass_fds=ends,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        for end in (near, far, *ends):
            os.close(end)
        self.errors: list[str] = []
        self.requests: list[str] = []
        self._count = 0
        self._rest = b""
        self._session: str | None = None

    def __enter__(self) -> Self:
        target = self.ask("Target.createTarget", {"url": "about:blank"})["targetId"]
        attached = self.ask("Target.attachToTarget", {"targetId": target, "flatten": True})
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Network"):
            self.ask(f"{domain}.enable")
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        os.close(self._to)
        os.close(self._from)

    def ask(self, method: str, params: Mapping[str, object] | None = None) -> dict[str, Any]:
        """Return the answer to one message."""
        self._count += 1
        message: dict[str, object] = {"id": self._count, "method": method, "params": dict(params or {})}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while (found := self._next()).get("id") != self._count:
            self._notice(found)
        assert "error" not in found, found
        return found["result"]

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            more = os.read(self._from, 1 << 16)
            assert more, "the browser has ended"
            self._rest += more
        message, _, self._rest = self._rest.partition(b"\0")
        return json.loads(message)

    def _notice(self, event: dict[str, Any]) -> None:
        if event.get("method") == "Runtime.exceptionThrown":
            self.errors.append(json.dumps(event["params"]["exceptionDetails"]))
        if event.get("method") == "Network.requestWillBeSent":
            self.requests.append(event["params"]["request"]["url"])

    def open(self, path: Path) -> None:
        """A file, loaded as a whole."""
        self.ask("Page.navigate", {"url": path.resolve().as_uri()})
        while self.value("document.readyState") != "complete" or self.value("location.protocol") != "file:":
            pass

    def value(self, expression: str) -> Any:
        """Return what an expression of the page's script comes to."""
        found = self.ask("Runtime.evaluate", {"expression": expression, "returnByValue": True})
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def press(self, key: str, times: int = 1) -> None:
        """A key, as a person presses it."""
        for _ in range(times):
            for kind in ("rawKeyDown", "keyUp"):
                event = {"type": kind, "key": key, "code": key, "windowsVirtualKeyCode": KEYS[key]}
                self.ask("Input.dispatchKeyEvent", event)

    def point(self, selector: str) -> None:
        """The mouse on the middle of an element."""
        place = f"(r => [r.x + r.width / 2, r.y + r.height / 2])({self._element(selector)})"
        x, y = self.value(place)
        self.ask("Input.dispatchMouseEvent", {"type": "mouseMoved", "x": x, "y": y})

    def _element(self, selector: str) -> str:
        return f"document.querySelector({json.dumps(selector)}).getBoundingClientRect()"

    def width(self, pixels: int) -> None:
        """The width of the window."""
        size = {"width": pixels, "height": 900, "deviceScaleFactor": 1, "mobile": False}
        self.ask("Emulation.setDeviceMetricsOverride", size)

    def mode(self, scheme: str) -> None:
        """What the reader prefers: `light` or `dark`."""
        feature = {"name": "prefers-color-scheme", "value": scheme}
        self.ask("Emulation.setEmulatedMedia", {"features": [feature]})
