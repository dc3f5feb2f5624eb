"""The language reference tells the truth: examples parse or are refused as it says, nothing is missing."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from lark import Lark, Tree

from isamap.ir import (
    DTYPES,
    NUMERICS,
    OPS,
    REDUCTIONS,
    ConstantDecl,
    Declaration,
    MemoryDecl,
    Module,
    StateDecl,
)
from isamap.source import IsamapError, Source, read_codes
from isamap.syntax import parse_module
from isamap.syntax.declarations import ATTRIBUTES, NAMED
from isamap.syntax.parser import format_source

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "language.md").read_text(encoding="utf-8")
GRAMMAR = (ROOT / "isamap" / "syntax" / "grammar.lark").read_text(encoding="utf-8")
BLOCKS = re.findall(r"(?:^\*Refused, `([a-z-]+)`:\*\n\n)?^```ir\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
EXAMPLES = [text for code, text in BLOCKS if not code]
REFUSED = [(code, text) for code, text in BLOCKS if code]


def title(text: str) -> str:
    return " ".join(text.split()[1:2])


def surroundings(before: str) -> Module:
    """Memories, states and constants of all examples above a text."""
    known: list[Declaration] = []
    for text in EXAMPLES[: EXAMPLES.index(before) if before in EXAMPLES else None]:
        module = parse_module(Source("above", text), Module(tuple(known)))
        known += [d for d in module.declarations if isinstance(d, MemoryDecl | StateDecl | ConstantDecl)]
    return Module(tuple(known))


@pytest.mark.parametrize("text", EXAMPLES, ids=map(title, EXAMPLES))
def test_an_example_parses(text: str) -> None:
    assert parse_module(Source("example", text), surroundings(text)).declarations


@pytest.mark.parametrize("text", [text for _, text in BLOCKS], ids=[title(text) for _, text in BLOCKS])
def test_an_example_is_laid_out_canonically(text: str) -> None:
    assert format_source(Source("example", text)) == text


@pytest.mark.parametrize(("code", "text"), REFUSED, ids=[code for code, _ in REFUSED])
def test_an_example_is_refused_with_the_code_it_names(code: str, text: str) -> None:
    with pytest.raises(IsamapError) as caught:
        parse_module(Source("example", text))
    assert {d.code for d in caught.value.diagnostics} == {code}


def test_every_rule_of_the_grammar_has_an_example() -> None:
    parser: Any = Lark(GRAMMAR, parser="lalr", start="start", maybe_placeholders=True)
    used = {name for text in EXAMPLES for name in rules(parser.parse(text))}
    assert used - {""} >= set(named_rules(parser))


def rules(tree: Tree[Any]) -> Iterator[str]:
    return (str(t.data) for t in tree.iter_subtrees())


def named_rules(parser: Any) -> Iterator[str]:
    """Yield what trees may hold: aliases, and rules that are not replaced by their only child."""
    for rule in parser.rules:
        name = str(rule.alias or rule.origin.name)
        if not name.startswith("_") and (rule.alias or not rule.options.expand1):
            yield name


WORDS = sorted(
    {
        *re.findall(r'"([a-z]+)"', GRAMMAR),
        *(w for group in re.findall(r"/\(([a-z|]+)\)\\b/", GRAMMAR) for w in group.split("|")),
        *DTYPES,
        *NUMERICS,
        *ATTRIBUTES,
        *(a for attributes in ATTRIBUTES.values() for a in attributes),
        *NAMED,
        *(op.name for op in OPS.values() if op.spelling is None),
        *(mode for op in OPS.values() for mode in op.modes),
    }
)


def test_every_word_of_the_language_is_in_the_reference() -> None:
    assert [word for word in WORDS if not re.search(rf"\b{word}\b", TEXT)] == []


def test_every_operator_and_reduction_is_in_the_reference() -> None:
    spelled = [op.spelling for op in OPS.values() if op.spelling] + [f"{sign}=" for sign in REDUCTIONS]
    assert [sign for sign in spelled if sign not in TEXT.replace("\\|", "|")] == []


def test_every_code_that_the_reference_names_exists() -> None:
    named = {code for code, _ in REFUSED} | set(re.findall(r"\(`([a-z-]+)`", TEXT))
    assert named <= read_codes().keys()


def test_links_within_the_reference_lead_somewhere() -> None:
    headings = re.findall(r"^#+ (.*)$", TEXT, re.MULTILINE)
    titles = {re.sub(r"[^a-z0-9 -]", "", h.lower()).replace(" ", "-") for h in headings}
    assert set(re.findall(r"\]\(#([a-z0-9-]+)\)", TEXT)) <= titles
