"""`torch.compile(model, backend=isamap)`: what it computes is what torch computes, and it says where."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

torch: Any = pytest.importorskip(
    "torch", reason="the backend of torch.compile needs torch: pip install 'isamap[torch]'"
)

import isamap.torch as backend  # noqa: E402 - after the skip

ONE = "one of the {} of a library that is called once"
OPTIONS = {"machine": "generic-c"}  # on which a kernel is compiled in half a second


@pytest.fixture(autouse=True)
def _new_graphs() -> Iterator[None]:
    torch.manual_seed(0)
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def compiled(model: Any) -> Any:
    return torch.compile(model, backend=backend.backend, options=OPTIONS)


def mlp() -> Any:
    layers = torch.nn
    return layers.Sequential(layers.Linear(8, 16), layers.ReLU(), layers.Linear(16, 4))


def test_a_model_gives_what_torch_gives() -> None:
    model, x = mlp(), torch.randn(3, 8)
    with torch.no_grad():
        torch.testing.assert_close(compiled(model)(x), model(x))


def test_a_table_says_where_each_node_ran() -> None:
    found = backend.explain(mlp(), torch.randn(3, 8), options=OPTIONS)
    assert {n.operation: n.where for n in found.nodes} == {
        "t.default": "nowhere",
        "addmm.default": "kernel",
        "relu.default": "kernel",
    }
    assert {n.why for n in found.nodes if n.where == "kernel"} == {ONE.format(2)}
    title, _, *rows = str(found).splitlines()
    assert title == "inference: 5 nodes, 3 in kernels, 0 by torch"
    assert [row.split("  ")[:2] for row in rows] == [["addmm … addmm_1", "addmm, relu"]]
    assert len(str(replace(found, every=True)).splitlines()) == 2 + 5


def test_what_no_kernel_performs_is_named_and_runs_in_torch() -> None:
    def model(x: Any) -> Any:
        return torch.cummax(x.sum(1), 0).values

    x = torch.randn(4, 3)
    found = backend.explain(model, x, options=OPTIONS)
    assert [(n.operation, n.where, n.why) for n in found.nodes if n.where == "eager"] == [
        ("cummax.default", "eager", "it has no kernel here")
    ]
    torch.testing.assert_close(compiled(model)(x), model(x))


def test_a_choice_between_a_tensor_and_a_number_is_in_a_kernel() -> None:
    def model(x: Any) -> Any:
        return torch.where(x > 0, x, torch.zeros(())), torch.where(x > 1, x, 2 * x)

    x = torch.randn(4, 3)
    torch.testing.assert_close(compiled(model)(x), model(x))
    found = backend.explain(model, x, options=OPTIONS)
    assert {n.where for n in found.nodes if n.operation == "where.self"} == {"kernel"}


def test_further_arguments_of_an_operation_count() -> None:
    def model(x: Any) -> Any:
        y = torch.sub(x, torch.add(x, x * x, alpha=0.25), alpha=2)
        return y, torch.nn.functional.softplus(x, 2.0, 3.0)

    x = torch.randn(4, 3)
    torch.testing.assert_close(compiled(model)(x), model(x))


def between(x: Any) -> Any:
    y = torch.cummax(torch.relu(x + 1).sum(1), 0).values * 2
    return y - x.mean(), torch.logcumsumexp(y, 0) + y


def test_a_node_without_an_operator_lies_between_two_libraries() -> None:
    x = torch.randn(4, 3)
    found = backend.explain(between, x, options=OPTIONS)
    assert {n.operation: n.why for n in found.nodes} == {
        **dict.fromkeys(("relu.default", "sum.dim_IntList", "mean.default"), library(0, 3, kernels=3)),
        "cummax.default": "it has no kernel here",
        **dict.fromkeys(("mul.Tensor", "sub.Tensor"), library(1, 3, kernels=1)),
        "logcumsumexp.default": "it has no kernel here",
        "add.Tensor": library(2, 3, kernels=1),
    }
    for ours, theirs in zip(compiled(between)(x), between(x), strict=True):
        torch.testing.assert_close(ours, theirs)


def library(number: int, count: int, *, kernels: int) -> str:
    return f"one of the {kernels} of library {number}, of {count} that are each called once"


def test_an_option_that_is_not_there_is_refused() -> None:
    with pytest.raises(Exception, match="the backend `isamap` has no option `machin`"):
        torch.compile(mlp(), backend=backend.backend, options={"machin": "host"})(torch.randn(3, 8))


@pytest.mark.parametrize(
    ("options", "variables", "message"),
    [
        ({"machine": "nowhere.yaml"}, {}, "nowhere.yaml cannot be read"),
        ({"machine": "generic-c", "heuristic": "none"}, {}, "`none`"),
        ({"machine": "generic-c"}, {"ISAMAP_CC": "nowhere"}, "names the compiler `nowhere`"),
    ],
    ids=["machine", "heuristic", "compiler"],
)
def test_torch_performs_no_graph_in_place_of_an_error(
    options: dict[str, Any], variables: dict[str, str], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of them left all nodes to torch without a word."""
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(Exception, match=message):
        torch.compile(mlp(), backend=backend.backend, options=options)(torch.randn(3, 8))


@pytest.mark.parametrize(("pack", "dtype"), [(False, torch.bfloat16), (True, torch.float32)])
def test_a_zero_that_equals_its_bound_keeps_its_sign(pack: bool, dtype: Any) -> None:
    functional = torch.nn.functional

    def limited(x: Any) -> tuple[Any, ...]:
        bounds = [(0.0, None), (None, 0.0), (-0.0, 6.0), (0.0, 0.0), (2.0, 0.0)]
        clamped = [torch.clamp(x, low, high) for low, high in bounds]
        return (*clamped, torch.relu(x), functional.relu6(x), functional.hardtanh(x, -1, 0), torch.tanh(x))

    x = torch.tensor([-0.0, 0.0, -1.0, 1.0, torch.nan] * 5, dtype=dtype)
    found = torch.compile(limited, backend=backend.backend, options={**OPTIONS, "pack": pack})(x)
    for ours, theirs in zip(found, limited(x), strict=True):
        torch.testing.assert_close(ours, theirs, equal_nan=True)
        known = ~torch.isnan(theirs)
        assert torch.equal(torch.signbit(ours[known]), torch.signbit(theirs[known]))
