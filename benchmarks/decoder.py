"""A decoder of 12 layers with random weights: tokens a second, compared with torch and onnxruntime.

    python benchmarks/decoder.py decode,f32 prefill,f32 decode,bf16 decode,int4

Each layer is Llama's: norms without mean, rotary places, 8 heads in 4 groups, a cache, gated products; 512 wide,
1376 hidden, 8192 words; 35 million weights in the layers. `prefill` reads 128 tokens behind 128 cached ones,
`decode` one. bf16 is by torch alone; int4 is the file after onnxruntime's `MatMulNBitsQuantizer`: blocks of 32
weights with a scale each. Contenders take turns on one thread; rates are by least and median processor times.
`--layers N` makes a smaller model. The bound is the time in which all weights come from memory, or in which their
products take place at the peak, whichever is longer; `--bandwidth` and `--gflops` state both rates.
"""

from __future__ import annotations

import argparse
import json
import logging
import tempfile
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch
from attention import by_onnxruntime
from torch import nn
from torch_architectures import LlamaLayer, RootMeanSquare

WIDTH, HEADS, GROUPS, HIDDEN, WORDS, PAST = 512, 8, 4, 1376, 8192, 128
BITS = {"f32": 32.0, "bf16": 16.0, "int4": 4.5}
"""Bits of a weight, with its part of a scale."""
Call = Callable[[], Any]


class Decoder(nn.Module):
    """Layers of Llama, and the scores of the words that may follow the last token."""

    def __init__(self, layers: int) -> None:
        nn.Module.__init__(self)
        self.layers = nn.ModuleList(LlamaLayer(WIDTH, HEADS, GROUPS, HIDDEN) for _ in range(layers))
        self.norm, self.head = RootMeanSquare(WIDTH), nn.Linear(WIDTH, WORDS, bias=False)

    def forward(self, x: Any, place: Any, *cache: Any) -> Any:
        found: list[Any] = []
        for number, layer in enumerate(self.layers):
            x, keys, values = layer(x, cache[2 * number], cache[2 * number + 1], place)
            found += [keys, values]
        return self.head(self.norm(x[:, -1])), *found


def _file(model: Any, inputs: Sequence[Any], folder: Path, kind: str) -> Path:
    """Return the model as a file of ONNX, with weights of 4 bits where these are asked for."""
    path = folder / "decoder.onnx"
    names = ["x", "place", *(f"{part}{n}" for n in range((len(inputs) - 2) // 2) for part in "kv")]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(model, tuple(inputs), str(path), dynamo=False, opset_version=17, input_names=names)
    if kind != "int4":
        return path
    quantizer: Any = import_module("onnxruntime.quantization.matmul_nbits_quantizer")
    made = quantizer.MatMulNBitsQuantizer(
        import_module("onnx").load(path), block_size=32, is_symmetric=True, accuracy_level=4
    )
    logging.disable()
    made.process()
    made.model.save_model_to_file(str(path.with_suffix(".int4.onnx")))
    return path.with_suffix(".int4.onnx")


def _contenders(stage: str, kind: str, layers: int, folder: Path) -> tuple[dict[str, Call], int]:
    """Return the calls by contender, and the number of weights that each reads."""
    model, length = Decoder(layers).eval(), 128 if stage == "prefill" else 1
    cache = [torch.randn(1, GROUPS, PAST, WIDTH // HEADS) for _ in range(2 * layers)]
    inputs = [torch.randn(1, length, WIDTH), PAST + torch.arange(length), *cache]
    if kind == "bf16":
        model, inputs = model.bfloat16(), [x.bfloat16() if x.is_floating_point() else x for x in inputs]
    weights = sum(p.numel() for p in model.parameters() if p.dim() == 2)
    found: dict[str, Call] = {"torch": lambda: model(*inputs)[0]}
    if kind != "int4":
        backend = import_module("isamap.torch").backend
        fast = torch.compile(model, backend=backend, options={"pack": True})
        found["isamap torch"] = lambda: fast(*inputs)[0]
    if kind != "bf16":
        path = _file(model, inputs, folder, kind)
        ports = [port.name for port in import_module("onnx").load(path).graph.input]
        arrays = {name: x.numpy() for name, x in zip(ports, inputs, strict=True)}
        found["onnxruntime"] = by_onnxruntime(path, arrays)
        library = import_module("isamap.onnx").compile_model(path, "host", threads=1)
        given = {name: arrays[name] for name in library.inputs}
        found["isamap onnx"] = lambda: next(iter(library(given).values()))
    return found, weights


def measure(stage: str, kind: str, given: argparse.Namespace) -> Mapping[str, Any]:
    """Return tokens a second of each contender, its largest difference to torch, and the bound."""
    torch.manual_seed(0)
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder, torch.no_grad():
        calls, weights = _contenders(stage, kind, given.layers, Path(folder))
        expected = np.asarray(calls["torch"]().float())
        row: dict[str, Any] = {"stage": stage, "type": kind, "layers": given.layers}
        for name, call in calls.items():
            found = call()
            gap = np.abs(np.asarray(found.float() if hasattr(found, "float") else found) - expected).max()
            row[f"{name}, difference"] = float(gap / np.abs(expected).max())
        times: dict[str, list[float]] = {name: [] for name in calls}
        for _ in range(given.rounds):
            for name, call in calls.items():
                call()  # brings back the cache that others took
                for _ in range(3):
                    start = time.process_time_ns()
                    call()
                    times[name].append((time.process_time_ns() - start) / 1e9)
    tokens = 128 if stage == "prefill" else 1
    bound = max(
        weights * BITS[kind] / 8 / given.bandwidth / 1e9, 2 * weights * tokens / given.peak[kind] / 1e9
    )
    rates = {name: [round(tokens / f(of), 1) for f in (min, median)] for name, of in times.items()}
    return {**row, "bound": round(tokens / bound, 1), **rates}


def main() -> None:
    """Measure each stage and type that is named, and print a line of JSON for each."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("cases", nargs="+", metavar="STAGE,TYPE")
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--bandwidth", type=float, default=25.0, help="GB/s of memory, by one thread")
    parser.add_argument("--gflops", type=float, default=118.0, help="peak in f32; bf16 has twice as many")
    given = parser.parse_args()
    given.peak = {"f32": given.gflops, "bf16": 2 * given.gflops, "int4": given.gflops}
    for case in given.cases:
        stage, kind = case.split(",")
        print(json.dumps(measure(stage, kind, given)), flush=True)


if __name__ == "__main__":
    main()
