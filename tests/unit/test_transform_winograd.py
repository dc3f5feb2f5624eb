"""Convolutions computed at points: matrices proved exactly, equal results for all sizes, and what is left alone."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from onnx_models import Described, computed, imported, make
from unit.rewriting import kernel, shipped

from isamap.cli import main
from isamap.driver.matching import forms_at_points as forms_of_sizes
from isamap.driver.oracle import expect, expect_rounded
from isamap.graph.filters_at_points import cheapest_forms, forms_at_points, with_forms
from isamap.graph.model_library import ModelOptions, refuse_both
from isamap.graph.model_program import KernelCall
from isamap.ir import Kernel, Range, bind, interpret, verify
from isamap.source import Source, UsageProblem
from isamap.syntax import parse_kernel
from isamap.transform.winograd import derive_filtering, is_filtering, split_ahead, winograd_forms

KINDS = [(count, taps) for count in range(1, 6) for taps in range(1, 6) if count + taps <= 7]


@pytest.mark.parametrize(("count", "taps"), KINDS)
def test_a_derived_filtering_is_proved_for_all_data(count: int, taps: int) -> None:
    found = derive_filtering(count, taps)
    assert found is not None
    assert len(found.image) == count + taps - 1
    assert is_filtering(found)


@pytest.mark.parametrize("name", ["results", "filters", "image"])
def test_the_proof_fails_for_each_wrong_number(name: str) -> None:
    found = derive_filtering(4, 3)
    assert found is not None
    matrix = getattr(found, name)
    for row, numbers in enumerate(matrix):
        for column, number in enumerate(numbers):
            wrong = [list(one) for one in matrix]
            wrong[row][column] = number + Fraction(1, 1000)
            assert not is_filtering(replace(found, **{name: tuple(map(tuple, wrong))})), (row, column)


def test_more_points_than_are_known_give_no_filtering() -> None:
    assert derive_filtering(4, 4) is None


def of_two(
    h: int, w: int, pad: int, *, batch: int = 1, taps: tuple[int, int] = (3, 3), dtype: str = "f32"
) -> Kernel:
    """Return a convolution of rows and columns with a bias and a maximum, as networks have them."""
    r, s = taps
    p, q = h + 2 * pad - r + 1, w + 2 * pad - s + 1
    at = f"p + r - {pad}, q + s - {pad}" if pad else "p + r, q + s"
    pixel = f"(X[n, {at}, c] else 0)" if pad else f"X[n, {at}, c]"
    out = f"for n in {batch}, p in {p}, q in {q}, k in 4"
    return parse_kernel(
        Source(
            "convolution",
            f"""kernel convolution() {{
  in X: {dtype}[{batch}, {h}, {w}, 3]; in F: {dtype}[{r}, {s}, 3, 4]; in b: {dtype}[4];
  out Y: {dtype}[{batch}, {p}, {q}, 4]; temp S: {dtype}[{batch}, {p}, {q}, 4];
  {out} {{ S[n, p, q, k] = b[k]; }}
  {out}, r in {r}, s in {s}, c in 3 {{ S[n, p, q, k] += {pixel} * F[r, s, c, k]; }}
  for i in {batch}, p in {p}, q in {q}, f in 4 {{ Y[i, p, q, f] = max(S[i, p, q, f], 0); }}
}}""",
        )
    )


def arrays_of(routine: Kernel) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(3)
    return {
        o.name: rng.standard_normal([e.value or 0 for e in o.shape]).astype(o.dtype.numpy())
        for o in routine.operands
        if o.role in ("in", "inout")
    }


SIZES = [
    of_two(8, 8, 1),
    of_two(7, 9, 1),
    of_two(6, 5, 0, batch=3),
    of_two(5, 4, 0),
    of_two(9, 8, 1, taps=(3, 2)),
    of_two(9, 8, 0, taps=(1, 3)),
    of_two(8, 9, 2, taps=(3, 1)),
    of_two(7, 7, 1, dtype="f64"),
    kernel(
        "in X: f32[2, 3, 11]; in F: f32[4, 3, 3]; inout Y: f32[2, 4, 9]; ",
        "for n in 2, k in 4, p in 9, c in 3, r in 3 { Y[n, k, p] += F[k, c, r] * X[n, c, p + r]; }",
        "",
    ),
]


@pytest.mark.parametrize("routine", SIZES)
def test_results_at_points_are_those_of_the_sum(routine: Kernel) -> None:
    forms, given = winograd_forms(routine), arrays_of(routine)
    assert forms
    for form in forms:
        assert not verify(form.kernel)
        assert form.rounded == form.kernel
        expected, found = (interpret(k, given, {}, exact=True)["Y"] for k in (routine, form.kernel))
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)


def test_an_image_with_room_for_all_tiles_is_read_without_fills() -> None:
    def fills(routine: Kernel) -> list[int]:
        return [str(form.kernel).count("fill=Const") for form in winograd_forms(routine)]

    assert fills(of_two(6, 6, 0)) == [0, 0]
    assert all(fills(of_two(6, 6, 1)))


STRIDE_1 = "Y[p, k] += X[p + r, c] * F[r, c, k]"


@pytest.mark.parametrize(
    ("what", "sizes", "loops", "statement"),
    [
        ("a strict kernel", "9, 3|3, 3, 4|7, 4", "p in 7, k in 4, r in 3, c in 3", STRIDE_1),
        ("a stride of 2", "9, 3|3, 3, 4|4, 4", "p in 4, k in 4, r in 3, c in 3", STRIDE_1.replace("p +", "2*p +")),
        ("a dilation of 2", "9, 3|3, 3, 4|5, 4", "p in 5, k in 4, r in 3, c in 3", STRIDE_1.replace("+ r", "+ 2*r")),
        ("groups", "9, 2, 3|3, 2, 3, 4|7, 2, 4", "p in 7, g in 2, k in 4, r in 3, c in 3",
         "Y[p, g, k] += X[p + r, g, c] * F[r, g, c, k]"),
        ("one channel", "9|3, 4|7, 4", "p in 7, k in 4, r in 3", "Y[p, k] += X[p + r] * F[r, k]"),
        ("narrow sums", "9, 3|3, 3, 4|7, 4", "p in 7, k in 4, r in 3, c in 3", STRIDE_1),
        ("a product", "9, 3|3, 4|9, 4", "p in 9, k in 4, c in 3", "Y[p, k] += X[p, c] * F[c, k]"),
        ("too many taps", "13, 3|7, 3, 4|7, 4", "p in 7, k in 4, r in 7, c in 3", STRIDE_1),
    ],
)  # fmt: skip
def test_other_sums_stay(what: str, sizes: str, loops: str, statement: str) -> None:
    dtype = "f16" if what == "narrow sums" else "f32"
    x, f, y = sizes.split("|")
    operands = f"in X: {dtype}[{x}]; in F: {dtype}[{f}]; inout Y: {dtype}[{y}];"
    word = "strict kernel" if what == "a strict kernel" else "kernel"
    assert not winograd_forms(kernel(operands, f"for {loops} {{ {statement}; }}", word=word))


def test_filters_are_split_from_what_images_need() -> None:
    routine = of_two(7, 7, 1)
    given = arrays_of(routine)
    for form in winograd_forms(routine):
        split = split_ahead(form.kernel, (form.filters,))
        assert split is not None
        ahead, rest = split
        assert {o.name for o in ahead.operands if o.role == "in"} == {"F"}
        made = interpret(ahead, {"F": given["F"]}, {}, exact=True)
        others = {n: a for n, a in given.items() if n != "F"}
        found = interpret(
            rest, {**others, **{n: a.astype(np.float32) for n, a in made.items()}}, {}, exact=True
        )
        expected = interpret(routine, given, {}, exact=True)
        np.testing.assert_allclose(found["Y"], expected["Y"], rtol=0, atol=1e-4)


def test_errors_are_bounded_by_the_kernel_that_computes_at_points() -> None:
    routine = of_two(9, 9, 1)
    form, given = winograd_forms(routine)[1], arrays_of(routine)
    plain = expect(routine, given, {}, "random")["Y"]
    bounded = expect_rounded(routine, form.kernel, given, {}, "random")["Y"]
    assert np.array_equal(plain.values, bounded.values)
    errors = np.abs(interpret(form.kernel, given, {})["Y"] - plain.values)
    assert np.any(errors > plain.bound)
    assert np.all(errors <= bounded.bound)
    assert np.max(bounded.bound) < 1e-3 * np.max(np.abs(plain.values))


def test_an_infinity_leaves_only_the_results_of_its_tiles_open() -> None:
    routine = of_two(10, 10, 0)
    form, given = winograd_forms(routine)[1], arrays_of(routine)
    given["X"][0, 2, 2, 0] = np.inf
    bounded = expect_rounded(routine, form.kernel, given, {}, "edges")["Y"]
    is_open = np.isinf(bounded.bound[0])
    assert np.any(is_open[:4, :4])
    assert not np.any(is_open[4:])
    assert not np.any(is_open[:, 4:])


@pytest.mark.parametrize("last", ["w1", "w0"], ids=["own filters", "filters that two kernels share"])
def test_a_model_reads_filters_at_points_once_they_are_cheaper(last: str) -> None:
    rng = np.random.default_rng(0)
    w = {f"w{n}": rng.standard_normal((64, 64, 3, 3)).astype(np.float32) for n in range(2)}
    x = rng.standard_normal((1, 64, 12, 12)).astype(np.float32)
    same = {"pads": [1, 1, 1, 1]}
    nodes: Described = [
        ("Conv", ["x", "w0"], ["y"], same),
        ("Relu", ["y"], ["z"], {}),
        ("Conv", ["z", last], ["o"], same),
    ]
    program = imported(make(nodes, {"x": x}, ["o"], w)).whole()
    forms = forms_at_points(program)
    assert len(forms) == 2
    free = dict.fromkeys(forms, 3.0) | {form.name: 4.0 for of in forms.values() for form in of}
    assert not cheapest_forms(forms, free)
    free |= {of[1].name: 2.0 for of in forms.values()}
    chosen = cheapest_forms(forms, free)
    made = with_forms(program, chosen)
    read = [
        passed.tensor for step in made.steps if isinstance(step, KernelCall) for passed in step.reads.values()
    ]
    at_points = made.constants.keys() - program.constants.keys()
    assert len([tensor for tensor in read if tensor in at_points]) == len(at_points) == 2
    calls = [step for step in made.steps if isinstance(step, KernelCall)]
    assert {step.kernel for step in calls} >= {form.name for form in chosen.values()}
    assert not forms.keys() & {step.kernel for step in calls}
    (found,), (expected,) = computed(made, {"x": x}, {}), computed(program, {"x": x}, {})
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-2)
    assert not np.array_equal(found, expected)


SHIPPED = {"N": 1, "C": 64, "K": 64, "H": 56, "W": 56, "R": 3, "S": 3, "stride": 1, "pad": 1}


@pytest.mark.parametrize(
    ("sizes", "count"),
    [
        ({}, 2),
        ({"stride": 2}, 0),
        ({"C": 4, "K": 4}, 0),  # passes over the image take longer than the products that are spared
        ({"R": 1, "S": 1, "pad": 0}, 0),
        ({"H": Range(8, 64)}, 0),
    ],
)
def test_a_shipped_convolution_is_offered_at_points_where_that_may_pay(
    sizes: dict[str, int | Range], count: int
) -> None:
    routine = shipped("conv2d_nhwc")
    forms = forms_of_sizes(routine, {**SHIPPED, **sizes})
    assert len(forms) == count
    assert all(form.kernel.params == routine.params for form in forms)
    assert all(bind(form.kernel, {**SHIPPED, **sizes}).body == form.kernel.body for form in forms)


def test_a_model_with_a_host_or_with_a_number_is_not_rewritten(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(UsageProblem, match="for a model on one machine"):
        refuse_both(ModelOptions("edge-npu", host="generic-c", transform=True))
    assert main(["compile", "some.onnx", "--hw", "x86-avx2", "--transform", "3"]) == 2
    assert "a variant of one kernel, and a model has many" in capsys.readouterr().err
