"""If, Loop and Scan whose conditions and numbers of iterations are data: calls of programs in the library."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx", reason="models of ONNX need the package onnx: pip install 'isamap[onnx]'")

from onnx_models import Described, evaluated, imported, make, opened

from isamap.cli import main
from isamap.graph.graph import Array
from isamap.graph.importing import Imported
from isamap.onnx import compile_model
from isamap.source import UsageProblem

onnx: Any = import_module("onnx")
RNG = np.random.default_rng(0)
MACHINE = "generic-c"
F32, I64, BOOL = 1, 7, 9
Port = tuple[str, int, list[int | str] | None]


def drawn(*shape: int) -> Array:
    return RNG.standard_normal(shape).astype(np.float32)


def inside(nodes: Described, inputs: list[Port], outputs: list[Port], **constants: Array) -> Any:
    """Return a graph inside of a node."""
    ports = ([onnx.helper.make_tensor_value_info(*port) for port in which] for which in (inputs, outputs))
    made = [onnx.helper.make_node(op, i, o, **a) for op, i, o, a in nodes]
    held = [onnx.numpy_helper.from_array(array, name) for name, array in constants.items()]
    return onnx.helper.make_graph(made, "inside", *ports, held)


def check(model: Any, *calls: Mapping[str, Array], found: Imported | None = None, **more: Any) -> Imported:
    """Compare each call with ONNX's evaluator; nodes with graphs inside are calls of a library."""
    found = found or imported(model)
    library = compile_model(found, more.pop("machine", MACHINE), jobs=1, **more)
    for given in calls:
        for one, other in zip(library(given).values(), evaluated(model, given), strict=True):
            assert (one.dtype, one.shape) == (other.dtype, other.shape)
            np.testing.assert_allclose(one.astype(float), other.astype(float), rtol=1e-4, atol=1e-5)
    assert {t.where for t in found.taken if t.node.op in ("If", "Loop", "Scan")} == {"library"}
    return found


def choice() -> Any:
    """A product or a sum, as the sum of the input says; both read a value of the graph around them."""
    then = inside([("MatMul", ["x", "w"], ["m"], {}), ("Relu", ["m"], ["r"], {})], [], [("r", F32, None)])
    other = inside([("Add", ["x", "z"], ["a"], {}), ("Relu", ["a"], ["s"], {})], [], [("s", F32, None)])
    nodes: Described = [
        ("Mul", ["x", "x"], ["z"], {}),
        ("ReduceSum", ["x"], ["t"], {"keepdims": 0}),
        ("Greater", ["t", "zero"], ["c"], {}),
        ("If", ["c"], ["i"], {"then_branch": then, "else_branch": other}),
        ("Exp", ["i"], ["y"], {}),
    ]
    constants = {"w": drawn(4, 4), "zero": np.asarray(0, np.float32)}
    return make(nodes, {"x": drawn(3, 4)}, ["y", "i"], constants)


EITHER = [{"x": np.full((3, 4), value, np.float32)} for value in (0.5, -0.5)]


def loop(condition: bool = False, rows: bool = False) -> Any:
    """Products of a state with a matrix, as often as `n` says, and until their sum is too large."""
    body: Described = [
        ("MatMul", ["s", "w"], ["m"], {}),
        ("Tanh", ["m"], ["h"], {}),
        ("Cast", ["i"], ["f"], {"to": F32}),
        ("Add", ["h", "f"], ["s2"], {}),
        *(
            [("ReduceSum", ["s2"], ["t"], {"keepdims": 0}), ("Less", ["t", "most"], ["c2"], {})]
            if condition
            else []
        ),
        *([] if condition else [("Identity", ["c"], ["c2"], {})]),
    ]
    results: list[Port] = [("c2", BOOL, []), ("s2", F32, None), *([("h", F32, None)] if rows else [])]
    graph = inside(body, [("i", I64, []), ("c", BOOL, []), ("s", F32, None)], results)
    nodes: Described = [("Loop", ["n", "true", "x"], ["y", *(["rows"] if rows else [])], {"body": graph})]
    constants = {"w": drawn(4, 4), "most": np.asarray(40, np.float32), "true": np.asarray(True)}
    if rows:
        constants["n"] = np.asarray(1003)
    inputs: dict[str, Array] = {"x": drawn(3, 4)} | ({} if rows else {"n": np.asarray(0)})
    return make(nodes, inputs, ["y", *(["rows"] if rows else [])], constants)


