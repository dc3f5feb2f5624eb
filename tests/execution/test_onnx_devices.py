"""Models whose kernels are dealt to devices compute the same, with a pool and without one."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("onnx", reason="models of ONNX need the package onnx: pip install 'isamap[onnx]'")

from onnx_models import evaluated, imported, make

from isamap.cli.command_line import run
from isamap.graph import device_assignment
from isamap.graph.device_assignment import places_of
from isamap.graph.model_library import CompiledModel, ModelOptions, ModelSource, compile_program_of
from isamap.graph.model_program import ModelProgram
from isamap.machine import Machine
from isamap.onnx import compile_model
from isamap.plan.device_plan import DeviceProblem
from isamap.source import UsageProblem

X = np.random.default_rng(0).standard_normal((8, 64)).astype(np.float32)
CONSTANTS = {
    name: np.random.default_rng(n).standard_normal((64, 64)).astype(np.float32) / 8
    for n, name in enumerate(("p", "q", "r", "s"))
}
MODEL = make(
    [
        ("MatMul", ["x", "p"], ["a"], {}), ("MatMul", ["a", "q"], ["b"], {}), ("Softmax", ["b"], ["c"], {}),
        ("MatMul", ["a", "r"], ["d"], {}), ("Softmax", ["d"], ["e"], {}),
        ("Concat", ["c", "e"], ["f"], {"axis": 0}), ("MatMul", ["f", "s"], ["y"], {}),
    ],
    {"x": X}, ["y"], CONSTANTS,
)  # fmt: skip
FORMULATED = device_assignment.problem_of


def posed_without_costs(
    program: ModelProgram, costs: dict[str, float], machine: Machine, count: int
) -> DeviceProblem:
    """Return the steps where devices start soon and read each other's results as their own."""
    return replace(FORMULATED(program, costs, machine, count), start_ns=10.0, crossing_ns={})


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> ModelSource:
    """Return the model, dealt to two devices."""
    monkeypatch.setattr(device_assignment, "problem_of", posed_without_costs)
    return compile_program_of(
        imported(MODEL).whole(), ModelOptions("generic-c", jobs=1, devices=2), runs=True, apart=False
    )


def test_both_branches_are_side_by_side(library: ModelSource) -> None:
    assert library.dealt is not None
    assert [len(phase) for phase in library.dealt.phases] == [1, 2, 1]
    assert library.dealt.plan.cost_ns < library.dealt.alone_ns
    assert "parallel_for(pool, 2, made_phase_1, &all)" in str(library.emitted.files["made.c"])


def test_results_are_those_of_onnx_with_a_pool_and_those_of_one_device_without(library: ModelSource) -> None:
    (expected,) = evaluated(MODEL, {"x": X})
    alone, both = (CompiledModel(library, threads)({"x": X})["y"] for threads in (1, 2))
    np.testing.assert_allclose(both, expected, rtol=1e-4, atol=1e-5)
    one = CompiledModel(
        compile_program_of(imported(MODEL).whole(), ModelOptions("generic-c", jobs=1), runs=True)
    )
    assert np.array_equal(alone, both)
    assert np.array_equal(one({"x": X})["y"], both)


def test_many_calls_by_two_devices_agree(library: ModelSource) -> None:
    model = CompiledModel(library, 2)
    expected = model({"x": X})["y"]
    for _ in range(200):
        assert np.array_equal(model({"x": X})["y"], expected)


def test_what_is_side_by_side_lives_at_one_time() -> None:
    phases = (((0, 1),), ((2, 3), (4,)), ((5,),))
    assert places_of(phases) == [(0, 1), (1, 2), (2, 5), (2, 5), (2, 5), (5, 6)]


def test_the_command_says_how_kernels_were_dealt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(device_assignment, "problem_of", posed_without_costs)
    path = tmp_path / "made.onnx"
    path.write_bytes(MODEL.SerializeToString())
    words = ["compile", str(path), "--hw", "generic-c", "--heuristic", "greedy", "-o", str(tmp_path / "out")]
    assert run([*words, "--devices", "2"]) == 0
    assert "devices: 2, side by side once; " in capsys.readouterr().out
    assert run([*words, "--devices", "2", "--json", "--force"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["devices"] == 2
    assert sorted(n for phase in said["phases"] for part in phase for n in part) == list(range(said["steps"]))
    assert said["bound_ns"] <= said["cost_ns"] < said["one_device_ns"]


def test_a_core_is_a_thread_or_a_device(tmp_path: Path) -> None:
    path = tmp_path / "made.onnx"
    path.write_bytes(MODEL.SerializeToString())
    with pytest.raises(UsageProblem, match="a core is one or the other"):
        compile_model(path, "generic-c", threads=2, devices=2)


def test_devices_are_refused_of_a_kernel(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["compile", "gemm_f32", "--hw", "generic-c", "-D", "M=8", "N=8", "K=8", "--devices", "2"]) == 2
    assert "`--devices` is about a model, and this is a kernel" in capsys.readouterr().err
