"""Rows on machines that this computer cannot run: kernels, what counts as right, what they come to."""

from __future__ import annotations

import json
from dataclasses import replace
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from isamap.bench import simulated_suite as simulated
from isamap.bench.cases import S8, SIMULATED_FORMS
from isamap.bench.convolution_cases import ConvCase, conv_cases
from isamap.bench.layer_kinds import CONVOLUTION_LAYERS, PRODUCT_LAYERS, LayerKind, shapes_read, with_margin
from isamap.bench.product_cases import GemmCase, transformer_cases
from isamap.bench.simulated_suite import (
    MOST_CHECKED,
    SimulatedCampaign,
    SimulatedRow,
    SimulatedRules,
    run_simulated,
    simulate_row,
    simulated_csv,
    simulated_table,
    simulated_text,
    summarise_simulated,
)
from isamap.ir import bind, interpret
from isamap.source import Diagnostic, UsageProblem
from isamap.syntax import parse_kernel

PRODUCT = GemmCase(0, "small", 40, 6, 70, True, False)
BATCH = replace(PRODUCT, batch=2, a_transposed=False, b_transposed=True)
IMAGE = ConvCase(0, "small", "nhwc", 2, 3, 6, 7, 4, 3, 3, 2, 2, 1, 1, 1)
DEEP = replace(IMAGE, c=4, groups=4, stride_h=1, stride_w=1)
KINDS: list[tuple[LayerKind[Any], Any]] = [
    (PRODUCT_LAYERS, PRODUCT),
    (PRODUCT_LAYERS, BATCH),
    (CONVOLUTION_LAYERS, IMAGE),
    (CONVOLUTION_LAYERS, DEEP),
]
NAMES = ["product", "batch", "convolution", "depthwise"]


@pytest.mark.parametrize("dtype", ["int8", "int8-sums"])
@pytest.mark.parametrize(("kind", "case"), KINDS, ids=NAMES)
def test_the_interpreter_computes_what_counts_as_right(kind: LayerKind[Any], case: Any, dtype: str) -> None:
    form, lies = SIMULATED_FORMS[dtype], kind.laid_out(case)
    kernel = bind(parse_kernel(kind.source(lies, form, 0)), case.bindings)
    arrays = {name: array for name, (_, array) in kind.values(lies, form).items()}
    given = {name: array for name, array in arrays.items() if name != kind.result}
    arrays[kind.result] = interpret(kernel, given, {})[kind.result].astype(arrays[kind.result].dtype)
    assert kind.is_right(lies, form, arrays)
    if form is S8:
        assert len(np.unique(arrays[kind.result])) > 40, "most bytes are no ends of their range"
    arrays[kind.result].flat[5] ^= 1
    assert not kind.is_right(lies, form, arrays)


def test_images_lie_with_their_margins_and_keep_their_pixels() -> None:
    for case in (*conv_cases("resnet50-conv", "nhwc"), *conv_cases("mobilenet-conv", "nhwc")):
        lies = with_margin(case)
        assert (lies.shape.p, lies.shape.q, lies.operations) == (case.shape.p, case.shape.q, case.operations)
        assert lies.pad_h == lies.pad_w == 0


def test_of_an_image_only_what_filters_meet_is_counted() -> None:
    sizes = {case.label: prod(shapes_read(case)["X"]) for case in conv_cases("resnet50-conv", "nhwc")}
    assert sizes["1x256x56x56 * 512x1x1 s2 p0 nhwc"] == 256 * 28 * 28
    assert sizes["1x256x56x56 * 64x1x1 s1 p0 nhwc"] == 256 * 56 * 56
    assert sizes["1x3x224x224 * 64x7x7 s2 p3 nhwc"] == 3 * 224 * 224


def test_smaller_copies_come_to_an_end() -> None:
    rows: list[tuple[LayerKind[Any], Any]] = [(PRODUCT_LAYERS, case) for case in transformer_cases()]
    rows += [(CONVOLUTION_LAYERS, case) for case in conv_cases("deepbench-conv", "nhwc")]
    for kind, case in rows:
        small = case
        while small.operations > MOST_CHECKED:
            smaller = kind.smaller(small)
            assert 0 < smaller.operations < small.operations
            small = smaller


ROW = SimulatedRow(
    0, "ResNet-50", "convolution", "1x64x56x56", "1x1", {"n": 1}, "s8", 1000, "edge-npu", "stream", 7,
    200.0, 190.0, 180.0, 100.0, 150.0, {"load": 120.0}, True, "in full", 1.5,
)  # fmt: skip