COUNTS = [{"x": drawn(3, 4), "n": np.asarray(count)} for count in (-2, 0, 1, 2, 9)]


def test_a_condition_that_is_data_chooses_a_branch() -> None:
    check(choice(), *EITHER)


def test_data_decides_how_often_a_loop_runs() -> None:
    check(loop(), *COUNTS)
    check(loop(condition=True), *COUNTS)


def test_a_loop_of_more_iterations_than_are_written_out_gives_rows() -> None:
    model, x = loop(rows=True), drawn(3, 4)
    library = compile_model(imported(model), MACHINE, jobs=1)
    weights = onnx.numpy_helper.to_array(next(one for one in model.graph.initializer if one.name == "w"))
    state, rows = x, list[Array]()
    for trip in range(1003):
        rows.append(np.tanh(state @ weights))
        state = rows[-1] + np.float32(trip)
    found = library({"x": x})
    np.testing.assert_allclose(found["y"], state, rtol=1e-4)
    np.testing.assert_allclose(found["rows"], np.stack(rows), rtol=1e-4, atol=1e-4)


def test_a_loop_that_is_given_no_number_ends_by_its_condition() -> None:
    body: Described = [("Add", ["s", "one"], ["s2"], {}), ("Less", ["s2", "most"], ["c2"], {})]
    graph = inside(
        body, [("i", I64, []), ("c", BOOL, []), ("s", F32, None)], [("c2", BOOL, []), ("s2", F32, None)]
    )
    nodes: Described = [("Loop", ["", "c0", "x"], ["y"], {"body": graph})]
    inputs = {"x": np.asarray(0, np.float32), "c0": np.asarray(True)}
    model = make(
        nodes, inputs, ["y"], {"one": np.asarray(1, np.float32), "most": np.asarray(5.5, np.float32)}
    )
    check(
        model,
        *({"x": np.asarray(x, np.float32), "c0": np.asarray(c)} for x in (-3, 4.6, 9) for c in (True, False)),
    )


def test_states_change_places_from_one_iteration_to_the_next() -> None:
    body: Described = [
        ("Identity", ["c"], ["c2"], {}),
        ("Add", ["a", "b"], ["d"], {}),
        ("Identity", ["b"], ["e"], {}),
    ]
    states: list[Port] = [("a", F32, None), ("b", F32, None)]
    graph = inside(
        body,
        [("i", I64, []), ("c", BOOL, []), *states],
        [("c2", BOOL, []), ("e", F32, None), ("d", F32, None)],
    )
    nodes: Described = [("Loop", ["n", "true", "x", "x"], ["y", "z"], {"body": graph})]
    model = make(nodes, {"x": drawn(2), "n": np.asarray(0)}, ["y", "z"], {"true": np.asarray(True)})
    check(model, *({"x": drawn(2), "n": np.asarray(n)} for n in (0, 1, 2, 7)))


def test_a_choice_inside_of_a_loop_is_made_in_each_iteration() -> None:
    then = inside([("Mul", ["s", "half"], ["p"], {})], [], [("p", F32, None)])
    other = inside([("Add", ["s", "x"], ["q"], {})], [], [("q", F32, None)])
    body: Described = [
        ("ReduceSum", ["s"], ["t"], {"keepdims": 0}),
        ("Greater", ["t", "most"], ["g"], {}),
        ("If", ["g"], ["s2"], {"then_branch": then, "else_branch": other}),
        ("Identity", ["c"], ["c2"], {}),
    ]
    graph = inside(
        body, [("i", I64, []), ("c", BOOL, []), ("s", F32, None)], [("c2", BOOL, []), ("s2", F32, None)]
    )
    nodes: Described = [("Loop", ["n", "true", "x"], ["y"], {"body": graph})]
    constants = {
        "true": np.asarray(True),
        "half": np.asarray(0.25, np.float32),
        "most": np.asarray(5, np.float32),
    }
    model = make(nodes, {"x": drawn(2), "n": np.asarray(0)}, ["y"], constants)
    check(model, *({"x": np.ones(2, np.float32), "n": np.asarray(n)} for n in (0, 3, 10)))


