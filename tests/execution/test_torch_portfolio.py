"""`options={"portfolio": True}`: the faster of library and torch's own calls performs each segment."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

torch: Any = pytest.importorskip("torch", reason="pip install 'isamap[torch]'")

import isamap.torch as backend  # noqa: E402 - after the skip
from isamap.torch import segments  # noqa: E402 - after the skip
from isamap.tune.implementation_choices import ChoiceDatabase  # noqa: E402 - after the skip

OPTIONS = {"machine": "generic-c", "portfolio": True}
Rounds = Mapping[int, Mapping[str, float]]


@pytest.fixture(autouse=True)
def _alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A data folder of one's own, a process that knows nothing, new graphs."""
    folder = tmp_path / "data"
    folder.mkdir(mode=0o700)
    monkeypatch.setenv("ISAMAP_DATA_DIR", str(folder))
    monkeypatch.setattr(segments, "KNOWN", {})
    torch.manual_seed(0)
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


class Clock:
    """Stands in for the turns: torch takes such a share of our time; both are called, on real tensors."""

    def __init__(self, *shares: float) -> None:
        self.shares, self.times = shares, 0

    def __call__(self, calls: Mapping[str, Callable[[], None]], _: Any) -> Rounds:
        in_python = torch._C.DispatchKey.PythonDispatcher  # as each operation is while torch compiles, slowly
        assert not torch._C._dispatch_tls_is_dispatch_key_included(in_python)
        assert list(calls) == ["isamap", "torch"]
        for call in calls.values():
            call()
        share = self.shares[self.times % len(self.shares)]
        self.times += 1
        return {number: {"isamap": 10.0, "torch": 10.0 * share} for number in range(9)}


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Clock]:
    def made(*shares: float) -> Clock:
        found = Clock(*shares)
        monkeypatch.setattr(segments, "time_alternately", found)
        return found

    return made


def forget(monkeypatch: pytest.MonkeyPatch) -> None:
    """What another process begins with."""
    monkeypatch.setattr(segments, "KNOWN", {})
    torch._dynamo.reset()


def mlp() -> Any:
    layers = torch.nn
    return layers.Sequential(layers.Linear(8, 16), layers.ReLU(), layers.Linear(16, 4))


def where(found: backend.Explanation) -> dict[str, str]:
    return {n.node: n.where for n in found.nodes if n.where != "nowhere"}


def test_the_faster_one_performs_a_segment_and_the_table_says_why(clock: Callable[..., Clock]) -> None:
    clock(0.8, 1.25)

    def model(x: Any) -> Any:
        return torch.relu(torch.cummax(torch.relu(x + 1).sum(1), 0).values + 1)

    x = torch.randn(3, 8)
    found = backend.explain(model, x, options=OPTIONS)
    assert [n.where for n in found.nodes] == ["eager", "eager", "eager", "eager", "kernel", "kernel"]
    text = str(found)
    assert "4 by torch\n" in text
    assert "  eager: torch took 0.80 of the kernel's time, measured 2" in text
    assert "called once, torch took 1.25 of the kernel's time, measured 2" in text
    torch._dynamo.reset()
    fast = torch.compile(model, backend=backend.backend, options=OPTIONS)
    torch.testing.assert_close(fast(x), model(x))


@pytest.mark.parametrize("share", [0.5, 2.0])
def test_results_and_gradients_are_those_of_torch_whoever_wins(
    share: float, clock: Callable[..., Clock]
) -> None:
    clock(share)
    model, x = mlp(), torch.randn(3, 8)
    model(x).square().sum().backward()
    expected = [p.grad.clone() for p in model.parameters()]
    model.zero_grad()
    torch.compile(model, backend=backend.backend, options=OPTIONS)(x).square().sum().backward()
    for parameter, gradient in zip(model.parameters(), expected, strict=True):
        torch.testing.assert_close(parameter.grad, gradient)


