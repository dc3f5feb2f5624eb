"""Options are declared once: the page of options, and the keywords of `isamap.compile`, say the same.

`pytest --snapshot-update` writes the page anew.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import isamap
from isamap.cli.commands import COMMANDS, function_of, record_of
from isamap.cli.option_parser import CommandOptions, options_of
from isamap.driver.options import Option, list_options
from isamap.driver.request import Choices, Request

PAGE = Path(__file__).parents[2] / "docs" / "options.md"
HEAD = """\
# Options

The option declarations of the commands, from which this page is written. Every command but `lsp`
also takes `--json`, `-q` (`--quiet`) and `-v` (`--verbose`).

## Options that commands share

`isamap.compile` takes those with a keyword ([from Python](python.md)). The file `manifest.json` has those with a key.
"""


def line(*cells: str) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |\n"


def spelled(option: Option) -> str:
    if not option.flags:
        return f"`{option.metavar}`"
    return f"`{', '.join(option.flags)}{f' {option.metavar}' if option.metavar else ''}`"


def shared() -> Iterator[str]:
    keywords = inspect.signature(isamap.compile).parameters
    yield line("option", "default", "meaning", "commands", "keyword", "key")
    yield line(*["---"] * 6)
    for name, option in list_options(Choices).items():
        commands = [f"`{command.replace('.', ' ')}`" for command in COMMANDS if command in option.commands]
        keyword = option.python or name
        key = option.key or name
        yield line(
            spelled(option),
            option.word or "",
            option.help,
            ", ".join(commands),
            f"`{keyword}`" if keyword in keywords else "",
            f"`{key}`" if option.echo != "never" else "",
        )


def own() -> Iterator[str]:
    for command in COMMANDS:
        record = record_of(function_of(command))
        options = options_of(record, command) if record is not None else {}
        lines = [
            line(spelled(option), option.word or "", option.help)
            for name, option in options.items()
            if name not in list_options(CommandOptions) and name not in list_options(Choices)
        ]
        if lines:
            head = line("option", "default", "meaning") + line(*["---"] * 3)
            yield f"\n## {command.replace('.', ' ')}\n\n{head}{''.join(lines)}"


def test_the_page_of_options_is_written_from_their_declarations(pytestconfig: pytest.Config) -> None:
    text = "".join((HEAD, "\n", *shared(), *own()))
    if pytestconfig.getoption("update_snapshots"):
        PAGE.write_text(text, encoding="utf-8")
    assert PAGE.read_text(encoding="utf-8") == text


@pytest.mark.parametrize("function", [isamap.compile, isamap.verify])
def test_keywords_have_the_defaults_that_options_declare(function: Callable[..., object]) -> None:
    options = {option.python or name: option for name, option in list_options(Choices).items()}
    found = {
        name: taken.default
        for name, taken in inspect.signature(function).parameters.items()
        if name in options
    }
    # What Python writes as nothing, or as no form, is read as the default.
    usual = {name: options[name].default for name in found}
    assert {n: v for n, v in found.items() if bool(v) or bool(usual[n])} == {
        n: v for n, v in usual.items() if v
    }
    assert "threads" in found


def test_every_option_of_a_request_is_one_of_a_command_that_there_is() -> None:
    wrong = [
        name for name, option in list_options(Choices).items()
        if not option.commands or not option.commands <= set(COMMANDS) or not option.help.endswith(".")
    ]  # fmt: skip
    assert wrong == []
    assert set(list_options(Request)) == set(list_options(Choices))


def test_flags_and_names_are_said_once_for_each_command() -> None:
    for command in COMMANDS:
        record = record_of(function_of(command))
        options = options_of(record, command) if record is not None else {}
        flags = [flag for option in options.values() for flag in option.flags]
        assert len(flags) == len(set(flags)), command
