"""Readers of graph files, arrays and rows: names, links, sizes and numbers of strangers."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from isamap.bench.kept_rows import ROWS_FILE, open_rows
from isamap.bench.simulated_suite import SimulatedRow
from isamap.graph.graph_file import constants_of, read_folder
from isamap.graph.types import in_type
from isamap.libraries.description import read_library
from isamap.machine import load_machine
from isamap.source import SpecProblem, UsageProblem
from isamap.source.cache import Cache, list_damaged

GRAPH_KEYS = ("isamap", "inputs", "weights", "kernels", "steps")
ROW_KEYS = ("case", "sizes", "simulated_ns", "busy_ns", "label")


def graph(folder: Path, **change: Any) -> Path:
    """Return a graph file of one kernel that reads a constant, with the files that it names."""
    tensor = {"type": "f32", "shape": [4]}
    step = {
        "kernel": "own",
        "reads": {"a": {"tensor": "c", **tensor}},
        "writes": {"y": {"tensor": "t", **tensor}},
    }
    whole = {
        "isamap": "model/1",
        "name": "m",
        "inputs": [],
        "outputs": [{"name": "y", "tensor": "t", **tensor}],
        "weights": "m.weights",
        "constants": [{"tensor": "c", "offset": 0, "bytes": 16}],
        "kernels": {"own": "own.ir"},
        "steps": [step],
    }
    (folder / "m.weights").write_bytes(bytes(64))
    (folder / "own.ir").write_text(
        "kernel own() { in a: f32[4]; out y: f32[4]; for m in 4 { y[m] = a[m]; } }"
    )
    (folder / "graph.json").write_text(json.dumps(whole | change))
    return folder / "graph.json"


def said_of(path: Path) -> str:
    with pytest.raises(UsageProblem) as found:
        read_folder(path)
    (one,) = found.value.diagnostics
    assert one.code == "graph-damaged"
    return one.message


def test_a_graph_file_is_read(tmp_path: Path) -> None:
    assert list(read_folder(graph(tmp_path)).kernels) == ["own"]


@pytest.mark.parametrize(
    "name", ["x.c\n$(shell id)", "../x", "a b", "", "x\0", "é", "1x", 'x"', "-x", "$(id)", "x" * 300, "a/b"]
)
def test_a_name_that_reaches_c_is_an_identifier(name: str, tmp_path: Path) -> None:
    assert "is none in C" in said_of(graph(tmp_path, name=name))
    assert "is none in C" in said_of(graph(tmp_path, kernels={name: "own.ir"}))
    assert "is none in C" in said_of(graph(tmp_path, steps=[{"kernel": name, "reads": {}, "writes": {}}]))


def test_a_kernel_is_called_as_its_text_says(tmp_path: Path) -> None:
    assert "is called `own`" in said_of(graph(tmp_path, kernels={"other": "own.ir"}))
    assert "small and capital letters" in said_of(_two(tmp_path))


def _two(folder: Path) -> Path:
    path = graph(folder, kernels={"own": "own.ir", "OWN": "big.ir"})
    (folder / "big.ir").write_text((folder / "own.ir").read_text().replace("own", "OWN"))
    return path


@pytest.mark.parametrize("place", ["weights", "kernels"])
@pytest.mark.parametrize("kind", ["link", "hard", "pipe", "zeros", "folder", "up", "whole", "none"])
def test_a_file_that_a_graph_file_names_lies_beside_it(place: str, kind: str, tmp_path: Path) -> None:
    folder, secret = tmp_path / "folder", tmp_path / "secret"
    folder.mkdir()
    secret.write_bytes(bytes(64))
    (folder / "link").symlink_to(secret)
    (folder / "hard").hardlink_to(secret)
    (folder / "zeros").symlink_to("/dev/zero")
    (folder / "folder").mkdir()
    os.mkfifo(folder / "pipe")
    name = {"up": "../secret", "whole": str(secret)}.get(kind, kind)
    path = graph(folder, **{place: name if place == "weights" else {"own": name}})
    assert "cannot be read" in said_of(path)


def test_weights_take_memory_where_the_graph_says_so(tmp_path: Path) -> None:
    path = graph(tmp_path)
    with (tmp_path / "m.weights").open("r+b") as file:
        file.truncate(1 << 34)
    assert read_folder(path).constants["c"].nbytes == 16


@pytest.mark.parametrize(
    "change",
    [
        {"constants": [{"tensor": "c", "offset": 10**400, "bytes": 16}]},
        {"constants": [{"tensor": "c", "offset": 0, "bytes": -1}]},
        {"constants": [{"tensor": "c", "offset": 0, "bytes": True}]},
        {"constants": [{"tensor": "c", "offset": 0, "bytes": 16.0}]},
        {"constants": [{"tensor": "c", "offset": 0, "bytes": 16}] * 2},
        {"constants": [{"tensor": f"c{n}", "offset": 0, "bytes": 64} for n in range(2)]},
        {"outputs": [{"name": "y", "tensor": "c", "type": "f32", "shape": [4]}]},
        {"outputs": [{"name": "y", "tensor": "t", "type": "f32", "shape": [1] * 65 + [4]}]},
        {"outputs": [{"name": "y", "tensor": "t", "type": "f32", "shape": [1 << 33, 4]}]},
        {"outputs": [{"name": "y", "tensor": "t", "type": ["f32"], "shape": [4]}]},
        {"outputs": [{"name": "y", "tensor": "t", "type": "f32", "shape": [4]}] * 2},
        {"inputs": [{"name": "x", "tensor": "c", "type": "f32", "shape": [4]}]},
        {"steps": [{"move": "join", "reads": [], "writes": [], "numbers": [1 << 62] * 9}]},
        {"steps": [{"move": "gather_nd", "reads": [], "writes": [], "numbers": [1, 1, 1, 1] + [9] * 9999}]},
        *({key: value} for key in GRAPH_KEYS for value in (None, 3, [3], "x")),
    ],
    ids=str,
)  # fmt: skip
def test_a_graph_file_of_other_values_is_refused(change: dict[str, Any], tmp_path: Path) -> None:
    said_of(graph(tmp_path, **change))


@pytest.mark.parametrize(
    "text", ["[" * 100_000, "", "1e999", '{"isamap": NaN}', '{"name": 1, "name": 2}', "[]"]
)
def test_a_graph_file_that_is_no_json_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "graph.json").write_text(text)
    said_of(tmp_path / "graph.json")


# --- arrays and numbers -----------------------------------------------------------------------------------


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", ["<f4", ">f4", "<i8", "?", "<f2"])
def test_an_array_of_numbers_is_read(dtype: str, order: Any, tmp_path: Path) -> None:
    expected = np.asarray(np.arange(6).reshape(2, 3) % 2, dtype, order=order)
    np.save(tmp_path / "a.npy", expected)
    found = constants_of({"w": str(tmp_path / "a.npy")})["w"]
    assert found.dtype.isnative
    np.testing.assert_array_equal(found, expected)


def header(text: str, data: bytes = b"") -> bytes:
    return b"\x93NUMPY\x01\0" + len(text).to_bytes(2, "little") + text.encode() + data


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x93NUMPY",
        b"PK\x03\x04" + bytes(60),
        header("(" * 5000),
        header("{'descr': '<U4', 'fortran_order': False, 'shape': (1,), }", bytes(16)),
        header("{'descr': '|O', 'fortran_order': False, 'shape': (1,), }", bytes(16)),
        header("{'descr': '<f3', 'fortran_order': False, 'shape': (1,), }", bytes(3)),
        header("{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }", bytes(4)),
        header("{'descr': '<f4', 'fortran_order': False, 'shape': (-1,), }", bytes(4)),
        header(f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({'1,' * 70}), }}", bytes(4)),
        header(f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({'9' * 400},), }}", bytes(4)),
    ],
)
def test_what_is_no_array_of_numbers_is_refused(data: bytes, tmp_path: Path) -> None:
    (tmp_path / "a.npy").write_bytes(data)
    with pytest.raises(UsageProblem, match="not an array of numpy"):
        constants_of({"w": str(tmp_path / "a.npy")})


def test_a_sparse_array_and_a_pipe_cost_a_message(tmp_path: Path) -> None:
    (tmp_path / "a.npy").write_bytes(header("{'descr': '<f4', 'fortran_order': False, 'shape': (1,), }"))
    with (tmp_path / "a.npy").open("r+b") as file:
        file.truncate(1 << 34)
    os.mkfifo(tmp_path / "p.npy")
    for name in ("a", "p"):
        with pytest.raises(UsageProblem, match="not an array of numpy"):
            constants_of({"w": str(tmp_path / f"{name}.npy")})


@pytest.mark.parametrize(
    "word", ["", ",", "1e999", "-1e999", "two", "1_0", "1" * 50, "0x10", "1;2", "[1,x]", "１"]
)
def test_what_is_no_number_is_no_constant(word: str) -> None:
    with pytest.raises(UsageProblem, match="takes numbers with commas between"):
        constants_of({"w": word})


@pytest.mark.parametrize(
    ("word", "dtype", "expected"),
    [
        ("inf", "f32", np.inf),
        ("-inf", "f16", -np.inf),
        ("1e30", "f32", np.float32(1e30)),
        ("0.1", "f32", np.float32(0.1)),
        ("9223372036854775808", "f32", 2.0**63),
        ("18446744073709551615", "u64", 2**64 - 1),
        ("-9223372036854775808", "i64", -(2**63)),
        ("1e3", "i32", 1000),
        ("-0.0", "f32", -0.0),
        ("1", "bool", 1),
        ("448", "f8e4m3", 448),
    ],
)
def test_a_constant_has_the_value_that_is_written(word: str, dtype: str, expected: float) -> None:
    assert in_type(constants_of({"w": word})["w"], dtype) == expected


@pytest.mark.parametrize(
    ("word", "dtype"),
    [
        ("inf", "i64"), ("nan", "i32"), ("-inf", "bool"), ("1e39", "f32"), ("1e-60", "f32"), ("70000", "f16"),
        ("16777217", "f32"), ("9007199254740993", "f64"), ("18446744073709551615", "f64"),
        ("9223372036854775808", "i64"),         ("2.5", "i64"), ("300", "u8"), ("-1", "u8"), ("2", "bool"), ("8", "i4"), ("1e19", "i64"),  # noqa: E501 - one case a line
        ("500", "f8e4m3"),         ("9223372036854775807", "f32"), ("1e20", "u64"),
    ],
)  # fmt: skip
def test_a_constant_that_its_type_does_not_have_is_refused(word: str, dtype: str) -> None:
    with pytest.raises(ValueError, match=f"is not a value of {dtype}"):
        in_type(constants_of({"w": word})["w"], dtype)


# --- rows, the cache --------------------------------------------------------------------------------------


ROW = SimulatedRow(0, "s", "k", "l", "c", {"M": 1}, "f", 1, "m")


def rows(folder: Path, text: str) -> dict[str, SimulatedRow]:
    (folder / ROWS_FILE).write_text(text, encoding="utf-8", errors="surrogateescape")
    return open_rows(folder, True, SimulatedRow.from_json)


def test_rows_of_an_earlier_run_are_read_but_for_a_last_line_that_was_cut_off(tmp_path: Path) -> None:
    line = json.dumps(ROW.as_json())
    assert rows(tmp_path, f"{line}\n{line[:20]}") == {ROW.key: ROW}


@pytest.mark.parametrize(
    "line",
    [
        "{}", "3", "[]", "", "[" * 100_000, '{"case": 1, "case": 2}', "\udcff",
        *(json.dumps(ROW.as_json() | {key: value}) for key in ROW_KEYS
          for value in ({"x": "y"}, ["x"], None, True)),
    ],
)  # fmt: skip
def test_rows_of_other_values_are_refused(line: str, tmp_path: Path) -> None:
    with pytest.raises(UsageProblem) as found:
        rows(tmp_path, f"{line}\n")
    assert found.value.diagnostics[0].code == "rows-damaged"
    assert "line 1 of" in found.value.diagnostics[0].message


def test_rows_in_a_pipe_are_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / ROWS_FILE)
    with pytest.raises(UsageProblem, match="it is not a regular file"):
        open_rows(tmp_path, True, SimulatedRow.from_json)


@pytest.mark.parametrize("part", ["keys", "objects"])
def test_a_pipe_in_the_cache_is_a_miss_and_is_replaced(part: str, tmp_path: Path) -> None:
    cache = Cache.open_in(tmp_path, "kind")
    path = cache.keep("a" * 64, b"content")
    place = path if part == "objects" else tmp_path / "kind" / "keys" / ("a" * 64)
    place.unlink()
    os.mkfifo(place)
    assert cache.find("a" * 64) is None
    cache.keep("a" * 64, b"content")
    assert cache.find("a" * 64) == path


def test_a_file_that_the_cache_did_not_write_is_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ISAMAP_CACHE_DIR", str(tmp_path / "cache"))
    path = Cache.open("kind").keep("a" * 64, b"content")
    path.write_bytes(b"other")
    assert list_damaged() == (path,)


@pytest.mark.parametrize(
    "given",
    [
        {"environment": {"LD_PRELOAD": "./x.so"}}, {"environment": {"PATH": "."}}, {"threads": ["LD_PRELOAD"]},
        {"environment": {"OMP_TOOL_LIBRARIES": "./x.so"}}, {"environment": {"PYTHONPATH": "."}},
        {"environment": {"omp_dynamic": "1"}}, {"environment": {"OMP_PLACES": "a\0b"}},
        {"library": "x */ int y; /*"}, {"interfaces": ["../cblas"]}, {"interfaces": ["pipe"]},
    ],
    ids=str,
)  # fmt: skip
def test_a_description_of_a_library_sets_and_names_what_it_may(given: dict[str, Any], tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.yaml")
    whole = {
        "isamap": 1,
        "library": "x",
        "summary": "s",
        "files": [{"file": "libx.so"}],
        "link": "-lx",
        "calls": [],
    }
    (tmp_path / "x.yaml").write_text(json.dumps(whole))
    assert read_library(tmp_path / "x.yaml", "x.yaml").name == "x"
    (tmp_path / "x.yaml").write_text(json.dumps(whole | given))
    with pytest.raises(SpecProblem):
        read_library(tmp_path / "x.yaml", "x.yaml")


@pytest.mark.parametrize("name", ["a b", "x;id", "x$(id)", 'x" y', "-x", "x\n"])
def test_a_machine_whose_name_no_c_may_hold_is_refused(name: str, tmp_path: Path) -> None:
    path = tmp_path / f"{name}.yaml"
    path.write_text(json.dumps({"isamap": 1, "name": name, "summary": "s", "extends": "generic-c"}))
    with pytest.raises(SpecProblem, match="is used in C"):
        load_machine(str(path))
