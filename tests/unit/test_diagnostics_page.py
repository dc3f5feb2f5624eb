"""The page of diagnostics lists every code, and the page of symptoms leads to each.

`pytest --snapshot-update` writes the page of diagnostics anew.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from isamap.source.codes import read_codes, read_tables

DOCS = Path(__file__).parents[2] / "docs"
PAGE = DOCS / "diagnostics.md"
HEAD = """\
# Diagnostics

Every message of isamap has a code in brackets after the word `error`, `warning` or `note`.
`isamap explain CODE` prints the explanations of this page. An example is a short text that is refused with the code.
[Troubleshooting](troubleshooting.md) begins with what you see. [Why not](refusals.md) explains
the refusals of instructions.
"""
LAYERS = {
    "language": "Kernels and their texts",
    "machine": "Descriptions of machines",
    "match": "Mappings of instructions",
    "plan": "Schedules",
    "codegen": "Code and calls of it",
    "evaluation": "Measuring and evaluating",
    "stream": "Encoded programs",
    "model": "Models",
    "library": "Libraries",
    "command": "Commands and their environment",
}


def written() -> str:
    """Return the page as the tables of explanations give it, with an anchor for each code."""
    parts = [HEAD]
    for layer, title in LAYERS.items():
        parts.append(f"## {title}\n")
        for code, e in read_tables()[layer].items():
            parts.append(f'<a id="{code}"></a>**`{code}`**: {e.title}\n\n{e.text.strip()}\n')
            if e.example:
                parts.append(f"```text\n{e.example.strip()}\n```\n")
    return "\n".join(parts)


def test_the_page_lists_every_code(pytestconfig: pytest.Config) -> None:
    assert set(LAYERS) == set(read_tables())
    if pytestconfig.getoption("update_snapshots"):
        PAGE.write_text(written(), encoding="utf-8")
    assert PAGE.read_text(encoding="utf-8") == written()


def test_the_page_of_symptoms_names_codes_that_there_are() -> None:
    """Each code in the page's tables is known, and those of the most common refusals are among them."""
    text = (DOCS / "troubleshooting.md").read_text(encoding="utf-8")
    named = set(re.findall(r"^\| \[`([a-z0-9-]+)`\]", text, re.MULTILINE))
    assert named - set(read_codes()) == set()
    assert {"no-mapping", "result-wrong", "no-compiler", "size-unbound"} <= named


def test_the_page_of_symptoms_leads_to_every_code() -> None:
    """Each code is in one row of the index, whose next step is not empty."""
    text = (DOCS / "troubleshooting.md").read_text(encoding="utf-8")
    index = text.partition("\n## All codes by symptom\n")[2]
    rows = re.findall(r"^\| (?!symptom|---)(.+?) \| (.*?) \| (.+) \|$", index, re.MULTILINE)
    linked = [re.findall(r"\[`([a-z0-9-]+)`\]\(diagnostics\.md#\1\)", codes) for _, _, codes in rows]
    assert sorted(code for codes in linked for code in codes) == sorted(read_codes())
    assert [symptom for symptom, step, _ in rows if not step] == []