def test_a_scan_of_many_or_of_open_many_rows_is_a_loop() -> None:
    graph = inside(
        [("Add", ["s", "r"], ["s2"], {}), ("Mul", ["s2", "r"], ["o"], {})],
        [("s", F32, None), ("r", F32, None)],
        [("s2", F32, None), ("o", F32, None)],
    )
    nodes: Described = [("Scan", ["s", "x"], ["y", "z"], {"body": graph, "num_scan_inputs": 1})]
    check(make(nodes, {"s": drawn(3), "x": drawn(1001, 3)}, ["y", "z"]), {"s": drawn(3), "x": drawn(1001, 3)})
    model = opened(make(nodes, {"s": drawn(3), "x": drawn(2, 3)}, ["y", "z"]), x=["length"])
    calls = [{"s": drawn(3), "x": drawn(length, 3)} for length in (1, 2, 5, 9)]
    check(model, *calls, found=imported(model, sizes={"length": (1, 9)}))


def test_a_scan_goes_backwards_along_any_axis() -> None:
    graph = inside(
        [("Add", ["s", "r"], ["s2"], {}), ("Mul", ["s2", "s2"], ["o"], {})],
        [("s", F32, None), ("r", F32, None)],
        [("s2", F32, None), ("o", F32, None)],
    )
    more: dict[str, Any] = {
        "scan_input_axes": [1], "scan_input_directions": [1], "scan_output_axes": [-1],
        "scan_output_directions": [1], "body": graph, "num_scan_inputs": 1,
    }  # fmt: skip
    model = make([("Scan", ["s", "x"], ["y", "z"], more)], {"s": drawn(3), "x": drawn(3, 1100)}, ["y", "z"])
    given = {"s": drawn(3), "x": drawn(3, 1100)}
    found = compile_model(imported(model), MACHINE, jobs=1)(given)
    sums = given["s"][:, None] + np.cumsum(given["x"][:, ::-1], axis=1)[:, ::-1]
    np.testing.assert_allclose(found["y"], sums[:, 0], rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(found["z"], sums**2, rtol=1e-4, atol=1e-3)


def test_sizes_of_a_range_and_threads_reach_the_bodies() -> None:
    model = opened(choice(), x=["batch"])
    calls = [{"x": np.full((batch, 4), value, np.float32)} for batch in (1, 5) for value in (0.5, -0.5)]
    check(model, *calls, found=imported(model, sizes={"batch": (1, 5)}), threads=2)
    check(choice(), *EITHER, devices=2)


def test_weights_of_bodies_are_packed_and_lie_with_those_of_the_library() -> None:
    then, other = (
        inside([("MatMul", ["x", name], ["r"], {})], [], [("r", F32, None)], **{name: drawn(256, 300)})
        for name in ("v", "w")
    )
    nodes: Described = [("If", ["c"], ["y"], {"then_branch": then, "else_branch": other})]
    model = make(nodes, {"x": drawn(5, 256), "c": np.asarray(True)}, ["y"])
    check(model, *({"x": drawn(5, 256), "c": np.asarray(c)} for c in (True, False)))


@pytest.mark.parametrize("more", [(), ("--weights", "file")])
def test_the_commands_take_a_model_with_a_choice(
    more: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    onnx.save(choice(), tmp_path / "choice.onnx")
    path, on = str(tmp_path / "choice.onnx"), ("--hw", MACHINE, "--heuristic", "greedy")
    assert main(["compile", path, *on, "-o", str(tmp_path / "made"), *more]) == 0
    subprocess.run(["make", "-s", "-C", str(tmp_path / "made")], check=True)
    symbols = subprocess.run(
        ["nm", "-u", str(tmp_path / "made" / "libchoice.so")], check=True, capture_output=True, text=True
    )
    assert "choice_" not in symbols.stdout, "all functions of the bodies are in the library"
    capsys.readouterr()
    for seed in ("0", "1", "2", "3"):
        assert main(["verify", path, *on, "--seed", seed, "--json"]) == 0
        found = json.loads(capsys.readouterr().out)
        assert [layer["operators"] for layer in found["layers"]][-2] == ["If"]
        assert all(layer["with_onnx"] for layer in found["layers"])
    assert main(["run", path, *on, "--json"]) == 0
    assert all(layer["predicted_ns"] > 0 for layer in json.loads(capsys.readouterr().out)["layers"])


def sequence(name: str) -> Any:
    return onnx.helper.make_tensor_sequence_value_info(name, F32, None)


def test_a_loop_that_is_written_out_appends_to_a_sequence() -> None:
    body: Described = [
        ("Cast", ["i"], ["f"], {"to": F32}),
        ("Add", ["x", "f"], ["more"], {}),
        ("SequenceInsert", ["s", "more"], ["longer"], {}),
        ("Identity", ["c"], ["c2"], {}),
    ]
    graph = inside(body, [("i", I64, []), ("c", BOOL, [])], [("c2", BOOL, [])])
    graph.input.append(sequence("s"))
    graph.output.append(sequence("longer"))
    nodes: Described = [
        ("SequenceEmpty", [], ["none"], {}),
        ("Loop", ["n", "", "none"], ["all"], {"body": graph}),
        ("ConcatFromSequence", ["all"], ["y"], {"axis": 0}),
    ]
    model = make(nodes, {"x": drawn(2, 3)}, ["y"], {"n": np.asarray(3)})
    x = drawn(2, 3)
    found = compile_model(imported(model), MACHINE, jobs=1)({"x": x})
    np.testing.assert_array_equal(found["y"], np.concatenate([x, x + 1, x + 2]))


def test_a_sequence_that_data_decides_is_refused_with_the_reason() -> None:
    graphs = [inside([("SequenceConstruct", names, ["s"], {})], [], []) for names in (["x"], ["x", "x"])]
    for graph in graphs:
        graph.output.append(sequence("s"))
    nodes: Described = [
        ("If", ["c"], ["s"], {"then_branch": graphs[0], "else_branch": graphs[1]}),
        ("ConcatFromSequence", ["s"], ["y"], {"axis": 0}),
    ]
    with pytest.raises(UsageProblem, match="data decides the elements of the sequence"):
        imported(make(nodes, {"x": drawn(2, 3), "c": np.asarray(True)}, ["y"])).whole()
    nodes = [("SplitToSequence", ["x"], ["s"], {}), ("SequenceAt", ["s", "i"], ["y"], {})]
    beyond = make(nodes, {"x": drawn(2, 3)}, ["y"], {"i": np.asarray(2)})
    with pytest.raises(UsageProblem, match="the position 2 in a sequence of 2"):
        imported(beyond).whole()
    rows = opened(make(nodes, {"x": drawn(2, 3)}, ["y"], {"i": np.asarray(1)}), x=["rows"])
    with pytest.raises(UsageProblem, match="the length of the sequence is open"):
        imported(rows, sizes={"rows": (1, 8)}).whole()


def test_what_data_would_change_in_type_or_without_end_is_refused_with_the_reason() -> None:
    then, other = (
        inside([("Reshape", ["x", "sizes"], ["r"], {})], [], [("r", F32, None)], sizes=np.asarray(sizes))
        for sizes in ([2, 2], [4])
    )
    nodes: Described = [("If", ["c"], ["y"], {"then_branch": then, "else_branch": other})]
    model = make(nodes, {"x": drawn(4), "c": np.asarray(True)}, ["y"])
    with pytest.raises(UsageProblem, match=r"data decides whether its result `r` is f32\[2, 2\] or f32\[4\]"):
        imported(model).whole()
    growing: Described = [("Identity", ["c"], ["c2"], {}), ("Concat", ["s", "s"], ["s2"], {"axis": 0})]
    graph = inside(
        growing, [("i", I64, []), ("c", BOOL, []), ("s", F32, None)], [("c2", BOOL, []), ("s2", F32, None)]
    )
    nodes = [("Loop", ["n", "", "x"], ["y"], {"body": graph})]
    model = make(nodes, {"x": drawn(2), "n": np.asarray(0)}, ["y"])
    with pytest.raises(UsageProblem, match=r"its input `n` decides sizes"):
        imported(model).whole()


def test_a_graph_file_refuses_a_choice(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    onnx.save(choice(), tmp_path / "choice.onnx")
    assert main(["import", str(tmp_path / "choice.onnx"), "-o", str(tmp_path / "made")]) == 2
    assert "calls graphs inside as data decides" in capsys.readouterr().err
