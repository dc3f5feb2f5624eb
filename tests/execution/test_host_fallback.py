"""Operators that an accelerator lacks run on its host, are listed with the reason, and give the same results."""

from __future__ import annotations

import json
from dataclasses import replace
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx", reason="models of ONNX need the package onnx: pip install 'isamap[onnx]'")

import onnx
from quantised_networks import Network, inverted_residual, residual, two_layers

from isamap.cli.command_line import run
from isamap.driver.request import Request
from isamap.graph.graph_file import read_folder
from isamap.graph.host_fallback import make_kernel, with_known_numbers, writes_borders
from isamap.graph.model_program import KernelCall, ModelProgram, Port, TensorView
from isamap.ir import interpret
from isamap.lower.program import Issue
from isamap.lower.walk import walk
from isamap.machine import load_machine
from isamap.onnx.onnx_models import compile_model
from isamap.source import NoMapping, Source
from isamap.stream.command import Register
from isamap.stream.encoding import decode
from isamap.stream.program_file import read_program, write_program
from isamap.syntax import parse_kernel

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
    texts = [" ".join(t.split()) for n, t in divided.program.kernels.items() if n not in divided.why]
    assert sum("* wrap_i32(a1[" in t or "* i32(a1[" in t for t in texts) == 3
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


def test_limits_of_floats_are_extrema_on_a_machine_that_does_not_compare(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    nodes = [onnx.helper.make_node("Relu", ["x"], ["r"]), onnx.helper.make_node("Add", ["r", "x"], ["y"])]
    ports = [onnx.helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, [32, 32]) for n in "xy"]
    graph = onnx.helper.make_graph(nodes, "limits", ports[:1], ports[1:])
    path = tmp_path / "limits.onnx"
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)])
    path.write_bytes(model.SerializeToString())
    found = answer(capsys, "verify", str(path), *NPU)
    assert [layer["machine"] for layer in found["layers"]] == ["edge-npu"]
    assert found["layers"][0]["verified"]


def test_scales_of_one_number_are_numbers_in_the_kernels_of_an_accelerator() -> None:
    text = "kernel k() {\n  in a0: i8[8];\n  in a1: f32[1];\n  out y: f32[8];\n"
    text += "  for i in 8 { y[i] = f32(a0[i]) * a1[0]; }\n}\n"
    (one, other), y = np.array([[0.1], [3.7e-5]], np.float32), TensorView("y", "f32", (8,))
    x, outputs = TensorView("x", "i8", (8,)), (Port("y", y), Port("z", replace(y, tensor="z")))
    steps = tuple(
        KernelCall("k", {"a0": x, "a1": TensorView(scale, "f32", (1,))}, {"y": replace(y, tensor=result)})
        for scale, result in (("s", "y"), ("t", "z"))
    )
    program = ModelProgram("net", (Port("x", x),), outputs, {"s": one, "t": other}, {"k": text}, steps)
    changed = with_known_numbers(program)
    assert not changed.constants
    equal = {"s": np.full(8, 0.5, np.float32), "t": np.arange(8, dtype=np.float32)}
    vectors = with_known_numbers(
        replace(
            program,
            constants=equal,
            kernels={"k": text.replace("f32[1]", "f32[8]").replace("a1[0]", "a1[i]")},
            steps=tuple(
                replace(s, reads={n: replace(p, shape=(8,)) for n, p in s.reads.items()}) for s in steps
            ),
        )
    )
    assert [list(s.reads) for s in vectors.steps if isinstance(s, KernelCall)] == [["a0"], ["a0", "a1"]]
    assert [list(step.reads) for step in changed.steps if isinstance(step, KernelCall)] == [["a0"], ["a0"]]
    assert len(changed.kernels) == 2, "each scale has a kernel"
    given = np.arange(-4, 4, dtype=np.int8)
    for scale, kernel in zip((one, other), changed.kernels.values(), strict=True):
        found = interpret(parse_kernel(Source("k", kernel)), {"a0": given}, {})["y"]
        assert np.array_equal(found, given.astype(np.float32) * scale)


