"""Lanes that sum over a short axis and the next one, whether the short one is shorter or longer than a register."""

from __future__ import annotations

from pathlib import Path

import pytest

from isamap import verify
from isamap.machine import load_machine, missing_features


@pytest.mark.parametrize("length", [2, 4, 8])
def test_sums_over_two_axes_are_right(length: int, tmp_path: Path) -> None:
    """A register has four numbers: with eight of the short axis, it holds only a part of them."""
    if lacking := missing_features(load_machine("x86-avx2")):
        pytest.skip(f"this processor lacks {lacking[0]}")
    path = tmp_path / "k.ir"
    path.write_text(
        f"kernel k(M, K) {{ in A: f64[M, K, {length}]; in x: f64[K, {length}]; inout y: f64[M];"
        f" for m in M, k in K, h in {length} {{ y[m] += A[m, k, h] * x[k, h]; }} }}"
    )
    cases = verify(path, "x86-avx2", {"M": 5, "K": 13}, heuristic="greedy")
    assert [case.ok for case in cases] == [True] * 3
