"""Rows of padded images that would share sets of the nearest cache lie a line further apart."""

from __future__ import annotations

import pytest

from isamap.driver.formulation import with_row_room
from isamap.ir import bind
from isamap.machine import load_machine
from isamap.machine.cache_sets import uncrowding_bytes
from isamap.source import Source
from isamap.syntax import parse_kernel
from isamap.transform import make_guards_explicit

CONVOLUTION = """
kernel convolution(H, C, K) {
  in X: f32[H, C];
  in F: f32[3, C, K];
  inout Y: f32[H, K];
  for h in H, k in K, r in 3, c in C { Y[h, k] += (X[h + r - 1, c] else 0) * F[r, c, k]; }
}
"""


def shapes(channels: int, machine: str) -> dict[str, tuple[str, ...]]:
    """Return the shapes of a convolution's arrays in canonical form, with room where rows crowd a cache."""
    kernel = parse_kernel(Source("convolution.ir", CONVOLUTION))
    kernel = bind(kernel, {"H": 6, "C": channels, "K": 32})
    found = with_row_room(make_guards_explicit(kernel), kernel, load_machine(machine))
    return {o.name: tuple(map(str, o.shape)) for o in found.operands}


@pytest.mark.parametrize(("channels", "row"), [(256, 272), (512, 528), (64, 64), (272, 272), (250, 250)])
def test_rows_that_crowd_a_cache_get_a_line_of_room(channels: int, row: int) -> None:
    found = shapes(channels, "x86-avx512")
    assert found["X_padded"] == ("8", str(row))
    assert found["X"] == ("6", str(channels))


def test_a_machine_without_caches_has_rows_as_they_are() -> None:
    assert shapes(256, "systolic-16")["X_padded"] == ("8", "256")


def test_open_sizes_leave_rows_as_they_are() -> None:
    kernel = parse_kernel(Source("convolution.ir", CONVOLUTION))
    canonical = make_guards_explicit(kernel)
    assert with_row_room(canonical, kernel, load_machine("x86-avx512")) == canonical


def test_distances_that_reach_few_sets() -> None:
    machine = load_machine("x86-avx512")  # 32 KiB in 8 ways of 64 sets
    found = {row: uncrowding_bytes(row, machine) for row in (512, 1024, 1088, 2048, 3072, 4096, 4100, 0)}
    assert found == {512: 0, 1024: 64, 1088: 0, 2048: 64, 3072: 64, 4096: 64, 4100: 0, 0: 0}
