"""From text to typed IR: grammar, syntax tree, name resolution and type checking."""

from isamap.syntax.build import parse_declarations
from isamap.syntax.format import format_source
from isamap.syntax.parse import parse_expression, parse_index, parse_kernel, parse_module
from isamap.syntax.templates import VARIABLE, parse_template, resolve_template, substitute_text

__all__ = [
    "VARIABLE",
    "format_source",
    "parse_declarations",
    "parse_expression",
    "parse_index",
    "parse_kernel",
    "parse_module",
    "parse_template",
    "resolve_template",
    "substitute_text",
]
