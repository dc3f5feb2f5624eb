"""Quantised graphs of torch become operators of integers, and compute what torch's definitions say.

Scales are powers of two, so that eager torch rounds only where it quantises: results are equal bit for bit.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from typing import Any

import pytest

torch: Any = pytest.importorskip("torch", reason="pip install 'isamap[torch]'")

import isamap.torch as backend  # noqa: E402 - after the skip
import isamap.torch.segments as segments  # noqa: E402 - after the skip

OPTIONS = {"machine": "generic-c", "pack": True}
Lowered = list[tuple[str, str]]


@pytest.fixture(autouse=True)
def _new_graphs() -> Iterator[None]:
    import_module("torch.ao.quantization.fx._decomposed")  # defines the operations
    torch.manual_seed(0)
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


@pytest.fixture
def lowered(monkeypatch: pytest.MonkeyPatch) -> Lowered:
    """Where the operators of all libraries of a test went, in their order."""
    found: Lowered = []
    lower = segments.lower_model

    def noted(*given: Any, **more: Any) -> Any:
        made = lower(*given, **more)
        found.extend((taken.node.op, taken.where) for taken in made.taken)
        return made

    monkeypatch.setattr(segments, "lower_model", noted)
    return found


def run(model: Any, *inputs: Any) -> Any:
    with torch.no_grad():
        return torch.compile(model, backend=backend.backend, options=OPTIONS)(*inputs)


def kernels(lowered: Lowered) -> list[str]:
    return [op for op, where in lowered if where == "kernel"]


def quantised(
    x: Any, scale: float, zero: int, low: int = 0, high: int = 255, dtype: Any = torch.uint8
) -> Any:
    """Return what bytes stand for that a number was rounded to, by two operations."""
    ops, terms = torch.ops.quantized_decomposed, (scale, zero, low, high, dtype)
    return ops.dequantize_per_tensor(ops.quantize_per_tensor(x, *terms), *terms)


class Weights(torch.nn.Module):
    """Bytes with a scale for each row: `self()` is what they stand for."""

    def __init__(self, *shape: int, bias: bool = True) -> None:
        torch.nn.Module.__init__(self)
        self.register_buffer("codes", torch.randint(-128, 128, shape, dtype=torch.int8))
        self.register_buffer("scales", torch.exp2(torch.randint(-9, -5, shape[:1]).float()))
        self.register_buffer("zeros", torch.zeros(shape[:1], dtype=torch.int64))
        self.register_buffer("bias", torch.randint(-64, 64, shape[:1]) / 256 if bias else None)

    def forward(self) -> Any:
        terms = self.codes, self.scales, self.zeros, 0, -128, 127, torch.int8
        return torch.ops.quantized_decomposed.dequantize_per_channel(*terms)


class Network(torch.nn.Module):
    """Convolutions with a sum of two, pools and a product, whose result is in f32."""

    def __init__(self) -> None:
        torch.nn.Module.__init__(self)
        self.first, self.second = Weights(8, 3, 3, 3), Weights(8, 8, 1, 1, bias=False)
        self.last = Weights(5, 8)

    def forward(self, image: Any) -> Any:
        functional = torch.nn.functional
        x = quantised(image, 2**-5, 119)
        x = quantised(
            functional.relu6(functional.conv2d(x, self.first(), self.first.bias, padding=1)), 2**-4, 3
        )
        y = quantised(functional.conv2d(x, self.second()), 2**-3, 100)
        x = functional.max_pool2d(quantised(torch.relu(x + y), 2**-3, 0), 2)
        x = quantised(functional.adaptive_avg_pool2d(x, 1), 2**-4, 0)
        return functional.linear(quantised(torch.flatten(x, 1), 2**-4, 0), self.last(), self.last.bias)


def test_a_network_between_bytes_is_one_library_of_integers(lowered: Lowered) -> None:
    model, image = Network().eval(), torch.randn(2, 3, 8, 8)
    assert torch.equal(run(model, image), model(image))
    others = {"Clip", "MaxPool"}  # of bytes
    assert [op for op in kernels(lowered) if op not in others] == [
        "QuantizeLinear", "QLinearConv", "QLinearConv", "QLinearAdd", "QLinearGlobalAveragePool", "QGemm",
    ]  # fmt: skip
    found = backend.explain(model, image, options=OPTIONS)
    assert {n.where for n in found.nodes} == {"kernel", "nowhere"}
    assert {n.operation for n in found.nodes} >= {"quantized_decomposed.quantize_per_tensor.default"}


def test_weights_that_change_are_read_again() -> None:
    model, x = Network().eval(), torch.randn(1, 3, 4, 4)
    with torch.no_grad():
        compiled = torch.compile(model, backend=backend.backend, options=OPTIONS)
        assert torch.equal(compiled(x), model(x))
        model.last.scales.mul_(4)
        model.first.codes.neg_()
        assert torch.equal(compiled(x), model(x))


@pytest.mark.parametrize(
    ("low", "high", "dtype"), [(0, 255, torch.uint8), (0, 127, torch.uint8), (-127, 127, torch.int8)]
)
def test_numbers_are_quantised_as_torch_does_it(low: int, high: int, dtype: Any) -> None:
    """torch multiplies by the reciprocal of a scale: a quotient rounds otherwise beside halves."""
    scale = 0.0123
    x = (torch.arange(-40_000, 40_000) / 200 + 0.5) * scale

    def model(x: Any) -> Any:
        terms = (scale, 7, low, high, dtype)
        return torch.ops.quantized_decomposed.quantize_per_tensor(x, *terms), quantised(x.relu(), *terms)

    for found, expected in zip(run(model, x), model(x), strict=True):
        assert torch.equal(found, expected)


def test_scales_that_are_chosen_in_each_call_multiply_sums_of_bytes(lowered: Lowered) -> None:
    """A weight that stays in bytes, and a left factor whose scale and zero point are computed."""
    weights, x = Weights(16, 32), torch.randn(5, 32)

    def model(x: Any) -> Any:
        ops = torch.ops.quantized_decomposed
        scale, zero = ops.choose_qparams(x, 0, 255, 2**-12, torch.uint8)
        codes = ops.quantize_per_tensor.tensor(x, scale, zero, 0, 255, torch.uint8)
        y = ops.dequantize_per_tensor.tensor(codes, scale, zero, 0, 255, torch.uint8)
        return scale, zero, codes, torch.nn.functional.linear(y, weights(), weights.bias)

    *found, product = run(model, x)
    *expected, of_torch = model(x)
    assert all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))
    torch.testing.assert_close(product, of_torch, rtol=1e-5, atol=1e-5)
    assert "QGemm" in kernels(lowered)
    assert "DequantizeLinear" not in kernels(lowered)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8])
def test_integer_products_read_the_bytes_that_they_are_given(dtype: Any) -> None:
    """Unsigned bytes above 127 are no negative ones: torchao's dynamic products rely on it."""
    codes, weights = (
        torch.randint(-128, 128, (4, 32), dtype=torch.int8),
        torch.randint(-128, 128, (32, 8), dtype=torch.int8),
    )
    x = (codes.int() + (128 if dtype is torch.uint8 else 0)).to(dtype)

    def model(x: Any, weights: Any) -> Any:
        return torch._int_mm(x, weights)

    assert torch.equal(run(model, x, weights), x.int() @ weights.int())


