"""`isamap hw sweep`: figures found in descriptions, ranges of values, rows that are kept, table and plot."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from isamap.cli import main
from isamap.cli.ranges import read_setting
from isamap.driver.predicted import Predicted
from isamap.machine import Machine, load_machine
from isamap.machine.beginnings import begin
from isamap.machine.chain import File
from isamap.machine.variants import edited
from isamap.report.sweep_plot import sweep_svg
from isamap.report.sweeps import Line, Sweep, sweep_text
from isamap.source import Source, UsageProblem

KERNEL = ("--kernel", "gemm_u8s8 M=64 N=32 K=64")


@pytest.fixture
def edge(tmp_path: Path) -> str:
    (tmp_path / "edge.yaml").write_text(begin("edge", "matrix", {"rows": 16}))
    return str(tmp_path / "edge.yaml")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a.b=64KiB..1MiB", "64KiB 128KiB 256KiB 512KiB 1MiB"),
        ("a.b=8..32+8", "8 16 24 32"),
        ("a.b=1,2,4", "1 2 4"),
        ("a.b=1..3", "1 2"),
        ("a.b=0.5..2+0.5", "0.5 1 1.5 2"),
        ("a.b=3KiB..12KiB+3KiB,1MiB", "3KiB 6KiB 9KiB 12KiB 1MiB"),
        ("a.b=512..2KiB", "512 1KiB 2KiB"),
    ],
)
def test_values_double_step_or_are_listed(text: str, words: str) -> None:
    found = read_setting(text)
    assert (found.path, " ".join(found.words)) == ("a.b", words)
    assert len(found.numbers) == len(found.words)


@pytest.mark.parametrize(
    "text", ["a.b", "a.b=", "=1", "a.b=x", "a.b=4..2", "a.b=0..4", "a.b=1..9+0", "a.b=1..9999+1"]
)
def test_values_that_are_none_are_refused(text: str) -> None:
    with pytest.raises(UsageProblem):
        read_setting(text)


EDITS: list[tuple[str, str, Callable[[Machine], bool]]] = [
    ("memories.spad.bytes", "1 MiB", lambda m: m.memories["spad"].capacity_bytes == 1 << 20),
    ("memories.weights.count", "4", lambda m: m.memories["weights"].count == 4),
    ("units.execute.count", "3", lambda m: m.units["execute"].count == 3),
    ("links.spad.weights.bandwidth_bytes_per_ns", "5", lambda m: m.links[2].bandwidth_bytes_per_ns == 5),
    ("clock_ghz", "2", lambda m: m.clock_ghz == 2),
    ("loops.turn_ns", "7", lambda m: m.loops.turn_ns == 7),
]


@pytest.mark.parametrize(("path", "value", "is_found"), EDITS, ids=[path for path, *_ in EDITS])
def test_a_figure_is_replaced_where_it_stands(
    edge: str, path: str, value: str, is_found: Callable[[Machine], bool]
) -> None:
    text = (
        Path(edge)
        .read_text()
        .replace("  memory spad", "  # memory spad: scratchpad(bytes = 1);\n  memory spad")
    )
    changed = edited(File(Source("edge.yaml", text), None), path, value).source.text
    Path(edge).write_text(changed)
    assert is_found(load_machine(edge))
    lines = list(zip(text.splitlines(), changed.splitlines(), strict=True))
    assert sum(old != new for old, new in lines) == 1


def test_rows_are_kept_and_gone_on_with(
    edge: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["hw", "sweep", edge, *KERNEL, "--jobs", "1", "-o", str(tmp_path / "rows")]
    assert main([*words, "--set", "units.execute.count=1,2"]) == 0
    assert main([*words, "--set", "units.execute.count=1,2"]) == 2
    assert "--resume" in capsys.readouterr().err
    asked: list[Any] = []

    def predicted(asked_now: Any, *_: Any) -> list[Predicted]:
        asked.extend(asked_now)
        return []

    monkeypatch.setattr("isamap.cli.hw_sweep_command.predict_all", predicted)
    assert main([*words, "--set", "units.execute.count=1,2", "--resume", "--json"]) == 0
    assert asked == []
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert [row["set"] for row in rows] == [{"units.execute.count": "1"}, {"units.execute.count": "2"}]
    assert rows[0]["ns"] > rows[1]["ns"]
    assert rows[0]["instructions"] == ["multiply_u8s8"]


def test_what_a_figure_rules_out_is_a_row(edge: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["hw", "sweep", edge, *KERNEL, "--jobs", "1", "--set", "memories.spad.bytes=16,256KiB"]
    assert main(words) == 0
    said = capsys.readouterr().out
    assert re.search("^16 +[a-z-]+$", said, re.MULTILINE)
    assert "at memories.spad.bytes = 256KiB" in said


def swept() -> Sweep:
    """Two kernels at two values of one figure and two of another."""
    values = tuple((size, count) for size in ("1KiB", "2KiB") for count in ("1", "2"))
    good = Line("<good>", tuple(Predicted(ns) for ns in (400.0, 300.0, 200.0, 100.5)))
    poor = Line("poor", (Predicted(None, refused="no-mapping"),) * 4)
    return Sweep(("memories.a.bytes", "units.u.count"), values, (1024.0, 2048.0), (good, poor))


def test_the_table_says_where_it_pays() -> None:
    said = sweep_text(swept())
    assert "<good>: 100 ns at memories.a.bytes = 2KiB, units.u.count = 2, within 1 % of the least" in said
    assert "poor: not on any of these machines" in said
    assert "no-mapping" in said


def test_the_plot_has_a_line_for_each_kernel_and_other_figure() -> None:
    drawn = sweep_svg("a & b", swept())
    root = ElementTree.fromstring(drawn)
    texts = [text.text for text in root.iter("{http://www.w3.org/2000/svg}text")]
    assert {"<good>, u.count 1", "<good>, u.count 2", "poor, u.count 1: never", "a & b"} <= set(texts)
    assert len(list(root.iter("{http://www.w3.org/2000/svg}circle"))) == 4
    assert "prefers-color-scheme: dark" in drawn


def test_the_command_draws(edge: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "plot.svg"
    words = ["hw", "sweep", edge, *KERNEL, "--jobs", "1", "--set", "clock_ghz=1,2", "--svg", str(file)]
    assert main(words) == 0
    assert f"wrote {file}" in capsys.readouterr().out
    assert "<title>edge: predicted time over clock_ghz</title>" in file.read_text()
    assert main(words) == 2
