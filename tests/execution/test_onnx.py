"""Models of ONNX compiled whole: what they compute is what ONNX's own evaluator does, or they are refused."""

from __future__ import annotations

import ctypes
import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx", reason="models of ONNX need the package onnx: pip install 'isamap[onnx]'")

from onnx_models import Described, evaluated, imported, make

from isamap.cli import main
from isamap.graph.graph import Array
from isamap.ir import DTYPES
from isamap.onnx import compile_model
from isamap.source import UsageProblem

RNG = np.random.default_rng(0)
MACHINE = "generic-c"  # on which a kernel is compiled in half a second


def drawn(*shape: int) -> Array:
    return RNG.standard_normal(shape).astype(np.float32)


def compare(model: Any, inputs: dict[str, Array]) -> None:
    compiled = compile_model(imported(model), MACHINE, jobs=1)
    for found, expected in zip(compiled(inputs).values(), evaluated(model, inputs), strict=True):
        assert found.dtype == expected.dtype
        np.testing.assert_allclose(found.astype(float), expected.astype(float), rtol=1e-4, atol=1e-5)


MODELS: dict[str, tuple[Any, dict[str, Array], list[str], dict[str, Array]]] = {
    "reshaped results of a product": (
        [
            ("MatMul", ["x", "w"], ["m"], {}),
            ("Shape", ["x"], ["s"], {"end": 1}),
            ("Concat", ["s", "rest"], ["shape"], {"axis": 0}),
            ("Reshape", ["m", "shape"], ["y"], {}),
        ],
        {"x": drawn(3, 4)},
        ["y"],
        {"w": drawn(4, 6), "rest": np.asarray([2, 3])},
    ),
    "a strided convolution in groups, of SAME sizes, then a pool of ceiled ones": (
        [
            ("Conv", ["x", "w", "b"], ["c"], {"group": 2, "strides": [2, 1], "auto_pad": "SAME_LOWER"}),
            ("AveragePool", ["c"], ["y"], {"kernel_shape": [2, 3], "strides": [2, 2], "ceil_mode": 1}),
        ],
        {"x": drawn(1, 4, 5, 6)},
        ["y"],
        {"w": drawn(6, 2, 3, 2), "b": drawn(6)},
    ),
    "channels last: joined, pooled, added to what lies otherwise, and reshaped": (
        [
            ("Conv", ["x", "w"], ["c"], {"pads": [1, 1, 1, 1]}),
            ("Conv", ["c", "d"], ["e"], {"group": 8, "pads": [0, 1, 2, 1], "strides": [1, 2]}),
            ("MaxPool", ["e"], ["p"], {"kernel_shape": [2, 2], "pads": [1, 0, 0, 0]}),
            ("Mul", ["p", "s"], ["m"], {}),
            ("Concat", ["p", "m", "z"], ["j"], {"axis": 1}),
            ("Add", ["o", "j"], ["a"], {}),
            ("Conv", ["a", "g"], ["h"], {"group": 3, "dilations": [2, 1]}),
            ("Reshape", ["h", "sizes"], ["r"], {}),
            ("Sub", ["r", "q"], ["y"], {}),
            ("GlobalAveragePool", ["h"], ["mean"], {}),
        ],
        {"x": drawn(2, 3, 6, 7), "z": drawn(2, 8, 6, 3), "o": drawn(2, 24, 6, 3)},
        ["y", "mean", "e"],
        {
            "w": drawn(8, 3, 3, 3),
            "d": drawn(8, 1, 3, 3),
            "s": drawn(8, 1, 1),
            "g": drawn(24, 8, 2, 2),
            "sizes": np.asarray([2, 3, -1]),
            "q": drawn(3, 1),
        },
    ),
    "borders of other sizes on each side, of an image that an operation writes": (
        [
            ("Conv", ["x", "w"], ["c"], {}),
            ("Tanh", ["c"], ["t"], {}),
            ("Conv", ["t", "d"], ["e"], {"group": 9, "pads": [2, 0, 1, 3], "strides": [2, 3]}),
            ("Relu", ["e"], ["r"], {}),
            ("Conv", ["r", "k"], ["y"], {"auto_pad": "SAME_UPPER", "dilations": [2, 1]}),
        ],
        {"x": drawn(2, 3, 5, 6)},
        ["y"],
        {"w": drawn(9, 3, 1, 1), "d": drawn(9, 1, 3, 2), "k": drawn(9, 9, 2, 2)},
    ),
    "channels last of one dimension, by filters that are computed, then of three": (
        [
            ("Mul", ["w", "w"], ["v"], {}),
            ("Conv", ["x", "v", "b"], ["c"], {"pads": [1, 1]}),
            ("Transpose", ["c"], ["t"], {"perm": [0, 2, 1]}),
            ("Unsqueeze", ["c", "axes"], ["u"], {}),
            ("Conv", ["u", "k"], ["y"], {}),
        ],
        {"x": drawn(1, 4, 9), "w": drawn(9, 4, 3)},
        ["t", "y"],
        {"b": drawn(9), "axes": np.asarray([2, 4]), "k": drawn(8, 9, 1, 2, 1)},
    ),
    "an input, a constant and one value twice as results": (
        [
            ("Identity", ["x"], ["a"], {}),
            ("Relu", ["x"], ["r"], {}),
            ("Identity", ["r"], ["b"], {}),
            ("Identity", ["k"], ["c"], {}),
        ],
        {"x": drawn(2, 3)},
        ["a", "r", "b", "c"],
        {"k": drawn(4)},
    ),
    "names that are no identifiers, and one of C": (
        [("Add", ["a/b:0", "int"], ["%y"], {})],
        {"a/b:0": drawn(3), "int": drawn(3)},
        ["%y"],
        {},
    ),
    "a branch that is known, and rows by index": (
        [("Gather", ["x", "rows"], ["g"], {"axis": 1}), ("Softmax", ["g"], ["y"], {"axis": 1})],
        {"x": drawn(2, 5, 3), "rows": np.asarray([[0, -1], [4, 2]])},
        ["y"],
        {},
    ),
    "powers of whole numbers, which wrap around": (
        [("Pow", ["x", "y"], ["z"], {})],
        {
            "x": np.asarray([-3, 1, 2, 0, 2, 3], np.int64),
            "y": np.asarray([3, 5, 62, 0, 70, 30], np.int64),
        },
        ["z"],
        {},
    ),
    "sums of bytes behind zero points, and back": (
        [
            ("QLinearMatMul", ["a", "s", "za", "b", "s", "zb", "s", "za"], ["q"], {}),
            ("DequantizeLinear", ["q", "s", "za"], ["y"], {}),
        ],
        {"a": RNG.integers(0, 255, (3, 8), np.uint8)},
        ["y"],
        {
            "b": RNG.integers(-128, 127, (8, 4), np.int8),
            "s": np.asarray(0.02, np.float32),
            "za": np.asarray(120, np.uint8),
            "zb": np.asarray(3, np.int8),
        },
    ),
    "a zero point that sums of known weights take out": (
        [
            ("MatMulInteger", ["a", "b", "za", "zb"], ["y"], {}),
            ("MatMulInteger", ["a", "b", "za"], ["z"], {}),
        ],
        {"a": RNG.integers(0, 255, (3, 8), np.uint8), "za": np.asarray(120, np.uint8)},
        ["y", "z"],
        {"b": RNG.integers(-128, 127, (8, 4), np.int8), "zb": np.zeros(4, np.int8)},
    ),
    "a zero point of each row": (
        [("MatMulInteger", ["a", "b", "za"], ["y"], {})],
        {"a": RNG.integers(0, 255, (3, 8), np.uint8)},
        ["y"],
        {"b": RNG.integers(-128, 127, (8, 4), np.int8), "za": np.asarray([[0], [7], [255]], np.uint8)},
    ),
}


