"""C text with its operator precedence, so that parentheses are added only if they are needed.

Index expressions become C's 64-bit arithmetic: `16*m + k - 1`, `(p*stride + r) / 2`.

C's division rounds towards zero: for dividends that may be negative, `floor_div` and `floor_mod` are used.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import assert_never

from isamap.ir import Atom, Element, FloorDiv, Index, MinMax, Mod
from isamap.source.records import dataclass

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
class CText:
    """An expression of C and the precedence of its outermost operator."""

    text: str
    precedence: int = POSTFIX

    def inside(self, precedence: int) -> str:
        """Return the text as an operand of an operator with this precedence."""
        return self.text if self.precedence >= precedence else f"({self.text})"

    def __str__(self) -> str:
        return self.text


def infix(left: CText, operator: str, right: CText) -> CText:
    """Return `left operator right`, grouped from the left."""
    own = _INFIX[operator]
    # Compilers warn where a reader would stumble: shifts and bit operations get parentheses around others.
    wary = PREFIX if own in (SHIFT, BIT_AND, BIT_XOR, BIT_OR) else own
    first = left.inside(own if left.precedence == own else wary)
    return CText(f"{first} {operator} {right.inside(max(own + 1, wary))}", own)


def prefix(operator: str, value: CText) -> CText:
    """Return `operator value`, as `-x` or `(float)x`."""
    inner = value.inside(PREFIX)
    return CText(f"{operator}({inner})" if inner[0] == operator[-1] == "-" else operator + inner, PREFIX)


def cast(c_type: str, value: CText) -> CText:
    """Return `(c_type)value`."""
    return prefix(f"({c_type})", value)


def call(function: str, *args: CText) -> CText:
    """Return `function(args)`."""
    return CText(f"{function}({', '.join(a.text for a in args)})")


def choice(condition: CText, yes: CText, no: CText) -> CText:
    """Return `condition ? yes : no`."""
    return CText(f"{condition.inside(OR)} ? {yes.inside(OR)} : {no.inside(CHOICE)}", CHOICE)


def identifiers(lines: Iterable[str]) -> frozenset[str]:
    """Return all words in lines of C that may be identifiers."""
    return frozenset(word for line in lines for word in _IDENTIFIER.findall(line))


Namer = Callable[[str], str]
"""The C identifier of a symbol."""


def index_text(index: Index, name: Namer, used: set[str], wide: bool = False) -> CText:
    """Return the index expression in C. Helper functions that it calls are added to `used`.

    `wide` makes a bare number an int64_t, for places where its type matters.
    """
    if index.value is not None:
        number = str(index.value)
        if wide or abs(index.value) >= 1 << 31:
            return CText(f"INT64_C({number})")
        return CText(number, PREFIX if index.value < 0 else CText(number).precedence)
    text = CText("")
    for monomial, coefficient in sorted(index.terms, key=lambda t: (t[0] == (), t[1] < 0)):
        term = _monomial(monomial, abs(coefficient), name, used)
        if not text.text:
            text = CText(f"-{term.inside(PRODUCT)}", SUM) if coefficient < 0 else term
        else:
            text = infix(text, "-" if coefficient < 0 else "+", term)
    return text


def is_never_negative(index: Index) -> bool:
    """Return whether all terms are products of nonnegative factors: sizes, counters, remainders."""
    return all(c >= 0 and all(_is_atom_never_negative(a) for a in m) for m, c in index.terms)


def _is_atom_never_negative(atom: Atom) -> bool:
    match atom:
        case str():
            return "." not in atom and "(" not in atom  # strides may be negative
        case FloorDiv(value, divisor):
            return is_never_negative(value) and is_never_negative(divisor)
        case Mod(_, divisor):
            return is_never_negative(divisor)
        case MinMax(_, left, right):
            return is_never_negative(left) and is_never_negative(right)
        case Element(low=low):
            return is_never_negative(low)
        case _:
            assert_never(atom)


def _monomial(monomial: tuple[Atom, ...], coefficient: int, name: Namer, used: set[str]) -> CText:
    factors = [_atom(atom, name, used) for atom in monomial]
    if not factors:
        return index_text(Index.of(coefficient), name, used)
    parts = [f.inside(PRODUCT if n == 0 and coefficient == 1 else PRODUCT + 1) for n, f in enumerate(factors)]
    if len(parts) == 1 and coefficient == 1:
        return factors[0]
    lead = [] if coefficient == 1 else [index_text(Index.of(coefficient), name, used).text]
    return CText("*".join(lead + parts), PRODUCT)


def _atom(atom: Atom, name: Namer, used: set[str]) -> CText:
    match atom:
        case str():
            return CText(name(atom))
        case FloorDiv(value, divisor):
            return _division(value, divisor, "/", "floor_div", name, used)
        case Mod(value, divisor):
            return _division(value, divisor, "%", "floor_mod", name, used)
        case MinMax(op, left, right):
            a, b = index_text(left, name, used), index_text(right, name, used)
            return choice(infix(a, "<" if op == "min" else ">", b), a, b)
        case Element(buffer, at):
            return cast("int64_t", CText(f"{name(buffer)}[{index_text(at, name, used)}]"))
        case _:
            assert_never(atom)


def _division(value: Index, divisor: Index, sign: str, helper: str, name: Namer, used: set[str]) -> CText:
    a, b = index_text(value, name, used), index_text(divisor, name, used)
    if is_never_negative(value) and is_never_negative(divisor):
        return infix(a, sign, b)
    used.add(helper)
    return call(helper, a, b)
