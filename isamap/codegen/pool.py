"""The pool of threads that is written beside emitted code with parts for several: two files of C."""

from __future__ import annotations

from functools import cache
from pathlib import Path

_NAMES = ("isamap_pool.c", "isamap_pool.h")


@cache
def pool_files() -> dict[str, str]:
    """The files by name."""
    return {name: Path(__file__).with_name(name).read_text(encoding="utf-8") for name in _NAMES}
