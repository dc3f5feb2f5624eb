"""`isamap hw sweep`: figures found in descriptions, ranges of values, rows that are kept, table and plot."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from isamap.cli import main
from isamap.cli.hw_sweep_command import read_setting
from isamap.cli.model_files import read_model
from isamap.driver.inputs import read_kernel
from isamap.driver.pipeline import compile_kernel
from isamap.driver.predicted import KernelCase, Predicted, PredictionRequest, predict
from isamap.driver.request import Request
from isamap.graph.host_fallback import host_of
from isamap.graph.layers import layers_of
from isamap.graph.model_library import ModelOptions, compile_program_of
from isamap.machine import Machine, load_machine
from isamap.machine.chain import File, read_chain
from isamap.machine.parameter_changes import edit_parameters
from isamap.machine.templates import begin
from isamap.plan.plugins import load_cost_model
from isamap.plan.text import parse_schedule
from isamap.report.sweeps import Sweep, SweepLine, front_svg, fronts, sweep_csv, sweep_svg, sweep_text
from isamap.scheduler import schedule as solve
from isamap.scheduler.nests.pricing import start_from
from isamap.source import Source, UsageProblem
from isamap.source.progress import Progress

KERNEL = ("--kernel", "gemm_u8s8 M=64 N=32 K=64")


@pytest.fixture
def edge(tmp_path: Path) -> str:
    (tmp_path / "edge.yaml").write_text(begin("edge", "matrix", {"rows": 16}))
    return str(tmp_path / "edge.yaml")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a.b=64KiB..1MiB", "64KiB 128KiB 256KiB 512KiB 1MiB"),
        ("a.b=8..32+8", "8 16 24 32"),
        ("a.b=1,2,4", "1 2 4"),
        ("a.b=1..3", "1 2"),
        ("a.b=0.5..2+0.5", "0.5 1 1.5 2"),
        ("a.b=3KiB..12KiB+3KiB,1MiB", "3KiB 6KiB 9KiB 12KiB 1MiB"),
        ("a.b=512..2KiB", "512 1KiB 2KiB"),
        ("a.b=0.1..0.8+0.1", "0.1 0.2 0.3 0.4 0.5 0.6 0.7 0.8"),
    ],
)
def test_values_double_step_or_are_listed(text: str, words: str) -> None:
    found = read_setting(text)
    assert (found.path, " ".join(found.words)) == ("a.b", words)
    assert len(found.numbers) == len(found.words)


@pytest.mark.parametrize(
    "text", ["a.b", "a.b=", "=1", "a.b=x", "a.b=4..2", "a.b=0..4", "a.b=1..9+0", "a.b=1..9999+1"]
)
def test_values_that_are_none_are_refused(text: str) -> None:
    with pytest.raises(UsageProblem):
        read_setting(text)


EDITS: list[tuple[str, str, Callable[[Machine], bool]]] = [
    ("memories.spad.bytes", "1 MiB", lambda m: m.memories["spad"].capacity_bytes == 1 << 20),
    ("memories.weights.count", "4", lambda m: m.memories["weights"].count == 4),
    ("units.execute.count", "3", lambda m: m.units["execute"].count == 3),
    ("links.spad.weights.bandwidth_bytes_per_ns", "5", lambda m: m.links[2].bandwidth_bytes_per_ns == 5),
    ("clock_ghz", "2", lambda m: m.clock_ghz == 2),
    ("loops.turn_ns", "7", lambda m: m.loops.turn_ns == 7),
]


@pytest.mark.parametrize(("path", "value", "is_found"), EDITS, ids=[path for path, *_ in EDITS])
def test_a_figure_is_replaced_where_it_stands(
    edge: str, path: str, value: str, is_found: Callable[[Machine], bool]
) -> None:
    text = (
        Path(edge)
        .read_text()
        .replace("  memory spad", "  # memory spad: scratchpad(bytes = 1);\n  memory spad")
    )
    changed = edit_parameters((File(Source("edge.yaml", text), None),), {path: value})[0].source.text
    Path(edge).write_text(changed)
    assert is_found(load_machine(edge))
    lines = list(zip(text.splitlines(), changed.splitlines(), strict=True))
    assert sum(old != new for old, new in lines) == 1


CHILD = """isamap: 1
name: child
summary: A child.
extends: edge.yaml
units: {store: {count: 1, source: guess}}
loops: {turn_ns: 5, source: guess}
"""


@pytest.mark.parametrize(("path", "value", "is_found"), EDITS, ids=[path for path, *_ in EDITS])
def test_an_inherited_parameter_is_replaced_in_the_file_that_states_it(
    edge: str, tmp_path: Path, path: str, value: str, is_found: Callable[[Machine], bool]
) -> None:
    texts = {
        "grandchild.yaml": "isamap: 1\nname: grandchild\nsummary: A grandchild.\nextends: child.yaml\n",
        "child.yaml": CHILD,
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    files = edit_parameters(read_chain(str(tmp_path / "grandchild.yaml")), {path: value})
    below = tmp_path / "below"
    below.mkdir()
    for file in files:
        assert file.path is not None
        (below / file.path.name).write_text(file.source.text)
    assert is_found(load_machine(str(below / "grandchild.yaml")))


def test_a_sweep_changes_shipped_descriptions_and_what_they_extend(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "child.yaml").write_text("isamap: 1\nname: child\nsummary: A child.\nextends: systolic-16\n")
    times: list[list[float]] = []
    for name in ("systolic-16", str(tmp_path / "child.yaml")):
        words = ["hw", "sweep", name, "--kernel", "gemm_s8s8 M=64 N=32 K=64", "--heuristic", "greedy"]
        words += ["--jobs", "1", "--json", "--set", "clock_ghz=0.5,1,2", "--set", "units.load.count=1"]
        assert main(words) == 0
        times.append([row["ns"] for row in json.loads(capsys.readouterr().out)["rows"]])
    assert times[0] == times[1]
    assert times[0][0] > times[0][1] > times[0][2]


def test_a_file_that_replaces_what_it_inherits_must_state_the_parameter(tmp_path: Path) -> None:
    text = "isamap: 1\nname: child\nsummary: A child.\nextends: systolic-16\n"
    (tmp_path / "child.yaml").write_text(f"{text}units: {{load: {{count: 1, source: host}}}}\n")
    chain = read_chain(str(tmp_path / "child.yaml"))
    with pytest.raises(
        UsageProblem, match=r"does not state `units\.load\.area_mm2`: it has no `area_mm2` there"
    ):
        edit_parameters(chain, {"units.load.area_mm2": "2"})


def test_a_machine_of_its_parents_name_is_refused_rather_than_written_twice(tmp_path: Path) -> None:
    text = "isamap: 1\nname: systolic-16\nsummary: A child.\nextends: systolic-16\n"
    (tmp_path / "systolic-16.yaml").write_text(text)
    chain = read_chain(str(tmp_path / "systolic-16.yaml"))
    with pytest.raises(UsageProblem, match="extends a machine of the same name"):
        edit_parameters(chain, {"clock_ghz": "2"})


def test_rows_are_kept_and_gone_on_with(
    edge: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["hw", "sweep", edge, *KERNEL, "--jobs", "1", "-o", str(tmp_path / "rows")]
    assert main([*words, "--set", "units.execute.count=1,2"]) == 0
    assert main([*words, "--set", "units.execute.count=1,2"]) == 2
    assert "--resume" in capsys.readouterr().err
    asked: list[Any] = []

    def predicted(asked_now: Any, *_: Any) -> list[Predicted]:
        asked.extend(asked_now)
        return []

    monkeypatch.setattr("isamap.cli.hw_sweep_command.predict_all", predicted)
    assert main([*words, "--set", "units.execute.count=1,2", "--resume", "--json"]) == 0
    assert asked == []
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert [row["set"] for row in rows] == [{"units.execute.count": "1"}, {"units.execute.count": "2"}]
    assert rows[0]["ns"] > rows[1]["ns"]
    assert [(row["status"], row["gap"] < 1e-6) for row in rows] == [("OPTIMAL", True)] * 2
    assert rows[0]["instructions"] == ["multiply_u8s8"]


def test_what_a_figure_rules_out_is_a_row(edge: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["hw", "sweep", edge, *KERNEL, "--jobs", "1", "--set", "memories.spad.bytes=16,256KiB"]
    assert main(words) == 0
    said = capsys.readouterr().out
    assert re.search("^16 +[a-z-]+$", said, re.MULTILINE)
    assert "at memories.spad.bytes = 256KiB" in said


# Greedy alone is slower on the larger of these memories, and so is a solver that is stopped at once.
GROWING = "memories.spad.bytes=512KiB,32KiB,256KiB,1MiB"


@pytest.mark.parametrize(
    ("how", "kernel", "setting"),
    [
        ("greedy", "gemm_u8s8 M=512 N=512 K=512", GROWING),
        ("greedy", "gemm_f32 M=96 N=160 K=224", "memories.sums.bytes=4KiB..64KiB"),
        ("cpsat", "gemm_u8s8 M=512 N=512 K=512", GROWING),
        ("greedy", "gemm_u8s8 M=96 N=160 K=224", "links.dram.spad.bandwidth_bytes_per_ns=64,4,8,32"),
        ("greedy", "gemm_f32 M=64 N=96 K=128", "clock_ghz=1..3"),
    ],
)
def test_more_of_a_figure_is_never_slower(
    how: str, kernel: str, setting: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "edge.yaml").write_text(begin("edge", "matrix", {"rows": 32}))
    words = ["hw", "sweep", str(tmp_path / "edge.yaml"), "--set", setting, "--kernel", kernel, "--jobs", "1"]
    assert main([*words, "--heuristic", how, "--limit", "0.1", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    numbers = read_setting(setting).numbers
    times = [row["ns"] for _, row in sorted(zip(numbers, rows, strict=True), key=lambda pair: pair[0])]
    assert len(times) > 1
    assert times == sorted(times, reverse=True)
    assert all(row["status"] in ("OPTIMAL", "FEASIBLE", "HEURISTIC") for row in rows)
    assert all(row["gap"] is None or 0 <= row["gap"] <= 1 for row in rows)


def test_what_an_interrupted_sweep_has_leads_to_the_same_table(
    edge: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["hw", "sweep", edge, "--kernel", "gemm_u8s8 M=512 N=512 K=512", "--heuristic", "greedy"]
    words += ["--set", "memories.spad.bytes=256KiB,512KiB,1MiB", "--jobs", "1", "-o", str(tmp_path / "rows")]
    assert main(words) == 0
    whole = capsys.readouterr().out
    file = tmp_path / "rows" / "rows.jsonl"
    lines = file.read_text().splitlines(keepends=True)
    assert len(lines) > 3, "neighbours were compared"
    for count in range(len(lines) + 1):
        file.write_text("".join(lines[:count]))
        assert main([*words, "--resume"]) == 0
        assert capsys.readouterr().out == whole
        assert sorted(file.read_text().splitlines(keepends=True)) == sorted(lines)


def test_a_search_starts_from_the_schedule_of_a_neighbour(tmp_path: Path) -> None:
    folders = {size: tmp_path / f"{size}" for size in (256 << 10, 512 << 10)}
    for size, folder in folders.items():
        folder.mkdir()
        (folder / "edge.yaml").write_text(begin("edge", "matrix", {"rows": 32, "spad_bytes": size}))
    case = KernelCase(read_kernel("gemm_u8s8"), (("M", 512), ("N", 512), ("K", 512)))
    small, large = (
        predict(PredictionRequest(case, str(folder / "edge.yaml"))) for folder in folders.values()
    )
    assert small.ns is not None
    assert large.ns is not None
    assert small.ns < large.ns
    request = Request(
        case.kernel, str(folders[512 << 10] / "edge.yaml"), dict(case.sizes), heuristic="greedy"
    )
    problem = compile_kernel(request, "formulate", extent="first").problem
    assert problem is not None
    model, known = load_cost_model("analytic"), parse_schedule(Source("known", small.schedule))
    found = solve(start_from(problem, known, model), heuristic="greedy")
    assert found.cost_ns == small.ns
    assert solve(problem, heuristic="greedy").cost_ns == large.ns


def swept() -> Sweep:
    """Return two kernels at two values of one figure and two of another."""
    values = tuple((size, count) for size in ("1KiB", "2KiB") for count in ("1", "2"))
    good = SweepLine("<good>", tuple(Predicted(ns, gap=gap, status=word) for ns, gap, word in TIMES))
    poor = SweepLine("poor", (Predicted(None, refused="no-mapping"),) * 4)
    return Sweep(("memories.a.bytes", "units.u.count"), values, (1024.0, 2048.0), (good, poor))


TIMES = (
    (400.0, 0.25, "FEASIBLE"), (300.0, 1e-9, "OPTIMAL"), (200.0, None, "HEURISTIC"), (100.5, 0.0, "OPTIMAL")
)  # fmt: skip


def test_the_table_says_where_it_pays() -> None:
    said = sweep_text(swept())
    assert "<good>: 100 ns at memories.a.bytes = 2KiB, units.u.count = 2, within 1 % of the least" in said
    assert "poor: not on any of these machines" in said
    assert "no-mapping" in said
    assert re.search(r"^1KiB +1 +400 ns  FEASIBLE +25 % ", said, re.MULTILINE)
    assert re.search(r"^1KiB +2 +300 ns  OPTIMAL +0 % ", said, re.MULTILINE)
    assert re.search(r"^2KiB +1 +200 ns  HEURISTIC  +no-mapping$", said, re.MULTILINE)


def test_the_plot_has_a_line_for_each_kernel_and_other_figure() -> None:
    drawn = sweep_svg("a & b", swept())
    root = ElementTree.fromstring(drawn)
    texts = [text.text for text in root.iter("{http://www.w3.org/2000/svg}text")]
    assert {"<good>, u.count 1", "<good>, u.count 2", "poor, u.count 1: never", "a & b"} <= set(texts)
    assert len(list(root.iter("{http://www.w3.org/2000/svg}circle"))) == 4
    assert "prefers-color-scheme: dark" in drawn


def test_the_command_draws(edge: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "plot.svg"
    words = ["hw", "sweep", edge, *KERNEL, "--jobs", "1", "--set", "clock_ghz=1,2", "--svg", str(file)]
    assert main(words) == 0
    assert f"wrote {file}" in capsys.readouterr().out
    assert "<title>edge: predicted time over clock_ghz</title>" in file.read_text()
    assert main(words) == 2


ENERGY = Path(__file__).parents[2] / "docs" / "examples" / "energy" / "tpu-like.yaml"


def test_no_point_off_a_front_is_as_good_as_all_on_it() -> None:
    costs = [(5, 1, 1), (4, 2, 1), (4, 2, 1), (6, 3, 1), (3, 9, 1), (9, 9, 0.5), (None, None, 1)]
    points = tuple(Predicted(ns, energy_pj=pj, area_mm2=area) for ns, pj, area in costs)
    line = SweepLine("k", points, "k", "time")
    sweep = Sweep(("a.b",), tuple((str(n),) for n in range(len(costs))), tuple(range(len(costs))), (line,))
    assert fronts(sweep) == {"k": [(0, 4), (0, 1), (0, 0), (0, 5)]}
    said = sweep_text(sweep)
    assert "k: 4 points on the front of time, energy and area" in said
    table = sweep_csv(sweep)
    assert [row[-1] for row in table] == ["front", "yes", "yes", "no", "no", "yes", "yes", "no"]
    ElementTree.fromstring(front_svg("<t>", sweep))


def test_a_sweep_without_energies_and_areas_has_no_front() -> None:
    line = SweepLine("k", (Predicted(3.0), Predicted(2.0)), "k")
    assert fronts(Sweep(("a.b",), (("1",), ("2",)), (1.0, 2.0), (line,))) == {}


def test_a_sweep_takes_several_objectives_and_writes_their_front(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = ENERGY.read_text(encoding="utf-8")
    stated = "access_bytes: 256, source: zz}, source: zz}"
    sized = "access_bytes: 256, source: zz}, area_mm2_per_kib: 0.01, source: zz}"
    assert text.count(stated) == 1
    (tmp_path / "tpu-like.yaml").write_text(text.replace(stated, sized))
    words = ["hw", "sweep", str(tmp_path / "tpu-like.yaml"), "--kernel", "gemm_s8s8 M=128 N=128 K=128"]
    words += [
        "--set",
        "memories.sram.bytes=8KiB,32KiB",
        "--objective",
        "time",
        "--objective",
        "energy",
        "--jobs",
        "1",
    ]
    words += [
        "--heuristic",
        "greedy",
        "--csv",
        str(tmp_path / "f.csv"),
        "--front",
        str(tmp_path / "f.svg"),
        "--json",
    ]
    assert main(words) == 0
    said = json.loads(capsys.readouterr().out)
    rows = said["rows"]
    assert [row.get("objective", "time") for row in rows] == ["time", "energy"] * 2
    assert [row["area_mm2"] for row in rows] == [0.08, 0.08, 0.32, 0.32]
    for time, energy in zip(rows[::2], rows[1::2], strict=True):
        assert time["ns"] <= energy["ns"]
        assert energy["energy_pj"] <= time["energy_pj"]
    assert said["front"]
    with (tmp_path / "f.csv").open(newline="") as file:
        table = list(csv.DictReader(file))
    assert [n for n, at in enumerate((0, 2, 1, 3)) if table[at]["front"] == "yes"] == said["front"]
    assert {row["status"] for row in table} == {"HEURISTIC"}


def test_a_model_takes_the_time_of_its_kernels_and_of_its_host(
    edge: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two products with a softmax, which only the host performs: the point as described is the compiled model."""
    onnx = pytest.importorskip("onnx", reason="needs onnx: pip install 'isamap[onnx]'")
    tensor, number = onnx.helper.make_tensor_value_info, onnx.TensorProto.FLOAT
    weights = [
        onnx.numpy_helper.from_array(np.full(shape, 0.5, np.float32), name)
        for name, shape in (("v", (16, 24)), ("w", (24, 8)))
    ]
    nodes = [
        onnx.helper.make_node("MatMul", ["x", "v"], ["a"]),
        onnx.helper.make_node("MatMul", ["a", "w"], ["b"]),
        onnx.helper.make_node("Softmax", ["b"], ["y"]),
    ]
    ends = [tensor("x", number, ["batch", 16])], [tensor("y", number, ["batch", 8])]
    graph = onnx.helper.make_graph(nodes, "mlp", *ends, weights)
    path = str(tmp_path / "mlp.onnx")
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)]), path)
    words = ["hw", "sweep", edge, "--model", f"{path} batch=16", "--heuristic", "greedy", "--jobs", "1"]
    memory = "--set", "memories.spad.bytes=16,256KiB"
    kept = "-o", str(tmp_path / "rows")
    assert main([*words, *memory, *kept, "--json"]) == 0
    small, stated = json.loads(capsys.readouterr().out)["rows"]
    assert (small["ns"], small["refused"]) == (None, "scratchpad-too-small")
    assert (stated["model"], stated["status"]) == ("mlp batch=16", "HEURISTIC")
    assert main([*words[:4], path, *words[5:], *memory]) == 2
    assert f"help: write --model '{path} batch=1'" in capsys.readouterr().err
    how = ModelOptions(edge, host=host_of(None, edge))
    model, _ = read_model(path, how, ["batch=16"], Progress())
    made = compile_program_of(model.whole(), how)
    layers = layers_of(model.trace, made, made.machine)
    assert len({layer.machine for layer in layers}) == 2
    assert stated["ns"] == pytest.approx(sum(layer.predicted_ns for layer in layers))
    assert len((tmp_path / "rows" / "rows.jsonl").read_text().splitlines()) == 4
