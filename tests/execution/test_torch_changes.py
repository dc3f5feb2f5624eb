"""Models that change what they are given, by `torch.compile(…, backend=isamap)`: as torch does it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch: Any = pytest.importorskip("torch", reason="pip install 'isamap[torch]'")

import isamap.torch as backend  # noqa: E402 - after the skip

OPTIONS = {"machine": "generic-c", "heuristic": "greedy"}


def ramp(*shape: int) -> Any:
    return torch.arange(torch.Size(shape).numel(), dtype=torch.float32).reshape(shape) / 7 - 1


def compiled(model: Any) -> Any:
    torch._dynamo.reset()
    return torch.compile(model, backend=backend.backend, options=OPTIONS)


def _rows(x: Any) -> Any:
    x[1:].add_(x[:-1] * 1.0)
    return x * 2


def _turned(x: Any) -> Any:
    x.t().copy_(x.clone())
    return x + 1


def _chosen(x: Any) -> Any:
    x[x > 0] = 0
    return x + 1


def _every_second(x: Any) -> Any:
    x[:, ::2] = x[:, 1::2]
    return x * 1


def _detached(x: Any) -> Any:
    x.detach().mul_(2)
    return x + 1


def _product_first(x: Any) -> Any:
    y = x @ x
    x.sub_(y)
    return y.sum()


def _with_its_first_row(x: Any) -> Any:
    y = x * 2
    return y, y[0]


def _views(x: Any) -> Any:
    return x[0], x.view(-1), x


CHANGES: dict[str, Callable[[Any], Any]] = {
    "rows by other rows": _rows,
    "its transpose": _turned,
    "chosen elements": _chosen,
    "every second column": _every_second,
    "without gradients": _detached,
    "behind a product": _product_first,
    "and gives it back": lambda x: x.mul_(2),
}


@pytest.mark.exhaustive(fast=3)
@pytest.mark.parametrize("name", CHANGES)
def test_a_model_changes_its_argument(name: str) -> None:
    model, ours, theirs = CHANGES[name], ramp(4, 4), ramp(4, 4)
    torch.testing.assert_close(compiled(model)(ours), model(theirs))
    assert torch.equal(ours, theirs)


@pytest.mark.parametrize(
    ("first", "second"), [((0, 6), (0, 6)), ((0, 4), (2, 6))], ids=["same", "overlapping"]
)
def test_two_arguments_in_one_memory(first: tuple[int, int], second: tuple[int, int]) -> None:
    def model(x: Any, y: Any) -> Any:
        x.add_(1)
        return x * y

    ours, theirs = ramp(6), ramp(6)
    expected = model(theirs[slice(*first)], theirs[slice(*second)])
    torch.testing.assert_close(compiled(model)(ours[slice(*first)], ours[slice(*second)]), expected)
    assert torch.equal(ours, theirs)


def test_results_share_memory_as_those_of_torch() -> None:
    x = ramp(2, 3)
    part, flat, same = compiled(_views)(x)
    part.add_(1)
    assert torch.equal(x[0], part)
    assert torch.equal(flat, x.view(-1))
    assert same is x
    whole, row = compiled(_with_its_first_row)(x)
    whole.add_(1)
    assert torch.equal(row, whole[0])


def test_a_buffer_of_a_model_goes_on() -> None:
    def counting() -> Any:
        module = torch.nn.Module()
        module.register_buffer("count", torch.zeros(3))

        def forward(x: Any) -> Any:
            module.count.add_(x)
            module.count = module.count * 1.5
            return x * module.count

        module.forward = forward
        return module

    ours, theirs = counting(), counting()
    fast = compiled(ours)
    for _ in range(3):
        torch.testing.assert_close(fast(torch.ones(3)), theirs(torch.ones(3)))
    torch.testing.assert_close(ours.count, theirs.count)
