"""Operators that an accelerator lacks run on its host, are listed with the reason, and give the same results."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx", reason="models of ONNX need the package onnx: pip install 'isamap[onnx]'")

from quantised_networks import inverted_residual, residual, two_layers

from isamap.cli.command_line import run
from isamap.onnx.onnx_models import compile_model
from isamap.source import NoMapping

NPU = ["--hw", "edge-npu", "--heuristic", "greedy"]


def answer(capsys: pytest.CaptureFixture[str], *words: str, rc: int = 0) -> Any:
    capsys.readouterr()
    assert run([*words, "--json"]) == rc
    return json.loads(capsys.readouterr().out)


def test_a_network_of_two_convolutions_is_the_accelerators_but_for_its_ends_and_borders(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = answer(capsys, "verify", str(two_layers(tmp_path / "two.onnx")), *NPU)
    layers = found["layers"]
    assert all(layer["verified"] for layer in layers)
    assert all(layer["max_error"] == 0 for layer in layers if "Sin" not in layer["operators"])
    own = [layer["operators"] for layer in layers if layer["machine"] == "edge-npu"]
    assert ["QLinearConv", "Clip"] in own
    assert ["QLinearConv"] in own
    assert all("why" not in layer for layer in layers if "Sin" not in layer["operators"])
    assert all(layer["why"] for layer in layers if layer["machine"] == "generic-c")
    assert {layer["machine"] for layer in layers} == {"edge-npu", "generic-c"}
    assert sum(layer.get("transfer_ns", 0) for layer in layers) > 0


def test_a_block_of_unsigned_bytes_with_zero_points_is_the_accelerators(tmp_path: Path) -> None:
    path = inverted_residual(tmp_path / "block.onnx", np.uint8, 200)
    made = compile_model(path, "edge-npu")
    divided = made.library.divided
    assert divided is not None
    assert sum("* wrap_i32(a1[" in t for n, t in divided.program.kernels.items() if n not in divided.why) == 3
    assert all("qlinear" not in name for name in divided.why)
    x = np.random.default_rng(3).standard_normal((1, 32, 4, 8)).astype(np.float32)
    (result,) = made({"x": x}).values()
    (alone,) = compile_model(path, "generic-c")({"x": x}).values()
    assert np.array_equal(result, alone)
    assert np.ptp(result) > 0


@pytest.mark.exhaustive
@pytest.mark.parametrize(("kind", "points"), [(np.int8, 0), (np.uint8, 200)])
def test_a_network_computes_the_same_bits_as_on_the_host_alone(
    tmp_path: Path, kind: type[np.generic], points: int
) -> None:
    path = residual(tmp_path / "residual.onnx", kind, points)
    made = compile_model(path, "edge-npu")
    assert made.library.divided is not None
    x = np.random.default_rng(3).standard_normal((1, 16, 8, 8)).astype(np.float32)
    (result,) = made({"x": x}).values()
    (alone,) = compile_model(path, "generic-c")({"x": x}).values()
    assert np.array_equal(result, alone)
    assert np.ptp(result) > 0


def test_the_sum_of_a_fused_kernel_stays_on_the_accelerator_with_its_requantisation(tmp_path: Path) -> None:
    library = compile_model(residual(tmp_path / "residual.onnx"), "edge-npu").library
    assert library.divided is not None
    texts = [t for name, t in library.divided.program.kernels.items() if name not in library.divided.why]
    sums = [text for text in texts if "in a1: i8" in text]
    assert len(sums) == 2
    assert all("temp y0: i32" in text and "sat_i8" in text for text in sums)


def test_without_a_host_the_network_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(two_layers(tmp_path / "two.onnx"))
    found = answer(capsys, "compile", path, *NPU, "--host", "none", "-o", str(tmp_path / "out"), rc=3)
    assert found["diagnostics"][0]["code"] == "no-mapping"
    with pytest.raises(NoMapping, match="cannot perform"):
        compile_model(path, "edge-npu", host="none")


def test_a_description_names_its_host(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    own = tmp_path / "own.yaml"
    own.write_text("isamap: 1\nname: own\nsummary: with a host\nextends: edge-npu\nhost: x86-avx2\n", "utf-8")
    path, out = str(two_layers(tmp_path / "two.onnx")), str(tmp_path / "out")
    words = ["compile", path, "--hw", str(own), "--heuristic", "greedy", "-o", out]
    found = answer(capsys, *words)
    assert found["host"] == "x86-avx2"
    assert "-mavx2" in (tmp_path / "out" / "Makefile").read_text("utf-8")
    assert run([*words, "--force", "--host", "generic-c"]) == 0
    text = capsys.readouterr().out
    assert "generic-c" in text
    assert "has no instruction" in text


def test_a_network_that_a_machine_performs_whole_has_no_host(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, out = str(two_layers(tmp_path / "two.onnx")), str(tmp_path / "out")
    found = answer(capsys, "compile", path, "--hw", "generic-c", "--heuristic", "greedy", "-o", out)
    assert "host" not in found
    assert "layers" not in found
