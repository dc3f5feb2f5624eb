"""The draft arm-sme means what Arm's documents say: every instruction against numpy."""

from __future__ import annotations

import numpy as np
import pytest
from unit.drafts import SME, Array, bits, evaluated, i32, instruction, operand, place, run, small

from isamap.ir import DTYPES, Index, MemoryDecl
from isamap.machine import load_machine

Q = 2
"""Vector length of these tests, in units of 128 bits."""


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(7)


def test_modes_clear_what_they_switch() -> None:
    start, stop = instruction(SME, "smstart"), instruction(SME, "smstop")
    assert {(s.field.field, str(s.value)) for s in start.settings} == {("streaming", "1"), ("za", "1")}
    assert {(s.field.field, str(s.value)) for s in stop.settings} == {("streaming", "0"), ("za", "0")}
    assert set(start.clobbers) == set(stop.clobbers) == {"z", "p", "za"}
    fmopa = instruction(SME, "fmopa_f32")
    assert {(r.field.field, str(r.value)) for r in fmopa.requires} == {("streaming", "1"), ("za", "1")}


@pytest.mark.parametrize("width", [1, 2, 4, 8])
@pytest.mark.parametrize("q", [1, 4, 16])
def test_the_tiles_of_one_width_share_the_array_out_among_them(width: int, q: int) -> None:
    rows, byte = tiles(width, q)
    assert rows.shape == (width, 16 * q // width, 16 * q)
    assert sorted((rows * 16 * q + byte).ravel().tolist()) == list(range((16 * q) ** 2))


def test_a_word_tile_consists_of_two_doubleword_tiles() -> None:
    words, doubles = (tiles(w, 4)[0][:, :, 0] for w in (4, 8))
    for n in range(4):
        assert set(words[n].tolist()) == set(doubles[n].tolist()) | set(doubles[n + 4].tolist())


def tiles(width: int, q: int) -> tuple[Array, Array]:
    """Row and byte in ZA of every byte of every tile of one element width."""
    decl: MemoryDecl = load_machine(SME).memories[f"za{8 * width}"].decl
    assert decl.base == "za"
    assert decl.placement is not None
    attributes = dict(decl.attributes)
    sizes: list[int] = []
    for key in ("count", "rows", "row_bytes"):
        value = attributes[key]
        assert isinstance(value, Index)
        sizes.append(int(value.evaluate({"Q": q})))
    points = dict(zip(decl.placement.indices, np.indices(sizes), strict=True))
    row, byte = (evaluated(e, points, {"Q": q}, tuple(sizes)) for _, e in decl.placement.coordinates)
    return row, byte


@pytest.mark.parametrize(("suffix", "width"), [("b", 1), ("h", 2), ("s", 4), ("d", 8)])
@pytest.mark.parametrize("length", [0, 1, 5, 1000])
def test_whilelt_sets_the_first_elements(suffix: str, width: int, length: int) -> None:
    count = 16 * Q // width
    got = run(SME, f"whilelt_{suffix}", {}, Q=Q, L=length)["d"]
    assert (got == (np.arange(count) < length)).all()
    (bit,) = place(operand(SME, f"whilelt_{suffix}", "d"), Q=Q)
    assert (bit == width * np.arange(count)).all()


@pytest.mark.parametrize(("dtype", "n"), [("f32", 4), ("f64", 2)])
def test_fmopa_merges_the_outer_product(rng: np.random.Generator, dtype: str, n: int) -> None:
    n *= Q
    a, b, c = small(rng, dtype, n), small(rng, dtype, n), small(rng, dtype, n, n)
    pn, pm = bits(rng, n), bits(rng, n)
    got = run(SME, f"fmopa_{dtype}", {"a": a, "b": b, "c": c, "pn": pn, "pm": pm}, Q=Q)["c"]
    assert (got == np.where(np.outer(pn, pm), c + np.outer(a, b), c)).all()


def test_bfmopa_counts_inactive_elements_as_zero(rng: np.random.Generator) -> None:
    n = 4 * Q
    a, b = small(rng, "bf16", n, 2), small(rng, "bf16", n, 2)
    c, pn, pm = small(rng, "f32", n, n), bits(rng, n, 2), bits(rng, n, 2)
    got = run(SME, "bfmopa", {"a": a, "b": b, "c": c, "pn": pn, "pm": pm}, Q=Q)["c"]
    x, y = a.astype(np.float32) * pn, b.astype(np.float32) * pm
    assert (got == c + x @ y.T).all()


@pytest.mark.parametrize(("source", "target", "n"), [("i8", "i32", 4), ("i16", "i64", 2)])
def test_smopa_adds_four_outer_products(rng: np.random.Generator, source: str, target: str, n: int) -> None:
    n *= Q
    narrow, wide = DTYPES[source], DTYPES[target].numpy()
    a, b = (rng.integers(narrow.low, narrow.high + 1, (n, 4)).astype(narrow.numpy()) for _ in range(2))
    c, pn, pm = i32(rng, n, n).astype(wide), bits(rng, n, 4), bits(rng, n, 4)
    got = run(SME, f"smopa_{source}", {"a": a, "b": b, "c": c, "pn": pn, "pm": pm}, Q=Q)["c"]
    assert (got == c + (a.astype(wide) * pn) @ (b.astype(wide) * pm).T).all()


@pytest.mark.parametrize("way", ["h", "v"])
@pytest.mark.parametrize(
    ("dtype", "n"), [("f32", 4), ("i32", 4), ("f64", 2), ("f16", 8), ("bf16", 8), ("i8", 16)]
)
def test_mova_merges_a_vector_into_a_row_or_a_column(
    rng: np.random.Generator, way: str, dtype: str, n: int
) -> None:
    n *= Q
    t, v, pg = small(rng, dtype, n, n), small(rng, dtype, n), bits(rng, n)
    got = run(SME, f"mova_to_{way}_{dtype}", {"t": t, "v": v, "pg": pg}, Q=Q, W=3 * n + 1, O=1)["t"]
    expected = t.copy()
    part = expected if way == "h" else expected.T
    part[2 % n] = np.where(pg, v, part[2 % n])
    assert (got == expected).all()


@pytest.mark.parametrize(("dtype", "n"), [("f32", 4), ("i32", 4), ("f64", 2)])
def test_mova_merges_a_row_into_a_vector(rng: np.random.Generator, dtype: str, n: int) -> None:
    n *= Q
    t, v, pg = small(rng, dtype, n, n), small(rng, dtype, n), bits(rng, n)
    got = run(SME, f"mova_from_h_{dtype}", {"t": t, "v": v, "pg": pg}, Q=Q, W=n - 1, O=1)["v"]
    assert (got == np.where(pg, t[0], v)).all()


@pytest.mark.parametrize("way", ["h", "v"])
def test_loads_of_slices_zero_what_is_inactive(rng: np.random.Generator, way: str) -> None:
    n = 4 * Q
    t, a, pg = small(rng, "f32", n, n), small(rng, "f32", n), bits(rng, n)
    got = run(SME, f"ld1w_{way}", {"t": t, "a": a, "pg": pg}, Q=Q, W=5, O=2)["t"]
    expected = t.copy()
    (expected if way == "h" else expected.T)[7 % n] = a * pg
    assert (got == expected).all()


def test_a_store_of_a_slice_leaves_memory_that_is_inactive(rng: np.random.Generator) -> None:
    n = 4 * Q
    t, old, pg = small(rng, "f32", n, n), small(rng, "f32", n), bits(rng, n)
    got = run(SME, "st1w_h", {"t": t, "a": old, "pg": pg}, Q=Q, W=1, O=0)["a"]
    assert (got == np.where(pg, t[1], old)).all()


def test_a_tail_is_loaded_with_zeros_behind_it(rng: np.random.Generator) -> None:
    a = small(rng, "f32", 5)
    assert (run(SME, "ld1w_tail", {"a": a}, Q=Q, L=5)["v"] == np.pad(a, (0, 4 * Q - 5))).all()


def test_one_row_of_the_array_is_loaded_and_a_tile_is_cleared(rng: np.random.Generator) -> None:
    t, a = rng.integers(0, 256, (16 * Q, 16 * Q)).astype(np.uint8), np.arange(16 * Q, dtype=np.uint8)
    expected = t.copy()
    expected[4] = a
    assert (run(SME, "ldr_za", {"t": t, "a": a}, Q=Q, W=16 * Q + 1, O=3)["t"] == expected).all()
    assert not run(SME, "zero_za32", {}, Q=Q)["t"].any()