def test_weights_in_bytes_alone_are_widened_once(lowered: Lowered) -> None:
    """A layer as torchao writes one whose weights alone are bytes."""
    weights, x = Weights(16, 32), torch.randn(5, 32)

    def model(x: Any) -> Any:
        return torch.mm(x, weights.codes.t().to(torch.float32)) * weights.scales + weights.bias

    torch.testing.assert_close(run(model, x), model(x))
    assert [op for op, where in lowered if where == "kernel"] == ["MatMul", "Mul", "Add"]


class PackedByTorch(torch.nn.Module):
    """A product with weights of four bits in groups of 32, in the layout of torch's own product."""

    def __init__(self, depth: int, width: int, dtype: Any) -> None:
        torch.nn.Module.__init__(self)
        codes = torch.randint(0, 16, (width, depth), dtype=torch.int32)
        scales = torch.exp2(torch.randint(-4, 0, (depth // 32, width)).float())
        zeros = torch.randint(-8, 8, scales.shape) / 16
        self.register_buffer("packed", torch.ops.aten._convert_weight_to_int4pack_for_cpu(codes, 1))
        self.register_buffer("scales", torch.stack((scales, zeros), -1).to(dtype))
        spread = [t.repeat_interleave(32, 0) for t in (scales, zeros)]
        self.matrix = (codes.T - 8) * spread[0] + spread[1]

    def forward(self, x: Any) -> Any:
        return torch.relu(torch.ops.aten._weight_int4pack_mm_for_cpu(x, self.packed, 32, self.scales))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_products_with_weights_in_the_layout_of_torch_stay_in_the_library(
    dtype: Any, lowered: Lowered
) -> None:
    model = PackedByTorch(64, 64, dtype)
    x = (torch.randint(-8, 8, (3, 64)) / 8).to(dtype)
    found = run(model, x)
    assert torch.equal(found, torch.relu(x.float() @ model.matrix).to(dtype))
    assert {where for _, where in lowered} == {"kernel"}
    assert "MatMulNBits" in kernels(lowered)


class InGroups(torch.nn.Module):
    """A layer with weights of four bits, which are dequantised before the product as torchao writes it."""

    def __init__(self, low: int, groups: int, dtype: Any) -> None:
        torch.nn.Module.__init__(self)
        shape, by_group = (48, groups, 64 // groups), (48, groups, 1)
        self.register_buffer("codes", torch.randint(low, low + 16, shape, dtype=torch.int8))
        self.register_buffer("points", torch.randint(low, low + 16, by_group, dtype=torch.int8))
        self.register_buffer("scales", (torch.rand(by_group) / 8).to(dtype))
        self.register_buffer("bias", torch.randn(48).to(dtype))

    def forward(self, x: Any) -> Any:
        weights = (self.codes.to(x.dtype) - self.points.to(x.dtype)) * self.scales
        return torch.nn.functional.linear(x, weights.view(48, 64), self.bias) + x @ weights.view(48, 64).t()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(("low", "groups"), [(-8, 2), (0, 1), (-3, 4)])
def test_weights_of_four_bits_in_groups_stay_in_bytes(
    low: int, groups: int, dtype: Any, lowered: Lowered
) -> None:
    model, x = InGroups(low, groups, dtype), torch.randn(5, 64).to(dtype)
    allowed = {"rtol": 1e-5, "atol": 1e-5} if dtype is torch.float32 else {"rtol": 3e-2, "atol": 6e-2}
    torch.testing.assert_close(run(model, x), model(x), **allowed)
    assert kernels(lowered).count("MatMulNBits") == 2


def test_weights_of_more_codes_or_in_another_order_become_floats(lowered: Lowered) -> None:
    model, x = InGroups(-8, 2, torch.float32), torch.randn(5, 48)
    model.codes[0, 0, 0] = 8

    def turned(x: Any) -> Any:
        other = (model.codes.to(x.dtype) - model.points.to(x.dtype)) * model.scales
        return x @ other.view(48, 64)

    torch.testing.assert_close(run(turned, x), turned(x))
    torch.testing.assert_close(run(model, x @ torch.ones(48, 64)), model(x @ torch.ones(48, 64)))
    assert "MatMulNBits" not in kernels(lowered)
