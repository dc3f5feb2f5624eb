"""From text to typed IR: grammar, syntax tree, name resolution and type checking."""

from isamap.syntax.parser import format_source
from isamap.syntax.parsing import (
    VARIABLE,
    parse_expression,
    parse_kernel,
    parse_module,
    parse_template,
    resolve_template,
    substitute_text,
)
from isamap.syntax.tree_builder import parse_declarations

__all__ = [
    "VARIABLE", "format_source", "parse_declarations", "parse_expression", "parse_kernel", "parse_module",
    "parse_template", "resolve_template", "substitute_text",
]  # fmt: skip
