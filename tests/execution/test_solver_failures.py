"""Whatever becomes of the solver's process, commands and the Python interface go on with what is known."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import isamap
from isamap.cli.command_line import run
from isamap.scheduler.process import children
from isamap.scheduler.process.children import Child, Command

WORDS = ["gemm_f64", "--hw", "generic-c", "-D", "M=127", "N=121", "K=119"]
FAILED, STOPPED = "solver-failed", "solver-stopped"


@dataclass(frozen=True)
class End:
    """A program instead of the solver, the limit under which it is asked, and what is said of it then.

    On a slow machine a short limit may be over before anything is asked.
    """

    program: str
    limit_s: float
    codes: frozenset[str]


ENDS = {
    "crash": End("import os; os.abort()", 60, frozenset((FAILED,))),
    "crash with a job": End(
        "print('ready', flush=True); input(); import os; os.abort()", 60, frozenset((FAILED,))
    ),
    "hang": End("print('ready', flush=True); import time; time.sleep(600)", 1, frozenset((FAILED, STOPPED))),
    "no start": End("import time; time.sleep(600)", 1, frozenset((STOPPED,))),
}


@pytest.fixture(params=list(ENDS.values()), ids=list(ENDS))
def ending(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[End]:
    """Yield the program that is started instead of the solver."""
    start = children.start
    end: End = request.param

    def start_another(_: Command) -> Child:
        return start((sys.executable, "-c", end.program))

    kept: list[Child] = []
    monkeypatch.setattr(children, "kept", kept)
    monkeypatch.setattr(children, "start", start_another)
    # Splitting would prove by itself what the solver did not.
    monkeypatch.setattr("isamap.scheduler.search.splitting.MOST_BOXES", 0)
    yield end
    for child in kept:
        child.end()


def answer(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    """Return the command's JSON answer, which is whole whatever happened."""
    code = run([*words, "--json"])
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert found["exit"] == code
    return found


@pytest.mark.parametrize("command", ["compile", "schedule", "verify", "run"])
def test_a_command_ends_with_a_warning_and_a_result(
    command: str,
    ending: End,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    found = answer(capsys, command, *WORDS, "--limit", str(ending.limit_s))
    codes = [diagnostic["code"] for diagnostic in found["diagnostics"]]
    assert found["exit"] == 0
    assert len(codes) == 1
    assert set(codes) <= ending.codes
    if command == "compile":
        assert found["schedule"]["reproducible"] is False
        assert (tmp_path / "gemm_f64-generic-c" / "gemm_f64.c").exists()


def test_the_python_interface_computes_what_it_should(ending: End) -> None:
    rng = np.random.default_rng(0)
    sizes = {"M": 127, "N": 121, "K": 119}
    shapes = {"A": (127, 119), "B": (119, 121), "C": (127, 121)}
    arrays = {n: rng.integers(-3, 4, shape).astype(np.float64) for n, shape in shapes.items()}
    expected = arrays["C"] + arrays["A"] @ arrays["B"]
    compiled = isamap.compile("gemm_f64", "generic-c", sizes, limit_s=ending.limit_s)
    assert np.array_equal(compiled(**arrays)["C"], expected)
    assert '"reproducible": false' in compiled.files["manifest.json"]
