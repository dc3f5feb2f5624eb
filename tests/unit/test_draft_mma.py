"""The draft nvidia-mma means what PTX says: values against numpy, placements against its tables."""

from __future__ import annotations

import numpy as np
import pytest
from unit.drafts import MMA, operand, place, run, small

from isamap.ir import DTYPES


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(7)


@pytest.mark.parametrize("dtype", ["f16", "bf16"])
def test_mma_is_a_product_of_16x16_and_16x8(rng: np.random.Generator, dtype: str) -> None:
    a, b, c = small(rng, dtype, 16, 16), small(rng, dtype, 16, 8), small(rng, "f32", 16, 8)
    got = run(MMA, f"mma_m16n8k16_{dtype}", {"a": a, "b": b, "c": c})["c"]
    assert (got == c + a.astype(np.float32) @ b.astype(np.float32)).all()


def test_fragments_are_spread_over_the_warp_as_ptx_tabulates_it() -> None:
    """From lane and element number, as PTX has it, to row and column: the draft writes the inverse."""
    for lane in range(32):
        group, member = lane >> 2, lane % 4
        for i in range(8):
            row = group if 0 <= i < 2 or 4 <= i < 6 else group + 8
            column = member * 2 + (i & 1) + (8 if i >= 4 else 0)
            assert spot("a", row, column) == {"lane": lane, "register": i // 2, "sub": i % 2}
        for i in range(4):
            row = member * 2 + (i & 1) + (8 if i >= 2 else 0)
            assert spot("b", row, group) == {"lane": lane, "register": i // 2, "sub": i % 2}
            row = group if i < 2 else group + 8
            assert spot("c", row, member * 2 + (i & 1)) == {"lane": lane, "register": i}


def spot(name: str, row: int, column: int) -> dict[str, int]:
    placement = operand(MMA, "mma_m16n8k16_f16", name).placement
    assert placement is not None
    point = dict(zip(placement.indices, (row, column), strict=True))
    return {n: int(e.evaluate(point)) for n, e in placement.coordinates}


@pytest.mark.parametrize("trans", [False, True])
def test_ldmatrix_gives_a_lane_two_neighbours_of_a_row_or_of_a_column(trans: bool) -> None:
    name = "ldmatrix_x4_trans_f16" if trans else "ldmatrix_x4_f16"
    lane, register, sub = place(operand(MMA, name, "d"))
    for thread in range(32):
        for m in range(4):
            for half in range(2):
                line, across = thread // 4, 2 * (thread % 4) + half
                r, c = (across, line) if trans else (line, across)
                assert (lane[m, r, c], register[m, r, c], sub[m, r, c]) == (thread, m, half)


@pytest.mark.parametrize("dtype", ["f16", "bf16"])
@pytest.mark.parametrize("name", ["ldmatrix_x4", "ldmatrix_x4_trans"])
def test_ldmatrix_copies_four_matrices(rng: np.random.Generator, name: str, dtype: str) -> None:
    s = small(rng, dtype, 4, 8, 8)
    assert (run(MMA, f"{name}_{dtype}", {"s": s})["d"] == s).all()


@pytest.mark.parametrize(
    ("load", "product"),
    [("ldmatrix_a", "a"), ("ldmatrix_a_swizzled", "a"), ("ldmatrix_b", "b"), ("ldmatrix_b_trans", "b")],
)
def test_what_ldmatrix_loads_needs_no_move_before_mma(load: str, product: str) -> None:
    for name in ("f16", "bf16"):
        loaded = operand(MMA, f"{load}_{name}", "d")
        expected = operand(MMA, f"mma_m16n8k16_{name}", product)
        assert (loaded.placement, loaded.shape) == (expected.placement, expected.shape)


@pytest.mark.parametrize("dtype", ["f16", "bf16"])
def test_ldmatrix_gathers_a_and_b_from_either_storage(rng: np.random.Generator, dtype: str) -> None:
    s = small(rng, dtype, 16, 16)
    assert (run(MMA, f"ldmatrix_a_{dtype}", {"s": s})["d"] == s).all()
    assert (run(MMA, f"ldmatrix_b_{dtype}", {"s": s[:8]})["d"] == s[:8].T).all()
    assert (run(MMA, f"ldmatrix_b_trans_{dtype}", {"s": s[:, :8]})["d"] == s[:, :8]).all()


@pytest.mark.parametrize("dtype", ["f16", "bf16"])
def test_the_swizzle_is_an_exclusive_or_that_copy_and_load_share(
    rng: np.random.Generator, dtype: str
) -> None:
    stored = operand(MMA, "cp_async_swizzled_f16", "s")
    loaded = operand(MMA, "ldmatrix_a_swizzled_f16", "s")
    assert stored.placement == loaded.placement
    (byte,) = place(loaded)
    i, k = np.indices((16, 64))
    assert (byte == 128 * i + 16 * ((k // 8) ^ (i % 8)) + 2 * (k % 8)).all()
    s, g = small(rng, dtype, 16, 64), small(rng, dtype, 4, 64)
    assert (run(MMA, f"ldmatrix_a_swizzled_{dtype}", {"s": s}, K=2)["d"] == s[:, 32:48]).all()
    assert (run(MMA, f"cp_async_swizzled_{dtype}", {"g": g})["s"] == g).all()


@pytest.mark.parametrize("dtype", ["f16", "bf16"])
def test_asynchronous_copies_keep_values(rng: np.random.Generator, dtype: str) -> None:
    g = small(rng, dtype, 16, 16)
    assert (run(MMA, f"cp_async_{dtype}", {"g": g})["s"] == g).all()


def test_copies_of_sums_keep_their_values(rng: np.random.Generator) -> None:
    x = small(rng, "f32", 8, 8)
    assert (run(MMA, "ld_global_v2_f32", {"x": x})["d"] == x).all()
    assert (run(MMA, "st_global_v2_f32", {"c": x})["y"] == x).all()
    assert not run(MMA, "zero_f32", {})["d"].any()


def test_half_of_the_sums_is_stored_from_the_registers_where_mma_left_them() -> None:
    lane, register = place(operand(MMA, "mma_m16n8k16_f16", "c"))
    half_lane, half_register = place(operand(MMA, "st_global_v2_f32", "c"))
    for half in range(2):
        rows = slice(8 * half, 8 * half + 8)
        assert (lane[rows] == half_lane).all()
        assert (register[rows] == half_register + 2 * half).all()


@pytest.mark.parametrize("dtype", ["f16", "bf16"])
def test_sums_are_packed_to_a_quarter_of_the_next_a(rng: np.random.Generator, dtype: str) -> None:
    c = rng.standard_normal((8, 8)).astype(np.float32)
    assert (run(MMA, f"cvt_pack_{dtype}", {"c": c})["d"] == c.astype(DTYPES[dtype].numpy())).all()
    lane, _, sub = place(operand(MMA, f"cvt_pack_{dtype}", "d"))
    fragment = place(operand(MMA, f"mma_m16n8k16_{dtype}", "a"))
    assert (lane == fragment[0][:8, :8]).all()
    assert (sub == fragment[2][:8, :8]).all()
