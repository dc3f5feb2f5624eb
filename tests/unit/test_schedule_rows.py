"""`isamap schedule --rows`: a table of sizes, in the words of a file or of a shipped suite."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from isamap.cli import main
from isamap.plan.text import parse_schedule
from isamap.source import Source

ASKED = ("schedule", "conv2d_nhwc", "--hw", "x86-avx512", "--heuristic", "greedy", "--json")


def test_every_row_is_scheduled_at_its_sizes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = tmp_path / "rows.csv"
    table.write_text("layer,C,K,R,S,pad,groups\none,8,16,1,1,0,1\nthree,16,8,3,3,1,1\n", encoding="utf-8")
    code = main([*ASKED, "-D", "N=1", "H=14", "W=14", "--rows", str(table)])
    found = json.loads(capsys.readouterr().out)
    assert code == 0
    sizes = [row["sizes"] for row in found["rows"]]
    assert sizes[1] == {"N": 1, "H": 14, "W": 14, "C": 16, "K": 8, "R": 3, "S": 3, "pad": 1}
    for row in found["rows"]:
        schedule = parse_schedule(Source("row", row["schedule"]))
        assert row["sizes"].items() <= dict(schedule.sizes).items()
        assert row["cost_ns"] == schedule.cost_ns


def test_a_row_wins_over_what_is_said_for_all(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = tmp_path / "rows.csv"
    table.write_text("M,N\n4,16\n8,32\n", encoding="utf-8")
    words = [
        "gemm_f32",
        "--hw",
        "x86-avx512",
        "--heuristic",
        "greedy",
        "-D",
        "M=1",
        "K=5",
        "--rows",
        str(table),
    ]
    assert main(["schedule", *words]) == 0
    said = capsys.readouterr().out
    assert "K=5 M=4 N=16" in said
    assert "2 schedules in" in said
