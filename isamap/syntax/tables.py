"""The parser from tables that were computed once: from the grammar they take lark a fifth of a second.

`grammar.json` holds what lark computed, with the grammar's digest and lark's version. When either differs
they are computed anew, so that a stale file costs time and nothing else. After a change of the grammar:

    python -c "from isamap.syntax.tables import write_tables; write_tables()"
"""

from __future__ import annotations

import hashlib
import json
from importlib.resources import files
from pathlib import Path
from typing import Any, cast

import lark
from lark import Lark
from lark.grammar import Rule
from lark.lexer import TerminalDef

FILE = "grammar.json"


def load_parser() -> Lark:
    """The parser of the language."""
    grammar = read_part("grammar.lark")
    try:
        stored: Any = json.loads(read_part(FILE))
    except (OSError, ValueError):
        stored = None
    tables = cast("dict[str, Any]", stored if isinstance(stored, dict) else {})
    if tables.get("made_from") != made_from(grammar):
        return build_parser(grammar)
    memo = _numbered(tables["memo"])
    automaton = tables["data"]["parser"]["parser"]
    automaton["tokens"] = _numbered(automaton["tokens"])
    automaton["states"] = {key: _numbered(row) for key, row in _numbered(automaton["states"]).items()}
    return _restored(tables["data"], memo)


def render_tables() -> str:
    """A text for `grammar.json`. Lark numbers its states differently at each run; the parser is the same."""
    grammar = read_part("grammar.lark")
    built: Any = build_parser(grammar)
    data, memo = built.memo_serialize([TerminalDef, Rule])
    del data["options"]["import_paths"]
    tables = {"made_from": made_from(grammar), "data": data, "memo": memo}
    return json.dumps(tables, separators=(",", ":"), sort_keys=True) + "\n"


def write_tables() -> None:
    """Write `grammar.json` anew, in a checkout."""
    Path(str(files("isamap.syntax").joinpath(FILE))).write_text(render_tables(), encoding="utf-8")


def build_parser(grammar: str) -> Lark:
    """The parser, its tables computed from the grammar."""
    return Lark(
        grammar,
        parser="lalr",
        strict=False,  # strictness is checked by a test: it costs half a second of start-up
        start=["start", "expr"],
        propagate_positions=True,
        maybe_placeholders=True,
    )


def _restored(data: dict[str, Any], memo: dict[int, Any]) -> Lark:
    cls: Any = Lark
    return cls._load_from_dict(data, memo)  # what lark's own stand-alone parsers call


def made_from(grammar: str) -> str:
    """What tables depend on."""
    return f"lark {lark.__version__}, grammar {hashlib.sha256(grammar.encode()).hexdigest()}"


def read_part(name: str) -> str:
    """The text of a file beside this module."""
    return files("isamap.syntax").joinpath(name).read_text(encoding="utf-8")


def _numbered(table: dict[str, Any]) -> dict[int, Any]:
    """JSON knows no numbers as keys."""
    return {int(key): value for key, value in table.items()}
