"""How images lie: channels last from one convolution to the next, moved where another order is asked for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("onnx", reason="models of ONNX need the package onnx: pip install 'isamap[onnx]'")

from onnx_models import Described, imported, make

from isamap.graph.importing import lower_model
from isamap.onnx.onnx_models import parse_model

X = np.zeros((1, 3, 8, 8), np.float32)
WEIGHTS = {
    "first": np.zeros((16, 3, 3, 3), np.float32),
    "each": np.zeros((16, 1, 3, 3), np.float32),
    "last": np.zeros((16, 16, 1, 1), np.float32),
    "few": np.zeros((4, 3, 1, 1), np.float32),
    "scale": np.zeros((16, 1, 1), np.float32),
}


def texts(nodes: Described, outputs: list[str]) -> Mapping[str, str]:
    program = imported(make(nodes, {"x": X}, outputs, WEIGHTS)).whole()
    return {name.rpartition("_")[0]: text for name, text in program.kernels.items()}


BLOCK: Described = [
    ("Conv", ["x", "first"], ["a"], {"pads": [1] * 4}),
    ("Relu", ["a"], ["b"], {}),
    ("Conv", ["b", "each"], ["c"], {"pads": [1] * 4, "group": 16}),
    ("Sigmoid", ["c"], ["h"], {}),
    ("Mul", ["h", "scale"], ["d"], {}),
    ("MaxPool", ["d"], ["e"], {"kernel_shape": [2, 2]}),
    ("Conv", ["e", "last"], ["f"], {}),
    ("GlobalAveragePool", ["f"], ["g"], {}),
]


def test_nothing_is_moved_between_convolutions_and_pools() -> None:
    found = texts(BLOCK, ["g"])
    assert list(found) == ["conv_relu", "conv_sigmoid_mul", "maxpool", "conv", "globalaveragepool"]
    assert "in a0: f32[1, 3, 8, 8];" in found["conv_relu"]
    assert "out y1: f32[1, 10, 10, 16];" in found["conv_relu"]
    assert "in a1: f32[3, 3, 16];" in found["conv_sigmoid_mul"]
    assert "in a0: f32[1, 7, 7, 16];" in found["conv"]


def test_a_result_of_the_model_lies_as_its_sizes_say_and_is_moved_once() -> None:
    found = texts([*BLOCK, ("Neg", ["f"], ["n"], {})], ["f", "n"])
    assert list(found)[-3:] == ["conv", "neg", "transpose"]
    nodes: Described = [
        *BLOCK,
        ("Softmax", ["f"], ["s"], {"axis": 1}),
        ("Softmax", ["f"], ["t"], {"axis": 2}),
    ]
    assert [name for name in texts(nodes, ["s", "t", "f"]) if name == "transpose"] == ["transpose"]


def test_a_sum_lies_as_the_results_of_convolutions_do() -> None:
    nodes: Described = [("Relu", ["z"], ["n0"], {})]
    for n in range(3):
        more: Described = [
            ("Conv", [f"n{n}", "last"], [f"c{n}"], {}),
            ("Add", [f"n{n}", f"c{n}"], [f"n{n + 1}"], {}),
        ]
        nodes = [*nodes, *more]
    z = np.zeros((1, 16, 8, 8), np.float32)
    program = imported(make([*nodes, ("Conv", ["n3", "last"], ["y"], {})], {"z": z}, ["y"], WEIGHTS)).whole()
    called = [getattr(step, "kernel", "") for step in program.steps]
    assert sum(name.startswith("transpose") for name in called) == 2, (
        "the first image and the result are moved"
    )
    assert sum(name.startswith("conv_add") for name in called) == 2


@pytest.mark.parametrize(("rows", "moved"), [(32, 1), (1, 0)])
def test_many_rows_multiply_a_computed_factor_by_its_rows(rows: int, moved: int) -> None:
    nodes: Described = [
        ("Transpose", ["k"], ["t"], {"perm": [0, 2, 3, 1]}),
        ("MatMul", ["q", "t"], ["y"], {}),
    ]
    inputs = {"q": np.zeros((1, 3, rows, 16), np.float32), "k": np.zeros((1, 40, 3, 16), np.float32)}
    model = parse_model(make(nodes, inputs, ["y"]).SerializeToString(), Path("made.onnx"))
    program = lower_model(replace(model, has_views=True), "made", {}, {}).whole()
    assert sum(name.startswith("transpose") for name in program.kernels) == moved
    (text,) = (text for name, text in program.kernels.items() if "matmul" in name)
    assert ("* a1[0, d1, k, d3]" in text) == bool(moved)


@pytest.mark.parametrize("has_views", [False, True])
@pytest.mark.parametrize("shape", [(16, 8, 8), (8, 8), (8, 1), (1,)])
def test_an_operand_of_fewer_axes_is_repeated_over_an_image(shape: tuple[int, ...], has_views: bool) -> None:
    nodes: Described = [
        ("Conv", ["x", "first"], ["a"], {"pads": [1] * 4}),
        ("Neg", ["s"], ["n"], {}),
        ("Mul", ["a", "n"], ["y"], {}),
    ]
    made = make(nodes, {"x": X, "s": np.zeros(shape, np.float32)}, ["y"], {"first": WEIGHTS["first"]})
    model = parse_model(made.SerializeToString(), Path("made.onnx"))
    lower_model(replace(model, has_views=has_views), "made", {}, {}).whole()


def test_equal_operations_are_one() -> None:
    nodes: Described = [
        ("Relu", ["x"], ["a"], {}),
        ("Relu", ["x"], ["b"], {}),
        ("Conv", ["a", "first"], ["c"], {}),
        ("Conv", ["b", "first"], ["d"], {}),
        ("Add", ["c", "d"], ["y"], {}),
    ]
    program = imported(make(nodes, {"x": X}, ["y", "b"], WEIGHTS)).whole()
    assert sum(getattr(step, "kernel", "").startswith("relu") for step in program.steps) == 1


def test_few_filters_leave_an_image_as_it_is() -> None:
    found = texts([("Conv", ["x", "few"], ["y"], {})], ["y"])
    assert "out y0: f32[1, 4, 8, 8];" in found["conv"]


def test_zeros_around_an_image_are_written_with_it_where_one_kernel_reads_them() -> None:
    found = texts(BLOCK, ["g"])
    assert "for e2 in 10, e3 in 16 { y1[0, 0, e2, e3] = 0; }" in found["conv_relu"]
    assert "for e1 in 8, e3 in 16 { y1[0, e1 + 1, 9, e3] = 0; }" in found["conv_relu"]
    before = "y0[0, d1, d2, d3]"
    assert f"y1[0, d1 + 1, d2 + 1, d3] = select({before} < 0, 0, {before});" in found["conv_relu"]
    assert "a0[0, d3*1 + r1*1 - 1 + 1, d4*1 + r2*1 - 1 + 1, d1] * a1" in found["conv_sigmoid_mul"]


@pytest.mark.parametrize("others", [["g", "b"], ["g", "n"]])
def test_an_image_that_others_read_has_no_border(others: list[str]) -> None:
    found = texts([*BLOCK, ("Neg", ["b"], ["n"], {})], others)
    assert "out y1: f32[1, 8, 8, 16];" in found["conv_relu"]
    assert "(a0[0, d3*1 + r1*1 - 1, d4*1 + r2*1 - 1, d1] else 0)" in found["conv_sigmoid_mul"]


def test_elements_that_are_repeated_stay_where_they_lie() -> None:
    how = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    resize = ("Resize", ["f", "", "times"], ["y"], how)
    nodes: Described = [
        *BLOCK[:-1],
        resize,
        ("Add", ["y", "scale"], ["z"], {}),
        ("Conv", ["z", "last"], ["g"], {}),
    ]
    model = make(nodes, {"x": X}, ["g"], {**WEIGHTS, "times": np.asarray([1, 1, 2, 3], np.float32)})
    program = imported(model).whole()
    (text,) = (text for name, text in program.kernels.items() if name.startswith("resize_add"))
    assert "y0[0, d2, d3, d1] = a0[0, d2 / 2, d3 / 3, d1];" in text


def test_the_sum_of_a_convolution_loops_innermost_over_its_longest_axis() -> None:
    weights = {**WEIGHTS, "square": np.zeros((16, 16, 3, 3), np.float32)}
    nodes: Described = [("Conv", ["x", "first"], ["a"], {}), ("Conv", ["a", "square"], ["y"], {})]
    program = imported(make(nodes, {"x": X}, ["y"], weights)).whole()
    loops = [
        line.partition(" {")[0]
        for text in program.kernels.values()
        for line in text.splitlines()
        if "+=" in line
    ]
    assert [line.partition(" d2 in 16, ")[2] for line in loops] == [
        "r0 in 3, r1 in 3, r2 in 3",
        "r1 in 3, r2 in 3, r0 in 16",
    ]


KEEPING: Mapping[str, Described] = {
    "QuantizeLinear": [
        ("QuantizeLinear", ["b", "step", "zero"], ["q"], {}),
        ("Neg", ["b"], ["kept"], {}),
        ("DequantizeLinear", ["q", "step", "zero"], ["c"], {}),
    ],
    "QuantizeLinear by channel": [
        ("QuantizeLinear", ["b", "steps", "zeros"], ["q"], {}),
        ("DequantizeLinear", ["q", "steps", "zeros"], ["c"], {}),
    ],
    "LRN": [("LRN", ["b"], ["c"], {"size": 5})],
    "InstanceNormalization": [("InstanceNormalization", ["b", "steps", "steps"], ["c"], {})],
    "MeanVarianceNormalization": [("MeanVarianceNormalization", ["b"], ["c"], {})],
}
"""Operators that keep sizes, between a convolution's result b and the next one's image c."""


@pytest.mark.parametrize("nodes", KEEPING.values(), ids=KEEPING)
def test_an_operator_that_keeps_sizes_keeps_the_order(nodes: Described) -> None:
    """A transposed image costs more than the convolution that reads it."""
    constants = {
        **WEIGHTS,
        "step": np.array(0.1, np.float32),
        "zero": np.array(3, np.uint8),
        "steps": np.full(16, 0.1, np.float32),
        "zeros": np.zeros(16, np.int8),
    }
    around: Described = [
        ("Conv", ["x", "first"], ["a"], {"pads": [1] * 4}),
        ("Relu", ["a"], ["b"], {}),
        *nodes,
        ("Conv", ["c", "last"], ["d"], {}),
        ("GlobalAveragePool", ["d"], ["y"], {}),
    ]
    program = imported(make(around, {"x": X}, ["y"], constants)).whole()
    assert "[1, 16, 8, 8]" not in "".join(program.kernels.values())


def test_a_sum_of_quantised_images_is_behind_the_convolution() -> None:
    """Bytes are read and written, and the numbers between them stay in registers."""
    scaled: Described = []
    for name, image in (("left", "a"), ("right", "b")):
        scaled += [
            ("Conv", [image, name], [f"{name}_sums"], {}),
            ("QuantizeLinear", [f"{name}_sums", "step", "zero"], [f"{name}_bytes"], {}),
            ("DequantizeLinear", [f"{name}_bytes", "step", "zero"], [f"{name}_numbers"], {}),
        ]
    nodes: Described = [
        *scaled,
        ("Add", ["left_numbers", "right_numbers"], ["sum"], {}),
        ("Relu", ["sum"], ["least"], {}),
        ("QuantizeLinear", ["least", "step", "zero"], ["y"], {}),
    ]
    images = {name: np.zeros((1, 16, 8, 8), np.float32) for name in ("a", "b")}
    constants = {
        "step": np.array(0.1, np.float32),
        "zero": np.array(3, np.uint8),
        "left": WEIGHTS["last"],
        "right": np.ones((16, 16, 1, 1), np.float32),
    }
    program = imported(make(nodes, images, ["y"], constants)).whole()
    texts_of = [text for name, text in program.kernels.items() if "conv" in name]
    written = sorted(line.split()[2] for text in texts_of for line in text.splitlines() if " out " in line)
    assert written == ["u8[1,", "u8[1,"], texts_of
