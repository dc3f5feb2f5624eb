"""Files of ONNX that are damaged, too deep, or lead outside of their folder are refused, with exit code 2."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx", reason="models of ONNX need the package onnx: pip install 'isamap[onnx]'")

from onnx_models import imported, make

from isamap.cli import main
from isamap.graph.importing import lower_model
from isamap.onnx import onnx_files
from isamap.onnx.onnx_models import import_model, parse_model
from isamap.source import UsageProblem

X = np.zeros((2, 3), np.float32)
ONNX: Any = import_module("onnx")


def model() -> Any:
    return make([("Add", ["x", "w"], ["y"], {})], {"x": X}, ["y"], {"w": np.ones(3, np.float32)})


def cut_off(made: Any) -> None:
    made.graph.initializer[0].raw_data = made.graph.initializer[0].raw_data[:-1]


def of_negative_sizes(made: Any) -> None:
    made.graph.initializer[0].dims[0] = -3


def enormous(made: Any) -> None:
    made.graph.initializer[0].dims[0] = 1 << 40


def of_tomorrow(made: Any) -> None:
    made.opset_import[0].version = 1000


def without_operators(made: Any) -> None:
    del made.opset_import[:]


def elsewhere(location: str) -> Callable[[Any], None]:
    def change(made: Any) -> None:
        tensor = made.graph.initializer[0]
        tensor.ClearField("raw_data")
        tensor.data_location = ONNX.TensorProto.EXTERNAL
        entry = tensor.external_data.add()
        entry.key, entry.value = "location", location

    return change


def nested(made: Any) -> None:
    graph = made.graph
    for _ in range(20):
        outer = ONNX.GraphProto(name="outer")
        node = outer.node.add(op_type="If")
        attribute = node.attribute.add(name="then_branch", type=ONNX.AttributeProto.GRAPH)
        attribute.g.CopyFrom(graph)
        graph = outer
    made.graph.CopyFrom(graph)


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (cut_off, "the numbers of `w` do not fill its sizes"),
        (of_negative_sizes, r"the sizes of `w` are none: \[-3\]"),
        (enormous, "the sizes of `w` are none"),
        (of_tomorrow, "it is written in opset 1000"),
        (without_operators, "does not say which operators"),
        (elsewhere("../secret"), "are said to lie outside of its folder: '../secret'"),
        (elsewhere("/etc/passwd"), "are said to lie outside of its folder"),
        (elsewhere("link"), "are said to lie outside of its folder"),
        (elsewhere("missing"), "the file `missing` of the weights `w` cannot be read"),
        (elsewhere("short"), "the file `short` of the weights `w` cannot be read: it is too short"),
        (nested, "graphs lie in graphs more than 16 deep"),
    ],
)
def test_a_damaged_model_is_refused(damage: Callable[[Any], None], said: str, tmp_path: Path) -> None:
    made = model()
    damage(made)
    folder = tmp_path / "folder"
    folder.mkdir()
    (tmp_path / "secret").write_bytes(bytes(12))
    (folder / "link").symlink_to(tmp_path / "secret")
    (folder / "short").write_bytes(bytes(11))
    path = folder / "made.onnx"
    path.write_bytes(made.SerializeToString())
    with pytest.raises(UsageProblem, match=said):
        import_model(path)
    assert main(["import", str(path), "-o", str(tmp_path / "out")]) == 2


@pytest.mark.parametrize("content", [b"", b"no model", b"\x08\x01", bytes(range(256))])
def test_bytes_that_are_no_model_are_refused(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "made.onnx"
    path.write_bytes(content)
    with pytest.raises(UsageProblem) as found:
        import_model(path)
    assert found.value.diagnostics[0].code == "onnx-damaged"


def test_names_that_are_no_text_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "made.onnx"
    path.write_bytes(model().SerializeToString().replace(b"made", b"m\xffde").replace(b"\x01x", b"\x01\xff"))
    with pytest.raises(UsageProblem, match="one of its names is not a text"):
        import_model(path)


def test_changed_bytes_are_refused_or_another_model() -> None:
    content = model().SerializeToString()
    rng = np.random.default_rng(0)
    for _ in range(200):
        changed = bytearray(content)
        changed[int(rng.integers(len(content)))] = int(rng.integers(256))
        with suppress(UsageProblem):
            lower_model(parse_model(bytes(changed), Path("made.onnx")), "made", {}, {})


@pytest.mark.parametrize("is_apart", [False, True])
def test_large_weights_are_mapped_and_never_copied(is_apart: bool, tmp_path: Path) -> None:
    w = np.random.default_rng(0).standard_normal((2048, 1024)).astype(np.float32)
    made = make([("MatMul", ["x", "w"], ["y"], {})], {"x": np.zeros((2, 2048), np.float32)}, ["y"], {"w": w})
    path = tmp_path / "made.onnx"
    ONNX.save(made, str(path), save_as_external_data=is_apart, location="w.bin", size_threshold=1024)
    tracemalloc.start()
    program = import_model(path).whole()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    (array,) = program.constants.values()
    assert array.tobytes() == w.tobytes()
    assert peak < w.nbytes / 2


def test_changed_bytes_mean_the_same_with_weights_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    content = model().SerializeToString()
    rng = np.random.default_rng(0)
    left_out = 0
    for turn in range(300):
        changed = bytearray(content)
        if turn:
            changed[int(rng.integers(len(content)))] = int(rng.integers(256))
        found: list[Any] = []
        for least in (1, 1 << 20):
            monkeypatch.setattr(onnx_files, "LEAST_MAPPED", least)
            left_out += least == 1 and bool(onnx_files.without_weights(memoryview(changed))[1])
            try:
                graph = parse_model(bytes(changed), Path("made.onnx")).graph
            except UsageProblem as problem:
                found.append(str(problem))
            else:
                weights = {name: (a.dtype, a.shape, a.tobytes()) for name, a in graph.constants.items()}
                found.append((weights, [(n.op, n.inputs, n.outputs) for n in graph.nodes], graph.inputs))
        assert found[0] == found[1]
    assert left_out > 100


def test_weights_beside_the_model_are_read(tmp_path: Path) -> None:
    made = model()
    elsewhere("w.bin")(made)
    (tmp_path / "w.bin").write_bytes(np.full(3, 7, np.float32).tobytes())
    (tmp_path / "made.onnx").write_bytes(made.SerializeToString())
    (array,) = import_model(tmp_path / "made.onnx").whole().constants.values()
    assert array.tolist() == [7, 7, 7]


def test_open_sizes_and_constants_have_to_be_there() -> None:
    made = model()
    made.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "batch"
    with pytest.raises(UsageProblem, match="the size `batch` of the input `x` is open"):
        imported(made)
    with pytest.raises(UsageProblem, match="the model has no input `z`"):
        imported(made, {"z": X})


def test_a_small_file_does_not_become_a_large_constant() -> None:
    shape = np.asarray([1 << 20, 1 << 20])
    made = make([("ConstantOfShape", ["s"], ["y"], {})], {}, ["y"], {"s": shape})
    assert imported(made).findings[0].code == "onnx-node"
    made = make([("Expand", ["x", "s"], ["y"], {})], {"x": np.zeros((1, 1), np.float32)}, ["y"], {"s": shape})
    assert "too large" in imported(made).findings[0].message


def test_all_open_sizes_are_asked_for_in_one_error_with_the_command_line_to_type(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    helper, number = ONNX.helper, ONNX.TensorProto.FLOAT
    sizes = {"a": ["batch", "length"], "b": ["batch", "?"], "c": None, "d": [2]}
    ports = [helper.make_tensor_value_info(name, number, shape) for name, shape in sizes.items()]
    nodes = [helper.make_node("Sum", list(sizes), ["y"])]
    graph = helper.make_graph(nodes, "open", ports, [helper.make_tensor_value_info("y", number, None)])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    monkeypatch.chdir(tmp_path)
    ONNX.save(made, "open.onnx")
    assert main(["run", "open.onnx", "--hw", "generic-c", "-D", "batch=2"]) == 2
    said = capsys.readouterr().err
    words = "isamap run open.onnx --hw generic-c -D batch=2 -D length=1 -D b_1=1 --constant c=FILE.npy"
    assert said.rstrip().endswith(f"give all of them: {words}")
    assert all(f"`{name}`" in said for name in ("length", "b_1", "c"))
    with pytest.raises(UsageProblem, match=r"`batch` of the input `a`, .* and .* `c` are open"):
        import_model("open.onnx")
