"""Each row of the table of operations says what is true of the operation, and each name in it leads somewhere."""

from __future__ import annotations

import re
from math import inf, isinf
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from isamap.adjoint.partials import partials
from isamap.graph.operators.aten import POINTWISE
from isamap.graph.operators.elementwise import ELEMENTWISE
from isamap.ir import DTYPES, F64, OPS, Call, Op, Scalar
from isamap.ir.evaluate import Env, evaluate_expr
from isamap.ir.ops import WORDS
from isamap.source import Source
from isamap.syntax import parse_expression

Array = np.ndarray[Any, Any]
FUNCTIONS = [op for op in OPS.values() if op.slope is not None]
UNARY = [op for op in FUNCTIONS if op.arity == 1]


def samples(op: Op, count: int = 401) -> Array:
    """Return numbers of which an operation has a result, the ends of what it takes left out."""
    low, high = (float(np.clip(end, -6, 6)) for end in op.takes)
    return np.linspace(low, high, count + 2)[1:-1]


def operands(op: Op) -> list[Array]:
    x = samples(op)
    return [x] if op.arity == 1 else [x, np.random.default_rng(1).permutation(x) + 0.01]


def named(op: Op) -> str:
    return op.name


def values(text: str, given: list[Array]) -> Array:
    """Return what the interpreter makes of a text over numbers `a` and `b`."""
    scalars = dict(zip("ab", given, strict=False))
    e = parse_expression(Source("k.ir", text), dict.fromkeys(scalars, F64))
    return evaluate_expr(e, Env(scalars=scalars, exact=True))


def derivatives(op: Op, given: list[Array]) -> list[Array]:
    """Return the derivative by each operand, as gradients have it."""
    params = [Scalar(name, F64) for name in "ab"[: op.arity]]
    found = partials(Call(op.name, tuple(params), F64), Scalar("w", F64), lambda name: name != "w")
    scalars = {**dict(zip("ab", given, strict=False)), "w": np.ones(())}
    return [evaluate_expr(found[p], Env(scalars=scalars, exact=True)) for p in params]


