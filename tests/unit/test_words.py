"""The words of texts: `docs/glossary.md` says which are not used, and which term stands there instead."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
GLOSSARY = ROOT / "docs" / "glossary.md"
HEADING = "## Words that are not used"
FOLDERS = ("isamap", "scheduler", "docs", "hw_specs", "kernels", "benchmarks", "tests")
PAGES = ("README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md")
SUFFIXES = {".py", ".md", ".yaml", ".ir", ".c", ".h"}

# Names that are spelt like words: authors of papers.
QUOTED = ("He et al.",)

TEXTS = [
    *(ROOT / page for page in PAGES),
    *(
        path
        for folder in FOLDERS
        for path in sorted((ROOT / folder).rglob("*"))  # rglob does not follow the links
        if path.suffix in SUFFIXES and "__pycache__" not in path.parts
    ),
]


@cache
def unused() -> dict[str, str]:
    """Return each word that is not used, in lower case, with what the glossary has instead."""
    rows = GLOSSARY.read_text(encoding="utf-8").split(HEADING)[1].splitlines()
    cells = [[cell.strip() for cell in row.split("|")[1:-1]] for row in rows if row.startswith("| ")]
    return {word: instead for words, instead in cells[1:] for word in words.split(", ")}


@cache
def pattern() -> re.Pattern[str]:
    """Any of these words, whole: parts of names in code are none."""
    words = "|".join(
        re.escape(word).replace(r"\ ", r"\s+") for word in sorted(unused(), key=len, reverse=True)
    )
    return re.compile(rf"\b(?:{words})\b", re.IGNORECASE)


def findings(text: str) -> list[str]:
    """Return the words that are not used, by line, with the term to use."""
    for name in QUOTED:
        text = text.replace(name, "")
    found: list[str] = []
    for match in pattern().finditer(text):
        word = " ".join(match[0].split())
        line = text.count("\n", 0, match.start()) + 1
        found.append(f"line {line}: `{word}`; write: {unused()[word.lower()]}")
    return found


def test_texts_use_the_words_of_the_glossary() -> None:
    read = {path: path.read_text(encoding="utf-8") for path in TEXTS}
    read[GLOSSARY] = read[GLOSSARY].split(HEADING)[0]
    assert [
        f"{path.relative_to(ROOT)}: {found}" for path, text in read.items() for found in findings(text)
    ] == []


def test_each_word_that_is_not_used_is_found() -> None:
    assert len(unused()) > 30
    for word, instead in unused().items():
        assert findings(f"a line\nof {word.upper()}, here") == [f"line 2: `{word.upper()}`; write: {instead}"]
        assert findings(f"x_{word.replace(' ', '_')}_y = {word.replace(' ', '_')}_z") == []


def test_a_phrase_is_found_across_two_lines() -> None:
    first, *others = next(word for word in unused() if " " in word).split()
    assert len(findings(f"a {first}\n{' '.join(others)}")) == 1


def test_a_quoted_name_is_no_word() -> None:
    assert findings(f"as {QUOTED[0]} say") == []
