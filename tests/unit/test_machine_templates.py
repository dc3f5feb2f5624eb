"""`isamap hw new` writes descriptions that pass `hw check` and compile products at once."""

from __future__ import annotations

import io
import re
from pathlib import Path

import pytest

from isamap.cli import main
from isamap.machine import load_machine
from isamap.machine.lint import find_warnings
from isamap.machine.templates import KINDS, begin

SIZES = ("-D", "M=32", "N=32", "K=32")
EDGES = [
    ("vector", "bytes", [8, 1024]),
    ("vector", "registers", [8, 64]),
    ("matrix", "rows", [2, 31, 256]),
    ("matrix", "bus_bytes", [4, 256]),
    ("matrix", "clock_ghz", [0.25, 3.5]),
    ("abstract", "m", [1, 100]),
    ("abstract", "k", [1, 100]),
]


def begun(folder: Path, kind: str, **given: float) -> str:
    path = folder / "mine.yaml"
    path.write_text(begin("mine", kind, given), encoding="utf-8")
    return str(path)


@pytest.mark.parametrize("kernel", ["gemm_f32", "gemm_u8s8"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_new_machine_compiles_products_by_its_own_instructions(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: str, kernel: str
) -> None:
    words = ["compile", kernel, "--hw", begun(tmp_path, kind), "-o", str(tmp_path / "out"), *SIZES]
    assert main([*words, "--heuristic", "greedy", "--no-cache"]) == 0
    said = capsys.readouterr().out
    assert re.search(r"^  (multiply|product)\w* \{", said, re.MULTILINE), said


@pytest.mark.parametrize(("kind", "name", "values"), EDGES)
def test_nothing_is_odd_in_a_new_machine_whatever_its_figures(
    tmp_path: Path, kind: str, name: str, values: list[float]
) -> None:
    """An array of more cells than the memory of sums has room for is odd: the figures do not fit."""
    for value in values:
        found = find_warnings(load_machine(begun(tmp_path, kind, **{name: value})))
        assert {d.code for d in found} <= ({"memory-too-small"} if (name, value) == ("rows", 256) else set())


@pytest.mark.parametrize("kind", KINDS)
def test_every_figure_that_is_asked_is_in_the_text(kind: str) -> None:
    usual = begin("mine", kind, {})
    assert not re.search("@[A-Z_]+@", usual)
    for asked in KINDS[kind].asked:
        assert begin("mine", kind, {asked.name: asked.usual * 2}) != usual


def test_a_terminal_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.stdin", Terminal("matrx\nmatrix\nmany\n8\n64 KiB\n\n\n\n"))
    assert main(["hw", "new", "edge"]) == 0
    asked = capsys.readouterr().err
    assert "kind, one of vector, matrix, abstract [vector]:" in asked
    assert "did you mean `matrix`?" in asked
    assert "rows is 2 to 256, not `many`" in asked
    assert "spad_bytes, bytes of the scratchpad" in asked
    machine = load_machine(str(tmp_path / "edge.yaml"))
    assert machine.memories["spad"].capacity_bytes == 65536
    assert machine.memories["weights"].capacity_bytes == 2 * 8 * 32
