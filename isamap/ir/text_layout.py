"""Canonical layout of the language's text: spacing, line breaks and indentation, comments kept.

`for m in M{C[m]+=2*A[m];# sum` becomes `for m in M { C[m] += 2*A[m]; }  # sum`. Works on words alone, so the
printer and `isamap fmt` agree by construction; laying out a text twice changes nothing.
"""

from __future__ import annotations

import re

from isamap.source.records import dataclass

WIDTH = 100
INDENT = "  "

_TOKEN = re.compile(
    r"(?P<comment>#[^\n]*)"
    r"|(?P<number>0x[0-9a-fA-F]+|[0-9]+\.[0-9]+(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+|[0-9]+)"
    r"|(?P<reduce>(?:max|min)=(?!=))"
    r"|(?P<name>[A-Za-z_][A-Za-z_0-9]*)"
    r"|(?P<symbol>\.\.|==|!=|<=|>=|<<|>>|[+*&|^]=(?!=)|\S)"
)
_TEXT = """
kernel instruction memory view of state machine strict where in out inout temp for seq if else let requires
function within ulp return
sets releases clobbers numerics accumulate outside placed at choose imm scalar per thread
"""
KEYWORDS = frozenset(_TEXT.split())
"""Words of the language that cannot end a value (`true`, `inf`, `any` can)."""

_LOOPS = ("for", "seq")
_TIGHT_AFTER = frozenset(("(", "[", "..", ".", "~"))
_TIGHT_BEFORE = frozenset((")", "]", ",", ";", ":", "..", "."))


@dataclass(frozen=True, slots=True)
class _Word:
    """One word of the text, with the number of line ends before it."""

    text: str
    kind: str
    lines_before: int

    @property
    def is_plain(self) -> bool:
        """Return whether the word is a name or a number. `*` joins these without spaces."""
        return self.kind in ("name", "number") and self.text not in KEYWORDS

    @property
    def ends_value(self) -> bool:
        return self.is_plain or self.text in (")", "]")


def layout(text: str) -> str:
    """Return the text in canonical layout, ending with one line end (empty for an empty text)."""
    words = _words(text)
    lines: list[str] = []
    position, depth = 0, 0
    while position < len(words):
        end = _line_end(words, position, depth)
        chunk = words[position:end]
        if chunk[0].text == "}":
            depth -= 1
        opened = chunk[0].text == "}" or _after_brace(words, position)
        if chunk[0].lines_before > 1 and lines and lines[-1] and not opened:
            lines.append("")
        if chunk[0].kind == "comment" and chunk[0].lines_before == 0 and lines:
            lines[-1] += f"  {chunk[0].text.rstrip()}"
        else:
            lines += _set_line(chunk, INDENT * max(depth, 0))
        depth += sum(w.text == "{" for w in chunk) - sum(w.text == "}" for w in chunk[1:])
        position = end
    return "\n".join(lines) + "\n" if lines else ""


def one_line(text: str) -> str:
    """Return the text with canonical spaces on one line, so that derived names do not depend on a line width."""
    return _join_words(_words(text))


def _after_brace(words: list[_Word], position: int) -> bool:
    """Return whether the word before a position, comments skipped, opens a block, or whether there is none."""
    while position > 0 and words[position - 1].kind == "comment" and words[position - 1].lines_before == 0:
        position -= 1
    return position == 0 or words[position - 1].text == "{"


def _words(text: str) -> list[_Word]:
    words: list[_Word] = []
    end = 0
    for match in _TOKEN.finditer(text):
        lines = text.count("\n", end, match.start())
        words.append(_Word(match.group().rstrip(), str(match.lastgroup), lines))
        end = match.end()
    return words


def _line_end(words: list[_Word], start: int, depth: int) -> int:
    """Return where the line that starts at `start` ends: after `;`, `{`, `}`, a comment, or a whole short loop."""
    first = words[start]
    if first.kind == "comment" or first.text == "}":
        return start + 1
    for i in range(start, len(words)):
        word = words[i]
        if word.text == ";":
            return i + 1
        if word.text == "}":
            return i
        if word.text == "{":
            short = _short_loop_end(words, start, i) if first.text in _LOOPS else None
            if short is not None and len(INDENT * depth + _join_words(words[start:short])) <= WIDTH:
                return short
            return i + 1
    return len(words)


