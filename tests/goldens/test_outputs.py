"""Commands still emit what `few.txt` records; `outputs.py --record` accepts what a change means to change."""

from __future__ import annotations

import pytest
from goldens import outputs

RECORDED = outputs.read(outputs.HERE / "few.txt")
ALL = outputs.read(outputs.HERE / "all.txt")


def test_the_files_hold_the_commands_that_outputs_py_names() -> None:
    assert list(RECORDED) == outputs.few_commands()
    assert list(ALL) == outputs.all_commands()


def test_no_recorded_command_ends_with_an_internal_error() -> None:
    assert not [command for command, found in {**RECORDED, **ALL}.items() if found.startswith("exit-70")]


@pytest.mark.exhaustive(fast=6)
@pytest.mark.parametrize("command", RECORDED)
def test_a_command_emits_what_is_recorded(command: str) -> None:
    assert outputs.digest(command) == RECORDED[command]