def test_rows_go_through_json_and_back() -> None:
    assert SimulatedRow.from_json(json.loads(json.dumps(ROW.as_json()))) == ROW
    assert (ROW.roof_ns, ROW.bound_by) == (150.0, "memory")
    assert replace(ROW, array_ns=150.0).bound_by == "array"
    assert replace(ROW, machine="gemmini").key != ROW.key
    older = {key: value for key, value in ROW.as_json().items() if key != "warnings"}
    assert SimulatedRow.from_json(older) == ROW


def test_means_are_those_of_rows_with_times() -> None:
    slow = replace(ROW, case=1, simulated_ns=800.0, analytic_ns=400.0)
    gone = replace(ROW, case=2, simulated_ns=0.0, left_out="no instruction")
    summary = summarise_simulated([ROW, slow, gone])
    assert (summary.rows, summary.left_out) == (2, 1)
    assert summary.of_roofline == pytest.approx((0.75 * 150 / 800) ** 0.5)
    assert summary.predicted == pytest.approx((0.95 * 0.5) ** 0.5)
    assert summary.error == pytest.approx((2 / 0.95) ** 0.5 - 1)
    assert summary.furthest is slow
    assert [row.case for row in summary.worst] == [1, 0]
    warned = replace(slow, warnings="the solver ended")
    text = f"{simulated_table([ROW, warned, gone], 'images')}\n{simulated_text(summary)}"
    assert "warnings:\n   1  1x64x56x56: the solver ended\n" in text
    assert "   2  1x64x56x56: no instruction" in text
    assert "geometric mean of 2 rows: 38 %; least: 19 % (row 1), 75 % (row 0)" in text
    assert "furthest 0.50 (row 1)" in text
    assert len(simulated_csv([ROW, slow, gone]).splitlines()) == 4
    assert simulated_text(summarise_simulated([gone])) == "no row has a time"


RULES = SimulatedRules("edge-npu", 5.0)


@pytest.mark.exhaustive(fast=1)
@pytest.mark.parametrize(("kind", "case"), [KINDS[2], KINDS[1]], ids=["convolution", "batch"])
def test_a_row_is_compiled_checked_and_simulated(kind: LayerKind[Any], case: Any) -> None:
    row = simulate_row(kind, case, S8, RULES)
    assert (row.left_out, row.is_right, row.checked) == ("", True, "in full")
    assert row.simulated_ns >= row.roof_ns > 0
    assert row.instructions > 0
    assert row.array_ns == pytest.approx(row.operations / 2048), "32 x 32 cells, two operations each"
    assert max(row.busy_ns.values()) <= row.simulated_ns


def test_a_row_says_what_was_warned_of(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = vars(simulated)["_compile_case"]

    def warning(*given: Any) -> Any:
        kernel, made = compiled(*given)
        found = (Diagnostic("solver-failed", "the solver ended", severity="warning"),)
        assert made.schedule is not None
        return kernel, replace(made, schedule=replace(made.schedule, findings=found))

    assert simulate_row(*KINDS[1], S8, RULES).warnings == ""
    monkeypatch.setattr(simulated, "_compile_case", warning)
    row = simulate_row(*KINDS[1], S8, RULES)
    assert (row.left_out, row.warnings) == ("", "the solver ended")


@pytest.mark.exhaustive
def test_a_row_that_is_too_large_to_run_is_checked_on_a_smaller_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("isamap.bench.simulated_suite.MOST_CHECKED", 20_000)
    row = simulate_row(PRODUCT_LAYERS, PRODUCT, S8, RULES)
    assert (row.is_right, row.checked) == (True, "40x6x35 TN")


def test_what_the_machine_cannot_do_is_named() -> None:
    row = simulate_row(PRODUCT_LAYERS, PRODUCT, SIMULATED_FORMS["bf16"], RULES)
    assert "edge-npu" in row.left_out
    assert row.simulated_ns == 0


def test_rows_are_kept_and_not_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []

    def simulated(_: object, case: ConvCase, *__: object) -> SimulatedRow:
        made.append(case.position)
        return replace(ROW, case=case.position, suite=case.suite, label=case.label)

    monkeypatch.setattr("isamap.bench.simulated_suite.simulate_row", simulated)
    cases = conv_cases("resnet50-conv", "nhwc")[:3]
    asked = SimulatedCampaign(CONVOLUTION_LAYERS, cases, S8, "edge-npu", folder=tmp_path / "rows", minutes=0)
    rows, _ = run_simulated(asked)
    assert [row.left_out for row in rows] == ["not reached within 0 minutes"] * 3
    rows, where = run_simulated(replace(asked, minutes=None, resume=True))
    again, _ = run_simulated(replace(asked, minutes=0, resume=True))
    assert again == rows, "rows that are known cost no time"
    assert made == [0, 1, 2]
    assert where["machine"] == "edge-npu"
    with pytest.raises(UsageProblem, match="exists already"):
        run_simulated(asked)
