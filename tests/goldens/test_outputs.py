"""Commands still emit what `few.txt` records; `outputs.py --record` accepts what a change means to change."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from goldens import outputs

RECORDED = outputs.read(outputs.HERE / "few.txt")
SCHEDULES = outputs.read_schedules(outputs.HERE / "few.schedules")
ALL = outputs.read(outputs.HERE / "all.txt")


def test_the_files_hold_the_commands_that_outputs_py_names() -> None:
    assert list(RECORDED) == outputs.few_commands()
    assert list(ALL) == outputs.all_commands()


def test_no_recorded_command_ends_with_an_internal_error() -> None:
    assert not [command for command, found in {**RECORDED, **ALL}.items() if found.startswith("exit-70")]


@pytest.mark.exhaustive(fast=6)
@pytest.mark.parametrize("command", RECORDED)
def test_a_command_emits_what_is_recorded(command: str) -> None:
    found, chosen = outputs.emit(command)
    assert chosen == SCHEDULES.get(command, ""), "another decision"
    assert found == RECORDED[command], "equal decisions, and other code"


def compare_times(monkeypatch: pytest.MonkeyPatch, times: Mapping[str, tuple[float | str, ...]]) -> int:
    """Compare builds whose times are given: those of each command here and there, in the order of the runs."""
    runs = {
        python: {command: iter(found * outputs.ROUNDS) for command, found in chosen.items()}
        for python, chosen in (
            (sys.executable, {command: found[:1] for command, found in times.items()}),
            ("other", {command: found[1:] for command, found in times.items()}),
        )
    }

    def give_next(python: str, command: str, folder: str) -> float | str:
        return next(runs[python][command])

    monkeypatch.setattr(outputs, "run_once", give_next)
    return outputs.time_builds("other", list(times))


def test_a_build_within_five_percent_of_another_is_not_slower(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert compare_times(monkeypatch, {"a": (1.04, 1.0), "b": (0.5, 1.0)}) == 0
    assert "0 of 2 more than 5 % slower" in capsys.readouterr().out


def test_one_command_beyond_five_percent_fails_the_comparison(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert compare_times(monkeypatch, {"a": (1.0, 1.0), "b": (1.06, 1.0), "c": (0.2, 1.0)}) == 1
    assert "1 of 3 more than 5 % slower" in capsys.readouterr().out


def test_a_slow_run_counts_for_nothing_where_another_is_fast(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not outputs.is_slower([3.0, 1.0, 2.0], [1.0, 1.0, 1.0])
    assert outputs.is_slower([1.1, 1.2, 1.1], [9.0, 1.0, 9.0])


def test_a_command_that_a_build_refuses_is_replaced_by_another(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(outputs, "TIMED", 2)
    times = {"a": (1.0, 1.0), "b": (2.0, 1.0), "new": (0.1, "error[x]"), "d": (1.0, 1.0)}
    assert compare_times(monkeypatch, times) == 1  # a and new come first, then b in the place of new
    said = capsys.readouterr().out
    assert "refused by other (error[x]): isamap new" in said
    assert "1 of 2 more" in said


def test_a_build_that_refuses_everything_is_no_evidence(monkeypatch: pytest.MonkeyPatch) -> None:
    assert compare_times(monkeypatch, {"a": (0.1, "error[x]"), "b": ("error[x]", 1.0)}) == 1


def test_a_run_that_fails_has_an_error_and_no_time(tmp_path: Path) -> None:
    said = outputs.run_once(sys.executable, "compile no_such_kernel --hw generic-c", str(tmp_path))
    assert str(said).startswith("error[")


def test_a_run_writes_anew_where_another_left_a_folder(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    words = "compile gemm_s8s8 --hw gemmini -D K=32 M=32 N=32 --emit program --heuristic greedy"
    assert isinstance(outputs.run_once(sys.executable, words, str(tmp_path)), float)
    assert (tmp_path / "out").is_file()
