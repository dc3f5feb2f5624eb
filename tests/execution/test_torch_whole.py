"""With `pack`, a graph of inference is one library, called once; weights that change make it anew."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import contextmanager
from threading import Thread
from typing import Any

import pytest

torch: Any = pytest.importorskip("torch", reason="pip install 'isamap[torch]'")
layers = torch.nn

import isamap.torch as backend  # noqa: E402 - after the skip
from isamap.torch import dynamo_backend  # noqa: E402 - after the skip

OPTIONS = {"machine": "generic-c", "heuristic": "greedy", "pack": True}
ONE = "of a library that is called once"


@pytest.fixture(autouse=True)
def _new_graphs() -> Iterator[None]:
    torch.manual_seed(0)
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def compiled(model: Any) -> Any:
    return torch.compile(model, backend=backend.backend, options=OPTIONS)


@contextmanager
def patched(around: list[int]) -> Generator[None]:
    """Count the calls of what AOT makes."""
    with pytest.MonkeyPatch.context() as patch:
        call_directly = dynamo_backend.call_directly

        def counted(compiled: Any, whole: Any) -> Any:
            def call(*given: Any) -> Any:
                around.append(1)
                return compiled(*given)

            return call_directly(call, whole)

        patch.setattr(dynamo_backend, "call_directly", counted)
        yield


def normed(*, bias: bool = True, **more: Any) -> Any:
    model = layers.Sequential(
        layers.Conv2d(4, 8, 3, bias=bias, **more), layers.BatchNorm2d(8), layers.ReLU6()
    )
    layers.init.normal_(model[1].running_mean)
    layers.init.uniform_(model[1].running_var, 0.5, 2)
    layers.init.normal_(model[1].weight)
    return model.eval()


def whole(model: Any, x: Any) -> Any:
    """Return the table of a model that gives what torch gives."""
    with torch.no_grad():
        near = {"rtol": 0.02, "atol": 0.02} if x.dtype is torch.bfloat16 else {}
        torch.testing.assert_close(compiled(model)(x), model(x), **near)
        torch._dynamo.reset()
        return backend.explain(model, x, options=OPTIONS)


@pytest.mark.parametrize("more", [{}, {"bias": False, "stride": 2, "padding": 1}, {"groups": 4}])
def test_a_norm_behind_a_convolution_costs_nothing(more: dict[str, Any]) -> None:
    found = whole(normed(**more), torch.randn(2, 4, 7, 6))
    # The convolution, and one that puts its result into the order of torch if it lies channels last.
    kernels = "1" if "groups" in more else "2"
    assert {n.why for n in found.nodes if n.where == "kernel"} == {f"one of the {kernels} {ONE}"}
    assert not [n for n in found.nodes if n.where == "eager"]


def test_a_norm_in_f32_behind_a_convolution_in_bf16_is_in_its_kernel() -> None:
    found = whole(normed().bfloat16(), torch.randn(2, 4, 7, 6).bfloat16())
    assert {n.why for n in found.nodes if n.where == "kernel"} == {f"one of the 2 {ONE}"}
    assert not [n for n in found.nodes if n.where == "eager"]


def test_terms_of_several_types_are_made_of_one() -> None:
    def model(x: Any) -> Any:
        return (x * torch.full((4,), 0.3) + x.double().sum(1, keepdim=True)).to(torch.bfloat16)

    x = torch.randn(3, 4).bfloat16()
    torch.testing.assert_close(compiled(model)(x), model(x))
    assert ONE in str(backend.explain(model, x, options=OPTIONS))


def test_a_number_in_a_tensor_of_another_type_is_not_rounded_first() -> None:
    def model(x: Any, number: Any) -> Any:
        return x * number

    x, number = torch.randn(999).bfloat16(), torch.tensor(1.01)
    assert torch.equal(compiled(model)(x, number), model(x, number))


def test_numbers_that_become_integers_are_part_of_the_library() -> None:
    def model(x: Any) -> Any:
        return x.to(torch.int32) * 2

    x = torch.randn(3, 4) * 9
    assert torch.equal(compiled(model)(x), model(x))
    assert ONE in str(backend.explain(model, x, options=OPTIONS))


class Attention(layers.Module):
    """What a block of a transformer does, in small."""

    def __init__(self) -> None:
        layers.Module.__init__(self)
        self.norm, self.gates = layers.LayerNorm(8), layers.Linear(8, 24)
        self.up, self.down = layers.Linear(8, 16), layers.Linear(16, 8)

    def forward(self, x: Any) -> Any:
        q, k, v = self.gates(self.norm(x)).view(2, 5, 3, 2, 4).permute(2, 0, 3, 1, 4)
        y = (torch.softmax(q @ k.transpose(-1, -2) / 2, -1) @ v).transpose(1, 2).reshape(2, 5, 8)
        return x + self.down(layers.functional.gelu(self.up(y)))


MODELS = {
    "attention": (Attention, (2, 5, 8)),
    "pools": (lambda: layers.Sequential(layers.Conv2d(3, 8, 3), layers.MaxPool2d(3, 2, 1)), (1, 3, 9, 8)),
    "mean": (
        lambda: layers.Sequential(
            layers.Conv2d(3, 8, 1), layers.AdaptiveAvgPool2d(1), layers.Flatten(), layers.Linear(8, 5)
        ),
        (2, 3, 4, 5),
    ),
    "elements": (
        lambda: layers.Sequential(layers.Linear(6, 6), layers.Hardswish(), layers.SiLU(), layers.Tanh()),
        (3, 6),
    ),
}  # fmt: skip


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("name", MODELS)
def test_a_model_is_one_library(name: str, dtype: Any) -> None:
    make, shape = MODELS[name]
    found = whole(make().eval().to(dtype), torch.randn(shape).to(dtype))
    assert {n.where for n in found.nodes} <= {"kernel", "nowhere"}
    assert all(ONE in n.why for n in found.nodes if n.where == "kernel")


def test_each_weight_that_changes_counts() -> None:
    model, x = normed(), torch.randn(1, 4, 5, 5)
    fast, norm = compiled(model), model[1]
    with torch.no_grad():
        for tensor in (model[0].weight, model[0].bias, norm.bias, norm.running_var):
            torch.testing.assert_close(fast(x), model(x))
            tensor.mul_(1.5)
        torch.testing.assert_close(fast(x), model(x))
        model[0].weight = layers.Parameter(torch.randn(8, 4, 3, 3))
        torch.testing.assert_close(fast(x), model(x))


def test_weights_that_dynamo_does_not_look_at_count_as_well() -> None:
    model, x = normed(), torch.randn(1, 4, 8, 8)
    skip = {"guard_filter_fn": torch.compiler.skip_guard_on_inbuilt_nn_modules_unsafe}
    fast = torch.compile(model, backend=backend.backend, options={**OPTIONS, **skip})
    with torch.no_grad():
        torch.testing.assert_close(fast(x), model(x))
        model[0].weight.mul_(2)
        torch.testing.assert_close(fast(x), model(x))
        model[0].weight = layers.Parameter(torch.randn_like(model[0].weight))
        torch.testing.assert_close(fast(x), model(x))


def test_weights_that_go_on_changing_are_read_in_each_call() -> None:
    model, x = layers.Linear(4, 3), torch.randn(2, 4)
    fast = compiled(model)
    with torch.no_grad():
        for _ in range(12):
            torch.testing.assert_close(fast(x), model(x))
            model.weight.mul_(1.1)


def test_what_has_no_operator_leaves_the_rest_a_library_of_packed_weights() -> None:
    def model(x: Any) -> Any:
        return torch.cummax(layers.functional.linear(x, weight), 1).values

    weight, x = layers.Parameter(torch.randn(3, 4)), torch.randn(2, 4)
    with torch.no_grad():
        found = backend.explain(model, x, options=OPTIONS)
        torch.testing.assert_close(compiled(model)(x), model(x))
    assert {n.operation: (n.where, n.why) for n in found.nodes} == {
        "t.default": ("nowhere", "of weights alone: torch computes it once"),
        "mm.default": ("kernel", f"one of the 1 {ONE}"),
        "cummax.default": ("eager", "it has no kernel here"),
    }


def test_what_is_given_back_belongs_to_the_caller() -> None:
    scale = layers.Parameter(torch.randn(4))

    def model(x: Any) -> Any:
        y = x * scale
        return y, y.view(2, 6), scale * 2, x.view(-1)

    fast, x = compiled(model), torch.randn(3, 4)
    with torch.no_grad():
        for _ in range(2):
            found = fast(x)
            for mine, expected in zip(found, model(x), strict=True):
                torch.testing.assert_close(mine, expected)
            assert found[0].data_ptr() == found[1].data_ptr()
            found[2].zero_()


def test_inputs_that_lie_otherwise_are_read_as_they_lie() -> None:
    model = normed(padding=1)
    fast = compiled(model)
    with torch.no_grad():
        for x in (torch.randn(2, 4, 6, 5), torch.randn(2, 6, 5, 4).permute(0, 3, 1, 2)):
            torch.testing.assert_close(fast(x), model(x))


def test_a_norm_in_training_keeps_its_means() -> None:
    model, twin = normed(), normed()
    twin.load_state_dict(model.state_dict())
    x = torch.randn(2, 4, 5, 5)
    compiled(model)(x).sum().backward()
    twin(x).sum().backward()
    torch.testing.assert_close(model[0].weight.grad, twin[0].weight.grad)
    model.train()
    twin.train()
    with torch.no_grad():
        torch.testing.assert_close(compiled(model)(x), twin(x))
    torch.testing.assert_close(model[1].running_var, twin[1].running_var)


def test_a_convolution_that_others_read_keeps_its_norm() -> None:
    model = normed()

    def both(x: Any) -> Any:
        y = model[0](x)
        return model[1](y) + y

    with torch.no_grad():
        x = torch.randn(1, 4, 5, 5)
        torch.testing.assert_close(compiled(both)(x), both(x))


def test_threads_find_the_weights_of_now() -> None:
    model, x = normed(), torch.randn(1, 4, 5, 5)
    fast, wrong = compiled(model), list[int]()
    with torch.no_grad():
        fast(x)
        model[1].running_mean.add_(1)
        expected = model(x)

    def calls() -> None:
        with torch.no_grad():
            wrong.extend(n for n in range(30) if not torch.allclose(fast(x), expected, atol=1e-5))

    threads = [Thread(target=calls) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_a_graph_that_hands_on_what_it_gets_is_called_without_what_is_around_it() -> None:
    model, x = normed(), torch.randn(1, 4, 5, 5)
    around: list[int] = []

    fast = compiled(model)
    with torch.no_grad(), patched(around):
        first, second, third = (fast(x) for _ in range(3))
        torch.testing.assert_close(third, model(x))
        assert len({y.data_ptr() for y in (first, second, third)}) == 3
    assert around == [1]
