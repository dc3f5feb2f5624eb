"""Descriptions of library calls, as data files in this folder."""

from __future__ import annotations

from pathlib import Path

FOLDER = Path(__file__).resolve().parent
SUFFIX = ".yaml"


def shipped_descriptions() -> tuple[Path, ...]:
    """Return the files of descriptions and interfaces, sorted."""
    return tuple(sorted(FOLDER.glob(f"*{SUFFIX}")))
