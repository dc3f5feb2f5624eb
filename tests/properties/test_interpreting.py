"""The interpreter agrees with one that runs iteration by iteration on exact numbers."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from properties.runnable import OUTPUTS, OUTSIZE, Case, runnable_kernels
from reference import differences, run_reference

from isamap.driver.deviation import find_deviation
from isamap.driver.oracle import expect
from isamap.ir import (
    Measure,
    contraction,
    elements,
    evaluate_samples,
    interpret,
    interpret_magnitude,
    print_routine,
)
from isamap.source import UsageProblem

MEASURES = (
    Measure(),
    Measure(scale=2.0**-21, growth=0.25, cancels=True, mantissa_bits=24),
    Measure(scale=2.0**-9, growth=0.25, mantissa_bits=11, given=frozenset(("A", "B"))),
)
"""Of magnitudes alone, of sums whose signs cancel, and of any sums."""


@given(runnable_kernels())
def test_all_iterations_at_once_are_all_iterations_in_turn(case: Case) -> None:
    expected = run_reference(case.kernel, case.arrays)
    found = interpret(case.kernel, case.arrays, {})
    for name, array in found.items():
        wrong = list(differences(array, expected[name], case.kernel.operand(name).dtype))
        assert not wrong, f"{name}{wrong[:3]}\n{print_routine(case.kernel)}"


@given(runnable_kernels())
def test_cutting_into_boxes_changes_nothing(case: Case) -> None:
    whole = interpret(case.kernel, case.arrays, {})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(contraction, "ELEMENTS", 4)
        pieces_found = interpret(case.kernel, case.arrays, {})
    for name, array in whole.items():
        assert np.array_equal(array, pieces_found[name]), print_routine(case.kernel)


@given(runnable_kernels(ordered=False), st.data())
def test_samples_are_elements_of_the_whole(case: Case, data: st.DataObject) -> None:
    whole = interpret(case.kernel, case.arrays, {}, exact=True)
    measure = data.draw(st.sampled_from(MEASURES))
    magnitudes = interpret_magnitude(case.kernel, case.arrays, {}, measure=measure)
    name = data.draw(st.sampled_from(sorted(OUTPUTS)))
    coordinate = st.tuples(*[st.integers(0, OUTSIZE - 1)] * len(OUTPUTS[name]))
    at = np.array(data.draw(st.lists(coordinate, min_size=1, max_size=20)))
    with contextlib.suppress(UsageProblem), pytest.MonkeyPatch.context() as patch:
        # UsageProblem: a target such as X[2*i + j] is not traced back to iterations
        patch.setattr(elements, "ELEMENTS", data.draw(st.sampled_from((elements.ELEMENTS, 16))))
        values, sizes = evaluate_samples(case.kernel, case.arrays, {}, name, at, measure=measure)
        assert np.array_equal(values, whole[name][tuple(at.T)]), print_routine(case.kernel)
        assert np.allclose(sizes, magnitudes[name][tuple(at.T)], rtol=1e-12), print_routine(case.kernel)


@given(runnable_kernels())
def test_magnitudes_are_not_below_values(case: Case) -> None:
    if not case.kernel.operand("X").dtype.is_float:
        return
    whole = interpret(case.kernel, case.arrays, {}, exact=True)
    for name, magnitude in interpret_magnitude(case.kernel, case.arrays, {}).items():
        assert (magnitude >= np.abs(whole[name]) * (1 - 1e-12)).all()


@given(runnable_kernels(), st.sampled_from(("random", "edges")))
def test_what_the_declared_types_give_is_within_the_bounds(case: Case, fill: str) -> None:
    """Also of sums in narrow types, which the interpreter rounds after each operation."""
    found = interpret(case.kernel, case.arrays, {})
    for name, right in expect(case.kernel, case.arrays, {}, fill).items():
        assert find_deviation(found[name], right).ratio <= 1, print_routine(case.kernel)
