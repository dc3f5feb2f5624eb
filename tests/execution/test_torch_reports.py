"""What people have reported of compilers of torch's models: here as eager torch does it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

torch: Any = pytest.importorskip("torch", reason="pip install 'isamap[torch]'")

from torch_arrays import ARRAYS  # noqa: E402 - after the skip
from torch_elements import ELEMENTS  # noqa: E402 - after the skip
from torch_products import PRODUCTS  # noqa: E402 - after the skip

import isamap.torch as backend  # noqa: E402 - after the skip

OPTIONS = {"machine": "generic-c", "heuristic": "greedy"}  # so that a kernel takes half a second
CASES = {**ARRAYS, **ELEMENTS, **PRODUCTS}


@pytest.fixture(autouse=True)
def _new_graphs() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def test_no_two_cases_are_called_the_same() -> None:
    assert len(CASES) == len(ARRAYS) + len(ELEMENTS) + len(PRODUCTS)


@pytest.mark.exhaustive(fast=8)
@pytest.mark.filterwarnings("ignore::UserWarning")  # torch's own, of what is asked
@pytest.mark.parametrize("pack", [False, True], ids=["kernels", "library"])
@pytest.mark.parametrize("name", CASES)
def test_a_report(name: str, pack: bool) -> None:
    computed, given = CASES[name]
    options = {**OPTIONS, "pack": pack}
    call = torch.compile(computed, backend=backend.backend, options=options)
    expected, found = (result(form, given) for form in (computed, call))
    assert len(found) == len(expected)
    for ours, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(ours, theirs, equal_nan=True)
        assert ours.stride() == theirs.stride() or theirs.numel() < 2


def result(form: Any, given: Any) -> list[Any]:
    """Return what comes of the same input, and the input behind it."""
    torch.manual_seed(0)
    inputs = given()
    found = form(inputs)
    return torch.utils._pytree.tree_leaves((found, inputs))
