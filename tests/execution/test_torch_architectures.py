"""Small networks of the architectures in `benchmarks/torch_architectures.py`, by torch and by ONNX."""

from __future__ import annotations

import importlib.util
import sys
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch: Any = pytest.importorskip("torch", reason="pip install 'isamap[torch]'")
pytest.importorskip("onnx", reason="pip install 'isamap[onnx]'")

import isamap.onnx  # noqa: E402 - after the skip
import isamap.torch as backend  # noqa: E402 - after the skip

OPTIONS = {"machine": "generic-c", "heuristic": "greedy", "pack": True}
ONE = "of a library that is called once"
SMALL: Mapping[str, tuple[str, dict[str, Any]]] = {
    "vit": ("vit", {"image": 8, "patch": 4, "width": 12, "depth": 1, "heads": 3, "batch": 2, "gelu": "tanh"}),
    "llama": ("llama", {"width": 24, "heads": 6, "groups": 2, "hidden": 20, "past": 5, "length": 2, "batch": 2}),
    "unet": ("unet", {"size": 8, "base": 8, "groups": 4, "heads": 2, "batch": 2}),
    "unet-transposed": ("unet", {"size": 8, "base": 4, "groups": 2, "heads": 1, "transposed": True}),
    "convnext": ("convnext", {"size": 16, "widths": (6, 10), "depth": 1, "batch": 2}),
    "mamba": ("mamba", {"width": 6, "states": 3, "rank": 2, "length": 5, "batch": 2}),
    "experts": ("experts", {"width": 6, "hidden": 10, "count": 3, "rows": 7}),
    "dlrm": ("dlrm", {"dense": 5, "width": 4, "rows": 20, "tables": 3, "each": 3, "batch": 5}),
    "wav2vec": ("wav2vec", {"width": 12, "depth": 1, "heads": 3, "window": 6, "groups": 2, "samples": 300}),
    "vocoder": ("vocoder", {"bands": 5, "width": 8, "rates": (4, 3), "windows": (3, 5), "length": 6, "batch": 2}),
}  # fmt: skip


@pytest.fixture(scope="module")
def architectures() -> Mapping[str, Any]:
    """The models of the benchmark, which is not a part of a package."""
    path = Path(__file__).resolve().parents[2] / "benchmarks" / "torch_architectures.py"
    spec = importlib.util.spec_from_file_location("torch_architectures", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules.setdefault(spec.name, module)  # where Dynamo looks for it
    spec.loader.exec_module(module)
    return module.ARCHITECTURES


@pytest.fixture(autouse=True)
def _new_graphs() -> Iterator[None]:
    torch.manual_seed(0)
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def listed(result: Any) -> list[Any]:
    return [*result] if type(result) is tuple else [result]


@pytest.mark.exhaustive(fast=2)
@pytest.mark.parametrize("name", SMALL)
def test_a_model_is_right_and_one_library(name: str, architectures: Mapping[str, Any]) -> None:
    kind, sizes = SMALL[name]
    model, inputs = architectures[kind](**sizes)
    model.eval()
    with torch.no_grad():
        fast = torch.compile(model, backend=backend.backend, options=OPTIONS)
        for mine, theirs in zip(listed(fast(*inputs)), listed(model(*inputs)), strict=True):
            torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-5)
        found = backend.explain(model, inputs, options=OPTIONS)
    assert {n.where for n in found.nodes} <= {"kernel", "nowhere"}
    assert all(ONE in n.why for n in found.nodes if n.where == "kernel")


@pytest.mark.exhaustive(fast=1)
@pytest.mark.parametrize("name", [*SMALL, "experts-sparse"])
def test_a_model_that_torch_exports_is_right(
    name: str, architectures: Mapping[str, Any], tmp_path: Path
) -> None:
    kind, sizes = SMALL.get(name, (name, SMALL["experts"][1]))
    model, inputs = architectures[kind](**sizes)
    model.eval()
    path = str(tmp_path / "model.onnx")
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")  # that this exporter is an old one
        torch.onnx.export(model, tuple(inputs), path, dynamo=False, opset_version=17)
        expected = [t.numpy() for t in listed(model(*inputs))]
    compiled = isamap.onnx.compile_model(path, "generic-c")
    given = dict(zip(compiled.inputs, (t.numpy() for t in inputs), strict=True))
    for mine, theirs in zip(compiled(given).values(), expected, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-4, atol=1e-5)


def test_sizes_that_data_decides_leave_the_rest_in_kernels(architectures: Mapping[str, Any]) -> None:
    model, (x,) = architectures["experts-sparse"](**SMALL["experts"][1])
    with torch.no_grad(), torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        for rows, is_dynamic in ((7, False), (9, True)):
            torch._dynamo.reset()
            fast = torch.compile(model, backend=backend.backend, options=OPTIONS, dynamic=is_dynamic)
            for _ in range(2):  # another routing
                x = torch.randn(1, rows, 6)
                torch.testing.assert_close(fast(x), model(x), rtol=1e-4, atol=1e-5)
        found = backend.explain(model, x, options=OPTIONS)
    in_kernels = {n.operation.removesuffix(".default") for n in found.nodes if n.where == "kernel"}
    assert {"mm", "_softmax", "topk"} <= in_kernels
