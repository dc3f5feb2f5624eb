"""Where it is remembered which descriptions were checked."""

from __future__ import annotations

from pathlib import Path

from isamap.codegen.cache import cache_root
from isamap.source import OnlyWarned


def stamps_folder() -> Path | None:
    """The folder in the cache; None where that cannot be used. Raises: UsageProblem for an unsafe one."""
    with OnlyWarned():
        return cache_root() / "checked"
    return None