def test_a_node_that_two_machines_share_is_judged_with_the_errors_of_both(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    answer(capsys, "hw", "new", "npu", "--kind", "matrix")
    rng, sizes = np.random.default_rng(0), {"x": [32, 128], "y": [32, 64]}
    weights = [onnx.numpy_helper.from_array(rng.standard_normal((128, 64)).astype(np.float32), "w")]
    nodes = [
        onnx.helper.make_node("MatMul", ["x", "w"], ["h"], name="fc"),
        onnx.helper.make_node("Relu", ["h"], ["y"], name="relu"),
    ]
    x, y = (onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, sizes[name]) for name in "xy")
    graph = onnx.helper.make_graph(nodes, "net", [x], [y], weights)
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)])
    Path("net.onnx").write_bytes(model.SerializeToString())
    found = answer(capsys, "verify", "net.onnx", "--hw", "npu.yaml", "--heuristic", "greedy")["layers"]
    assert [(one["machine"], one["verified"]) for one in found] == [("npu", True), ("generic-c", True)]
    assert 0 < found[0]["bound"] <= found[1]["bound"] < 1.1 * found[0]["bound"]


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


ENERGIES = """isamap: 1
name: metered
summary: edge-npu with the energies of two memories
extends: edge-npu
sources: {here: invented}
memories:
  dram: {energy: {read_pj: 100, write_pj: 200, access_bytes: 8, source: here}}
  spad: {energy: {read_pj: 2, write_pj: 3, access_bytes: 16, source: here}}
"""


def test_a_report_of_a_network_has_time_gap_bytes_and_energy_of_each_layer(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "metered.yaml").write_text(ENERGIES)
    words = [
        "compile",
        str(two_layers(tmp_path / "two.onnx")),
        "--hw",
        "metered.yaml",
        "--heuristic",
        "greedy",
    ]
    assert run([*words, "-o", "out", "--report", "layers.json"]) == 0
    layers = json.loads((tmp_path / "layers.json").read_text())["layers"]
    assert "wrote layers.json" in capsys.readouterr().out
    own = [layer for layer in layers if layer["machine"] == "metered"]
    assert own
    for layer in own:
        assert layer["predicted_ns"] > 0
        assert 0 <= layer["gap"] < 1
        assert layer["levels"]["dram"]["bytes"] > 0
        levels_pj = sum(level.get("energy_pj", 0) for level in layer["levels"].values())
        assert 0 < layer["levels"]["dram"]["energy_pj"] <= levels_pj <= layer["energy_pj"] * (1 + 1e-9)
    assert all(
        "levels" not in layer for layer in layers if layer["machine"] != "metered" and "kernel" in layer
    )
    assert run([*words, "-o", "out", "--force", "--report", "-"]) == 0
    head, *rows = capsys.readouterr().out.partition("layer  ")[2].splitlines()
    assert head.split()[:4] == ["runs", "on", "time", "gap"]
    rows = rows[: rows.index("")]
    whole = sum(layer["levels"]["dram"]["bytes"] for layer in own)
    assert len(rows) == len(layers) + 1
    assert rows[-1].startswith("all layers")
    assert f" {whole} " in rows[-1]
    assert run([*words, "-o", "out", "--force", "--report", "layers.html"]) == 0
    page = (tmp_path / "layers.html").read_text()
    parts = [f'<section id="layer-{n}"' in page for n in range(1, len(layers) + 2)]
    assert parts == [True] * len(layers) + [False]
    assert all(page.count(f"kernel {layer['kernel']}(") == 1 for layer in own), "each kernel's text is there"
    assert all(page.count(escape(layer["why"])) >= 1 for layer in layers if "why" in layer)
    assert run([*words, "-o", "out", "--force", "--report", "layers.svg"]) == 2
    assert "is about its layers" in capsys.readouterr().err


