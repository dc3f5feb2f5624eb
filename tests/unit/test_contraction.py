"""Sums of products, also of numbers that are infinite or none, against the sum of each term."""

from __future__ import annotations

import numpy as np
import pytest

from isamap.ir.contraction import sum_of_products

EXTENTS = (3, 4, 2, 5)
SHAPES = (
    ((3, 4, 2, 1), (1, 4, 2, 1), (3, 4, 1, 5)),
    ((3, 1, 2, 1), (1, 4, 1, 5)),
    ((3, 4, 2, 5), (3, 4, 2, 5)),
)
SPECIAL = (0.0, -0.0, np.inf, -np.inf, np.nan)


@pytest.mark.parametrize("shapes", SHAPES)
@pytest.mark.parametrize("seed", range(20))
def test_infinities_are_summed_term_by_term(shapes: tuple[tuple[int, ...], ...], seed: int) -> None:
    rng = np.random.default_rng(seed)
    factors = [rng.integers(-4, 5, size=shape).astype(np.float64) for shape in shapes]
    for factor in factors:
        for _ in range(seed % 4):
            factor.flat[rng.integers(factor.size)] = SPECIAL[rng.integers(len(SPECIAL))]
    with np.errstate(invalid="ignore"):
        product = np.ones(EXTENTS)
        for factor in factors:
            product = product * factor
        expected = product.sum(axis=(1, 2), keepdims=True)
        found = sum_of_products(factors, EXTENTS, frozenset((0, 3)))
    np.testing.assert_array_equal(np.broadcast_to(found, expected.shape), expected)


def test_a_sum_that_meets_an_infinite_factor_is_no_shortcut() -> None:
    """1 and -0, each times infinity: one of them is not a number, and so is their sum."""
    image, filters = np.array([[1.0, -0.0]]), np.array([[np.inf, np.inf]])
    with np.errstate(invalid="ignore"):
        assert np.isnan(
            sum_of_products([image, np.ones((1, 2)), filters[:, :1]], (1, 2), frozenset((0,)))
        ).all()
