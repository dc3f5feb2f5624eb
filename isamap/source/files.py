"""Files written whole or not at all: beside their place first, then renamed into it."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path


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
