"""`isamap run`, `verify` and `bench` of a model: layers under their nodes' names, and errors found where they are."""

from __future__ import annotations

import json
import logging
import re
import sys
from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx", reason="models of ONNX need the package onnx: pip install 'isamap[onnx]'")

from onnx_models import Described, make

from isamap.bench import models
from isamap.cli import main
from isamap.cli.commands import function_of, record_of
from isamap.cli.option_parser import options_of
from isamap.graph import layers, model_library
from isamap.graph.making import Value
from isamap.graph.model_program import Control, ModelProgram, Port, TensorView, print_model
from isamap.graph.operators import OPERATORS

onnx: Any = import_module("onnx")
RNG = np.random.default_rng(0)
ON = ("--hw", "generic-c", "--heuristic", "greedy")


def drawn(*shape: int, dtype: str = "float32") -> Any:
    return RNG.standard_normal(shape).astype(dtype)


def images() -> Any:
    """Convolutions of channels last with a border between them, joined pieces, rows by index, and a product."""
    nodes: Described = [
        ("Conv", ["x", "w"], ["c"], {}),
        ("Relu", ["c"], ["r"], {}),
        ("Conv", ["r", "d"], ["e"], {"group": 8, "pads": [1, 1, 1, 1]}),
        ("Add", ["e", "r"], ["a"], {}),
        ("Concat", ["a", "r"], ["j"], {"axis": 1}),
        ("Reshape", ["j", "sizes"], ["s"], {}),
        ("Gather", ["s", "rows"], ["g"], {"axis": 1}),
        ("MatMul", ["g", "k"], ["m"], {}),
        ("Transpose", ["m"], ["y"], {"perm": [0, 2, 1]}),
    ]
    constants = {
        "w": drawn(8, 3, 3, 3), "d": drawn(8, 1, 3, 3), "k": drawn(36, 5), "sizes": np.asarray([1, 16, 36]),
    }  # fmt: skip
    return make(nodes, {"x": drawn(1, 3, 8, 8), "rows": np.zeros((3,), np.int64)}, ["y"], constants)


def quantised() -> Any:
    scale, zero = np.asarray(0.05, np.float32), np.asarray(7, np.uint8)
    nodes: Described = [
        ("QuantizeLinear", ["x", "s", "z"], ["q"], {}),
        ("DequantizeLinear", ["q", "s", "z"], ["f"], {}),
        ("DequantizeLinear", ["w", "s", "v"], ["u"], {}),
        ("Conv", ["f", "u"], ["c"], {}),
        ("QuantizeLinear", ["c", "t", "z"], ["p"], {}),
        ("DequantizeLinear", ["p", "t", "z"], ["y"], {}),
    ]
    weights = RNG.integers(-128, 127, (8, 3, 3, 3), np.int8)
    constants = {
        "s": scale,
        "t": np.asarray(0.4, np.float32),
        "z": zero,
        "v": np.asarray(0, np.int8),
        "w": weights,
    }
    return make(nodes, {"x": drawn(1, 3, 6, 6)}, ["y"], constants)


def narrow() -> Any:
    nodes: Described = [
        ("MatMul", ["x", "w"], ["m"], {}),
        ("Softmax", ["m"], ["s"], {}),
        ("Cast", ["s"], ["c"], {"to": 1}),
        ("ReduceMean", ["c"], ["y"], {"keepdims": 0}),
    ]
    return make(nodes, {"x": drawn(4, 8, dtype="float16")}, ["y", "m"], {"w": drawn(8, 6, dtype="float16")})


def looked_up() -> Any:
    """Rows of a table of bytes, which is dequantised ahead: in f32, where the evaluator's f64 has more digits."""
    nodes: Described = [
        ("DequantizeLinear", ["t", "s"], ["f"], {}),
        ("Gather", ["f", "rows"], ["g"], {}),
        ("MatMul", ["g", "k"], ["m"], {}),
        ("Softmax", ["m"], ["y"], {}),
    ]
    constants = {
        "t": RNG.integers(-128, 127, (50, 16), np.int8), "s": np.asarray(0.0123, np.float32), "k": drawn(16, 5),
    }  # fmt: skip
    return make(nodes, {"rows": np.zeros((7,), np.int64)}, ["g", "m", "y"], constants)


MODELS = {"images": images, "quantised": quantised, "narrow": narrow, "table": looked_up}


def answered(command: str, path: Path, capsys: pytest.CaptureFixture[str], *more: str) -> tuple[int, Any]:
    code = main([command, str(path), *ON, *more, "--json"])
    return code, json.loads(capsys.readouterr().out)


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    onnx.save(images(), tmp_path / "images.onnx")
    return tmp_path / "images.onnx"


