"""Stamp files with a digest of their content, which shows whether isamap's output was changed.

The digest is of the text with zeros in its place.
"""

from __future__ import annotations

import hashlib
import re

_MARK = "isamap sha256:"
STAMP = _MARK + 64 * "0"
"""The placeholder for the digest in a text; only the first one is replaced."""
_STAMPED = re.compile(_MARK + r"(?P<digest>[0-9a-f]{64})")


def add_digest(text: str) -> str:
    """Return the text with its digest."""
    assert STAMP in text, "it has a place for the digest"
    return text.replace(STAMP, _MARK + _digest(text), 1)


def is_stamped(text: str) -> bool:
    """Return whether a text says that isamap wrote it."""
    return _STAMPED.search(text) is not None


def is_as_stamped(text: str) -> bool:
    """Return whether a text is unchanged since isamap wrote it."""
    found = _STAMPED.search(text)
    if found is None:
        return False
    bare = text[: found.start()] + STAMP + text[found.end() :]
    return _digest(bare) == found["digest"]


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
