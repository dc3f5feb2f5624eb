"""Each operation of torch with a row gives what eager torch gives, as a part of one library."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

torch: Any = pytest.importorskip("torch", reason="pip install 'isamap[torch]'")
functional: Any = torch.nn.functional
attention: Any = functional.scaled_dot_product_attention

import isamap.torch as backend  # noqa: E402 - after the skip
from isamap.graph.operators.aten import POINTWISE  # noqa: E402 - after the skip
from isamap.torch.operation_rows import TABLE  # noqa: E402 - after the skip
from isamap.torch.operators import OPERATIONS, PARTS  # noqa: E402 - after the skip

OPTIONS = {"machine": "generic-c", "heuristic": "greedy", "pack": True}
PAGE = Path(__file__).parents[2] / "docs" / "torch.md"
Fragments = Mapping[str, Callable[..., Any]]
OfOne = Mapping[str, Callable[[Any], Any]]
OfTwo = Mapping[str, Callable[[Any, Any], Any]]
OfFour = Mapping[str, Callable[[Any, Any, Any, Any], Any]]


@pytest.fixture(autouse=True)
def _new_graphs() -> Iterator[None]:
    torch.manual_seed(0)
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def check(fragments: Fragments, *given: Any) -> None:
    """Compare all fragments, which are one graph, with eager torch; each has to be in the library."""

    def model(*tensors: Any) -> Any:
        found: list[Any] = []
        for fragment in fragments.values():
            results: Any = fragment(*tensors)
            found += [r.contiguous() for r in (results if type(results) is not torch.Tensor else (results,))]
        return found

    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        compiled = torch.compile(model, backend=backend.backend, options=OPTIONS)
        torch.testing.assert_close(compiled(*given), model(*given), equal_nan=True)
        found = backend.explain(model, given, options=OPTIONS)
    assert not [(n.operation, n.why) for n in found.nodes if n.where == "eager"]
    assert [kind for kind, _ in found.graphs] == ["inference"]


SPECIAL = (
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    1.5,
    2.5,
    -2.5,
    float("nan"),
    float("inf"),
    -float("inf"),
    1e-5,
    -7.25,
    30.0,
)

OF_ONE: OfOne = {
    **{
        name: getattr(torch, name)
        for name in [
            "abs",
            "neg",
            "exp",
            "exp2",
            "expm1",
            "log",
            "log2",
            "log10",
            "log1p",
            "sqrt",
            "rsqrt",
            "reciprocal",
            "sin",
            "cos",
            "tan",
            "asin",
            "acos",
            "atan",
            "sinh",
            "cosh",
            "tanh",
            "asinh",
            "acosh",
            "atanh",
            "erf",
            "sigmoid",
            "floor",
            "ceil",
            "round",
            "trunc",
            "frac",
            "sign",
            "isnan",
            "isinf",
            "isfinite",
            "nan_to_num",
        ]
    },
    **{
        name: getattr(functional, name)
        for name in [
            "silu",
            "mish",
            "hardswish",
            "hardsigmoid",
            "hardtanh",
            "softplus",
            "elu",
            "selu",
            "leaky_relu",
            "logsigmoid",
            "relu6",
        ]
    },
    "gelu by tanh": lambda x: functional.gelu(x, approximate="tanh"),
    "round to decimals": lambda x: torch.round(x, decimals=1),
    "clamp": lambda x: x.clamp(-0.5, 0.75),
}
OF_TWO: OfTwo = {
    **{
        name: getattr(torch, name)
        for name in [
            "add",
            "sub",
            "mul",
            "div",
            "pow",
            "remainder",
            "fmod",
            "floor_divide",
            "atan2",
            "maximum",
            "minimum",
            "fmax",
            "fmin",
            "eq",
            "ne",
            "lt",
            "le",
            "gt",
            "ge",
            "logical_and",
            "logical_or",
            "logical_xor",
        ]
    },
    "add a part": lambda a, b: torch.add(a, b, alpha=0.25),
    "from a number": lambda a, b: 1.5 - a,
    "divided down": lambda a, b: torch.div(a, b, rounding_mode="floor"),
    "divided to zero": lambda a, b: torch.div(a, b, rounding_mode="trunc"),
    "where": lambda a, b: torch.where(a > b, a, 0.25),
    "masked_fill": lambda a, b: a.masked_fill(b > 0, -100.0),
    "clamp by tensors": lambda a, b: torch.clamp(a, b, b + 1),
    "compared with a number": lambda a, b: a < 0.1,
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_operations_on_floats_take_special_numbers_as_torch_does(dtype: Any) -> None:
    check(OF_ONE, torch.tensor([*SPECIAL, *(2 * torch.randn(18)).tolist()]).to(dtype))


def test_operations_on_two_floats_take_special_numbers_as_torch_does() -> None:
    numbers = torch.tensor([*SPECIAL, 3.3, -0.7])
    check(OF_TWO, numbers.repeat_interleave(16), numbers.repeat(16))


@pytest.mark.parametrize("dtype", [torch.int64, torch.uint8])
def test_operations_on_integers_wrap_and_round_as_torch_does(dtype: Any) -> None:
    low = -20 if dtype.is_signed else 0
    a, b = (torch.randint(low, 20, (40,)).to(dtype) for _ in range(2))
    b = torch.where(b == 0, 1, b)
    fragments: OfTwo = {
        **{
            name: getattr(torch, name)
            for name in [
                "add",
                "sub",
                "mul",
                "div",
                "remainder",
                "fmod",
                "floor_divide",
                "maximum",
                "minimum",
                "eq",
                "ne",
                "lt",
                "ge",
                "logical_and",
                "bitwise_and",
                "bitwise_or",
                "bitwise_xor",
            ]
        },
        "not": lambda a, b: ~a,
        "shifts": lambda a, b: (a << (b.abs() % 9), a >> (b.abs() % 9)),
        "power": lambda a, b: a ** (b.abs() % 4),
        "divided down": lambda a, b: torch.div(a, b, rounding_mode="floor"),
        "with a float": lambda a, b: a + 0.5,
        "sine": lambda a, b: torch.sin(a),
        "clamp": lambda a, b: a.clamp(1, 3),
        "isnan": lambda a, b: torch.isnan(a),
        "sums": lambda a, b: (a.sum(), a.cumsum(0), a.prod(), a.amax(), a.argmin(), (a > 3).any()),
    }
    check(fragments, a, b)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.int32, torch.bool])
def test_numbers_become_numbers_of_all_types(dtype: Any) -> None:
    types = (
        torch.float64,
        torch.float32,
        torch.bfloat16,
        torch.float16,
        torch.int64,
        torch.int8,
        torch.uint8,
        torch.bool,
    )

    def converting(to: Any) -> Callable[[Any], Any]:
        return lambda x: x.to(to)

    fragments = {str(to): converting(to) for to in types if to != dtype}
    check(fragments, (torch.rand(24) * 100).to(dtype))


OF_ROWS: OfFour = {
    "attention": lambda q, k, v, m: attention(q, k, v),
    "causal attention": lambda q, k, v, m: attention(q, k, v, is_causal=True, scale=0.3),
    "attention with truths": lambda q, k, v, m: attention(q, k, v, attn_mask=m > -1),
    "attention with a mask": lambda q, k, v, m: attention(q, k, v, attn_mask=m),
    "attention to nothing": lambda q, k, v, m: attention(q, k, v, attn_mask=torch.full_like(m, -math.inf)),
    "shared heads": lambda q, k, v, m: attention(q, k[:, :2], v[:, :2], enable_gqa=True),
    "softmax": lambda q, k, v, m: (q.softmax(1), q.log_softmax(-1)),
    "products": lambda q, k, v, m: (torch.einsum("bhid,bhjd->bhij", q, k), m @ m[0], torch.dot(m[0], m[1])),
    "added products": lambda q, k, v, m: (torch.addmm(m[0], m, m, beta=0.5), torch.addmv(m[0], m, m[1])),
    "norms": lambda q, k, v, m: (
        functional.group_norm(q, 2), functional.instance_norm(q), functional.layer_norm(q, (5, 8)),
        functional.rms_norm(q, (8,)), functional.normalize(q),
    ),
    "lengths": lambda q, k, v, m: (
        torch.cdist(q, k), q.norm(p=3, dim=(1, 2)), torch.linalg.vector_norm(q, float("inf")),
        torch.linalg.vector_norm(q, 0, dim=1),
    ),
    "sums": lambda q, k, v, m: (
        q.logsumexp((1, 2)), q.cumsum(1), q.cumprod(-1), q.sum(), q.mean((1, -1), keepdim=True),
    ),
    "extremes": lambda q, k, v, m: (q.amax(1), *q.max(2), *q.min(-1, keepdim=True), q.argmax(), (q > 2).any()),
    "spreads": lambda q, k, v, m: (q.var(), q.std(1, correction=0), *torch.var_mean(q, (1, 2), keepdim=True)),
    "orders": lambda q, k, v, m: (*q.topk(3, 1), *q.topk(2, largest=False), *q.sort(-1, descending=True)),
}  # fmt: skip


def test_sums_products_and_norms_are_those_of_torch() -> None:
    check(OF_ROWS, *(torch.randn(2, 4, 5, 8) for _ in range(3)), torch.randn(5, 5))


def put(x: Any, i: Any, j: Any) -> Any:
    y = x.clone()
    y[:, i, j] = x[0, 0, :3]
    return y


OF_PLACES: OfFour = {
    "shapes": lambda x, i, j, o: (x.reshape(6, -1) + 0, x.permute(2, 0, 1), x.transpose(-1, -3)),
    "joined": lambda x, i, j, o: (torch.cat([x, x[:, :1]], 1), torch.stack([x, x + 1], -1)),
    "parts": lambda x, i, j, o: (
        x[:, 1:4:2] * 1, x[:, -1] * 1, *(t + 0 for t in x.split([1, 3], 1)), x.unbind()[1] * 2,
    ),
    "turned": lambda x, i, j, o: (x.flip(0, -1), x.roll((1, -2), (0, 2)), x.roll(3), x.repeat(2, 1, 3, 1)),
    "triangles": lambda x, i, j, o: (x.tril(-1), x.triu(1), x.diagonal(1, 1, 2) * 1, x.diagonal(-1, 0, 2) * 1),
    "borders": lambda x, i, j, o: (
        functional.pad(x, (1, 2, 0, 1), value=3.0), functional.pad(x, (-1, 2)),
        functional.pad(x, (2, 1), mode="reflect"), functional.pad(x, (2, 1), mode="replicate"),
    ),
    "blocks": lambda x, i, j, o: functional.pixel_shuffle(x.reshape(3, 4, 5, 1), 2),
    "places": lambda x, i, j, o: (
        x[i], x[:, i - 2], x[i, j], x[:, i, j], x[i, :, j], x[i[:, None], j], x[:, None, i],
    ),
    "strided": lambda x, i, j, o: (
        x.as_strided((3, 4, 5), (20, 5, 1)) + 1, x.as_strided((2, 3), (1, 7), 4) + 1,
        x.mT.contiguous().mT.as_strided((3, 2, 1), (20, 0, 9)) + 1,
    ),
    "gathered": lambda x, i, j, o: (
        x.index_select(2, i), x.gather(1, i.expand(3, 1, 3)), functional.embedding(i, x[0]),
    ),
    "scattered": lambda x, i, j, o: (
        x.scatter(1, i.expand(3, 1, 3), x), x.scatter(1, i.expand(3, 1, 3), 7.0),
        x.scatter_add(2, i.expand(3, 4, 3), x),
        x.scatter_reduce(2, i.expand(3, 4, 3), x, "mean", include_self=False),
        x.scatter_reduce(0, i.reshape(3, 1, 1).expand(3, 4, 5), x, "amax"),
    ),
    "put": lambda x, i, j, o: (
        x.index_put((i, j), x[0, 0]), x.index_put((i,), x, accumulate=True), put(x, i, j),
        x.index_add(1, i, x[:, :3], alpha=2), x.index_copy(2, i, x[..., :3]),
        torch.slice_scatter(x, x[:, :2], 1, 0, 4, 2), torch.select_scatter(x, x[:, 0], 1, -1),
    ),
    "bags": lambda x, i, j, o: (
        functional.embedding_bag(i, x[0], o), functional.embedding_bag(torch.stack([i, j]), x[0], mode="max"),
        functional.embedding_bag(torch.stack([i, j]), x[0], mode="mean", padding_idx=1),
    ),
    "made": lambda x, i, j, o: (torch.full_like(x, 2.0) + x, x + torch.arange(5), x[0, :, :4] + torch.eye(4)),
}  # fmt: skip


def test_elements_are_moved_to_where_torch_moves_them() -> None:
    check(
        OF_PLACES,
        torch.randn(3, 4, 5),
        torch.tensor([2, 0, 1]),
        torch.tensor([1, 1, 3]),
        torch.tensor([0, 2]),
    )


OF_IMAGES: OfOne = {
    "means": lambda x: (
        functional.avg_pool2d(x, 2), functional.avg_pool2d(x, 3, 2, 1, True, False),
        functional.avg_pool2d(x, 2, divisor_override=3), functional.avg_pool1d(x[0], 3, 1, 1),
        functional.adaptive_avg_pool2d(x, 1), functional.adaptive_avg_pool2d(x, (3, 3)),
    ),
    "maxima": lambda x: (
        functional.max_pool2d(x, 3, 2, 1, ceil_mode=True), *functional.max_pool2d(x, 2, return_indices=True),
        functional.max_pool1d(x[0], 2), functional.max_pool3d(x, 2, 1),
    ),
    "columns": lambda x: functional.unfold(x, 3, 1, 1, 2),
    "sizes": lambda x: (
        functional.interpolate(x, scale_factor=2.0), functional.interpolate(x, size=(9, 11), mode="bilinear"),
        functional.interpolate(x, size=(4, 9), mode="bilinear", align_corners=True),
        functional.interpolate(x, size=(9, 9), mode="bicubic"),
    ),
    "convolutions": lambda x: (
        functional.conv_transpose2d(x, x[:1, :, :3, :3].reshape(4, 1, 3, 3), None, 2, 1, 1, 2),
        functional.conv2d(x, x[:1, :, :3, :3].reshape(4, 1, 3, 3), None, 2, 2, 2, 4),
        functional.conv1d(x[0, :, :4], x[0, :, :4, :3], padding="same"),
    ),
    "norm of batches": lambda x: functional.batch_norm(x, x[0, :, 0, 0], x[0, :, 0, 1].abs()),
    "losses": lambda x: (functional.mse_loss(x, x * 0.5), functional.smooth_l1_loss(x, x * 0.5)),
}  # fmt: skip


def test_windows_over_images_are_those_of_torch() -> None:
    check(OF_IMAGES, torch.randn(2, 4, 6, 7))


aten: Any = torch.ops.aten
GRADIENTS_AND_MADE: OfTwo = {
    "units": lambda x, y: (
        aten.leaky_relu_backward(y, x, 0.1, False), aten.elu_backward(y, 1.5, 1, 1, False, x),
        aten.elu_backward(y, 1.5, 1, 1, True, x), aten.softplus_backward(y, x * 9, 1.0, 20.0),
        aten.mish_backward(y, x), aten.hardsigmoid_backward(y, x * 4), aten.glu_backward(y[:, :4], x, 1),
        *aten._prelu_kernel_backward(y, x, x[0]), aten.logit_backward(y, x.sigmoid()),
        aten.log_sigmoid_backward(y, x, aten.log_sigmoid_forward(x)[1]),
    ),
    "losses": lambda x, y: (
        aten.smooth_l1_loss_backward(y, x, y, 0, 0.7), aten.huber_loss_backward(y, x, y, 0, 0.7),
        aten.binary_cross_entropy_backward(y, x.sigmoid(), y.sigmoid()),
    ),
    "places": lambda x, y: (
        aten.select_backward(y, [5, 3, 8], 1, 2), aten.slice_backward(y, [5, 17], 1, 1, 17, 2),
        aten.unfold_backward(y[:, :6].reshape(5, 2, 3), [5, 5], 1, 3, 2),
        aten.reflection_pad1d_backward(y, x[:, :5], [2, 1]), torch.rot90(x, 3),
        torch.take(x, torch.tensor([[0, -1]])),
        aten.embedding_dense_backward(y, torch.tensor([0, 3, 3, 1, 1]), 4, 0, False),
    ),
    "sums": lambda x, y: (
        x.relu().count_nonzero(1), torch.where(x > 1, math.nan, x).nansum(0), *x.aminmax(), *y.aminmax(dim=1),
        torch.logaddexp2(x, y), torch.special.entr(x), torch.addr(x, y[:, 0], y[0], beta=0.5),
    ),
    "made tensors": lambda x, _: (
        x + torch.zeros(8), torch.full((5, 8), 7) + x, torch.arange(8) * x, torch.arange(7.5, 3.5, -0.5) - x,
        torch.ones(8) > x, torch.scalar_tensor(3.0) * x, torch.arange(8, dtype=torch.bfloat16) * x.bfloat16(),
    ),
}  # fmt: skip


def test_gradients_and_made_tensors_are_those_of_torch() -> None:
    check(GRADIENTS_AND_MADE, torch.randn(5, 8), torch.randn(5, 8))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_step_of_training_is_in_libraries(dtype: str) -> None:
    classes, words = torch.tensor([1, -100, 2]), torch.tensor([[0, 1], [3, 1], [2, 2]])

    def model(x: Any, weight: Any, norm: Any) -> Any:
        of_words = functional.embedding(words, weight, padding_idx=0).transpose(1, 2)
        y = functional.group_norm(of_words + x, 2, norm[0], norm[1])
        y = functional.max_pool2d(
            functional.leaky_relu(functional.batch_norm(y, None, None, training=True))[None], 2
        )
        return functional.cross_entropy(y[0, :, :, 0], classes)

    def given() -> list[Any]:
        torch.manual_seed(1)
        shapes = (3, 8, 2), (4, 8), (2, 8)
        return [torch.randn(s).to(getattr(torch, dtype)).requires_grad_() for s in shapes]

    ours, theirs = given(), given()
    torch.compile(model, backend=backend.backend, options=OPTIONS)(*ours).backward()
    model(*theirs).backward()
    allowed = {"rtol": 3e-2, "atol": 1e-2} if dtype == "bfloat16" else {"rtol": 1e-4, "atol": 1e-5}
    for mine, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(mine.grad, other.grad, **allowed)
    found = backend.explain(model, given(), training=True, options=OPTIONS)
    assert not [(n.operation, n.why) for n in found.nodes if n.where == "eager"]


MASK: Any = torch.tensor([[True, False] * 3, [False, True, True] * 2, [False] * 6, [True] * 6])
ATTENTION: Mapping[str, dict[str, Any]] = {
    "plain": {},
    "causal": {"is_causal": True, "scale": 0.3},
    "no keys for a query": {"attn_mask": MASK},
    "an added mask": {"attn_mask": torch.where(MASK, 0.5, -math.inf)},
    "shared keys": {"enable_gqa": True},
}
POOLS: OfOne = {
    "counts of the image": lambda x: functional.avg_pool2d(x, 3, 2, 1, True, False),
    "counts of the padding": lambda x: functional.avg_pool2d(x, (3, 2), 2, 1, True, True),
    "a divisor": lambda x: functional.avg_pool2d(x, 2, divisor_override=3),
    "volumes": lambda x: functional.avg_pool3d(x[None], (1, 3, 2), (1, 2, 2), (0, 1, 0)),
    "windows that overlap": lambda x: functional.adaptive_avg_pool2d(x, (3, 2)),
    "means of axes": lambda x: functional.adaptive_avg_pool3d(x[None], (2, 7, 1)),
}


def check_training(function: Callable[..., Any], shapes: list[tuple[int, ...]], dtype: Any = None) -> None:
    """Compare the gradients of a function with eager torch's; each node has to be in a library."""

    def given() -> list[Any]:
        torch.manual_seed(1)
        return [torch.randn(shape).to(dtype or torch.float32).requires_grad_() for shape in shapes]

    ours, theirs = given(), given()
    grads = torch.randn_like(function(*ours))
    torch.compile(function, backend=backend.backend, options=OPTIONS)(*ours).backward(grads)
    function(*theirs).backward(grads)
    allowed = {"rtol": 1e-4, "atol": 1e-5} if dtype is None else {"rtol": 3e-2, "atol": 3e-2}
    for mine, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(mine.grad, other.grad, **allowed)
    found = backend.explain(function, given(), training=True, options=OPTIONS)
    assert not [(n.operation, n.why) for n in found.nodes if n.where == "eager"]