@pytest.mark.parametrize("name", MODELS)
def test_a_model_computes_what_the_evaluator_does(name: str) -> None:
    nodes, inputs, outputs, constants = MODELS[name]
    compare(make(nodes, inputs, outputs, constants), inputs)


def test_a_recurrent_layer_masks_what_is_behind_the_end_of_a_sequence() -> None:
    x, w, r = drawn(4, 2, 3), drawn(2, 8, 3), drawn(2, 8, 2)
    nodes = [
        (
            "LSTM",
            ["x", "w", "r", "", "lengths"],
            ["y", "h", "c"],
            {"hidden_size": 2, "direction": "bidirectional"},
        )
    ]
    inputs = {"x": x, "lengths": np.asarray([4, 2], np.int32)}
    compiled = compile_model(
        imported(make(nodes, inputs, ["y", "h", "c"], {"w": w, "r": r})), MACHINE, jobs=1
    )
    whole = compiled(inputs)
    assert not whole["y"][2:, :, 1].any()
    short = {"x": np.ascontiguousarray(x[:2]), "lengths": np.asarray([2, 2], np.int32)}
    other = compile_model(imported(make(nodes, short, ["y", "h", "c"], {"w": w, "r": r})), MACHINE, jobs=1)(
        short
    )
    np.testing.assert_allclose(whole["h"][:, 1], other["h"][:, 1], rtol=1e-5)
    np.testing.assert_allclose(whole["y"][:2, :, 1], other["y"][:, :, 1], rtol=1e-5)


