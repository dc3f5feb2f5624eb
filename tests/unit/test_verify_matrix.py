"""`isamap verify --all`: what a cell says, which sizes it takes, and that a run that was stopped goes on."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from isamap.cli import main
from isamap.driver.inputs import read_kernel
from isamap.driver.matrix import Cell, CellRequest, open_sizes, sizes_for, verify_cell
from isamap.driver.oracle import expect
from isamap.driver.request import Request
from isamap.ir import Kernel, bind
from isamap.kernels import list_kernels
from isamap.syntax import parse_kernel

NARROW = ["verify", "--all", "gemm_f32,softmax_f32", "--hw", "gemv-16", "--fill", "integers", "--jobs", "1"]


def cell_request(kernel: str, machine: str, **sizes: int) -> CellRequest:
    source = read_kernel(kernel)
    request = Request(source, machine, sizes, heuristic="greedy")
    return CellRequest("key", kernel, machine, (request,), ("integers",))


def test_a_cell_says_by_what_and_on_what_it_was_verified() -> None:
    cell = verify_cell(cell_request("gemm_f32", "gemv-16", M=5, N=20, K=17))
    assert (cell.verdict, cell.instructions, cell.scalar, cell.ran_on) == (
        "verified",
        ("gemv",),
        (),
        ("model",),
    )
    assert cell.utilisation is not None
    assert 0 < cell.utilisation < 1
    assert (cell.comparisons, cell.reason) == (1, "")
    assert Cell.of(json.loads(json.dumps(cell.as_json()))) == cell


def test_an_instruction_that_does_one_iteration_is_called_scalar() -> None:
    cell = verify_cell(cell_request("gemm_f32", "generic-c", M=2, N=3, K=4))
    assert cell.instructions == cell.scalar != ()


def test_a_kernel_without_a_mapping_is_no_failure_and_says_why() -> None:
    cell = verify_cell(cell_request("gemm_bf16", "gemv-16", M=5, N=20, K=17))
    assert (cell.verdict, cell.comparisons) == ("no-mapping", 0)
    assert cell.reason.startswith("no-mapping: gemv-16 has no instruction that reads or writes bf16")


def test_what_is_mapped_and_cannot_be_scheduled_is_not_called_unmapped() -> None:
    one = cell_request("gemm_f32", "generic-c", M=64, N=64, K=4)
    fixed = {"unroll.m": 64, "unroll.n": 64}  # more sums than there are registers
    cell = verify_cell(replace(one, requests=(replace(one.requests[0], fixed=fixed),)))
    assert (cell.verdict, cell.is_settled, cell.comparisons) == ("no-schedule", True, 0)
    assert cell.reason


def test_an_emulator_that_is_not_here_is_no_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    cell = verify_cell(cell_request("gemm_f32", "riscv-rvv", M=5, N=4, K=3))
    assert (cell.verdict, cell.is_settled) == ("not-run", False)
    assert cell.reason.startswith("no-emulator: ")


def test_a_wrong_result_fails_its_cell(monkeypatch: pytest.MonkeyPatch) -> None:
    def other(kernel: Kernel, arrays: Mapping[str, Any], *rest: Any) -> Any:
        return expect(kernel, {name: array + 1 for name, array in arrays.items()}, *rest)

    monkeypatch.setattr("isamap.driver.verifying.expect", other)
    cell = verify_cell(cell_request("gemm_f32", "generic-c", M=2, N=3, K=4))
    assert cell.verdict == "failed"
    assert cell.reason.startswith("result-wrong: C[")
    assert cell.reason.endswith("(M=2 N=3 K=4, integers; 1 of 1)")


def test_a_mistake_of_the_compiler_fails_its_cell_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any, **__: Any) -> None:
        raise ZeroDivisionError("three")

    monkeypatch.setattr("isamap.driver.matrix.prepare", broken)
    cell = verify_cell(cell_request("gemm_f32", "generic-c", M=2, N=3, K=4))
    assert (cell.verdict, cell.reason) == ("failed", "internal-error: ZeroDivisionError: three")


def test_every_shipped_kernel_has_sizes_of_its_own_that_it_allows() -> None:
    for name in list_kernels():
        source = read_kernel(name)
        small, large = sizes_for(source)
        assert set(small) == set(large) == set(open_sizes(source))
        for sizes in (small, large):
            bind(parse_kernel(source), {name: int(value) for name, value in sizes.items()})
        assert sizes_for(source) == (small, large), "the same each time"


def test_given_sizes_serve_the_kernels_that_they_fit() -> None:
    given = [{"M": 1, "N": 2, "K": 3}, {"M": 4, "N": 5}]
    assert sizes_for(read_kernel("gemm_f32"), given) == ({"M": 1, "N": 2, "K": 3},)
    assert len(sizes_for(read_kernel("conv1d"), given)) == 2


def test_cells_are_kept_and_what_failed_is_done_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    words = [*NARROW, "-o", str(tmp_path)]
    assert main([*words, "--json"]) == 0
    first = json.loads(capsys.readouterr().out)
    assert first["totals"] == {"verified": 1, "failed": 0, "no-mapping": 1, "no-schedule": 0, "not-run": 0}
    assert main(words) == 2
    assert "--resume" in capsys.readouterr().err
    rows = [json.loads(line) for line in (tmp_path / "rows.jsonl").read_text().splitlines()]
    spoilt = [{**row, "verdict": "failed" if row["kernel"] == "gemm_f32" else row["verdict"]} for row in rows]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in spoilt))
    asked: list[str] = []

    def again(one: CellRequest) -> Cell:
        asked.append(one.kernel)
        return Cell(one.key, one.kernel, one.machine, "failed", reason="result-wrong: as before")

    monkeypatch.setattr("isamap.driver.matrix.verify_cell", again)
    assert main([*words, "--resume"]) == 1
    assert asked == ["gemm_f32"]
    said = capsys.readouterr().out
    assert "gemv-16: 1 failed, 1 without a mapping" in said
    lines = [line.split() for line in said.splitlines()]
    assert ["FAILED", "gemm_f32", "result-wrong:", "as", "before"] in lines
    assert ["–", "softmax_f32", "no-mapping:", "gemv-16"] in [line[:4] for line in lines]
