"""Where it is remembered which descriptions were checked."""

from __future__ import annotations

from pathlib import Path

from isamap.codegen.cache import cache_root


def stamps_folder() -> Path:
    """The folder in the user's cache. Raises: UsageProblem when the cache cannot be used."""
    return cache_root() / "checked"
