"""Codes of surroundings that no text alone gives, each word for word, and a test for every code there is."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pytest
from onnx_models import make
from plan_problems import gemm

import isamap
from isamap.cli import main
from isamap.formulate.matches import chosen_tile
from isamap.ir import Index, bind
from isamap.ir.domains import check_domain
from isamap.ir.nodes import Domain
from isamap.kernels import kernel_path
from isamap.machine import load_machine
from isamap.onnx.onnx_files import onnx_package
from isamap.plan import placement
from isamap.plan.placement import PlacedBuffer, check_placement, read_buffers
from isamap.plan.plugins import load_heuristic
from isamap.plan.schedule import NestSchedule
from isamap.run import child
from isamap.run.conformance import Check
from isamap.scheduler import AnalyticModel, Greedy
from isamap.source import IsamapError, Source, read_codes
from isamap.source.cache import private_folder
from isamap.syntax import parse_kernel
from isamap.transform import statements

TESTS = Path(__file__).resolve().parents[1]
PADDED = """\
kernel padded(M, N) {
  in x: f32[M];
  out y: f32[N];
  for i in N { y[i] = x[i / 3 - 1] else 0; }
}
"""
SILENT = """\
isamap: 1
name: silent
summary: a load that nothing emits
extends: generic-c
sources: {here: "this test"}
instructions:
  - semantics: |
      instruction load_f32() {
        in a: f32 @ mem;
        out z: f32 @ reg;
        z = a;
      }
    emit: none
    cost: {unit: load_port, interval_ns: 1, latency_ns: 1}
    source: here
"""
SMALL = {"M": 4, "N": 4, "K": 4}
CHILD = child.ChildProgram("the emitted `f`", Path("f.so"), "gcc 12")


def said(call: Callable[[], object]) -> str:
    """Return what the call is refused with."""
    with pytest.raises(IsamapError) as raised:
        call()
    return raised.value.render()


def answered(words: str, capsys: pytest.CaptureFixture[str]) -> str:
    """Return the errors of a command."""
    assert main(words.split()) != 0
    return capsys.readouterr().err


def judged(answer: Mapping[str, str]) -> object:
    """Return what a child's answer means: most of its errors need a broken system."""
    return child._judge(dict(answer), {}, CHILD)  # pyright: ignore[reportPrivateUsage] - no public way


def test_the_range_of_a_padded_read_needs_numbers() -> None:
    found = said(lambda: isamap.compile(PADDED, "generic-c", {"M": 64, "N": "1..64@8"}, heuristic="greedy"))
    assert found.startswith(
        "kernel:4:23: error[fill-range]: the range of `i / 3 - 1` cannot be computed, "
        "so `x` cannot be padded for it\n"
    )
    assert found.endswith("  help: give its sizes as numbers")


def test_a_schedule_names_a_mapping_that_there_is() -> None:
    kernel = bind(
        parse_kernel(Source("gemm_f32.ir", kernel_path("gemm_f32").read_text(encoding="utf-8"))), SMALL
    )
    nest = NestSchedule(0, "mac_f64 (a = A[m, k], b = B[k, n])", (), (), (), 0)
    machine = load_machine("generic-c")
    assert said(lambda: chosen_tile(statements(kernel)[0], machine, nest)) == (
        "error[unknown-mapping]: statement 0 has no mapping `mac_f64 (a = A[m, k], b = B[k, n])`\n"
        "  note: there is `mac_f32 (a = A[m, k], b = B[k, n])`\n"
        "  note: there is `sum_f32 (a = A[m, k] * B[k, n])`\n"
        "  help: run `isamap match` to see all of them"
    )


def test_a_model_needs_instructions_for_each_operation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    model = make([("Relu", ["x"], ["y"], {})], {"x": np.ones((4, 4), np.float32)}, ["y"])
    Path("relu.onnx").write_bytes(model.SerializeToString())
    assert main(["hw", "new", "npu", "--kind", "matrix", "--set", "rows=16"]) == 0
    capsys.readouterr()
    assert answered("graph show relu.onnx --hw npu.yaml --fusion cpsat", capsys) == (
        "error[graph-no-kernel]: the machine performs no kernel of `relu`\n"
        "  help: `isamap match` explains its instructions' refusals; use another machine for this model\n"
    )


def test_prices_of_a_graph_need_known_sizes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = make([("Relu", ["x"], ["y"], {})], {"x": np.ones((4, 4), np.float32)}, ["y"])
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "batch"
    path = tmp_path / "relu.onnx"
    path.write_bytes(model.SerializeToString())
    command = f"compile {path} --hw generic-c -D batch=1..8 --devices 2 -o {tmp_path / 'out'}"
    assert answered(command, capsys) == (
        "error[model-range]: distributing kernels among devices needs known sizes, and `batch` is open from 1 to 8\n"
        "  help: give it a number: -D batch=8\n"
    )


