"""Parse text to a lark tree, within limits, and explain syntax errors.

gemm.ir:3:24: error[syntax-error]: expected `;` here

The parser uses stored tables, because lark needs a fifth of a second to compute them from the grammar.

`grammar.json` has lark's tables, with the grammar's digest and lark's version. If either differs, the tables
are computed again, so a stale file only costs time. After a change of the grammar:

    python -c "from isamap.syntax.parser import write_tables; write_tables()"

The module also has the text of `isamap fmt`: the canonical layout, with comments, order and names unchanged.
"""

from __future__ import annotations

import hashlib
import json
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal, cast

import lark
from lark import Lark, Token, Tree, UnexpectedCharacters, UnexpectedEOF, UnexpectedInput, UnexpectedToken
from lark.grammar import Rule
from lark.lexer import PatternStr, TerminalDef

from isamap.ir.text_layout import KEYWORDS, layout
from isamap.source import Diagnostic, Edit, Source, Span, SyntaxProblem
from isamap.syntax.hints import shape_hint, sign_hint

FILE = "grammar.json"


def load_parser() -> Lark:
    """Return the parser of the language."""
    grammar = read_part("grammar.lark")
    try:
        stored: Any = json.loads(read_part(FILE))
    except (OSError, ValueError):
        stored = None
    tables = cast("dict[str, Any]", stored if isinstance(stored, dict) else {})
    if tables.get("made_from") != grammar_digest(grammar):
        return build_parser(grammar)
    memo = _number_keys(tables["memo"])
    automaton = tables["data"]["parser"]["parser"]
    automaton["tokens"] = _number_keys(automaton["tokens"])
    automaton["states"] = {key: _number_keys(row) for key, row in _number_keys(automaton["states"]).items()}
    cls: Any = Lark
    return cls._load_from_dict(tables["data"], memo)  # what lark's own stand-alone parsers call


def write_tables() -> None:
    """Write a new `grammar.json` in a checkout."""
    # The text of `grammar.json`. Lark may number states differently in each run.
    grammar = read_part("grammar.lark")
    built: Any = build_parser(grammar)
    data, memo = built.memo_serialize([TerminalDef, Rule])
    del data["options"]["import_paths"]
    tables = {"made_from": grammar_digest(grammar), "data": data, "memo": memo}
    Path(str(files("isamap.syntax").joinpath(FILE))).write_text(
        (json.dumps(tables, separators=(",", ":"), sort_keys=True) + "\n"), encoding="utf-8"
    )


def build_parser(grammar: str) -> Lark:
    """Return the parser, with tables computed from the grammar."""
    return Lark(
        grammar,
        parser="lalr",
        strict=False,  # strictness is checked by a test: it costs half a second of start-up
        start=["start", "expr"],
        propagate_positions=True,
        maybe_placeholders=True,
    )


def grammar_digest(grammar: str) -> str:
    """Return the digest of everything from which the parser's tables are computed."""
    return f"lark {lark.__version__}, grammar {hashlib.sha256(grammar.encode()).hexdigest()}"


def read_part(name: str) -> str:
    """Return the text of a file next to this module."""
    return files("isamap.syntax").joinpath(name).read_text(encoding="utf-8")


def _number_keys(table: dict[str, Any]) -> dict[int, Any]:
    """Return tables with integer keys, which JSON stores as texts."""
    return {int(key): value for key, value in table.items()}


Start = Literal["start", "expr"]
SyntaxTree = Tree[Token]

MAX_TEXT_BYTES = 1_000_000
MAX_DEPTH = 200

_KEYWORDS = KEYWORDS | {"strides", "any", "true", "false", "inf"}
_OPERATORS = frozenset(["+", "-", "*", "/", "%", "|", "^", "&", "==", "!=", "<", "<=", ">", ">=", "<<", ">>"])

_WORDS = {
    "NAME": "a name",
    "NUMBER": "a number",
    "ROLE": "an operand (`in`, `out`, `inout`, `temp`)",
    "LOOP_KIND": "a loop (`for`, `seq`)",
    "PARAM_KIND": "a parameter kind (`choose`, `machine`, `imm`, `scalar`)",
    "PER_THREAD": "`per thread`",
    "STRICT": "`strict`",
    "ASSIGN": "`=` or a reduction such as `+=`",
    "MINUS": "a number",
    "$END": "the end of the text",
}


@lru_cache(maxsize=32)
def _parse_text(text: str, start: Start) -> SyntaxTree:
    """Return the tree of a text. It is shared and must not be changed. Raises: UnexpectedInput."""
    parser: Any = _parser()
    return parser.parse(text, start=start)


