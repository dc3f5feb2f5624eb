"""Suggest this language's spelling of other languages' functions, types and operators.

`fabs(x[i])` is `abs(x[i])`. `a && b` is `a & b`. `for (i = 0; …)` is `for i in N`.
"""

from __future__ import annotations

import re

from isamap.source import Edit, Span
from isamap.syntax import ast

FUNCTIONS: dict[str, tuple[int, str]] = {
    "rint": (1, "round({0}, even)"),
    "nearbyint": (1, "round({0}, even)"),
    "fabs": (1, "abs({0})"),
    "fmin": (2, "min({0}, {1})"),
    "fmax": (2, "max({0}, {1})"),
    "minimum": (2, "min({0}, {1})"),
    "maximum": (2, "max({0}, {1})"),
    "where": (3, "select({0}, {1}, {2})"),
    "clamp": (3, "min(max({0}, {1}), {2})"),
    "clip": (3, "min(max({0}, {1}), {2})"),
    "relu": (1, "max({0}, 0)"),
    "square": (1, "(({0}) * ({0}))"),
    "pow": (2, "exp(({1}) * log({0}))"),
    "exp2": (1, "exp(({0}) * 0.6931471805599453)"),
    "log2": (1, "(log({0}) * 1.4426950408889634)"),
    "log10": (1, "(log({0}) * 0.4342944819032518)"),
    "fmod": (2, "(({0}) - ({1}) * round(({0}) / ({1}), zero))"),
    "float": (1, "f32({0})"),
    "double": (1, "f64({0})"),
    "int": (1, "sat_i32({0})"),
}
"""For each function of other languages its number of arguments and its spelling here; {0} is the first."""
TYPES: dict[str, str] = {
    "float": "f32",
    "double": "f64",
    "half": "f16",
    "bfloat16": "bf16",
    "int": "i32",
    "_Bool": "bool",
    **{f"float{bits}": f"f{bits}" for bits in (16, 32, 64)},
    **{f"int{bits}{end}": f"i{bits}" for bits in (8, 16, 32, 64) for end in ("", "_t")},
    **{f"uint{bits}{end}": f"u{bits}" for bits in (8, 16, 32, 64) for end in ("", "_t")},
    **{f"s{bits}": f"i{bits}" for bits in (8, 16, 32, 64)},
}
"""The name here of each type of other languages."""
_REMARKS = {"pow": "for positive bases"}

_KERNEL = "a text has kernels: `kernel copy(M) { in A: f32[M]; out B: f32[M]; for m in M { B[m] = A[m]; } }`"
_IN_BODY = "tensors are declared in the body: `in A: f32[M, N];`"
OTHER_LANGUAGES: tuple[tuple[str, str], ...] = (
    (r"\bkernel +@ *\([^()]*\[[^()]*¦", _IN_BODY),
    (
        r"\bkernel +@ *\((?:[^()]*, *)?(?!scalar|choose)@ +¦@",
        f"sizes have no type: `(M, N)`; {_IN_BODY}",
    ),
    (r"\bkernel +@ *\((?:[^()]*, *)?@ *[*&¦]", _IN_BODY),
    (
        r"\bkernel +@ *¦[<\[:]",
        "sizes stand in parentheses: `kernel copy(M, N) { … }`",
    ),
    (r"\) *¦(?:->|:)", "results are declared in the body: `out C: f32[M, N];`"),
    (r"\b(?:in|out|inout|temp) +@(?: *[*&])? *¦(?![:,;])", "the type follows the name: `in A: f32[M, N];`"),
    (r"\b(?:in|out|inout|temp) [^;]*¦,", "a declaration has one name: `in A: f32[M]; in B: f32[N];`"),
    (r"\b(?:input|output|param) +¦@", "tensors are declared by `in`, `out` and `temp`: `in A: f32[M];`"),
    (r"\bmemory +@ *: *@ *¦;", "a kind of memory has parentheses: `memory dram: addressable();`"),
    (r"\] *¦\[", "subscripts are separated by commas: `A[m, n]`"),
    (r": *@ *¦<", "a tensor's type has its sizes in brackets: `f32[M, N]`"),
    (r"\bfor *¦\(", "a loop has a name and a number of iterations: `for m in M { … }`, or `1..M`"),
    (r"\bfor [^;{]* in [^;{]*¦:", "write the body of a loop in braces: `for m in M { … }`"),
    (r"\b(?:parallel|unroll|vectori[sz]e|serial) +¦", "write `for`: isamap chooses the schedule"),
    (r"\breturn +¦", "a kernel returns nothing: it writes its `out` tensors"),
    (r"\bwhile *¦", "write `for m in M { … }`, or `seq t in T { … }` for iterations in order"),
    (r"= [^;]*\( *@ *\) *¦@", "a conversion is a call: `f32(A[m])`"),
    (r"= [^;]*¦for\b", "a sum is a loop: `C[m] = 0; for n in N { C[m] += A[m, n]; }`"),
    (r"^\s*@ +¦@(?: +@)? *[:=;]", "a value in between is a `temp` tensor: `temp x: f32[M];`"),
)
"""Patterns of other languages around the first token that is not allowed, which `¦` precedes, and the advice.

`@` is a word.
"""
MOST_AROUND = 400
"""The most characters before the token that are looked at: the time of some patterns grows with their square."""


def equivalent_of(name: str, args: tuple[ast.ExprSyntax, ...]) -> str | None:
    """Return the equivalent of a call of another language, or None if there is none."""
    arity, text = FUNCTIONS.get(name, (-1, ""))
    return text.format(*(a.span.text for a in args)) if len(args) == arity else None


def remark(name: str) -> str:
    """Return a remark about the spelling of a call in another language, in parentheses, or "" without one."""
    return f" ({_REMARKS[name]})" if name in _REMARKS else ""


def shape_hint(span: Span, expected: set[str]) -> str | None:
    """Return what to write in place of another language's construct around the first token that is not allowed."""
    text = span.source.text
    if "KERNEL" in expected and text[span.start] not in "/}":
        return _KERNEL
    start = max(*(text.rfind(end, 0, span.start) for end in ";{}"), span.start - 1 - MOST_AROUND)
    around = f"{text[start + 1 : span.start]}¦{text[span.start : span.end + 40]}"
    shapes = ((shape.replace("@", "[A-Za-z_0-9]+"), advice) for shape, advice in OTHER_LANGUAGES)
    return next((advice for shape, advice in shapes if re.search(shape, around)), None)


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
