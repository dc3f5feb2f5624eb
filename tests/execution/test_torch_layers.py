"""Recurrent layers of torch reach the backend whole, and give what torch gives."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

torch: Any = pytest.importorskip("torch", reason="pip install 'isamap[torch]'")
layers = torch.nn

import isamap.torch as backend  # noqa: E402 - after the skip
from isamap.graph.operators import recurrent  # noqa: E402 - after the skip

OPTIONS = {"machine": "generic-c", "heuristic": "greedy", "pack": True}


@pytest.fixture(autouse=True)
def _whole_layers() -> Iterator[None]:
    torch.manual_seed(0)
    torch._dynamo.reset()
    with torch._dynamo.config.patch(allow_rnn=True):
        yield
    torch._dynamo.reset()


def compiled(model: Any, *, pack: bool = True) -> Any:
    return torch.compile(model, backend=backend.backend, options={**OPTIONS, "pack": pack})


def listed(found: Any) -> list[Any]:
    return [found] if isinstance(found, torch.Tensor) else [t for part in found for t in listed(part)]


CASES: Mapping[str, tuple[Callable[[], Any], tuple[int, ...]]] = {
    "gru": (lambda: layers.GRU(6, 8), (5, 3, 6)),
    "gru without biases, batch first": (lambda: layers.GRU(6, 8, bias=False, batch_first=True), (3, 5, 6)),
    "gru of one step, sequence and unit": (lambda: layers.GRU(1, 1), (1, 1, 1)),
    "lstm": (lambda: layers.LSTM(6, 8), (5, 1, 6)),
    "two layers, both ways": (lambda: layers.LSTM(6, 8, 2, bidirectional=True), (4, 2, 6)),
    "tanh backwards": (lambda: layers.RNN(3, 4, bidirectional=True), (4, 2, 3)),
    "relu, no batch": (lambda: layers.RNN(3, 4, nonlinearity="relu"), (4, 3)),
}


@pytest.mark.parametrize(
    ("name", "pack"), [*((name, True) for name in CASES), ("gru", False), ("lstm", False)]
)
def test_a_layer_gives_what_torch_gives(name: str, pack: bool) -> None:
    make, shape = CASES[name]
    model, x = make(), torch.randn(shape)
    with torch.no_grad():
        for mine, expected in zip(listed(compiled(model, pack=pack)(x)), listed(model(x)), strict=True):
            torch.testing.assert_close(mine, expected)


@pytest.mark.parametrize("name", ["gru", "lstm"])
def test_a_layer_begins_in_the_state_that_it_is_given(name: str) -> None:
    make, shape = CASES[name]
    model, x = make(), torch.randn(shape)
    states = [torch.randn(1, shape[1], 8) for _ in range(1 + (name == "lstm"))]
    given = tuple(states) if name == "lstm" else states[0]
    with torch.no_grad():
        for mine, expected in zip(listed(compiled(model)(x, given)), listed(model(x, given)), strict=True):
            torch.testing.assert_close(mine, expected)


@pytest.mark.parametrize("pack", [False, True])
def test_products_with_a_long_input_are_computed_a_step_at_a_time(
    pack: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, x = layers.LSTM(6, 8), torch.randn(5, 1, 6)
    monkeypatch.setattr(recurrent, "MOST_AHEAD", 100)
    with torch.no_grad():
        fast = compiled(model, pack=pack)
        for mine, expected in zip(listed(fast(x)), listed(model(x)), strict=True):
            torch.testing.assert_close(mine, expected)


def test_a_layer_is_one_kernel() -> None:
    with torch.no_grad():
        found = backend.explain(layers.GRU(6, 8), torch.randn(5, 3, 6), options={**OPTIONS, "pack": False})
    assert "gru.default" in {n.operation for n in found.nodes if n.where == "kernel"}
    whys = {n.why for n in found.nodes if n.where == "kernel"}
    assert whys == {"one of the 1 of a library that is called once"}


def test_a_layer_with_its_states_is_a_library_of_one_kernel() -> None:
    with torch.no_grad():
        found = backend.explain(layers.LSTM(6, 8), torch.randn(5, 3, 6), options=OPTIONS)
    (ran,) = (n for n in found.nodes if n.operation == "lstm.default")
    assert (ran.where, ran.why) == ("kernel", "one of the 1 of a library that is called once")
    assert not [n for n in found.nodes if n.where == "eager"]


def test_states_of_bf16_err_no_more_than_those_of_torch() -> None:
    model, x = layers.GRU(6, 8).bfloat16(), torch.randn(5, 3, 6).bfloat16()
    with torch.no_grad():
        ours, theirs = (listed(call(x)) for call in (compiled(model), model))
        exact = listed(model.double()(x.double()))
    for mine, other, true in zip(ours, theirs, exact, strict=True):
        assert mine.dtype == torch.bfloat16
        least = 4 * torch.finfo(torch.bfloat16).eps * true.abs().max()
        assert (mine - true).abs().max() <= 2 * (other - true).abs().max() + least


def test_a_layer_that_no_kernel_performs_runs_in_torch() -> None:
    model, x = layers.GRU(4, 4).half(), torch.randn(3, 2, 4).half()
    with torch.no_grad():
        found = backend.explain(model, x, options=OPTIONS)
        torch.testing.assert_close(compiled(model)(x), model(x))
    (ran,) = (n for n in found.nodes if n.operation == "gru.default")
    assert (ran.where, ran.why) == ("eager", "the type torch.float16")


def test_weights_that_change_are_packed_again() -> None:
    model, x = layers.LSTM(4, 8), torch.randn(3, 2, 4)
    fast = compiled(model)
    with torch.no_grad():
        for _ in range(2):
            torch.testing.assert_close(fast(x), model(x))
            model.weight_hh_l0.mul_(2)


def test_gradients_are_those_of_torch() -> None:
    ours, theirs = layers.GRU(2, 2), layers.GRU(2, 2)
    theirs.load_state_dict(ours.state_dict())
    x = torch.randn(2, 1, 2)
    compiled(ours)(x)[0].sum().backward()
    theirs(x)[0].sum().backward()
    for mine, other in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(mine.grad, other.grad)
