"""Pages that show commands show what the commands print.

A block of ```console begins with `$ isamap …`; what follows is its standard output, and then what it finds.
A block under "`NAME`:" is a file that lies beside from there on; one under "Add to `NAME`:" is added to
it, and "In `NAME`, replace `A` by `B`." edits it. `pytest --snapshot-update` writes the outputs anew. Seconds
in tables of heuristics are the only thing that may differ.
"""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from isamap.cli import main

DOCS = Path(__file__).parents[2] / "docs"
PAGES = (
    "../README.md",
    "step-by-step.md",
    "command-schedule.md",
    "access-counts.md",
    "energy.md",
    "command-match.md",
    "programs.md",
    # What follows compiles hundreds of instructions, or predicts many kernels.
    pytest.param("command-hw.md", marks=pytest.mark.exhaustive),
    pytest.param("tutorial-accelerator.md", marks=pytest.mark.exhaustive),
    pytest.param("tutorial-gpu.md", marks=pytest.mark.exhaustive),
    pytest.param("tutorial.md", marks=pytest.mark.exhaustive),
)
CONSOLE = re.compile(r"```console\n\$ isamap (?P<words>.*)\n(?P<said>(?:(?!```).*\n)*)```")
SECONDS = re.compile(r"^((?:cpsat|greedy|annealing|best \d+) .*?)\b\d+\.\d\d\b *", re.MULTILINE)
TEXT = r"\n\n```\n(?P<text>(?:(?!```).*\n)*)```"
FILE = re.compile(rf"^(?P<added>Add to )?`(?P<name>[\w.-]+)`:{TEXT}", re.MULTILINE)
EDIT = re.compile(r"^In `(?P<edited>[\w.-]+)`, replace `(?P<old>.+?)` by `(?P<by>.+?)`\.$", re.MULTILINE)
STEP = re.compile("|".join(re.sub(r"\?P<\w+>", "?:", p.pattern) for p in (CONSOLE, FILE, EDIT)), re.MULTILINE)


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
    commands: list[str] = []

    def performed(step: re.Match[str]) -> str:
        if (file := FILE.fullmatch(step[0])) is not None:
            with (tmp_path / file["name"]).open("a" if file["added"] else "w", encoding="utf-8") as beside:
                beside.write(("\n" if file["added"] else "") + file["text"])
        elif (edit := EDIT.fullmatch(step[0])) is not None:
            beside_text = (tmp_path / edit["edited"]).read_text(encoding="utf-8")
            assert beside_text.count(edit["old"]) == 1
            (tmp_path / edit["edited"]).write_text(beside_text.replace(edit["old"], edit["by"]))
        elif (block := CONSOLE.fullmatch(step[0])) is not None:
            commands.append(block["words"])
            code = main(shlex.split(block["words"]))
            said = capsys.readouterr()
            assert code == 0, said
            return f"```console\n$ isamap {block['words']}\n{said.out}{said.err}```"
        return step[0]

    shown = STEP.sub(performed, text)
    assert commands, "the page shows commands"
    if pytestconfig.getoption("update_snapshots") and _untimed(shown) != _untimed(text):
        path.write_text(shown, encoding="utf-8")
        text = shown
    assert _untimed(shown) == _untimed(text)
    for picture in re.findall(r"^!\[.*\]\((.+\.svg)\)$", text, re.MULTILINE):
        drawn = (tmp_path / picture).read_text(encoding="utf-8")
        if pytestconfig.getoption("update_snapshots"):
            (path.parent / picture).write_text(drawn, encoding="utf-8")
        assert (path.parent / picture).read_text(encoding="utf-8") == drawn


def _untimed(text: str) -> str:
    """Return the text without the seconds that heuristics took."""
    return SECONDS.sub(r"\1?", text)
