"""Pieces of C text that know how tightly they bind, so that parentheses stand only where they are needed."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

POSTFIX, PREFIX, PRODUCT, SUM, SHIFT, RELATION, EQUALITY, BIT_AND, BIT_XOR, BIT_OR, AND, OR, CHOICE = range(
    16, 3, -1
)
_INFIX = {
    "*": PRODUCT, "/": PRODUCT, "%": PRODUCT, "+": SUM, "-": SUM, "<<": SHIFT, ">>": SHIFT, "<": RELATION,
    "<=": RELATION, ">": RELATION, ">=": RELATION, "==": EQUALITY, "!=": EQUALITY, "&": BIT_AND, "^": BIT_XOR,
    "|": BIT_OR, "&&": AND, "||": OR,
}  # fmt: skip
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True, slots=True)
class Text:
    """An expression of C and the precedence of its outermost operator."""

    text: str
    precedence: int = POSTFIX

    def inside(self, precedence: int) -> str:
        """The text as an operand of an operator that binds that tightly."""
        return self.text if self.precedence >= precedence else f"({self.text})"

    def __str__(self) -> str:
        return self.text


def infix(left: Text, operator: str, right: Text) -> Text:
    """`left operator right`, grouped from the left."""
    own = _INFIX[operator]
    # Compilers warn where a reader would stumble: shifts and bit operations get parentheses around others.
    wary = PREFIX if own in (SHIFT, BIT_AND, BIT_XOR, BIT_OR) else own
    first = left.inside(own if left.precedence == own else wary)
    return Text(f"{first} {operator} {right.inside(max(own + 1, wary))}", own)


def prefix(operator: str, value: Text) -> Text:
    """`operator value`, as `-x` or `(float)x`."""
    inner = value.inside(PREFIX)
    return Text(f"{operator}({inner})" if inner[0] == operator[-1] == "-" else operator + inner, PREFIX)


def cast(c_type: str, value: Text) -> Text:
    """`(c_type)value`."""
    return prefix(f"({c_type})", value)


def call(function: str, *args: Text) -> Text:
    """`function(args)`."""
    return Text(f"{function}({', '.join(a.text for a in args)})")


def choice(condition: Text, yes: Text, no: Text) -> Text:
    """`condition ? yes : no`."""
    return Text(f"{condition.inside(OR)} ? {yes.inside(OR)} : {no.inside(CHOICE)}", CHOICE)


def identifiers(lines: Iterable[str]) -> frozenset[str]:
    """All words of lines of C that may be names."""
    return frozenset(word for line in lines for word in _IDENTIFIER.findall(line))
