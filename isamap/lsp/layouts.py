"""Edits that lay a text out: of a kernel all of it, of a description the language in its literal blocks.

What cannot be read is left as it is.
"""

from __future__ import annotations

import re
from textwrap import dedent

from isamap.lsp.analysis import Analysis
from isamap.source import Edit, IsamapError, Source, Span
from isamap.syntax import format_source

# Variables of families become names while the text is laid out.
_VARIABLE, _PREFIX = re.compile(r"\$(?=[A-Z])"), "V0_"


def layout_edits(analysis: Analysis) -> list[Edit]:
    """The edits of a text; none where it is laid out already."""
    text = analysis.source.text
    edits: list[Edit] = []
    for start, end in analysis.regions:
        written = text[start:end]
        laid_out = _laid_out(written)
        if laid_out is not None and laid_out != written:
            edits.append(Edit(Span(analysis.source, start, end), laid_out))
    return edits


def _laid_out(written: str) -> str | None:
    """A piece in canonical layout, as far in as it is; None where it cannot be read."""
    if _PREFIX in written:
        return None
    body = dedent(written)
    if not body.strip() or "\n" not in written.strip("\n"):
        return None  # a text in a line with its key has no layout of its own
    first = next(line for line in written.splitlines() if line.strip())
    indent = first[: len(first) - len(first.lstrip())]
    try:
        laid_out = format_source(Source("block", _VARIABLE.sub(_PREFIX, body)))
    except IsamapError:
        return None
    lines = [f"{indent}{line}" if line else "" for line in laid_out.replace(_PREFIX, "$").splitlines()]
    ending = written[len(written.rstrip()) :]
    return "\n".join(lines) + (ending or "")
