"""Conditions bound the loops of a block, and of the statements that fill what it reads."""

from __future__ import annotations

import numpy as np
import pytest

from isamap.ir import Kernel, bind, interpret, verify
from isamap.run.fills import make_arrays
from isamap.source import Source
from isamap.syntax import parse_kernel
from isamap.transform import Blocks, bound_loops_in_blocks, in_blocks, make_guards_explicit, statements

ATTENTION = """{strict} kernel k(M, N, D) where M <= N {{
  in Q: f32[M, D]; in K: f32[N, D]; in V: f32[N, D]; out O: f32[M, D];
  temp S: f32[M, N]; temp top: f32[M]; temp total: f32[M];
  for m in M, n in N {{ S[m, n] = 0; }}
  for m in M, n in N, d in D {{ S[m, n] += Q[m, d] * K[n, d]; }}
  for m in M, n in N {{ S[m, n] = select({seen}, S[m, n], {masked}); }}
  for m in M {{ top[m] = -inf; }}
  for m in M, n in N {{ top[m] max= S[m, n]; }}
  for m in M, n in N {{ S[m, n] = exp(S[m, n] - top[m]); }}
  for m in M {{ total[m] = 0; }}
  for m in M, n in N {{ total[m] += S[m, n]; }}
  for m in M, d in D {{ O[m, d] = 0; }}
  for m in M, d in D, n in N {{ O[m, d] += S[m, n] * V[n, d]; }}
  for m in M, d in D {{ O[m, d] = O[m, d] / total[m]; }}
}}"""


def blocked(seen: str, masked: str = "-inf", strict: str = "", block: int = 4) -> tuple[Kernel, Kernel]:
    """Return attention under a mask, and the same in blocks of so many queries."""
    text = ATTENTION.format(seen=seen, masked=masked, strict=strict)
    kernel = bind(parse_kernel(Source("k.ir", text)), {"M": 12, "N": 20, "D": 3})
    return kernel, in_blocks(make_guards_explicit(kernel), [Blocks("m", block)])


def lengths(kernel: Kernel) -> set[str]:
    """Return how far loops over `n` go."""
    return {str(a.extent) for s in statements(kernel) for a in s.axes if a.name == "n"}


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        ("n <= m + N - M", {"4*m_block + 12"}),
        ("n <= m + N - M & n > m + N - M - 5", {"8"}),
        ("m + n < N", {"-4*m_block + 20"}),
        ("n <= 2*m", {"min(20, 8*m_block + 7)"}),
    ],
)
def test_every_statement_ends_where_the_mask_of_the_block_does(seen: str, expected: set[str]) -> None:
    kernel, cut = blocked(seen)
    found = bound_loops_in_blocks(cut)
    assert lengths(cut) == {"20"}
    assert lengths(found) == expected
    assert verify(found) == ()
    arrays = make_arrays(kernel, "random")
    want, got = (interpret(k, arrays, {})["O"] for k in (kernel, found))
    assert np.allclose(want, got, rtol=1e-5)


@pytest.mark.parametrize(
    ("seen", "masked", "strict"),
    [
        ("n <= m + N - M", "-inf", "strict"),
        ("n <= m + N - M", "-3.0", ""),
        ("n <= m + N - M | n < 2", "-inf", ""),
        ("n < N - 3", "-inf", ""),
    ],
    ids=["strict", "what is masked counts", "a union", "no condition of the block"],
)
def test_loops_stay_as_long_as_terms_count(seen: str, masked: str, strict: str) -> None:
    _, cut = blocked(seen, masked, strict)
    assert bound_loops_in_blocks(cut) == cut


def test_a_temporary_that_is_read_whole_is_filled_whole() -> None:
    text = ATTENTION.format(seen="n <= m + N - M", masked="-inf", strict="")
    text = text.replace(
        "for m in M { total[m] = 0; }",
        "for m in M, n in N { W[m, n] = S[m, n]; } for m in M { total[m] = 0; }",
    )
    text = text.replace("out O: f32[M, D];", "out O: f32[M, D]; out W: f32[M, N];")
    kernel = bind(parse_kernel(Source("k.ir", text)), {"M": 12, "N": 20, "D": 3})
    found = bound_loops_in_blocks(in_blocks(make_guards_explicit(kernel), [Blocks("m", 4)]))
    fills = [s for s in statements(found) if s.assign.target.buffer == "S"]
    assert {str(a.extent) for s in fills for a in s.axes if a.name == "n"} == {"20"}
    arrays = make_arrays(kernel, "random")
    want, got = (interpret(k, arrays, {})["W"] for k in (kernel, found))
    assert np.array_equal(want, got)


def test_powers_that_are_divided_before_the_second_product_are_bounded_alike() -> None:
    text = ATTENTION.format(seen="n <= m + N - M", masked="-inf", strict="")
    divided = "for m in M, n in N { S[m, n] = S[m, n] / total[m]; } for m in M, d in D { O[m, d] = 0; }"
    text = text.replace("for m in M, d in D { O[m, d] = 0; }", divided)
    text = text.replace("for m in M, d in D { O[m, d] = O[m, d] / total[m]; }", "")
    kernel = bind(parse_kernel(Source("k.ir", text)), {"M": 12, "N": 20, "D": 3})
    cut = in_blocks(make_guards_explicit(kernel), [Blocks("m", 4)])
    found = bound_loops_in_blocks(cut)
    assert lengths(found) == {"4*m_block + 12"}
    arrays = make_arrays(kernel, "random")
    want, got = (interpret(k, arrays, {})["O"] for k in (kernel, found))
    assert np.allclose(want, got, rtol=1e-5)
