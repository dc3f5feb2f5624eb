"""Commands in pages exist, with the options that the pages give them."""

from __future__ import annotations

import re
from pathlib import Path

from isamap.cli.commands import COMMANDS, function_of, record_of
from isamap.cli.early_words import GROUPS
from isamap.cli.option_parser import options_of

ROOT = Path(__file__).parents[2]
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
BLOCK = re.compile(r"^```(?:sh|console)\n(.*?)^```", re.MULTILINE | re.DOTALL)
IN_BLOCK = re.compile(r"(?:^|&& |\$ )isamap ([a-z].*)", re.MULTILINE)
IN_TEXT = re.compile(r"`isamap ([a-z][^`]*)`")
OTHER_COMMAND = re.compile(r"&&|[|;>]| #")


def test_commands_in_pages_exist() -> None:
    found = [(page.name, command.split()) for page in PAGES for command in read_commands(page) if command]
    wrong = [f"{page}: isamap {' '.join(words)}" for page, words in found if list_unknown(words)]
    assert len(found) > 300
    assert wrong == []


def read_commands(page: Path) -> list[str]:
    """Return the commands of a page's blocks and of its text, without `isamap`."""
    text = page.read_text(encoding="utf-8")
    blocks = [line for block in BLOCK.findall(text) for line in IN_BLOCK.findall(block)]
    return [OTHER_COMMAND.split(command)[0] for command in (*blocks, *IN_TEXT.findall(text))]


def list_unknown(words: list[str]) -> list[str]:
    """Return the words of a command that name neither a command nor an option of it."""
    named = [name for name in COMMANDS if words[: name.count(".") + 1] == name.split(".")]
    if not named:
        group = max((g for g in GROUPS if words[: g.count(".") + 1] == g.split(".")), default=None)
        after = words[group.count(".") + 1 :] if group else words
        # `bench model.onnx` is short for `bench model model.onnx`.
        return [word for word in after[:1] if group is None or not word.endswith(("…", ".onnx"))]
    command = max(named, key=len)
    record = record_of(function_of(command))
    options = options_of(record, command).values() if record is not None else ()
    known = {flag for option in options for spelled in option.flags for flag in spelled.split("/")}
    given = [word.partition("=")[0].strip("[],") for word in words]
    return [word for word in given if word.startswith("--") and word not in {*known, "--help"}]
