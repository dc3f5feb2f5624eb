"""Standard input and output in any state: closed, full, without a reader, or in any encoding.

An answer that cannot be written is said on standard error, and the exit code is not 0; a reader that has
gone, as `head` does, wants no more and is told nothing.
"""

from __future__ import annotations

import errno
import os
import sys
from contextlib import suppress
from typing import IO, Any

UNWRITTEN = 2
"""The exit code of a command that did its work, but could not write its answer."""


def prepare_streams() -> None:
    """Open closed standard streams on the null device, and escape unencodable text."""
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest number that is free
    # Python has None for those. That of standard output stays, for an answer was asked for.
    if _is_missing(sys.stdin):
        sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115 - until the end of the process
    if _is_missing(sys.stderr):
        sys.stderr = open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115 - likewise
    reconfigure: Any = getattr(sys.stdout, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(errors="backslashreplace")


def takes_unicode() -> bool:
    """Return whether standard output encodes all characters."""
    encoding: str | None = getattr(sys.stdout, "encoding", None)
    return encoding is None or encoding.lower().replace("-", "") == "utf8"


def is_terminal() -> bool:
    """Return whether standard output is a terminal."""
    return not _is_missing(sys.stdout) and sys.stdout.isatty()


def write_answer(text: str, code: int) -> int:
    """Write a command's answer. Return `code`, or another exit code if it cannot be written."""
    try:
        if _is_missing(sys.stdout):
            raise OSError(errno.EBADF, "it is closed")
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        _discard(sys.stdout)
    except OSError as error:
        _discard(sys.stdout)
        complain(f"error[output-unwritable]: standard output cannot be written: {error.strerror}")
        return code or UNWRITTEN
    return code


def complain(text: str) -> None:
    """Write a line for users to standard error, if it is open."""
    try:
        print(text, file=sys.stderr, flush=True)
    except OSError:
        _discard(sys.stderr)


def discard_output() -> None:
    """Discard buffered text that a full standard output does not accept."""
    try:
        if not _is_missing(sys.stdout):
            sys.stdout.flush()
    except OSError:
        _discard(sys.stdout)


def _is_missing(stream: IO[str] | None) -> bool:
    return stream is None


def _discard(stream: IO[str] | None) -> None:
    """Discard a stream's buffered text, which would otherwise fail again at the end of the process."""
    if stream is not None:
        with suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
