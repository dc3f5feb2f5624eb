"""Networks exported from torch, as onnxruntime's optimiser and its quantisers write them, are imported whole.

They compute what onnxruntime does, within a few steps of the last scale where they are quantised.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx_models import run_by_onnxruntime

from isamap.graph.graph import Array
from isamap.onnx import compile_model, import_model

for package in ("onnx", "torch", "onnxruntime", "onnxruntime.transformers.optimizer"):
    pytest.importorskip(package, reason=f"these networks are made by {package}")

WIDTH, HEADS, LENGTH, WORDS = 32, 4, 6, 50
MLP, RECURRENT = (3, 20), (5, 2, 12)


def networks() -> dict[str, tuple[Any, dict[str, Any]]]:
    """Return small networks of torch with their inputs."""
    torch: Any = import_module("torch")
    nn, functional = torch.nn, torch.nn.functional

    class Block(nn.Module):
        def __init__(self, *, is_first: bool) -> None:
            super().__init__()  # pyright: ignore[reportUnknownMemberType] - torch is not typed
            self.q, self.k, self.v, self.o = (nn.Linear(WIDTH, WIDTH) for _ in range(4))
            self.before, self.behind = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
            self.wide, self.narrow, self.is_first = nn.Linear(WIDTH, 64), nn.Linear(64, WIDTH), is_first

        def attended(self, x: Any, mask: Any) -> Any:
            batch, length, _ = x.shape
            q, k, v = (
                part(x).view(batch, length, HEADS, WIDTH // HEADS).permute(0, 2, 1, 3)
                for part in (self.q, self.k, self.v)
            )
            scores = q @ k.transpose(-1, -2) / (WIDTH // HEADS) ** 0.5 + mask
            return self.o((scores.softmax(-1) @ v).permute(0, 2, 1, 3).reshape(batch, length, WIDTH))

        def forward(self, x: Any, mask: Any) -> Any:
            if self.is_first:  # as GPT has it: norms before
                x = x + self.attended(self.before(x), mask)
                return x + self.narrow(functional.gelu(self.wide(self.behind(x)), approximate="tanh"))
            x = self.before(x + self.attended(x, mask))
            return self.behind(x + self.narrow(functional.gelu(self.wide(x))))

    class Encoder(nn.Module):
        def __init__(self) -> None:
            super().__init__()  # pyright: ignore[reportUnknownMemberType] - torch is not typed
            self.words, self.places, self.kinds = (nn.Embedding(n, WIDTH) for n in (WORDS, 16, 2))
            self.norm, self.blocks = (
                nn.LayerNorm(WIDTH),
                nn.ModuleList(Block(is_first=False) for _ in range(2)),
            )

        def forward(self, ids: Any, mask: Any, kinds: Any) -> Any:
            places = torch.arange(ids.shape[1])[None]
            x = self.norm(self.words(ids) + self.kinds(kinds) + self.places(places))
            added = (1.0 - mask[:, None, None, :].to(x.dtype)) * -10000.0
            for block in self.blocks:
                x = block(x, added)
            return x

    class Decoder(nn.Module):
        def __init__(self) -> None:
            super().__init__()  # pyright: ignore[reportUnknownMemberType] - torch is not typed
            self.words, self.places = nn.Embedding(WORDS, WIDTH), nn.Embedding(16, WIDTH)
            self.norm, self.blocks = (
                nn.LayerNorm(WIDTH),
                nn.ModuleList(Block(is_first=True) for _ in range(2)),
            )
            self.register_buffer("mask", torch.triu(torch.full((LENGTH, LENGTH), -10000.0), 1))

        def forward(self, ids: Any) -> Any:
            x = self.words(ids) + self.places(torch.arange(ids.shape[1])[None])
            for block in self.blocks:
                x = block(x, self.mask)
            return self.norm(x) @ self.words.weight.T

    class Recurrent(nn.Module):
        def __init__(self, kind: Any) -> None:
            super().__init__()  # pyright: ignore[reportUnknownMemberType] - torch is not typed
            self.inside, self.last = kind(RECURRENT[2], 16, bidirectional=True), nn.Linear(32, 5)

        def forward(self, x: Any) -> Any:
            return self.last(self.inside(x)[0])

    ids = torch.randint(0, WORDS, (2, LENGTH))
    mask, kinds = torch.ones_like(ids), torch.zeros_like(ids)
    mask[0, 4:], kinds[:, 3:] = 0, 1
    mlp = nn.Sequential(nn.Linear(MLP[1], 33), nn.ReLU(), nn.Linear(33, 17), nn.Sigmoid(), nn.Linear(17, 5))
    return {
        "encoder": (Encoder(), {"input_ids": ids, "attention_mask": mask, "token_type_ids": kinds}),
        "decoder": (Decoder(), {"input_ids": ids}),
        "mlp": (mlp, {"x": torch.randn(MLP)}),
        "lstm": (Recurrent(nn.LSTM), {"x": torch.randn(RECURRENT)}),
        "gru": (Recurrent(nn.GRU), {"x": torch.randn(RECURRENT)}),
    }


@contextmanager
def silent() -> Generator[None]:
    """Without the warnings of exporters and quantisers, which these networks cause."""
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(logging.NOTSET)


def exported(name: str, folder: Path) -> tuple[Path, dict[str, Array]]:
    torch: Any = import_module("torch")
    torch.manual_seed(0)
    network, inputs = networks()[name]
    path = folder / f"{name}.onnx"
    torch.onnx.export(network.eval(), tuple(inputs.values()), path, input_names=list(inputs), output_names=["y"],
                      dynamo=False, opset_version=17)  # fmt: skip
    return path, {name: value.numpy() for name, value in inputs.items()}


def optimised(kind: str, level: int, path: Path, inputs: Mapping[str, Array]) -> Path:
    optimizer: Any = import_module("onnxruntime.transformers.optimizer")
    made = optimizer.optimize_model(
        str(path), model_type=kind, num_heads=HEADS, hidden_size=WIDTH, opt_level=level
    )
    changed = path.with_suffix(".optimised.onnx")
    made.save_model_to_file(str(changed))
    return changed


FLOAT = {"DefaultTensorType": 1}
"""The type of results of operators that ONNX's shape inference does not know."""


