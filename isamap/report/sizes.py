"""Numbers with units for people: bytes and shares of a whole."""

from __future__ import annotations

_UNITS = (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10))


def bytes_text(size: float) -> str:
    """Bytes in the unit that leaves the number readable: `48 B`, `1.5 KiB`, `128 MiB`."""
    unit, scale = next(((u, s) for u, s in _UNITS if size >= s), ("B", 1))
    value = size / scale
    return f"{value:.0f} {unit}" if value >= 100 or value == int(value) else f"{value:.3g} {unit}"


def percent_text(share: float) -> str:
    """A share of a whole: `87 %`, `0.4 %`, `0 %`."""
    value = 100 * share
    return f"{value:.0f} %" if value >= 10 or value == 0 else f"{value:.1f} %"
