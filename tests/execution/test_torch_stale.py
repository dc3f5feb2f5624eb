"""Weights that are packed once, and change where torch does not count it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch: Any = pytest.importorskip("torch", reason="graphs of torch need torch")

CHANGES: dict[str, Callable[[Any], object]] = {
    "data": lambda w: w.data.add_(1),
    "a transposed alias": lambda w: w.data.t().mul_(2),
    "an array of numpy": lambda w: w.detach().numpy().fill(3),
    "a new tensor": lambda w: setattr(w, "data", torch.full_like(w, 0.5)),
}


def test_changes_that_torch_does_not_count_are_seen() -> None:
    layer = torch.nn.Linear(64, 48).eval()
    fast = torch.compile(layer, backend="isamap", options={"pack": True})
    x = torch.randn(4, 64)
    with torch.no_grad():
        wrong: list[str] = []
        fast(x)
        for name, change in CHANGES.items():
            change(layer.weight)
            if not torch.allclose(fast(x), layer(x), rtol=1e-4, atol=1e-4):
                wrong.append(name)
        assert wrong == []


def test_a_change_of_one_element_is_seen_in_its_turn() -> None:
    from isamap.torch.packing import BLOCK_WORDS, Contents

    weight = torch.zeros(4 * BLOCK_WORDS, 2)
    contents = Contents([weight])
    assert not any(contents.differ() for _ in range(9))
    weight.data[4321, 1] = 1e-30
    with pytest.warns(UserWarning, match="which torch does not count"):
        assert any(contents.differ() for _ in range(len(contents.blocks)))