@pytest.mark.parametrize("op", FUNCTIONS, ids=named)
def test_a_derivative_is_that_of_small_differences(op: Op) -> None:
    given, h = operands(op), 1e-6
    for n, mine in enumerate(derivatives(op, given)):
        above, below = ([x + (k == n) * d for k, x in enumerate(given)] for d in (h, -h))
        measured = (op.compute(*above) - op.compute(*below)) / (2 * h)
        smooth = (np.abs(mine) < 1e3) & (np.abs(measured) < 1e3)  # no pole, no cut lies between
        assert smooth.mean() > 0.95
        np.testing.assert_allclose(mine[smooth], measured[smooth], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("op", FUNCTIONS, ids=named)
@pytest.mark.parametrize("error", [0.0, 1e-9])
def test_a_slope_is_the_size_of_the_derivative_and_no_less_within_a_small_error(op: Op, error: float) -> None:
    given = operands(op)
    errors = [np.full(x.shape, error) for x in given]
    assert op.slope is not None
    slopes = op.slope(given, errors) if op.arity > 1 else [op.slope(given[0], errors[0])]
    for mine, slope in zip(derivatives(op, given), slopes, strict=True):
        assert (slope >= np.abs(mine) * (1 - 1e-6) - 1e-12).all()
        if op.name not in ("sin", "cos"):  # 1 wherever they are
            np.testing.assert_allclose(slope, np.abs(mine), rtol=1e-5, atol=1e-9)


@pytest.mark.parametrize("op", FUNCTIONS, ids=named)
def test_results_lie_in_the_image_and_numbers_beyond_have_none(op: Op) -> None:
    far = np.array([1e-300, 1e300, -1e300, inf, -inf, 0.0, *op.takes])
    x = np.concatenate([samples(op), far[(op.takes[0] <= far) & (far <= op.takes[1])]])
    with np.errstate(all="ignore"):
        found = op.compute(x) if op.arity == 1 else op.compute(x[:, None], x)
        assert np.nanmin(found) >= op.image[0]
        assert np.nanmax(found) <= op.image[1]
        beyond = [x for x in (op.takes[0] - 0.01, op.takes[1] + 0.01) if not isinf(x)]
        assert np.isnan([op.compute(x) for x in beyond]).all()


@pytest.mark.parametrize(
    "op", [op for op in OPS.values() if op.arity == 1 and op.domain == "float"], ids=named
)
def test_a_function_rises_or_falls_as_its_row_says(op: Op) -> None:
    steps = np.diff(op.compute(samples(op), *op.modes[:1]))
    found = "rising" if (steps >= 0).all() else "falling" if (steps <= 0).all() else None
    assert op.monotone == found


@pytest.mark.parametrize(
    "op", [op for op in OPS.values() if op.domain == "float" and not op.modes], ids=named
)
def test_only_a_function_that_saturates_takes_an_overflow_for_the_number_beyond(op: Op) -> None:
    f32 = DTYPES["f32"]
    with np.errstate(all="ignore"):
        same = [
            np.array_equal(*(np.float32(op.compute(*[v] * op.arity)) for v in (x, x * inf)), equal_nan=True)
            for x in (2 * f32.largest, -2 * f32.largest)
        ]
    assert op.saturates == (all(same) and op.takes != (-1, 1))


@pytest.mark.parametrize("op", [op for op in OPS.values() if op.interval is not None], ids=named)
def test_an_interval_holds_the_results_of_all_numbers_in_it(op: Op) -> None:
    rng = np.random.default_rng(5)
    assert op.interval is not None
    for _ in range(200):
        ends = np.sort(rng.integers(-9, 9, size=(2, op.arity)), axis=0)
        if op.name == "select":
            ends[:, 0] = 0, 1
        low, high = (tuple(int(x) for x in row) for row in ends)
        if (found := op.interval(low, high)) is None:
            continue
        grid = np.meshgrid(*(np.arange(a, b + 1) for a, b in zip(low, high, strict=True)))
        result = op.compute(*(grid[:1] if op.name != "popcount" else [grid[0].astype(np.uint64)]), *grid[1:])
        assert found[0] <= result.min()
        assert result.max() <= found[1]


def test_words_of_modes_are_the_operation_in_the_mode() -> None:
    x = np.array([-1.5, -0.5, 0.5, 2.5])
    assert {word: values(f"{word}(a)", [x]).tolist() for word in WORDS} == {
        "floor": [-2, -1, 0, 2], "ceil": [-1, 0, 1, 3], "trunc": [-1, 0, 0, 2],
    }  # fmt: skip


def test_names_of_onnx_and_of_torch_are_operators_that_are_taken() -> None:
    onnx: Any = pytest.importorskip("onnx")
    torch: Any = pytest.importorskip("torch")
    for op in OPS.values():
        for name in filter(None, op.onnx):
            assert onnx.defs.has(name), name
            assert name in ELEMENTWISE
        for name in filter(None, op.aten):
            assert hasattr(torch.ops.aten, name), name
            forms = getattr(torch.ops.aten, name).overloads()
            assert any(f"{name}.{form}" in POINTWISE for form in forms), name
    new = ("Atan", "Tan", "Sinh", "Cosh", "Asin", "Acos", "Floor", "Ceil", "Round", "Softplus")
    assert {*new} <= {name for op in OPS.values() for name in op.onnx}
    assert {f"{name.lower()}.default" for name in new} <= POINTWISE.keys()


def test_the_reference_says_of_each_function_how_exact_it_is() -> None:
    text = (Path(__file__).parents[2] / "docs" / "language.md").read_text(encoding="utf-8")
    table = text[text.index("### Functions") : text.index("### Definitions")]
    for op in OPS.values():
        if op.spelling is None:
            (line,) = [line for line in table.splitlines() if re.search(rf"\| .*`{op.name}[`(].*\|", line)]
            assert f"within {op.ulp:g} units" in line or not op.ulp, op.name
    assert all(f"`{word}(x)`" in table for word in WORDS)
