"""The caches of this processor, as the operating system reports them.

`system_caches()` is `(SystemCache(49152, 12, 64), SystemCache(1310720, 20, 64))` where there are two.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from isamap.source import is_digits

CPUS = Path("/sys/devices/system/cpu")
_UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


@dataclass(frozen=True, slots=True)
class SystemCache:
    """A cache that holds data. Units: bytes; `ways` and `line_bytes` are None where they are not reported."""

    size_bytes: int
    ways: int | None
    line_bytes: int | None


def system_caches(cpus: Path = CPUS) -> tuple[SystemCache, ...]:
    """The caches between memory and the first core that this process may use, the nearest one first.

    None where the system says nothing of them, as in some containers, and on all but Linux.
    Source: Linux, Documentation/ABI/testing/sysfs-devices-system-cpu.
    """
    core = min(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 0
    found: list[tuple[int, SystemCache]] = []
    for folder in (cpus / f"cpu{core}" / "cache").glob("index*"):
        level, size = _number(folder / "level"), _number(folder / "size")
        if _text(folder / "type") in ("Data", "Unified") and level and size:
            ways, line = _number(folder / "ways_of_associativity"), _number(folder / "coherency_line_size")
            found.append((level, SystemCache(size, ways, line)))
    return tuple(cache for _, cache in sorted(found, key=lambda pair: pair[0]))


def _number(path: Path) -> int | None:
    """A positive number, `48K` in bytes; None where there is none."""
    text = _text(path)
    digits, unit = (text[:-1], _UNITS[text[-1]]) if text[-1:] in _UNITS else (text, 1)
    return int(digits) * unit or None if is_digits(digits) else None


def _text(path: Path) -> str:
    """What a file of the system holds; nothing where there is none, or none that may be read."""
    try:
        return path.read_text(encoding="ascii").strip()
    except OSError:
        return ""
