"""Graph files: what was written is read again, and what contradicts itself is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx", reason="models of ONNX need the package onnx: pip install 'isamap[onnx]'")

from onnx_models import Described, imported, make

from isamap.graph.graph_file import FILE, folder_files, read_folder
from isamap.graph.model_library import ModelOptions, compile_program_of
from isamap.graph.model_program import ModelProgram
from isamap.source import UsageProblem

NODES: Described = [
    ("Gather", ["x", "i"], ["g"], {}),
    ("Add", ["g", "w"], ["y"], {}),
    ("Identity", ["x"], ["z"], {}),
]
INPUTS = {"x": np.zeros((4, 3), np.float32), "i": np.zeros(2, np.int64)}


def program() -> ModelProgram:
    return imported(make(NODES, INPUTS, ["y", "z"], {"w": np.arange(3, dtype=np.float32)})).whole()


def written(folder: Path, change: Callable[[Any], None] = lambda _: None) -> Path:
    for name, content in folder_files(program()).items():
        (folder / name).write_bytes(content.encode() if isinstance(content, str) else content)
    whole = json.loads((folder / FILE).read_text())
    change(whole)
    (folder / FILE).write_text(json.dumps(whole))
    return folder / FILE


def test_what_was_written_is_read_again(tmp_path: Path) -> None:
    found, expected = read_folder(written(tmp_path)), program()
    assert (found.inputs, found.outputs, found.steps) == (expected.inputs, expected.outputs, expected.steps)
    assert found.kernels == expected.kernels
    assert [a.tobytes() for a in found.constants.values()] == [
        a.tobytes() for a in expected.constants.values()
    ]


def set_at(*path: str | int, value: object) -> Callable[[Any], None]:
    def change(whole: Any) -> None:
        *inner, last = path
        for key in inner:
            whole = whole[key]
        whole[last] = value

    return change


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (set_at("isamap", value="model/2"), "its format is 'model/2', and this version reads model/1"),
        (set_at("name", value="a-b"), "is none in C"),
        (set_at("weights", value="../made.weights"), "it leaves the folder"),
        (set_at("weights", value="missing"), "cannot be read: No such file"),
        (set_at("constants", 0, "bytes", value=1 << 20), "lies outside of the weights"),
        (set_at("steps", 0, "numbers", 3, value=3), "accesses elements outside its tensors"),
        (set_at("steps", 0, "numbers", 1, value=5), "accesses elements outside its tensors"),
        (set_at("steps", 0, "move", value="system"), "accesses elements outside its tensors"),
        (set_at("steps", 0, "reads", 0, "shape", value=[40, 3]), "accesses elements outside its tensors"),
        (set_at("steps", 0, "reads", 0, "tensor", value="t9"), "which is not there in this size"),
        (set_at("steps", 0, "writes", 0, "tensor", value="i0"), "which is there already"),
        (set_at("steps", 1, "kernel", value="other"), "which is not a kernel of it"),
        (set_at("outputs", 0, "tensor", value="t9"), "is never written in this size"),
        (set_at("outputs", value=3), "3 is not a list"),
    ],
)
def test_what_contradicts_itself_is_refused(change: Callable[[Any], None], said: str, tmp_path: Path) -> None:
    with pytest.raises(UsageProblem, match=said) as found:
        read_folder(written(tmp_path, change))
    assert found.value.diagnostics[0].code == "graph-damaged"


def test_a_kernel_that_takes_something_else_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path)
    (kernel,) = tmp_path.glob("*.ir")
    text = kernel.read_text()
    assert "in a0: f32[2, 3];" in text
    kernel.write_text(text.replace("in a0: f32[2, 3];", "in a0: f32[2, 4];"))
    with pytest.raises(UsageProblem, match="takes `a0` that the graph states otherwise"):
        compile_program_of(read_folder(path), ModelOptions("generic-c"))