def test_run_lists_each_layer_with_its_nodes_and_times(
    saved: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, found = answered("run", saved, capsys)
    assert code == 0
    named = [layer["operators"] for layer in found["layers"]]
    assert named[:2] == [["Conv", "Relu"], ["Conv", "Add"]]
    assert found["layers"][0]["nodes"] == ["n0", "n1"]
    assert abs(sum(layer["share"] for layer in found["layers"]) - 1) < 0.01
    assert all(layer["predicted_ns"] > 0 and layer["measured_ns"]["median"] > 0 for layer in found["layers"])
    assert found["seconds"]["min"] <= found["seconds"]["median"]
    assert found["peak_memory_bytes"] > 1 << 20


def test_the_c_model_of_a_machine_decides_no_share(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    onnx.save(quantised(), tmp_path / "q.onnx")
    words = ["run", str(tmp_path / "q.onnx"), "--hw", "edge-npu", "--heuristic", "greedy"]
    assert main([*words, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    predicted = [layer["predicted_ns"] for layer in found["layers"]]
    shares = [layer["share"] for layer in found["layers"]]
    assert found["ran_on"] == "model"
    assert shares == pytest.approx([ns / sum(predicted) for ns in predicted], abs=1e-3)
    assert main(words) == 0
    assert "C model here" in capsys.readouterr().out


@pytest.mark.parametrize("name", MODELS)
def test_each_layer_of_a_right_model_is_as_its_nodes(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    onnx.save(MODELS[name](), tmp_path / "model.onnx")
    code, found = answered("verify", tmp_path / "model.onnx", capsys)
    assert code == 0, found["diagnostics"]
    compared = {node for layer in found["layers"] if layer["with_onnx"] for node in layer["nodes"]}
    assert compared >= {node for layer in found["layers"] for node in layer["nodes"]}
    assert found["with_onnx"] >= 3


def test_an_error_in_the_code_of_a_kernel_names_its_layer(
    saved: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    build = model_library.build_model

    def spoiled(emitted: model_library.EmittedModel, *more: Any) -> Path:
        (name,) = (n for n in emitted.files if n.startswith("conv_add") and n.endswith(".c"))
        code = str(emitted.files[name])
        (result,) = set(re.findall(r"args->(y1_?),", code))
        code = re.sub(
            "(  return conv_add_[0-9a-f]{8}_OK;)", rf"  ((float *)args->{result})[5] += 0.5f;\n\1", code
        )
        return build(replace(emitted, files={**emitted.files, name: code}), *more)

    monkeypatch.setattr(model_library, "build_model", spoiled)
    code, found = answered("verify", saved, capsys)
    assert code == 1
    assert found["first_wrong"] == "n2 + n3"
    assert [layer["nodes"] for layer in found["layers"] if not layer["verified"]] == [["n2", "n3"]]
    said = found["diagnostics"][0]["message"]
    assert said.startswith("the first layer that differs, `n2 + n3`: y")
    assert "within" in said


def test_wrong_weights_in_the_library_name_the_layer_that_reads_them(
    saved: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    emit = model_library.emit

    def spoiled(program: Any, *more: Any, **options: Any) -> Any:
        step = next(s for s in program.steps if getattr(s, "kernel", "").startswith("matmul"))
        weights = next(p.tensor for p in step.reads.values() if p.tensor in program.constants)
        wrong = program.constants[weights].copy()
        wrong[3] += 1
        return emit(replace(program, constants={**program.constants, weights: wrong}), *more, **options)

    monkeypatch.setattr(model_library, "emit", spoiled)
    code, found = answered("verify", saved, capsys)
    assert code == 1
    assert found["first_wrong"].startswith("n7")


def test_an_operator_that_becomes_another_kernel_differs_from_onnx(
    saved: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def doubled(o: Any) -> Value:
        return o.map("max({0}, 1)", o[0])

    monkeypatch.setitem(OPERATORS[""], "Relu", doubled)
    code, found = answered("verify", saved, capsys)
    assert code == 1
    assert found["first_wrong"] == "n0 + n1"
    assert "ONNX's evaluator computes" in found["diagnostics"][0]["message"]


def test_a_folder_of_kernels_runs_and_is_verified_too(
    saved: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["import", str(saved), "-o", str(tmp_path / "graph")]) == 0
    capsys.readouterr()
    code, found = answered("verify", tmp_path / "graph" / "graph.json", capsys)
    assert code == 0
    assert found["with_onnx"] == 0
    moves = [layer for layer in found["layers"] if layer["checked"] == "nothing"]
    assert moves
    assert all((layer["verified"] is None) == (layer in moves) for layer in found["layers"])
    assert main(["verify", str(tmp_path / "graph" / "graph.json"), *ON]) == 0
    assert f"{len(moves)} not compared, as no reference computes their moves" in capsys.readouterr().out
    code, found = answered("run", tmp_path / "graph" / "graph.json", capsys)
    assert code == 0
    assert all(re.match("[a-z]", layer["kernel"]) for layer in found["layers"])


def test_many_layers_are_summed_by_their_operators(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    nodes: Described = [
        ("MatMul", [f"v{n}", "w"], [f"v{n + 1}"], {}) if n % 2 else ("Softmax", [f"v{n}"], [f"v{n + 1}"], {})
        for n in range(14)
    ]
    path = tmp_path / "deep.onnx"
    onnx.save(make(nodes, {"v0": drawn(4, 8)}, ["v14"], {"w": drawn(8, 8)}), path)
    assert main(["run", str(path), *ON]) == 0
    printed = capsys.readouterr().out
    assert re.search(r"^operators +layers +predicted +measured +share$", printed, re.MULTILINE)
    rows = re.findall(r"^(MatMul|Softmax) +7 .* ([\d.]+) %$", printed, re.MULTILINE)
    assert {name for name, _ in rows} == {"MatMul", "Softmax"}
    assert sum(float(share) for _, share in rows) == pytest.approx(100, abs=0.2)


def test_a_layer_without_a_bound_is_not_called_fine(
    saved: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    compare = layers.compare_layers

    def unbounded(*given: Any) -> Any:
        for one in compare(*given):
            yield replace(one, bound=np.inf, checked="0 of 36 elements of y")

    monkeypatch.setattr(layers, "compare_layers", unbounded)
    code, found = answered("verify", saved, capsys)
    assert code == 0
    assert {layer["verified"] for layer in found["layers"]} == {None}
    assert main(["verify", str(saved), *ON]) == 0
    count = len(found["layers"])
    said = f"0 of {count} layers fine; {count} not compared, as no bound of their errors is finite"
    assert said in capsys.readouterr().out


def test_inputs_may_be_given_and_random_ones_repeat(
    saved: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    np.save(tmp_path / "x.npy", np.full((1, 3, 8, 8), np.float32(1e30)))
    first, second, other, given = (
        [layer["bound"] for layer in answered("verify", saved, capsys, *more)[1]["layers"]]
        for more in ([], [], ["--seed", "1"], ["--input", f"x={tmp_path / 'x.npy'}"])
    )
    assert first == second != other
    assert given[0] > 1e20
    for name, said in {"z": "no input `z`", "rows": "sizes [3], and its file [1, 3, 8, 8]"}.items():
        code, found = answered("run", saved, capsys, "--input", f"{name}={tmp_path / 'x.npy'}")
        assert (code, found["diagnostics"][0]["code"]) == (2, "onnx-input")
        assert said in found["diagnostics"][0]["message"]


def test_bench_says_which_runtime_is_missing_and_how_to_install_it(
    saved: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def nothing(name: str) -> str:
        raise models.PackageNotFoundError(name)

    monkeypatch.setattr(models, "version", nothing)
    code, found = answered("bench", saved, capsys, "--seconds", "0")
    assert code == 0
    assert found["runtimes"] == {}
    assert {d["help"] for d in found["diagnostics"]} == {"pip install 'isamap[bench]'"}
    assert len(found["diagnostics"]) == len(models.RUNTIMES)


@pytest.mark.parametrize("name", models.RUNTIMES)
def test_bench_times_a_runtime_that_computes_the_same(
    name: str, saved: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip(name, reason="the runtime is not installed: pip install 'isamap[bench]'")
    code, found = answered("bench", saved, capsys, "--seconds", "0")
    assert code == 0
    timed = found["runtimes"][name]
    assert timed["apart"] < 1e-4
    assert timed["ratio"]["low"] <= timed["ratio"]["value"] <= timed["ratio"]["high"]


# --- stages -----------------------------------------------------------------------------------------------


def test_a_model_is_printed_behind_two_stages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    nodes: Described = [("MatMul", ["x", "w"], ["m"], {}), ("Relu", ["m"], ["r"], {}),
                        ("Gather", ["r", "rows"], ["y"], {})]  # fmt: skip
    monkeypatch.chdir(tmp_path)
    inputs = {"x": drawn(4, 8), "rows": np.zeros((2,), np.int64)}
    onnx.save(make(nodes, inputs, ["y"], {"w": drawn(8, 2)}), "m.onnx")
    printed: list[list[str]] = []
    for stage in ("parse", "transform"):
        assert main(["compile", "m.onnx", *ON, "--stop-after", stage]) == 0
        printed.append(re.sub(r"_[0-9a-f]{8}|c[0-9a-f]{12}", "", capsys.readouterr().out).splitlines())
    whole, fused = printed
    assert whole[:5] == [
        "model m",
        "  in x = i0: f32[4, 8]",
        "  in rows = i1: i64[2]",
        "  out y = t2: f32[2, 2]",
        "  constant : 64 bytes",
    ]
    assert whole[5:8] == [
        "  matmul(a0 = i0: f32[4, 8], a1 = : f32[8, 2]) -> y0 = t0: f32[4, 2]",
        "  relu(a0 = t0: f32[8]) -> y0 = t1: f32[8]",
        "  gather(t1: f32[4, 2], i1: i64[2]) -> t2: f32[2, 2]",
    ]
    assert fused[5] == "  matmul_relu(a0 = i0: f32[4, 8], a1 = : f32[8, 2]) -> y1 = t1: f32[4, 2]"
    assert [line for line in fused if line.startswith("kernel")] == ["kernel matmul_relu() {"]
    assert main(["compile", "m.onnx", *ON, "--stop-after", "lower"]) == 2
    assert "stop after parse or transform" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["m.onnx"]


def test_bodies_and_parts_of_tensors_are_printed() -> None:
    row = TensorView("t0", "f32", (2, 3), strides=(8, 1), offset=4)
    body = ModelProgram("then", (Port("a", row),), (), {}, {"relu": "kernel relu() {\n}\n"}, ())
    step = Control("if", "if0", (body,), ((),), (TensorView("i0", "bool", ()), row), (row,))
    assert print_model(ModelProgram("whole", (), (), {}, {}, (step,))).splitlines() == [
        "model whole",
        "  if(i0: bool[], t0: f32[2, 3] from 4 by (8, 1)) -> t0: f32[2, 3] from 4 by (8, 1)",
        "    model then",
        "      in a = t0: f32[2, 3] from 4 by (8, 1)",
        "      kernel relu() {",
        "      }",
    ]


# --- each option is obeyed or refused ---------------------------------------------------------------------

REFUSED = "is about one kernel, and a model has many"
VALUES = {
    "--dump-passes": "passes", "--trace": "t.json",
    "--schedule": "SCHEDULE", "--fix": "block.d0=1", "--packed": "a0", "--evaluate": "simulated",
    "--best": "2", "--tune": "2", "--tune-limit": "1", "--search": "genetic", "--require": "proven",
    "--library": "l.yaml", "--emulator": "qemu", "--fill": "ties", "--sizes": "s.csv",
    "--jobs": "1", "-o": "cells", "--objective": "energy", "--within": "time=2",
}  # fmt: skip
"""A word for each option with one that a model refuses."""
Seen = dict[str, Any]
OBEYED: dict[str, tuple[str, Callable[[Seen], bool]]] = {
    "--report": ("layers.json", lambda seen: bool(json.loads(Path("layers.json").read_text())["layers"])),
    "--hw": ("x86-avx2", lambda s: s["machine"] == "x86-avx2"),
    "-D": ("batch=3", lambda s: any("[3, 8]" in r.kernel.text for r in s["requests"])),
    "-o": ("there", lambda s: all(f.startswith("there/") for f in s["files"])),
    "--force": ("", lambda s: s["exit"] == 0),
    "--emit": ("program", lambda s: "encoding of its instructions" in s["diagnostics"][0]["message"]),
    "--stop-after": ("parse", lambda s: s["stage"] == "parse"),
    "--program": ("there", lambda s: "there/graph.json" in s["diagnostics"][0]["message"]),
    "--scheduler": ("nowhere", lambda s: "nowhere" in s["diagnostics"][0]["message"]),
    "--host": ("missing.yaml", lambda s: "missing.yaml" in s["diagnostics"][0]["message"]),
    "--heuristic": ("annealing", lambda s: all(r.heuristic == "annealing" for r in s["requests"])),
    "--cost-model": ("other", lambda s: all(r.cost_model == "other" for r in s["requests"])),
    "--profile": ("nowhere.json", lambda s: "nowhere.json" in s["diagnostics"][0]["message"]),
    "--limit": ("7", lambda s: all(r.limit_s == 7 for r in s["requests"])),
    "--threads": ("2", lambda s: all(r.threads == 2 for r in s["requests"])),
    "--no-cache": ("", lambda s: not any(r.cache for r in s["requests"])),
    "--constant": ("k=2", lambda s: s["program"] == ["x"]),
    "--weights": ("file", lambda s: any(f.endswith(".weights") for f in s["files"])),
    "--transform": ("1", lambda s: "variant of one kernel" in s["diagnostics"][0]["message"]),
    "--fusion": ("none", lambda s: s["kernels"] == 3),
    "--workspace": ("1", lambda s: "1 are allowed" in s["diagnostics"][0]["message"]),
    "--devices": ("2", lambda s: s["devices"] == 2),
    "--input": ("x=missing.npy", lambda s: "missing.npy" in s["diagnostics"][0]["message"]),
    "--seed": ("5", lambda s: s["seed"] == 5),
    "--seconds": ("0.25", lambda s: s["budget"] == 0.25),
    "--json": ("", lambda s: "exit" in s),
    "-q": ("", lambda s: s["level"] == logging.ERROR),
    "-v": ("", lambda s: s["level"] == logging.INFO),
}
"""For each option that a model obeys, a word, and what shows that it was obeyed."""


@pytest.mark.parametrize("command", ["compile", "run", "verify", "bench.model"])
def test_a_model_obeys_or_refuses_each_option_of_a_command(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    nodes: Described = [
        ("MatMul", ["x", "w"], ["m"], {}),
        ("Mul", ["m", "k"], ["s"], {}),
        ("MatMul", ["s", "v"], ["y"], {}),
    ]
    model = make(nodes, {"x": drawn(2, 8), "k": drawn(1)}, ["y"], {"w": drawn(8, 4), "v": drawn(4, 4)})
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "batch"
    monkeypatch.chdir(tmp_path)
    onnx.save(model, "m.onnx")
    Path("SCHEDULE").write_text("schedule gemm on generic-c { }\n")
    info = tmp_path / "stranger-1.5.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: stranger\nVersion: 1.5\n")
    shipped = "isamap.scheduler.effects.table:AnalyticModel"
    (info / "entry_points.txt").write_text(f"[isamap.cost_models]\nother = {shipped}\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    seen: Seen = {}
    compiled, draw, timed, emit = (
        model_library.make_kernel, layers.draw_inputs, models.time_model, model_library.emit,
    )  # fmt: skip

    def ask(request: Any) -> Any:
        seen.setdefault("requests", []).append(request)
        seen["level"] = logging.getLogger("isamap").level
        return compiled(request)

    def draws(model: Any, seed: int) -> Any:
        seen["seed"] = seed
        return draw(model, seed)

    def times(*given: Any) -> Any:
        seen["budget"] = given[-1]
        return timed(*given)

    def emits(program: Any, *given: Any, **more: Any) -> Any:
        seen["program"] = [port.name for port in program.inputs]
        return emit(program, *given, **more)

    monkeypatch.setattr(model_library, "make_kernel", ask)
    monkeypatch.setattr(layers, "draw_inputs", draws)
    monkeypatch.setattr(models, "time_model", times)
    monkeypatch.setattr(model_library, "emit", emits)
    record = record_of(function_of(command))
    assert record is not None
    plain = {"--hw": "generic-c", "-D": "batch=2", "--heuristic": "greedy"} | (
        {"--seconds": "0"} if command == "bench.model" else {}
    )
    wrong: list[str] = []
    for option in options_of(record, command).values():
        if not option.flags:
            continue
        flag = option.flags[0].rpartition("/")[2]
        value, is_obeyed = OBEYED.get(flag, ("", None))
        if (command, flag) in (("verify", "-o"), ("verify", "--scheduler")):
            is_obeyed = None
        value = value or VALUES.get(flag, "")
        if not option.kind.flag and not value:
            wrong.append(f"{flag} has no word in this test: add one, and what shows that it is obeyed")
            continue
        given = plain | {flag: value}
        words = [word for pair in given.items() for word in pair if word]
        seen.clear()
        capsys.readouterr()
        code = main([*command.split("."), "m.onnx", *words, *([] if flag == "--json" else ["--json"])])
        seen |= {**json.loads(capsys.readouterr().out), "exit": code}
        said = [d["message"] for d in seen.get("diagnostics", [])]
        is_refused = code == 2 and any(REFUSED in message and flag in message for message in said)
        if is_refused == (is_obeyed is not None) or (is_obeyed is not None and not is_obeyed(seen)):
            wrong.append(f"{flag} {value}: exit code {code}, {said}")
    assert not wrong, "\n".join(wrong)
