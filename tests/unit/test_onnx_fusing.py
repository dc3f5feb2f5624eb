"""Which operations become one kernel, and which do not."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("onnx", reason="models of ONNX need the package onnx: pip install 'isamap[onnx]'")

from onnx_models import Described, imported, make

from isamap.graph.making import Value
from isamap.graph.operators.products import known_start

X = np.zeros((2, 3), np.float32)
W = np.zeros((3, 4), np.float32)


def kernels(nodes: Described, outputs: list[str]) -> list[str]:
    program = imported(make(nodes, {"x": X}, outputs, {"w": W, "b": np.zeros(4, np.float32)})).whole()
    return [name.rpartition("_")[0] for name in program.kernels]


def test_what_is_done_to_each_sum_is_one_kernel_with_the_product() -> None:
    nodes: Described = [
        ("MatMul", ["x", "w"], ["m"], {}),
        ("Add", ["m", "b"], ["a"], {}),
        ("Relu", ["a"], ["y"], {}),
    ]
    assert kernels(nodes, ["y"]) == ["matmul_add_relu"]


def test_a_result_that_another_reads_stays_one() -> None:
    nodes: Described = [
        ("MatMul", ["x", "w"], ["m"], {}),
        ("Relu", ["m"], ["y"], {}),
        ("Neg", ["m"], ["z"], {}),
    ]
    assert kernels(nodes, ["y", "z"]) == ["matmul", "relu", "neg"]
    assert kernels(nodes[:2], ["m", "y"]) == ["matmul", "relu"]


def test_nothing_is_computed_twice() -> None:
    nodes: Described = [("Exp", ["x"], ["e"], {}), ("Mul", ["e", "e"], ["y"], {})]
    assert kernels(nodes, ["y"]) == ["exp", "mul"]


def test_a_smaller_value_that_is_repeated_stays_apart() -> None:
    nodes: Described = [
        ("ReduceSum", ["x"], ["s"], {"keepdims": 1}),
        ("Neg", ["s"], ["n"], {}),
        ("Add", ["x", "n"], ["y"], {}),
    ]
    assert kernels(nodes, ["y"]) == ["reducesum_neg", "add"]


def test_axes_that_are_walked_alike_are_one() -> None:
    program = imported(make([("Relu", ["x"], ["y"], {})], {"x": X}, ["y"])).whole()
    (text,) = program.kernels.values()
    assert "in a0: f32[6];" in text
    assert "for d0 in 6 { y0[d0] = select(a0[d0] < 0, 0, a0[d0]); }" in text


def test_what_reads_a_result_twice_is_one_kernel_with_what_computes_it() -> None:
    nodes: Described = [
        ("MatMul", ["x", "w"], ["m"], {}),
        ("Add", ["m", "b"], ["a"], {}),
        ("Sigmoid", ["a"], ["s"], {}),
        ("Mul", ["a", "s"], ["y"], {}),
    ]
    program = imported(make(nodes, {"x": X}, ["y"], {"w": W, "b": np.ones(4, np.float32)})).whole()
    (text,) = program.kernels.values()
    assert "y2[d0, d1] = (y1[d0, d1] * (sigmoid(y1[d0, d1])));" in text
    assert kernels(nodes, ["y", "s"]) == ["matmul_add", "sigmoid", "mul"]


def test_kernels_that_differ_in_a_learnt_number_are_one() -> None:
    nodes: Described = [
        ("Mul", ["x", "p"], ["a"], {}),
        ("Neg", ["a"], ["y"], {}),
        ("Mul", ["x", "q"], ["b"], {}),
        ("Neg", ["b"], ["z"], {}),
    ]
    numbers = {"p": np.asarray(0.123456, np.float32), "q": np.asarray(6.54321, np.float32)}
    program = imported(make(nodes, {"x": X}, ["y", "z"], numbers)).whole()
    assert [name.rpartition("_")[0] for name in program.kernels] == ["mul_neg"]
    assert len(program.steps) == 2


def test_of_two_sums_that_are_added_as_bytes_none_is_written_as_a_sum() -> None:
    numbers = {
        "s": np.float32(0.5), "z": np.uint8(3), "v": np.ones((3, 4), np.int8), "zv": np.int8(0),
    }  # fmt: skip
    scaled = ["s", "z"]
    nodes: Described = [
        ("QLinearMatMul", ["a", *scaled, "v", "s", "zv", *scaled], ["p"], {}),
        ("QLinearMatMul", ["b", *scaled, "v", "s", "zv", *scaled], ["q"], {}),
        ("DequantizeLinear", ["p", *scaled], ["pf"], {}),
        ("DequantizeLinear", ["q", *scaled], ["qf"], {}),
        ("Add", ["pf", "qf"], ["sum"], {}),
        ("QuantizeLinear", ["sum", *scaled], ["y"], {}),
    ]
    bytes_ = np.zeros((2, 3), np.uint8)
    model = make(nodes, {"a": bytes_, "b": bytes_}, ["y"], {n: np.asarray(v) for n, v in numbers.items()})
    texts = list(imported(model).whole().kernels.values())
    assert len(texts) == 2
    assert all("out y1: u8[2, 4];" in text or "out y2: u8[2, 4];" in text for text in texts)


def test_sums_begin_with_a_bias_less_the_zero_point_of_a_factor_as_one_constant() -> None:
    weights = np.arange(-6, 6, dtype=np.int8).reshape(4, 3)
    bias = np.asarray([5, -(2**31), 7], np.int32)
    for onto in (Value.of(bias), None):
        found = known_start(weights, np.asarray([-128], np.int8), onto)
        exact = (bias if onto is not None else 0) + 128 * weights.astype(np.int64).sum(0)
        assert found.known is not None
        assert found.known.dtype == np.int32
        assert np.array_equal(found.known, (exact.astype(np.int32))[None]), "modulo 2^32, as sums of i32"
