"""What is said about a diagnostic code, at length."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Explanation:
    """What a code means, in one line and at length, and a text that is refused with it."""

    title: str
    text: str
    example: str | None = None
