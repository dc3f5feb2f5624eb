"""Files read up to a limit, and files written whole or not at all.

What is written stands beside its place first, and is then renamed into it.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path


def read_limited(path: Path, limit: int) -> bytes:
    """The first `limit` + 1 bytes of a regular file: one more than may be, so that a caller can tell.

    Raises: OSError, for what is no regular file too, as a pipe without a writer would be waited for;
    ValueError where the name holds a zero character.
    """
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    with os.fdopen(handle, "rb") as file:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise OSError(errno.EINVAL, "it is no regular file")
        return file.read(limit + 1)


def replace_file(
    path: Path,
    content: bytes,
    mode: int = 0o644,
    place: Callable[[str, Path], None] | None = None,
    *,
    durable: bool = False,
) -> None:
    """Makes or replaces a file at once, with the rights `mode`; `place` gives the finished one its name.

    A `durable` one is on the disk when this returns. Raises: OSError; nothing is left half-written.
    """
    import tempfile  # here, for `isamap --version` writes nothing

    handle, made = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name[:40]}-")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            if durable:
                file.flush()
                os.fsync(file.fileno())
        os.chmod(made, mode)
        (place or os.replace)(made, path)
    finally:
        with suppress(OSError):
            os.unlink(made)
