"""Results whose sizes data decides: a call has room for the most, and says how much of it is there."""

from __future__ import annotations

import ctypes
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
ZERO = np.asarray(0, np.float32)


def drawn(*shape: int) -> Array:
    return RNG.standard_normal(shape).astype(np.float32)


def sparse(*shape: int) -> Array:
    """Return an array in which about half of all elements are 0, of either sign."""
    return drawn(*shape) * RNG.integers(0, 2, shape).astype(np.float32)


def check(model: Any, *calls: Mapping[str, Array], found: Imported | None = None, **more: Any) -> None:
    library = compile_model(found or imported(model), MACHINE, jobs=1, **more)
    for given in calls:
        for one, other in zip(library(given).values(), evaluated(model, given), strict=True):
            assert (one.dtype, one.shape) == (other.dtype, other.shape)
            np.testing.assert_allclose(one.astype(float), other.astype(float), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "int64", "bool", "float16", "uint16"])
def test_the_places_of_elements_that_are_not_zero(dtype: str) -> None:
    model = make([("NonZero", ["x"], ["y"], {})], {"x": np.zeros((3, 5), dtype)}, ["y"])
    arrays = (np.eye(3, 5), np.zeros((3, 5)), np.ones((3, 5)), -np.zeros((3, 5)), 3 * sparse(3, 5))
    check(model, *({"x": array.astype(dtype)} for array in arrays))


ROWS: Described = [
    ("Greater", ["k", "zero"], ["c"], {}),
    ("Compress", ["x", "c"], ["r"], {"axis": 0}),
    ("MatMul", ["r", "w"], ["h"], {}),
    ("Relu", ["h"], ["y"], {}),
    ("Concat", ["h", "v"], ["j"], {"axis": 0}),
    ("Shape", ["y"], ["n"], {}),
]


def rows() -> Any:
    constants = {"w": drawn(4, 6), "v": drawn(2, 6), "zero": ZERO}
    return make(ROWS, {"x": drawn(5, 4), "k": drawn(5)}, ["y", "j", "n"], constants)


CHOSEN = [{"x": drawn(5, 4), "k": np.asarray(k, np.float32)} for k in ([1, -1, 2, 0, 3], [1] * 5, [-1] * 5)]


def test_rows_that_data_chooses_go_through_kernels_and_moves() -> None:
    check(rows(), *CHOSEN)
    check(rows(), *CHOSEN, threads=2)


def test_a_size_of_the_caller_and_one_of_data_go_together() -> None:
    model = opened(rows(), x=["batch"], k=["batch"])
    calls = [{"x": drawn(n, 4), "k": drawn(n)} for n in (1, 2, 7)]
    check(model, *calls, found=imported(model, sizes={"batch": (1, 7)}))


def test_data_decides_two_sizes_in_turn() -> None:
    nodes: Described = [
        ("Greater", ["k", "zero"], ["c"], {}),
        ("Compress", ["x", "c"], ["r"], {"axis": 0}),
        ("NonZero", ["r"], ["p"], {}),
        ("Transpose", ["p"], ["t"], {}),
        ("GatherND", ["r", "t"], ["v"], {}),
        ("Exp", ["v"], ["y"], {}),
    ]
    model = make(nodes, {"x": drawn(5, 4), "k": drawn(5)}, ["y", "t"], {"zero": ZERO})
    check(
        model,
        *({"x": sparse(5, 4), "k": drawn(5)} for _ in range(3)),
        {"x": drawn(5, 4), "k": -np.ones(5, np.float32)},
    )


@pytest.mark.parametrize("more", [{}, {"axis": 0}, {"axis": -1}])
@pytest.mark.parametrize("dtype", ["float32", "int64", "uint8", "float16"])
def test_unique_elements_and_slices(more: dict[str, int], dtype: str) -> None:
    nodes: Described = [("Unique", ["x"], ["y", "first", "inverse", "often"], more)]
    model = make(nodes, {"x": np.zeros((4, 3), dtype)}, ["y", "first", "inverse", "often"])
    tables = [RNG.integers(0, most, (4, 3)).astype(dtype) for most in (1, 2, 3, 100)]
    check(model, *({"x": table} for table in (*tables, np.repeat(tables[1][:2], 2, axis=0))))


