"""What models do to tensors, compiled by `torch.compile(…, backend=isamap)`: as torch does it."""

from __future__ import annotations

from collections.abc import Iterator
from threading import Thread
from typing import Any

import pytest

torch: Any = pytest.importorskip("torch", reason="pip install 'isamap[torch]'")

from torch_given import Case, ramp  # noqa: E402 - after the skip
from torch_models import MODELS  # noqa: E402 - after the skip

import isamap.torch as backend  # noqa: E402 - after the skip
from isamap.torch import dynamo_backend, segments  # noqa: E402 - after the skip

OPTIONS = {"machine": "generic-c", "heuristic": "greedy"}  # so that a kernel takes half a second


@pytest.fixture(autouse=True)
def _new_graphs() -> Iterator[None]:
    torch.manual_seed(0)
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def compiled(model: Any, **more: Any) -> Any:
    return torch.compile(model, backend=backend.backend, options=OPTIONS, **more)


def listed(result: Any) -> list[Any]:
    return [*result] if type(result) is tuple else [result]


def results(model: Any, call: Any, inputs: list[Any]) -> list[Any]:
    """Return what a model gives, and the gradients of its weights, in f64."""
    with torch.no_grad():
        given = listed(call(*inputs))
    model.zero_grad()
    listed(call(*inputs))[0].square().sum().backward()
    return [x.double() for x in (*given, *(p.grad.clone() for p in model.parameters()))]


@pytest.mark.exhaustive(fast=0)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("name", MODELS)
def test_a_model_and_its_gradients_err_no_more_than_those_of_torch(name: str, dtype: str) -> None:
    model, inputs = MODELS[name]()
    model, inputs = model.to(getattr(torch, dtype)), [x.to(getattr(torch, dtype)) for x in inputs]
    ours, theirs = results(model, compiled(model), inputs), results(model, model, inputs)
    exact = results(model.double(), model, [x.double() for x in inputs])
    unit = torch.finfo(getattr(torch, dtype)).eps
    for mine, other, true in zip(ours, theirs, exact, strict=True):
        least = 4 * unit * true.abs().max()
        assert (mine - true).abs().max() <= 2 * (other - true).abs().max() + least


def randn(*shapes: tuple[int, ...]) -> Any:
    return tuple(torch.randn(*shape) for shape in shapes)


def twice(x: Any) -> Any:
    y = x * 2
    return y, y, y[0]


def turned(x: Any) -> Any:
    y = x * 2
    return y + y.T


def repeated(x: Any) -> Any:
    y = x * 2
    return y - y.sum(1, keepdim=True)


