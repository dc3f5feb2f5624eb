"""Pages show what Python prints: the ```pycon blocks of each are one session."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
BLOCK = re.compile(r"^```pycon\n((?:(?!```).*\n)*)```", re.MULTILINE)


def run_page(name: str) -> int:
    """Return how many blocks a page has, all of which print what stands there."""
    page = DOCS / name
    blocks = BLOCK.findall(page.read_text(encoding="utf-8"))
    session = doctest.DocTestParser().get_doctest("\n".join(blocks), {}, page.name, str(page), 0)
    said: list[str] = []
    assert doctest.DocTestRunner().run(session, out=said.append).failed == 0, "".join(said)
    return len(blocks)


def test_the_page_about_python_shows_what_is_printed() -> None:
    assert run_page("python.md") >= 5


@pytest.mark.exhaustive
def test_two_layers_in_both_directions_are_those_of_torch() -> None:
    pytest.importorskip("torch")
    assert run_page("recurrent.md") == 1