@pytest.mark.parametrize("axis", [None, 0, 1])
def test_unique_elements_in_the_order_in_which_they_come(axis: int | None) -> None:
    more = {"sorted": 0} if axis is None else {"sorted": 0, "axis": axis}
    results = ["y", "first", "inverse", "often"]
    model = make([("Unique", ["x"], results, more)], {"x": drawn(4, 5)}, results)
    library = compile_model(imported(model), MACHINE, jobs=1)
    for most in (1, 2, 9):
        x = RNG.integers(0, most, (4, 5)).astype(np.float32)
        y, first, inverse, often = library({"x": x}).values()
        _, places, counts = np.unique(x, axis=axis, return_index=True, return_counts=True)
        np.testing.assert_array_equal(first, np.sort(places))
        np.testing.assert_array_equal(often, counts[np.argsort(places)])
        source = x.reshape(-1) if axis is None else x
        np.testing.assert_array_equal(y, np.take(source, first, axis or 0))
        np.testing.assert_array_equal(np.take(y, inverse, axis or 0), source)


def test_numbers_that_are_none_are_one_and_come_last() -> None:
    model = make([("Unique", ["x"], ["y"], {})], {"x": drawn(6)}, ["y"])
    given = np.asarray([np.nan, 2, np.nan, -np.inf, 2, 1], np.float32)
    found = compile_model(imported(model), MACHINE, jobs=1)({"x": given})
    np.testing.assert_array_equal(found["y"], [-np.inf, 1, 2, np.nan])


def test_boxes_that_overlap_with_better_ones_are_left_out() -> None:
    nodes: Described = [("NonMaxSuppression", ["boxes", "scores", "most", "overlap", "least"], ["y"], {})]
    corners = np.sort(RNG.random((2, 9, 2, 2)), axis=2).reshape(2, 9, 4).astype(np.float32)
    read, most = {"boxes": corners, "scores": RNG.random((2, 3, 9)).astype(np.float32)}, np.asarray([4])
    for overlap, least in ((0.5, 0.3), (0.1, 0.0), (1.0, 0.9), (0.5, 2.0)):
        limits = {"overlap": np.asarray([overlap], np.float32), "least": np.asarray([least], np.float32)}
        check(make(nodes, read, ["y"], {**limits, "most": most}), read)
        given = {**read, "most": most}
        check(make(nodes, given, ["y"], limits), given, {**read, "most": np.asarray([1])})


def test_branches_of_different_sizes_and_loops_that_data_ends_give_as_many_rows_as_there_are() -> None:
    port, graph = onnx.helper.make_tensor_value_info, onnx.helper.make_graph
    node = onnx.helper.make_node
    then = graph(
        [node("NonZero", ["x"], ["p"]), node("Cast", ["p"], ["r"], to=1)], "then", [], [port("r", 1, None)]
    )
    other = graph([node("Concat", ["x", "x"], ["s"], axis=1)], "else", [], [port("s", 1, None)])
    nodes: Described = [
        ("If", ["c"], ["i"], {"then_branch": then, "else_branch": other}),
        ("Neg", ["i"], ["y"], {}),
    ]
    model = make(nodes, {"x": drawn(2, 3), "c": np.asarray(True)}, ["y"])
    check(
        model,
        *(
            {"x": x, "c": np.asarray(c)}
            for x in (sparse(2, 3), np.zeros((2, 3), np.float32))
            for c in (True, False)
        ),
    )
    body = graph(
        [
            node("Mul", ["s", "half"], ["s2"]),
            node("Greater", ["s2", "one"], ["c2"]),
            node("Neg", ["s2"], ["r"]),
        ],
        "body",
        [port("i", 7, []), port("c", 9, []), port("s", 1, None)],
        [port("c2", 9, []), port("s2", 1, None), port("r", 1, None)],
    )
    nodes = [("Loop", ["n", "true", "x"], ["y", "rows"], {"body": body})]
    half, one = np.asarray(0.5, np.float32), np.asarray(1, np.float32)
    constants = {"n": np.asarray(9), "true": np.asarray(True), "half": half, "one": one}
    library = compile_model(imported(make(nodes, {"x": ZERO}, ["y", "rows"], constants)), MACHINE, jobs=1)
    for start, count in ((1, 1), (16, 4), (17, 5), (1e9, 9)):
        found = library({"x": np.asarray(start, np.float32)})
        np.testing.assert_allclose(found["rows"], [-start / 2 ** (n + 1) for n in range(count)], rtol=1e-5)
        np.testing.assert_allclose(found["y"], start / 2**count, rtol=1e-5)


