"""Commands still emit what `few.txt` records; `outputs.py --record` accepts what a change means to change."""

from __future__ import annotations

import pytest
from goldens import outputs

RECORDED = outputs.read(outputs.HERE / "few.txt")


def test_few_txt_holds_the_commands_that_outputs_py_names() -> None:
    assert list(RECORDED) == outputs.few_commands()


@pytest.mark.exhaustive(fast=6)
@pytest.mark.parametrize("command", RECORDED)
def test_a_command_emits_what_is_recorded(command: str) -> None:
    assert outputs.digest(command) == RECORDED[command]
