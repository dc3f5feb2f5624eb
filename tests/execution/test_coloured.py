"""Updates of one colour, around rings and between partners are right in emitted code."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from isamap.driver.request import Request, Size
from isamap.driver.runnable import prepare
from isamap.driver.verifying import all_cases
from isamap.source import Source

_RED_BLACK = """
  x[i + 1, j + 1] = 0.25 * (x[i, j + 1] + x[i + 2, j + 1] + x[i + 1, j] + x[i + 1, j + 2])
    - x[i + 1, j + 1];"""
_NINE = """
  x[i + 1, j + 1] = x[i, j] - 0.5 * x[i + 2, j + 2] + x[i + 1, j] * x[i, j + 1] + x[i + 1, j + 1];"""
# Each kernel with the sizes that are tried: odd ones, even ones, and 1 where a size may be 1.
KERNELS: dict[str, tuple[str, tuple[dict[str, int], ...]]] = {
    "points of one colour of two": (
        f"""k(N, M) {{ inout x: f32[N + 2, M + 2];
          for i in N, j in M if (i + j) % 2 == 0 {{ {_RED_BLACK} }} }}""",
        ({"N": 1, "M": 1}, {"N": 5, "M": 19}, {"N": 6, "M": 32}, {"N": 1, "M": 33}),
    ),
    "one colour after the other": (
        f"""k(T, N, M) {{ inout x: f32[N + 2, M + 2];
          seq t in T {{
            for i in N, j in M if (i + j) % 2 == 0 {{ {_RED_BLACK} }}
            for i in N, j in M if (i + j) % 2 == 1 {{ {_RED_BLACK} }} }} }}""",
        ({"T": 1, "N": 1, "M": 1}, {"T": 3, "N": 5, "M": 17}, {"T": 2, "N": 4, "M": 16}),
    ),
    "points of one colour, stored side by side": (
        """k(N, M) { inout x: f32[N + 2, 2*M + 2];
          for i in N, j in M {
            x[i + 1, 2*j + i % 2 + 1] = x[i, 2*j + i % 2 + 1] - 0.5 * x[i + 2, 2*j + i % 2 + 1]; } }""",
        ({"N": 1, "M": 1}, {"N": 5, "M": 9}, {"N": 4, "M": 16}),
    ),
    "every third point from its neighbours": (
        "k(N) { inout x: f32[N + 2]; for i in N if i % 3 == 1 { x[i + 1] = x[i] - 0.5 * x[i + 2]; } }",
        ({"N": 1}, {"N": 2}, {"N": 31}, {"N": 48}),
    ),
    "three colours, one after the other": (
        """k(T, N) { inout x: i32[N + 2];
          seq t in T, c in 3 {
            for i in N if (i + c) % 3 == 0 { x[i + 1] = x[i] - x[i + 2] + x[i + 1]; } } }""",
        ({"T": 1, "N": 1}, {"T": 2, "N": 17}, {"T": 2, "N": 32}),
    ),
    "points of one colour of four": (
        f"""k(N, M) {{ inout x: f32[N + 2, M + 2];
          for i in N, j in M if i % 2 == 0 & j % 2 == 1 {{ {_NINE} }} }}""",
        ({"N": 1, "M": 1}, {"N": 1, "M": 2}, {"N": 5, "M": 19}, {"N": 4, "M": 32}),
    ),
    "four colours, one after the other": (
        f"""k(N, M) {{ inout x: f32[N + 2, M + 2];
          seq a in 2, b in 2 {{
            for i in N, j in M if (i + a) % 2 == 0 & (j + b) % 2 == 0 {{ {_NINE} }} }} }}""",
        ({"N": 1, "M": 1}, {"N": 3, "M": 17}, {"N": 4, "M": 16}),
    ),
    "points of one colour around a ring": (
        """k(N) where N % 2 == 0 { inout x: f32[N];
          for i in N if i % 2 == 0 { x[i] = x[(i + 1) % N] - 0.5 * x[(i + N - 1) % N]; } }""",
        ({"N": 2}, {"N": 18}, {"N": 64}),
    ),
    "the other half of a ring": (
        "k(N) { inout x: f32[2*N]; for i in 2*N if i < N { x[i] = x[i] - x[(i + N) % (2*N)]; } }",
        ({"N": 1}, {"N": 17}, {"N": 32}),
    ),
    "a ring read all around": (
        """k(N) { in x: f32[N]; out y: f32[N];
          for i in N { y[i] = x[(i + 1) % N] - 0.5 * x[(i + N - 1) % N]; } }""",
        ({"N": 1}, {"N": 19}, {"N": 32}),
    ),
    "partners in blocks of eight": (
        """k(N) where N % 8 == 0 { in x: f32[N]; out y: f32[N];
          for i in N { y[i] = x[i] - x[8 * (i / 8) + (i + 4) % 8]; } }""",
        ({"N": 8}, {"N": 24}, {"N": 64}),
    ),
    "partners of halves in place": (
        """k(N) where N % 8 == 0 { inout x: f32[N];
          for i in N if i % 8 < 4 { x[i] = x[i] - 0.5 * x[8 * (i / 8) + (i + 4) % 8]; } }""",
        ({"N": 8}, {"N": 24}, {"N": 64}),
    ),
    "every other byte from its neighbours": (
        "k(N) { inout x: i8[N + 2]; for i in N if i % 2 == 0 { x[i + 1] = max(x[i], x[i + 2]); } }",
        ({"N": 1}, {"N": 33}, {"N": 128}),
    ),
}
FILLS = ("integers", "random")


def problems(text: str, hw: str, sizes: Mapping[str, Size]) -> list[str]:
    """Return how emitted code differs from the interpreter."""
    request = Request(Source("k.ir", f"kernel {text}"), hw, dict(sizes), heuristic="greedy", cache=False)
    return [d.render() for case in all_cases(prepare(request), FILLS, guard=True) for d in case.problems]


@pytest.mark.exhaustive(fast=6)
@pytest.mark.parametrize("hw", ["generic-c", "x86-avx2"])
@pytest.mark.parametrize(("text", "sizes"), KERNELS.values(), ids=KERNELS.keys())
def test_updates_that_never_meet_are_right(text: str, sizes: tuple[dict[str, int], ...], hw: str) -> None:
    wrong = {str(at): found for at in sizes if (found := problems(text, hw, at))}
    assert wrong == {}


@pytest.mark.exhaustive(fast=2)
@pytest.mark.parametrize(("text", "sizes"), KERNELS.values(), ids=KERNELS.keys())
def test_sizes_that_only_the_run_knows_are_right(text: str, sizes: tuple[dict[str, int], ...]) -> None:
    """Of iterations in order one size serves: after many the bound would say nothing."""
    open_sizes = {name: sizes[-1][name] if name == "T" else f"{low}..70@17" for name, low in sizes[0].items()}
    assert problems(text, "x86-avx2", open_sizes) == []
