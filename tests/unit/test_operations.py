"""How many arithmetic operations a kernel performs: what GFLOP/s count, pinned for every shipped kernel."""

from __future__ import annotations

from pathlib import Path

import pytest

from isamap.driver.inputs import read_kernel
from isamap.driver.oracle import count_operations
from isamap.driver.verifying import Case, TimedRun
from isamap.ir import bind
from isamap.ir.small_sizes import sample_sizes
from isamap.kernels import list_kernels
from isamap.source import Source
from isamap.syntax import parse_kernel

PINNED = Path(__file__).parent.parent / "data" / "operations.txt"


def counted(body: str, **sizes: int) -> int:
    return count_operations(bind(parse_kernel(Source("k.ir", body)), sizes))


def test_the_operations_of_shipped_kernels_are_these(pytestconfig: pytest.Config) -> None:
    lines: list[str] = []
    for name in list_kernels():
        kernel = parse_kernel(read_kernel(name))
        *_, sizes = sample_sizes(kernel, count=3)
        sizes = {p.name: sizes[p.name] for p in kernel.params if p.dtype is None}
        shown = " ".join(f"{size}={value}" for size, value in sizes.items())
        lines.append(f"{name:<40} {count_operations(bind(kernel, sizes)):>8}  {shown}\n")
    if pytestconfig.getoption("update_snapshots"):
        PINNED.write_text("".join(lines), encoding="utf-8")
    assert PINNED.read_text(encoding="utf-8") == "".join(lines)


def test_unpacking_of_weights_is_no_arithmetic() -> None:
    kernel = bind(parse_kernel(read_kernel("gemm_w4_f32")), {"M": 3, "N": 5, "G": 2, "H": 16})
    assert count_operations(kernel) == 2 * 3 * 5 * (2 * 16 * 2)


def test_a_factor_that_several_iterations_share_is_no_arithmetic() -> None:
    text = """kernel k(M, N, K, scalar s: f32) { in A: f32[M, K]; in B: f32[K, N]; inout C: f32[M, N];
      for m in M, n in N, k in K { C[m, n] += (s * A[m, k]) * B[k, n]; } }"""
    assert counted(text, M=2, N=3, K=4) == 2 * 2 * 3 * 4


def test_what_depends_on_all_loops_counts() -> None:
    text = """kernel k(M, N) { in x: f32[M, N]; in top: f32[M]; inout y: f32[M];
      for m in M, n in N { y[m] += exp(x[m, n] - top[m]); } }"""
    assert counted(text, M=5, N=7) == 3 * 5 * 7


@pytest.mark.parametrize(("seconds", "busy"), [((1.0, 1.1, 1.2), False), ((1.0, 4.0, 4.1), True)])
def test_a_median_far_above_the_best_run_says_that_the_computer_is_busy(
    seconds: tuple[float, ...], busy: bool
) -> None:
    case = Case({}, "random", 0.0, 1.0, "native", "all elements", guarded=True)
    assert TimedRun(case, seconds, 1, True, 0).is_busy is busy
