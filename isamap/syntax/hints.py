"""Suggest this language's spelling of other languages' functions, types and operators.

`fabs(x[i])` is `abs(x[i])`. `a && b` is `a & b`. `for (i = 0; …)` is `for i in N`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from isamap.source import Edit, Span, dataclass
from isamap.syntax import ast

_KERNEL = "a text has kernels: `kernel copy(M) { in A: f32[M]; out B: f32[M]; for m in M { B[m] = A[m]; } }`"


@dataclass(frozen=True, slots=True)
class OtherLanguages:
    """The spelling here of other languages' functions, types and constructs, from other_languages.toml.

    A function has its number of arguments and its spelling. A construct is a pattern around the first token
    that is not allowed, which `¦` precedes, and the advice. `@` is a word.
    """

    functions: Mapping[str, tuple[int, str]]
    remarks: Mapping[str, str]
    types: Mapping[str, str]
    constructs: Sequence[Mapping[str, str]]


@cache
def read_other_languages() -> OtherLanguages:
    """Return the table of other languages' words. It is read only for an error."""
    from tomllib import loads  # no other compilation waits for it

    table = Path(__file__).with_name("other_languages.toml")
    return OtherLanguages(**loads(table.read_text(encoding="utf-8")))


MOST_AROUND = 400
"""The most characters before the token that are looked at: the time of some patterns grows with their square."""


def equivalent_of(name: str, args: tuple[ast.ExprSyntax, ...]) -> str | None:
    """Return the equivalent of a call of another language, or None if there is none."""
    arity, text = read_other_languages().functions.get(name, (-1, ""))
    return text.format(*(a.span.text for a in args)) if len(args) == arity else None


def remark(name: str) -> str:
    """Return a remark about the spelling of a call in another language, in parentheses, or "" without one."""
    said = read_other_languages().remarks.get(name)
    return f" ({said})" if said else ""


def shape_hint(span: Span, expected: set[str]) -> str | None:
    """Return what to write in place of another language's construct around the first token that is not allowed."""
    text = span.source.text
    if "KERNEL" in expected and text[span.start] not in "/}":
        return _KERNEL
    start = max(*(text.rfind(end, 0, span.start) for end in ";{}"), span.start - 1 - MOST_AROUND)
    around = f"{text[start + 1 : span.start]}¦{text[span.start : span.end + 40]}"
    for construct in read_other_languages().constructs:
        if re.search(construct["around"].replace("@", "[A-Za-z_0-9]+"), around):
            return construct["advice"]
    return None


def sign_hint(token: str, span: Span, expected: set[str]) -> tuple[str | None, tuple[Edit, ...]]:
    """Return the replacement for another language's sign or word, and the edit that makes it."""
    before = span.source.text[: span.start].rstrip()
    behind = span.source.text[span.end :]
    match token:
        case "/":
            return "comments start with `#`", ()
        case "-" if "ASSIGN" in expected:
            return "there is no `-=`: write `+= -x`", ()
        case "-" if "LPAR" in expected:
            return "names are letters, digits and `_`", ()
        case "=" if not expected & {"EQUAL", "RSQB"}:
            return "compare with `==`", (Edit(span, "=="),)
        case "&" | "|" if before.endswith(token):
            return f"`{token}` joins conditions", (Edit(span, ""),)
        case "and" | "or":
            sign = "&" if token == "and" else "|"
            return f"`{sign}` joins conditions", (Edit(span, sign),)
        case "*" if before.endswith("*"):
            return "there is no `**`: write `x*x`, or `exp(y * log(x))` for positive bases", ()
        case "?":
            return "write `select(condition, a, b)`", ()
        case "!" if not behind.startswith("="):
            return "`~` is the opposite of a condition", (Edit(span, "~"),)
        case _:
            return None, ()
