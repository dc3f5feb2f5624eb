"""Index expressions as C's 64-bit arithmetic: `16*m + k - 1`, `(p*stride + r) / 2`.

C's division rounds towards zero: where a dividend may be negative, `floor_div` and `floor_mod` stand.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import assert_never

from isamap.codegen.c_text import PREFIX, PRODUCT, SUM, Text, call, choice, infix
from isamap.ir import Atom, FloorDiv, Index, MinMax, Mod

Namer = Callable[[str], str]
"""The C identifier of a symbol."""


def index_text(index: Index, name: Namer, used: set[str], wide: bool = False) -> Text:
    """The expression in C; helper functions that it calls are added to `used`.

    `wide` makes a bare number an int64_t, for places where its type matters.
    """
    if index.value is not None:
        number = str(index.value)
        if wide or abs(index.value) >= 1 << 31:
            return Text(f"INT64_C({number})")
        return Text(number, PREFIX if index.value < 0 else Text(number).precedence)
    text = Text("")
    for monomial, coefficient in sorted(index.terms, key=lambda t: (t[0] == (), t[1] < 0)):
        term = _monomial(monomial, abs(coefficient), name, used)
        if not text.text:
            text = Text(f"-{term.inside(PRODUCT)}", SUM) if coefficient < 0 else term
        else:
            text = infix(text, "-" if coefficient < 0 else "+", term)
    return text


def is_never_negative(index: Index) -> bool:
    """Whether all terms are products of things that cannot be negative: sizes, counters, moduli."""
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
        case _:
            assert_never(atom)


def _monomial(monomial: tuple[Atom, ...], coefficient: int, name: Namer, used: set[str]) -> Text:
    factors = [_atom(atom, name, used) for atom in monomial]
    if not factors:
        return index_text(Index.of(coefficient), name, used)
    parts = [f.inside(PRODUCT if n == 0 and coefficient == 1 else PRODUCT + 1) for n, f in enumerate(factors)]
    if len(parts) == 1 and coefficient == 1:
        return factors[0]
    lead = [] if coefficient == 1 else [index_text(Index.of(coefficient), name, used).text]
    return Text("*".join(lead + parts), PRODUCT)


def _atom(atom: Atom, name: Namer, used: set[str]) -> Text:
    match atom:
        case str():
            return Text(name(atom))
        case FloorDiv(value, divisor):
            return _division(value, divisor, "/", "floor_div", name, used)
        case Mod(value, divisor):
            return _division(value, divisor, "%", "floor_mod", name, used)
        case MinMax(op, left, right):
            a, b = index_text(left, name, used), index_text(right, name, used)
            return choice(infix(a, "<" if op == "min" else ">", b), a, b)
        case _:
            assert_never(atom)


def _division(value: Index, divisor: Index, sign: str, helper: str, name: Namer, used: set[str]) -> Text:
    a, b = index_text(value, name, used), index_text(divisor, name, used)
    if is_never_negative(value) and is_never_negative(divisor):
        return infix(a, sign, b)
    used.add(helper)
    return call(helper, a, b)
