"""benchmarks/results: what a run becomes there, and the tables that are made of it."""

from __future__ import annotations

import json
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"

TABLE = """\
isamap bench deepbench gemm --dtype f32 -o FOLDER

DeepBench GEMM on x86-avx2, beta 1, warm, 2 threads
AMD EPYC, cores [0, 1], a virtual machine

row  m x n x k          form  isamap GOP/s  torch GOP/s  mkl GOP/s  ratio to torch                 ratio to mkl  of roofline
  0  1760x16x1760 NN    f32          339.1        294.8          -  1.15 (1.14..1.16)              wrong         73%
  3  1760x128x1760 NN   f32          354.6        357.1      300.0  0.99 (0.97..0.99), again 0.98  1.18 (1.1..1.2)  76%

           rows  torch  best
f32, all      2   1.07  1.07
"""  # noqa: E501 - as it is printed


def script(name: str) -> ModuleType:
    """Return a script of the benchmarks as a module."""
    spec = spec_from_file_location(f"benchmark_{name}", BENCHMARKS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


KEEP, TABLES = script("keep"), script("speed_table")


def kept(folder: Path, *words: str) -> dict[str, Any]:
    """Return the one file that is in the folder after a run was kept there."""
    KEEP.main([*words, "--processor", "AMD Zen 9", "-o", str(folder)])
    (path,) = folder.glob("*.json")
    return json.loads(path.read_text(encoding="utf-8"))


def test_a_printed_table_becomes_rows_with_rates_ratios_and_intervals(tmp_path: Path) -> None:
    source = tmp_path / "table.txt"
    source.write_text(TABLE, encoding="utf-8")
    (tmp_path / "kept").mkdir()
    file = kept(tmp_path / "kept", str(source), "--date", "2026-11-26", "--commit", "0123abc")
    assert (file["machine"], file["threads"], file["dtype"], file["packed"]) == ("x86-avx2", 2, "f32", False)
    assert file["runs"][0]["environment"] == {
        "machine": "x86-avx2",
        "cpu": "AMD EPYC",
        "cores": [0, 1],
        "virtual_machine": True,
    }
    first, second = file["rows"]
    assert (first["m"], first["n"], first["k"], first["beta"]) == (1760, 16, 1760, 1)
    assert first["gflops"] == {"isamap": 339.1, "torch": 294.8}
    assert first["ratio"] == {"torch": {"value": 1.15, "low": 1.14, "high": 1.16}}
    assert second["again"] == {"torch": {"value": 0.98}}
    assert second["roofline_fraction"] == 0.76


def test_a_newer_run_replaces_the_rows_that_it_has(tmp_path: Path) -> None:
    source = tmp_path / "table.txt"
    source.write_text(TABLE, encoding="utf-8")
    (tmp_path / "kept").mkdir()
    kept(tmp_path / "kept", str(source), "--date", "2026-11-25", "--commit", "aaaaaaa")
    lines = [line for line in TABLE.splitlines() if not line.startswith("  3")]
    source.write_text("\n".join(lines).replace("339.1", "400.0"), encoding="utf-8")
    file = kept(tmp_path / "kept", str(source), "--date", "2026-11-26", "--commit", "bbbbbbb")
    commits = [file["runs"][row["run"]]["commit"] for row in file["rows"]]
    assert commits == ["bbbbbbb", "aaaaaaa"]
    assert file["rows"][0]["gflops"]["isamap"] == 400.0


def test_a_folder_of_the_benchmark_is_kept_without_the_times_of_single_rounds(tmp_path: Path) -> None:
    run = tmp_path / "run"
    run.mkdir()
    (tmp_path / "kept").mkdir()
    row = {"case": 0, "form": "bf16", "beta": 1, "threads": 1, "cache": "rotate", "packed": True, "m": 1}
    (run / "rows.jsonl").write_text(json.dumps(row | {"rounds_seconds": {"isamap": [1.0]}}) + "\n")
    (run / "environment.json").write_text('{"machine": "generic-c"}')
    file = kept(tmp_path / "kept", str(run), "--commit", "0123abc")
    assert [path.name for path in (tmp_path / "kept").iterdir()] == [
        "amd-zen-9-generic-c-bf16-1-thread-rotate-packed.json"
    ]
    assert file["rows"] == [row | {"run": 0}]


def test_a_row_that_the_suite_does_not_have_is_refused(tmp_path: Path) -> None:
    source = tmp_path / "table.txt"
    source.write_text(TABLE.replace("1760x16x1760", "1760x17x1760"), encoding="utf-8")
    with pytest.raises(ValueError, match="row 0 of the suite is 1760x16x1760 NN"):
        KEEP.main([str(source), "--processor", "AMD Zen 9", "--commit", "0123abc", "-o", str(tmp_path)])


def test_a_mean_is_that_of_the_ratios_to_the_fastest_baseline_of_each_row(tmp_path: Path) -> None:
    source = tmp_path / "table.txt"
    source.write_text(TABLE.replace("2 threads", "1 thread"), encoding="utf-8")
    (tmp_path / "kept").mkdir()
    kept(tmp_path / "kept", str(source), "--date", "2026-11-26", "--commit", "0123abc")
    (line,) = TABLES.short_table(TABLES.results(tmp_path / "kept")).splitlines()[2:]
    assert line == "| AMD Zen 9 | 1.07 × (2 products) |  |  |"
    line = TABLES.full_table(TABLES.results(tmp_path / "kept")).splitlines()[2]
    assert line.startswith("| AMD Zen 9 | `x86-avx2` | f32 | 1.07 × as fast |")
    assert (
        "| 2 products beside the fastest of mkl, torch; below 0.9 in none; "
        "at 76 % of the roofline where n ≥ 128 | 2026-11-26 0123abc |"
    ) in line


def test_the_readmes_have_the_tables_that_the_results_give(capsys: pytest.CaptureFixture[str]) -> None:
    assert TABLES.main(["--check"]) == 0, capsys.readouterr().err


@pytest.mark.parametrize("path", sorted((BENCHMARKS / "results").glob("*.json")), ids=lambda path: path.name)
def test_every_file_is_named_by_what_it_holds_and_dates_each_row(path: Path) -> None:
    file = json.loads(path.read_text(encoding="utf-8"))
    if file["suite"] == "deepbench gemm":
        assert path.name == KEEP.file_name(file)
    assert all(run["date"] and run["commit"] and run["environment"]["machine"] for run in file["runs"])
    assert {row["run"] for row in file["rows"]} == set(range(len(file["runs"])))
