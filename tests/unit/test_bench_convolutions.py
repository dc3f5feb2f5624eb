"""Convolutions as benchmarked cases: rows, what is computed of each, and what counts as right."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from isamap.bench.campaign import Campaign, run_campaign
from isamap.bench.cases import FORMS, Types
from isamap.bench.convolution_cases import (
    ConvCase,
    as_grouped,
    conv_cases,
    conv_source,
    conv_values,
    is_convolution,
    patches,
)
from isamap.bench.kinds import CONVOLUTIONS, prepare_onnxruntime_conv, prepare_torch_conv
from isamap.bench.libraries import NotOffered
from isamap.bench.ring import Mapped, Shared, Task
from isamap.cli import bench_command
from isamap.ir import bind, interpret
from isamap.suites import read_suite
from isamap.syntax import parse_kernel

PLAIN = ConvCase(0, "small", "nchw", 2, 3, 6, 7, 4, 3, 3, 1, 1, 1, 1, 1)
SMALL = {
    "padded": PLAIN,
    "strided": replace(PLAIN, r=5, s=3, stride_h=2, stride_w=2, pad_h=2, pad_w=0),
    "pointwise": replace(PLAIN, r=1, s=1, pad_h=0, pad_w=0),
    "pointwise, strided": replace(PLAIN, r=1, s=1, pad_h=0, pad_w=0, stride_h=2, stride_w=2),
    "depthwise": replace(PLAIN, c=4, groups=4),
    "grouped": replace(PLAIN, c=6, groups=2),
}
LIBRARIES = {"torch": prepare_torch_conv, "onnxruntime": prepare_onnxruntime_conv}


def right(case: ConvCase, form: Types) -> tuple[dict[str, tuple[str, Any]], Any]:
    """Return the arrays of a row, and what Y should be."""
    kernel = bind(parse_kernel(conv_source(case, form)), {})
    values = conv_values(case, form)
    given = {name: values[name][1] for name in "XF"}
    return values, np.asarray(interpret(kernel, given, {})["Y"]).astype(values["Y"][1].dtype)


def test_all_rows_of_the_suites_are_there() -> None:
    assert len(conv_cases("deepbench-conv", "nchw")) == 209
    assert len(conv_cases("resnet50-conv", "nhwc")) == 43
    first, *_ = conv_cases("deepbench-conv", "nchw", ("training",))
    assert first.label == "4x1x161x700 * 32x5x20 s2 p0 nchw"
    assert first.operations == 689638400


@pytest.mark.parametrize("form", ["f32", "bf16", "u8s8"])
@pytest.mark.parametrize("layout", ["nchw", "nhwc"])
@pytest.mark.parametrize("name", SMALL)
def test_a_right_result_is_right_and_one_wrong_element_is_seen(name: str, layout: str, form: str) -> None:
    case = replace(SMALL[name], layout=layout)
    values, expected = right(case, FORMS[form])
    spoilt = expected.copy()
    spoilt.reshape(-1)[30] += 40

    class Writer:
        name = "isamap"

        def __init__(self, result: Any) -> None:
            self.result = result

        def time(self, calls: int, first: int = 0) -> int:
            shared.arrays["Y"][0][...] = self.result
            return 1

    with Shared(values, "Y", 1) as shared:
        for result, fine in ((expected, True), (spoilt, False)):
            assert is_convolution(Writer(result), case, FORMS[form], 0, shared) == fine


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("form", ["f32", "bf16", "u8s8"])
@pytest.mark.parametrize("layout", ["nchw", "nhwc"])
@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize("library", LIBRARIES)
def test_libraries_compute_what_the_kernel_does(
    library: str, name: str, layout: str, form: str, packed: bool
) -> None:
    pytest.importorskip(library)
    case = replace(SMALL[name], layout=layout)
    values, expected = right(case, FORMS[form])
    arrays = {n: [np.zeros_like(a) if n == "Y" else a.copy()] for n, (_, a) in values.items()}
    mapped = Mapped(Task(CONVOLUTIONS.name, case, form, {}, "", packed=packed), arrays)
    try:
        LIBRARIES[library](mapped, 1).time(1, 0)
    except NotOffered:
        offers = form in ("f32", "bf16") if library == "torch" else layout == "nchw" and form != "bf16"
        assert not offers or (packed and form == "bf16"), "what a library has is compared with"
        return
    gap = np.abs(arrays["Y"][0].astype(np.float64) - expected.astype(np.float64)).max()
    assert gap < {"f32": 1e-5, "bf16": 0.1, "u8s8": 0.5}[form]


def test_patches_are_what_filters_meet() -> None:
    case = SMALL["strided"]
    values, expected = right(case, FORMS["f32"])
    x, f, y = (as_grouped(case, n, expected if n == "Y" else values[n][1]) for n in "XFY")
    assert np.allclose(patches(case, x[1, 0]) @ f[0], y[1, 0], atol=1e-5)


@pytest.mark.exhaustive
def test_a_row_is_measured() -> None:
    cases = tuple(replace(SMALL[name], position=n) for n, name in enumerate(SMALL))
    asked = Campaign(CONVOLUTIONS, cases, CONVOLUTIONS.forms["f32"], "generic-c", ("torch",), seconds=0)
    rows, _ = run_campaign(asked)
    assert [set(row.verified.values()) for row in rows] == [{True}] * len(cases)


def test_help_names_the_types_and_libraries_that_there_are() -> None:
    """They stand in the commands by themselves, for the kinds are loaded only when a command runs."""
    from isamap.bench.kinds import KINDS

    for suite in bench_command.SUITES:
        kind = KINDS[suite.kind]
        assert suite.types == tuple(kind.forms)
        assert suite.libraries == kind.baselines


def test_the_rows_of_a_network_are_those_of_its_suite() -> None:
    cases = conv_cases("mobilenet-conv", "nchw")
    assert [case.shape.flops for case in cases] == [row.flops for row in read_suite("mobilenet-conv")]
