"""Hooks for mkdocs: pages from outside docs/, the list of decisions, and words of code on one line.

A page may link to one that lies outside docs/, as `../benchmarks/results/README.md`. That page is
taken into the site under its path in the project; links from there into docs/ lead to the site's pages.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
LINK = re.compile(r"\]\((?P<path>[^)#\s:]+\.md)(?P<heading>#[^)\s]+)?\)")
CODE = re.compile(r"(?<!</span>)(?<!<pre>)<code>(?P<text>[^<]*)</code>")
SHORT_WORD = re.compile(r"(?<!\S)\S{2,24}(?!\S)")
INDEX = "decisions/index.md"
ORIGINS: dict[str, str] = {}  # of pages from outside docs/: their paths in the project


def on_config(config: Any) -> Any:
    """Return the configuration with all decisions in the navigation."""
    names = [page.name for page in _decisions()]
    for section in config.nav:
        for entry in section.get("Why", []):
            if "Decisions" in entry:
                entry["Decisions"] = [INDEX, *(f"decisions/{name}" for name in names)]
    return config


def on_files(files: Any, config: Any) -> Any:
    """Return the files of docs/, the pages outside that they link to, and an index of decisions."""
    from mkdocs.structure.files import File

    outside: set[str] = set()
    for file in files.documentation_pages():
        linked = {_target(f"docs/{file.src_uri}", m["path"]) for m in LINK.finditer(file.content_string)}
        outside |= {path for path in linked if not path.startswith("docs/") and (ROOT / path).is_file()}
    for path in sorted(outside):
        ORIGINS[_inside(path)] = path
        files.append(File.generated(config, _inside(path), content=(ROOT / path).read_text(encoding="utf-8")))
    files.append(File.generated(config, INDEX, content=_index()))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Return the page's text, in which links that leave docs/ or come from outside lead to pages of the site."""
    source = page.file.src_uri
    origin = ORIGINS.get(source, f"docs/{source}")

    def inside(match: re.Match[str]) -> str:
        target = _inside(_target(origin, match["path"]))
        link = posixpath.relpath(target, posixpath.dirname(source) or ".")
        return f"]({link}{match['heading'] or ''})"

    return LINK.sub(inside, markdown)


def on_page_content(html: str, page: Any, config: Any, files: Any) -> str:
    """Return the page with each short word of code on one line: no line ends after the `--` of an option."""
    return CODE.sub(lambda m: f"<code>{SHORT_WORD.sub(_unbroken, m['text'])}</code>", html)


def _unbroken(word: re.Match[str]) -> str:
    return f'<span class="word">{word[0]}</span>'


def _inside(path: str) -> str:
    """Return where the site has a page of the project; a README is no index of a section here."""
    return path.removeprefix("docs/").replace("/README.md", ".md")


def _target(origin: str, link: str) -> str:
    """Return the path in the project of what a page links to."""
    return posixpath.normpath(posixpath.join(posixpath.dirname(origin), link))


def _decisions() -> list[Path]:
    return sorted((ROOT / "docs" / "decisions").glob("[0-9]*.md"))


def _index() -> str:
    titles = {page: page.read_text(encoding="utf-8").split("\n", maxsplit=1)[0] for page in _decisions()}
    items = [f"- [{title.removeprefix('# ')}]({page.name})" for page, title in titles.items()]
    return "# Decisions\n\nWhat was chosen, what was tried, and what it costs.\n\n" + "\n".join(items) + "\n"