@pytest.mark.parametrize("dtype", [None, torch.bfloat16])
@pytest.mark.parametrize("name", ATTENTION)
def test_attention_is_trained_in_libraries(name: str, dtype: Any) -> None:
    shapes = [(2, 4 if name == "shared keys" else 2, 4, 3), (2, 2, 6, 3), (2, 2, 6, 3)]

    def attend(query: Any, key: Any, value: Any) -> Any:
        return attention(query, key, value, **ATTENTION[name])

    check_training(attend, shapes, dtype)


def test_average_pools_are_trained_in_libraries() -> None:
    def pools(x: Any) -> Any:
        return torch.cat([pool(x).flatten() for pool in POOLS.values()])

    check_training(pools, [(2, 2, 7, 9)])


@pytest.mark.parametrize("is_first", [False, True])
def test_a_layer_of_an_encoder_that_torch_fuses_is_in_the_library(is_first: bool) -> None:
    layer = torch.nn.TransformerEncoderLayer
    first, second = (
        layer(8, 2, 16, activation=unit, norm_first=is_first, batch_first=True).eval()
        for unit in ("relu", "gelu")
    )
    padding, mask = torch.tensor([[False, True, True, False], [True] * 4]), torch.ones(4, 4).triu(1).bool()
    given: OfOne = {
        "plain": first,
        "padded": lambda x: second(x, src_key_padding_mask=padding),
        "masked": lambda x: second(x, src_mask=mask),
        "both": lambda x: second(x, src_mask=mask, src_key_padding_mask=padding),
    }
    check(given, torch.randn(2, 4, 8))


def table() -> str:
    """Return the table of operations as the page has it."""
    rows = ["| | operations of `aten` |", "|---|---|"]
    for about, given in TABLE.items():
        names = {*given, *(POINTWISE if about == next(iter(TABLE)) else ())}
        short = sorted({name.rpartition(".")[0] for name in names})
        rows.append(f"| {about} | {', '.join(f'`{name}`' for name in short)} |")
    others = sorted({name.partition(".")[0] for name in {*OPERATIONS, *PARTS}})
    rows.append(f"| with rows of their own | {', '.join(f'`{name}`' for name in others)} |")
    return "\n".join(rows)


def test_the_page_names_the_operations_that_have_rows() -> None:
    head, begun, rest = PAGE.read_text(encoding="utf-8").partition("<!-- operators: ")
    comment, _, shown = rest.partition("\n")
    shown, ended, _ = shown.partition("\n<!-- end of operators -->")
    assert head, begun
    assert comment.endswith("-->"), ended
    assert shown == table(), f"write this into docs/torch.md:\n{table()}"