def test_a_result_that_needs_a_row_says_so_where_data_leaves_none() -> None:
    nodes: Described = [*ROWS[:2], ("ReduceMax", ["r"], ["y"], {"keepdims": 0})]
    model = make(nodes, {"x": drawn(5, 4), "k": drawn(5)}, ["y"], {"zero": ZERO})
    check(model, *CHOSEN[:2])
    with pytest.raises(UsageProblem, match="a result needs at least one row, and data leaves none"):
        compile_model(imported(model), MACHINE, jobs=1)(CHOSEN[2])


def test_code_that_the_size_would_change_is_refused_with_the_way_out() -> None:
    nodes: Described = [*ROWS[:2], ("Reshape", ["r", "sizes"], ["y"], {})]
    model = make(nodes, {"x": drawn(5, 4), "k": drawn(5)}, ["y"], {"zero": ZERO, "sizes": np.asarray([8, 2])})
    with pytest.raises(UsageProblem) as caught:
        imported(model).whole()
    assert "count0" in str(caught.value)


def test_what_takes_known_sizes_alone_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    onnx.save(rows(), tmp_path / "rows.onnx")
    path, said = str(tmp_path / "rows.onnx"), "data decides a size of this model, 5 at most"
    assert main(["import", path, "-o", str(tmp_path / "graph")]) == 2
    assert said in capsys.readouterr().err
    for more in (("--devices", "2"), ("--fusion", "cpsat")):
        assert main(["compile", path, "--hw", MACHINE, *more, "-o", str(tmp_path / "made")]) == 2
        assert said in capsys.readouterr().err


def test_the_commands_and_the_library_in_c_say_the_size(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    onnx.save(rows(), tmp_path / "rows.onnx")
    path, on = str(tmp_path / "rows.onnx"), ("--hw", MACHINE, "--heuristic", "greedy")
    assert main(["compile", path, *on, "-o", str(tmp_path / "made")]) == 0
    assert "data decides `count0`: a call returns it, 5 at most" in capsys.readouterr().out
    subprocess.run(["make", "-s", "-C", str(tmp_path / "made")], check=True)
    library = ctypes.CDLL(str(tmp_path / "made" / "librows.so"))
    library.rows_workspace_bytes.restype = ctypes.c_size_t
    given, count = CHOSEN[0], ctypes.c_int64(-1)
    y, j, n = np.zeros((5, 6), np.float32), np.zeros((7, 6), np.float32), np.zeros(2, np.int64)
    inputs = (ctypes.c_void_p * 2)(given["x"].ctypes.data, given["k"].ctypes.data)
    outputs = (ctypes.c_void_p * 4)(ctypes.addressof(count), y.ctypes.data, j.ctypes.data, n.ctypes.data)
    space = ctypes.create_string_buffer(library.rows_workspace_bytes())
    assert library.rows_run(inputs, outputs, space) == 0
    assert (count.value, n.tolist()) == (3, [3, 6])
    np.testing.assert_allclose(y[:3], evaluated(rows_of(path), given)[0], rtol=1e-4)
    for seed in ("0", "1", "2"):
        assert main(["verify", path, *on, "--seed", seed, "--json"]) == 0
        found = json.loads(capsys.readouterr().out)
        assert found["with_onnx"] >= 3
    assert main(["run", path, *on]) == 0


def rows_of(path: str) -> Any:
    return onnx.load(path)
