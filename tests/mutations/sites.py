"""The places of emitted C at which a mutation changes it, and how.

    sum = a * b + c    ->    sum = a * b - c    |    sum = b * c + a    |    …

Strings, comments and lines of the preprocessor are not changed.
"""

from __future__ import annotations

import random
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

# --- the text --------------------------------------------------------------------------------------------

_TOKEN = re.compile(
    r"""(?P<comment>/\*.*?\*/|//[^\n]*)|(?P<string>"(?:[^"\\]|\\.)*")|
    |(?P<directive>^[ \t]*\#(?:[^\n\\]|\\.|\\\n)*)
    |(?P<number>0[xX][0-9a-fA-F]+[uUlL]*|(?:\d+\.\d*|\.\d+|\d+)(?:[eE][+-]?\d+)?[fFuUlL]*)|(?P<name>[A-Za-z_]\w*)
    |(?P<operator><<=|>>=|\+\+|--|->|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%&|^]=|[^\s\w])""",
    re.VERBOSE | re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Token:
    """A word of C, and where it stands in the text."""

    kind: str
    text: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Site:
    """One change of a text: what stands from `start` to `end` becomes `new`."""

    kind: str
    start: int
    end: int
    new: str

    def applied(self, text: str) -> str:
        """Return the mutated text."""
        return text[: self.start] + self.new + text[self.end :]


@lru_cache(maxsize=4)
def tokens_of(text: str) -> list[Token]:
    """Return the words of a text of C, without comments, strings and preprocessor directives."""
    found = [Token(m.lastgroup or "", m[0], m.start(), m.end()) for m in _TOKEN.finditer(text)]
    return [t for t in found if t.kind in ("number", "name", "operator")]


def _closing(tokens: Sequence[Token], at: int) -> int:
    """Return the position of the bracket that closes the one at `at`."""
    depth = 0
    for place in range(at, len(tokens)):
        depth += (tokens[place].text in "([{") - (tokens[place].text in ")]}")
        if depth == 0:
            return place
    raise AssertionError("a bracket is not closed")


_CHECKS = re.compile(r"\w+_(workspace_bytes|ascending_\w+|within_\w+)$")
_HINTS = re.compile(r"LAST_USE|READ_ONCE|ONE_SUM|prefetch|__attribute__|_Static_assert|made_here")
"""Hints to the compiler and to caches, which change no value."""


def places_of(tokens: Sequence[Token]) -> list[int]:
    """Return the positions of the words that may be changed: those of bodies of functions that compute."""
    found: list[int] = []
    place = depth = 0
    while place < len(tokens):
        token = tokens[place]
        is_call = place + 1 < len(tokens) and tokens[place + 1].text == "("
        if depth == 0 and token.kind == "name" and is_call and _CHECKS.match(token.text):
            break  # from here on arguments are checked
        if token.kind == "name" and is_call and _HINTS.search(token.text):
            place = _closing(tokens, place + 1) + 1
            continue
        depth += (token.text == "{") - (token.text == "}")
        if depth and token.text != "}":
            found.append(place)
        place += 1
    return found


# --- changes ---------------------------------------------------------------------------------------------

_EXTREMES = {"max": "min", "min": "max", "fmaxf": "fminf", "fminf": "fmaxf", "fmax": "fmin", "fmin": "fmax"}
_SIGNS = {"add": "sub", "sub": "add", "adds": "subs", "subs": "adds"}
_FUSED = {"fmadd": "fnmadd", "fnmadd": "fmadd", "fmsub": "fmadd", "fma": "fms"}
_WRAPPING = {"adds": "add", "subs": "sub"}
_TURNED = {"<": ">", ">": "<", "<=": ">=", ">=": "<=", "==": "!=", "!=": "=="}
_ORDERED = re.compile(r"_(sub|subs|div|andnot|unpacklo|unpackhi|packs|packus|maddubs|dpbusd|shuffle|sll|srl)")
_LITERAL = re.compile(r"(0[xX][0-9a-fA-F]+|\d+)([uUlL]*)$")
_FLOAT = re.compile(r"((?:\d+\.\d*|\.\d+|\d+)(?:[eE][+-]?\d+)?)([fF]?)$")


_TYPE = re.compile(r"(_t|float|double|x\d+|__m\d+[a-z]?)$")


def _renamed(name: str, changes: Mapping[str, str]) -> str | None:
    """Return an intrinsic's or a function's name with one of its parts changed."""
    parts = name.split("_")
    for place, part in enumerate(parts):
        if part in changes:
            return "_".join([*parts[:place], changes[part], *parts[place + 1 :]])
    return None


def find_sites(text: str) -> list[Site]:
    """Return all changes of a text that are tried, in the order of the text."""
    tokens = tokens_of(text)
    places = places_of(tokens)
    return [site for place in places for site in _changes(text, tokens, place)]


def _changes(text: str, tokens: Sequence[Token], place: int) -> Iterator[Site]:
    token, before, after = tokens[place], tokens[place - 1], tokens[place + 1]
    match token.kind:
        case "name" if after.text == "(":
            yield from _of_call(text, tokens, place)
        case "number":
            yield from _of_number(tokens, place)
        case "operator" if before.kind in ("number", "name") or before.text in (")", "]"):
            yield from _of_operator(text, tokens, place)
        case _:
            pass
    if before.text in (";", "{", "}") and token.kind == "name":
        yield from _dropped(tokens, place)


def _of_call(text: str, tokens: Sequence[Token], place: int) -> Iterator[Site]:
    token = tokens[place]
    for kind, changes in (
        ("extreme", _EXTREMES),
        ("sign", _SIGNS),
        ("fused", _FUSED),
        ("saturation", _WRAPPING),
    ):
        if (new := _renamed(token.text, changes)) is not None and (
            new in text or new.startswith(("_mm", "fm"))
        ):
            yield Site(kind, token.start, token.end, new)
    end = _closing(tokens, place + 1)
    arguments = _arguments(tokens, place + 1, end)
    if token.text == "if":
        for new in ("(1)", "(0)"):
            yield Site("condition", tokens[place + 1].start, tokens[end].end, new)
    if len(arguments) >= 2 and _ORDERED.search("_" + token.text):
        yield _swapped(text, *arguments[:2])
    if re.search(r"mask(load|store)", token.text):
        (start, stop) = arguments[1]
        yield Site(
            "mask", start, stop, "_mm256_set1_epi32(-1)" if "256" in token.text else "_mm_set1_epi32(-1)"
        )


def _arguments(tokens: Sequence[Token], opening: int, closing: int) -> list[tuple[int, int]]:
    """Return where the arguments of a call begin and end in the text."""
    found: list[tuple[int, int]] = []
    depth, start = 0, opening + 1
    for place in range(opening + 1, closing + 1):
        depth += (tokens[place].text in "([{") - (tokens[place].text in ")]}")
        if (depth == 0 and tokens[place].text == ",") or place == closing:
            if place > start:
                found.append((tokens[start].start, tokens[place - 1].end))
            start = place + 1
    return found


def _swapped(text: str, first: tuple[int, int], second: tuple[int, int]) -> Site:
    (a, b), (c, d) = first, second
    return Site("operands", a, d, text[c:d] + text[b:c] + text[a:b])


def _of_number(tokens: Sequence[Token], place: int) -> Iterator[Site]:
    token = tokens[place]
    is_bound = tokens[place - 1].text in ("<", "<=", ">", ">=")
    if (found := _LITERAL.match(token.text)) is not None:
        value = int(found[1], 0)
        for new in (value + 1, value - 1):
            if new >= 0:
                yield Site("bound" if is_bound else "constant", token.start, token.end, f"{new}{found[2]}")
    elif (found := _FLOAT.match(token.text)) is not None:
        yield Site("constant", token.start, token.end, f"({token.text} + 1.0{found[2]})")


def _of_operator(text: str, tokens: Sequence[Token], place: int) -> Iterator[Site]:
    token, before, after = tokens[place], tokens[place - 1], tokens[place + 1]
    simple = after.kind in ("number", "name") and before.kind in ("number", "name")
    match token.text:
        case "+" | "-":
            yield Site("sign", token.start, token.end, "-" if token.text == "+" else "+")
        case "+=" | "-=":
            yield Site("sign", token.start, token.end, "-=" if token.text == "+=" else "+=")
        case "<" | ">" | "<=" | ">=" | "==" | "!=":
            yield Site("comparison", token.start, token.end, _TURNED[token.text])
        case "&&":
            yield Site("condition", token.start, token.end, "||")
        case "||":
            yield Site("condition", token.start, token.end, "&&")
        case "*" if simple and not _TYPE.search(before.text):
            yield Site("operator", token.start, token.end, "+")
        case _:
            pass
    ends = (";", ")", ",", "}")
    alone = tokens[place - 2].text in ("=", "(", ",", "return") and tokens[place + 2].text in ends
    if token.text in ("-", "/", "%", "<<", ">>") and simple and alone:
        yield _swapped(text, (before.start, before.end), (after.start, after.end))


def _dropped(tokens: Sequence[Token], place: int) -> Iterator[Site]:
    """Yield the statement at `place` left out, where it assigns, stores or copies."""
    depth = 0
    for end in range(place, len(tokens)):
        depth += (tokens[end].text in "([{") - (tokens[end].text in ")]}")
        if tokens[end].text == ";" and depth == 0:
            break
    else:
        return
    is_call = tokens[place + 1].text == "(" and tokens[place].text not in ("if", "for", "while", "return")
    is_assignment = tokens[place + 1].text in ("=", "[", "+=")
    if is_call or is_assignment:
        yield Site("statement", tokens[place].start, tokens[end].end, ";")


def choose_sites(sites: Sequence[Site], seed: str) -> list[Site]:
    """Return the sites in the order in which they are tried: of each kind one in turn, drawn by the seed."""
    draw = random.Random(seed)
    by_kind: dict[str, list[Site]] = defaultdict(list)
    for site in sites:
        by_kind[site.kind].append(site)
    for kind in sorted(by_kind):
        draw.shuffle(by_kind[kind])
    rows = [(n, kind, site) for kind, own in by_kind.items() for n, site in enumerate(own)]
    return [site for _, _, site in sorted(rows, key=lambda row: row[:2])]
