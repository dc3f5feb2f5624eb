"""The table of readers in SECURITY.md is complete: modules that open files, and readers that are fuzzed."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from fuzz.readers import READERS

ROOT = Path(__file__).resolve().parents[2]
DOOR = {"open_regular", "open_in_folder", "read_limited"}


def rows() -> list[list[str]]:
    """Return the cells of the table, a row each, without its head."""
    text = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
    table = text[text.index("| reader | read by |") :].partition("\n\n")[0]
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines()[2:]]


def test_each_module_that_opens_files_has_a_row() -> None:
    opening = {
        str(path.relative_to(ROOT / "isamap").with_suffix(""))
        for path in (ROOT / "isamap").rglob("*.py")
        for text in (path.read_text(encoding="utf-8"),)
        if path.relative_to(ROOT / "isamap") != Path("source/files.py")  # which is the door
        if any(name in text for name in DOOR)  # parsing all modules takes seconds
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Call) and getattr(node.func, "id", getattr(node.func, "attr", "")) in DOOR
    }
    assert opening == {name for row in rows() for name in re.findall(r"`([\w/]+)`", row[1])}


def test_each_fuzzed_reader_has_a_row() -> None:
    assert {*READERS} == {name for row in rows() for name in re.findall(r"`([a-z]+)`", row[2])}


def test_each_row_names_a_test_that_is_there() -> None:
    named = [re.findall(r"tests/[\w/]+\.py", row[3]) for row in rows()]
    assert all(names or row[3].startswith("the same") for names, row in zip(named, rows(), strict=True))
    assert [name for names in named for name in names if not (ROOT / name).is_file()] == []
