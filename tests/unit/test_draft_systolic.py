"""The draft systolic-32 means what its sources say: every instruction against numpy."""

from __future__ import annotations

import numpy as np
import pytest
from unit.drafts import SYSTOLIC, i8, i32, instruction, operand, place, run


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(7)


def test_weights_are_loaded_into_the_set_that_does_not_compute() -> None:
    preload, matmul = instruction(SYSTOLIC, "preload"), instruction(SYSTOLIC, "matmul")
    assert [(str(r.field.index), str(r.value)) for r in preload.requires] == [("b", "0")]
    assert [(str(r.field.index), str(r.value)) for r in matmul.requires] == [("b", "1")]
    flip = instruction(SYSTOLIC, "flip_to_1")
    assert {(s.field.field, s.field.index, str(s.value)) for s in flip.settings} == {
        ("active", 1, "1"),
        ("active", 0, "0"),
    }


def test_the_output_stage_is_configured_by_run_time_values() -> None:
    config = instruction(SYSTOLIC, "config_output")
    mvout = instruction(SYSTOLIC, "mvout_relu")
    assert [s.field.field for s in config.settings] == ["multiplier", "shift", "zero_point", "relu"]
    required = {r.field.field: str(r.value) for r in mvout.requires if r.field.state == "output"}
    assert required == {"multiplier": "M", "shift": "S", "zero_point": "Z", "relu": "1"}
    for name in ("config_load", "config_store"):
        assert [str(s.value) for s in instruction(SYSTOLIC, name).settings] == ["S"]


def test_mvin_pads_rows_with_zeros(rng: np.random.Generator) -> None:
    x = i8(rng, 5, 9)
    assert (run(SYSTOLIC, "mvin", {"x": x}, R=5, C=9)["z"] == np.pad(x, ((0, 0), (0, 23)))).all()


def test_mvin_of_blocks_copies_and_places_one_block_behind_the_other(rng: np.random.Generator) -> None:
    x = i8(rng, 5, 96)
    assert (run(SYSTOLIC, "mvin_blocks", {"x": x}, R=5, B=3)["z"] == x).all()
    rows, byte = place(operand(SYSTOLIC, "mvin_blocks", "z"), R=5, B=3)
    scratchpad = np.zeros((15, 32), np.int8)
    scratchpad[rows, byte] = x
    assert (scratchpad == np.vstack(np.hsplit(x, 3))).all()


def test_padded_mvin_shifts_down_and_right_and_fills_with_zeros(rng: np.random.Generator) -> None:
    x = i8(rng, 5, 9)
    expected = np.pad(x, ((2, 25), (30, 32)))[:32, :32]
    assert (run(SYSTOLIC, "mvin_padded", {"x": x}, R=5, C=9, T=2, L=30)["z"] == expected).all()


def test_bias_is_repeated_in_every_row(rng: np.random.Generator) -> None:
    x = i32(rng, 32)
    assert (run(SYSTOLIC, "mvin_bias", {"x": x}, R=7)["z"] == np.tile(x, (7, 1))).all()


def test_preload_pads_the_weights_with_zeros(rng: np.random.Generator) -> None:
    w = i8(rng, 20, 11)
    expected = np.pad(w, ((0, 12), (0, 21)))
    assert (run(SYSTOLIC, "preload", {"w": w}, K=20, N=11)["b"] == expected).all()


def test_products_overwrite_or_are_added_to_the_sums(rng: np.random.Generator) -> None:
    a, b, c = i8(rng, 13, 32), i8(rng, 32, 32), i32(rng, 13, 32)
    product = a.astype(np.int32) @ b.astype(np.int32)
    assert (run(SYSTOLIC, "matmul", {"a": a, "b": b}, M=13)["c"] == product).all()
    assert (run(SYSTOLIC, "matmul_accumulate", {"a": a, "b": b, "c": c}, M=13)["c"] == c + product).all()


def test_sums_are_stored_as_they_are(rng: np.random.Generator) -> None:
    x = i32(rng, 6, 32)
    assert (run(SYSTOLIC, "mvout_sums", {"x": x}, R=6, C=17)["y"] == x[:, :17]).all()


@pytest.mark.parametrize(("name", "relu"), [("mvout", False), ("mvout_relu", True)])
@pytest.mark.parametrize(
    ("multiplier", "shift", "zero"), [(1 << 30, 31, 3), (77, 0, -128), (5, 12, 127), (1, 1, 0)]
)
def test_requantisation_scales_rounds_shifts_and_saturates(
    rng: np.random.Generator, name: str, relu: bool, multiplier: int, shift: int, zero: int
) -> None:
    x = i32(rng, 32, 32, bits=10)
    y = run(SYSTOLIC, name, {"x": x}, R=32, C=32, M=multiplier, S=shift, Z=zero)["y"]
    expected = [[requantised(int(v), multiplier, shift, zero, relu) for v in row] for row in x]
    assert y.dtype == np.int8
    assert (y == np.array(expected)).all()


def requantised(x: int, multiplier: int, shift: int, zero: int, relu: bool) -> int:
    """Return the same with Python's integers: round half away from zero by adding half to the magnitude."""
    scaled = abs(x * multiplier)
    rounded = (scaled + ((1 << shift) >> 1)) >> shift
    value = rounded if x >= 0 else -rounded
    return max(-128, min(127, (max(0, value) if relu else value) + zero))
