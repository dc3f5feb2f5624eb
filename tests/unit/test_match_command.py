"""`isamap match` as a program sees it: counts in JSON, the matrix, edited and rewritten kernels."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from isamap.cli import main
from isamap.cli.answers import write_text
from isamap.cli.early_words import fill_values
from isamap.cli.match_command import unmatched_findings
from isamap.driver.formulation import formulate_matched
from isamap.driver.inputs import read_kernel
from isamap.driver.matching import match_kernel
from isamap.driver.matrix import sizes_for
from isamap.kernels import list_kernels
from isamap.machine import at_one_length, list_machines, load_machine
from isamap.source import NoMapping, UsageProblem

GEMM = """kernel k(M, N, K) {
  in A: f32[M, K];
  in B: f32[K, N];
  inout C: f32[M, N];
  for m in M, n in N, k in K { C[m, n] += A[m, k] * B[k, n]; }
}
"""
SEPARABLE = """kernel sep(N, C, K, P, R) {
  in X: f32[N, C, P + R];
  in F: f32[C, R];
  in G: f32[K, C];
  inout Y: f32[N, K, P];
  for n in N, k in K, p in P, c in C, r in R { Y[n, k, p] += X[n, c, p + r] * F[c, r] * G[k, c]; }
}
"""


def answer(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> dict[str, Any]:
    assert main(["match", *words, "--json"]) == code
    return json.loads(capsys.readouterr().out)


def numbers(found: dict[str, Any]) -> tuple[int, int, int]:
    return found["count"], found["split"], found["degenerate"]


# --- counts -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kernel", "mode", "expected"),
    [
        ("gemm_f32", "complete", (2, 0, 0)),
        ("gemm_f32", "fixed", (1, 0, 0)),
        ("conv2d_nchw", "complete", (98, 0, 0)),
        ("conv2d_nchw", "fixed", (49, 0, 0)),
        ("conv2d_nchw", "amos", (35, 0, 0)),
        ("depthwise", "complete", (0, 0, 42)),
        ("depthwise_separable", "complete", (14, 0, 42)),
    ],
)
def test_counts_of_a_kernel_are_those_of_what_it_computes(
    kernel: str, mode: str, expected: tuple[int, int, int], capsys: pytest.CaptureFixture[str]
) -> None:
    found = answer(capsys, kernel, "--hw", "matmul-16x16x16", "--count", mode, "--instruction", "matmul")
    assert numbers(found) == expected
    assert found["mode"] == mode


def test_one_instruction_of_a_family_has_counts_of_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    found = answer(capsys, "gemm_bf16_f32", "--hw", "x86-amx")
    assert numbers(found["instructions"]["tdpbf16ps"]) == (0, 2, 0)
    assert found["count"] == sum(i["count"] for i in found["instructions"].values())
    assert numbers(answer(capsys, "gemm_bf16_f32", "--hw", "x86-amx", "--instruction", "tdpbf16ps")) == (
        0,
        2,
        0,
    )


def test_a_statement_that_copies_does_not_count(capsys: pytest.CaptureFixture[str]) -> None:
    found = answer(capsys, "depthwise_separable", "--hw", "matmul-16x16x16")
    filling, *computing = found["statements"]
    assert not filling["computes"]
    assert filling["count"] > 0
    assert [numbers(s) for s in computing] == [(0, 0, 42), (14, 0, 0)]
    assert numbers(found) == (14, 0, 42)


def test_every_mapping_is_listed_with_its_statement(capsys: pytest.CaptureFixture[str]) -> None:
    found = answer(capsys, "gru", "--hw", "matmul-16x16x16", code=3)
    assert [d["code"] for d in found["diagnostics"]] == ["no-mapping"] * 4, "the elementwise statements"
    for number, statement in enumerate(found["statements"]):
        own = [m for m in found["mappings"] if m["statement"] == number]
        assert len(own) == sum(numbers(statement)) + statement["composed"]


def test_sizes_give_utilisation_and_cost(capsys: pytest.CaptureFixture[str]) -> None:
    sizes = ("-D", "M=64", "N=64", "K=20")
    found = answer(capsys, "gemm_f32", "--hw", "matmul-16x16x16", *sizes)
    first = found["mappings"][0]
    assert first["issues"] == 4 * 4 * 2
    assert first["utilisation"] == 20 / 32
    assert first["cost_ns"] == first["compute_ns"] + first["movement_ns"]
    assert set(first["movement"]) == {"a", "b", "c"}


# --- the matrix -------------------------------------------------------------------------------------------


def test_the_matrix_adds_up_in_all_directions(capsys: pytest.CaptureFixture[str]) -> None:
    found = answer(capsys, "gemm_f32", "gemm_bf16_f32", "depthwise_separable", "--hw", "x86-amx")
    for key in ("count", "split", "degenerate", "composed"):
        by_row = sum(row[key] for row in found["rows"])
        by_cell = sum(cell[key] for row in found["rows"] for cell in row["cells"].values())
        by_column = sum(column[key] for column in found["totals"].values())
        assert by_row == by_cell == by_column == found[key]
    assert [r["statement"] for r in found["rows"]] == [0, 0, 1, 2], "filling with zeros has no row"


def test_cells_are_the_counts_of_single_kernels(capsys: pytest.CaptureFixture[str]) -> None:
    row = answer(capsys, "conv1d", "gemm_f32", "--hw", "matmul-16x16x16")["rows"][0]
    alone = answer(capsys, "conv1d", "--hw", "matmul-16x16x16")
    assert numbers(row["cells"]["matmul"]) == numbers(alone) == (18, 0, 0)


def test_the_word_for_the_shipped_folder_works_anywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    found = answer(capsys, "kernels/", "--hw", "dot-16")
    assert {"gemm_f32", "gru", "conv3d"} <= set(found["kernels"])
    assert next(r for r in found["rows"] if r["kernel"] == "conv2d_nchw")["count"] == 7


def test_a_folder_nearer_than_the_shipped_one_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "kernels").mkdir()
    (tmp_path / "kernels" / "mine.ir").write_text(GEMM, encoding="utf-8")
    assert answer(capsys, "kernels", "--hw", "dot-16")["kernels"] == ["k"]


# --- edits and rewrites -----------------------------------------------------------------------------------


def test_a_fixed_kernel_is_performed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "k.ir").write_text(GEMM, encoding="utf-8")
    words = ("--hw", "x86-amx", "--instruction", "tdpbf16ps")
    assert numbers(answer(capsys, "k.ir", *words)) == (0, 0, 0)
    assert main(["match", "k.ir", *words, "--fix", "-o", "fixed.ir"]) == 0
    capsys.readouterr()
    assert numbers(answer(capsys, "fixed.ir", *words)) == (0, 2, 0)
    assert (tmp_path / "k.ir").read_text(encoding="utf-8") == GEMM, "the input stays as it is"
    assert main(["match", "k.ir", *words, "--fix", "-o", "k.ir", "--overwrite"]) == 0
    assert (tmp_path / "k.ir").read_bytes() == (tmp_path / "fixed.ir").read_bytes()


def test_a_fixed_kernel_alone_can_be_piped(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "k.ir").write_text(GEMM, encoding="utf-8")
    words = [
        "match",
        str(tmp_path / "k.ir"),
        "--hw",
        "x86-amx",
        "--instruction",
        "tdpbf16ps",
        "--fix",
        "-o",
        "-",
    ]
    assert main(words) == 0
    assert capsys.readouterr().out.startswith("kernel k(M, N, K) {")


def test_a_sum_of_three_factors_is_taken_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sep.ir").write_text(SEPARABLE, encoding="utf-8")
    words = ("--hw", "matmul-16x16x16", "--instruction", "matmul")
    refused = answer(capsys, "sep.ir", *words)
    assert numbers(refused) == (0, 0, 0)
    assert "factorisation" in refused["rejections"][0]["edit"]
    assert main(["match", "sep.ir", *words, "--transform", "-o", "apart.ir"]) == 0
    capsys.readouterr()
    found = answer(capsys, "apart.ir", *words, code=0)
    assert [numbers(s) for s in found["statements"] if s["computes"]][-1] == (6, 0, 0)
    assert main(["match", "sep.ir", *words, "--transform", "2", "-o", "other.ir"]) == 0
    assert (tmp_path / "other.ir").read_bytes() != (tmp_path / "apart.ir").read_bytes()


@pytest.mark.parametrize(
    ("words", "filled"),
    [
        (["match", "k", "--transform"], ["match", "k", "--transform", "best"]),
        (["match", "--transform", "k"], ["match", "--transform", "best", "k"]),
        (["match", "k", "--transform", "2"], ["match", "k", "--transform", "2"]),
        (["match", "--", "--transform"], ["match", "--", "--transform"]),
    ],
)
def test_the_number_of_a_rewrite_may_be_left_out(words: list[str], filled: list[str]) -> None:
    assert fill_values(words) == filled


# --- files ------------------------------------------------------------------------------------------------


def test_a_file_is_replaced_only_when_asked(tmp_path: Path) -> None:
    path = tmp_path / "k.ir"
    write_text(path, "one")
    with pytest.raises(UsageProblem):
        write_text(path, "two")
    assert path.read_text(encoding="utf-8") == "one"
    path.chmod(0o600)
    write_text(path, "three", overwrite=True)
    assert path.read_text(encoding="utf-8") == "three"
    assert path.stat().st_mode & 0o777 == 0o600
    assert [p.name for p in tmp_path.iterdir()] == ["k.ir"], "nothing else stays behind"


# --- what compilation does --------------------------------------------------------------------------------

QUANTISED_ADD = """kernel k(N, scalar z: i32, scalar s: f32) {
  in p: i8[N];
  out y: i8[N];
  for n in N { y[n] = sat_i8(sat_i32(round(f32(i32(p[n]) - z) * s, even)) + z); }
}
"""


@pytest.mark.parametrize("sizes", [(), ("-D", "N=64")])
def test_a_statement_that_compiles_in_parts_is_no_refusal(
    sizes: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_text(tmp_path / "k.ir", QUANTISED_ADD)
    found = answer(capsys, str(tmp_path / "k.ir"), "--hw", "generic-c", *sizes)
    assert [d["code"] for d in found["diagnostics"]] == ["performed-in-parts"]


def test_mappings_whose_operands_cannot_move_end_as_compilation_does(
    capsys: pytest.CaptureFixture[str],
) -> None:
    odd = ("gemm_s8s8", "--hw", "vta", "-D", "M=37", "N=43", "K=29")
    found = answer(capsys, *odd, code=3)
    assert found["split"] == 2
    assert [d["code"] for d in found["diagnostics"]] == ["no-clearing"]
    assert main(["compile", *odd, "--stop-after", "schedule", "--heuristic", "greedy"]) == 3


def test_match_refuses_what_compilation_refuses() -> None:
    """Compare them on pairs of a shipped kernel and a machine, drawn with a fixed seed."""
    machines = [load_machine(name) for name in list_machines()]
    draw = random.Random(13)
    disagreeing: list[str] = []
    for kernel, machine in (
        (draw.choice(list_kernels()), at_one_length(draw.choice(machines))) for _ in range(12)
    ):
        source = read_kernel(kernel)
        matched = match_kernel(source, machine, sizes_for(source)[-1])
        refused = any(f.json["severity"] == "error" for f in unmatched_findings(matched, ()))
        try:
            formulate_matched(matched)
        except NoMapping:
            compiles = False
        else:
            compiles = True
        if refused == compiles:
            disagreeing.append(f"{kernel} on {machine.name}")
    assert disagreeing == []