def test_an_equal_segment_is_measured_once_also_by_another_process(
    clock: Callable[..., Clock], monkeypatch: pytest.MonkeyPatch
) -> None:
    x = torch.randn(3, 8)
    first = clock(0.8)
    found = backend.explain(mlp(), x, options=OPTIONS)
    assert first.times == 1
    assert ChoiceDatabase.open().count() == 1
    forget(monkeypatch)
    second = clock(2.0)
    assert where(backend.explain(mlp(), x, options=OPTIONS)) == where(found)
    assert second.times == 0


@pytest.mark.parametrize("changed", ["torch", "processor", "shape", "threads", "isamap"])
def test_what_may_change_who_is_faster_is_measured_again(
    changed: str, clock: Callable[..., Clock], monkeypatch: pytest.MonkeyPatch
) -> None:
    def model(x: Any, y: Any) -> Any:
        return x @ y

    clock(0.8)
    x, y = torch.randn(3, 8), torch.randn(8, 4)
    assert where(backend.explain(model, (x, y), options=OPTIONS)) == {"mm": "eager"}
    forget(monkeypatch)
    again = clock(2.0)
    match changed:
        case "torch":
            monkeypatch.setattr(torch, "__version__", "99.0")
        case "processor":
            cpu = segments.this_cpu()
            monkeypatch.setattr(segments, "this_cpu", lambda: replace(cpu, microcode="another"))
        case "threads":
            monkeypatch.setattr(torch, "get_num_threads", lambda: 77)
        case "shape":
            x = torch.randn(8, 3).t()
        case _:
            monkeypatch.setattr("isamap.driver.request.program_state", lambda: "another state")
    assert where(backend.explain(model, (x, y), options=OPTIONS)) == {"mm": "kernel"}
    assert again.times == 1


def test_without_the_option_nothing_is_measured_or_recalled(clock: Callable[..., Clock]) -> None:
    never = clock(0.5)
    x = torch.randn(3, 8)
    backend.explain(mlp(), x, options=OPTIONS)
    count = never.times
    found = backend.explain(mlp(), x, options={"machine": "generic-c"})
    assert never.times == count
    assert set(where(found).values()) == {"kernel"}


def test_segments_with_several_results_and_views_are_performed_by_either(clock: Callable[..., Clock]) -> None:
    def model(x: Any, w: Any) -> tuple[Any, Any]:
        h, c = (torch.nn.functional.layer_norm(x, (8,)) @ w).chunk(2, 1)
        return torch.tanh(h) * torch.sigmoid(c), h.t() + 1

    x, w = torch.randn(6, 8), torch.randn(8, 8)
    for shares in ((0.5,), (2.0, 0.5), (0.5, 2.0)):
        clock(*shares)
        segments.KNOWN.clear()
        ChoiceDatabase.open().clear()
        torch._dynamo.reset()
        found = torch.compile(model, backend=backend.backend, options=OPTIONS)(x, w)
        for one, other in zip(found, model(x, w), strict=True):
            torch.testing.assert_close(one, other)


def test_an_mlp_and_a_convolution_are_measured_to_the_end() -> None:
    layers = torch.nn
    model = layers.Sequential(
        layers.Conv2d(3, 8, 3, stride=2, padding=1), layers.ReLU6(), layers.Flatten(), *mlp_of(8 * 16)
    )
    x = torch.randn(2, 3, 8, 8)
    with torch.no_grad():
        found = backend.explain(model, x, options=OPTIONS)
        assert all("torch took " in n.why for n in found.nodes if n.where != "nowhere")
        fast = torch.compile(model, backend=backend.backend, options=OPTIONS)
        torch.testing.assert_close(fast(x), model(x))


def mlp_of(width: int) -> list[Any]:
    return [torch.nn.Linear(width, 16), torch.nn.GELU(), torch.nn.Linear(16, 4)]


def test_what_is_no_truth_value_is_refused() -> None:
    with pytest.raises(Exception, match="`portfolio` takes True or False, not 'yes'"):
        torch.compile(mlp(), backend=backend.backend, options={"portfolio": "yes"})(torch.randn(3, 8))
