"""Every wrong command line in `cli/` with what it prints and the code that it exits with, word for word.

How a file is written stands in tests/commands.py. `pytest --snapshot-update` writes the outputs anew; review
them like code.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from commands import OUTPUT, beside, said

from isamap.source import read_codes
from isamap.source.codes import read_tables

FOLDER = Path(__file__).parent / "cli"
FILES = sorted(FOLDER.glob("*.txt"))

ELSEWHERE = frozenset(
    (
        "library-variable",  # tests/unit/test_libraries.py
        "rows-damaged",  # a folder of rows: tests/unit/test_readers_of_models.py
        "cache-damaged",  # a cache that is damaged: tests/unit/test_cache_command.py
        "bench-threads",  # tests/unit/test_bench.py
        "contender-lost",
        "no-language-server",  # an extra that is not installed: tests/unit/test_language_server.py
        "no-dask",  # tests/unit/test_cluster.py
        "no-scheduler",
        "cluster-failed",
        "file-not-text",  # inputs that are no short texts: tests/unit/test_cli.py
        "file-too-large",
        "internal-error",
        "out-of-memory",  # what a computer lacks: tests/unit/test_streams.py
        "output-unwritable",
        "system-refused",
        "platform-lacks-runner",
        "cost-differs",  # a warning, which depends on what was measured: tests/unit/test_tune_profile.py
        "profile-other-cpu",  # which hold what this computer is: tests/unit/test_tune_profile.py
        "profile-other-machine",
        "program-refused",  # wrong programs: tests/unit/test_driver_verify.py
        "result-wrong",
        "bound-too-large",
        "scalar-only",  # warnings
        "capacity-unused",  # tests/execution/test_stationary.py
        "form-slow",  # tests/unit/test_driver_slowness.py
        "solver-stopped",
        "not-proven",  # tests/unit/test_proof_required.py
        "out-of-registers",
    )
)
"""Codes that no wrong command line gives."""


@pytest.mark.parametrize("path", FILES, ids=[p.stem for p in FILES])
def test_a_wrong_command_line_is_refused_in_these_words(
    path: Path,
    pytestconfig: pytest.Config,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    text, _, expected = path.read_text(encoding="utf-8").partition(OUTPUT)
    monkeypatch.chdir(tmp_path)
    found = said(text, monkeypatch, capsys)
    if pytestconfig.getoption("update_snapshots"):
        path.write_text(f"{text}{OUTPUT}{found}", encoding="utf-8")
        expected = found
    assert found == expected
    assert {p.name for p in tmp_path.iterdir()} == {name.split("/")[0] for name in beside(text)}, (
        "nothing new stays behind"
    )


def test_there_are_enough_wrong_command_lines() -> None:
    assert len(FILES) >= 25


def test_every_code_of_command_lines_is_pinned() -> None:
    pinned = "".join(p.read_text(encoding="utf-8").partition(OUTPUT)[2] for p in FILES)
    assert [c for c in read_tables()["command"] if f"[{c}]" not in pinned and c not in ELSEWHERE] == []
    assert read_tables()["command"].keys() <= read_codes().keys()
