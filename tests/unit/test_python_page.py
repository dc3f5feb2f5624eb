"""The page about Python shows what Python prints: its ```pycon blocks are one session."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "python.md"
BLOCK = re.compile(r"^```pycon\n((?:(?!```).*\n)*)```", re.MULTILINE)


def test_the_page_shows_what_is_printed() -> None:
    blocks = BLOCK.findall(PAGE.read_text(encoding="utf-8"))
    assert len(blocks) >= 5
    session = doctest.DocTestParser().get_doctest("\n".join(blocks), {}, PAGE.name, str(PAGE), 0)
    said: list[str] = []
    assert doctest.DocTestRunner().run(session, out=said.append).failed == 0, "".join(said)
