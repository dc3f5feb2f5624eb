"""What `isamap fmt` prints: the text in canonical layout, with its comments and its own order and names."""

from __future__ import annotations

from isamap.ir.layout import layout
from isamap.source import Source
from isamap.syntax.parser import parse_tree


def format_source(source: Source) -> str:
    """The canonical text; formatting it again changes nothing. Raises: SyntaxProblem."""
    parse_tree(source)
    return layout(source.text)
