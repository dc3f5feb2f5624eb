"""Choices between our kernel and a library's calls: what rounds say, and what is kept of it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from isamap.cli import main
from isamap.source import Unkept
from isamap.tune.implementation_choices import ChoiceDatabase, ImplementationChoice


@pytest.fixture(autouse=True)
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a data folder of one's own."""
    folder = tmp_path / "data"
    folder.mkdir(mode=0o700)
    monkeypatch.setenv("ISAMAP_DATA_DIR", str(folder))
    monkeypatch.setenv("ISAMAP_CACHE_DIR", str(tmp_path / "cache"))
    return folder


def choice(ours: float, *theirs: float) -> ImplementationChoice:
    rounds: Mapping[int, Mapping[str, float]] = {
        n: {"isamap": ours, "torch": t} for n, t in enumerate(theirs)
    }
    return ImplementationChoice.of(
        rounds, key="k", kernel="aten_mm", library="torch", time="2026-11-27T10:00:00+00:00"
    )


@pytest.mark.parametrize(
    ("theirs", "chosen"),
    [
        ([8.0] * 9, "torch"),
        ([8.0] * 8 + [12.0], "torch"),
        ([8.0] * 7 + [12.0] * 2, "isamap"),  # this often a coin falls so
        ([10.0] * 9, "isamap"),
        ([12.0] * 3, "isamap"),
        ([8.0] * 5, "torch"),
        ([8.0] * 4, "isamap"),
    ],
)
def test_a_library_is_taken_only_where_it_won_by_more_than_chance(theirs: list[float], chosen: str) -> None:
    assert choice(10.0, *theirs).chosen == chosen


def test_a_choice_says_what_was_measured() -> None:
    found = choice(10.0, *[8.0] * 9)
    assert (found.ratio, found.ours_ns, found.theirs_ns, found.rounds) == (0.8, 10, 8, 9)
    assert found.said == "torch took 0.80 of the kernel's time, measured 2026-11-27"


def test_choices_are_kept_counted_and_cleared(capsys: pytest.CaptureFixture[str]) -> None:
    assert ChoiceDatabase.open().find("k") is None
    assert ChoiceDatabase.open().count() == 0
    ChoiceDatabase.open().keep(choice(10.0, *[12.0] * 9))
    ChoiceDatabase.open().keep(found := choice(10.0, *[8.0] * 9))
    assert ChoiceDatabase.open().find("k") == found
    assert main(["cache", "list", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["tuning"]["choices"] == 1
    assert main(["cache", "list"]) == 0
    assert "portfolio.sqlite: 1 choice between kernels and library calls\n" in capsys.readouterr().out
    assert main(["cache", "clear", "tuning"]) == 0
    assert capsys.readouterr().out == (
        "cleared 0 tuned schedules and 1 choice between kernels and library calls\n"
    )
    assert ChoiceDatabase.open().find("k") is None


def test_a_file_that_is_no_database_is_named(data: Path) -> None:
    (data / "portfolio.sqlite").write_text("no database" * 100)
    with pytest.raises(Unkept, match="tuning-unusable"):
        ChoiceDatabase.open().find("k")
