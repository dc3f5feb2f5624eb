"""The parser's precomputed tables are those of the grammar, and a stale or missing file does no harm."""

from __future__ import annotations

import json
from typing import Any

import pytest

from isamap.syntax import parser

TEXT = """
memory mem: addressable();
instruction f(choose R: 1..4) where R % 2 == 0 {
  in a: f32[R, 4] @ mem strides(any, 1);
  out z: f32[R] @ mem;
  for i in R { z[i] = select(a[i, 0] < 1.5, -a[i, 1], max(a[i, 2], 0)); }
}
"""


def parse(parser: Any) -> str:
    return parser.parse(TEXT, start="start").pretty()


def test_the_tables_are_those_of_the_grammar() -> None:
    stored = json.loads(parser.read_part(parser.FILE))
    here = parser.grammar_digest(parser.read_part("grammar.lark"))
    assert stored["made_from"] == here, "see isamap/syntax/parser.py"


def test_stored_tables_parse_as_the_grammar_does() -> None:
    assert parse(parser.load_parser()) == parse(parser.build_parser(parser.read_part("grammar.lark")))


@pytest.mark.parametrize("text", ["", "{}", "[]", "not json", '{"made_from": "another grammar"}'])
def test_other_tables_are_not_used(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    read = parser.read_part

    def read_other(name: str) -> str:
        return text if name == parser.FILE else read(name)

    monkeypatch.setattr(parser, "read_part", read_other)
    assert "select" in parse(parser.load_parser())
