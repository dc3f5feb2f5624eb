"""Edits applied to a text: each replaces one span, all at once.

`apply_edits("a + b", (Edit(span of "b", "f32(b)"),))` is `"a + f32(b)"`.
"""

from __future__ import annotations

from collections.abc import Iterable

from isamap.source.diagnostic import Edit


def apply_edits(text: str, edits: Iterable[Edit]) -> str:
    """The text with every edit made; edits do not overlap, and stand in any order."""
    pieces: list[str] = []
    at = 0
    for edit in sorted(edits, key=lambda e: (e.span.start, e.span.end)):
        assert edit.span.start >= at, "edits do not overlap"
        pieces += [text[at : edit.span.start], edit.replacement]
        at = edit.span.end
    return "".join((*pieces, text[at:]))