def test_a_network_that_a_machine_performs_whole_has_no_host(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, out = str(two_layers(tmp_path / "two.onnx")), str(tmp_path / "out")
    found = answer(capsys, "compile", path, "--hw", "generic-c", "--heuristic", "greedy", "-o", out)
    assert "host" not in found
    assert "layers" not in found


def test_a_network_is_one_stream_of_encoded_instructions_with_steps_of_its_host_between(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model, out, page = str(two_layers(tmp_path / "two.onnx")), tmp_path / "net", tmp_path / "net.html"
    made = answer(capsys, "compile", model, *NPU, "--emit", "program", "-o", str(out), "--report", str(page))
    own = [layer for layer in made["layers"] if layer["machine"] == "edge-npu"]
    issued = [f"<td>instructions</td><td>{layer['instructions']}</td>" for layer in own]
    assert all(count in page.read_text() for count in issued), "the report is about the stream"
    assert sum(layer["instructions"] for layer in own) == made["instructions"] > 0
    assert sum(layer["words"] for layer in own) == made["words"]
    assert len(own) < len(made["layers"]), "the host performs some"
    moved = sum(layer["read_bytes"] + layer["written_bytes"] for layer in own)
    assert moved == made["traffic_bytes"] >= sum(made["least_traffic_bytes"].values())
    constants = 32 * 32 + 2 * 4 * 32  # weights, biases and scales of the second layer, each byte once
    assert constants in [layer["read_bytes"] for layer in own], "its image is still in a scratchpad"
    assert sorted(made["least_traffic_bytes"]) == ["between steps", "inputs", "results", "weights"]
    charged = {layer["machine"] for layer in made["layers"] if "transfer_ns" in layer}
    assert charged == {"generic-c"}, "loads of the accelerator are in its price, which once had them twice"
    timed = answer(capsys, "run", model, *NPU, "--program", str(out))
    assert sum(layer["time_ns"] for layer in timed["layers"]) == pytest.approx(
        timed["stream"]["total_ns"], abs=9
    )
    assert [layer["kernel"] for layer in timed["layers"]] == [layer["kernel"] for layer in own]
    assert timed["not_timed"] == len(made["layers"]) - len(own)
    assert timed["stream"]["busy_ns"]["execute"] > 0
    found = answer(capsys, "verify", model, *NPU, "--program", str(out))
    assert found["ran_on"] == "stream"
    assert (found["instructions"], found["words"]) == (made["instructions"], made["words"])
    assert [layer["machine"] for layer in found["layers"]] == [layer["machine"] for layer in made["layers"]]
    assert all(layer["verified"] for layer in found["layers"])
    assert all(layer["max_error"] == 0 for layer in found["layers"] if "Sin" not in layer["operators"])
    stream = read_program(next(out.glob("*.program")).read_bytes(), "two")
    machine, at, used = load_machine("edge-npu"), 0, set[int]()
    for part in stream.parts:
        placed = decode(stream.words[at : at + part.words], machine)
        used |= {w.number for one in placed for _, w in one.command.operands if isinstance(w, Register)}
        at += part.words
    assert used == {0, 1}, "weights are loaded while the array computes with others"


@pytest.mark.parametrize(
    ("machine", "scales"),
    [("gemmini", (0.02, 0.05, 0.0037)), ("vta", (2.0**-6, 2.0**-4, 2.0**-8))],
    ids=["one scale of all weights", "scales that are powers of two"],
)
def test_a_network_is_a_stream_on_a_machine_that_requantises_in_its_own_way(
    machine: str, scales: tuple[float, float, float], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model, out = str(two_layers(tmp_path / "two.onnx", scales=scales)), str(tmp_path / "net")
    words = ["--hw", machine, "--heuristic", "greedy"]
    made = answer(capsys, "compile", model, *words, "--emit", "program", "-o", out)
    own = [layer for layer in made["layers"] if layer["machine"] == machine]
    assert [layer["operators"][0] for layer in own] == ["QLinearConv", "QLinearConv"], (
        "no layer is the host's"
    )
    on_host = [layer["kernel"] for layer in made["layers"] if layer["machine"] != machine]
    assert len(on_host) == 4, "the ends of the network, the order of its result, the border of the image"
    assert made["traffic_bytes"] >= sum(made["least_traffic_bytes"].values())
    found = answer(capsys, "verify", model, *words, "--program", out)
    assert found["ran_on"] == "stream"
    assert all(layer["verified"] for layer in found["layers"])
    assert all(layer["max_error"] == 0 for layer in found["layers"] if "Sin" not in layer["operators"])
    timed = answer(capsys, "run", model, *words, "--program", out)
    assert all(layer["time_ns"] > 0 for layer in timed["layers"])
    assert sum(layer["time_ns"] for layer in timed["layers"]) == pytest.approx(
        timed["stream"]["total_ns"], abs=1
    )


def test_a_stream_that_is_too_long_is_refused_by_the_mappings_of_its_sums(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    net = Network(scale=0.01)
    y = net.quantised(net.product(net.quantised("x", 0.02), 256, 4096), 0.05)
    model = str(net.save(tmp_path / "product.onnx", {"x": (8192, 256)}, y))
    words = ["compile", model, "--hw", "gemmini", "--heuristic", "greedy", "--emit", "program"]
    found = answer(capsys, *words, rc=2)["diagnostics"][0]
    assert found["code"] == "stream-too-long"
    least = 8192 // 16 * 256 // 16 * 4096 // 16
    assert f"it has at least {least}; {least} of them are those of `qlinearmatmul" in found["notes"][0]


def test_a_layer_writes_the_border_that_the_next_one_reads(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model, out = str(inverted_residual(tmp_path / "block.onnx")), str(tmp_path / "net")
    made = answer(capsys, "compile", model, *NPU, "--emit", "program", "-o", out)
    first, depthwise = [layer for layer in made["layers"] if layer["operators"][:1] == ["QLinearConv"]][:2]
    assert first["written_bytes"] == 6 * 10 * 64, "an image of 4 by 8, and a border around it"
    assert depthwise["written_bytes"] == 4 * 8 * 64, "no copy with a border"
    between = made["least_traffic_bytes"]["between steps"]
    assert between == 4 * 4 * 8 * 64 + (7 + 2 * 4) * 4 * 8 * 32, "no borders; the result is moved in f32"
    found = answer(capsys, "verify", model, *NPU, "--program", out)
    assert all(layer["verified"] for layer in found["layers"])
    *layers, _numbers, _moved = found["layers"]
    assert not any(layer["max_error"] for layer in layers if layer["operators"][-1] != "QLinearAdd")
    assert all(layer["max_error"] <= 1 for layer in layers), "a sum, where 0.05 / 0.08 becomes 0.625"


@pytest.mark.parametrize(("machine", "can"), [("edge-npu", True), ("gemmini", False), ("vta", False)])
def test_a_machine_that_stores_no_constants_is_given_images_with_borders(machine: str, *, can: bool) -> None:
    assert writes_borders(machine) == can


def test_a_spoilt_word_and_a_spoilt_weight_of_a_network_are_found(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model, out = str(two_layers(tmp_path / "two.onnx")), tmp_path / "net"
    answer(capsys, "compile", model, *NPU, "--emit", "program", "-o", str(out))
    program = read_program((out / "two.program").read_bytes(), "two.program")
    first = next(n for n, word in enumerate(program.words) if word >> 54 in (58, 59))
    words = list(program.words)
    words[first] ^= 32  # another place of the sums that are requantised
    (out / "two.program").write_bytes(write_program(replace(program, words=tuple(words))))
    found = answer(capsys, "verify", model, *NPU, "--program", str(out), rc=1)
    assert "result-wrong" in json.dumps(found) or "program-access" in json.dumps(found)
    other = program.parts[0]
    parts = (replace(other, words=other.words + 2), *program.parts[1:])
    (out / "two.program").write_bytes(write_program(replace(program, parts=parts)))
    found = answer(capsys, "verify", model, *NPU, "--program", str(out), rc=1)
    assert "program-file" in json.dumps(found), "parts are all of the words"


def test_a_listing_of_a_network_and_a_stream_without_a_host_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = str(two_layers(tmp_path / "two.onnx"))
    for words in (["--emit", "assembly"], ["--emit", "program", "--host", "none"]):
        found = answer(capsys, "compile", model, *NPU, *words, rc=2)
        assert found["diagnostics"][0]["code"] == "usage"
    found = answer(capsys, "compile", model, "--hw", "generic-c", "--emit", "program", rc=2)
    assert found["diagnostics"][0]["code"] == "no-encoding"


FLASH = str(Path(__file__).parents[1] / "data" / "machines" / "edge-flash.yaml")
ETHOS = str(Path(__file__).parents[1] / "data" / "machines" / "ethos-u55.yaml")


def test_constants_of_a_stream_lie_in_the_main_memory_that_instructions_only_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A fault once put them in the first main memory: a stream had one image of memory."""
    model, out = str(residual(tmp_path / "residual.onnx")), tmp_path / "net"
    words = ["--hw", FLASH, "--heuristic", "greedy"]
    made = answer(capsys, "compile", model, *words, "--emit", "program", "-o", str(out))
    assert {layer["machine"] for layer in made["layers"]} == {"edge-flash"}
    stream = read_program(next(out.glob("*.program")).read_bytes(), "residual")
    program = read_folder(out / "graph.json")
    where = {(a.name.removesuffix("@flash") in program.constants, a.memory) for a in stream.arrays}
    assert where == {(True, "flash"), (False, "dram")}, "everything else is where instructions write"
    assert stream.memories["flash"] >= sum(array.nbytes for array in program.constants.values())
    found = answer(capsys, "verify", model, *words, "--program", str(out))
    assert all(layer["verified"] for layer in found["layers"])
    timed = answer(capsys, "run", model, *words, "--program", str(out))
    assert timed["stream"]["busy_ns"]["flash"] > 0


STARTED = """kernel k() {{
  in a: i8[64, 64] @ sram; in w: i8[64, 32] @ flash; in b: i32[32] @ flash; in s: f32[32] @ flash;
  temp c: i32[64, 32]; out y: i8[64, 32] @ sram;
  for i in 64, j in 32 {{ c[i, j] = 0; }}
  {sums}
  for i in 64, j in 32 {{ y[i, j] = sat_i8(round(f32(c[i, j] + b[j]) * s[j], even)); }}
}}"""
SUM = "for i in 64, j in 32, k in 64 { c[i, j] += i32(a[i, k]) * i32(w[k, j]); }"


def test_sums_that_nothing_loads_start_and_finish_in_their_scratchpad() -> None:
    made = make_kernel(
        Request(Source("k", STARTED.format(sums=SUM)), ETHOS, {}, heuristic="greedy"), lowered=True
    )
    assert made.lowered is not None
    moved = [node.instruction for node in walk(made.lowered.body) if isinstance(node, Issue)]
    assert {"zero_acc", "mac_block", "scale_out"} <= set(moved)
    with pytest.raises(NoMapping):  # the second sum would have to load what the first one has left
        make_kernel(Request(Source("k", STARTED.format(sums=SUM + SUM)), ETHOS, {}, heuristic="greedy"))


def test_a_machine_reads_weights_from_flash_whatever_memory_its_description_names_first(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A fault once charged transfers between machines at the rate of flash, which no activation crosses."""
    text = Path(ETHOS).read_text(encoding="utf-8")
    sram, flash = "  memory sram: addressable(bytes = 4 MiB);\n", "  memory flash: addressable();\n"
    assert sram + flash in text
    machine = tmp_path / "ethos-u55.yaml"
    machine.write_text(text.replace(sram + flash, flash + sram))
    model = str(two_layers(tmp_path / "two.onnx"))
    words = ["--hw", str(machine), "--heuristic", "greedy"]
    made = answer(capsys, "compile", model, *words, "-o", str(tmp_path / "out"))
    own = [layer for layer in made["layers"] if layer["machine"] == "ethos-u55"]
    assert [layer["operators"][0] for layer in own] == ["QLinearConv", "QLinearConv"]
    assert made["constants_by_memory_bytes"] == {"flash": 9 * 16 * 32 + 32 * 32 + 2 * 32 * (4 + 4)}
    last = next(layer for layer in made["layers"] if "Sin" in layer["operators"])
    assert last["transfer_ns"] == 8 * 8 * 32 / 4, "bytes over the link of 4 bytes per ns"
    found = answer(capsys, "verify", model, *words)
    assert all(layer["verified"] for layer in found["layers"])
