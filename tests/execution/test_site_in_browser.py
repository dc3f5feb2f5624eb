"""The site in a browser: search from file://, light and dark, on a phone, without a network."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import pytest
from browser import Browser, chromium

ROOT = Path(__file__).resolve().parents[2]
PAGES = (
    "index",
    "tutorial",
    "step-by-step",
    "cookbook",
    "language",
    "options",
    "diagnostics",
    "troubleshooting",
    "benchmarks/results",
)
pytestmark = [
    pytest.mark.skipif(chromium() is None, reason="no Chromium is installed: `apt-get install chromium`"),
    pytest.mark.skipif(find_spec("mkdocs") is None, reason="mkdocs is not installed: pip install '.[docs]'"),
]


# Codes, options and names in the text that are shown on more than one line.
BROKEN_WORDS = """[...document.querySelectorAll('.md-typeset :not(pre) > code')].filter(
    code => /^\\S{2,24}$/.test(code.textContent) && code.getClientRects().length > 1).map(code => code.textContent)"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "-q", "--site-dir", str(folder)]
    subprocess.run(command, cwd=ROOT, env=os.environ | {"NO_MKDOCS_2_WARNING": "1"}, check=True)
    return folder


def wait(browser: Browser, expression: str) -> None:
    for _ in range(200):
        if browser.value(expression):
            return
        time.sleep(0.1)
    pytest.fail(f"never true: {expression}")


def only_own_files(browser: Browser) -> bool:
    remote = [url for url in browser.requests if not url.startswith(("file:", "data:", "about:"))]
    return (browser.errors, remote) == ([], [])


@pytest.mark.parametrize(("scheme", "shown"), [("light", "default"), ("dark", "slate")])
@pytest.mark.parametrize("width", [390, 1280])
def test_pages_fit_the_window_in_the_readers_scheme(
    scheme: str, shown: str, width: int, site: Path, tmp_path: Path
) -> None:
    wide: list[str] = []
    broken: list[str] = []
    with Browser(tmp_path) as browser:
        browser.width(width)
        browser.mode(scheme)
        for page in PAGES:
            browser.open(site / f"{page}.html")
            wait(browser, f"document.body.dataset.mdColorScheme === '{shown}'")
            if browser.value("document.documentElement.scrollWidth > document.documentElement.clientWidth"):
                wide.append(page)
            broken += browser.value(BROKEN_WORDS)
        assert only_own_files(browser)
    assert (wide, broken) == ([], [])


def test_search_finds_pages_from_a_file(site: Path, tmp_path: Path) -> None:
    with Browser(tmp_path) as browser:
        browser.width(1280)
        browser.open(site / "index.html")
        field = "document.querySelector('.md-search__input')"
        wait(browser, f"{field} !== null && !document.querySelector('.md-search').hidden")
        browser.value(f"{field}.focus() || 0")
        browser.value(f"{field}.value = 'scratchpad'")
        browser.value(f"{field}.dispatchEvent(new KeyboardEvent('keyup', {{bubbles: true}}))")
        found = "[...document.querySelectorAll('.md-search-result__item > a')]"
        wait(browser, f"{found}.length > 0")
        assert browser.value(f"{found}.some(a => new URL(a.href).pathname.endsWith('/scratchpads.html'))")
        assert only_own_files(browser)