def _short_loop_end(words: list[_Word], start: int, brace: int) -> int | None:
    """Return the end of a loop with one assignment and no comment, else None."""
    for i in range(brace + 1, len(words)):
        if words[i].kind == "comment" or words[i].text == "{":
            return None
        if words[i].text == ";":
            closed = i + 1 < len(words) and words[i + 1].text == "}"
            plain = not any(w.kind == "comment" for w in words[start:brace])
            return i + 2 if closed and plain else None
    return None


def _set_line(chunk: list[_Word], indent: str) -> list[str]:
    """Return one statement as one line if it fits, else as lines that are broken at spaces."""
    lines: list[str] = []
    inside = indent + INDENT * 2
    part: list[_Word] = []
    for word in chunk:
        if word.kind != "comment":
            part.append(word)
            continue
        if part:
            lines += _break_lines(part, inside if lines else indent, inside)
        if word.lines_before == 0 and lines:
            lines[-1] += f"  {word.text}"
        else:
            lines.append(f"{inside if lines else indent}{word.text}")
        part = []
    return lines + (_break_lines(part, inside if lines else indent, inside) if part else [])


def _break_lines(words: list[_Word], indent: str, inside: str) -> list[str]:
    """Return the words as lines of limited width, broken before `where` first, then at the outermost brackets."""
    pieces = _pieces(words)
    lines: list[str] = []
    while pieces:
        lead = inside if lines else indent
        end = _break_at(pieces, WIDTH - len(lead))
        lines.append(lead + " ".join(text for text, _ in pieces[:end]))
        pieces = pieces[end:]
    return lines


def _break_at(pieces: list[tuple[str, int]], room: int) -> int:
    """Return the number of pieces that fit on the next line."""
    used, fitting = -1, 0
    for text, _ in pieces:
        used += 1 + len(text)
        if used > room:
            break
        fitting += 1
    if fitting == len(pieces):
        return fitting
    late = [i for i in range(1, fitting + 1) if pieces[i][1] < 0 or 2 * i >= fitting]
    return min(late, key=lambda i: (pieces[i][1], -i), default=1)


def _pieces(words: list[_Word]) -> list[tuple[str, int]]:
    """Return the words, joined where no space separates them, each with the cost of a line break before it."""
    pieces: list[tuple[str, int]] = []
    depth = 0
    for i, word in enumerate(words):
        if i and not _space_between(words, i):
            pieces[-1] = (pieces[-1][0] + word.text, pieces[-1][1])
        else:
            after_comma = i > 0 and words[i - 1].text == ","
            pieces.append((word.text, -1 if word.text == "where" else 2 * depth + (not after_comma)))
        depth += (word.text in ("(", "[")) - (word.text in (")", "]"))
    return pieces


def _join_words(words: list[_Word]) -> str:
    return " ".join(text for text, _ in _pieces(words))


def _space_between(words: list[_Word], i: int) -> bool:
    """Return whether there is a space before word `i`."""
    left, right = words[i - 1], words[i]
    if left.text in _TIGHT_AFTER or right.text in _TIGHT_BEFORE or _is_sign(words, i - 1):
        return False
    if right.text in ("(", "["):
        return not left.ends_value
    if left.text == "*":
        return not _tight_product(words, i - 1)
    return not (right.text == "*" and _tight_product(words, i))


def _is_sign(words: list[_Word], i: int) -> bool:
    return words[i].text == "-" and (i == 0 or not words[i - 1].ends_value)


def _tight_product(words: list[_Word], i: int) -> bool:
    """Return whether the `*` at `i` joins two plain names or numbers, as in `2*k`."""
    if i == 0 or i + 1 >= len(words):
        return False
    after = words[i + 2].text if i + 2 < len(words) else ""
    return words[i - 1].is_plain and words[i + 1].is_plain and after not in ("(", "[")