def quantised(path: Path, inputs: Mapping[str, Array], **options: Any) -> Path:
    quantization: Any = import_module("onnxruntime.quantization")
    changed = path.with_suffix(".dynamic.onnx")
    quantization.quantize_dynamic(path, changed, extra_options=FLOAT, **options)
    return changed


def calibrated(kind: str, path: Path, inputs: Mapping[str, Array]) -> Path:
    quantization: Any = import_module("onnxruntime.quantization")

    class Samples(quantization.CalibrationDataReader):
        def __init__(self) -> None:
            self.left = [inputs] * 2

        def get_next(self) -> Mapping[str, Array] | None:
            return self.left.pop() if self.left else None

    changed, form = path.with_suffix(".static.onnx"), getattr(quantization.QuantFormat, kind)
    quantization.quantize_static(
        path, changed, Samples(), quant_format=form, per_channel=kind == "QDQ", extra_options=FLOAT
    )
    return changed


def of_few_bits(kind: str, path: Path, inputs: Mapping[str, Array]) -> Path:
    """Weights of 4 bits in blocks, as MatMulNBits or as DequantizeLinear with `block_size`."""
    nbits: Any = import_module("onnxruntime.quantization.matmul_nbits_quantizer")
    form = getattr(import_module("onnxruntime.quantization").QuantFormat, kind)  # type: ignore[attr-defined]
    onnx: Any = import_module("onnx")
    made = nbits.MatMulNBitsQuantizer(onnx.load(path), block_size=16, is_symmetric=False, quant_format=form)
    made.process()
    changed = path.with_suffix(".few.onnx")
    made.model.save_model_to_file(str(changed), use_external_data_format=False)
    return changed