CASES: dict[str, Case] = {
    "a transposed input": (lambda x: torch.relu(x + 1), lambda: torch.randn(4, 6).T),
    "columns far apart": (lambda x: x * 2 + 1, lambda: torch.randn(4, 12)[:, ::3]),
    "a part of a tensor": (lambda x: x * 2 + 1, lambda: torch.randn(4, 12)[1:, 3:8]),
    "windows that overlap": (lambda x: x * 2, lambda: torch.randn(9).unfold(0, 4, 1)),
    "an expanded input": (lambda t: t[0] * t[1], lambda: (torch.randn(1, 5).expand(3, 5), torch.randn(3, 5))),
    "rows and columns": (lambda t: t[0] - t[1], lambda: randn((3, 1), (5,))),
    "a number in a tensor": (lambda t: t[0] * t[1] + t[1], lambda: (torch.randn(3), torch.tensor(2.5))),
    "only numbers": (lambda x: torch.exp(x) + 1, lambda: torch.tensor(0.5)),
    "no elements": (lambda x: (x * 2).sum(0), lambda: torch.randn(0, 4)),
    "a product without depth": (lambda t: t[0] @ t[1] + 1, lambda: randn((2, 0), (0, 3))),
    "one element": (lambda x: torch.tanh(x) @ x, lambda: torch.randn(1, 1)),
    "channels last": (
        lambda x: x * 2,
        lambda: torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last),
    ),
    "products of turned matrices": (lambda t: t[0].T @ t[1].T, lambda: randn((3, 4), (5, 3))),
    "a batch of one matrix": (lambda t: t[0] @ t[1], lambda: randn((3, 2, 4), (4, 5))),
    "a padded image that is repeated": (
        lambda t: torch.conv1d(t[0], t[1], padding=1),
        lambda: (torch.randn(1, 1, 5).expand(2, 3, 5), torch.randn(4, 3, 3)),
    ),
    "a vector": (lambda t: t[0] @ t[1], lambda: randn((4,), (4,))),
    "integers that wrap": (
        lambda x: x * x + x,
        lambda: torch.tensor([2**31 - 1, -(2**31), 7], dtype=torch.int32),
    ),
    "small integers that wrap": (
        lambda x: x + x * 3,
        lambda: ramp(256, dtype=torch.int16).to(torch.int8),
    ),
    "types that are promoted": (
        lambda t: (t[0] + t[1], t[1] * t[2], t[2] + 1, t[0] * 2.5, t[1] < t[0]),
        lambda: (ramp(6), ramp(6, dtype=torch.int32), ramp(6) > 0),
    ),
    "bf16 beside f32": (lambda t: t[0] + t[1], lambda: (torch.randn(5).bfloat16(), torch.randn(5))),
    "bf16 rounded each time": (
        lambda x: (x[0] + x[1]) * x[1] - x[0],
        lambda: torch.randn(2, 300).bfloat16(),
    ),
    "f64": (
        lambda x: torch.nn.functional.gelu(x) + torch.sigmoid(x),
        lambda: torch.randn(9).double(),
    ),
    "truth values": (lambda x: (x[0] & ~x[1]) | (x[1] ^ x[0]), lambda: (ramp(4) > 0, ramp(4) < 1)),
    "limits that are tensors": (lambda t: torch.clamp(t[0], t[1]), lambda: randn((4,), (4,))),
    "sums in another type": (lambda x: x.sum(0, dtype=torch.float64), lambda: torch.randn(3, 4)),
    "powers": (lambda x: (x**2, x**3, x**-1, x**0.5, x**2.7), lambda: torch.rand(5) + 1),
    "a power of a number": (lambda x: 2**x, lambda: ramp(6, dtype=torch.int32).abs()),
    "conversions": (
        lambda x: (x.to(torch.int32), x.to(torch.bool), x.to(torch.bfloat16), x.to(torch.float64)),
        lambda: torch.randn(9) * 10,
    ),
    "numbers too large for the type": (lambda x: x + 2**40, lambda: ramp(4, dtype=torch.int32)),
    "a choice": (lambda x: torch.where(x > 0, x, x * 0.1), lambda: torch.randn(3, 5)),
    "not a number": (
        lambda x: (torch.relu(x), x.clamp(-1, 1), torch.maximum(x, -x), torch.where(x > 0, x, 0.0)),
        lambda: torch.tensor([float("nan"), float("inf"), -float("inf"), 0.0]),
    ),
    "softmax of infinities": (
        lambda x: torch.softmax(x, 1),
        lambda: torch.tensor([[0.0, -float("inf")], [1e4, -1e4], [float("nan"), 0.0]]),
    ),
    "sums over any axes": (
        lambda x: (x.sum(), x.sum(0), x.mean((0, 2), keepdim=True), x.amax(1), x.amin(-1)),
        lambda: torch.randn(3, 4, 5),
    ),
    "sums of integers": (lambda x: (x.sum(), x.sum(1)), lambda: ramp(3, 4, dtype=torch.int32)),
    "floor division": (lambda x: (x // 3, x % 3), lambda: ramp(9, dtype=torch.int32)),
    "an input given back": (lambda x: (x, x.view(6), x + 1), lambda: torch.randn(2, 3)),
    "one result twice": (twice, lambda: torch.randn(2, 3)),
    "a view of a result": (lambda x: (x * 2).T[1:], lambda: torch.randn(4, 3)),
    "a reshaped result read on": (
        lambda t: (t[0] @ t[1]).view(2, 2, 3) * 2 + 1,
        lambda: randn((4, 5), (5, 3)),
    ),
    "a result that is read turned": (turned, lambda: torch.randn(4, 4)),
    "a result that is read repeated": (repeated, lambda: torch.randn(3, 4)),
    "parts of a result": (lambda x: torch.cat([y * 2 for y in (x + 1).chunk(3, 1)]), lambda: ramp(2, 6)),
    "the greatest of windows beyond the edge": (
        lambda x: torch.nn.functional.max_pool2d(x, 3, 2, 1, ceil_mode=True),
        lambda: torch.cat((torch.randn(1, 1, 8, 7), torch.full((1, 1, 8, 7), -float("inf")))),
    ),
    "means of windows, the edge left out": (
        lambda x: torch.nn.functional.avg_pool2d(x, 3, 2, 1, ceil_mode=True, count_include_pad=False),
        lambda: torch.randn(1, 2, 8, 7),
    ),
    "an edge that is cut and one that is added": (
        lambda x: torch.nn.functional.pad(x, (-1, 2, 1, -1), value=2.5),
        lambda: torch.randn(2, 4, 4),
    ),
    "strides of a convolution": (
        lambda t: torch.conv2d(t[0], t[1], stride=(2, 1), padding=(1, 2), dilation=(1, 2)),
        lambda: randn((1, 2, 7, 8), (3, 2, 3, 2)),
    ),
    "groups of a convolution": (
        lambda t: torch.conv1d(t[0], t[1], groups=2),
        lambda: randn((2, 4, 9), (6, 2, 3)),
    ),
}


CONVOLUTIONS: dict[str, Case] = {
    "strides, padding and dilation": (
        lambda t: torch.conv2d(t[0], t[1], t[2], stride=(2, 1), padding=(1, 2), dilation=(1, 2)),
        lambda: randn((1, 2, 7, 8), (3, 2, 3, 2), (3,)),
    ),
    "one number for all axes": (
        lambda t: torch.conv2d(t[0], t[1], stride=(2,), padding=(3,), dilation=[2]),
        lambda: randn((1, 2, 9, 10), (3, 2, 3, 2)),
    ),
    "pixels that no filter reaches": (
        lambda t: torch.conv2d(t[0], t[1], stride=3),
        lambda: randn((2, 1, 9, 8), (1, 1, 2, 2)),
    ),
    "groups": (lambda t: torch.conv1d(t[0], t[1], groups=2), lambda: randn((2, 4, 9), (6, 2, 3))),
    "a group for each channel": (
        lambda t: torch.conv2d(t[0], t[1], t[2], padding=1, groups=3),
        lambda: randn((2, 3, 5, 6), (3, 1, 3, 3), (3,)),
    ),
    "three dimensions": (
        lambda t: torch.conv3d(t[0], t[1], padding=(0, 1, 0)),
        lambda: randn((1, 2, 3, 4, 5), (2, 2, 2, 3, 1)),
    ),
    "channels last": (
        lambda t: torch.conv2d(t[0].contiguous(memory_format=torch.channels_last), t[1], padding=1),
        lambda: randn((2, 3, 5, 4), (4, 3, 3, 3)),
    ),
    "only filters": (lambda t: torch.conv2d(t[0].detach(), t[1]), lambda: randn((1, 2, 5, 5), (3, 2, 2, 2))),
    "relu before and behind": (
        lambda t: torch.relu(torch.conv1d(torch.relu(t[0]), t[1], padding=1)),
        lambda: randn((2, 2, 6), (2, 2, 3)),
    ),
}


@pytest.mark.exhaustive(fast=2)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_gradients_of_convolutions(name: str, dtype: str) -> None:
    model, made = CONVOLUTIONS[name]
    given = [t.to(getattr(torch, dtype)).requires_grad_() for t in made()]
    ours, theirs = [[t.detach().clone().requires_grad_() for t in given] for _ in range(2)]
    compiled(model)(ours).square().sum().backward()
    model(theirs).square().sum().backward()
    for mine, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(
            mine.grad, other.grad, rtol=3e-2 if dtype == "bfloat16" else 1e-5, atol=1e-4
        )


def test_gradients_of_a_convolution_are_one_kernel() -> None:
    layer = torch.nn.Conv2d(2, 3, 3, padding=1)
    found = backend.explain(layer, torch.randn(1, 2, 4, 4), training=True, options=OPTIONS)
    (ran,) = (n for n in found.nodes if n.operation == "convolution_backward.default")
    assert (ran.where, ran.why) == ("kernel", "one of the 1 of a library that is called once")


@pytest.mark.exhaustive(fast=12)
@pytest.mark.parametrize("name", CASES)
def test_tensors_of_any_kind(name: str) -> None:
    model, made = CASES[name]
    given = made()
    torch.testing.assert_close(compiled(model)(given), model(given), equal_nan=True)


def test_what_is_changed_in_place_is_changed() -> None:
    def model(x: Any, y: Any) -> Any:
        x.add_(1)
        y[:, 0] = 5
        return x * y

    first, second = [(torch.ones(2, 3), torch.ones(2, 3)) for _ in range(2)]
    torch.testing.assert_close(compiled(model)(*first), model(*second))
    torch.testing.assert_close(first, second)


@pytest.mark.parametrize("training", [False, True])
def test_norms_of_batches_keep_their_means(training: bool) -> None:
    ours, theirs = [torch.nn.BatchNorm1d(3).train(training) for _ in range(2)]
    x, fast = torch.randn(5, 3), compiled(ours)
    torch.testing.assert_close(fast(x), theirs(x))
    with torch.no_grad():
        torch.testing.assert_close(fast(x), theirs(x))
    torch.testing.assert_close(ours.running_mean, theirs.running_mean)


def test_weights_that_change_count() -> None:
    layer, x = torch.nn.Linear(4, 3), torch.randn(2, 4)
    fast = compiled(layer)
    with torch.no_grad():
        for _ in range(2):
            torch.testing.assert_close(fast(x), layer(x))
            layer.weight.data.mul_(2)
            layer.bias.add_(1)


def test_other_sizes_are_compiled_when_they_come() -> None:
    layer = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.ReLU())
    fast = compiled(layer, dynamic=True)
    with torch.no_grad():
        for size in (2, 5, 1, 5):
            x = torch.randn(size, 4)
            torch.testing.assert_close(fast(x), layer(x))


