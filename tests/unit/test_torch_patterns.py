"""How tensors are walked, and values in the text of kernels: what of the torch backend needs no torch."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from numpy.lib.stride_tricks import as_strided

from isamap.graph.patterns import broadcast, merge_walks, reshape_strides
from isamap.graph.terms import NotTaken, TextTerm, cast, number
from isamap.source import IsamapError
from isamap.torch import explain


def test_where_torch_is_missing_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(IsamapError, match="torch, which is not installed") as found:
        explain(None, ())
    assert found.value.diagnostics[0].help == "pip install 'isamap[torch]'"


def walked(sizes: tuple[int, ...], strides: tuple[int, ...]) -> list[int]:
    memory = np.arange(1000)
    return as_strided(memory, sizes, [8 * stride for stride in strides]).ravel().tolist()


@pytest.mark.parametrize(
    ("sizes", "strides", "target"),
    [
        ((4, 6), (6, 1), (24,)),
        ((4, 6), (12, 2), (2, 2, 3, 2)),
        ((4, 1, 6), (6, 99, 1), (2, 12)),
        ((3, 5), (0, 0), (15,)),
        ((2, 3, 4), (1, 2, 6), (2, 3, 2, 2)),
        ((), (), (1, 1)),
    ],
)
def test_another_shape_walks_the_same_elements(
    sizes: tuple[int, ...], strides: tuple[int, ...], target: tuple[int, ...]
) -> None:
    found = reshape_strides(sizes, strides, target)
    assert found is not None
    assert walked(target, found) == walked(sizes, strides)


def test_a_shape_that_no_walk_reaches_is_refused() -> None:
    assert reshape_strides((4, 6), (1, 4), (24,)) is None
    assert reshape_strides((4, 6), (6, 1), (5, 5)) is None


def test_repeated_axes_lead_nowhere() -> None:
    assert broadcast((3, 1), (7, 1), (2, 3, 5)) == (0, 7, 0)


def test_axes_that_all_walks_share_are_one() -> None:
    assert merge_walks((2, 3, 4), [(12, 4, 1), (24, 8, 2)]) == (24,)
    assert merge_walks((2, 3, 4), [(12, 4, 1), (0, 4, 1)]) == (2, 12)


def test_values_take_other_types_as_torch_converts_them() -> None:
    assert cast(TextTerm("x", "bf16"), "f32").text == "f32(x)"
    assert cast(TextTerm("x", "i64"), "i8").text == "wrap_i8(x)"
    assert cast(TextTerm("x", "bool"), "f32").text == "select(x, f32(1), f32(0))"
    assert cast(number(0.1), "bf16").text == "bf16(0.10009765625)"
    assert cast(number(1e300), "f32").text == "f32(inf)"
    with pytest.raises(NotTaken, match="300 is not a value of i8"):
        cast(number(300), "i8")