Step = Callable[[Path, Mapping[str, Array]], Path]
BERT, GPT = (partial(optimised, kind, 0) for kind in ("bert", "gpt2"))
QUICK: dict[str, tuple[str, list[Step], set[str], float]] = {
    "encoder optimised, its weights in bytes": (
        "encoder",
        [BERT, quantised],
        {"QAttention", "SkipLayerNormalization", "BiasGelu", "DynamicQuantizeLinear"},
        0.02,
    ),
}
SLOW: dict[str, tuple[str, list[Step], set[str], float]] = {
    "encoder": ("encoder", [], {"Softmax"}, 1e-5),
    "encoder optimised": ("encoder", [BERT], {"Attention", "SkipLayerNormalization", "BiasGelu"}, 1e-5),
    "encoder optimised by the runtime": (
        "encoder",
        [partial(optimised, "bert", 1)],
        {"Attention", "Gelu"},
        1e-5,
    ),
    "encoder in bytes": ("encoder", [partial(calibrated, "QDQ")], {"QuantizeLinear"}, 0.03),
    "encoder in operators of bytes": (
        "encoder",
        [partial(calibrated, "QOperator")],
        {"QLinearSoftmax"},
        0.03,
    ),
    "encoder optimised, in bytes": ("encoder", [BERT, partial(calibrated, "QDQ")], {"Attention"}, 0.03),
    "encoder of 4 bits": ("encoder", [partial(of_few_bits, "QOperator")], {"MatMulNBits"}, 1e-5),
    "encoder of 4 bits in nodes": ("encoder", [partial(of_few_bits, "QDQ")], {"DequantizeLinear"}, 1e-5),
    "decoder optimised": ("decoder", [GPT], {"FastGelu"}, 1e-5),
    "decoder optimised, its weights in bytes": ("decoder", [GPT, quantised], {"MatMulInteger"}, 0.02),
    "decoder of 4 bits": ("decoder", [GPT, partial(of_few_bits, "QOperator")], {"MatMulNBits"}, 1e-5),
    "mlp, its weights in bytes": ("mlp", [partial(quantised, per_channel=True)], {"MatMulInteger"}, 0.02),
    "mlp in bytes": ("mlp", [partial(calibrated, "QDQ")], {"QuantizeLinear"}, 0.03),
    "mlp in operators of bytes": (
        "mlp",
        [partial(calibrated, "QOperator")],
        {"QGemm", "QLinearSigmoid"},
        0.03,
    ),
    "lstm, its weights in bytes": ("lstm", [quantised], {"DynamicQuantizeLSTM"}, 0.02),
    "gru, its weights in bytes": ("gru", [quantised], {"GRU", "MatMulInteger"}, 0.02),
}


def check(made: tuple[str, list[Step], set[str], float], folder: Path, machine: str) -> None:
    onnx: Any = import_module("onnx")
    with silent():
        path, inputs = exported(made[0], folder)
        for step in made[1]:
            path = step(path, inputs)
    model = onnx.load(path)
    assert made[2] <= {node.op_type for node in model.graph.node}
    (wanted,) = run_by_onnxruntime(model, inputs)
    compiled = compile_model(import_model(path), machine, heuristic="greedy")
    (found,) = compiled({name: inputs[name] for name in compiled.inputs}).values()
    np.testing.assert_allclose(found, wanted, rtol=0, atol=made[3] * float(np.abs(wanted).max()))


@pytest.mark.parametrize("name", QUICK)
def test_what_onnxruntime_makes_of_a_network_is_imported_whole(name: str, tmp_path: Path) -> None:
    check(QUICK[name], tmp_path, "generic-c")


@pytest.mark.exhaustive
@pytest.mark.parametrize("machine", ["generic-c", "x86-avx2"])
@pytest.mark.parametrize("name", SLOW)
def test_each_tool_of_onnxruntime_writes_what_is_imported_whole(
    name: str, machine: str, tmp_path: Path
) -> None:
    check(SLOW[name], tmp_path, machine)
