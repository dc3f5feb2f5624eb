"""Weights that kernels of a model take packed: which they are, and that the model holds what was packed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx", reason="models of ONNX need the package onnx: pip install 'isamap[onnx]'")

from onnx_models import Described, evaluated, imported, make

from isamap.graph.graph_file import folder_files, read_folder
from isamap.graph.model_library import CompiledModel, ModelOptions, compile_program_of, packed_of
from isamap.graph.model_program import KernelCall, ModelProgram

RNG = np.random.default_rng(0)
X = RNG.standard_normal((1, 256, 3, 3), np.float32)
LARGE = RNG.standard_normal((256, 256, 1, 1), np.float32)  # 256 KiB
SMALL = RNG.standard_normal((16, 256, 1, 1), np.float32)
MACHINE = "generic-c"
NODES: Described = [
    ("Conv", ["x", "large"], ["a"], {}),
    ("Relu", ["a"], ["b"], {}),
    ("Conv", ["b", "small"], ["y"], {}),
]


def model(nodes: Described = NODES, **constants: Any) -> Any:
    return make(nodes, {"x": X}, ["y"], {"large": LARGE, "small": SMALL, **constants})


def summed(program: ModelProgram) -> dict[str, tuple[str, ...]]:
    """Return what is packed by the first words of kernels' names."""
    return {
        kernel.rpartition("_")[0]: names
        for kernel, names in packed_of(program, {kernel: {} for kernel in program.kernels}).items()
    }


def test_weights_of_a_sum_are_packed_where_there_are_many() -> None:
    assert summed(imported(model()).whole()) == {"conv_relu": ("a1",)}


def test_what_no_sum_reads_and_what_is_no_constant_is_not() -> None:
    table = RNG.standard_normal((1, 256, 16, 16), np.float32)
    nodes: Described = [("Add", ["x", "table"], ["y"], {})]
    x = np.zeros((1, 256, 16, 16), np.float32)
    assert summed(imported(make(nodes, {"x": x}, ["y"], {"table": table})).whole()) == {}
    a, b = np.zeros((256, 256), np.float32), np.zeros((256, 256), np.float32)
    product: Described = [("MatMul", ["a", "b"], ["y"], {})]
    assert summed(imported(make(product, {"a": a, "b": b}, ["y"])).whole()) == {}
    assert summed(imported(make(product, {"a": a}, ["y"], {"b": b})).whole()) == {"matmul": ("a1",)}


def test_a_kernel_of_which_one_call_has_no_constant_packs_nothing() -> None:
    program = imported(model()).whole()
    first = program.steps[0]
    assert isinstance(first, KernelCall)
    other = replace(first, reads={**first.reads, "a1": replace(first.reads["a1"], tensor="elsewhere")})
    assert summed(replace(program, steps=(*program.steps, other))) == {}


def test_results_are_equal_and_the_model_holds_the_packed_weights(tmp_path: Path) -> None:
    made = model()
    program = imported(made).whole()
    how = ModelOptions(MACHINE, jobs=1)
    library = compile_program_of(program, how, runs=True)
    emitted = library.emitted
    weights = bytes(emitted.weights)
    assert LARGE.transpose(2, 3, 1, 0).tobytes() not in weights
    assert SMALL.transpose(2, 3, 1, 0).tobytes() in weights
    assert not any("_pack_" in name for name in emitted.files)
    assert any("a1_packed" in str(text) for text in emitted.files.values())
    found = CompiledModel(library)({"x": X})["y"]
    (expected,) = evaluated(made, {"x": X})
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-2)
    for name, content in folder_files(program).items():
        (tmp_path / name).write_bytes(content.encode() if isinstance(content, str) else content)
    again = compile_program_of(read_folder(tmp_path / "graph.json"), how, runs=True)
    assert bytes(again.emitted.weights) == weights


def test_nothing_is_packed_for_a_processor_that_is_not_here() -> None:
    emitted = compile_program_of(imported(model()).whole(), ModelOptions("riscv-rvv", jobs=1)).emitted
    assert LARGE.transpose(2, 3, 1, 0).tobytes() in bytes(emitted.weights)
    assert not any("_packed" in str(text) for text in emitted.files.values())


@pytest.mark.parametrize(("group", "wanted"), [(1, ("a1",)), (16, ())])
def test_a_few_bytes_are_packed_unless_each_has_an_element_of_its_own(
    group: int, wanted: tuple[str, ...]
) -> None:
    x = np.zeros((1, 16, 5, 5), np.uint8)
    numbers = {
        "xs": np.float32(0.5), "xz": np.uint8(3), "ws": np.full(16, 0.1, np.float32), "wz": np.zeros(16, np.int8),
        "ys": np.float32(2.0), "yz": np.uint8(9), "w": np.ones((16, 16 // group, 3, 3), np.int8),
    }  # fmt: skip
    given = ["x", "xs", "xz", "w", "ws", "wz", "ys", "yz"]
    program = imported(
        make(
            [("QLinearConv", given, ["y"], {"group": group})],
            {"x": x},
            ["y"],
            {n: np.asarray(a) for n, a in numbers.items()},
        )
    ).whole()
    assert list(packed_of(program, {kernel: {} for kernel in program.kernels}).values()) == (
        [wanted] if wanted else []
    )
