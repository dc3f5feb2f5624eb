"""From text to typed IR: grammar, syntax tree, name resolution and type checking."""

from isamap.syntax.parsing import (
    VARIABLE,
    Family,
    family_of,
    parse_expression,
    parse_kernel,
    parse_module,
    parse_template,
    resolve_template,
    substitute_text,
)

__all__ = [
    "VARIABLE", "Family", "family_of", "parse_expression", "parse_kernel", "parse_module", "parse_template",
    "resolve_template", "substitute_text",
]  # fmt: skip