def attend(q: Any, k: Any, v: Any) -> Any:
    return ((q @ k.transpose(-1, -2)) * 0.25).softmax(-1) @ v


def embed(x: Any, table: Any, w: Any) -> Any:
    return torch.nn.functional.layer_norm(torch.relu(table[x] @ w), (8,))


def grow(x: Any, y: Any, w: Any) -> Any:
    return torch.cat([x, y], 0) @ w + 1


@pytest.mark.parametrize("largest", [64, 70])
@pytest.mark.parametrize("computed", [attend, embed, grow])
def test_one_library_serves_a_range_of_sizes(
    computed: Any, largest: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    libraries: list[Any] = []
    compile_whole = segments.compile_whole

    def counted(*given: Any, **more: Any) -> Any:
        libraries.append(compile_whole(*given, **more))
        return libraries[-1]

    def inputs(size: int) -> tuple[Any, ...]:
        numbers = torch.randn(2, 4, size, 16), torch.randn(2, 4, size, 16)
        return {
            attend: (torch.randn(2, 4, 1, 16), *numbers),
            embed: (torch.randint(0, 9, (size,)), torch.randn(9, 8), torch.randn(8, 8)),
            grow: (torch.randn(size, 8), torch.randn(1, 8), torch.randn(8, 4)),
        }[computed]

    monkeypatch.setattr(segments, "compile_whole", counted)
    fast = compiled(computed)
    with torch.no_grad():
        for size in (5, 6, 7, 8, 2, 33, 64, 6, largest):
            given = inputs(size)
            torch.testing.assert_close(fast(*given), computed(*given))
    assert len(libraries) == (2 if largest == 64 else 3)


def between(x: Any, y: Any) -> Any:
    return torch.sort(x + y)[0] * 2 + y


def pool_sorted(x: Any, y: Any) -> Any:
    return torch.nn.functional.max_pool2d(between(x, y)[None], 2)


def pick_by_size(x: Any, y: Any) -> Any:
    return x.transpose(0, 1) * x.shape[0] + torch.arange(x.shape[0]) + y[0, 0]


def pair_rows(x: Any, y: Any) -> Any:
    return (x.unflatten(0, (-1, 2)).sum(1) @ y.transpose(0, 1)).transpose(0, 1).contiguous()


def embed_in_squares(x: Any, y: Any) -> Any:
    return (x @ y.transpose(0, 1)).reshape(-1)[:: x.shape[0] + 1] + y.flatten().sum()


@pytest.mark.parametrize("computed", [between, pool_sorted, pick_by_size, pair_rows, embed_in_squares])
def test_open_sizes_compute_as_torch_does(computed: Any) -> None:
    fast = compiled(computed, dynamic=True)
    with torch.no_grad():
        for rows, columns in ((6, 5), (4, 8), (6, 6), (10, 3)):
            x, y = torch.randn(rows, columns), torch.randn(rows, columns)
            torch.testing.assert_close(fast(x, y), computed(x, y))
            turned = x.t().contiguous().t(), y
            torch.testing.assert_close(fast(*turned), computed(*turned))


@pytest.mark.parametrize(
    ("computed", "said"),
    [
        (between, "one library for sizes from 2 to 64"),
        (pool_sorted, "compiled for each set of sizes: the size 4*Max(1, "),
    ],
)
def test_explanations_say_whether_sizes_stay_open(
    computed: Any, said: str, caplog: pytest.LogCaptureFixture
) -> None:
    given = torch.randn(6, 8), torch.randn(6, 8)
    for tensor in given:
        torch._dynamo.mark_dynamic(tensor, 0)
    with caplog.at_level("INFO", logger="isamap"):
        assert said in str(backend.explain(computed, given, options=OPTIONS)).splitlines()[0]
    refused = [record for record in caplog.records if "for each set of sizes" in record.getMessage()]
    assert bool(refused) == (computed is pool_sorted)


def test_problems_with_open_sizes_compile_for_each_size(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> None:
        raise TypeError("a size has no such operator")

    monkeypatch.setattr(dynamo_backend, "open_graph", fail)
    x = torch.randn(6, 8)
    torch._dynamo.mark_dynamic(x, 0)
    told = str(backend.explain(torch.nn.ReLU(), x, options=OPTIONS))
    assert "compiled for each set of sizes: TypeError: a size has no such operator" in told
    assert "1 in kernels" in told


def test_two_threads_do_not_mix() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(32, 32), torch.nn.ReLU(), torch.nn.Linear(32, 32))
    fast, x = compiled(model), torch.randn(64, 32)
    wrong: list[int] = []
    with torch.no_grad():
        fast(x)

    def calls(seed: int) -> None:
        with torch.no_grad():
            given = x * seed
            expected = model(given)
            wrong.extend(
                n for n in range(50) if not torch.allclose(fast(given), expected, rtol=1e-4, atol=1e-5)
            )

    threads = [Thread(target=calls, args=(seed,)) for seed in (1, 2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_ties_of_a_maximum_share_its_gradient() -> None:
    x, y = [torch.tensor([[1.0, 3.0, 3.0]], requires_grad=True) for _ in range(2)]

    def highest(t: Any) -> Any:
        return t.amax(1).sum()

    compiled(highest)(x).backward()
    highest(y).backward()
    assert torch.equal(x.grad, y.grad)


def test_operations_on_elements_go_with_the_product_before_them() -> None:
    def model(x: Any, w: Any, r: Any) -> Any:
        return torch.nn.functional.gelu(x @ w).view(2, 2, 3) + r

    found = backend.explain(
        model, (torch.randn(4, 5), torch.randn(5, 3), torch.randn(2, 2, 3)), options=OPTIONS
    )
    whys = {n.operation: n.why for n in found.nodes if n.where == "kernel"}
    one = "one of the 1 of a library that is called once"
    assert whys == dict.fromkeys(("mm.default", "gelu.default", "add.Tensor"), one)


def test_a_packed_weight_that_changes_is_packed_again() -> None:
    layer, x = torch.nn.Linear(8, 16), torch.randn(3, 8)
    fast = torch.compile(layer, backend=backend.backend, options=OPTIONS | {"pack": True})
    with torch.no_grad():
        for _ in range(2):
            torch.testing.assert_close(fast(x), layer(x))
            layer.weight.mul_(2)
        layer.weight = torch.nn.Parameter(torch.randn(16, 8))
        torch.testing.assert_close(fast(x), layer(x))


VIEWS: dict[str, Case] = {
    "a product of turned matrices": (lambda t: t[0].T @ t[1].T, lambda: randn((3, 4), (5, 3))),
    "columns apart, and others turned": (lambda t: t[0][:, ::2] * 2 + t[1].T, lambda: randn((4, 6), (3, 4))),
    "one row for all": (lambda t: t[0][1].expand(5, 4) - t[1], lambda: randn((2, 4), (5, 4))),
    "parts of a result, read in other sizes": (
        lambda t: [y.reshape(2, 2, 3).exp() for y in (t[0] + 1).chunk(2, 1)],
        lambda: randn((4, 6)),
    ),
    "heads of a product": (
        lambda t: torch.matmul((q := (t[0] @ t[1]).view(4, 2, 3).transpose(0, 1)), q.transpose(1, 2)).softmax(
            -1
        ),
        lambda: randn((4, 5), (5, 6)),
    ),
}
KERNELS = {"parts of a result, read in other sizes": 2, "heads of a product": 3}
"""How many kernels views take that are not one: none of them moves elements only."""


@pytest.mark.parametrize("name", VIEWS)
def test_views_are_read_where_they_lie(name: str) -> None:
    model, made = VIEWS[name]
    given = made()
    torch.testing.assert_close(compiled(model)(given), model(given))
    torch._dynamo.reset()
    found = backend.explain(model, [given], options=OPTIONS)
    whys = {n.why for n in found.nodes if n.where == "kernel"}
    assert whys == {f"one of the {KERNELS.get(name, 1)} of a library that is called once"}


@pytest.mark.parametrize("pack", [False, True])
def test_each_node_is_rounded_as_torch_rounds_it(pack: bool) -> None:
    def model(x: Any, y: Any) -> Any:
        z = torch.where(x > y.T, (x * 1.1 + y.T) * y.T - x / 3, x.clamp(-1, 0.7))
        return z, torch.relu(z.view(8, -1) * 0.7), (z + x) * (z - y.T)

    x, y = torch.randn(64, 48).bfloat16(), torch.randn(48, 64).bfloat16()
    found = torch.compile(model, backend=backend.backend, options=OPTIONS | {"pack": pack})(x, y)
    assert all(torch.equal(ours, theirs) for ours, theirs in zip(found, model(x, y), strict=True))
