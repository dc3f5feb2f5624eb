"""Pages in docs that show commands show what the commands print.

A block of ```console begins with `$ isamap …`; what follows is its standard output. A block under a line
"`NAME`:" is a file that lies beside. `pytest --snapshot-update` writes the outputs anew. Seconds in tables of
heuristics are the only thing that may differ.
"""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from isamap.cli import main

DOCS = Path(__file__).parents[2] / "docs"
PAGES = (
    "command-schedule.md",
    "access-counts.md",
    "command-match.md",
    "command-hw.md",
    pytest.param("tutorial.md", marks=pytest.mark.exhaustive),  # it compiles 265 instructions
)
CONSOLE = re.compile(r"```console\n\$ isamap (?P<words>.*)\n(?P<said>(?:(?!```).*\n)*)```")
SECONDS = re.compile(r"^((?:cpsat|greedy|annealing|best \d+) .*?)\b\d+\.\d\d\b *", re.MULTILINE)
FILE = re.compile(r"^`(?P<name>[\w.-]+)`:\n\n```\n(?P<text>(?:(?!```).*\n)*)```", re.MULTILINE)


@pytest.mark.parametrize("page", PAGES)
def test_a_page_shows_what_is_printed(
    page: str,
    pytestconfig: pytest.Config,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = DOCS / page
    text = path.read_text(encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "docs").symlink_to(DOCS)
    for file in FILE.finditer(text):
        (tmp_path / file["name"]).write_text(file["text"], encoding="utf-8")

    def said(block: re.Match[str]) -> str:
        assert main(shlex.split(block["words"])) == 0, block["words"]
        return f"```console\n$ isamap {block['words']}\n{capsys.readouterr().out}```"

    shown, count = CONSOLE.subn(said, text)
    assert count, "the page shows commands"
    if pytestconfig.getoption("update_snapshots") and _untimed(shown) != _untimed(text):
        path.write_text(shown, encoding="utf-8")
        text = shown
    assert _untimed(shown) == _untimed(text)


def _untimed(text: str) -> str:
    """The text without the seconds that heuristics took."""
    return SECONDS.sub(r"\1?", text)
