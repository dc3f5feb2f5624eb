"""What the project's texts refer to is there: files, headings, and pages of docs/decisions."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("benchmarks", "docs", "hw_specs", "isamap", "kernels", "scheduler", "tests")
KINDS = {".c", ".h", ".ir", ".lark", ".md", ".py", ".yaml"}
TEXTS = sorted(
    path
    for folder in FOLDERS
    for path in (ROOT / folder).rglob("*")  # rglob does not follow the links
    if path.suffix in KINDS and "__pycache__" not in path.parts
) + sorted(ROOT.glob("*.md"))
PAGES = [path for path in TEXTS if path.suffix == ".md"]
DECISIONS = {path.stem for path in (ROOT / "docs" / "decisions").glob("[0-9]*.md")}

LINK = re.compile(r"\]\((?!https?:|mailto:)(?P<file>[^)#\s]*)(?:#(?P<heading>[^)\s]+))?\)")
CODE = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)
TEST = re.compile(r"`(tests/[\w./*-]+)")
# A list of pages in a description's `sources` has the folder before its first page only.
DECISION = re.compile(
    r"(?:decisions/|, )(?P<name>\d{4}-[a-z0-9-]+(?=\.md)|(?<=decisions/)\d{4}(?:-[a-z0-9-]+)?)"
)
PACKAGES = sorted({path.parent.name for path in TEXTS if path.suffix == ".py" and path.parts[-2] != "tests"})
MODULE = re.compile(rf"`(?:isamap/|scheduler/)?(?P<name>(?:{'|'.join(PACKAGES)})/[a-z0-9_/]+\.py)`")


def test_every_decision_that_a_text_names_is_a_page() -> None:
    numbers = {name[:4] for name in DECISIONS}
    named = [(path, m["name"]) for path in TEXTS for m in DECISION.finditer(path.read_text(encoding="utf-8"))]
    missing = [
        f"{path.relative_to(ROOT)}: {name}"
        for path, name in named
        if name not in DECISIONS and (len(name) > 4 or name not in numbers)
    ]
    assert named
    assert missing == []


def test_modules_that_a_page_names_are_there() -> None:
    """A module that moved leaves its old name in pages, which nothing else reads."""
    known = [f"/{path.relative_to(ROOT)}" for path in TEXTS if path.suffix == ".py"]
    named = [(page, m["name"]) for page in PAGES for m in MODULE.finditer(without_code(page))]
    missing = [
        f"{page.relative_to(ROOT)}: {name}"
        for page, name in named
        if not any(path.endswith(f"/{name}") for path in known)
    ]
    assert len(named) > 20
    assert missing == []


def test_no_two_decisions_have_one_number() -> None:
    assert len({name[:4] for name in DECISIONS}) == len(DECISIONS)


def test_pages_link_to_what_is_there() -> None:
    broken = [
        f"{page.relative_to(ROOT)}: {match[0]}"
        for page in PAGES
        for match in LINK.finditer(without_code(page))
        if not is_there(page, match["file"], match["heading"])
    ]
    assert broken == []


def test_tests_that_a_page_names_are_there() -> None:
    named = [(page, name) for page in PAGES for name in TEST.findall(without_code(page))]
    assert named
    assert [f"{page.relative_to(ROOT)}: {name}" for page, name in named if not any(ROOT.glob(name))] == []


def test_the_promises_name_their_tests() -> None:
    assert len(set(TEST.findall(without_code(ROOT / "SECURITY.md")))) > 10


def is_there(page: Path, file: str, heading: str | None) -> bool:
    """Return whether a link of a page leads to a file or folder, and to a heading of it."""
    target = (page.parent / file).resolve() if file else page
    return target.exists() and (heading is None or heading in headings(target))


def headings(page: Path) -> set[str]:
    """Return a page's anchors, and the names that GitHub and the site give to its headings."""
    text = without_code(page)
    titles = re.findall(r"^#+ +(.+?) *$", text, re.MULTILINE)
    names = {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}
    return names | set(re.findall(r'^<a id="([\w-]+)"></a>', text, re.MULTILINE))


@cache
def without_code(page: Path) -> str:
    """Return a page's text without its blocks of code."""
    return CODE.sub("", page.read_text(encoding="utf-8"))
