"""What `isamap hw diff` tells of two machines, and how many kernels are predicted at once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from isamap.cli import main
from isamap.driver.inputs import read_kernel
from isamap.driver.predicted import (
    KernelCase,
    Predicted,
    PredictionRequest,
    predict,
    predict_all,
    shipped_cases,
)
from isamap.kernels import list_kernels
from isamap.machine import load_machine
from isamap.machine.templates import begin
from isamap.report.machine_changes import changes, changes_text

BYTES = KernelCase(read_kernel("gemm_u8s8"), (("M", 64), ("N", 32), ("K", 64)))
DOUBLES = KernelCase(read_kernel("gemm_f64"), (("M", 4), ("N", 4), ("K", 4)))


def two(folder: Path, *edits: tuple[str, str], **figures: float) -> tuple[str, str]:
    """Return a new machine, and the same with edits."""
    text = begin("one", "matrix", {"rows": 16})
    changed = begin("other", "matrix", {"rows": 16, **figures})
    for old, new in edits:
        assert old in changed
        changed = changed.replace(old, new)
    (folder / "one.yaml").write_text(text)
    (folder / "other.yaml").write_text(changed)
    return str(folder / "one.yaml"), str(folder / "other.yaml")


def test_every_change_is_told(tmp_path: Path) -> None:
    edits = [
        ("execute: {count: 1", "execute: {count: 2"),
        ("interval_cycles: 16, latency_cycles: 48", "interval_cycles: 32, latency_cycles: 48"),
        ("    semantics: |\n      instruction store_sums_$T(", "    semantics: |\n      instruction put_$T("),
    ]
    one, other = (load_machine(path) for path in two(tmp_path, *edits, spad_bytes=1 << 20, clock_ghz=2))
    found = {(c.what, c.name): (c.before, c.after) for c in changes(one, other)}
    assert found["clock", "GHz"] == ("1", "2")
    assert found["memory", "spad"] == ("scratchpad, 256 KiB", "scratchpad, 1 MiB")
    assert found["link", "dram → spad"] == ("16 bytes/ns, shared", "32 bytes/ns, shared")
    assert found["unit", "execute"] == ("1, 256 products a cycle", "2, 256 products a cycle")
    assert found["cost of", "multiply_f32"] == (
        "execute, 16 ns each, 48 ns until used",
        "execute, 16 ns each, 24 ns until used",
    )
    assert found["instruction", "put_f32"][0] is None
    assert found["instruction", "store_sums_i32"][1] is None
    assert "2 instructions only before: store_sums_f32, store_sums_i32" in changes_text(changes(one, other))
    assert changes(one, one) == []


def test_the_command_tells_of_kernels(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths = two(tmp_path, ("execute: {count: 1", "execute: {count: 2"))
    words = ["hw", "diff", *paths, "--kernel", BYTES.name, "--kernel", DOUBLES.name, "--jobs", "1"]
    assert main([*words, "--json"]) == 0
    answer: Any = json.loads(capsys.readouterr().out)
    bytes_row, doubles = answer["kernels"]
    assert bytes_row["ratio"] < 1
    assert bytes_row["before"]["instructions"] == ["multiply_u8s8"]
    assert bytes_row["before"]["utilisation"] == 1
    assert doubles["ratio"] is None
    assert doubles["after"] == Predicted(None, refused="no-mapping").as_json()
    assert main(words) == 0
    said = capsys.readouterr().out
    assert "1 kernel on neither: gemm_f64" in said
    assert "unit execute  1, 256 products a cycle  2, 256 products a cycle" in said


def test_what_is_gained_and_lost_is_listed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    machine, _ = two(tmp_path)
    words = ["--kernel", DOUBLES.name, "--jobs", "1"]
    for pair, said in (((machine, "generic-c"), "gained"), (("generic-c", machine), "lost")):
        assert main(["hw", "diff", *pair, *words]) == 0
        assert f"1 kernel {said}: gemm_f64" in capsys.readouterr().out


def test_several_processes_find_what_one_does(tmp_path: Path) -> None:
    machine, _ = two(tmp_path)
    requests = [PredictionRequest(case, machine) for case in (BYTES, DOUBLES)]
    seen: list[int] = []
    found = predict_all(requests, 2, lambda number, _: seen.append(number))
    assert found == [predict(asked) for asked in requests]
    assert sorted(seen) == [0, 1]


def test_every_shipped_kernel_has_sizes() -> None:
    assert [case.kernel.name for case in shipped_cases()] == [f"{name}.ir" for name in list_kernels()]
    assert all(type(value) is int for case in shipped_cases() for _, value in case.sizes)