def test_models_need_the_package_onnx(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnx", None)
    assert said(onnx_package) == (
        "error[onnx-missing]: models of ONNX are read by the package `onnx`, which is not installed\n"
        "  help: pip install 'isamap[onnx]'"
    )


def test_a_file_of_buffers_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(placement, "MAX_BUFFERS", 1)
    source = Source("b.csv", "id,lower,upper,size\na,0,1,4\nb,0,1,4\n")
    assert said(lambda: read_buffers(source)) == "error[buffers-too-many]: b.csv has 2 buffers, more than 1"


def test_a_wrong_placement_is_named() -> None:
    buffers = (PlacedBuffer("a", 0, 2, 8), PlacedBuffer("b", 1, 3, 8, 4))
    assert [d.render() for d in check_placement(buffers, {"a": 0, "b": 6}, 12)] == [
        "error[placement-wrong]: b is at 6 to 14, outside of 12 bytes",
        "error[placement-wrong]: b is at 6, not a multiple of 4",
        "error[placement-wrong]: a and b overlap while both live",
    ]


def test_a_heuristic_names_decisions_without_a_schedule() -> None:
    fixed = {"nest0.unroll.m": 33}
    found = said(lambda: Greedy().schedule(gemm(512, 512, 512), AnalyticModel(), limit_s=1, fixed=fixed))
    assert found == (
        "error[fix-impossible]: no schedule of statement 0 has nest0.unroll.m = 33\n"
        "  note: steps are multiples of the extent of one issue, and unrolled tiles fit into the registers\n"
        "  help: leave one of them to the solver"
    )


def test_a_plug_in_that_does_not_load_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    info = tmp_path / "stranger-1.5.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: stranger\nVersion: 1.5\n")
    (info / "entry_points.txt").write_text("[isamap.heuristics]\nabsent = stranger_absent:Absent\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    assert said(lambda: load_heuristic("absent")) == (
        "error[plugin-broken]: the heuristic `absent` of stranger 1.5 does not load\n"
        "  note: ModuleNotFoundError: No module named 'stranger_absent'\n"
        "  note: it is `stranger_absent:Absent`\n"
        "  help: update or remove the package; built in: cpsat, greedy, annealing"
    )


def test_indices_have_declared_values() -> None:
    domain = Domain(Index.of(0), Index.of(7), ascending=True)
    assert said(lambda: check_domain("col", domain, np.array([0, 9], np.int32))) == (
        "error[index-values]: `col[1]` is 9: its values are from 0 to 7\n"
        "  help: correct the array, or the range that `col` declares"
    )
    assert said(lambda: check_domain("col", domain, np.array([3, 2], np.int32))) == (
        "error[index-values]: `col` is ascending, but 3 at 0 is followed by 2\n"
        "  help: sort the array, or declare it without `ascending`"
    )


def test_only_a_machine_that_runs_here_is_measured(capsys: pytest.CaptureFixture[str]) -> None:
    assert answered("hw calibrate edge-npu", capsys) == (
        "error[calibrate-elsewhere]: edge-npu cannot be measured here: this processor does not run it itself\n"
        "  help: `isamap hw list` says which machines run here; `host` is the one that fits best\n"
    )


def test_a_data_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    found = said(lambda: private_folder(tmp_path / "file" / "data", "data", "ISAMAP_DATA_DIR"))
    assert found == (
        f"error[data-unusable]: the data folder {tmp_path}/file/data cannot be used: Not a directory\n"
        "  help: correct that, or name another folder with ISAMAP_DATA_DIR"
    )


def test_an_instruction_that_fails_its_trials_is_named() -> None:
    machine = load_machine("generic-c")
    crashed = Check("mac_f32", "crashed", "its trial 3").diagnostic(machine).render()
    assert "error[instruction-crashed]: `mac_f32` ends the process that tries it\n" in crashed
    assert crashed.endswith("  note: its trial 3")
    wrong = Check("mac_f32", "wrong", "z is 1").diagnostic(machine).render()
    assert "error[instruction-differs]: `mac_f32` differs from its semantics\n" in wrong


def test_a_program_needs_emissions(tmp_path: Path) -> None:
    path = tmp_path / "silent.yaml"
    path.write_text(SILENT, encoding="utf-8")
    found = said(lambda: isamap.compile("gemm_f32", str(path), SMALL, heuristic="greedy"))
    assert "error[no-emission]: `load_f32` of silent has no emission\n" in found
    assert found.endswith("  help: give it an `emit`, or run the program as a model of the machine")


def test_a_system_that_keeps_tiles_to_itself_is_named() -> None:
    assert said(lambda: judged({"error": "permission"})) == (
        "error[permission-refused]: the operating system does not let this process use the processor's tiles\n"
        "  help: use a newer Linux kernel, or a machine without tiles"
    )


def test_a_program_whose_results_depend_on_addresses_is_named() -> None:
    assert said(lambda: judged({"error": "unstable"})) == (
        "error[program-unstable]: the emitted `f` gives other results at other addresses\n"
        "  note: library: f.so\n"
        "  note: compiler: gcc 12"
    )


def test_every_code_is_in_a_test() -> None:
    texts = [
        path.read_text(encoding="utf-8", errors="replace")
        for path in TESTS.rglob("*")
        if path.suffix in {".py", ".txt", ".toml"} and path.is_file()
    ]
    named = set(re.findall(r"[a-z0-9]+(?:-[a-z0-9]+)+|[a-z]+", "\n".join(texts)))
    assert sorted(set(read_codes()) - named) == []