@pytest.mark.parametrize("reset", [0, 1])
@pytest.mark.parametrize(("kind", "gates"), [("RNN", 1), ("GRU", 3), ("LSTM", 4)])
def test_a_recurrent_layer_in_bf16_adds_in_f32(kind: str, gates: int, reset: int) -> None:
    numbers = DTYPES["bf16"].numpy()
    small = np.full((1, gates * 2, 600), 1 / 512)  # a sum in bf16 would end at 0.5 of 1.17
    constants = {"w": small.astype(np.float32), "r": drawn(1, gates * 2, 2), "b": drawn(1, gates * 4)}
    inputs = {"x": np.ones((5, 3, 600), np.float32)}
    given = {"x": inputs["x"].astype(numbers)}
    narrow = {name: array.astype(numbers) for name, array in constants.items()}
    wide = {name: array.astype(np.float32) for name, array in narrow.items()}
    more = {"linear_before_reset": reset} if kind == "GRU" else {}
    nodes: Described = [(kind, ["x", "w", "r", "b"], ["y", "h"], {"hidden_size": 2, **more})]
    for opset in (17, 22):  # exporters write bf16 in versions that do not list it
        model = make(nodes, given, ["y", "h"], narrow, opset)
        found = compile_model(imported(model), MACHINE, jobs=1)(given)
        assert {array.dtype for array in found.values()} == {np.dtype(numbers)}
        expected = evaluated(make(nodes, inputs, ["y", "h"], wide, opset), inputs)
        for one, other in zip(found.values(), expected, strict=True):
            np.testing.assert_allclose(one.astype(float), other.astype(float), atol=0.02)


def test_wrong_inputs_are_refused() -> None:
    x = drawn(2, 3)
    compiled = compile_model(imported(make([("Relu", ["x"], ["y"], {})], {"x": x}, ["y"])), MACHINE)
    for given, said in (
        ({}, "the input `x` is missing"),
        ({"x": x, "z": x}, "there is no input `z`"),
        ({"x": x.T}, r"`x` is an array f32\[2, 3\], and float32\[3, 2\] is given"),
        ({"x": x.astype(np.float64)}, "float64"),
    ):
        with pytest.raises(UsageProblem, match=said):
            compiled(given)


def test_an_index_outside_is_refused_and_nothing_is_read() -> None:
    inputs = {"x": drawn(3, 2), "i": np.asarray([0, 3])}
    compiled = compile_model(imported(make([("Gather", ["x", "i"], ["y"], {})], inputs, ["y"])), MACHINE)
    with pytest.raises(UsageProblem, match="returned 100"):
        compiled(inputs)


def test_a_graph_file_compiles_to_the_same_library(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    nodes, inputs, outputs, constants = MODELS["reshaped results of a product"]
    (tmp_path / "made.onnx").write_bytes(make(nodes, inputs, outputs, constants).SerializeToString())
    monkeypatch.chdir(tmp_path)
    assert main(["import", "made.onnx", "-o", "graph"]) == 0
    for source, folder in (("made.onnx", "one"), ("graph/graph.json", "other")):
        assert main(["compile", source, "--hw", MACHINE, "--heuristic", "greedy", "-o", folder]) == 0
    capsys.readouterr()
    names = {path.name for path in (tmp_path / "one").iterdir()}
    assert {"made.c", "made.h", "Makefile", "manifest.json"} <= names
    for name in names:
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "other" / name).read_bytes()


