"""Sums at edges of arrays apart: what each part reads, what it computes, and where the padded form stays."""

from __future__ import annotations

import numpy as np
import pytest

from isamap.driver.inputs import named_kernel
from isamap.driver.oracle import expect
from isamap.driver.request import BEST_FORM, Request
from isamap.driver.runnable import prepare
from isamap.driver.verifying import verify_case
from isamap.ir import Kernel, bind, interpret, print_routine
from isamap.run.fills import make_arrays
from isamap.source import Source
from isamap.syntax import parse_kernel
from isamap.transform import edges_apart, statements
from isamap.transform.companions import companions

LINE = """kernel line(P, R, pad: 0..9 = 1) {{
  in X: f32[P + R - 1 - 2*pad];
  in F: f32[R];
  {role} Y: f32[P];
  {start}for p in P, r in R {{ Y[p] += {term}; }}
}}
"""
TERM = "(X[p + r - pad] else 0) * F[r]"


def line(
    term: str = TERM, role: str = "inout", start: str = "", head: str = "kernel", **sizes: int
) -> Kernel:
    text = LINE.format(role=role, start=start, term=term).replace("kernel", head)
    return bind(parse_kernel(Source("line.ir", text)), {"P": 6, "R": 3} | sizes)


def test_a_sum_is_cut_where_its_window_meets_an_edge() -> None:
    cut = edges_apart(line())
    assert cut is not None
    assert cut.steps == ("edges apart: sums into `Y` that meet an edge stand by themselves",)
    assert "for r in 2 { Y[0] += X[r] * F[r + 1]; }" in print_routine(cut.kernel)
    assert "for p in 4, r in 3 { Y[p + 1] += X[p + r] * F[r]; }" in print_routine(cut.kernel)
    assert "for r in 2 { Y[5] += X[r + 4] * F[r]; }" in print_routine(cut.kernel)


def test_what_sets_the_sum_first_is_cut_with_it() -> None:
    cut = edges_apart(line(role="out", start="for p in P { Y[p] = 0; }\n  "))
    assert cut is not None
    assert [str(s.assign.op) for s in statements(cut.kernel)] == ["None", "add"] * 3
    assert [[c.number for c in companions(cut.kernel, n)] for n in (1, 3, 5)] == [[0], [2], [4]]


@pytest.mark.parametrize(
    "kernel",
    [
        line(pad=0),
        line(head="strict kernel"),
        line(term="(X[p + r - pad] else 1) * F[r]"),
        line(term="(X[p + r - pad] else 0) + F[r]"),
        line(P=30, R=11, pad=5),
    ],
    ids=["nothing outside", "strict", "not 0", "no factor", "too many parts"],
)
def test_what_is_not_0_outside_or_comes_to_many_parts_stays(kernel: Kernel) -> None:
    assert edges_apart(kernel) is None


SIZES = {
    "conv2d_nchw": {"N": 2, "C": 3, "K": 4, "H": 6, "W": 7, "R": 3, "S": 3, "stride": 2, "pad": 1},
    "conv2d_nhwc_u8s8": {"N": 1, "C": 3, "K": 4, "H": 5, "W": 6, "R": 3, "S": 3, "stride": 1, "pad": 1},
    "conv2d_nhwc_bf16": {"N": 1, "C": 3, "K": 4, "H": 5, "W": 6, "R": 3, "S": 3, "stride": 1, "pad": 1},
    "conv2d_nhwc_pads": {"N": 1, "C": 3, "K": 4, "H": 5, "W": 6, "R": 3, "S": 2, "top": 1, "right": 1},
    "depthwise": {"N": 2, "C": 3, "H": 6, "W": 5, "R": 3, "S": 3, "pad": 1},
    "conv2d_transposed": {"N": 1, "C": 2, "K": 3, "H": 4, "W": 5, "R": 2, "S": 2},
    "conv1d": {"N": 1, "C": 2, "K": 3, "W": 9, "R": 5, "pad": 2},
}


@pytest.mark.parametrize("name", SIZES)
def test_parts_compute_what_the_sum_does(name: str) -> None:
    kernel = bind(parse_kernel(named_kernel(name)), SIZES[name])
    cut = edges_apart(kernel)
    assert cut is not None
    assert all(s.assign.guard is None for s in statements(cut.kernel))
    arrays = make_arrays(kernel, "integers")
    given = {o.name: arrays[o.name] for o in kernel.operands}
    assert np.array_equal(interpret(cut.kernel, given, {})["Y"], interpret(kernel, given, {})["Y"])


@pytest.mark.parametrize("fill", ["integers", "random", "edges"])
def test_a_depthwise_convolution_copies_nothing(fill: str) -> None:
    sizes = {"N": 1, "C": 8, "H": 12, "W": 12, "R": 3, "S": 3, "pad": 1}
    made = prepare(Request(named_kernel("depthwise"), "generic-c", sizes, transform=BEST_FORM))
    canonical = made.program.compilation.canonical
    assert canonical is not None
    assert [o.name for o in canonical.operands] == ["X", "F", "Y"]
    assert verify_case(made, sizes, fill).ok


def test_what_is_no_number_is_left_open_at_the_edge_alone() -> None:
    kernel = line()
    arrays = {o.name: np.ones([int(s.value or 0) for s in o.shape], np.float32) for o in kernel.operands}
    arrays["F"][0] = np.inf  # times 0 at the first element, times X elsewhere
    arrays["X"][3] = np.nan
    found = expect(kernel, arrays, {}, "edges")["Y"]
    assert np.flatnonzero(np.isnan(found.values)).tolist() == [0, 2, 3, 4]
    assert np.flatnonzero(np.isinf(found.bound) & np.isnan(found.values)).tolist() == [0]
