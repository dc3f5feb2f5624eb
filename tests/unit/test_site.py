"""The documentation as a site: every page has a place in it, and nothing of it comes from the network."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from isamap.cli import main

ROOT = Path(__file__).resolve().parents[2]
FETCHED = re.compile(
    r"""<(?:script|img|iframe)[^>]*\bsrc=["']?(?:https?:)?//|<link[^>]*\bhref=["']?(?:https?:)?//"""
)


def test_every_page_has_a_place_in_the_navigation() -> None:
    named = set(
        re.findall(r": ([\w-]+\.md)$", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"), re.MULTILINE)
    )
    assert {page.name for page in (ROOT / "docs").glob("*.md")} == named


def test_the_page_of_commands_has_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    known = re.findall(r"^  ([a-z]+(?: [a-z]+)*) +[A-Z]", capsys.readouterr().out, re.MULTILINE)
    text = (ROOT / "docs" / "commands.md").read_text(encoding="utf-8")
    said = re.findall(r"`isamap ((?:[a-z]+ ?)+)", text)
    assert {"compile", "schedule diff", "bench deepbench gemm", "bench deepbench gru"} <= set(known)
    assert [name for name in known if not any(f"{words} ".startswith(f"{name} ") for words in said)] == []


@pytest.mark.skipif(find_spec("mkdocs") is None, reason="mkdocs is not installed: pip install '.[docs]'")
def test_the_site_has_no_broken_link_and_fetches_nothing(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path / "site")]
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    built = subprocess.run(command, cwd=ROOT, env=environment, check=False, capture_output=True, text=True)
    assert built.returncode == 0, built.stderr
    pages = sorted((tmp_path / "site").rglob("*.html"))
    assert {"index.html", "tutorial.html", "0020-memory-model.html", "results.html"} <= {
        p.name for p in pages
    }
    assert [page.name for page in pages if FETCHED.search(page.read_text(encoding="utf-8"))] == []
