"""Rewritten kernels compiled and run: they compute what the kernels as written do."""

from __future__ import annotations

import json
from collections.abc import Callable

import numpy as np
import pytest

from isamap.cli import main
from isamap.driver.pipeline import compile_kernel
from isamap.driver.request import Request, Size
from isamap.emit.c import EmittedC
from isamap.ir import Kernel, bind, interpret, print_routine
from isamap.kernels import kernel_path
from isamap.run.runner import run_program
from isamap.run.toolchain import compile_library
from isamap.source import Source
from isamap.syntax import parse_kernel
from isamap.transform import factorisations, rewrites


def shipped(name: str) -> Kernel:
    return parse_kernel(Source(f"{name}.ir", kernel_path(name).read_text(encoding="utf-8")))


def hoisted(kernel: Kernel) -> Kernel:
    return next(r.kernel for r in rewrites(kernel) if r.steps[0].startswith("expansion"))


def factored(kernel: Kernel) -> Kernel:
    return factorisations(kernel)[0].kernel


@pytest.mark.parametrize(
    ("name", "rewrite", "sizes"),
    [
        ("gru", hoisted, {"T": 3, "N": 5, "C": 7, "H": 6}),
        (
            "depthwise_separable_fused",
            factored,
            {"N": 2, "C": 3, "K": 4, "H": 6, "W": 5, "R": 3, "S": 2, "stride": 1, "pad": 1},
        ),
    ],
)
def test_a_rewritten_kernel_runs(
    name: str, rewrite: Callable[[Kernel], Kernel], sizes: dict[str, int]
) -> None:
    kernel = shipped(name)
    text = print_routine(rewrite(kernel))
    given: dict[str, Size] = dict(sizes)
    compiled = compile_kernel(Request(Source("rewritten", text), "generic-c", given, heuristic="greedy"))
    assert isinstance(compiled.emitted, EmittedC)
    assert compiled.machine
    rng = np.random.default_rng(0)
    arrays = {
        o.name: rng.integers(-2, 3, [int(e.evaluate({})) for e in o.shape]).astype(np.float32)
        for o in bind(kernel, sizes).operands
        if o.role in ("in", "inout")
    }
    result = run_program(compile_library(compiled.emitted, compiled.machine), arrays, {}, guard=True)
    assert result.status == 0, result.meaning
    expected = interpret(kernel, arrays, sizes)
    for array, values in expected.items():
        np.testing.assert_allclose(dict(result.arrays)[array], values, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("channels", "size", "at_points"),
    [(64, 16, True), (32, 10, False)],
    ids=["the form at points costs less", "the sum costs less"],
)
def test_the_form_of_a_convolution_is_chosen_by_price_and_runs(
    channels: int, size: int, *, at_points: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    sizes = {
        "N": 1,
        "C": channels,
        "K": channels,
        "H": size,
        "W": size,
        "R": 3,
        "S": 3,
        "stride": 1,
        "pad": 1,
    }
    given = [f"{name}={value}" for name, value in sizes.items()]
    words = ["--heuristic", "greedy", "--profile", "none", "--transform", "--json"]
    assert main(["run", "conv2d_nhwc", "--hw", "x86-avx2", "-D", *given, *words]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["verified"]
    assert [step.split(":")[0] for step in said["rewrite"]] == ["minimal filtering"] * at_points