def parse_tree(source: Source, start: Start = "start") -> SyntaxTree:
    """Return the lark tree of a text, with positions.

    Raises: SyntaxProblem if it is not of the language, too long or nested too deeply.
    """
    if len(source.text) > MAX_TEXT_BYTES or len(source.text.encode()) > MAX_TEXT_BYTES:
        raise SyntaxProblem.of(
            "text-too-large",
            f"{source.name} has {len(source.text.encode())} bytes; the limit is {MAX_TEXT_BYTES}",
            help="split it into several files",
        )
    _check_brackets(source)
    try:
        tree = _parse_text(source.text, start)
    except UnexpectedInput as error:
        raise SyntaxProblem(_translate(error, source)) from None
    stack: list[tuple[SyntaxTree, int]] = [(tree, 0)]
    while stack:
        node, depth = stack.pop()
        if depth > MAX_DEPTH:
            raise _too_deep(Span(source, node.meta.start_pos, node.meta.end_pos))
        stack += [(child, depth + 1) for child in node.children if isinstance(child, Tree)]
    return tree


@lru_cache(maxsize=1)
def _parser() -> Lark:
    return load_parser()


# --- limits -----------------------------------------------------------------------------------------------


def _check_brackets(source: Source) -> None:
    """Refuse nesting that is too deep, before lark builds anything."""
    depth, comment = 0, False
    for position, character in enumerate(source.text):
        if comment:
            comment = character != "\n"
        elif character == "#":
            comment = True
        elif character in "([{":
            depth += 1
            if depth > MAX_DEPTH:
                raise _too_deep(Span(source, position, position + 1))
        elif character in ")]}":
            depth -= 1


def _too_deep(span: Span) -> SyntaxProblem:
    return SyntaxProblem.of(
        "nested-too-deeply",
        f"this is nested more than {MAX_DEPTH} levels deep",
        span,
        help="name parts of it with `let`, or write several statements",
    )


# --- errors -----------------------------------------------------------------------------------------------


def _translate(error: Any, source: Source) -> Diagnostic:
    match error:
        case UnexpectedCharacters():
            start = _offset(error)
            character = source.text[start : start + 1]
            advice, edits = sign_hint(character, Span(source, start, start + 1), set())
            return Diagnostic(
                "unknown-character",
                f"`{character}` is not a character of the language",
                Span(source, start, start + 1),
                notes=(f"expected {_spell_expected(error.allowed)}",) if error.allowed else (),
                help="names are written without quotes" if character in "\"'`" else advice,
                edits=edits,
            )
        case UnexpectedToken() if not _at_end(error):
            return _unexpected_token(error, source)
        case UnexpectedEOF() | UnexpectedToken():
            end = len(source.text.rstrip())
            expected = error.expected if isinstance(error, UnexpectedToken) else set[str]()
            return Diagnostic(
                "syntax-error",
                f"the text ends too early: expected {_spell_expected(expected)}",
                Span(source, max(0, end - 1), max(1, end)),
                help="a `}` is missing" if source.text.count("{") > source.text.count("}") else None,
            )
        case _:
            return Diagnostic("syntax-error", "this is not of the language")


def _offset(error: Any) -> int:
    return int(error.pos_in_stream or 0)


def _at_end(error: Any) -> bool:
    return str(error.token.type) == "$END"


def _unexpected_token(error: Any, source: Source) -> Diagnostic:
    token: Token = error.token
    start = token.start_pos or 0
    span = Span(source, start, start + len(token))
    before = source.text[:start].rstrip()
    if "SEMICOLON" in error.expected and "\n" in source.text[len(before) : start] and before:
        return Diagnostic(
            "syntax-error",
            "expected `;` at the end of this line",
            Span(source, len(before) - 1, len(before)),
            notes=(f"the next line starts with `{token}`",),
            help="add `;`",
            edits=(Edit(Span(source, len(before), len(before)), ";"),),
        )
    advice, edits = _hint(str(token), span, set(error.expected))
    return Diagnostic(
        "syntax-error",
        f"`{token}` is not allowed here: expected {_spell_expected(error.expected)}",
        span,
        help=advice,
        edits=edits,
    )


def _hint(token: str, span: Span, expected: set[str]) -> tuple[str | None, tuple[Edit, ...]]:
    if token in _KEYWORDS and "NAME" in expected:
        return f"`{token}` is a word of the language: choose another name", ()
    if span.source.text[: span.start].split()[-1:] == ["if"]:
        return ("a guard follows the statement, as in `C[0] = 1 if M > 3;`, or behind the axes of a loop", ())
    advice, edits = sign_hint(token, span, expected)
    return advice or shape_hint(span, expected), edits


def _spell_expected(terminals: set[str] | None) -> str:
    """Return the allowed tokens as text: `` `,` or `)` ``, without lark's own names."""
    words: list[str] = []
    for terminal in sorted(terminals or ()):
        word = _word(terminal)
        words += [word] if word and word not in words else []
    words.sort(key=lambda w: (w.startswith("`"), w))
    if not words:
        return "something else"
    if len(words) > 8:
        words = [*words[:8], "others"]
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"


def _word(terminal: str) -> str:
    if terminal in _WORDS:
        return _WORDS[terminal]
    for definition in _parser().terminals:
        if definition.name == terminal and isinstance(definition.pattern, PatternStr):
            text = definition.pattern.value
            return "an operator" if text in _OPERATORS else f"`{text}`"
    return ""


def format_source(source: Source) -> str:
    """Return the canonical text. Formatting it again changes nothing. Raises: SyntaxProblem."""
    parse_tree(source)
    return layout(source.text)