def test_what_is_refused_is_named_with_the_reason(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    inputs = {"x": drawn(2, 3), "shape": np.asarray([3, 2])}
    nodes: Described = [("Reshape", ["x", "shape"], ["r"], {}), ("Bernoulli", ["r"], ["y"], {})]
    path = tmp_path / "made.onnx"
    path.write_bytes(make(nodes, inputs, ["y"]).SerializeToString())
    assert main(["import", str(path), "--json", "-o", str(tmp_path / "out")]) == 2
    said = json.loads(capsys.readouterr().out)
    assert [(one["operator"], one["taken"]) for one in said["coverage"]] == [
        ("Reshape", "refused"),
        ("Bernoulli", "refused"),
    ]
    assert said["diagnostics"][0]["code"] == "onnx-node"
    assert said["diagnostics"][0]["help"] == "give it a value for all calls: --constant shape=…"
    assert (
        main(["import", str(path), "--constant", "shape=[3,2]", "--json", "-o", str(tmp_path / "out")]) == 2
    )
    said = json.loads(capsys.readouterr().out)
    assert [one["taken"] for one in said["coverage"]] == ["view", "refused"]
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("place", ["embedded", "file"])
def test_large_weights_are_in_the_library_or_given_to_each_call(
    place: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if shutil.which("gcc") is None or shutil.which("make") is None:
        pytest.skip("there is no gcc, or no make")
    x, w = drawn(1, 280), drawn(280, 280)
    path, folder = tmp_path / "made.onnx", tmp_path / "out"
    path.write_bytes(make([("MatMul", ["x", "w"], ["y"], {})], {"x": x}, ["y"], {"w": w}).SerializeToString())
    words = ["--hw", MACHINE, "--heuristic", "greedy", "--weights", place, "-o", str(folder)]
    assert main(["compile", str(path), *words]) == 0
    capsys.readouterr()
    subprocess.run(["make", "-C", str(folder)], check=True, capture_output=True, timeout=120)
    library = ctypes.CDLL(str(folder / "libmade.so"))
    weights, y = np.fromfile(folder / "made.weights", np.float32), np.empty((1, 280), np.float32)
    given = [weights.ctypes.data, x.ctypes.data] if place == "file" else [x.ctypes.data]
    room = ctypes.create_string_buffer(int(library.made_workspace_bytes()))
    outputs = (ctypes.c_void_p * 1)(y.ctypes.data)
    assert library.made_run((ctypes.c_void_p * len(given))(*given), outputs, room) == 0
    np.testing.assert_allclose(y, x @ w, rtol=1e-4, atol=1e-4)


def test_threads_share_kernels_through_a_pool_that_a_caller_lends(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    x, w = drawn(256, 256), drawn(256, 256)
    made = make([("MatMul", ["pool", "w"], ["y"], {})], {"pool": x}, ["y"], {"w": w})
    shared = compile_model(imported(made), MACHINE, jobs=1, threads=2)
    np.testing.assert_array_equal(
        shared({"pool": x})["y"], compile_model(imported(made), MACHINE)({"pool": x})["y"]
    )
    path, folder = tmp_path / "made.onnx", tmp_path / "out"
    path.write_bytes(made.SerializeToString())
    words = ["--hw", MACHINE, "--heuristic", "greedy", "--threads", "2", "-o", str(folder)]
    assert main(["compile", str(path), *words]) == 0
    capsys.readouterr()
    header = (folder / "made.h").read_text()
    assert "  isamap_pool *pool; /* the threads that share the work; NULL: the caller's alone */" in header
    assert "pool_; /* pool: f32[256, 256] */" in header
    if shutil.which("gcc") is None or shutil.which("make") is None:
        pytest.skip("there is no gcc, or no make")
    subprocess.run(["make", "-C", str(folder)], check=True, capture_output=True, timeout=120)
    library = ctypes.CDLL(str(folder / "libmade.so"))
    library.isamap_pool_create.restype = ctypes.c_void_p
    pool = ctypes.c_void_p(library.isamap_pool_create(2))
    y, room = (
        np.empty((256, 256), np.float32),
        ctypes.create_string_buffer(int(library.made_workspace_bytes())),
    )
    for lent in (pool, None):
        inputs = (ctypes.c_void_p * 2)(lent, x.ctypes.data)
        assert library.made_run(inputs, (ctypes.c_void_p * 1)(y.ctypes.data), room) == 0
        np.testing.assert_allclose(y, x @ w, rtol=1e-4, atol=1e-4)
    library.isamap_pool_destroy(pool)
