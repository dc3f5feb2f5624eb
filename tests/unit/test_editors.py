"""The folder for editors says what the language says, and which command starts the server."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from isamap.cli.commands import COMMANDS
from isamap.hw_specs import FOLDER as MACHINES
from isamap.ir import DTYPES
from isamap.ir.text_layout import KEYWORDS

FOLDER = Path(__file__).parents[2] / "editors" / "vscode"


def content(name: str) -> Any:
    return json.loads((FOLDER / name).read_text(encoding="utf-8"))


def matches(name: str) -> list[str]:
    """Return the patterns of a part of the grammar."""
    part = content("syntaxes/isamap.tmLanguage.json")["repository"][name]
    return [pattern["match"] for pattern in part.get("patterns", [part])]


@pytest.mark.parametrize("word", sorted(KEYWORDS))
def test_every_word_of_the_language_is_coloured(word: str) -> None:
    assert any(re.fullmatch(pattern, word) for pattern in matches("keyword"))


@pytest.mark.parametrize("name", DTYPES)
def test_every_type_is_coloured(name: str) -> None:
    assert re.fullmatch(matches("type")[0], name)
    assert re.fullmatch(matches("cast")[0], f"sat_{name}")


def test_blocks_of_descriptions_begin_and_end() -> None:
    block = content("syntaxes/isamap-in-yaml.tmLanguage.json")["repository"]["block"]
    text = (MACHINES / "systolic-16.yaml").read_text(encoding="utf-8").splitlines()
    begun = [line for line in text if re.match(block["begin"], line)]
    assert len(begun) == sum(line.rstrip().endswith("|") for line in text)
    indent = re.match(block["begin"], "    semantics: |")
    assert indent is not None
    goes_on = block["while"].replace("\\1", indent[1])
    assert re.match(goes_on, "      instruction f() {")
    assert not re.match(goes_on, "    emit: semantics")


def test_the_extension_starts_with_each_language_that_its_server_is_handed() -> None:
    source = (FOLDER / "extension.js").read_text(encoding="utf-8")
    handed = {f"onLanguage:{name}" for name in re.findall(r'language: "(\w+)"', source)}
    assert (
        handed == {"onLanguage:isamap", "onLanguage:yaml"} == set(content("package.json")["activationEvents"])
    )


def test_the_extension_reads_each_setting_that_it_declares() -> None:
    source = (FOLDER / "extension.js").read_text(encoding="utf-8")
    read = {f"isamap.{name}" for name in re.findall(r'settings\.get\("(\w+)"\)', source)}
    assert read == set(content("package.json")["contributes"]["configuration"]["properties"])


def test_the_extension_names_files_that_are_there_and_a_command() -> None:
    package = content("package.json")
    paths = [grammar["path"] for grammar in package["contributes"]["grammars"]]
    paths += [language["configuration"] for language in package["contributes"]["languages"]] + [
        package["main"]
    ]
    assert all((FOLDER / path).is_file() for path in paths)
    command, name = package["contributes"]["configuration"]["properties"]["isamap.command"]["default"]
    assert (command, name in COMMANDS) == ("isamap", True)
    assert content("language-configuration.json")["comments"]["lineComment"] == "#"
