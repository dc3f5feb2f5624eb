"""The page on rewriting tells the truth: its examples are what isamap makes of them, word for word."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from isamap.ir import print_routine
from isamap.source import Source
from isamap.syntax import parse_kernel
from isamap.syntax.parser import format_source
from isamap.transform import factorisations, refused_rewrites, rewrites, winograd_forms

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "transformations.md").read_text(encoding="utf-8")
MADE = re.findall(r"^```ir\n([^`]*)^```\n\n((?:>[^\n]*\n)+)\n```ir\n([^`]*)^```$", TEXT, re.MULTILINE)
REFUSED = re.findall(r"^```ir\n([^`]*)^```\n\n\*Refused:\* (.*?)\n\n", TEXT, re.MULTILINE | re.DOTALL)


def name(text: str) -> str:
    return text.partition("(")[0].split()[-1]


def steps_of(quoted: str) -> tuple[str, ...]:
    """Return the paragraphs of a quotation, each as one line."""
    plain = re.sub(r"^> ?", "", quoted, flags=re.MULTILINE)
    return tuple(" ".join(p.split()) for p in plain.split("\n\n"))


@pytest.mark.parametrize(("before", "quoted", "after"), MADE, ids=[name(b) for b, _, _ in MADE])
def test_an_example_is_rewritten_as_it_stands_there(before: str, quoted: str, after: str) -> None:
    kernel = parse_kernel(Source("before", before))
    all_ = (*rewrites(kernel), *factorisations(kernel), *winograd_forms(kernel))
    found = {r.steps: print_routine(r.kernel) for r in all_}
    assert found[steps_of(quoted)] == after


@pytest.mark.parametrize(("text", "reason"), REFUSED, ids=[name(t) for t, _ in REFUSED])
def test_an_example_is_refused_for_the_reason_that_stands_there(text: str, reason: str) -> None:
    found = [f"{r.reason}; {r.help}" for r in refused_rewrites(parse_kernel(Source("refused", text)))]
    assert found == [" ".join(reason.split())]


@pytest.mark.parametrize("text", [b for b, _, _ in MADE] + [t for t, _ in REFUSED])
def test_an_example_is_laid_out_canonically(text: str) -> None:
    assert format_source(Source("example", text)) == text


def test_every_section_has_an_example() -> None:
    sections = re.findall(r"^## (.*)$", TEXT, re.MULTILINE)
    # Three have none: what is common to all, and edges and bounds, of which canonical kernels are made.
    assert len(MADE) == len(sections) - 3
    assert len(REFUSED) == 1


def test_links_within_the_page_lead_somewhere() -> None:
    titles = {h.lower().replace(" ", "-") for h in re.findall(r"^#+ (.*)$", TEXT, re.MULTILINE)}
    assert set(re.findall(r"\]\(#([a-z-]+)\)", TEXT)) <= titles
