"""What the cache holds: its kinds with their sizes, entries that are damaged, and how to be rid of it all."""

from __future__ import annotations

import hashlib
import os
import re
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from isamap.codegen.cache import cache_root

PARTS = ("keys", "objects")
DIGEST = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of results. Units: bytes; `last_use` in seconds since 1970, 0 of nothing."""

    name: str
    entries: int
    size_bytes: int
    last_use: float

    @property
    def idle_days(self) -> float:
        """Days since any of it was used."""
        return max(0.0, time.time() - self.last_use) / 86400 if self.last_use else 0.0


def kinds() -> tuple[Kind, ...]:
    """All kinds in the cache, by name. Raises: UsageProblem when the cache cannot be used."""
    return tuple(_kind(folder) for folder in _folders())


def damaged() -> tuple[Path, ...]:
    """Objects whose content is not what their name says."""
    return tuple(
        path
        for folder in _folders()
        for path in sorted(_files(folder / "objects"))
        if hashlib.sha256(path.read_bytes()).hexdigest() != path.name
    )


def clear(name: str | None = None) -> tuple[Kind, ...]:
    """What was in the kinds that are gone now: one, or all."""
    found = tuple(kind for kind in kinds() if name in (None, kind.name))
    for kind in found:
        for part in PARTS:  # keys first: none of them names an object that is gone
            for path in _files(cache_root() / kind.name / part):
                path.unlink(missing_ok=True)
    return found


def _folders() -> list[Path]:
    """The folders of kinds: whatever else lies beside them was not put there by the cache."""
    found = sorted(path for path in cache_root().iterdir() if path.is_dir() and not path.is_symlink())
    return [path for path in found if {p.name for p in path.iterdir()} == set(PARTS)]


def _kind(folder: Path) -> Kind:
    statuses: list[os.stat_result] = []
    for part in PARTS:
        for path in _files(folder / part):
            with suppress(OSError):
                statuses.append(path.stat())
    return Kind(
        folder.name,
        sum(1 for _ in _files(folder / "keys")),
        sum(status.st_size for status in statuses),
        max((status.st_mtime for status in statuses), default=0.0),
    )


def _files(folder: Path) -> Iterator[Path]:
    """The files of a part: all are called by a digest."""
    yield from (path for path in folder.iterdir() if DIGEST.fullmatch(path.name) and path.is_file())
